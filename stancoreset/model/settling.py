"""Where the log likelihood is matched: draws from prior times quadratic, until they stand still.

The quadratic is best where the posterior is, and the posterior is known once the quadratic is:

    q₀ → quadratic of L at q₀ → NUTS on prior × quadratic → q₁ → quadratic of L at q₁ → …

NUTS reads no row here, and the prior is exact, its funnels included. What the quadratic leaves of
L at its own draws is their log importance weight, so a small spread shows that the draws are
draws of the full posterior.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

import numpy as np

from stancoreset.engines import DENSE_DRAWS, DENSE_PARAMETERS, NUTS, Float, StanData, climb
from stancoreset.errors import ControlError, StancoresetError
from stancoreset.model.plan import HELDOUT_DRAWS
from stancoreset.model.session import Session
from stancoreset.posterior.arviz import worst_rhat
from stancoreset.reference import (
    GaussianFit,
    Reference,
    curvature_width,
    evaluated,
    from_rows,
    moments,
)
from stancoreset.rows import FullData
from stancoreset.selection import PAIRS, Expansion

__all__ = ["SETTLED", "View", "from_reference", "from_rough_modes", "view_of"]

_log = logging.getLogger(__name__)

#: The method of references that consist of draws from prior times quadratic.
SETTLED = "settled"

# NUTS runs of prior times quadratic.
_TURNS = 5
# Draws are those of the full posterior if their log importance weights have this spread.
_SPREAD = 0.3
# Or if the spread has stopped falling, and is not too large for rows to mend.
_STILL, _FOR_ROWS = 0.8, 1.5
# Above this spread the draws are not near the posterior.
_FAR = 5.0
# Largest R̂ of chains whose draws are used.
_MIXED = 1.2
# A Laplace fit whose quadratic leaves no more than this is left as it is.
_GOOD = 0.1
# Draws at which the spread is measured, of those that NUTS makes.
_LOOKED_AT = 100
_WARMUP, _SAMPLING = 300, 300
# Rough modes: rows and iterations of L-BFGS that bring chains near the posterior.
_LEAST_ROWS, _ROWS_PER_PARAMETER, _ITERATIONS = 5_000, 30, 150
# Gradient at which a whitened climb ends.
_SLOPE = 0.1
# Step of differences along a coordinate that is constant.
_SMALL = 1e-3
# Draws at which both forms of the likelihood are compared, and their largest relative difference.
_COMPARED, _TOLERANCE = 3, 1e-8
# Further draws of a Gaussian reference.
_SPARE = 500


@dataclass(frozen=True)
class View:
    """The full data and a reference, as the rows see them.

    Attributes
    ----------
    session : Session
        Of the likelihood in ψ.
    full : FullData
    reference : Reference
        Its draws are values of ψ.
    """

    session: Session
    full: FullData
    reference: Reference

    def expansion(self, *, exact: bool = False) -> Expansion:
        """The log likelihood as a quadratic: projected, or expanded at a Laplace fit's mode."""
        gaussian = self.reference.method == "laplace"
        pairs = 0 if gaussian else PAIRS
        return self.session.expand(self.full, self.reference, pairs, exact=exact)

    def no_series(self) -> str:
        """The reason why the rows have no Hermite series; empty if they have one."""
        return self.session.no_series(self.full)


def view_of(session: Session, checked: StanData, full: FullData, reference: Reference) -> View:
    """What the rows see of a reference."""
    likelihood = session.likelihood
    if likelihood is session:
        return View(session, full, reference)
    spare = reference.more(_SPARE, stream=0) if reference.spare is None else reference.spare
    psi = session.seen(checked, np.concatenate([reference.draws, spare]))
    seen = session.seen_data(checked)
    offset = _offset(seen, psi, reference)
    values = reference.log_likelihood + offset
    return View(likelihood, seen, _of_psi(psi, values, seen, reference.seed))


def _offset(seen: FullData, psi: Float, reference: Reference) -> float:
    """The constant by which the log likelihood in ψ differs from that in the parameters.

    Raises
    ------
    ControlError
        If it is no constant: then ψ is not all that the rows see.
    """
    expected = reference.log_likelihood[:_COMPARED]
    apart = seen.log_likelihood(psi[: len(expected)]) - expected
    if np.ptp(apart) > _TOLERANCE * max(1.0, float(np.max(np.abs(expected)))):
        raise ControlError(
            f"the log likelihood in what the rows see ({', '.join(seen.param_names[:4])}, …) "
            f"differs from the program's by {np.ptp(apart):.3g}; use control_variate=False, and "
            "please report the program"
        )
    return float(apart[0])


def from_rough_modes(
    session: Session,
    checked: StanData,
    full: FullData,
    nuts: NUTS,
    count: int,
    seed: int,
    *,
    more: bool = True,
) -> Reference | None:
    """Settle on a subsample, from the ends of short optimisations, and then on all rows.

    The reference has `count` draws, or `more` if rows are needed to complete the quadratic.

    None if the rows see the parameters themselves, where a Laplace fit costs little, or if the
    draws do not settle.
    """
    if session.likelihood is session:
        return None
    size = min(full.n_obs, max(_LEAST_ROWS, _ROWS_PER_PARAMETER * full.n_params))
    try:
        whole = session.seen_data(checked)
        with whole.sampled(size, np.random.default_rng(seed)) as few:
            ends = _rough_modes(full, size, nuts.chains, seed)
            expansion = _around(session, few, session.seen(checked, ends[:1]), seed)
            last = _turns(session, checked, few, expansion, ends, nuts, seed)
        if last is not None and size < full.n_obs:
            near = last.draws
            here = _here(session, checked, whole, near, seed)
            expansion = session.likelihood.expand(whole, here, PAIRS)
            inits, seed = near[: nuts.chains], seed + _TURNS
            last = _turns(session, checked, whole, expansion, inits, nuts, seed, near)
        if last is None or _has_other_modes(session, checked, full, last.draws, ends, size, seed):
            return None
        return _settled(full, last, count, seed, more)
    except StancoresetError as error:
        _log.info("rough modes do not settle: %s", error)
        return None


def _rough_modes(full: FullData, size: int, count: int, seed: int) -> Float:
    """Ends of short optimisations on a subsample, the highest first, (count, P)."""
    with full.subsample(size, np.random.default_rng(seed)) as small:
        seeds = range(seed, seed + count)
        ends = np.array([small.mode(seed=one, max_iter=_ITERATIONS) for one in seeds])
        height = np.nan_to_num(small.log_density(ends), nan=-np.inf)
    return ends[np.argsort(-height, kind="stable")]


def _has_other_modes(
    session: Session,
    checked: StanData,
    full: FullData,
    draws: Float,
    starts: Float,
    size: int,
    seed: int,
) -> bool:
    """Whether climbs from the starts, whitened by the draws, end where the rows see other values.

    Such an end counts if the full density is no lower there than at the draws. Ends may differ in
    funnels of scales and raw effects, whose product the rows see as one.
    """
    gaussian = moments(draws)
    with full.subsample(size, np.random.default_rng(seed)) as small:

        def density(z: Float) -> tuple[float, Float]:
            value, gradient = small.log_density_gradient((gaussian.mean + gaussian.chol @ z)[None])
            return float(value[0]), gaussian.chol.T @ gradient[0]

        away = np.linalg.solve(gaussian.chol, (starts - gaussian.mean).T).T
        tops = [climb(density, z, slope=_SLOPE, max_iter=_ITERATIONS).theta for z in away]
    ends = gaussian.mean + np.array(tops) @ gaussian.chol.T
    psi, there = session.seen(checked, draws), session.seen(checked, ends)
    low, high = psi.min(axis=0), psi.max(axis=0)
    # Modes of a subsample lie √(N/n) times as far from the posterior's.
    margin = 0.5 * (high - low) * np.sqrt(full.n_obs / size)
    outside = np.any((there < low - margin) | (there > high + margin), axis=1)
    plausible = full.log_density(ends) >= np.min(full.log_density(draws[:_LOOKED_AT]))
    return bool(np.any(outside & plausible))


def _around(session: Session, few: FullData, psi: Float, seed: int) -> Expansion:
    """Taylor's expansion of some rows' log likelihood at one value of ψ, (1, p)."""
    width = curvature_width(few.log_density_gradient, psi[0])
    gaussian, none = GaussianFit(psi[0], np.diag(width)), np.zeros(1)
    here = Reference("draws", psi, few.param_names, seed, gaussian, none, none)
    return session.likelihood.expand(few, here)


def from_reference(
    session: Session,
    checked: StanData,
    full: FullData,
    reference: Reference,
    nuts: NUTS,
    *,
    more: bool = True,
) -> Reference:
    """Settle from a reference; the reference itself if it is good, or if that fails."""
    try:
        view = view_of(session, checked, full, reference)
        expansion = view.session.expand(view.full, view.reference)
        if view.reference is reference and expansion.gap(reference) <= _GOOD:
            return reference
        inits, seed = reference.draws, reference.seed
        last = _turns(session, checked, view.full, expansion, inits, nuts, seed)
        if last is None:
            return reference
        found = _settled(full, last, len(reference.draws), seed, more)
        return replace(found, elsewhere=reference.elsewhere)
    except StancoresetError as error:
        _log.info("the quadratic does not settle: %s", error)
        return reference


@dataclass(frozen=True)
class _Turn:
    """Draws from prior times quadratic, and what the quadratic leaves of L at them."""

    draws: Float
    gap: float


def _settled(full: FullData, last: _Turn, count: int, seed: int, more: bool) -> Reference:
    """A reference of the last turn's draws."""
    if more and last.gap > _GOOD:
        count = max(count, len(last.draws) - HELDOUT_DRAWS)
    return from_rows(full, last.draws, SETTLED, count, seed)


def _turns(
    session: Session,
    checked: StanData,
    full: FullData,
    expansion: Expansion,
    inits: Float,
    nuts: NUTS,
    seed: int,
    near: Float | None = None,
) -> _Turn | None:
    """Draws from prior times quadratic, unconstrained, once they are draws of the posterior.

    Draws `near` them give NUTS its metric.
    """
    likelihood, size = session.likelihood, inits.shape[1]
    several = max(2, nuts.chains)  # R̂ of one chain says nothing
    inits = np.resize(inits, (several, size))
    enough = -(-DENSE_DRAWS * size // several) if size <= DENSE_PARAMETERS else 0
    short = NUTS(
        chains=several,
        iter_sampling=max(_SAMPLING, enough),
        adapt_delta=nuts.adapt_delta,
        max_treedepth=nuts.max_treedepth,
        parallel_chains=nuts.parallel_chains,
    )
    rough = replace(short, iter_warmup=_WARMUP)
    before, best = np.inf, None
    for turn in range(_TURNS):
        control = likelihood.quadratic_alone(checked, full, expansion)
        options = rough if near is None else short
        chains = session.sample_quadratic(checked, control, options, seed + turn, inits, near)
        inits, rhat = chains[:, -1], worst_rhat({"theta": chains})
        near = np.random.default_rng([seed, turn]).permutation(np.concatenate(list(chains)))
        here = _here(session, checked, full, near, seed)
        gap = expansion.gap(here)
        _log.debug("turn %d, %d rows: gap %.3g, R̂ %.3g", turn, full.n_obs, gap, rhat)
        # A quadratic that leaves more than its draws can tell is for the rows to complete.
        stands = _STILL * before <= gap <= _FOR_ROWS
        if rhat <= _MIXED and (best is None or gap < best.gap):
            best = _Turn(near, gap)
        if rhat <= _MIXED and (gap <= _SPREAD or stands):
            break
        expansion, before = likelihood.expand(full, here, PAIRS), gap
        near = near if rhat <= _MIXED else None
    # Rows and further rounds complete the best of them.
    return best if best is not None and best.gap <= _FAR else None


def _here(
    session: Session, checked: StanData, full: FullData, draws: Float, seed: int
) -> Reference:
    """What the rows see of draws, the first of which are evaluated."""
    psi = session.seen(checked, draws)
    return _of_psi(psi, evaluated(full, psi[:_LOOKED_AT])[1], full, seed)


def _of_psi(psi: Float, log_likelihood: Float, full: FullData, seed: int) -> Reference:
    """A reference of values of ψ, of which the first have known log likelihoods."""
    count = len(log_likelihood)
    return Reference(
        method="draws",
        draws=psi[:count],
        param_names=full.param_names,
        seed=seed,
        gaussian=_with_spread(moments(psi)),
        log_prior=full.log_prior(psi[:count]),
        log_likelihood=log_likelihood,
        spare=psi[count:],
    )


def _with_spread(gaussian: GaussianFit) -> GaussianFit:
    """The same with a small spread where a coordinate is constant, as a contrast's first effect."""
    constant = np.flatnonzero(gaussian.sd == 0)
    chol = gaussian.chol.copy()
    chol[constant, constant] = _SMALL * np.maximum(1.0, np.abs(gaussian.mean[constant]))
    return GaussianFit(gaussian.mean, chol)
