"""A reference without chains: turns of quadratic and collapsed sampler, until nothing moves.

    ψ* → quadratic of L at ψ* → collapsed draws of prior × quadratic → q₁ → quadratic at q₁ → …

ψ* is where the likelihood alone is highest, in the coordinates of what rows see: it has no pole at
a scale of zero, for it does not see scales of effects. First turns read a subsample, the last two
or more all rows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from stancoreset.engines import NUTS, BoundModel, Float, StanData, climb, stan_init
from stancoreset.errors import ImproperPosteriorError, ReferenceFitError, StancoresetError
from stancoreset.policy import Policy
from stancoreset.program import Psi, Session, held_once, reference_in_psi, without_rows
from stancoreset.reference import (
    ITERATED,
    MOST_HYPERPARAMETERS,
    CollapsedDraws,
    Conditional,
    GaussianFit,
    PriorTimesQuadratic,
    Reference,
    ascend,
    at_own_width,
    find_bending,
    find_conditionally_gaussian,
    finite_log_likelihood,
    gaussian_at,
    in_dimensions,
    in_use,
    prior_mode,
    reference_from_evaluated,
    require_usable,
    sample_collapsed,
    start_seed,
)
from stancoreset.rows import (
    AnyMatrix,
    Directions,
    FullData,
    Hessians,
    Matrix,
    dependencies,
    is_sparse,
    without_negative,
)
from stancoreset.selection import PAIRS, Coreset, Expansion

_log = logging.getLogger(__name__)

# Largest whitened slope at the end of a climb, its iterations, and those before in no units.
_SLOPE, _STEPS, _STRETCH = 0.1, 150, 40
# Logarithms at which scales of effects are held there.
_RUNGS = (0.0, 3.0, 6.0)
#: Width of the ridge that holds a climb of the likelihood near its start: as a multiple of what the
# prior says of ψ, with scales of effects at one, and at least.
RIDGE = 3.0
# Smallest width of a coordinate.
_NARROW = 1e-8
_NONE = np.zeros(1)


def far_out() -> np.errstate:
    """No warnings of draws of a poor quadratic, which lie where densities overflow.

    What is not finite there is no evaluation.
    """
    return np.errstate(over="ignore", invalid="ignore")


@dataclass(frozen=True)
class CollapsedTurn:
    """Draws of prior times one quadratic, in the parameters and in ψ."""

    expansion: Expansion
    collapsed: CollapsedDraws
    psi: Float = field(repr=False)
    mean: Float = field(repr=False)

    @property
    def draws(self) -> Float:
        return self.collapsed.draws


@dataclass(frozen=True)
class CollapsedSearch:
    """What all turns share: the prior, ψ, and the coordinates that bend their product."""

    session: Session
    checked: StanData = field(repr=False)
    full: FullData = field(repr=False)
    prior: BoundModel = field(repr=False)
    seen: Psi = field(repr=False)
    bending: NDArray[np.bool_] = field(repr=False)
    seed: int
    policy: Policy

    def rows(self, whole: FullData, least: int) -> int:
        """Rows of a subsample of at least so many, or all if it would hardly be smaller."""
        size = max(least, self.policy.rows_per_parameter * self.full.n_params)
        return size if 4 * size <= whole.n_obs else whole.n_obs

    def climbed(self, rows: FullData) -> int:
        """Rows of the first climb, or all that there are."""
        each = self.policy.rows_per_parameter
        return min(max(self.policy.climb_rows, each * self.full.n_params), rows.n_obs)

    def near(self, turn: CollapsedTurn) -> tuple[PriorTimesQuadratic, Float, Float]:
        """Prior × the quadratic of a turn, and mean and standard deviations of its draws, (P,)."""
        width = np.maximum(turn.draws.std(axis=0), _NARROW)
        return self.density(turn.expansion), turn.draws.mean(axis=0), width

    def quadratic(self, rows: FullData, psi: Float) -> Expansion:
        """The quadratic of some rows' log likelihood under the Gaussian of draws of ψ."""
        likelihood = self.session.likelihood
        if not likelihood.no_series(rows):
            here = reference_in_psi(psi, np.zeros(len(psi)), rows, self.seed)
            return likelihood.expand(rows, here, exact=True)
        looked_at = finite_log_likelihood(rows, psi[: self.policy.looked_at])
        here = reference_in_psi(psi, looked_at, rows, self.seed)
        return likelihood.expand(rows, here, PAIRS, bent=True)

    def density(self, expansion: Expansion) -> PriorTimesQuadratic:
        """Prior × the quadratic of an expansion, which falls in all directions.

        What rises along effects would make them improper where their scale is large.
        """
        columns = expansion.columns
        return PriorTimesQuadratic(
            self.prior,
            replace(self.seen, columns=columns),
            expansion.centre[columns],
            expansion.gradient,
            without_negative(-expansion.hessian),
        )

    def turn(
        self,
        expansion: Expansion,
        before: CollapsedTurn | None = None,
        start: Float | None = None,
        *,
        final: bool = False,
    ) -> CollapsedTurn:
        """Draw from prior × quadratic, near the draws of the turn before, or a start (P,)."""
        density = self.density(expansion)
        if before is None:
            assert start is not None
            point, width = start, _widths(density, start)
            width = np.where(self.bending, np.minimum(width, 1.0), width)  # logarithms of scales
        else:
            point, width = before.draws.mean(axis=0), before.draws.std(axis=0)
            width = np.maximum(width, _NARROW)
        collapsed = sample_collapsed(
            density,
            self.inner(density, point, width),
            point,
            width,
            self.policy.reference_draws if final else self.policy.search_draws,
            self.draws_seed,
            final=final,
            before=None if before is None else before.collapsed,
        )
        psi = self.finite(collapsed.draws)
        if not np.any(np.ptp(psi, axis=0) > 0):
            raise ReferenceFitError("what the rows see does not vary over the draws")
        # ψ is linear in u, so that its mean given h is ψ(h, m(h)).
        mean = collapsed.counts @ self.seen(collapsed.means) / collapsed.counts.sum()
        return CollapsedTurn(expansion, collapsed, psi, mean)

    @property
    def draws_seed(self) -> int:
        """The seed of all turns' draws, so that their noise is no move."""
        return start_seed(self.seed, 1)

    def inner(self, density: PriorTimesQuadratic, point: Float, width: Float) -> NDArray[np.bool_]:
        """Coordinates that are Gaussian given the rest, near a point with these widths."""
        inner = find_conditionally_gaussian(density, self.bending, point, width, self.draws_seed)
        _log.debug("not integrated out: %s", np.array(density.param_names)[~inner])
        return inner

    @property
    def held(self) -> NDArray[np.bool_]:
        """Coordinates of ψ that the rows do not see, scales where ψ are all parameters, (p,)."""
        if self.session.likelihood is self.session:
            return self.bending
        return np.zeros(1, dtype=bool)

    def ridge(self, start: Float) -> Float:
        """Standard deviations of a ridge in ψ, (p,), wider than what the prior says of them."""
        hessian = Hessians(self.prior.param_names)
        gradient = self.prior.log_density_gradient
        own = hessian.at(gradient, start, np.ones(len(start)))
        noise = np.random.default_rng([self.seed, 107]).standard_normal(
            (self.policy.looked_at, len(start))
        )
        width = _wide(-own.diagonal())
        width = np.where(self.bending, np.minimum(width, 1.0), width)  # logarithms of scales
        psi = self.seen(start + width * noise)
        return RIDGE * np.maximum(1.0, np.nan_to_num(psi.std(axis=0), nan=1.0, posinf=1.0))

    def finite(self, draws: Float) -> Float:
        """ψ at draws, (S, P) → (S, p); a `ControlError` names what is not finite."""
        return self.session.require_finite(self.checked, self.seen(draws))


#: A search and its nearest turn on all rows → draws of the posterior, by importance weights.
DrawByWeights: TypeAlias = Callable[[CollapsedSearch, CollapsedTurn], Reference]


@far_out()
def collapsed_reference(
    session: Session,
    checked: StanData,
    full: FullData,
    count: int,
    seed: int,
    policy: Policy,
    by_weights: DrawByWeights | None = None,
) -> Reference:
    """Find a reference by turns of quadratic and collapsed sampler.

    Parameters
    ----------
    session : Session
    checked : mapping
        The full data.
    full : FullData
    count : int
        Least number of the reference's draws that are evaluated on all rows.
    seed : int
    policy : Policy
    by_weights : callable, optional
        Makes the reference where turns on all rows do not settle.

    Raises
    ------
    StancoresetError
        If no parameters are Gaussian given a few others, or the turns do not settle.
    """
    with _searching(session, checked, full, seed, policy) as search:
        whole = session.seen_data(checked)
        start = _prior_mode(search.prior, search.bending, search.seed)
        rough = _rough_mode(search, whole, start)
        few = search.rows(whole, policy.subsample_rows)
        if few == whole.n_obs:
            turn = search.turn(_at_highest(search, whole, rough, start), start=start)
            return _on_all(search, whole, turn, count, by_weights)
        with _sampled(whole, few, seed) as some:
            turn = search.turn(_at_highest(search, some, rough, start), start=start)
            turn = _on_some(search, some, turn, whole.n_obs)
        return _on_all(search, whole, turn, count, by_weights)


def draws_without_chains(
    session: Session,
    checked: StanData,
    full: FullData,
    coreset: Coreset,
    expansion: Expansion,
    near: Float,
    nuts: NUTS,
    seed: int,
    policy: Policy,
) -> Float:
    """Draw independently from a coreset's posterior, which is near prior × a quadratic.

    The draws are resampled by what the rows add to the quadratic. The values of hyperparameters
    are worth at least a quarter as many draws, and each serves a few draws one after the other: the
    autocorrelation shows what they are worth, as of a Metropolis sampler.

    Parameters
    ----------
    session : Session
    checked : mapping
        The full data.
    full : FullData
    coreset : Coreset
    expansion : Expansion
        The quadratic of the log likelihood of all rows.
    near : ndarray, shape (S, P)
        Draws near the posterior.
    nuts : NUTS
        The number of chains, and the draws of each.
    seed : int
    policy : Policy

    Returns
    -------
    ndarray, shape (chains, draws, P)

    Raises
    ------
    StancoresetError
        If no parameters are Gaussian given a few others, or importance weights cannot be trusted.
    """
    with (
        _searching(session, checked, full, seed, policy) as search,
        session.bind(checked, coreset) as bound,
    ):
        density, point = search.density(expansion), near.mean(axis=0)
        width = np.maximum(near.std(axis=0), _NARROW)
        found = sample_collapsed(
            density,
            search.inner(density, point, width),
            point,
            width,
            nuts.chains * nuts.draws,
            search.draws_seed,
            final=True,
            target=bound.log_density,
            effective=nuts.chains * nuts.iter_sampling // 4,
        )
    _, which = np.unique(found.draws[:, ~found.inner], axis=0, return_inverse=True)
    rank = np.random.default_rng([seed, 109]).permutation(int(which.max()) + 1)
    order = np.argsort(rank[which.ravel()], kind="stable")
    return found.draws[order].reshape(nuts.chains, nuts.draws, -1)


def quadratic_of_likelihood(
    session: Session, checked: StanData, full: FullData, seed: int, policy: Policy
) -> tuple[Expansion, Float]:
    """Expand the log likelihood of all rows where it is highest, whatever the prior's shape.

    Parameters
    ----------
    session : Session
    checked : mapping
        The full data.
    full : FullData
    seed : int
    policy : Policy

    Returns
    -------
    expansion : Expansion
        In the coordinates of what the rows see.
    point : ndarray, shape (P,)
        Parameters at which the prior is high, and the likelihood if rows see the parameters.

    Raises
    ------
    StancoresetError
        If the likelihood has several modes, or no finite one.
    """
    with _searching(session, checked, full, seed, policy) as search:
        whole = session.seen_data(checked)
        start = _prior_mode(search.prior, search.bending, search.seed)
        rough = _rough_mode(search, whole, start)
        expansion = _at_highest(search, whole, rough, start)
    own = session.likelihood is session
    return expansion, np.where(search.bending, start, expansion.centre) if own else start


def _on_some(
    search: CollapsedSearch, some: FullData, turn: CollapsedTurn, n_obs: int
) -> CollapsedTurn:
    """Turns on a subsample, until a mean moves by no more than it is from that of all rows."""
    before, turn = turn, search.turn(search.quadratic(some, turn.psi), turn)
    for _ in range(search.policy.turns):
        moved = _moved(before, turn)
        _log.debug("on %d rows: means moved by %.3g sds", some.n_obs, moved)
        if moved <= np.sqrt(n_obs / some.n_obs - 1):
            break
        before, turn = turn, search.turn(search.quadratic(some, turn.psi), turn)
    return turn


def _on_all(
    search: CollapsedSearch,
    whole: FullData,
    turn: CollapsedTurn,
    count: int,
    by_weights: DrawByWeights | None,
) -> Reference:
    """The reference, from turns on all rows: after the first one draws are a reference's."""
    # Of groups that rows tell apart what is left is a sum over them.
    size = 1 if whole.blocks is None else whole.n_params
    policy = search.policy
    near, enough = in_dimensions(policy.near, size), in_dimensions(policy.mendable, size)
    tried = [(np.inf, turn)]
    try:
        before, turn = turn, search.turn(search.quadratic(whole, turn.psi), turn)
        for _ in range(policy.turns):
            before, turn = turn, search.turn(search.quadratic(whole, turn.psi), turn, final=True)
            looked_at = finite_log_likelihood(whole, turn.psi[: policy.looked_at])
            here = reference_in_psi(turn.psi, looked_at, whole, search.seed)
            gap, moved = turn.expansion.gap(here), _moved(before, turn)
            _log.debug("on all rows: means moved by %.3g sds, gap %.3g", moved, gap)
            if gap <= near or (moved <= policy.still and gap <= enough):
                break
            tried.append((gap, turn))
        else:
            raise ReferenceFitError(
                f"the quadratic leaves {gap:.3g} of the log likelihood at its own draws, expected "
                f"at most {near:.3g}"
            )
    except ImproperPosteriorError:
        raise
    except StancoresetError:
        if by_weights is not None:
            nearest = min(tried, key=lambda one: one[0])[1]
            with suppress(StancoresetError):
                return by_weights(search, nearest)
        raise
    full, draws, known = search.full, turn.draws, here.log_likelihood
    require_usable(draws, full.param_names, "draws of prior times quadratic")
    more = turn.psi[len(known) : in_use(count, len(draws))]
    if len(more):
        known = np.concatenate([known, finite_log_likelihood(whole, more)])
    known = known - held_once(search.session, search.checked, full, whole, draws, known)
    return reference_from_evaluated(full, draws, known, ITERATED, search.seed)


@contextmanager
def _searching(
    session: Session, checked: StanData, full: FullData, seed: int, policy: Policy
) -> Iterator[CollapsedSearch]:
    """What a search needs, with the prior bound while it lasts."""
    with without_rows(session, checked) as (prior, seen):
        bending = _bending(prior, seen, seed)
        yield CollapsedSearch(session, checked, full, prior, seen, bending, seed, policy)


def _bending(prior: BoundModel, seen: Psi, seed: int) -> NDArray[np.bool_]:
    """Coordinates that bend prior × quadratic along others, (P,)."""
    none = np.zeros(seen(np.zeros((1, prior.n_params))).shape[1])
    bending = find_bending(PriorTimesQuadratic(prior, seen, none, none, np.diag(none)), seed)
    if bending.all():
        raise ReferenceFitError(
            f"no parameters are Gaussian given at most {MOST_HYPERPARAMETERS} others"
        )
    return bending


def _prior_mode(prior: BoundModel, held: NDArray[np.bool_], seed: int) -> Float:
    """Where the prior is highest, (P,), with the scales of effects where their prior is.

    Scales are held at a few values, of which that with the highest marginal density is taken.
    Coordinates along which the prior rises without end stay at zero.
    """
    none = np.zeros(0)
    alone = PriorTimesQuadratic(prior, lambda x: x[:, :0], none, none, Matrix((0, 0)))
    # A row that is 0 / 0 at the origin has no density there, not even with weight 0.
    origin = stan_init(prior, np.random.default_rng([seed, 127]), np.zeros(prior.n_params))
    best, highest = origin, -np.inf
    for rung in _RUNGS if held.any() else _RUNGS[:1]:
        start = prior_mode(prior, np.where(held, rung, origin), held)
        conditional = Conditional.of(alone, ~held, start, np.ones(len(start)))
        height = conditional.log_marginal(start[held][None])[0]
        if rung == _RUNGS[0] or height > highest:
            best, highest = start, height
    return best


@contextmanager
def _sampled(whole: FullData, size: int, seed: int) -> Iterator[FullData]:
    """A random sample of rows in memory, or the rows themselves if they are there and all of it."""
    if size == whole.n_obs and whole.passes.stored is None:
        yield whole
    else:
        with whole.sampled(size, np.random.default_rng(seed)) as few:
            yield few


@dataclass(frozen=True)
class _Ridged:
    """The log likelihood of rows, less a weak ridge around a point."""

    rows: FullData
    centre: Float
    width: Float
    held: NDArray[np.bool_]

    @property
    def n_params(self) -> int:
        return self.rows.n_params

    def log_density(self, draws: Float) -> Float:
        return self.log_density_gradient(draws)[0]

    def log_density_gradient(self, draws: Float) -> tuple[Float, Float]:
        value, slope = self.rows.log_density_gradient(draws)
        prior, own = self.rows.prior.log_density_gradient(draws)
        away = (draws - self.centre) / self.width
        with np.errstate(invalid="ignore"):
            along = np.where(self.held, 0.0, slope - own - away / self.width)
            return value - prior - 0.5 * np.sum(away**2, axis=1), along

    def at(self, point: Float) -> tuple[float, Float]:
        """Value and gradient at one point, (p,)."""
        value, slope = self.log_density_gradient(point[None])
        return float(value[0]), slope[0]

    def precision(self, point: Float) -> AnyMatrix:
        """The negative Hessian at a point."""
        # Over the same steps, so that a kink of the prior is in both.
        hessian, steps = at_own_width(self.rows, point)
        prior = self.rows.prior.log_density_gradient
        own = Hessians(self.rows.param_names).at(prior, point, steps.scale)
        ridge = sparse.diags_array(1 / self.width**2)
        return own - hessian + (ridge if is_sparse(hessian) else ridge.toarray())


def _rough_mode(search: CollapsedSearch, whole: FullData, start: Float) -> GaussianFit:
    """Where a few rows' likelihood is highest, near what the prior says of ψ, and its curvature.

    Rows that are no generalised linear model may have several modes: climbs from random points
    look for them. A log likelihood with one mode has all their ends together, for the ridge holds
    what it does not know.

    Raises
    ------
    ReferenceFitError
        If two ends are as high as each other, and apart.
    """
    size, climbs = search.climbed(whole), search.policy.climbs
    apart, rng = search.policy.mode_height, np.random.default_rng([search.seed, 103])
    one_mode = whole.glm is not None and whole.glm.has_one_mode
    others = () if one_mode else rng.uniform(-2.0, 2.0, (climbs, len(start)))
    # Scales are held: as parameters of ψ they are what the prior says, not the rows.
    points = np.where(search.bending, start, np.reshape(others, (-1, len(start))))
    (first,), points = search.finite(start[None]), search.seen(points)
    with _sampled(whole, size, search.seed) as few:
        ridged = _Ridged(few, first, search.ridge(start), search.held)
        if not _is_inside(ridged, first):
            raise ReferenceFitError("the likelihood is zero where the prior is highest")
        top = ascend(ridged, first)
        points = points[[_is_inside(ridged, point) for point in points]]
        # The curvature at the top says nothing of what is far from it.
        nearer = [climb(ridged.at, p, slope=_SLOPE, max_iter=_STRETCH).theta for p in points]
        arrived = False
        for _ in range(1 + climbs):
            known = gaussian_at(top, ridged.precision(top), few.param_names)
            if not nearer:
                return known
            climbed = known.whitened(ridged.log_density_gradient)
            starts = known.standardised(np.array(nearer)).T
            ends = np.array(
                [climb(climbed, z, slope=_SLOPE, max_iter=_STEPS).theta for z in starts]
            )
            there = known.mean + ends @ known.chol.T
            height = ridged.log_density_gradient(np.stack([top, *there]))[0]
            # The climb to the top may have ended a little below it.
            slope = climbed(np.zeros(len(top)))[1]
            lower = height[0] - height[1:]
            expected = 0.5 * np.sum(ends**2, axis=1) - ends @ slope
            _log.debug("ends of climbs: lower by %s, expected %s", lower, expected)
            highest = int(np.argmin(lower))
            further = are_other_modes(lower, expected, apart)
            if lower[highest] < -apart:
                # The climb from the prior's mode had ended on its way.
                nearer, top = [top, *there], ascend(ridged, there[highest])
            elif further.any() and not arrived:
                # So may these, in units that suit the top.
                nearer, arrived = [ascend(ridged, end) for end in there[further]], True
            else:
                break
        require_one_mode(lower, expected, apart)
    return known


def are_other_modes(lower: Float, expected: Float, apart: float) -> NDArray[np.bool_]:
    """Whether ends of climbs are modes besides the highest one, see `require_one_mode`, (K,)."""
    return (lower <= 2 * apart) & (expected > lower + apart)


def require_one_mode(lower: Float, expected: Float, apart: float, of: str = "") -> None:
    """Refuse a likelihood `of` which climbs end at several modes.

    Parameters
    ----------
    lower : ndarray, shape (K,)
        How much lower the ends are than the highest, in nats.
    expected : ndarray, shape (K,)
        How much lower a quadratic around the highest end is there.
    apart : float
        How much more that must be for another mode.

    Raises
    ------
    ReferenceFitError
        If an end that is nearly as high is no part of the highest one's mode.
    """
    if are_other_modes(lower, expected, apart).any():
        raise ReferenceFitError(f"the likelihood{of} has several modes")


def _at_highest(
    search: CollapsedSearch, rows: FullData, rough: GaussianFit, start: Float
) -> Expansion:
    """Taylor's expansion of the log likelihood of rows where it is highest."""
    ridged = _Ridged(rows, search.finite(start[None])[0], search.ridge(start), search.held)
    share = np.sqrt(search.climbed(rows) / rows.n_obs)
    rough = replace(rough, chol=rough.chol * share)
    density = rough.whitened(ridged.log_density_gradient)
    top = climb(density, np.zeros(len(rough.mean)), slope=_SLOPE, max_iter=_STEPS)
    gaussian = replace(rough, mean=rough.mean + rough.chol @ top.theta)
    _log.debug("%d steps to the mode of %d rows", top.evaluations, rows.n_obs)
    # Taken of one draw, of which nothing counts but where it is.
    psi = gaussian.mean[None]
    here = Reference("draws", psi, rows.param_names, search.seed, gaussian, _NONE, _NONE)
    return search.session.likelihood.expand(rows, here)


def _is_inside(ridged: _Ridged, point: Float) -> bool:
    """Whether a climb can begin at a point."""
    value, slope = ridged.log_density_gradient(point[None])
    return bool(np.isfinite(value[0]) and np.all(np.isfinite(slope)))


def _moved(before: CollapsedTurn, after: CollapsedTurn) -> float:
    """The largest move of a mean of ψ, in standard deviations."""
    sd = after.psi.std(axis=0)
    moved = np.abs(after.mean - before.mean)
    return float(np.max(moved / np.where(sd > 0, sd, 1.0), initial=0.0))


def _widths(density: PriorTimesQuadratic, point: Float) -> Float:
    """Widths of prior × quadratic along each coordinate by itself."""
    hessian = Hessians(density.param_names)
    names = density.param_names
    step = np.ones(len(names))
    prior = hessian.at(density.prior.log_density_gradient, point, step)
    curvature = -prior.diagonal()
    generic = point + 0.5
    meets = dependencies(density.seen, generic, step, names)
    every = np.ones(len(names), dtype=bool)
    along = Directions.of(meets, every, 1e-4 * step)
    jacobian = along.forward(density.seen(along.ahead(generic[None])))[1](0)
    bent = density.curvature @ jacobian
    rows = jacobian.multiply(bent) if is_sparse(bent) else jacobian.toarray() * bent
    curvature = curvature + np.asarray(rows.sum(axis=0)).ravel()
    return _wide(curvature)


def _wide(curvature: Float) -> Float:
    """Standard deviations of curvatures; one where there is none."""
    with np.errstate(invalid="ignore", divide="ignore"):
        width = 1 / np.sqrt(curvature)
    return np.where(np.isfinite(width) & (width > 0), np.clip(width, _NARROW, 1e3), 1.0)
