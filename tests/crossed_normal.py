"""The exact posterior of ``y ~ x + (1 | s) + (1 | d)`` with normal errors, without sampling.

Given the standard deviations of both factors and of the errors everything else is normal, and the
levels of s integrate out in closed form, since they meet only levels of d and the shared slopes.
What is left is a density of three logarithms of scales, whose moments are taken by Gauss–Hermite
quadrature around its mode. The program is ``tests/pairs/movielens_crossed.stan`` with one
predictor; the intercept's Student-t prior, which is 100 times as wide as the posterior, is replaced
by its second-order expansion at the posterior's mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from scipy.stats import t as student

Float = NDArray[np.float64]

# Location, scale and degrees of freedom of the intercept's prior; those of the scales start at 0.
_PLACE, _SCALE, _NU = 4.0, 2.5, 3.0
_NODES = 5
# Step of the second differences at the mode, in logarithms of scales.
_STEP = 0.02

__all__ = ["Given", "exact"]


@dataclass(frozen=True)
class Given:
    """Sums over rows of which everything is a function: of slope, intercept and d (G), and s."""

    data: Mapping[str, Any] = field(repr=False)
    place: float = _PLACE

    def __post_init__(self) -> None:
        data, n = self.data, int(self.data["N"])
        x = np.asarray(data["X"])[:, 1]
        wide = np.column_stack([x - x.mean(), np.ones(n)])
        one, other = (
            sparse.csr_array(
                (np.ones(n), (np.arange(n), data[f"J_{k}"] - 1)), shape=(n, data[f"N_{k}"])
            )
            for k in (1, 2)
        )
        shared, y = sparse.hstack([wide, other], format="csr"), np.asarray(data["Y"], float)
        sums = {
            "count": np.asarray(one.sum(axis=0)),
            "corner": (shared.T @ shared).toarray(),
            "cross": (one.T @ shared).toarray(),
            "along": shared.T @ y,
            "own": one.T @ y,
            "squares": float(y @ y),
        }
        for name, value in sums.items():
            object.__setattr__(self, f"_{name}", value)

    def at(self, scales: Float) -> tuple[float, Float, Float]:
        """Log density of log sd_1, log sd_2 and log σ; means and variances of all else given it.

        All else are slope, intercept, levels of d, levels of s.
        """
        sums: Any = self
        tau, other, sigma = np.exp(scales)
        own = sums._count / sigma**2 + tau**-2
        away = self.place - _PLACE
        spread = _NU * _SCALE**2 + away**2
        bend = (_NU + 1) * (spread - 2 * away**2) / spread**2
        prior = np.full(len(sums._corner), other**-2)
        prior[:2] = 0.0, bend
        right, left = sums._along / sigma**2, sums._own / sigma**2
        right[1] += bend * self.place - (_NU + 1) * away / spread
        cross = sums._cross / sigma**2
        schur = sums._corner / sigma**2 + np.diag(prior) - cross.T @ (cross / own[:, None])
        root = cho_factor(schur, lower=True)
        right = right - cross.T @ (left / own)
        mean = cho_solve(root, right)
        inverse = cho_solve(root, np.eye(len(mean)))
        slopes = cross / own[:, None]
        variance = 1 / own + np.sum((slopes @ inverse) * slopes, axis=1)
        density = 0.5 * (right @ mean + np.sum(left**2 / own) - sums._squares / sigma**2)
        density -= np.log(np.diag(root[0])).sum() + 0.5 * np.log(own).sum()
        density -= len(own) * scales[0] + (len(mean) - 2) * scales[1]
        density -= self.data["N"] * scales[2]
        density += float(np.sum(student.logpdf(np.exp(scales) / _SCALE, _NU) + scales))
        moments = np.concatenate([mean, (left - cross @ mean) / own])
        return float(density), moments, np.concatenate([np.diag(inverse), variance])


def exact(data: Mapping[str, Any]) -> dict[str, tuple[Float, Float]]:
    """Means and standard deviations of b, Intercept, r_1_1, r_2_1, sd_1, sd_2 and sigma."""
    given = Given(data)
    start = np.log(np.std(data["Y"]) * np.array([0.3, 0.4, 0.9]))
    found = minimize(
        lambda v: -given.at(v)[0], start, method="Nelder-Mead", options={"xatol": 1e-3}
    )
    mode = found.x
    given = Given(data, place=float(given.at(mode)[1][1]))
    steps = _STEP * np.eye(3)
    bend = np.array(
        [
            [
                sum(s * t * given.at(mode + s * a + t * b)[0] for s in (1, -1) for t in (1, -1))
                for b in steps
            ]
            for a in steps
        ]
    )
    root = np.linalg.cholesky(np.linalg.inv(-bend / (4 * _STEP**2)))
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    logs, firsts, seconds = [], [], []
    for chosen in product(range(_NODES), repeat=3):
        z = nodes[list(chosen)]
        scales = mode + root @ z
        density, mean, variance = given.at(scales)
        sizes = np.exp(scales)
        logs.append(density + 0.5 * z @ z + np.log(weights[list(chosen)]).sum())
        firsts.append(np.concatenate([sizes, mean]))
        seconds.append(np.concatenate([sizes**2, variance + mean**2]))
    share = np.exp(np.array(logs) - max(logs))
    share /= share.sum()
    first = share @ np.array(firsts)
    sd = np.sqrt(share @ np.array(seconds) - first**2)
    levels = int(data["N_2"])
    places = {"sd_1": 0, "sd_2": 1, "sigma": 2, "b": 3, "Intercept": 4}
    parts = {name: slice(k, k + 1) for name, k in places.items()}
    parts |= {"r_2_1": slice(5, 5 + levels), "r_1_1": slice(5 + levels, None)}
    return {name: (first[part], sd[part]) for name, part in parts.items()}
