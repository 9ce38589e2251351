"""Marginals by local weights: what thousands of groups leave of each single parameter.

Where parameters θ_j of many groups meet only through shared ones γ, the log weight is a sum,

    log r(θ) = r_0(γ) + Σ_j r_j(θ_j, γ)

and given γ groups are independent, under the full posterior and under the coreset's. Each may leave
very little and all together enough to make the weights useless: their efficiency is about
exp(−Σ_j Var r_j), whatever a single group does. But the marginal distribution of θ_j and γ is that
of the coreset posterior with the weight

    exp(r_0(γ) + r_j(θ_j, γ) + Σ_{h≠j} m_h(γ)),      m_h(γ) = log E[exp r_h | γ]

since all other groups can be integrated out. With e_h = r_h − E[r_h | γ],

    m_h(γ) = E[r_h | γ] + log E[exp e_h | γ]

both conditional means are smooth functions of a few coordinates, estimated by least squares on
these, their squares and products, at the certificate's draws. That is Rao-Blackwellisation: the
noise of thousands of other groups is gone from each marginal, and only what they do to γ is left.

The mean of an average over groups is the average of their means, and is judged too, relative to the
average's own standard deviation: what all groups are off by alike, be it too little to see in any,
it would show √J times as much. Nothing is promised of other functions of many groups' parameters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines import Float
from stancoreset.posterior.arviz import with_normal_scores
from stancoreset.posterior.digits import percent
from stancoreset.posterior.importance import smoothed_weights
from stancoreset.rows import Blocks

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LocalWeights", "Marginals", "marginals_of"]

# Draws for each function of the shared coordinates: their noise is that share of the variance.
_DRAWS = 12
# Groups whose weights are held at a time.
_AT_ONCE = 256
# Efficiency below which weights are smoothed: above, no tail of theirs matters.
_SMOOTHED = 0.99
# Least estimate of E[exp e_h | γ] − 1, which least squares may put below what can be.
_LEAST = -0.5
# What holds of all coordinates.
_SCALARS = ("average_shift", "efficiency", "khat", "least_efficiency", "largest_khat", "groups")


@dataclass(frozen=True)
class LocalWeights:
    """A log weight as a sum over groups.

    Attributes
    ----------
    shared : ndarray, shape (S,)
        r_0, up to a constant.
    local : ndarray, shape (S, J)
        r_j.
    """

    shared: Float = field(repr=False)
    local: Float = field(repr=False)

    @property
    def total(self) -> Float:
        """log r, (S,), up to a constant."""
        return np.asarray(self.shared + self.local.sum(axis=1))


@dataclass(frozen=True)
class Marginals:
    """What local weights change of each parameter's marginal distribution.

    Attributes
    ----------
    mean_shift, sd_change : ndarray, shape (P,)
        Change of each unconstrained coordinate's mean, in standard deviations, and of its standard
        deviation, relative.
    average_shift : float
        Largest change of the mean of an average over groups, in the average's standard deviations.
    efficiency, khat : float
        Importance efficiency of the weights of the shared coordinates, and Pareto k̂ of them.
    least_efficiency, largest_khat : float
        The smallest efficiency of a group's weights, and the largest k̂ of those below 99 %.
    groups : int
        Number of groups.
    names : tuple of str
        Of the coordinates.
    """

    mean_shift: Float = field(repr=False)
    sd_change: Float = field(repr=False)
    names: tuple[str, ...] = field(repr=False)
    average_shift: float
    efficiency: float
    khat: float
    least_efficiency: float
    largest_khat: float
    groups: int

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
            f"marginals of {self.groups:,} groups (local weights: efficiency {percent(least)}, "
            f"a mean moves by {shift:.2g} sd, an average over groups by {self.average_shift:.2g} "
            f"sd, an sd by {100 * change:.2g} %)"
        )

    def describe(self) -> dict[str, float]:
        """Plain values for a report."""
        return {name: getattr(self, name) for name in _SCALARS} | {
            "mean_shift": float(np.max(np.abs(self.mean_shift))),
            "sd_change": float(np.max(np.abs(self.sd_change))),
        }

    def to_frame(self) -> pd.DataFrame:
        """Each coordinate's shift of mean and change of sd; what holds of all is in every row."""
        import pandas as pd

        each = {"parameter": self.names, "mean_shift": self.mean_shift, "sd_change": self.sd_change}
        return pd.DataFrame({**each, **{name: getattr(self, name) for name in _SCALARS}})

    @classmethod
    def of_frame(cls, table: pd.DataFrame) -> Marginals:
        """What `to_frame` has made."""
        about = {name: table[name].iloc[0].item() for name in _SCALARS}
        return cls(
            mean_shift=table["mean_shift"].to_numpy(np.float64),
            sd_change=table["sd_change"].to_numpy(np.float64),
            names=tuple(map(str, table["parameter"])),
            **about,
        )


def marginals_of(
    weights: LocalWeights, draws: Float, blocks: Blocks, names: Sequence[str]
) -> Marginals | None:
    """The marginals of draws, (S, P); None if draws are too few for the shared coordinates.

    Coordinates without a variance are judged by their normal scores, as in `moved_by`.

    >>> rng = np.random.default_rng(0)
    >>> theta = rng.standard_normal((1000, 401))
    >>> blocks, names = Blocks(np.arange(401) - 1), [f"z.{j}" for j in range(401)]
    >>> weights = LocalWeights(np.zeros(1000), 0.05 * theta[:, 1:])
    >>> found = marginals_of(weights, theta, blocks, names)
    >>> bool(np.all(np.abs(found.mean_shift[1:] - 0.05) < 0.01))  # towards N(0.05, 1)
    True
    >>> round(found.average_shift)  # of 400 groups alike: √400 · 0.05
    1
    """
    basis = _functions(draws[:, blocks.shared])
    if basis is None:
        return None
    theta = with_normal_scores(np.asarray(draws, dtype=np.float64)[None])[0][0]
    centre, sd = theta.mean(axis=0), np.maximum(theta.std(axis=0), np.finfo(float).tiny)
    scaled = (theta - centre) / sd
    shift, change = np.zeros(len(sd)), np.zeros(len(sd))
    pieces = list(_pieces(blocks))
    common = weights.shared + sum(
        (_given(weights.local[:, blocks.group[own[:, 0]]], basis).sum(axis=1) for own in pieces),
        np.zeros(len(draws)),
    )
    best, khat = smoothed_weights(common)
    if len(blocks.shared):
        shift[blocks.shared], change[blocks.shared] = _changes(best, scaled[:, blocks.shared])
    efficiencies, khats = [], [0.0]
    for own in pieces:
        local = weights.local[:, blocks.group[own[:, 0]]]
        one, tails = _normalised(common[:, None] + local - _given(local, basis))
        efficiencies.append(1 / np.sum(one**2, axis=0) / len(draws))
        khats.extend(tails)
        shift[own], change[own] = _changes(one[:, :, None], scaled[:, own])
    return Marginals(
        mean_shift=shift,
        sd_change=change,
        names=tuple(names),
        average_shift=_of_averages(theta, shift * sd, blocks),
        efficiency=1 / float(np.sum(best**2)) / len(draws),
        khat=khat,
        least_efficiency=float(np.min(np.concatenate(efficiencies))),
        largest_khat=float(np.max(khats)),
        groups=sum(len(own) for own in pieces),
    )


def _functions(shared: Float) -> Float | None:
    """Orthonormal functions of the shared coordinates, (S, F): to second order, or to first."""
    count, width = shared.shape
    scaled = (shared - shared.mean(axis=0)) / np.maximum(shared.std(axis=0), np.finfo(float).tiny)
    linear = np.column_stack([np.ones(count), scaled])
    first, second = np.triu_indices(width)
    if count >= _DRAWS * (linear.shape[1] + len(first)):
        linear = np.column_stack([linear, scaled[:, first] * scaled[:, second]])
    return None if count < _DRAWS * linear.shape[1] else np.linalg.qr(linear)[0]


def _pieces(blocks: Blocks) -> Iterator[NDArray[np.intp]]:
    """Coordinates of some groups of one size b at a time, (J, b)."""
    for block in blocks.members:
        yield from np.array_split(block, -(-len(block) // _AT_ONCE))


def _given(local: Float, basis: Float) -> Float:
    """m_j(γ) of some groups, (S, J): the log of E[exp r_j | γ], by least squares on γ."""
    mean = basis @ (basis.T @ local)
    excess = basis @ (basis.T @ np.expm1(local - mean))
    return np.asarray(mean + np.log1p(np.maximum(excess, _LEAST)))


def _normalised(log_weights: Float) -> tuple[Float, list[float]]:
    """Weights that sum to one over draws, (S, J), smoothed where they vary; and these ones' k̂."""
    weights = np.exp(log_weights - log_weights.max(axis=0))
    weights /= weights.sum(axis=0)
    khats = []
    for j in np.flatnonzero(np.sum(weights**2, axis=0) * len(weights) * _SMOOTHED > 1):
        weights[:, j], khat = smoothed_weights(log_weights[:, j])
        khats.append(khat)
    return weights, khats


def _changes(weights: Float, scaled: Float) -> tuple[Float, Float]:
    """What weights change of coordinates of mean zero and sd one: their means, and their sds.

    Both are (S, J, 1) and (S, J, b), or (S,) and (S, G).
    """
    weights = weights[:, None] if weights.ndim == 1 else weights
    mean = np.sum(weights * scaled, axis=0)
    return mean, np.sqrt(np.sum(weights * (scaled - mean) ** 2, axis=0)) - 1.0


def _of_averages(theta: Float, moved: Float, blocks: Blocks) -> float:
    """Largest change of the mean of an average over groups of one size, in the average's sds."""
    found = [0.0]
    for block in blocks.members:
        spread = np.maximum(theta[:, block].sum(axis=1).std(axis=0), np.finfo(float).tiny)
        found.extend(np.abs(moved[block].sum(axis=0)) / spread)
    return float(np.max(found))
