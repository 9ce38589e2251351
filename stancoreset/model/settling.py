"""Where the log likelihood is matched: draws from prior times quadratic, until they stand still.

The quadratic is best where the posterior is, and the posterior is known once the quadratic is:

    q₀ → quadratic of L at q₀ → NUTS on prior × quadratic → q₁ → quadratic of L at q₁ → …

NUTS reads no row here, and the prior is exact, its funnels included. What the quadratic leaves of
L at its own draws is their log importance weight, so a small spread shows that the draws are
draws of the full posterior.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from stancoreset.engines import (
    NUTS,
    BoundModel,
    Climbable,
    Coordinates,
    Float,
    StanData,
    climb,
    inverse_metric,
    stan_init,
)
from stancoreset.errors import EngineError, ReferenceFitError, StancoresetError
from stancoreset.model.collapsing import collapsed_reference
from stancoreset.model.seen_density import SeenDensity, places_of
from stancoreset.model.session import Session
from stancoreset.model.view import COMPARED, of_psi, offset_of, view_of
from stancoreset.model.without_rows import WithoutRows
from stancoreset.posterior.arviz import worst_rhat
from stancoreset.reference import (
    GaussianFit,
    LogDensity,
    Reference,
    ascend,
    ends_of_climbs,
    finite_log_likelihood,
    hessian_width,
    in_dimensions,
    in_use,
    marginal_mode,
    moments,
    of_evaluated,
    of_widths,
    require_usable,
    start_seed,
)
from stancoreset.rows import CountedDensity, FullData
from stancoreset.selection import PAIRS, Expansion

__all__ = ["SETTLED", "SETTLING_ITERATIONS", "Settling"]

_log = logging.getLogger(__name__)

#: The method of references that consist of draws from prior times quadratic.
SETTLED = "settled"

# NUTS runs of prior times quadratic.
_TURNS = 6
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
# Iterations of each chain in a turn, and its largest tree depth: its draws say where the next
# quadratic belongs, and chains on their way there go on in the next turn.
_WARMUP, _TURN, _DEPTH = 75, 100, 6
# The same of the run whose draws are the reference; how much longer it may become until its chains
# agree.
_SAMPLING, _DEEPER, _LONGER = 300, 7, 3
#: Iterations of each chain in a search of three turns, which most are, and its long run.
SETTLING_ITERATIONS = 3 * (_WARMUP + _TURN) + _WARMUP + _SAMPLING
# What a quadratic leaves at which the next turn is most often the last, and is long at once.
_SOON = 2.0
# Largest R̂ of chains that may agree when they are so much longer.
_MAY_MIX = 1.5
# Of the way to the next quadratic, the share that is gone where the whole way made it worse.
_SHORTER = 0.3
# Rough modes: rows and iterations of L-BFGS that bring chains near the posterior.
_LEAST_ROWS, _ROWS_PER_PARAMETER, _ITERATIONS = 5_000, 30, 150
# A subsample has at most one row in so many: turns on it save less than they cost otherwise, and
# groups of which it has few rows are far from where they are.
_FEWER = 4
# What the quadratic leaves of the log likelihood at a mode that it does not know, beyond what it
# leaves at its draws.
_UNKNOWN = 10.0
# Ends of climbs from which chains show whether they are modes, these chains' tree depth, and
# iterations of which those that stay spend most where they began.
_SUSPECTS, _SHALLOW, _WATCHED = 2, 5, 25
# Share of divergent transitions above which the posterior's chains take smaller steps.
_MANY = 0.005
# Difference of two gradients, as a share of them, that is none.
_ROUNDING = 1e-9
# Draws around a rough mode.
_AROUND = 300
# Gradients at which a whitened climb ends, and that of a prior, whose tails may be heavy.
_SLOPE, _FLAT = 0.1, 1e-3


@dataclass(frozen=True)
class Settling:
    """The search for draws at which the log likelihood is matched.

    Attributes
    ----------
    session : Session
    checked : mapping
        The full data.
    full : FullData
    nuts : NUTS
        The user's options, of which the number of chains, their target acceptance and depth count.
    seed : int
    count : int
        Least number of the reference's draws that are evaluated.
    """

    session: Session
    checked: StanData
    full: FullData = field(repr=False)
    nuts: NUTS
    seed: int
    count: int

    def instead_of(self, fit: Callable[[], Reference], *, rough: bool) -> Reference:
        """Settled draws, or the reference that `fit` makes, with the reason why not.

        `rough` says whether rough modes may be tried before the reference is made.
        """
        reason = ""
        if rough and (self.session.likelihood is not self.session or self._unseen.any()):
            try:
                return self._without_chains()
            except StancoresetError as error:
                _log.debug("no collapsed draws: %s", error)
            try:
                return self.from_rough_modes()
            except StancoresetError as error:
                reason = _clause(error)
                _log.debug("no settled draws: %s", reason)
        found = self.from_reference(fit())
        if reason and found.method != SETTLED:
            found = replace(found, unsettled=reason)
        return found

    def _without_chains(self) -> Reference:
        """Settled draws of the collapsed sampler, on an engine in this process.

        Another takes longer to start than to evaluate a prior.
        """
        if not self.session.in_process:
            raise ReferenceFitError("the engine is not in this process")
        return collapsed_reference(self.session, self.checked, self.full, self.count, self.seed)

    def from_rough_modes(self) -> Reference:
        """Settle on a subsample, from the ends of short optimisations, and then on all rows.

        This is for rows that see other values than the parameters, where a Laplace fit is far
        from the posterior, and for effects that are parameters themselves, where there is none.

        Raises
        ------
        StancoresetError
            If the draws do not settle; the message says why.
        """
        session = self.session
        whole = session.seen_data(self.checked)
        with whole.sampled(self._size, np.random.default_rng(self.seed)) as few:
            ends, around = self._rough_modes()
            near = None
            if len(around):
                # Averaged, for a Hessian at one point may be bent the wrong way. Prior times
                # quadratic has the pole as well: no climb shows where its mass is.
                near, here = around, self._here(few, session.seen(self.checked, around))
                expansion = session.likelihood.expand(few, here, PAIRS, bent=True)
            else:
                expansion = self._expanded(few, session.seen(self.checked, ends[:1]))
            # With many groups a turn costs little, and rows are selected under its Gaussian.
            enough = _FOR_ROWS if whole.blocks is None else _SPREAD
            best = self._turns(few, expansion, self._plausible(ends), near, enough)
        if self._size < self.full.n_obs:
            here = self._here(whole, session.seen(self.checked, best.draws))
            expansion = session.likelihood.expand(whole, here, PAIRS, bent=True)
            best = self._turns(whole, expansion, best.last, best.draws)
        best = self._long(whole, best)
        if not _has_one_mode(whole) and self._has_other_modes(whole, best, ends):
            raise ReferenceFitError(
                "there are other modes, at which the rows see other values and the density is no "
                "lower"
            )
        return self._reference(whole, best)

    def from_reference(self, reference: Reference) -> Reference:
        """Settle from a reference; it stays if it is good, and with a reason if that fails."""
        try:
            view = view_of(self.session, self.checked, self.full, reference)
            expansion = view.session.expand(view.full, view.reference)
            if view.reference is reference and expansion.gap(reference) <= _GOOD:
                return reference
            best = self._long(view.full, self._turns(view.full, expansion, reference.draws))
            found = self._reference(view.full, best)
            return replace(found, elsewhere=reference.elsewhere)
        except StancoresetError as error:
            return replace(reference, unsettled=_clause(error))

    @property
    def _climbed(self) -> int:
        """Rows of the subsample on which climbs are made."""
        wanted = max(_LEAST_ROWS, _ROWS_PER_PARAMETER * self.full.n_params)
        return min(wanted, self.full.n_obs)

    @property
    def _size(self) -> int:
        """Rows of the subsample for turns; all, if it would hardly be smaller."""
        return self._climbed if _FEWER * self._climbed <= self.full.n_obs else self.full.n_obs

    def _some_rows(self) -> BoundModel | FullData:
        """Rows for climbs; processes, which read rows for every point, receive them at once."""
        make = self.full.sampled if self.full.in_process else self.full.subsample
        return make(self._climbed, np.random.default_rng(self.seed))

    @cached_property
    def _unseen(self) -> NDArray[np.bool_]:
        """Parameters that the prior alone knows, where what rows see are parameters as well."""
        full = self.full
        if self.session.likelihood is not self.session:
            return np.zeros(full.n_params, dtype=bool)
        return self._known_by_prior(full, full.prior)

    @property
    def _hyperparameters(self) -> NDArray[np.bool_]:
        """Unseen parameters but for effects in whose mean other effects have theirs.

        With a scale of their own they meet in a pole, too, and are integrated out with the others.
        """
        names = [name.partition(".")[0] for name in self.full.param_names]
        return self._unseen & ~np.isin(names, self.session.effects.located)

    def _known_by_prior(self, density: Climbable, prior: Climbable) -> NDArray[np.bool_]:
        """Coordinates along which rows change nothing, (P,), at two points."""
        rng = np.random.default_rng([self.seed, 53])
        points = rng.uniform(-1.0, 1.0, (2, density.n_params))
        whole, own = (some.log_density_gradient(points)[1] for some in (density, prior))
        negligible = _ROUNDING * (np.abs(whole) + np.abs(own))
        return np.asarray(np.all(np.abs(whole - own) <= negligible, axis=0))

    def _rough_modes(self) -> tuple[Float, Float]:
        """Ends of short optimisations on a subsample, the highest first, (chains, P).

        Where scales of effects are known by the prior alone, they are climbs of what rows see with
        the scales held near the posterior's, and there are draws around the first, (S, P), too:
        along all parameters they would end at the pole where a scale is zero.
        """
        if self.session.effects.are_scaled and not self._unseen.any():
            with suppress(ReferenceFitError):
                return self._centred_modes()
        with self._some_rows() as small:
            if self._unseen.any():
                return self._given_scales(small, self.full.prior, self._hyperparameters)
            return self._ends(small), np.zeros((0, self.full.n_params))

    def _centred_modes(self) -> tuple[Float, Float]:
        """The same of effects that the program scales, which climb as centred ones."""
        effects, none = self.session.effects, self.session.no_rows(self.checked)
        with ExitStack() as bound:
            prior = bound.enter_context(effects.centred(none))
            density: LogDensity | None = self._by_likelihood(prior, bound)
            if density is None:
                density = self._counted(bound.enter_context(effects.centred(self._few)))
            unseen = self._known_by_prior(density, prior.bound)
            if not unseen.any():
                raise ReferenceFitError("rows see the scales of effects")
            ends, draws = self._given_scales(density, prior.bound, unseen)
            return prior.back(ends), prior.back(draws)

    def _by_likelihood(self, prior: Coordinates, bound: ExitStack) -> SeenDensity | None:
        """The density of the subsample by its likelihood in ψ, if ψ are coordinates of the prior.

        `bound` closes what it holds.
        """
        session = self.session
        if session.likelihood is session:
            return None
        width = prior.bound.n_params
        points = np.random.default_rng([self.seed, 71]).uniform(-1.0, 1.0, (2, width))
        places = places_of(session.seen(self.checked, prior.back(points)), points)
        if places is None:
            return None
        # In memory, though it be all rows: those on disk would be read for every step.
        rng = np.random.default_rng(self.seed)
        few = session.seen_data(self.checked).sampled(self._climbed, rng)
        return SeenDensity(bound.enter_context(few), prior.bound, places)

    def _given_scales(
        self,
        density: LogDensity,
        prior: BoundModel,
        unseen: NDArray[np.bool_],
    ) -> tuple[Float, Float]:
        """Ends of climbs given the marginal mode of what rows do not see, and draws around it."""
        names = [name.partition(".")[0] for name in density.param_names]
        scales = unseen & np.isin(names, self._positive)
        q = marginal_mode(density, prior, unseen, scales, self.seed)
        ends, free = [q.mean], sparse.diags_array((~unseen).astype(float))
        for chain in range(1, self.nuts.chains):
            start = stan_init(density, np.random.default_rng([self.seed, 67, chain]))
            around = GaussianFit(np.where(unseen, q.mean, start), free)
            moved = climb(
                around.whitened(density.log_density_gradient),
                np.zeros(len(start)),
                max_iter=_ITERATIONS,
            )
            ends.append(around.mean + free @ moved.theta)
        order = np.argsort(-density.log_density(np.array(ends)), kind="stable")
        draws = q.draw(_AROUND, np.random.default_rng([self.seed, 47]))
        return np.array(ends)[order], draws

    @property
    def _positive(self) -> list[str]:
        """Names of parameters with a lower bound alone, whose coordinates are logarithms."""
        declared = self.session.program.program.parameters
        return [d.name for d in declared if set(d.constraint.given) == {"lower"}]

    def _plausible(self, ends: Float) -> Float:
        """Those ends that are no lower than draws around the highest one may be.

        Log densities of draws are lower than at the mode by a half for each parameter.
        """
        density = self.full.log_density(ends)
        return ends[density >= np.max(density) - self.full.n_params]

    def _ends(self, small: BoundModel | FullData) -> Float:
        """Ends of short optimisations along all parameters, the highest first."""
        chains = self.nuts.chains
        ends, message = ends_of_climbs(
            small, self.seed, chains, 2 * chains, _ITERATIONS, first=self._mode_of_prior
        )
        if not len(ends):
            raise ReferenceFitError(f"no rough mode was found: {message}")
        # The quadratic of a slope far below the mode is bent the wrong way.
        ends[0] = ascend(small, ends[0])
        return ends

    @cached_property
    def _mode_of_prior(self) -> Float | None:
        """The mode of the prior, (P,); None if it has none.

        It says where outcomes are, and how far apart. Random points may be a hundred of their
        scales away, where a Student-t outcome with its heavy tails shows no way.
        """
        prior = self.full.prior
        try:
            top = prior.mode(seed=self.seed)
        except EngineError:  # it may have no mode
            return None
        _, slope = prior.log_density_gradient(top[None])
        return top if np.max(np.abs(slope), initial=0.0) <= _FLAT else None

    def _counted(self, half: Coordinates) -> CountedDensity:
        """The subsample's density in some coordinates."""
        return CountedDensity(half.bound, self.full.passes, self._climbed / self.full.n_obs)

    @property
    def _few(self) -> StanData:
        """The data of the subsample for climbs."""
        return self.full.some(self._climbed, np.random.default_rng(self.seed))

    def _expanded(self, few: FullData, psi: Float) -> Expansion:
        """Taylor's expansion of some rows' log likelihood at one value of ψ, (1, p)."""
        width = hessian_width(few.hessian, psi[0])
        gaussian, none = of_widths(psi[0], width, few.blocks), np.zeros(1)
        here = Reference("draws", psi, few.param_names, self.seed, gaussian, none, none)
        return self.session.likelihood.expand(few, here)

    def _here(self, full: FullData, psi: Float) -> Reference:
        """A reference of values of ψ, the first of which are evaluated."""
        looked_at = finite_log_likelihood(full, psi[:_LOOKED_AT])
        return of_psi(psi, looked_at, full, self.seed)

    def _turns(
        self,
        full: FullData,
        expansion: Expansion,
        inits: Float,
        near: Float | None = None,
        enough: float = _SPREAD,
    ) -> _Turn:
        """The best of a few turns, until what the quadratic leaves is `enough` or stands still.

        Each turn expands the log likelihood at the best draws so far. Where that made it worse,
        as with outliers of a Student-t outcome, it goes only a share of the way. Draws `near` the
        mass give NUTS its metric.

        Raises
        ------
        ReferenceFitError
            If the draws are not near the posterior.
        """
        best: _Turn | None = None
        ahead: Expansion | None = None
        before, share = np.inf, 1.0
        for turn in range(_TURNS):
            if best is not None:
                ahead = ahead or self.session.likelihood.expand(full, best.seen, PAIRS, bent=True)
                expansion = best.expansion.towards(ahead, share)
                inits, near = best.last, best.draws
            # On all rows the turn that is most likely the last one makes the reference's draws.
            long = before <= _of_groups(_SOON, full) and full.n_obs == self.full.n_obs
            length = _SAMPLING if long else _TURN
            made = self._turn(full, expansion, inits, near, turn, length)
            if best is None or made.gap < best.gap:
                best, ahead, share = made, None, 1.0
            else:
                share *= _SHORTER
            # A quadratic that leaves more than its draws can tell is for the rows to complete.
            still = _STILL * before <= made.gap <= _of_groups(_FOR_ROWS, full)
            if made.gap <= enough or still:
                break
            before = made.gap
        assert best is not None
        self._require_near(best, full)
        return best

    def _long(self, full: FullData, best: _Turn) -> _Turn:
        """The turn itself, if it is long and its chains agree, or the same with more draws.

        Chains that were still on their way leave the place of their quadratic; it follows them.

        Raises
        ------
        ReferenceFitError
            If the chains do not agree, or the draws are not near the posterior.
        """
        if best.length >= _SAMPLING and best.rhat <= _MIXED:
            return best
        for length in (_SAMPLING, _SAMPLING, _LONGER * _SAMPLING):
            if length > _SAMPLING and not best.rhat <= _MAY_MIX:
                break
            made = self._turn(full, best.expansion, best.last, best.draws, _TURNS, length)
            stays = made.gap <= max(_SPREAD, best.gap / _STILL)
            if stays and made.rhat <= _MIXED:
                break
            best = made
            if not stays:
                here = self.session.likelihood.expand(full, made.seen, PAIRS, bent=True)
                best = replace(made, expansion=here)
        if not made.rhat <= _MIXED:
            raise ReferenceFitError(
                f"the chains of prior times quadratic disagree (R̂ is {made.rhat:.3g}, expected at "
                f"most {_MIXED:g}): it may be improper, or have several modes"
            )
        self._require_near(made, full)
        return made

    def _require_near(self, made: _Turn, full: FullData) -> None:
        """Refuse draws that are not near the posterior."""
        most = _of_groups(_FAR, full)
        if not made.gap <= most:
            raise ReferenceFitError(
                f"the quadratic leaves {made.gap:.3g} of the log likelihood at its own draws, "
                f"expected at most {most:.3g}"
            )

    def _turn(
        self,
        full: FullData,
        expansion: Expansion,
        inits: Float,
        near: Float | None,
        turn: int,
        length: int,
    ) -> _Turn:
        """Draws from prior times quadratic, `length` of each chain, in trees of limited depth."""
        session, chains = self.session, max(2, self.nuts.chains)  # R̂ of one chain says nothing
        seed = start_seed(self.seed, full.n_obs + turn)
        nuts = NUTS(
            chains=chains,
            iter_warmup=_WARMUP,
            iter_sampling=length,
            adapt_delta=self._delta(full),
            max_treedepth=min(_DEPTH if length < _SAMPLING else _DEEPER, self.nuts.max_treedepth),
            parallel_chains=self.nuts.parallel_chains,
        )
        without = WithoutRows(session, self.checked)
        quadratic = without.quadratic(full, expansion)
        inits = np.resize(inits, (chains, inits.shape[1]))
        result = without.sample(quadratic, nuts, seed, inits, near)
        found, diverged = result.unconstrained, float(np.mean(result.stats["diverging"]))
        order = np.random.default_rng([seed, turn]).permutation(chains * length)
        draws = found.reshape(chains * length, -1)
        psi = session.seen(self.checked, draws)
        if not np.any(np.ptp(psi, axis=0) > 0):
            raise ReferenceFitError("what the rows see does not vary over the draws")
        rhat = worst_rhat({"theta": found})
        seen = self._here(full, psi[order])
        gap = expansion.gap(seen)
        _log.debug("turn %d, %d rows: gap %.3g, R̂ %.3g", turn, full.n_obs, gap, rhat)
        return _Turn(expansion, draws[order], found[:, -1], seen, gap, rhat, diverged, length)

    def _delta(self, full: FullData) -> float:
        """Target acceptance rate of the chains, which move all parameters, whatever rows see."""
        nuts, dimensions = self.nuts, self.full.n_params
        return nuts.delta if full.blocks is None else nuts.delta_of_groups(dimensions)

    def _has_other_modes(self, whole: FullData, settled: _Turn, starts: Float) -> bool:
        """Whether climbs end where rows see other values.

        Such an end counts if the full density is no lower there than at the draws, the quadratic,
        which NUTS has followed, does not know it, and chains that start there stay. Ends may differ
        in funnels of scales and raw effects, whose product the rows see as one, and along ridges of
        an intercept and the mean of effects, on which the quadratic is as flat as the log
        likelihood.
        """
        full, draws = self.full, settled.draws
        ends = self._tops(draws, starts)
        psi, there = (self.session.seen(self.checked, some) for some in (draws, ends))
        # A climb on a subsample may end where all rows have no density.
        values = whole.log_likelihood(there)
        known = np.isfinite(values)
        if not known.any():
            return False
        ends, there, values = ends[known], there[known], values[known]
        low, high = psi.min(axis=0), psi.max(axis=0)
        # Modes of a subsample lie √(N/n) times as far from the posterior's.
        margin = 0.5 * (high - low) * np.sqrt(full.n_obs / self._climbed)
        outside = np.any((there < low - margin) | (there > high + margin), axis=1)
        at_ends = of_psi(there, values, whole, self.seed)
        at_draws = settled.seen.log_likelihood
        density = at_ends.log_likelihood + full.log_prior(ends)
        plausible = density >= np.min(at_draws + full.log_prior(draws[: len(at_draws)]))
        left = settled.expansion.left(at_ends)
        unknown = left > np.max(settled.expansion.left(settled.seen)) + _UNKNOWN
        suspects = ends[outside & plausible & unknown]
        return len(suspects) > 0 and self._stays(
            suspects[:_SUSPECTS], draws, low - margin, high + margin
        )

    def _tops(self, draws: Float, starts: Float) -> Float:
        """Ends of climbs from the starts, whitened by the draws.

        They climb with effects centred halfway, where a mode is near its mass: that of raw effects
        is where their scale is far too large. Where effects are parameters, the starts are ends
        with their scale held: further climbs go to the pole at zero, which is no mode.
        """
        if self._unseen.any():
            return starts

        def rise(half: Coordinates) -> Float:
            gaussian = moments(half.of(draws), self.full.blocks)
            density = gaussian.whitened(self._counted(half).log_density_gradient)
            away = gaussian.standardised(half.of(starts)).T
            tops = [climb(density, z, slope=_SLOPE, max_iter=_ITERATIONS).theta for z in away]
            return np.asarray(gaussian.mean + np.array(tops) @ gaussian.chol.T)

        half, tops = self.session.effects.halfway(self._few, rise)
        with half:
            return half.back(tops)

    def _stays(self, starts: Float, draws: Float, low: Float, high: Float) -> bool:
        """Whether a chain from one of the starts stays where the rows see other values.

        With hundreds of effects the top of a density is far from its mass: there scales are larger
        and effects are hardly shrunk. Chains leave it within a few trajectories, but no other mode.
        Those that have left touch the border now and then. Where chains stay, the density must be
        no lower than at the draws, on the rows that they read.
        """
        inv_metric = inverse_metric(draws)
        nuts = NUTS(
            chains=len(starts),
            iter_warmup=_WARMUP,
            iter_sampling=_WATCHED,
            max_treedepth=_SHALLOW,
            parallel_chains=self.nuts.parallel_chains,
        )
        options = vars(nuts.completed(inv_metric))
        with self.full.subsample(self._climbed, np.random.default_rng(self.seed)) as small:
            found = small.sample(
                seed=self.seed, inits=starts, inv_metric=inv_metric, **options
            ).unconstrained
            there = small.log_density(found[:, -1])
            here = small.log_density(draws[:_LOOKED_AT])
        psi = self.session.seen(self.checked, found.reshape(-1, found.shape[2]))
        outside = ((psi < low) | (psi > high)).reshape(*found.shape[:2], -1)
        stays = np.any(outside.mean(axis=1) > 0.5, axis=1) & (there >= np.min(here))
        _log.debug("%d of %d chains stay at another mode", stays.sum(), len(stays))
        return bool(np.any(stays))

    def _reference(self, whole: FullData, last: _Turn) -> Reference:
        """A reference of the last turn's draws, evaluated where they were looked at, in ψ.

        Both forms of the likelihood are compared at a few of them.
        """
        full, draws, known = self.full, last.draws, last.seen.log_likelihood
        require_usable(draws, full.param_names, "draws of prior times quadratic")
        more = draws[len(known) : in_use(self.count, len(draws))]
        if len(more):
            psi = self.session.seen(self.checked, more)
            known = np.concatenate([known, finite_log_likelihood(whole, psi)])
        own = finite_log_likelihood(full, draws[:COMPARED])
        known = known - offset_of(known[:COMPARED], own, whole)
        found = of_evaluated(full, draws, known, SETTLED, self.seed)
        return replace(found, diverged=last.diverged > _MANY)


@dataclass(frozen=True)
class _Turn:
    """Draws from prior times one quadratic.

    Attributes
    ----------
    expansion : Expansion
        The quadratic.
    draws : ndarray, shape (S, P)
        In random order.
    last : ndarray, shape (chains, P)
        Where the chains ended.
    seen : Reference
        What the rows see of the draws.
    gap : float
        What the quadratic leaves of L at the draws.
    rhat : float
        Largest R̂ of the parameters.
    diverged : float
        Share of divergent transitions.
    length : int
        Iterations of each chain.
    """

    expansion: Expansion
    draws: Float
    last: Float
    seen: Reference
    gap: float
    rhat: float
    diverged: float
    length: int


def _has_one_mode(whole: FullData) -> bool:
    """Whether the log likelihood is known to have one mode in what the rows see.

    Recognised generalised linear models are log-concave in the linear predictor. Of few groups, the
    climbs look for modes that a prior makes as well; of many, they end at the joint mode of raw
    effects and their scale, where no mass is.
    """
    return whole.glm is not None and whole.blocks is not None


def _of_groups(spread: float, full: FullData) -> float:
    """A spread of what a quadratic leaves, which of many groups is a sum of independent terms."""
    return spread if full.blocks is None else in_dimensions(spread, full.n_params)


def _clause(error: StancoresetError) -> str:
    """What an error's message says, without its advice."""
    return str(error).partition("; ")[0].rstrip(".")
