"""Kernels of the user's own: a Gram matrix of all draws, or a function of two sets of draws.

With K = L Lᵀ the rows of L are functions of the draws whose squared distance of expectations is the
squared maximum mean discrepancy (w − v)ᵀ K (w − v). A Cholesky factor that always takes the draw
next whose remainder is the largest (pivoted; Harbrecht, Peters & Schneider 2012) stops when nothing
is left, or after `most` columns, and needs one column of K for each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stancoreset.checks import as_numbers
from stancoreset.engines import Float
from stancoreset.errors import DataError
from stancoreset.limits import ROUNDING, cuts

#: What `stancoreset.thin` takes as a kernel.
Kernel: TypeAlias = "ArrayLike | Callable[[Float, Float], ArrayLike]"


@dataclass(frozen=True)
class Gram:
    """k(x_i, x_j) of S draws with weights v: its `diagonal` (S,), and K v, the `mean` (S,).

    `columns` maps positions (n,) to K of all draws and these, (S, n).
    """

    diagonal: Float = field(repr=False)
    mean: Float = field(repr=False)
    weights: Float = field(repr=False)
    columns: Callable[[NDArray[np.int64]], Float] = field(repr=False)

    def factor(self, most: int = 1_000) -> NDArray[np.float32]:
        """L (S, r), with K ≈ L Lᵀ; a DataError if K is not positive semi-definite."""
        left, trace = self.diagonal.copy(), float(self.diagonal.sum())
        found = np.zeros((len(left), min(most, len(left))))
        for rank in range(found.shape[1]):
            pivot = int(np.argmax(left))
            if left[pivot] <= ROUNDING * trace:
                found = found[:, :rank]
                break
            column = self.columns(np.array([pivot]))[:, 0]
            column = column - found[:, :rank] @ found[pivot, :rank]
            found[:, rank] = column / float(left[pivot]) ** 0.5
            left -= found[:, rank] ** 2
        self._require_definite(found, left)
        return found.astype(np.float32)

    def _require_definite(self, found: Float, left: Float, checked: int = 20) -> None:
        """Raise unless the remainder R of the factor may be one: |R_ij|² ≤ R_ii R_jj."""
        some = np.linspace(0, len(left) - 1, min(checked, len(left))).astype(np.int64)
        rest = self.columns(some) - found @ found[some].T
        slack = 1e-6 * float(self.diagonal.max())
        positive = np.maximum(left, 0.0)
        most = np.sqrt(positive[:, np.newaxis] * positive[some]) + slack
        if left.min() < -slack or np.any(np.abs(rest) > most):
            raise DataError(
                "kernel is not positive semi-definite: its Gram matrix has a negative eigenvalue; "
                "expected a kernel, such as exp(-distance**2 / 2)"
            )

    def discrepancy(self, places: NDArray[np.int64], weights: Float) -> float:
        """The maximum mean discrepancy of few weighted draws from all."""
        own = self.columns(places)[places]
        mean = float(weights @ self.mean[places])
        squared = float(weights @ own @ weights) - 2 * mean + float(self.weights @ self.mean)
        return max(0.0, squared) ** 0.5


def gram_of(kernel: Any, draws: Float, weights: Float, most: int = 20_000) -> Gram:
    """Check a kernel at draws (S, D) with weights (S,).

    A DataError is raised if it is neither a symmetric matrix (S, S) nor a function that gives one,
    or not finite.
    """
    count = len(draws)
    if callable(kernel):
        if count > most:
            raise DataError(
                f"kernel is a function, and there are {count:,} draws; expected at most {most:,}, "
                "of which all pairs are evaluated: thin them before, with functions='moments'"
            )

        def columns(places: NDArray[np.int64]) -> Float:
            return _evaluated(kernel, draws, draws[places])

    else:
        matrix = as_numbers("kernel", kernel, "a Gram matrix or a function", DataError)
        if matrix.shape != (count, count):
            raise DataError(
                f"kernel has shape {matrix.shape}, but there are {count:,} draws: expected their "
                f"Gram matrix, ({count}, {count}), or a function of two arrays of draws"
            )

        def columns(places: NDArray[np.int64]) -> Float:
            return np.asarray(matrix[:, places], dtype=np.float64)

    diagonal, mean = np.empty(count), np.zeros(count)
    for places in (np.arange(count)[cut] for cut in cuts(count, numbers=200)):
        block = columns(places)
        wrong = ~np.isfinite(block)
        if wrong.any():
            raise DataError(f"kernel is {block[wrong][0]:g} for a pair of draws; expected finite")
        diagonal[places] = block[places, np.arange(len(places))]
        mean += block @ weights[places]
        other = block[places]
        if not np.allclose(other, other.T, rtol=1e-6, atol=1e-9 * (1 + np.abs(other).max())):
            raise DataError("kernel is not symmetric: k(x, y) differs from k(y, x)")
    if diagonal.min() < 0 or diagonal.max() <= 0:
        raise DataError(
            f"kernel is {diagonal.min():g} for a draw and itself; expected positive numbers"
        )
    return Gram(diagonal, mean, weights, columns)


def _evaluated(kernel: Callable[[Float, Float], ArrayLike], x: Float, y: Float) -> Float:
    try:
        values = np.asarray(kernel(x, y), dtype=np.float64)
    except Exception as error:  # any error of a foreign function
        raise DataError(
            f"kernel fails for draws of shapes {x.shape} and {y.shape}: {type(error).__name__}: "
            f"{error}"
        ) from error
    if values.shape != (len(x), len(y)):
        raise DataError(
            f"kernel gives shape {values.shape} for {len(x):,} and {len(y):,} draws; expected "
            f"({len(x)}, {len(y)}), a number for each pair"
        )
    return values
