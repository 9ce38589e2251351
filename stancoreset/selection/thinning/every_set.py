"""The best of all sets of draws, where there are few."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls


def few_sets(draws: int, size: int, most: int = 1_000) -> bool:
    """Whether all sets of `size` draws can be tried.

    >>> few_sets(12, 6), few_sets(4000, 2)
    (True, False)
    """
    return comb(draws, size) <= most


def best_set(
    phi: NDArray[np.float32], target: NDArray[np.float64], size: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The columns and weights that minimise ‖Φw − b‖ on the simplex, over all sets of `size`.

    On the simplex Φw − b = Σ w_n (φ_n − b), and with u = s·w the minimum over s of
    ‖Σ u_n (φ_n − b)‖² + (1 − Σ u_n)² rises with ‖Σ w_n (φ_n − b)‖², so that non-negative least
    squares finds w. The columns are rotated to as many dimensions as there are draws first.

    >>> phi = np.array([[0.0, 1.0, 2.0, 5.0]], dtype=np.float32)
    >>> best_set(phi, np.array([1.4]), 1)[0].tolist()
    [1]
    """
    columns = phi.astype(np.float64) - target[:, np.newaxis]
    rotated = np.vstack([np.linalg.qr(columns, mode="r"), np.ones(columns.shape[1])])
    wanted = np.zeros(len(rotated))
    wanted[-1] = 1.0
    least, best = np.inf, (np.zeros(0, dtype=np.int64), np.zeros(0))
    for places in combinations(range(columns.shape[1]), size):
        u, error = nnls(rotated[:, places], wanted)
        if error < least:
            keep = u > 0
            least, best = error, (np.array(places)[keep], u[keep] / u.sum())
    return best
