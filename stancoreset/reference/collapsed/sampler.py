"""Independent draws of prior × quadratic: h by importance sampling, u given h from its Gaussian.

    h ~ exp ℓ,      u = m(h) + F(h) ε,      F Fᵀ = H(h)⁻¹,      ε ~ N(0, I)

What is quadratic in u but for a little leaves a factor f(h, u) − f̂(h, u), f̂ the quadratic around
m(h), which resampling mends.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines import Float
from stancoreset.errors import EngineError, ImproperPosteriorError, ReferenceFitError
from stancoreset.posterior import KHAT_USABLE
from stancoreset.reference.collapsed.block import MOST_HYPERPARAMETERS
from stancoreset.reference.collapsed.conditional import Conditional, Flat
from stancoreset.reference.collapsed.density import PriorTimesQuadratic
from stancoreset.reference.collapsed.mixture import (
    WeightedDraws,
    find_mode,
    sample_by_importance,
)

_log = logging.getLogger(__name__)

# Stages, and draws of each: for a search, and for draws that are a reference.
_SEARCH, _FINAL = (2, 15, 10), (3, 40, 25)
# How far from its mode a density of logarithms and logits has long fallen: e⁴⁰ is 10¹⁷.
_FAR = 40.0


@dataclass(frozen=True)
class CollapsedDraws:
    """Independent draws of prior × quadratic.

    Attributes
    ----------
    draws : ndarray, shape (S, P)
    hyperparameters : WeightedDraws or None
        The weighted draws of h; None if all is Gaussian.
    inner : ndarray of bool, shape (P,)
        The coordinates u.
    means : ndarray, shape (K, P)
        h, and the mean of u given it, for the h of the draws.
    counts : ndarray of int, shape (K,)
        Number of draws at each h.
    remainder : float
        Standard deviation of what f is not quadratic in u, in nats.
    """

    draws: Float = field(repr=False)
    means: Float = field(repr=False)
    counts: NDArray[np.intp] = field(repr=False)
    hyperparameters: WeightedDraws | None = field(repr=False)
    inner: NDArray[np.bool_] = field(repr=False)
    remainder: float

    def place(self, inner: NDArray[np.bool_]) -> tuple[Float, Float] | None:
        """Mean and covariance of h; None if these draws do not tell them, or have another h."""
        known = self.hyperparameters
        if known is None or not np.array_equal(self.inner, inner):
            return None
        return (known.mean, known.cov) if known.ess >= known.required() else None


def sample_collapsed(
    density: PriorTimesQuadratic,
    inner: NDArray[np.bool_],
    point: Float,
    width: Float,
    count: int,
    seed: int,
    *,
    final: bool = False,
    before: CollapsedDraws | None = None,
    target: Callable[[Float], Float] | None = None,
    effective: int = 0,
    most_left: float = 0.7,
) -> CollapsedDraws:
    """Draw independently from prior × quadratic.

    Parameters
    ----------
    density : PriorTimesQuadratic
    inner : ndarray of bool, shape (P,)
        The coordinates u, from `find_conditionally_gaussian`.
    point, width : ndarray, shape (P,)
        A point near the mass, and standard deviations.
    count : int
        Number of draws.
    seed : int
    final : bool
        Whether the draws are a reference, or show where the next quadratic belongs.
    before : CollapsedDraws, optional
        Draws of a similar quadratic, whose h are where these are.
    target : callable, optional
        Log density (S, P) → (S,) near prior × quadratic, of which the draws are to be: they are
        resampled by the ratio of the two densities.
    effective : int
        Of `final` draws the least number of effective draws of h, and of weights for a `target`
        that draws leave by more than `most_left`.
    most_left : float
        Standard deviation, in nats, of what draws may leave of the density.

    Raises
    ------
    ReferenceFitError
        If nothing is Gaussian given the rest, the rest are more than twelve, or the prior is
        improper in u given h; of `final` draws also if the weights of h or of the remainder cannot
        be trusted.
    ImproperPosteriorError
        If the marginal density of h rises without bound: the posterior is improper.
    """
    outer = int(np.sum(~inner))
    if not inner.any() or outer > MOST_HYPERPARAMETERS:
        raise ReferenceFitError(
            f"{outer} of {len(inner)} parameters are not Gaussian given the others, expected at "
            f"most {MOST_HYPERPARAMETERS}"
        )
    rng = np.random.default_rng([seed, 97])
    conditional = Conditional.of(density, inner, point, width, seed)
    found = None
    if outer:
        place = None if before is None else before.place(inner)
        if place is None:
            start = point[~inner]
            if not np.isfinite(conditional.log_marginal(start[None])[0]):
                conditional.require_proper(start)
            place = find_mode(conditional.log_marginal, start)
            _require_bounded(conditional, place[0])
        found = _hyperparameters(conditional, *place, rng, final=final, least=effective)
        which = found.resample(count, rng)
    else:
        which = np.zeros(count, dtype=np.intp)
    numbers, repeats = np.unique(which, return_counts=True)
    points = np.zeros((1, 0)) if found is None else found.points
    draws, left = [], []
    means = np.empty((len(numbers), len(inner)))
    means[:, ~inner] = points[numbers]
    for k, given in enumerate(conditional.given(points[numbers])):
        h, times = points[numbers[k]], int(repeats[k])
        if isinstance(given, Flat):
            conditional.require_proper(h)
            raise ReferenceFitError("prior times quadratic has no finite density")
        means[k, inner] = given.mean
        noise = rng.standard_normal((times, int(inner.sum())))
        draws.append(given.draw(h, inner, noise))
        left.append(given.log_density(noise))
    theta = np.concatenate(draws)
    left_over = (target or density.log_density)(theta) - np.concatenate(left)
    spread = float(np.std(left_over))
    _log.debug("what is not quadratic in u has a standard deviation of %.3g", spread)
    weighted = WeightedDraws(theta, left_over)
    # Of weights that hardly vary k̂ says nothing.
    worth = 0 < effective <= weighted.ess and weighted.khat <= KHAT_USABLE
    even = not (spread <= most_left or worth)
    if even and final:
        expected = f"expected at most {most_left:g}"
        if effective:
            expected = (
                f"so that {count:,} draws are worth {weighted.ess:,.0f} with a Pareto k̂ of "
                f"{weighted.khat:.2f}, expected at least {effective:,} and at most {KHAT_USABLE:g}"
            )
        raise ReferenceFitError(
            f"prior times quadratic is not Gaussian in {int(inner.sum())} parameters: it differs "
            f"by {spread:.3g} nats, {expected}"
        )
    if even:  # on the way to a reference draws need only be near
        weighted = WeightedDraws(theta, np.zeros(count))
    order = rng.permutation(weighted.resample(count, rng))
    return CollapsedDraws(theta[order], means, repeats, found, inner, spread)


def _require_bounded(conditional: Conditional, mode: Float) -> None:
    """Refuse a marginal density of h that is higher the farther h is from its mode.

    A scale σ of effects σ z with a flat prior of z is such an h: ∫ L(σ z) dz ∝ σ^(−dim z). There
    the room for u grows, and not the density: a quadratic that rises so far out says nothing.
    """
    (top,) = conditional.given(mode[None])
    for k, name in enumerate(np.array(conditional.density.param_names)[~conditional.inner]):
        for step in (-_FAR, _FAR):
            points = mode + np.outer([step, 2 * step], np.arange(len(mode)) == k)
            try:
                with np.errstate(all="ignore"):
                    far, farther = conditional.given(points)
            except EngineError:  # a program may refuse numbers so far out
                continue
            higher = far.log_marginal - top.log_marginal, farther.log_marginal - top.log_marginal
            room = max(far.peak, farther.peak) <= top.peak
            if room and 0 < higher[0] < higher[1] < np.inf:
                raise ImproperPosteriorError(
                    f"the posterior is improper: without the parameters that are Gaussian given "
                    f"{name}, its log density rises without bound along {name}: in unconstrained "
                    f"coordinates it is higher by {higher[0]:,.0f} at {points[0, k]:.3g}, and by "
                    f"{higher[1]:,.0f} at {points[1, k]:.3g}, than at {mode[k]:.3g}; give {name}, "
                    "and the parameters that it multiplies, proper priors"
                )


def _hyperparameters(
    conditional: Conditional,
    mode: Float,
    cov: Float,
    rng: np.random.Generator,
    *,
    final: bool,
    least: int = 0,
    share: float = 0.5,
) -> WeightedDraws:
    """Weighted draws of h, from their mode or near those that are known."""
    size = len(mode)

    def sound(found: WeightedDraws) -> bool:
        even = found.ess >= share * len(found.points)
        return even or (found.khat <= KHAT_USABLE and found.ess >= found.required())

    if not final:
        found = sample_by_importance(
            conditional.log_marginal, mode, cov, _stages(_SEARCH, size), rng
        )
        _log.debug("mode %s, mean %s, ESS %.0f", mode.round(2), found.mean.round(2), found.ess)
        return found
    enough = _stages(_FINAL, size)
    # A share of ¼ of these draws is enough.
    further = (least,) * 4 if least else enough
    found = sample_by_importance(
        conditional.log_marginal,
        mode,
        cov,
        enough + further,
        rng,
        lambda found: len(found.points) >= sum(enough) and sound(found) and found.ess >= least,
    )
    _log.debug(
        "%d hyperparameters, mode %s: ESS %.0f of %d, k̂ %.2f",
        size,
        np.round(mode, 2),
        found.ess,
        len(found.points),
        found.khat,
    )
    if not (sound(found) and found.ess >= least):
        raise ReferenceFitError(
            f"importance weights of {size} hyperparameters have k̂ {found.khat:.2f} and an "
            f"effective number of {found.ess:.0f}, expected at most {KHAT_USABLE:g} and at least "
            f"{max(least, found.required()):.0f}"
        )
    return found


def _stages(numbers: tuple[int, int, int], size: int) -> tuple[int, ...]:
    """Draws of each stage, for so many hyperparameters."""
    stages, least, each = numbers
    return (least + each * size,) * stages
