"""The protocol of every engine, between the numerics and Stan.

An engine compiles Stan code (`Engine.compile`), a compiled program is bound to data
(`Compiled.bind`), and a bound model evaluates densities and samples. Nothing above this
room knows how Stan is run.

Conventions
-----------
Draws are float64 arrays of shape (S, P): one row per draw, in Stan's *unconstrained*
coordinates. Log densities include the Jacobian of the constraining transforms and are
defined up to a constant that depends neither on the parameters nor on the weights.
Values of variables are arrays of shape (S, *shape of the variable*), in C order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from stancoreset.errors import EngineError

Float = NDArray[np.float64]

#: Data for a Stan program: a variable's name to an int, a float or an array.
StanData = Mapping[str, Any]

#: Largest unconstrained number of a draw: sums of squares of such numbers, and products of three of
#: them, are within double precision.
FARTHEST = 1e100
#: Values of variables by name, (S, *shape) each → unconstrained draws (S, P).
Unconstrain = Callable[[Mapping[str, Float]], Float]

#: Stan's sampler columns, and ArviZ's names for them.
SAMPLER_STATS = {
    "lp__": "lp",
    "accept_stat__": "acceptance_rate",
    "stepsize__": "step_size",
    "treedepth__": "tree_depth",
    "n_leapfrog__": "n_steps",
    "divergent__": "diverging",
    "energy__": "energy",
}


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """Capabilities of an engine beyond densities, gradients and variables of a program with data.

    Callers ask for the capability that they need, never for an engine's name. The defaults are
    those of an engine that does the least.

    Attributes
    ----------
    in_process : bool
        Whether a bound program evaluates in this process, so that a call takes the time of what it
        computes, and many small programs are cheap. Else a call starts a process that reads all of
        the program's data again.
    compiles_at_once : bool
        Whether a program is compiled in milliseconds, so that a further one costs nothing.
    samples : bool
        Whether `BoundModel.sample` draws by NUTS.
    samples_without_warmup : bool
        Whether NUTS goes on from a given metric and step size without any warm-up.
    warmup_phases : bool
        Whether the lengths of warm-up's phases can be set.
    step_size_of_each_chain : bool
        Whether chains may begin with different step sizes.
    compiler_options : bool
        Whether the engine has the fields ``cpp_options`` and ``stanc_options``, as in cmdstanpy.

    Examples
    --------
    >>> Capabilities(in_process=True).samples
    False
    """

    in_process: bool = False
    compiles_at_once: bool = False
    samples: bool = False
    samples_without_warmup: bool = False
    warmup_phases: bool = False
    step_size_of_each_chain: bool = False
    compiler_options: bool = False


@dataclass(frozen=True)
class SampleResult:
    """NUTS draws as an engine returns them, before they become an ArviZ container.

    Attributes
    ----------
    variables : dict of str to ndarray, shape (chains, draws, *shape)
        Parameters and transformed parameters on their constrained scale.
    stats : dict of str to ndarray, shape (chains, draws)
        Sampler statistics under ArviZ's names: ``lp``, ``acceptance_rate``, ``step_size``,
        ``tree_depth``, ``n_steps``, ``diverging``, ``energy``.
    unconstrained : ndarray, shape (chains, draws, P)
        The draws in unconstrained coordinates.
    seconds : float
        Wall-clock time of warm-up and sampling.
    settings : dict
        ``chains``, ``iter_warmup``, ``iter_sampling``, ``seed``, ``adapt_delta``, ...
    native : object
        The engine's own fit: a ``cmdstanpy.CmdStanMCMC`` or a ``stanli.Fit``; None if stanli made
        many draws in several pieces.
    warmup_variables, warmup_stats : dict of str to ndarray
        Draws and statistics of warm-up, if kept.
    inv_metric : ndarray, shape (chains, P) or (chains, P, P), optional
        The inverse metric of each chain after warm-up; None for the identity.
    """

    variables: Mapping[str, Float]
    stats: Mapping[str, NDArray[Any]]
    unconstrained: Float
    seconds: float
    settings: Mapping[str, Any] = field(default_factory=dict)
    native: Any = None
    warmup_variables: Mapping[str, Float] = field(default_factory=dict)
    warmup_stats: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    inv_metric: Float | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls,
        variables: Mapping[str, Float],
        columns: Mapping[str, NDArray[Any]],
        kept: int,
        unconstrain: Unconstrain,
        **about: Any,
    ) -> SampleResult:
        """Sort an engine's arrays into posterior, warm-up and statistics.

        `variables` (chains, warm-up + kept, *shape) and `columns`, sampler statistics under Stan's
        names, end with the `kept` posterior draws; `about` holds the other fields.

        An `EngineError` is raised if draws are beyond `FARTHEST`.
        """
        stats: dict[str, NDArray[Any]] = {
            SAMPLER_STATS[name]: np.asarray(value)
            for name, value in columns.items()
            if name in SAMPLER_STATS
        }
        for count in ("tree_depth", "n_steps"):
            stats[count] = stats[count].astype(np.int64)
        stats["diverging"] = stats["diverging"].astype(bool)
        draws = {name: value[:, -kept:] for name, value in variables.items()}
        warmed = stats["diverging"].shape[1] > kept
        unconstrained = _by_chain(unconstrain, draws)
        _require_near(unconstrained, draws)
        return cls(
            variables=draws,
            stats={name: value[:, -kept:] for name, value in stats.items()},
            unconstrained=unconstrained,
            warmup_variables={n: v[:, :-kept] for n, v in variables.items()} if warmed else {},
            warmup_stats={n: v[:, :-kept] for n, v in stats.items()} if warmed else {},
            **about,
        )


def _require_near(unconstrained: Float, draws: Mapping[str, Float]) -> None:
    """Refuse chains that have run away, as Stan does where their steps do."""
    far = max(unconstrained.max(initial=0.0), -unconstrained.min(initial=0.0))
    if not far > FARTHEST:
        return
    name = max(draws, key=lambda name: np.abs(draws[name]).max(initial=0.0))
    raise EngineError(
        f"chains run away: {name} reaches {np.abs(draws[name]).max():.3g}, expected numbers whose "
        "squares double precision holds; the posterior is improper there: give every parameter, "
        "and those that multiply it, proper priors"
    )


def _by_chain(unconstrain: Unconstrain, draws: Mapping[str, Float]) -> Float:
    """Unconstrained draws, (chains, draws, P), from those of the parameters, chain by chain.

    Of thousands of parameters each copy of all draws is hundreds of megabytes.
    """
    found = np.empty(0)
    for i, chain in enumerate(zip(*draws.values(), strict=True)):
        points = unconstrain(dict(zip(draws, chain, strict=True)))
        if i == 0:
            found = np.empty((len(next(iter(draws.values()))), *points.shape))
        found[i] = points
    return found


def as_points(draws: Float, n_params: int, name: str) -> Float:
    """Draws as an array (S, P); raise an `EngineError` if P is not that of the program."""
    rows = np.ascontiguousarray(np.atleast_2d(draws), dtype=np.float64)
    if rows.shape[1] != n_params:
        raise EngineError(
            f"draws have {rows.shape[1]} columns, but '{name}' has {n_params} unconstrained "
            "parameters"
        )
    return rows


def parameter_names(bound: BoundModel) -> list[str]:
    """Names of the parameters that have an element.

    The names are read at a point of ones, which every constraint allows; zeros are no unit vector.
    """
    return list(bound.constrain(np.ones((1, bound.n_params))))


class Closing:
    """A context manager that closes itself."""

    def close(self) -> None:
        """Release memory and temporary files; calling it twice is harmless."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class RowModel(Protocol):
    """Rows with one log likelihood each: candidates for a coreset."""

    def log_lik(self, draws: Float) -> Float:
        """The rows' unweighted log likelihoods, (S, P) → (S, n).

        They are defined up to a constant per row, which cancels in comparisons of draws.
        """

    def close(self) -> None:
        """Release memory and temporary files; calling it twice is harmless."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


@runtime_checkable
class BoundModel(RowModel, Protocol):
    """A compiled Stan program together with its data."""

    #: Number of unconstrained parameters, P.
    n_params: int
    #: Names of the unconstrained parameters, for example ``beta.1``.
    param_names: tuple[str, ...]

    def log_density(self, draws: Float) -> Float:
        """Log posterior density of each draw: (S, P) → (S,); −inf where Stan rejects."""

    def log_density_gradient(self, draws: Float) -> tuple[Float, Float]:
        """Log density (S,) and its gradient (S, P)."""

    def generated(
        self, draws: Float, names: tuple[str, ...] | None, seed: int = 0
    ) -> dict[str, Float]:
        """Generated quantities by name, each (S, *shape); None: all that have an element."""

    def constrain(self, draws: Float) -> dict[str, Float]:
        """Parameters on their constrained scale, by name, each (S, *shape)."""

    def unconstrain(self, values: Mapping[str, Float]) -> Float:
        """Inverse of `constrain`: values (S, *shape) by name → (S, P)."""

    def mode(self, *, init: Float | None = None, seed: int = 0, max_iter: int = 2000) -> Float:
        """The posterior mode in unconstrained coordinates (Jacobian included), (P,)."""

    def sample(
        self,
        *,
        seed: int = 0,
        inits: Float | None = None,
        output_dir: str | None = None,
        on_iteration: Callable[[int, int], object] | None = None,
        inv_metric: Float | None = None,
        unconstrain: Unconstrain | None = None,
        **options: Any,
    ) -> SampleResult:
        """Draw from the density by NUTS.

        Parameters
        ----------
        seed : int
        inits : ndarray, shape (P,) or (chains, P), optional
            Unconstrained points; default: Stan's random inits.
        output_dir : str, optional
            Folder for CSV files of the chains as CmdStan writes them, which have all draws; the
            result has those that memory keeps, ``NUTS.apart`` transitions from each other.
        on_iteration : callable, optional
            Called occasionally as ``on_iteration(chain, iteration)``; chains count from 0,
            iterations from 1.
        inv_metric : ndarray, shape (P,) or (P, P), optional
            The inverse metric with which warm-up begins, see `stancoreset.engines.metric`;
            default: the identity.
        unconstrain : callable, optional
            Gives the result's unconstrained draws from its variables; default: `unconstrain`.
        **options
            See `stancoreset.engines.nuts.NUTS`.
        """


class Density(Protocol):
    """A log density for a few draws."""

    def log_density(self, draws: Float) -> Float:
        """See `BoundModel.log_density`."""

    def close(self) -> None:
        """See `RowModel.close`."""


@runtime_checkable
class Compiled(Protocol):
    """A compiled Stan program without data."""

    @property
    def code(self) -> str:
        """The Stan program."""

    @property
    def name(self) -> str:
        """The program's name, for messages."""

    def bind(self, data: StanData, *, seed: int = 0, threads: int | None = None) -> BoundModel:
        """Bind the program to its data; raise `DataError` with Stan's own message.

        `threads` is the number of draws evaluated at the same time; default: the engine's.
        """

    def bind_density(self, data: StanData) -> Density:
        """Bind for a few log densities: faster to bind, slower to evaluate."""


@runtime_checkable
class Engine(Protocol):
    """An engine that runs Stan."""

    @property
    def name(self) -> str:
        """A short name for messages, such as ``"cmdstan"``."""

    @property
    def version(self) -> str:
        """Engine and version as text, for example ``"CmdStan 2.35"``."""

    @property
    def stan_version(self) -> tuple[int, int]:
        """Version of the Stan language whose constraining transforms the engine uses."""

    @property
    def threads(self) -> int:
        """Default number of draws that a bound model evaluates at the same time."""

    @property
    def capabilities(self) -> Capabilities:
        """Capabilities of the engine; see `Capabilities`."""

    def compile(self, code: str, *, name: str = "model", log_lik: str = "log_lik") -> Compiled:
        """Compile Stan code, or take the program from the cache; raise `CompileError`.

        `log_lik` names the generated quantity with the rows' log likelihoods.
        """
