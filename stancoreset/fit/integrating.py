"""Draws of the posterior with one parameter of each unit integrated out, as of a test's persons.

A product of an item's slope and a person's ability is not Gaussian given a few parameters, and
thousands of abilities leave importance weights of all parameters together useless. Given the items
persons are independent, each with one parameter, so that ℓ(ψ_h), the log likelihood without them,
is exact:

    mode of π(h) exp ℓ → quadratic Q of ℓ in ψ_h → h by NUTS from prior × Q → weights exp(ℓ − Q)
    → u given h

The program's density without rows contains π(h) exactly. Where the weights of h are uneven, the
quadratic becomes the one whose gradients are nearest to those of ℓ at the draws, which are those of
prior × quadratic, and h is drawn again.

A draw of prior × Q costs little, an evaluation of ℓ up to a dozen passes over all rows. Gradients
also determine a polynomial S of third order (`ThirdOrder`), and its weights exp(S − Q) say at which
draws ℓ is evaluated (`ThinnedDraws`). The last Q is wider than the posterior: if Q had lighter
tails, a few draws would have most of the weight, while superfluous draws cost little.

Where no quadratic comes near ℓ, or its draws do not reach the tails of π(h) exp ℓ, chains draw h
from π(h) exp ℓ itself (`integrated_chains`).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from scipy.linalg import eigh

from stancoreset.engines import NUTS, Float, StanData, Summit, climb
from stancoreset.errors import ReferenceFitError
from stancoreset.fit.collapsing import RIDGE, far_out, require_one_mode
from stancoreset.fit.integrated_chains import draw_by_chains
from stancoreset.fit.posterior_draws import MOST, reference_of_draws, times_too_few, wanted_draws
from stancoreset.policy import Policy
from stancoreset.posterior import KHAT_USABLE, smoothed_weights
from stancoreset.posterior.arviz import worst_rhat
from stancoreset.program import (
    REFINED_AT,
    IntegratedPosterior,
    RowFreeProgram,
    Session,
    integrated_posterior,
)
from stancoreset.reference import (
    BY_HMC,
    INTEGRATED,
    IntegratedLikelihood,
    Reference,
    ThinnedDraws,
    ThirdOrder,
    WeightedDraws,
    start_seed,
)
from stancoreset.rows import DRAWS_EACH, FullData, without_negative
from stancoreset.selection import UNBOUNDED, ControlVariate

_log = logging.getLogger(__name__)

# Largest slope at the end of a climb, and its iterations between corrections of the places.
_SLOPE, _STEPS = 1.0, 50
# Standard deviations from the mean of h at which tails are looked at: no draw is farther out.
_FAR = (4.0, 5.0)
# Steps of differences, as a share of the ridge's width.
_SMALL = 0.001


@dataclass(frozen=True)
class _Quadratic:
    """Q(ψ_h) = gᵀδ − ½ δᵀAδ with δ = ψ_h − centre, and A without negative eigenvalues."""

    centre: Float = field(repr=False)
    gradient: Float = field(repr=False)
    curvature: Float = field(repr=False)

    @classmethod
    def of(cls, centre: Float, gradient: Float, curvature: Float) -> _Quadratic:
        positive = without_negative(0.5 * (curvature + curvature.T))
        return cls(centre, gradient, np.asarray(positive))

    def value(self, psi_h: Float) -> Float:
        """Q at (S, p_h) → (S,)."""
        away = psi_h - self.centre
        return np.asarray(away @ self.gradient - 0.5 * np.sum((away @ self.curvature) * away, 1))

    def mended(self, psi_h: Float, slopes: Float) -> _Quadratic:
        """The quadratic whose gradients are nearest to those of ℓ, both (S, p_h), at draws."""
        away = psi_h - self.centre
        linear = np.linalg.lstsq(np.hstack([np.ones((len(away), 1)), away]), slopes)[0]
        return self.of(self.centre, linear[0], np.asarray(-linear[1:]))

    def widened(self, centre: Float, share: float = 0.5) -> _Quadratic:
        """This quadratic with so much less curvature that draws are worth a share of others.

        It has the same slope at a centre. Of p normal variables with precision c in place of one,
        a draw is worth (c (2 − c))^(p/2).
        """
        less = math.sqrt(1 - share ** (2 / len(centre)))
        slope = self.gradient - self.curvature @ (centre - self.centre)
        return _Quadratic(centre, slope, (1 - less) * self.curvature)

    def control(self, names: tuple[str, ...], columns: np.ndarray, psi: Float) -> ControlVariate:
        """Q as data of the program, whose rows see ψ (p,) by these names."""
        values, vectors = eigh(self.curvature)
        axes, gradient, centre = np.zeros((len(values), len(psi))), np.zeros(len(psi)), psi.copy()
        axes[:, columns], gradient[columns], centre[columns] = vectors.T, self.gradient, self.centre
        return ControlVariate(
            centre=centre,
            columns=np.arange(len(psi)),
            param_names=names,
            gradient=gradient,
            scale=np.ones(len(psi)),
            axes=axes,
            curvature=values,
            width=np.full(len(values), UNBOUNDED),
            offset=np.zeros(len(values)),
            diagonal=np.zeros(len(psi)),
            least_eigenvalue=0.0,
        )


@dataclass(frozen=True)
class _Prior:
    """A density of ψ_h, (p_h,): a wide Gaussian, times π(h) where the rows see h itself.

    The Gaussian ends climbs along which the likelihood rises without end.
    """

    posterior: IntegratedPosterior = field(repr=False)
    centre: Float = field(repr=False)
    width: Float = field(repr=False)

    def climb(self, density: Callable[[Float], tuple[float, Float]], start: Float) -> Summit:
        """Climb the sum of a log likelihood, given with its gradient, and this log density."""

        def held(psi_h: Float) -> tuple[float, Float]:
            (value, slope), (own, along) = density(psi_h), self.log_density(psi_h)
            return value + own, slope + along

        return climb(held, start, slope=_SLOPE, max_iter=_STEPS)

    def log_density(self, psi_h: Float) -> tuple[float, Float]:
        """The logarithm of the density at ψ_h, up to a constant, and its gradient."""
        value, slope = self.posterior.log_prior(psi_h)
        away = (psi_h - self.centre) / self.width
        return value - 0.5 * float(away @ away), slope - away / self.width


@dataclass(frozen=True)
class _Turn:
    """Draws of prior × a quadratic, and ℓ with its gradients at the first.

    Attributes
    ----------
    posterior : IntegratedPosterior
        With places that suit the draws.
    quadratic : _Quadratic
    draws : ndarray, shape (S, P)
        Their u are the prior's, or those of the point.
    psi_h : ndarray, shape (S, p_h)
    exact : ndarray, shape (K,)
        ℓ at the first draws.
    rhat : float
        R̂ of h.
    known, slopes : ndarray, shape (E, p_h) each
        ψ_h of all turns at which gradients of ℓ were evaluated, and these.
    worth : float
        Effective number of each draw by weights of ℓ over what earlier turns say of it.
    """

    posterior: IntegratedPosterior
    quadratic: _Quadratic
    draws: Float = field(repr=False)
    psi_h: Float = field(repr=False)
    exact: Float = field(repr=False)
    rhat: float
    known: Float = field(repr=False)
    slopes: Float = field(repr=False)
    worth: float

    @property
    def gap(self) -> float:
        """Standard deviation of ℓ − Q."""
        return float(np.std(self.exact - self.quadratic.value(self.psi_h[: len(self.exact)])))

    def is_usable(self, policy: Policy) -> bool:
        """Whether weights of ℓ over Q can be even, and chains agree on h."""
        return self.gap <= policy.mendable and self.rhat <= policy.chains_agree

    @cached_property
    def wide(self) -> _Quadratic:
        """The quadratic from whose draws h is weighted."""
        return self.quadratic.widened(self.psi_h.mean(axis=0))

    @cached_property
    def polynomial(self) -> ThirdOrder:
        """S, from all gradients."""
        return ThirdOrder.of(self.known, self.slopes)

    def forecast(self, quadratic: _Quadratic, psi_h: Float) -> Float:
        """S less a quadratic, (S, p_h) → (S,), up to a constant.

        A polynomial may be far from ℓ at draws far from those with gradients. So the forecast is no
        lower than the lowest ℓ − Q of these, and the highest values of its exponential are replaced
        by quantiles of a Pareto distribution.
        """
        here = self.psi_h[: len(self.exact)]
        level = np.mean(self.exact - self.polynomial.value(here))
        lowest = np.min(self.exact - quadratic.value(here))
        ahead = self.polynomial.value(psi_h) + level - quadratic.value(psi_h)
        weights, _ = smoothed_weights(np.maximum(ahead, lowest))
        return np.log(weights * len(weights))


@dataclass(frozen=True)
class _Sample:
    """Draws of h from prior × a wide quadratic, some of which are evaluated.

    Attributes
    ----------
    of_h : ndarray, shape (S, P − J)
    psi_h : ndarray, shape (S, p_h)
    thinned : ThinnedDraws
    exact : ndarray, shape (K,)
        ℓ of those evaluated, in the order of their evaluation.
    """

    of_h: Float = field(repr=False)
    psi_h: Float = field(repr=False)
    thinned: ThinnedDraws
    exact: Float = field(repr=False)

    @property
    def weighted(self) -> WeightedDraws:
        """The draws of h that are evaluated, with their weights."""
        made = self.thinned.order[: len(self.exact)]
        return WeightedDraws(self.of_h[made], self.thinned.log_weights)

    def evaluated(
        self, likelihood: IntegratedLikelihood, quadratic: _Quadratic, count: int
    ) -> _Sample:
        """This sample with so many draws evaluated."""
        more = self.psi_h[self.thinned.next(count)]
        exact = np.array([likelihood.value(one) for one in more])
        thinned = self.thinned.with_evaluated(exact - quadratic.value(more))
        return replace(self, thinned=thinned, exact=np.concatenate([self.exact, exact]))

    def joined(self, more: _Sample) -> _Sample:
        """This sample and one more from the same quadratic, evaluated to the same key."""
        both = {
            name: np.concatenate([getattr(self, name), getattr(more, name)])
            for name in ("of_h", "psi_h", "exact")
        }
        return _Sample(thinned=self.thinned.joined(more.thinned), **both)


@dataclass(frozen=True)
class _Search:
    """What all turns share; `of_h` are a program of h alone and its data, if there is one."""

    session: Session
    checked: StanData = field(repr=False)
    full: FullData
    nuts: NUTS
    seed: int
    policy: Policy
    of_h: tuple[Session, StanData] | None

    def draw(
        self,
        posterior: IntegratedPosterior,
        quadratic: _Quadratic,
        count: int,
        near: Float | None,
        number: int = 0,
    ) -> tuple[Float, float]:
        """Draw from prior × quadratic, at least so many, in random order: (S, P), and R̂ of h.

        Draws `near` its mass give the metric. Calls with another `number` give other draws.
        """
        likelihood, chains = posterior.likelihood, max(2, self.nuts.chains)
        names, psi, columns = likelihood.rows.param_names, likelihood.psi, likelihood.columns
        sampled, moved = (posterior.session, self.checked), np.ones(self.full.n_params, dtype=bool)
        if self.of_h is not None:
            sampled, moved = self.of_h, ~posterior.inner
            names, psi = tuple(names[k] for k in columns), psi[columns]
            columns = np.arange(len(columns))
        control = quadratic.control(names, columns, psi)
        nuts = NUTS(
            chains=chains,
            iter_warmup=self.policy.turn_warmup,
            iter_sampling=math.ceil(count / chains),
            max_treedepth=min(self.policy.turn_depth + 1, self.nuts.max_treedepth),
            parallel_chains=self.nuts.parallel_chains,
        )
        near = None if near is None else near[:, moved]
        inits = np.zeros((chains, int(moved.sum()))) if near is None else near[-chains:]
        seed = start_seed(self.seed, self.full.n_obs + number)
        found = RowFreeProgram(*sampled).sample(control, nuts, seed, inits, near).unconstrained
        rhat = worst_rhat({"h": found[:, :, ~posterior.inner[moved]]})
        draws = np.tile(likelihood.point, (found.shape[0] * found.shape[1], 1))
        draws[:, moved] = found.reshape(len(draws), -1)
        return np.random.default_rng([self.seed, 131]).permutation(draws), rhat

    def turn(
        self, posterior: IntegratedPosterior, quadratic: _Quadratic, before: _Turn | None
    ) -> _Turn:
        """Draw from prior × quadratic, and evaluate gradients of ℓ at some."""
        near, count = None if before is None else before.draws, self.policy.reference_draws
        known = 0 if before is None else len(before.known)
        draws, rhat = self.draw(posterior, quadratic, count, near, known)
        psi_h = posterior.psi_h(draws)
        if before is None:
            posterior = posterior.refined(psi_h[:REFINED_AT])
        here = psi_h[: self.takes(quadratic)]
        found = [posterior.likelihood.log_marginal(one) for one in here]
        exact, slopes = np.array([value for value, _ in found]), np.array([s for _, s in found])
        finite = np.isfinite(exact) & np.isfinite(slopes).all(axis=1)
        if not finite.all():
            raise ReferenceFitError(
                f"the likelihood without {posterior.name} has no gradient at {np.sum(~finite)} of "
                f"{len(finite)} draws of prior times its quadratic"
            )
        forecast = quadratic if before is None else before.polynomial
        worth = WeightedDraws(here, exact - forecast.value(here)).ess / len(exact)
        if before is not None:
            here, slopes = np.vstack([before.known, here]), np.vstack([before.slopes, slopes])
        made = _Turn(posterior, quadratic, draws, psi_h, exact, rhat, here, slopes, worth)
        _log.debug("R̂ %.3f of h, weights of %.2f nats, worth %.2f each", rhat, made.gap, worth)
        return made

    def takes(self, quadratic: _Quadratic) -> int:
        """Gradients of ℓ that a better quadratic takes."""
        return max(self.policy.looked_at, DRAWS_EACH * (1 + len(quadratic.centre)))


@far_out()
def integrated_reference(
    session: Session,
    checked: StanData,
    full: FullData,
    count: int,
    seed: int,
    policy: Policy,
    nuts: NUTS,
) -> Reference:
    """Draw from the posterior with one parameter of each unit integrated out.

    Parameters
    ----------
    session : Session
    checked : mapping
        The full data.
    full : FullData
    count : int
        Least number of draws that are evaluated on all rows.
    seed : int
    policy : Policy
    nuts : NUTS
        Chains and draws that are asked for.

    Returns
    -------
    Reference
        As many draws as NUTS would make; `draws_of_reference` puts them into chains.

    Raises
    ------
    StancoresetError
        If no parameter can be integrated out, the likelihood has several modes, or chains of the
        others disagree.
    """
    with integrated_posterior(session, checked, seed) as found:
        of_h = found.of_h(checked, seed)
        search = _Search(session, checked, full, nuts, seed, policy, of_h)
        posterior, quadratic = _at_highest(search, found)
        wanted = wanted_draws(nuts, policy)
        nearest = turn = search.turn(posterior, quadratic, None)
        for _ in range(policy.turns - 1):
            # Evaluations that a turn saves at most: those beyond one for each effective draw.
            little = wanted / turn.worth - wanted <= search.takes(turn.quadratic)
            if little and turn.is_usable(policy):
                break
            mended = turn.quadratic.mended(turn.known, turn.slopes)
            turn = search.turn(turn.posterior, mended, turn)
            if turn.gap >= nearest.gap and not turn.is_usable(policy):
                break
            nearest = turn
        method, made = INTEGRATED, None
        if nearest.is_usable(policy) and _reaches_tails(nearest):
            made = _completed(search, nearest, wanted)
        if made is None:
            near = nearest.draws[:, ~posterior.inner]
            method = BY_HMC
            made = draw_by_chains(nearest.posterior, full, nuts, near, seed, policy)
    rows, log_q = made
    found_draws, evaluated = reference_of_draws(
        session, checked, full, rows, count, method, seed, policy
    )
    return replace(found_draws, log_q=log_q[evaluated])


def _completed(search: _Search, turn: _Turn, wanted: int) -> tuple[Float, Float] | None:
    """Draws (S, P) of the posterior, and their log densities (S,).

    h is drawn by the weights of draws from prior × a wide quadratic, u given h. None if these
    weights cannot be trusted.

    As many h are evaluated as make them worth the number of draws that is `wanted`, or more where
    their Monte-Carlo errors would exceed what a certificate allows.
    """
    rng, at_once = np.random.default_rng([search.seed, 137]), search.policy.values_in_memory
    posterior, quadratic = turn.posterior, turn.wide
    count, likelihood = search.nuts.chains * search.nuts.draws, posterior.likelihood

    def drawn(so_many: int, number: int) -> _Sample:
        of_h: list[Float] = []
        seen: list[Float] = []
        while (made := sum(len(one) for one in of_h)) < so_many:
            some = min(so_many - made, at_once // search.full.n_params)
            draws, _ = search.draw(posterior, quadratic, some, turn.draws, number + made)
            of_h.append(draws[:, ~posterior.inner])
            seen.append(posterior.psi_h(draws))
        psi_h = np.concatenate(seen)
        forecast = turn.forecast(quadratic, psi_h)
        thinned = ThinnedDraws.of(forecast, np.random.default_rng([search.seed, 139, number]))
        return _Sample(np.concatenate(of_h), psi_h, thinned, np.empty(0))

    sample = drawn(MOST * wanted, 1).evaluated(likelihood, quadratic, wanted)
    while True:
        weighted, made = sample.weighted, len(sample.exact)
        if weighted.ess >= wanted:
            which = weighted.resample(count, rng)
            made_of_h = posterior.with_h(weighted.points[which])
            longer = times_too_few(
                search.full, search.nuts, made_of_h, search.policy, without=posterior.name
            )
            if longer == 1 or wanted >= count:  # so many draws cannot be worth more
                break
            wanted = min(count, math.ceil(longer * wanted))
        needed = max(math.ceil(wanted * made / weighted.ess), made + 1)
        if needed > MOST * wanted:
            break
        lacking = MOST * wanted - len(sample.of_h)
        if lacking > 0:
            more = drawn(lacking, 1 + len(sample.of_h))
            below = more.thinned.below(sample.thinned.threshold)
            sample = sample.joined(more.evaluated(likelihood, quadratic, below))
        else:
            sample = sample.evaluated(likelihood, quadratic, needed)
    khat = sample.thinned.khat
    _log.debug("h: ESS %.0f of %d of %d, k̂ %.2f", weighted.ess, made, len(sample.of_h), khat)
    if not (khat <= KHAT_USABLE and weighted.ess >= wanted):
        return None
    return posterior.drawn(weighted.points, weighted.resample(count, rng), rng)


def _reaches_tails(turn: _Turn) -> bool:
    """Whether weights of π(h) exp ℓ over prior × a wide quadratic Q fall where no draw is.

    Draws do not show a tail that they do not reach: where ℓ is flat, as towards a spread of zero,
    Q falls. The weights' second moment is the integral of π(h) exp(2 ℓ − Q). It has to fall between
    four and five standard deviations, along the regressions of all h on each of them.
    """
    posterior = turn.posterior
    h = turn.draws[:, ~posterior.inner]
    along = np.atleast_2d(np.cov(h.T)) / h.std(axis=0)
    ways = np.vstack([along.T, -along.T])
    near, far = _FAR
    draws = posterior.with_h(h.mean(axis=0) + np.vstack([near * ways, far * ways]))
    psi_h, likelihood = posterior.psi_h(draws), posterior.likelihood
    exact = np.array([likelihood.value(one) for one in psi_h])
    second = likelihood.log_prior(draws) + 2 * exact - turn.wide.value(psi_h)
    rise = second[len(ways) :] - second[: len(ways)]
    _log.debug("weights' second moment rises by at most %.1f nats", rise.max())
    return bool(np.all(rise < 0))


def _at_highest(
    search: _Search, posterior: IntegratedPosterior
) -> tuple[IntegratedPosterior, _Quadratic]:
    """The quadratic of ℓ where exp ℓ times the `_Prior` of ψ_h is highest.

    The places of integrands are moved there.

    Raises
    ------
    ReferenceFitError
        If ℓ is as high elsewhere.
    """
    policy, rng = search.policy, np.random.default_rng([search.seed, 149])
    points = rng.uniform(-2.0, 2.0, (policy.looked_at, search.full.n_params))
    psi_h = search.session.require_finite(search.checked, posterior.seen(points))
    psi_h = psi_h[:, posterior.likelihood.columns]
    width = RIDGE * np.maximum(1.0, psi_h.std(axis=0))
    prior = _Prior(posterior, np.median(psi_h, axis=0), width)

    def climbed(
        here: IntegratedPosterior, start: Float
    ) -> tuple[IntegratedPosterior, Float, float]:
        here, top = here.around(start), start
        for _ in range(policy.turns):
            found = prior.climb(here.likelihood.log_marginal, top)
            top, here = found.theta, here.around(found.theta)
            if found.evaluations <= 3:  # the places were right already
                break
        # A climb may follow errors of integrals: ends are compared without them.
        fine = here.refined(top).likelihood
        value = fine.value(top) if fine.resolved else -np.inf
        return here, top, value + prior.log_density(top)[0]

    ends = [climbed(posterior, start) for start in (prior.centre, *psi_h[: policy.climbs])]
    best, top, _ = max(ends, key=lambda end: end[2])
    mirrored = _mirrored(best.likelihood, top, prior, policy.mode_height)
    if mirrored is not None:
        ends.append(climbed(posterior, mirrored))
    here, top, highest = max(ends, key=lambda end: end[2])
    if not np.isfinite(highest):
        raise ReferenceFitError(
            f"integrals over {posterior.name} are not resolved at the end of any climb"
        )
    quadratic = _expanded(here, top, _SMALL * width)
    tops = np.stack([end for _, end, _ in ends])
    own = np.array([prior.log_density(end)[0] for end in tops])
    expected = prior.log_density(top)[0] - own - quadratic.value(tops)
    lower = highest - np.array([value for _, _, value in ends])
    _log.debug("ends of climbs: lower by %s, expected %s", lower, expected)
    require_one_mode(lower, expected, policy.mode_height, f" without {here.name}")
    return here, quadratic


def _mirrored(
    likelihood: IntegratedLikelihood, top: Float, prior: _Prior, lower: float
) -> Float | None:
    """ψ_h where the likelihood is highest if every u is on the other side of their mean.

    Where slopes have no sign, that is a mode as high: no random start finds all signs at once.
    None if the likelihood of the u there is lower than that of the u at `top`, by so many nats.
    """
    middle = likelihood.point[likelihood.units.inner]
    mean = likelihood.given(top).moments()[0]
    away = 2.0 * np.mean(middle + mean) - 2.0 * middle - mean

    def density(psi_h: Float, of_units: Float = away) -> tuple[float, Float]:
        value, slope = likelihood.at(psi_h, of_units[None])
        return float(value[0]), slope[0, likelihood.columns]

    found = prior.climb(density, prior.centre)
    return found.theta if density(found.theta)[0] >= density(top, mean)[0] - lower else None


def _expanded(posterior: IntegratedPosterior, psi_h: Float, step: Float) -> _Quadratic:
    """Q around ψ_h by differences of gradients over steps (p_h,)."""
    gradient = [posterior.likelihood.log_marginal(one)[1] for one in psi_h + np.diag(step)]
    here = posterior.likelihood.log_marginal(psi_h)[1]
    if not np.isfinite([here, *gradient]).all():
        raise ReferenceFitError(
            f"the likelihood without {posterior.name} has no gradient where it is highest"
        )
    return _Quadratic.of(psi_h, here, (here - np.array(gradient)) / step[:, None])
