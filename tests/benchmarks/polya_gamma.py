"""Gibbs sampling of groups' logistic regressions on all rows, without Stan: Pólya–Gamma.

Given ω_n ~ PG(1, η_n) the logistic likelihood of a row is that of a normal pseudo-observation
(y_n − ½)/ω_n of η_n with precision ω_n. Slopes, intercept and all groups' effects are then jointly
normal given the groups' standard deviation τ, and integrate out in closed form, since groups meet
only through the slopes: τ is drawn given ω alone, by slice sampling, and all others given τ and ω.
The intercept's Student-t prior is a scale mixture of normals. Whether a program is centred is
nothing to the sampler: only priors and what is reported differ.

References
----------
Polson, Scott & Windle (2013), Bayesian inference for logistic models using Pólya–Gamma latent
variables, JASA 108. Neal (2003), Slice sampling, Annals of Statistics 31.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]

# Degrees of freedom and scale of the priors of ``GROUPED_CODE``.
NU, SCALE = 3.0, 2.5
# Precisions of slope and intercept a priori in `hierarchical_centred`, where τ ~ N⁺(0, 1).
CENTRED = np.array([2.5**-2, 2.0**-2])
# Iterations of a batch, whose means tell the Monte-Carlo error.
_BATCH = 50


@dataclass(frozen=True)
class Moments:
    """Means, standard deviations, and standard errors of the means: slopes, intercept, τ, effects.

    Attributes
    ----------
    mean, sd, mcse : ndarray, shape (K + 2 + J,)
    """

    mean: Float = field(repr=False)
    sd: Float = field(repr=False)
    mcse: Float = field(repr=False)

    @classmethod
    def of_batches(cls, sums: Float, squares: Float, batches: Float) -> Moments:
        """Moments from sums over all iterations, and the means of batches of them, (B, D)."""
        count = _BATCH * len(batches)
        mean = sums / count
        error = batches.std(axis=0, ddof=1) / np.sqrt(len(batches))
        return cls(mean, np.sqrt(squares / count - mean**2), error)


@dataclass(frozen=True)
class _Rows:
    """Rows sorted by group: predictors with a one, (N, K + 1), groups (N,), y − ½, and edges."""

    x: Float
    group: NDArray[np.intp]
    kappa: Float
    edges: NDArray[np.intp]

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> _Rows:
        group = np.asarray(data["J_1"]) - 1
        order = np.argsort(group, kind="stable")
        x = np.column_stack([data["Xc"], np.ones(len(group))])[order]
        edges = np.searchsorted(group[order], np.arange(data["N_1"] + 1))
        return cls(x, group[order], np.asarray(data["Y"])[order] - 0.5, edges)

    def by_group(self, values: Float) -> Float:
        """Sums over each group's rows."""
        sums = np.concatenate([np.zeros((1, *values.shape[1:])), np.cumsum(values, axis=0)])
        return np.diff(sums[self.edges], axis=0)


@dataclass(frozen=True)
class _Given:
    """What is normal given ω and the prior's precision of slopes and intercept."""

    rows: _Rows
    shared: Float
    cross: Float
    own: Float
    along_shared: Float
    along_groups: Float
    centred: bool

    @classmethod
    def omega(cls, rows: _Rows, omega: Float, prior: Float, centred: bool) -> _Given:
        weighted = omega[:, None] * rows.x
        return cls(
            rows,
            rows.x.T @ weighted + np.diag(prior),
            rows.by_group(weighted),
            rows.by_group(omega),
            rows.x.T @ rows.kappa,
            rows.by_group(rows.kappa),
            centred,
        )

    def at(self, log_tau: float) -> tuple[float, Float, Float, Float]:
        """Log density of log τ; groups' precisions, the root of the rest's, and L⁻¹ its mean."""
        own = self.own + np.exp(-2 * log_tau)
        root = np.linalg.cholesky(self.shared - self.cross.T @ (self.cross / own[:, None]))
        middle = np.linalg.solve(root, self.along_shared - self.cross.T @ (self.along_groups / own))
        squared = np.exp(2 * log_tau)
        student = 0.5 * (NU + 1) * np.log1p(squared / (NU * SCALE**2))
        density = (
            0.5 * middle @ middle
            - np.log(np.diag(root)).sum()
            + 0.5 * np.sum(self.along_groups**2 / own - np.log(own))
            - len(own) * log_tau
            - (0.5 * squared if self.centred else student)
            + log_tau
        )
        return float(density), own, root, middle

    def of_log_tau(self, points: Float) -> Float:
        """Log densities of log τ."""
        return np.array([self.at(point)[0] for point in points])


def gibbs(
    data: Mapping[str, Any],
    iterations: int,
    seed: int = 0,
    slopes: float = 0.0,
    *,
    centred: bool = False,
) -> Moments:
    """Run one chain on data of ``GROUPED_CODE``; the first tenth is left out.

    `slopes` is the precision of the slopes' normal prior, which that program does not have. With
    `centred` the program is `hierarchical_centred`, and effects are the groups' own intercepts.
    """
    from polyagamma import random_polyagamma

    rng = np.random.default_rng(seed)
    if centred:
        data = {"Xc": data["x"], "Y": data["y"], "J_1": data["g"], "N_1": data["J"]}
    rows = _Rows.of(data)
    width = rows.x.shape[1]
    prior = CENTRED if centred else np.full(width, slopes)
    shared, effects, log_tau = np.zeros(width), np.zeros(len(rows.edges) - 1), 0.0
    step = 2.0 / np.sqrt(len(effects))  # about twice the standard deviation of log τ
    sums = squares = batch = np.zeros(width + 1 + len(effects))
    batches: list[Float] = []
    for i in range(-(iterations // 10), iterations // _BATCH * _BATCH):
        if not centred:
            mixed = 0.5 * NU + 0.5 * (shared[-1] / SCALE) ** 2
            prior[-1] = rng.gamma(0.5 * (NU + 1)) / mixed / SCALE**2
        eta = rows.x @ shared + effects[rows.group]
        omega = random_polyagamma(1.0, eta, random_state=rng)
        given = _Given.omega(rows, omega, prior, centred)
        log_tau = sliced(given.of_log_tau, np.array([log_tau]), step, rng)[0]
        _, own, root, middle = given.at(log_tau)
        shared = np.linalg.solve(root.T, middle + rng.standard_normal(width))
        effects = (given.along_groups - given.cross @ shared) / own
        effects = effects + rng.standard_normal(len(own)) / np.sqrt(own)
        if i < 0:
            continue
        told = effects + shared[-1] if centred else effects
        drawn = np.concatenate([shared, [np.exp(log_tau)], told])
        sums, squares, batch = sums + drawn, squares + drawn**2, batch + drawn / _BATCH
        if i % _BATCH == _BATCH - 1:
            batches.append(batch)
            batch = np.zeros_like(drawn)
    return Moments.of_batches(sums, squares, np.array(batches))


def sliced(
    density: Callable[[Float], Float], start: Float, step: float, rng: np.random.Generator
) -> Float:
    """The next of many independent points by slice sampling, with steps out of this width.

    `density` maps points, (K,), to the logarithm of each one's density, (K,).
    """
    level = density(start) - rng.exponential(size=start.shape)
    low = start - step * rng.uniform(size=start.shape)
    high = low + step
    while np.any(above := density(low) > level):
        low = np.where(above, low - step, low)
    while np.any(above := density(high) > level):
        high = np.where(above, high + step, high)
    found = rng.uniform(low, high)
    while np.any(below := density(found) <= level):
        low = np.where(below & (found < start), found, low)
        high = np.where(below & (found >= start), found, high)
        found = np.where(below, rng.uniform(low, high), found)
    return found
