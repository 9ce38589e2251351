"""Marginals in high dimension: what thousands of groups leave of each single parameter.

The log weight r(θ) of thousands of groups is a sum of as many terms. Each may leave very little and
all together enough to make importance weights useless: their efficiency is about exp(−Var r), and
their noise, sd(r)/√S, hides what single parameters do. But a mean moves, to first order, by

    Cov(θ_k, r) = Σ_j V_kj E[∂_j r]

where θ is normal with covariance V (Stein's identity), and gradients are local: ∂_k r does not
depend on the remainders of groups to which θ_k does not belong. So r is approximated by the
quadratic

    M(θ) = gᵀθ + ½ θᵀCθ,      ∂_k M ≈ ∂_k r   by least squares at the certificate's draws,

with C block diagonal: squares and products of the coordinates of a group, and of those that all
share. (Products of both would be as many as coordinates times shared ones, and fit these draws.)
Its remainder e = r − M has gradients of mean zero, and so no part along any coordinate:
thousands of products of three coordinates, and of levels of two factors, which cancel in every
marginal. Where groups meet only through shared coordinates γ, M = M_0(γ) + Σ_j M_j(θ_j, γ), groups
are independent given γ, and the marginal distribution of θ_j and γ has the weight

    exp(M_0(γ) + M_j(θ_j, γ) + Σ_{h≠j} m_h(γ) + ½ E[e² | γ]),      m_h(γ) = log E[exp M_h | γ]

with conditional means by least squares on γ. Where many coordinates are shared, as levels of a
second factor are, it is exp(M(θ) + ½ E[e² | γ]) for all.

Where what a group leaves is known exactly, as a sum over its rows, r_j(θ_j, γ) takes the place of
M_j in the weight of its own coordinates, and leaves nothing out of these. Of shared coordinates
M_h, of smaller variance, tell more: r_h add up to the noise of r.

What is left out is seen: of draws of different chains, 1 and 2, the mean over coordinates of
Cov₁(θ_k, e) Cov₂(θ_k, e) is the mean square of what e still moves, whatever the noise of each.

The mean of an average over groups is the average of their means, and is judged too, relative to the
average's own standard deviation: what all groups are off by alike, be it too little to see in any,
it would show √J times as much. Nothing is promised of other functions of many groups' parameters.

References
----------
Stein (1981), "Estimation of the mean of a multivariate normal distribution", Annals of Statistics
9(6).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines import Float
from stancoreset.limits import NOISE
from stancoreset.posterior.arviz import with_normal_scores
from stancoreset.posterior.digits import percent
from stancoreset.posterior.importance import LEAST_DRAWS, smoothed_weights
from stancoreset.posterior.rule import RULE
from stancoreset.rows import Blocks

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Marginals:
    """Changes that the full data make to each parameter's marginal distribution.

    Attributes
    ----------
    mean_shift, sd_change : ndarray, shape (P,)
        Change of each unconstrained coordinate's mean, in standard deviations, and of its standard
        deviation, relative.
    names : tuple of str
        Of the coordinates.
    average_shift : float
        Largest change of the mean of an average over groups, in the average's standard deviations.
    efficiency, khat : float
        Importance efficiency, and Pareto k̂, of the weights of the shared coordinates.
    least_efficiency, largest_khat : float
        The smallest efficiency of a group's weights, and the largest k̂ of those below 99 %.
    left : float
        Variance of the log weights that marginals leave out.
    unseen_shift, unseen_change : float
        Root mean square of what they leave out of means, and of standard deviations.
    groups : int
        Number of groups.
    """

    mean_shift: Float = field(repr=False)
    sd_change: Float = field(repr=False)
    names: tuple[str, ...] = field(repr=False)
    average_shift: float
    efficiency: float
    khat: float
    least_efficiency: float
    largest_khat: float
    left: float
    unseen_shift: float
    unseen_change: float
    groups: int

    @property
    def _scalars(self) -> dict[str, float]:
        """What holds for all coordinates."""
        each = ("mean_shift", "sd_change", "names")
        return {name: value for name, value in vars(self).items() if name not in each}

    @property
    def moved(self) -> tuple[float, float]:
        """The largest change of a mean, averages over groups included, and of an sd."""
        shift = max(float(np.max(np.abs(self.mean_shift))), self.average_shift)
        return shift, float(np.max(np.abs(self.sd_change)))

    @property
    def ways(self) -> tuple[tuple[float, float], ...]:
        """k̂ and efficiency of the weights of shared coordinates, and of groups."""
        return (self.khat, self.efficiency), (self.largest_khat, self.least_efficiency)

    def __str__(self) -> str:
        shift, change = np.max(np.abs(self.mean_shift)), np.max(np.abs(self.sd_change))
        least = min(self.efficiency, self.least_efficiency)
        return (
            f"marginals of {self.groups:,} groups (efficiency {percent(least)}, a mean moves by "
            f"{shift:.2g} sd, an average over groups by {self.average_shift:.2g} sd, an sd by "
            f"{100 * change:.2g} %)"
        )

    def describe(self) -> dict[str, float]:
        """Plain values for a report."""
        return self._scalars | {
            "mean_shift": float(np.max(np.abs(self.mean_shift))),
            "sd_change": float(np.max(np.abs(self.sd_change))),
        }

    def to_frame(self) -> pd.DataFrame:
        """Each coordinate's shift of mean and change of sd; what holds of all is in every row."""
        import pandas as pd

        each = {"parameter": self.names, "mean_shift": self.mean_shift, "sd_change": self.sd_change}
        return pd.DataFrame({**each, **self._scalars})

    @classmethod
    def of_frame(cls, table: pd.DataFrame) -> Marginals:
        """Read the table that `to_frame` returned."""
        each: dict[str, Any] = {
            name: table[name].to_numpy(np.float64) for name in ("mean_shift", "sd_change")
        }
        names = tuple(map(str, table["parameter"]))
        others = table.drop(columns=[*each, "parameter"])
        about = {str(name): others[name].iloc[0].item() for name in others}
        return cls(**each, names=names, **about)


def enough_draws(count: int, blocks: Blocks) -> bool:
    """Whether `count` draws suffice for means of groups given shared coordinates."""
    return count >= max(LEAST_DRAWS, RULE.draws_each * (1 + len(blocks.shared)))


def marginals_of(
    log_weights: Float,
    gradients: Float,
    draws: Float,
    blocks: Blocks,
    names: Sequence[str],
    sums: Float | None = None,
    few: int = 4,
    most_left: float = 1.0,
    unexplained: float = 0.03,
) -> Marginals | None:
    """The marginals by log weights (S,), and their gradients (S, P), at draws (S, P).

    Draws are those of chains, one after the other. `sums` are r_j, (S, J), up to functions of the
    shared coordinates, if they are known and draws are enough, see `enough_draws`.

    None if draws are too few for the coordinates that groups share, or if more is left out than can
    be neglected: gradients of a funnel, where effects and their scale are far from normal, do not
    tell what moves. Coordinates without a variance are judged by their normal scores, as in
    `moved_by`.

    >>> rng = np.random.default_rng(0)
    >>> theta = rng.standard_normal((1000, 401))
    >>> blocks, names = Blocks(np.arange(401) - 1), [f"z.{j}" for j in range(401)]
    >>> slopes = np.where(np.arange(401) > 0, 0.05, 0.0)  # towards N(0.05, 1)
    >>> found = marginals_of(theta @ slopes, np.tile(slopes, (1000, 1)), theta, blocks, names)
    >>> bool(np.all(np.abs(found.mean_shift[1:] - 0.05) < 0.01))
    True
    >>> round(found.average_shift)  # of 400 groups alike: √400 · 0.05
    1
    """
    count, wide = len(draws), len(blocks.shared)
    if count < max(LEAST_DRAWS, few * (1 + wide)) or not np.all(np.isfinite(gradients)):
        return None
    centre, sd = draws.mean(axis=0), np.maximum(draws.std(axis=0), np.finfo(float).tiny)
    scaled = (draws - centre) / sd
    shared, local = _quadratic(gradients * sd, scaled, blocks)
    total = shared + local.sum(axis=1)
    beyond = log_weights - np.mean(log_weights) - (total - np.mean(total))
    some = [scaled] if sums is None else []
    some += [scaled[:, blocks.shared]] if wide else []
    shift = max((_rms(beyond, x) for x in some), default=0.0)
    change = max((0.5 * _rms(beyond, x**2 - 1.0) for x in some), default=0.0)
    if not (np.var(beyond) <= most_left and max(shift, change) <= unexplained):
        return None
    basis = _functions(scaled[:, blocks.shared])
    shared = shared + 0.5 * _fitted(beyond**2, basis)
    theta = with_normal_scores(np.asarray(draws, dtype=np.float64)[None])[0][0]
    spread = np.maximum(theta.std(axis=0), np.finfo(float).tiny)
    standard = (theta - theta.mean(axis=0)) / spread
    if count >= RULE.draws_each * (1 + wide):
        left = local if sums is None else sums
        found = _by_group(standard, blocks, shared, local, basis, left)
    else:
        found = _alike(standard, shared + local.sum(axis=1))
    return Marginals(
        **found._asdict(),
        names=tuple(names),
        average_shift=_of_averages(theta, found.mean_shift * spread, names),
        left=float(np.var(beyond)),
        unseen_shift=shift,
        unseen_change=change,
        groups=sum(len(block) for block in blocks.members),
    )


# --- the quadratic ---------------------------------------------------------------------------


def _quadratic(gradients: Float, scaled: Float, blocks: Blocks) -> tuple[Float, Float]:
    """M_0 (S,) and M_j (S, J), whose gradients are closest to these at draws of mean zero."""
    slopes = gradients.mean(axis=0)
    local = np.zeros((len(scaled), int(blocks.group.max()) + 1))
    for own in _pieces(blocks):
        along = scaled[:, own]
        bent = np.einsum("sja,jab->sjb", along, _bends(along, gradients[:, own]))
        local[:, blocks.group[own[:, 0]]] = np.sum(along * (slopes[own] + 0.5 * bent), axis=2)
    together = blocks.shared
    along, wanted = scaled[:, together], gradients[:, together]
    if len(scaled) >= RULE.draws_each * len(together):
        bent = along @ _bends(along[:, None], wanted[:, None])[0]
    else:
        bent = along * np.mean(along * wanted, axis=0)
    return np.sum(along * (slopes[together] + 0.5 * bent), axis=1), local


def _bends(along: Float, wanted: Float) -> Float:
    """Second derivatives (J, b, b) of functions with these gradients, (S, J, b), in groups."""
    gram = np.einsum("sja,sjb->jab", along, along) + NOISE * len(along) * np.eye(along.shape[2])
    found = np.linalg.solve(gram, np.einsum("sja,sjb->jab", along, wanted))
    return np.asarray(0.5 * (found + found.swapaxes(1, 2)))


def _pieces(blocks: Blocks, at_once: int = 256) -> Iterator[NDArray[np.intp]]:
    """Coordinates of some groups of one size b at a time, (J, b)."""
    for block in blocks.members:
        yield from np.array_split(block, -(-len(block) // at_once))


def _functions(shared: Float) -> Float:
    """Orthonormal functions of the shared coordinates, (S, F): to second order, or to first."""
    count, width = shared.shape
    linear = np.column_stack([np.ones(count), shared])
    first, second = np.triu_indices(width)
    if count >= RULE.draws_each * (linear.shape[1] + len(first)):
        linear = np.column_stack([linear, shared[:, first] * shared[:, second]])
    return np.asarray(np.linalg.qr(linear)[0])


def _fitted(values: Float, basis: Float) -> Float:
    """Least squares of values (S,) on an orthonormal basis, shrunk by what chance explains of them.

    That is R² adjusted for the number of functions.
    """
    count, width = basis.shape
    fitted = basis @ (basis.T @ values)
    mean, spread = np.mean(values), float(np.var(values))
    explained = float(np.var(fitted)) / max(spread, np.finfo(float).tiny)
    adjusted = 1.0 - (1.0 - explained) * (count - 1) / (count - width)
    share = max(0.0, adjusted) / max(explained, np.finfo(float).tiny)
    return np.asarray(mean + share * (fitted - mean))


# --- weights ---------------------------------------------------------------------------------


class _Found(NamedTuple):
    """Changes of means and sds by weights, with the weights' efficiency and k̂."""

    mean_shift: Float
    sd_change: Float
    efficiency: float
    khat: float
    least_efficiency: float
    largest_khat: float


def _alike(scaled: Float, log_weights: Float) -> _Found:
    """Changes of every coordinate, of mean zero and sd one, (S, P), by the same weights."""
    weights, khat = smoothed_weights(log_weights)
    efficiency = float(_efficiency(weights))
    return _Found(*_changes(weights, scaled), efficiency, khat, efficiency, khat)


def _by_group(
    scaled: Float, blocks: Blocks, shared: Float, local: Float, basis: Float, sums: Float
) -> _Found:
    """Changes of shared coordinates, and of each group's own, by weights of their own.

    The weights of a group's own coordinates are by `sums`, what groups leave, (S, J).
    """
    pieces = list(_pieces(blocks))
    shift, change = np.zeros(scaled.shape[1]), np.zeros(scaled.shape[1])
    common = shared.copy()
    for own in pieces:
        common += _given(local[:, blocks.group[own[:, 0]]], basis).sum(axis=1)
    best, khat = smoothed_weights(common)
    together = blocks.shared
    shift[together], change[together] = _changes(best, scaled[:, together])
    efficiencies, khats = [], [0.0]
    for own in pieces:
        here = sums[:, blocks.group[own[:, 0]]]
        weights, tails = _normalised(common[:, None] + here - _given(here, basis))
        efficiencies.append(_efficiency(weights))
        khats.extend(tails)
        shift[own], change[own] = _changes(weights[:, :, None], scaled[:, own])
    least = float(np.min(np.concatenate(efficiencies)))
    return _Found(shift, change, float(_efficiency(best)), khat, least, float(np.max(khats)))


def _efficiency(weights: Float) -> Float:
    """Importance efficiency of weights that sum to one over draws, the first axis."""
    return np.asarray(1 / np.sum(weights**2, axis=0) / len(weights))


def _given(local: Float, basis: Float, least: float = -0.5) -> Float:
    """m_j(γ) of some groups, (S, J): the log of E[exp M_j | γ], by least squares on γ."""
    mean = basis @ (basis.T @ local)
    excess = basis @ (basis.T @ np.expm1(local - mean))
    return np.asarray(mean + np.log1p(np.maximum(excess, least)))


def _normalised(log_weights: Float, even: float = 0.99) -> tuple[Float, list[float]]:
    """Weights that sum to one over draws, (S, J), smoothed where they vary; and these ones' k̂."""
    weights = np.exp(log_weights - log_weights.max(axis=0))
    weights /= weights.sum(axis=0)
    khats = []
    for j in np.flatnonzero(_efficiency(weights) < even):
        weights[:, j], khat = smoothed_weights(log_weights[:, j])
        khats.append(khat)
    return weights, khats


def _changes(weights: Float, scaled: Float) -> tuple[Float, Float]:
    """Changes of means and sds, by weights, of coordinates of mean zero and sd one.

    Both are (S, J, 1) and (S, J, b), or (S,) and (S, G).
    """
    weights = weights[:, None] if weights.ndim == 1 else weights
    mean = np.sum(weights * scaled, axis=0)
    return mean, np.sqrt(np.sum(weights * (scaled - mean) ** 2, axis=0)) - 1.0


# --- averages, and what is left out ----------------------------------------------------------


def _of_averages(theta: Float, moved: Float, names: Sequence[str], many: int = 20) -> float:
    """Largest change of the mean of an average over a parameter's elements, in the average's sds.

    Elements differ in one index of a coordinate's name, such as ``b.12.1``.
    """
    kinds: dict[tuple[str, ...], list[int]] = {}
    for place, name in enumerate(names):
        parts = name.split(".")
        for k in range(1, len(parts)):
            kinds.setdefault((*parts[:k], "", *parts[k + 1 :]), []).append(place)
    largest = 0.0
    for some in kinds.values():
        if len(some) >= many:
            spread = max(float(theta[:, some].sum(axis=1).std()), np.finfo(float).tiny)
            largest = max(largest, abs(float(moved[some].sum())) / spread)
    return largest


def _rms(beyond: Float, functions: Float) -> float:
    """Root mean square of covariances with functions of draws, (S, K), by two halves of these."""
    half = len(beyond) // 2
    found = []
    for some in (slice(0, half), slice(half, None)):
        centred = beyond[some] - beyond[some].mean()
        found.append(centred @ functions[some] / len(centred))
    return float(np.sqrt(max(0.0, np.mean(found[0] * found[1]))))
