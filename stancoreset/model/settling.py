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
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np

from stancoreset.engines import (
    NUTS,
    Float,
    StanData,
)
from stancoreset.errors import ModeAtInfinityError, ReferenceFitError, StancoresetError
from stancoreset.model.all_rows import MAY_MIX, are_few, stand_for_themselves
from stancoreset.model.collapsing import collapsed_reference, quadratic_of_likelihood
from stancoreset.model.session import Session
from stancoreset.model.view import held_once, of_psi, view_of
from stancoreset.model.without_rows import WithoutRows
from stancoreset.posterior.arviz import worst_rhat
from stancoreset.reference import (
    Reference,
    finite_log_likelihood,
    fit_reference,
    in_dimensions,
    in_use,
    of_evaluated,
    require_usable,
    start_seed,
)
from stancoreset.rows import FullData
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
# Of the way to the next quadratic, the share that is gone where the whole way made it worse.
_SHORTER = 0.3
# Share of divergent transitions above which the posterior's chains take smaller steps.
_MANY = 0.005
# Difference of two gradients, as a share of them, that is none.
_ROUNDING = 1e-9


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

    def instead_of(self, fit: Callable[[], Reference], *, collapses: bool) -> Reference:
        """Settled draws, or the reference that `fit` makes, with the reason why not.

        `collapses` says whether the collapsed sampler may make them before `fit` is called. It is
        for rows that see other values than the parameters, where a Laplace fit is far from the
        posterior, and for effects that are parameters themselves, where there is none.
        """
        reason = ""
        if collapses and (self.session.likelihood is not self.session or self._are_scaled):
            try:
                return collapsed_reference(
                    self.session, self.checked, self.full, self.count, self.seed
                )
            except StancoresetError as error:
                reason = _clause(error)
                _log.debug("no draws of the collapsed sampler: %s", reason)
        try:
            reference = fit()
        except ModeAtInfinityError:
            raise
        except ReferenceFitError as error:
            if not are_few(self.full):
                with suppress(StancoresetError):
                    return self._from_likelihood(reason or _clause(error))
            raise
        found = self.from_reference(reference, reason)
        if found.unsettled and not found.of_draws and are_few(self.full):
            # NUTS on all rows follows, and takes its metric and coordinates from draws.
            with suppress(StancoresetError):
                near = fit_reference(self.full, "pilot", self.count, self.seed)
                near = replace(near, unsettled=found.unsettled, elsewhere=found.elsewhere)
                return near if stand_for_themselves(self.full, near) else found
        return found

    def _from_likelihood(self, by_chains: str) -> Reference:
        """Settle from where the likelihood alone is highest: a prior may have kinks and poles."""
        expansion, point = quadratic_of_likelihood(self.session, self.checked, self.full, self.seed)
        whole = self.session.seen_data(self.checked)
        best = self._long(whole, self._turns(whole, expansion, point[None]))
        return replace(self._reference(whole, best), by_chains=by_chains)

    def from_reference(self, reference: Reference, by_chains: str = "") -> Reference:
        """Settle from a reference; it stays if it is good, and with a reason if that fails.

        `by_chains` says why the collapsed sampler made no draws, if it was tried.
        """
        try:
            view = view_of(self.session, self.checked, self.full, reference)
            expansion = view.session.expand(view.full, view.reference)
            gap = expansion.gap(view.reference)
            if view.reference is reference and gap <= _GOOD:
                return reference
            if reference.method == "pilot" and are_few(self.full):
                self._require_near(gap, view.full)  # they are draws of all rows' posterior
            best = self._long(view.full, self._turns(view.full, expansion, reference.draws))
            found = self._reference(view.full, best)
            return replace(found, elsewhere=reference.elsewhere, by_chains=by_chains)
        except StancoresetError as error:
            return replace(reference, unsettled=_clause(error))

    def _here(self, full: FullData, psi: Float) -> Reference:
        """A reference of values of ψ, the first of which are evaluated."""
        looked_at = finite_log_likelihood(full, psi[:_LOOKED_AT])
        return of_psi(psi, looked_at, full, self.seed)

    @property
    def _are_scaled(self) -> bool:
        """Whether the prior alone knows some parameters: scales of effects that rows see."""
        full = self.full
        points = np.random.default_rng([self.seed, 53]).uniform(-1.0, 1.0, (2, full.n_params))
        whole, own = (some.log_density_gradient(points)[1] for some in (full, full.prior))
        negligible = _ROUNDING * (np.abs(whole) + np.abs(own))
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
        best: _Turn | None = None
        ahead: Expansion | None = None
        near: Float | None = None
        before, share = np.inf, 1.0
        for turn in range(_TURNS):
            if best is not None:
                ahead = ahead or self.session.likelihood.expand(full, best.seen, PAIRS, bent=True)
                expansion = best.expansion.towards(ahead, share)
                inits, near = best.last, best.draws
            # The turn that is most likely the last one makes the reference's draws.
            length = _SAMPLING if before <= _of_groups(_SOON, full) else _TURN
            made = self._turn(full, expansion, inits, near, turn, length)
            if best is None or made.gap < best.gap:
                best, ahead, share = made, None, 1.0
            else:
                share *= _SHORTER
            # A quadratic that leaves more than its draws can tell is for the rows to complete.
            still = _STILL * before <= made.gap <= _of_groups(_FOR_ROWS, full)
            if made.gap <= _SPREAD or still:
                break
            before = made.gap
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
        if best.length >= _SAMPLING and best.rhat <= _MIXED:
            return best
        for length in (_SAMPLING, _SAMPLING, _LONGER * _SAMPLING):
            if length > _SAMPLING and not best.rhat <= MAY_MIX:
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
        self._require_near(made.gap, full)
        return made

    def _require_near(self, gap: float, full: FullData) -> None:
        """Refuse a quadratic that leaves too much for its draws to be near the posterior."""
        most = _of_groups(_FAR, full)
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


def _of_groups(spread: float, full: FullData) -> float:
    """A spread of what a quadratic leaves, which of many groups is a sum of independent terms."""
    return spread if full.blocks is None else in_dimensions(spread, full.n_params)


def _clause(error: StancoresetError) -> str:
    """What an error's message says, without its advice."""
    return str(error).partition("; ")[0].rstrip(".")
