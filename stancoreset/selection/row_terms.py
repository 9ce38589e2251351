"""Each row's log likelihood to second order around ψ₀: its value, gradient and Hessian.

Engines provide only values of a row's log likelihood, no gradient, and printing them is costly.
With ψ = ψ₀ + F z, F Fᵀ the posterior covariance of ψ, second derivatives in z are differences

    u'Hu = [f(ψ₀ + s F u) − 2 f(ψ₀) + f(ψ₀ − s F u)] / s²    for u = e_i and u = e_i + e_j,

which take p (p + 1) points whatever the number of draws. Along rays they take two per draw.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from stancoreset.engines import Float, RowModel
from stancoreset.limits import cuts
from stancoreset.selection.expansion import Expansion
from stancoreset.selection.projection import finite_log_lik

#: Step of second differences, as a share of a draw's displacement: truncation (h²) against
#: rounding (1/h²).
STEP = 1e-2


@dataclass(frozen=True)
class RowTerms:
    """Terms of M rows in p coordinates z, with ψ₀ and F from the `expansion`.

    They are the `value` (M,), the `slopes` (p, M), and the `bends` (p (p + 1) / 2, M), the upper
    triangle of each row's Hessian, by row.
    """

    expansion: Expansion = field(repr=False)
    value: Float = field(repr=False)
    slopes: Float = field(repr=False)
    bends: Float = field(repr=False)

    @staticmethod
    def points(expansion: Expansion) -> int:
        """The number of points evaluated besides the centre."""
        p = len(expansion.columns)
        return p * (p + 1)

    @classmethod
    def of(cls, pool: RowModel, expansion: Expansion) -> RowTerms:
        """Compute the terms from differences of the rows' log likelihoods."""
        value = finite_log_lik(pool, expansion.centre[None])[0]
        p = len(expansion.columns)
        first, second = np.triu_indices(p)
        step = STEP * np.sqrt(p)  # a draw's |z| is about √p
        directions = np.zeros((len(first), p))
        directions[np.arange(len(first)), first] = 1
        directions[np.arange(len(first)), second] = 1
        steps = np.zeros((len(first), len(expansion.centre)))
        steps[:, expansion.columns] = step * directions @ expansion.factor.T
        bends = np.empty((len(first), len(value)))
        slopes = np.empty((p, len(value)))
        for block in cuts(len(first), 2 * len(value)):
            both = np.concatenate([steps[block], -steps[block]])
            ahead, behind = np.split(finite_log_lik(pool, expansion.centre + both), 2)
            bends[block] = (ahead + behind - 2 * value) / step**2
            alone = np.flatnonzero(first[block] == second[block])
            slopes[first[block][alone]] = (ahead[alone] - behind[alone]) / (2 * step)
        diagonal = bends[first == second].copy()
        for k in np.flatnonzero(first != second):
            bends[k] -= diagonal[first[k]] + diagonal[second[k]]
            bends[k] /= 2
        return cls(expansion, value, slopes, bends)

    def at(self, draws: Float) -> tuple[Float, Float]:
        """First- and second-order terms of every row at each draw: (S, P) → (S, M) each."""
        columns = self.expansion.columns
        delta = draws[:, columns] - self.expansion.centre[columns]
        z = np.linalg.solve(self.expansion.factor, delta.T).T
        first, second = np.triu_indices(len(columns))
        products = z[:, first] * z[:, second]
        products[:, first == second] /= 2
        return z @ self.slopes, products @ self.bends
