"""The problem, the result and the table of methods that all selection algorithms share.

The problem is sparse non-negative regression (Zhang et al. 2021, eq. 3)

    minimise ‖b − Φ w‖²  subject to  w ≥ 0,  ‖w‖₀ ≤ k,

where Φ (S × M) has one column per candidate row and b (S,) is the target. A selection algorithm is
a function from a `Problem` to an iterator of `Fit`, one for each requested size, listed by name in
`METHODS`. `stancoreset.selection.solvers.solve` checks its arguments, runs an algorithm and builds
the result.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stancoreset.selection.solvers.columns import Columns, Float, Index

Callback = Callable[[int, float, int], object]


@dataclass(frozen=True)
class SolverResult:
    """The selected rows, their weights, and the progress of the algorithm.

    Attributes
    ----------
    indices : (k,) int64
        Columns of Φ with a positive weight, ascending. May be fewer than the size asked for, and
        none at all if no non-negative combination is nearer to the target than zero.
    weights : (k,) float64
        Their weights, positive and finite.
    relative_error : float
        ‖b − Φ w‖ / ‖b‖ on the draws of Φ itself. It is too low as k approaches S: judge a coreset
        on draws not used for selection.
    trace : (n_iter,) float64
        Relative error after each iteration.
    sizes : (n_iter,) int64
        Number of chosen columns after each iteration.
    n_iter : int
        Number of iterations: passes or rounds, depending on the algorithm.
    converged : bool
        Whether the algorithm met its stopping rule rather than its iteration limit.
    method : str
        The algorithm's name.
    seconds : float
        Wall time since the start of the run.
    path : tuple of SolverResult
        One result for each size in the option ``path``, in order; empty without that option.
    """

    indices: Index
    weights: Float
    relative_error: float
    trace: Float
    n_iter: int
    converged: bool
    sizes: Index = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    method: str = ""
    seconds: float = 0.0
    path: tuple[SolverResult, ...] = ()


@dataclass(frozen=True)
class Fit:
    """An algorithm's solution for one size: columns, their weights (zeros allowed), converged."""

    indices: Index
    weights: Float
    converged: bool


@dataclass(frozen=True)
class Problem:
    """A validated problem with the options that all algorithms share.

    Φ (S, M) in single or double precision is never copied, never changed; `norms` are ‖φ_n‖. The
    algorithm yields a `Fit` for each of the increasing `sizes`, and may stop at the relative error
    `tol`. `weights_sum` is the required Σ w; of `groups` (M,) only whole ones are selected; `start`
    is a pair (indices, weights). `callback` is called with (iteration, relative error, number of
    chosen columns) after each iteration.
    """

    phi: NDArray[np.floating]
    target: Float
    norms: Float
    sizes: tuple[int, ...]
    seed: int = 0
    tol: float = 1e-12
    weights_sum: float | None = None
    groups: Index | None = None
    start: tuple[Index, Float] | None = None
    callback: Callback | None = None
    history: list[tuple[float, int]] = field(default_factory=list)

    @property
    def scale(self) -> float:
        """‖b‖."""
        return float(np.linalg.norm(self.target))

    def rng(self) -> np.random.Generator:
        """Return a new generator from the seed."""
        return np.random.default_rng(self.seed)

    def columns(self) -> Columns:
        """Return Φ as a dictionary of columns that includes the sum constraint."""
        return Columns(self.phi, self.target, self.norms, self.weights_sum)

    def take(self, indices: Index) -> Float:
        """Return columns of Φ in double precision."""
        return np.take(self.phi, indices, axis=1).astype(np.float64, copy=False)

    def record(self, relative_error: float, size: int) -> None:
        """Record the end of an iteration."""
        self.history.append((float(relative_error), int(size)))
        if self.callback is not None:
            self.callback(len(self.history), float(relative_error), int(size))


Method = Callable[..., Iterator[Fit]]
#: The keys of `METHODS`, for type checkers.
SolverName: TypeAlias = Literal[
    "aiht",
    "aiht2",
    "frank_wolfe",
    "giga",
    "iht",
    "importance",
    "orthogonal_pursuit",
    "pursuit",
    "uniform",
]
METHODS: dict[SolverName, Method] = {}

# Which of the options ``groups``, ``start`` and ``weights_sum`` each method supports.
HONOURS: dict[SolverName, frozenset[str]] = {}


def register(name: SolverName, honours: Sequence[str] = ()) -> Callable[[Method], Method]:
    """Return a decorator that adds an algorithm to `METHODS`.

    `honours` lists the options among ``groups``, ``start`` and ``weights_sum`` that it supports.
    """

    def enter(method: Method) -> Method:
        METHODS[name] = method
        HONOURS[name] = frozenset(honours)
        return method

    return enter


def own_options(method: SolverName) -> tuple[str, ...]:
    """Return the names of the options specific to one method."""
    return tuple(list(inspect.signature(METHODS[method]).parameters)[1:])
