"""What a quadratic leaves of the log likelihood, as a sum over units and what they share.

With the rows' weights as parameters, the gradient along them is the log likelihood of every row:
one call evaluates all rows, whatever the program.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from stancoreset.engines import BoundModel, Float, StanData
from stancoreset.errors import ReferenceFitError
from stancoreset.program.session import Session
from stancoreset.program.without_rows import Psi
from stancoreset.reference import PriorTimesQuadratic
from stancoreset.rows import Blocks, Costs, FullData, Matrix, quadratic_terms
from stancoreset.rows.tables import StoredRows
from stancoreset.selection.hermite import groups_of_rows, indicators


@dataclass(frozen=True)
class RemaindersByUnit:
    """r_0 and r_j: log likelihoods of rows, less the terms of a quadratic.

    Attributes
    ----------
    rows : BoundModel
        The likelihood in ψ, with the weights of rows as last parameters.
    seen : Psi
        ψ at unconstrained draws.
    density : PriorTimesQuadratic
    of_rows : matrix, shape (N, J + 1)
        The weight of each row, in the column of its unit; rows of no unit are in the last.
    of_terms : matrix, shape (p, J)
        The unit of each coordinate of the quadratic.
    passes : Costs
        Counts what is evaluated.
    """

    rows: BoundModel
    seen: Psi
    density: PriorTimesQuadratic
    of_rows: Matrix = field(repr=False)
    of_terms: Matrix = field(repr=False)
    passes: Costs = field(repr=False)

    def __call__(self, draws: Float) -> tuple[Float, Float]:
        """r_0 (M,), and r_j (M, J), at unconstrained draws (M, P)."""
        density, psi = self.density, self.density.seen(draws)
        shared = np.diff(self.of_terms.indptr) == 0
        terms = quadratic_terms(psi - density.centre, density.gradient, density.curvature, shared)
        log_lik = np.asarray(self.log_lik(draws) @ self.of_rows)
        common = log_lik[:, -1] - density.quadratic(psi)[0] + terms.sum(axis=1)
        return common, log_lik[:, :-1] - np.asarray(terms @ self.of_terms)

    def log_lik(self, draws: Float) -> Float:
        """Log likelihoods of all rows, (M, P) → (M, N)."""
        self.passes.add(gradients=len(draws))
        return _log_lik(self.rows, self.seen(draws))


@contextmanager
def remainders_by_unit(
    session: Session,
    checked: StanData,
    full: FullData,
    seen: Psi,
    density: PriorTimesQuadratic,
    units: Blocks,
    draws: Float,
) -> Iterator[RemaindersByUnit]:
    """What prior × quadratic leaves of the likelihood of units, groups of the parameters (P,).

    Which unit a row belongs to, and which what the rows see, is found by moving coordinates around
    the draws (S, P).

    Raises
    ------
    ReferenceFitError
        If rows are on disk, or their weights cannot be parameters without a compilation.
    """
    other = session.likelihood
    compiled = None if isinstance(checked, StoredRows) else other.with_weights_as_parameters()
    if compiled is None or full.row_numbers is None:
        raise ReferenceFitError("log likelihoods of rows are not evaluated together")
    data = other.program.subset(checked, full.row_numbers)
    count, where = 1 + int(units.group.max()), (draws.mean(axis=0), draws.std(axis=0))
    with compiled.bind(data) as rows:
        of_row = groups_of_rows(lambda at: _log_lik(rows, seen(at)), *where, units)
        of_rows = indicators(np.where(of_row < 0, count, of_row), count + 1)
        of_rows.data *= full.row_weights
        of_terms = indicators(groups_of_rows(density.seen, *where, units), count)
        yield RemaindersByUnit(rows, seen, density, of_rows, of_terms, full.passes)


def _log_lik(rows: BoundModel, psi: Float, at_once: int = 64) -> Float:
    """Log likelihoods of rows whose weights are the last parameters, (M, p) → (M, N)."""
    size = psi.shape[1]
    found = np.empty((len(psi), rows.n_params - size))
    for begin in range(0, len(psi), at_once):
        here = slice(begin, begin + at_once)
        points = np.hstack([psi[here], np.zeros((len(psi[here]), found.shape[1]))])
        found[here] = rows.log_density_gradient(points)[1][:, size:]
    return np.where(np.isnan(found), -np.inf, found)
