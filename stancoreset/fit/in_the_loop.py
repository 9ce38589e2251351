"""Coreset posteriors of a weighted Stan program, for the methods with the model in the loop.

Every change of the weights gives a new posterior to draw from: by its Laplace fit (Newton steps
from the previous mode, exact gradients of k rows, however large the data), by a short NUTS run
that starts where the last one ended, or by chains that never end: `coreset_mcmc`'s, each of which
makes a transition or a few from its last state.

These transitions are NUTS' too, with the step size and metric of one warm-up under the first
weights. Slice samplers, as the paper has them, need some twenty densities for each coordinate, one
after the other; a trajectory of NUTS needs ten gradients for all, and both engines run it. The
weights move too slowly for the scale of the posterior to change much between two updates; if it
does, the acceptance rate shows it, and the chains warm up again.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import eigh

from stancoreset.checks import check_choice, check_whole
from stancoreset.engines import BoundModel, Closing, Float, StanData
from stancoreset.errors import EngineError, OptionError, ReferenceFitError, SolverError
from stancoreset.fit.sizes import HELDOUT_DRAWS
from stancoreset.program import Session
from stancoreset.reference import GaussianFit, curvature_width, gaussian_at
from stancoreset.rows import FullData, central_hessian
from stancoreset.selection import Coreset
from stancoreset.selection.in_the_loop import METHODS, CoresetPosterior, tangent

SAMPLERS = ("laplace", "nuts", "chains")
# Default sampler of each method, and its iterations of warm-up. A metric adapts only in a long
# warm-up.
_DEFAULT_SAMPLER = {"coreset_mcmc": "chains"}
_WARMUP = {"laplace": 100, "nuts": 100, "chains": 300}
# Chains warm up again if a smaller share of their last proposals was accepted.
_STUCK = 0.3
# Iterations of warm-up with a known metric, where each move has to adapt its step size.
_READAPTING = 25
# Chains whose draws replace a reference that does not exist, and their target acceptance.
_OWN_CHAINS, _OWN_DELTA = 4, 0.95
# Parameters of a method that are not options.
_GIVEN = {"model", "size", "draws", "seed", "callback"}
# Newton steps from the last coreset's mode before the search starts afresh.
_NEWTON_STEPS = 50
_RANDOM_STARTS = 3
# A Newton decrement of 1e-4 leaves the mode within 0.01 posterior standard deviations.
_DECREMENT = 1e-4


def select_in_the_loop(
    session: Session,
    checked: StanData,
    full: FullData,
    size: int,
    method: str,
    *,
    draws: int | None = None,
    candidates: int,
    by_kernel: bool = False,
    seed: int = 0,
    sampler: str | None = None,
    subsample: int | None = None,
    warmup: int | None = None,
    transitions: int = 1,
    progress: Callable[[int], object] | None = None,
    **options: Any,
) -> Coreset:
    """Choose rows and weights under draws of the coreset's own posterior.

    Parameters
    ----------
    full : FullData
        The rows of `checked`, bound to the engine.
    size : int
        At most this many rows, k.
    method : {"sparse_vi", "quasi_newton", "coreset_mcmc"}
    draws : int, optional
        Draws of each coreset posterior; default: the method's own.
    candidates : int
        Number of candidate rows, M, of which only ``sparse_vi`` uses more than `size`.
    by_kernel : bool
        Whether the candidates are rows that stand for all rows, in place of random ones.
    sampler : {"laplace", "nuts", "chains"}, optional
        The way to draw from a coreset posterior; default: ``"chains"`` for ``coreset_mcmc``, which
        alone can use them, and ``"laplace"`` for other methods.
    subsample : int, optional
        Number B of random rows, new for each posterior and weighted by N/B, that estimate the log
        likelihood of all rows; default: all rows, which costs S log densities per step.
    warmup : int, optional
        Warm-up iterations of each NUTS run; default: 100, or 300 for chains, which warm up once.
    transitions : int
        NUTS transitions of each of the chains for one draw; one nearly forgets where it began.
    progress : callable, optional
        Called with the number of rounds done since the last call.
    **options
        Of the method: see `stancoreset.selection.in_the_loop.sparse_vi`, `quasi_newton` and
        `coreset_mcmc`.

    Returns
    -------
    Coreset
        The coreset, with errors under its own posterior: ``relative_error`` on the last draws of
        the method, ``heldout_error`` on new draws and all rows.

    Raises
    ------
    OptionError
        If the method or sampler is unknown, or a number is out of range.
    SolverError
        If the method does not know an option, a log likelihood is not finite, or a coreset
        posterior cannot be drawn from.
    """
    check_options(method, options)
    chained = method in _DEFAULT_SAMPLER
    if sampler == "chains" and not chained:
        raise OptionError(
            f"sampler is 'chains', but method {method!r} needs many draws of each posterior at "
            "once; give 'laplace' or 'nuts', or method='coreset_mcmc'"
        )
    if method != "sparse_vi":
        candidates = min(candidates, size)  # a random subset of a random pool is a random subset
    if draws is not None:
        options["draws"] = draws

    def tick(*_: object) -> None:
        if progress is not None:
            progress(1)

    with EnginePosterior(
        session,
        checked,
        full,
        candidates=candidates,
        by_kernel=by_kernel,
        seed=seed,
        sampler=sampler or _DEFAULT_SAMPLER.get(method, "laplace"),
        subsample=subsample,
        warmup=warmup,
        transitions=transitions,
    ) as posterior:
        model = posterior.model()
        result = METHODS[method](model, size, seed=seed, callback=tick, **options)
        if len(result.indices) == 0:
            raise SolverError(
                f"method {method!r} left no row with a positive weight; give more rows, more "
                "draws or another method"
            )
        rng = np.random.default_rng([seed, 19])
        unseen = tangent(
            posterior.model(exact=True), result.indices, result.weights, HELDOUT_DRAWS, rng
        )
        return Coreset(
            indices=posterior.rows[result.indices],
            weights=result.weights,
            n_obs=full.n_obs,
            method=method,
            relative_error=result.relative_error,
            heldout_error=unseen.relative_error,
            trace=tuple(float(e) for e in result.trace),
            sizes=tuple(int(k) for k in result.sizes),
            rows=session.program.rows,
            obs=session.program.obs,
        )


def needs_mode(method: str, options: Mapping[str, Any]) -> bool:
    """Whether the method, with its options, draws from Laplace fits."""
    return (options.get("sampler") or _DEFAULT_SAMPLER.get(method, "laplace")) == "laplace"


def draws_of(session: Session, checked: StanData, coreset: Coreset, count: int, seed: int) -> Float:
    """Draw at least `count` points from a coreset's posterior by NUTS, unconstrained, (R, P)."""
    data = session.program.subset(checked, coreset.indices, coreset.weights)
    with session.density().bind(data) as bound:
        result = bound.sample(
            chains=_OWN_CHAINS,
            iter_warmup=_WARMUP["chains"],
            iter_sampling=-(-count // _OWN_CHAINS),
            seed=seed,
            adapt_delta=_OWN_DELTA,
        )
    return result.unconstrained.reshape(-1, bound.n_params)


def check_options(method: str, options: Mapping[str, Any]) -> None:
    """Raise unless the method exists and knows the options."""
    check_choice("method", method, METHODS)
    own = set(inspect.signature(METHODS[method]).parameters) - _GIVEN
    known = sorted(own | {"sampler", "subsample", "warmup", "transitions"})
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise SolverError(
            f"option {unknown[0]!r} is not known to method {method!r}; its options are "
            f"{', '.join(known)}"
        )


@dataclass(eq=False)
class EnginePosterior(Closing):
    """Draws and log likelihoods of the coresets of a pool of candidate rows.

    `rows` (M,) are the row numbers of the candidates; for the arguments see `select_in_the_loop`.
    """

    session: Session
    checked: StanData
    full: FullData
    _: KW_ONLY
    candidates: int
    by_kernel: bool = False
    seed: int = 0
    sampler: str = "laplace"
    subsample: int | None = None
    warmup: int | None = None
    transitions: int = 1

    def __post_init__(self) -> None:
        n_obs = self.full.n_obs
        check_choice("sampler", self.sampler, SAMPLERS)
        if self.subsample is not None and not 1 <= self.subsample <= n_obs:
            raise OptionError(
                f"subsample is {self.subsample}, expected a number from 1 to {n_obs}, the rows of "
                "the data"
            )
        if self.warmup is None:
            self.warmup = _WARMUP[self.sampler]
        for name in ("warmup", "transitions"):
            check_whole(name, getattr(self, name), 1)
        self.rows, self._pool = self.session.pool(
            self.checked, self.candidates, self.seed, by_kernel=self.by_kernel
        )
        self._fit: GaussianFit | None = None
        self._last: Float | None = None
        self._chains: _Chains | None = None
        self._bound: tuple[bytes, BoundModel] | None = None

    def model(self, *, exact: bool = False) -> CoresetPosterior:
        """The posterior for the methods; with `exact`, the target uses all rows."""
        exact = exact or self.subsample in (None, self.full.n_obs)
        full = self.full.log_likelihood
        return CoresetPosterior(
            n_candidates=len(self.rows),
            total_weight=self.full.total_weight,
            draw=self.draw,
            log_lik=self.log_lik,
            target=(lambda draws, _: full(draws)) if exact else self._estimated_target,
            exact=exact,
            log_prior=self.full.log_prior,
        )

    def draw(
        self, columns: np.ndarray, weights: Float, count: int, rng: np.random.Generator
    ) -> Float:
        """Draws (S, P) from the posterior of some weighted candidates."""
        if len(columns) == 0:
            return self._draw(self.full.prior, 0, count, rng)
        data = self.session.program.subset(self.checked, self.rows[columns], weights)
        with self.session.density().bind(data) as bound:
            return self._draw(bound, len(columns), count, rng)

    def _draw(self, bound: BoundModel, size: int, count: int, rng: np.random.Generator) -> Float:
        try:
            if self.sampler == "laplace":
                self._fit = follow_mode(bound, self._fit, self.seed)
                return self._fit.draw(count, rng)
            if self.sampler == "chains":
                return self._moved(bound, count, rng)
            result = bound.sample(
                chains=1,
                iter_warmup=self.warmup,
                iter_sampling=count,
                seed=_seed(rng),
                inits=self._last,
            )
        except (EngineError, ReferenceFitError) as error:
            whose = f"the posterior of {size} rows" if size else "the prior (no rows yet)"
            other = "laplace" if self.sampler == "nuts" else "nuts"
            advice = "" if size else "; proper priors, or method='quasi_newton', which needs none"
            raise SolverError(
                f"{whose} cannot be drawn from with sampler={self.sampler!r}: {error}; try "
                f"sampler={other!r}{advice}"
            ) from None
        draws = result.unconstrained[0]
        self._last = draws[-1]
        return draws

    def _moved(self, bound: BoundModel, count: int, rng: np.random.Generator) -> Float:
        """The chains' states after some transitions; more of them if there are fewer chains."""
        warm = self._chains
        if warm is None or warm.acceptance < _STUCK:
            size = count if warm is None else len(warm.states)
            result = bound.sample(
                chains=size,
                iter_warmup=self.warmup,
                iter_sampling=1,
                seed=_seed(rng),
                inits=None if warm is None else warm.states,
                metric="diag_e",
            )
            assert result.inv_metric is not None
            # The geometric mean of a few chains' variances, since each is known to a third.
            metric = np.exp(np.mean(np.log(result.inv_metric), axis=0))
            step = float(np.median(result.stats["step_size"][:, -1]))
            warm = _Chains(result.unconstrained[:, -1], metric, step, 1.0)
        chains = len(warm.states)
        turns = -(-count // chains)
        # Others, as CmdStan, adapt the step size anew in each of their runs.
        able = self.session.engine.capabilities
        adapted = 0 if able.samples_without_warmup else _READAPTING
        result = bound.sample(
            chains=chains,
            iter_warmup=adapted,
            iter_sampling=turns * self.transitions,
            thin=self.transitions,
            seed=_seed(rng),
            inits=warm.states,
            inv_metric=warm.inv_metric,
            metric="diag_e",
            step_size=warm.step_size,
        )
        accepted = float(np.mean(result.stats["acceptance_rate"]))
        draws = result.unconstrained
        self._chains = replace(warm, states=draws[:, -1], acceptance=accepted)
        # The newest draws of every chain come first.
        return np.ascontiguousarray(
            draws[:, ::-1].swapaxes(0, 1).reshape(-1, draws.shape[2])[:count]
        )

    def log_lik(self, draws: Float, columns: np.ndarray | None = None) -> Float:
        """Unweighted log likelihoods (S, k) of candidates; None for all of them."""
        if columns is None or len(columns) == len(self.rows):
            values = self._pool.log_lik(draws)
            return values if columns is None else values[:, columns]
        key = columns.tobytes()
        if self._bound is None or self._bound[0] != key:
            self._release()
            rows = self.rows[columns]
            data = self.session.program.subset(self.checked, rows, np.ones(len(rows)))
            self._bound = key, self.session.with_log_lik().bind(data)
        return self._bound[1].log_lik(draws)

    def _estimated_target(self, draws: Float, rng: np.random.Generator) -> Float:
        assert self.subsample is not None
        with self.full.subsample(self.subsample, rng) as small:
            return small.log_density(draws) - self.full.log_prior(draws)

    def _release(self) -> None:
        if self._bound is not None:
            self._bound[1].close()
            self._bound = None

    def close(self) -> None:
        """Release the engine's copies of the candidates."""
        self._release()
        self._pool.close()


@dataclass(frozen=True)
class _Chains:
    """Chains between two moves.

    `states` (K, P); `inv_metric` (P,) and `step_size` of their transitions; `acceptance` is the
    mean acceptance rate of the last move.
    """

    states: Float
    inv_metric: Float
    step_size: float
    acceptance: float


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(1, 2**31 - 1))


def follow_mode(bound: BoundModel, start: GaussianFit | None, seed: int) -> GaussianFit:
    """Laplace fit of a bound model, by Newton steps from the fit of a similar one.

    Without a start, or if Newton's method does not converge, Stan's optimizer searches the mode
    from random points; an error is raised if there is none.
    """
    fit = None if start is None else _newton(bound, start)
    if fit is not None:
        return fit
    mode = _mode(bound, None if start is None else start.mean, seed)
    width = curvature_width(bound.log_density_gradient, mode)
    precision = -central_hessian(bound.log_density_gradient, mode, width)
    return gaussian_at(mode, precision, bound.param_names)


def _mode(bound: BoundModel, near: Float | None, seed: int) -> Float:
    """The mode by Stan's optimizer, started at the last mode and then at random points."""
    starts: list[Float | None] = [None] * _RANDOM_STARTS
    if near is not None:
        starts.insert(0, near)
    for attempt, start in enumerate(starts):
        try:
            return bound.mode(init=start, seed=seed + attempt)
        except EngineError:
            if attempt == len(starts) - 1:
                raise
    raise AssertionError("unreachable")


def _newton(bound: BoundModel, start: GaussianFit) -> GaussianFit | None:
    """Damped Newton ascent; None if it does not converge.

    Negative curvatures change sign (saddle-free Newton), so that every step ascends.
    """
    theta, scale = start.mean, start.sd
    for _ in range(_NEWTON_STEPS):
        try:
            precision = -central_hessian(bound.log_density_gradient, theta, scale)
        except ReferenceFitError:
            return None
        value, gradient = (part[0] for part in bound.log_density_gradient(theta[None]))
        curvature, axes = eigh(precision)
        size = np.maximum(np.abs(curvature), 1e-10 * np.abs(curvature).max())
        step = axes @ ((axes.T @ gradient) / size)
        decrement = float(gradient @ step)
        if not np.isfinite(decrement):
            return None
        if decrement < _DECREMENT:
            return gaussian_at(theta + step, precision, bound.param_names)
        scale = np.sqrt(np.sum(axes**2 / size, axis=1))
        lengths = 0.5 ** np.arange(12)
        values = bound.log_density(theta + lengths[:, None] * step)
        # Armijo's rule for all step lengths in one call: k rows are cheap and calls are not.
        enough = values >= value + 1e-4 * lengths * decrement
        if not np.any(enough):
            return None
        theta = theta + lengths[int(np.argmax(enough))] * step
    return None
