"""Where the log likelihood is matched: draws from prior times quadratic, until they stand still.

The quadratic is best where the posterior is, and the posterior is known once the quadratic is:

    q₀ → quadratic of L at q₀ → NUTS on prior × quadratic → q₁ → quadratic of L at q₁ → …

NUTS reads no row here, and the prior is exact, its funnels included. What the quadratic leaves of
L at its own draws is their log importance weight, so a small spread shows that the draws are
draws of the full posterior.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np

from stancoreset.engines import (
    NUTS,
    Float,
    StanData,
)
from stancoreset.errors import (
    ImproperPosteriorError,
    ModeAtInfinityError,
    ReferenceFitError,
    StancoresetError,
)
from stancoreset.fit.all_rows import are_few, stand_for_themselves
from stancoreset.fit.by_importance import posterior_by_importance
from stancoreset.fit.by_unit import posterior_by_unit
from stancoreset.fit.collapsing import (
    CollapsedSearch,
    CollapsedTurn,
    collapsed_reference,
    quadratic_of_likelihood,
)
from stancoreset.fit.integrating import integrated_reference
from stancoreset.limits import NOISE
from stancoreset.policy import Policy
from stancoreset.posterior.arviz import worst_rhat
from stancoreset.program import (
    RowFreeProgram,
    Session,
    held_once,
    in_likelihood_coordinates,
    reference_in_psi,
)
from stancoreset.reference import (
    ITERATED,
    Reference,
    finite_log_likelihood,
    fit_reference,
    in_dimensions,
    in_use,
    reference_from_evaluated,
    require_usable,
    start_seed,
)
from stancoreset.rows import FullData
from stancoreset.selection import PAIRS, Expansion

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReferenceIteration:
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
    policy : Policy
    """

    session: Session
    checked: StanData
    full: FullData = field(repr=False)
    nuts: NUTS
    seed: int
    count: int
    policy: Policy

    def find(
        self, fit: Callable[[], Reference], *, collapses: bool, integrates: bool = False
    ) -> Reference:
        """Draws of prior × quadratic, or the reference that `fit` makes, with the reason why not.

        `collapses` says whether the collapsed sampler may make them before `fit` is called, and
        `integrates` whether they may be draws of the posterior itself, to which no rows belong.
        """
        reason = ""
        if integrates and self._may_integrate:
            try:
                return integrated_reference(*self._collapsing, self.nuts)
            except ImproperPosteriorError:
                raise
            except StancoresetError as error:
                _log.debug("no units are integrated out: %s", _clause(error))
        if collapses and self.may_collapse:
            try:
                weighted = integrates and self._are_at_hand
                by_weights = self._by_weights if weighted else None
                return collapsed_reference(*self._collapsing, by_weights)
            except ImproperPosteriorError:
                raise
            except StancoresetError as error:
                reason = _clause(error)
                _log.debug("no draws of the collapsed sampler: %s", reason)
        try:
            reference = fit()
        except ModeAtInfinityError:
            raise
        except ReferenceFitError as error:
            with suppress(StancoresetError):
                return self._from_likelihood(reason or _clause(error))
            raise
        found = self.from_reference(reference, reason)
        if found.unsettled and not found.of_draws and are_few(self.full):
            # NUTS on all rows follows, and takes its metric and coordinates from draws.
            with suppress(StancoresetError):
                near = fit_reference(self.full, "pilot", self.count, self.seed)
                near = replace(near, unsettled=found.unsettled, elsewhere=found.elsewhere)
                return near if stand_for_themselves(self.full, near, self.policy) else found
        return found

    def find_without_chains(self, fit: Callable[[], Reference]) -> Reference:
        """Independent draws, or the reference that `fit` makes, with the reason why not."""
        if not self.may_collapse:
            return fit()
        try:
            return collapsed_reference(*self._collapsing)
        except ImproperPosteriorError:
            raise
        except StancoresetError as error:
            return replace(fit(), unsettled=_clause(error))

    @property
    def may_collapse(self) -> bool:
        """Whether the collapsed sampler is for this program.

        It is for rows that see other values than the parameters, where a Laplace fit is far from
        the posterior, and for effects that are parameters themselves, where there is none.
        """
        return self.session.likelihood is not self.session or self._are_scaled

    @property
    def _may_integrate(self) -> bool:
        """Whether rows are in this process, and no generalised linear model.

        Such a model's likelihood is nearly quadratic in the parameters of its units.
        """
        return self._are_at_hand and self.session.seen_data(self.checked).glm is None

    @property
    def _are_at_hand(self) -> bool:
        """Whether rows are in this process, which evaluates them thousands of times."""
        return self.full.passes.stored is None and self.session.in_process

    def _by_weights(self, search: CollapsedSearch, turn: CollapsedTurn) -> Reference:
        """Draws of the posterior by weights, for each unit by itself where there are units."""
        for draw in (posterior_by_unit, posterior_by_importance):
            try:
                return draw(search, turn, self.nuts, self.count)
            except StancoresetError as error:
                _log.debug("no importance weights: %s", _clause(error))
        raise ReferenceFitError("no importance weights can be trusted")

    @property
    def _collapsing(self) -> tuple[Session, StanData, FullData, int, int, Policy]:
        """The arguments of `collapsed_reference`."""
        return self.session, self.checked, self.full, self.count, self.seed, self.policy

    def _from_likelihood(self, by_chains: str) -> Reference:
        """Iterate from where the likelihood alone is highest: a prior may have kinks and poles."""
        expansion, point = quadratic_of_likelihood(
            self.session, self.checked, self.full, self.seed, self.policy
        )
        whole = self.session.seen_data(self.checked)
        best = self._long(whole, self._turns(whole, expansion, point[None]))
        return replace(self._reference(whole, best), by_chains=by_chains)

    def from_reference(self, reference: Reference, by_chains: str = "") -> Reference:
        """Iterate from a reference; it stays if it is good, and with a reason if that fails.

        `by_chains` says why the collapsed sampler made no draws, if it was tried.
        """
        try:
            view = in_likelihood_coordinates(self.session, self.checked, self.full, reference)
            expansion = view.session.expand(view.full, view.reference)
            gap = expansion.gap(view.reference)
            # Where rows bend at points, draws tell a better quadratic than derivatives at a mode.
            good = gap <= self.policy.error_goal and not expansion.rows_bend
            if view.reference is reference and good:
                return reference
            if reference.method == "pilot" and are_few(self.full):
                self._require_near(gap, view.full)  # they are draws of all rows' posterior
            best = self._long(view.full, self._turns(view.full, expansion, reference.draws))
            found = self._reference(view.full, best)
            left = f"the quadratic of a {reference.label} is off by {gap:.2g} nats at its draws"
            why = by_chains or left
            return replace(found, elsewhere=reference.elsewhere, by_chains=why)
        except StancoresetError as error:
            return replace(reference, unsettled=_clause(error))

    def _here(self, full: FullData, psi: Float) -> Reference:
        """A reference of values of ψ, the first of which are evaluated."""
        looked_at = finite_log_likelihood(full, psi[: self.policy.looked_at])
        return reference_in_psi(psi, looked_at, full, self.seed)

    @property
    def _are_scaled(self) -> bool:
        """Whether the prior alone knows some parameters: scales of effects that rows see."""
        full = self.full
        points = np.random.default_rng([self.seed, 53]).uniform(-1.0, 1.0, (2, full.n_params))
        whole, own = (some.log_density_gradient(points)[1] for some in (full, full.prior))
        negligible = NOISE * (np.abs(whole) + np.abs(own))
        return bool(np.any(np.all(np.abs(whole - own) <= negligible, axis=0)))

    def _turns(self, full: FullData, expansion: Expansion, inits: Float) -> _Turn:
        """The best of a few turns, until what the quadratic leaves is little or stands still.

        Each turn expands the log likelihood at the best draws so far. Where that made it worse, as
        with outcomes whose log likelihood bends at points, it goes only a share of the way.

        Raises
        ------
        ReferenceFitError
            If the draws are not near the posterior.
        """
        policy, mendable = self.policy, _of_groups(self.policy.mendable, full)
        best: _Turn | None = None
        ahead: Expansion | None = None
        near: Float | None = None
        share = 1.0
        for turn in range(policy.turns):
            before = np.inf if best is None else best.gap
            if best is not None:
                ahead = ahead or self.session.likelihood.expand(full, best.seen, PAIRS, bent=True)
                expansion = best.expansion.towards(ahead, share)
                inits, near = best.last, best.draws
            # The turn that is most likely the last one makes the reference's draws.
            soon = before <= mendable
            made = self._turn(full, expansion, inits, near, turn, self._length(long=soon))
            if best is None or made.gap < best.gap:
                best, ahead, share = made, None, 1.0
            else:
                share *= policy.backtrack
            # A quadratic that leaves more than its draws can tell is for the rows to complete.
            still = policy.improvement * before <= made.gap and best.gap <= mendable
            if best.gap <= policy.near or still:
                break
        assert best is not None
        self._require_near(best.gap, full)
        return best

    def _long(self, full: FullData, best: _Turn) -> _Turn:
        """The turn itself, if it is long and its chains agree, or the same with more draws.

        Chains that were still on their way leave the place of their quadratic; it follows them.

        Raises
        ------
        ReferenceFitError
            If the chains do not agree, or the draws are not near the posterior.
        """
        policy, long = self.policy, self._length(long=True)
        mendable = _of_groups(policy.mendable, full)
        if best.length >= long and best.rhat <= policy.chains_agree:
            return best
        for length in (long, long, math.ceil(policy.unmixed_longer * long)):
            if length > long and not best.rhat <= policy.chains_may_agree:
                break
            made = self._turn(full, best.expansion, best.last, best.draws, policy.turns, length)
            stays = made.gap <= max(mendable, best.gap / policy.improvement)
            if stays and made.rhat <= policy.chains_agree:
                break
            best = made
            if not stays:
                here = self.session.likelihood.expand(full, made.seen, PAIRS, bent=True)
                best = replace(made, expansion=here)
        if not made.rhat <= policy.chains_agree:
            raise ReferenceFitError(
                f"the chains of prior times quadratic disagree (R̂ is {made.rhat:.3g}, expected at "
                f"most {policy.chains_agree:g}): it may be improper, or have several modes"
            )
        self._require_near(made.gap, full)
        return made

    def _require_near(self, gap: float, full: FullData) -> None:
        """Refuse a quadratic that leaves too much for its draws to be near the posterior."""
        most = _of_groups(self.policy.far, full)
        if not gap <= most:
            raise ReferenceFitError(
                f"the quadratic leaves {gap:.3g} of the log likelihood at its own draws, "
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
        depth = self.policy.turn_depth + (length >= self._length(long=True))
        nuts = NUTS(
            chains=chains,
            iter_warmup=self.policy.turn_warmup,
            iter_sampling=length,
            adapt_delta=self._delta(full),
            max_treedepth=min(depth, self.nuts.max_treedepth),
            parallel_chains=self.nuts.parallel_chains,
        )
        without = RowFreeProgram(session, self.checked)
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
        step = np.nan if near is None else float(np.mean(result.stats["step_size"]))
        seen = self._here(full, psi[order])
        gap = expansion.gap(seen)
        _log.debug("turn %d, %d rows: gap %.3g, R̂ %.3g", turn, full.n_obs, gap, rhat)
        return _Turn(expansion, draws[order], found[:, -1], seen, gap, rhat, diverged, step, length)

    def _length(self, *, long: bool) -> int:
        """Iterations of each chain in a turn that looks for the next place, or that is the last."""
        draws = self.policy.reference_draws if long else self.policy.search_draws
        return math.ceil(draws / max(2, self.nuts.chains))

    def _delta(self, full: FullData) -> float:
        """Target acceptance rate of the chains, which move all parameters, whatever rows see."""
        nuts, dimensions = self.nuts, self.full.n_params
        return nuts.delta if full.blocks is None else nuts.delta_of_groups(dimensions)

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
        known = known - held_once(self.session, self.checked, full, whole, draws, known)
        found = reference_from_evaluated(full, draws, known, ITERATED, self.seed)
        diverged = last.diverged > self.policy.divergent_share
        return replace(found, diverged=diverged, step_size=last.step_size)


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
    step_size : float
        Mean of the chains; NaN if they learned their metric.
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
    step_size: float
    length: int


def count_iterations(policy: Policy) -> int:
    """Iterations of each of four chains in a search of three turns, and in a last one."""
    draws = 3 * policy.search_draws + policy.reference_draws
    return 4 * policy.turn_warmup + draws // 4


def _of_groups(spread: float, full: FullData) -> float:
    """A spread of what a quadratic leaves, which of many groups is a sum of independent terms."""
    return spread if full.blocks is None else in_dimensions(spread, full.n_params)


def _clause(error: StancoresetError) -> str:
    """What an error's message says, without its advice."""
    return str(error).partition("; ")[0].rstrip(".")
