"""What every selection algorithm shares: the problem, the result, the checks, `solve`.

The problem is sparse non-negative regression (Zhang et al. 2021, eq. 3)

    minimise ‖b − Φ w‖²  subject to  w ≥ 0,  ‖w‖₀ ≤ k,

Φ (S × M) one column per candidate row, b (S,) the target. A selection algorithm is a function from
a `Problem` to an iterator of `Fit`, one for each size asked for, listed by name in `METHODS`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import SolverError
from .blas import single_threaded
from .columns import Columns, column_norms
from .nnls import nonnegative_weights

__all__ = ["METHODS", "Fit", "Problem", "SolverResult", "register", "solve"]

# Column norms between its inverse and this leave room for squares and sums, in either precision.
MODERATE = 1e9

# Entries of Φ up to which several threads cost more than they bring.
SMALL = 1_000_000

Callback = Callable[[int, float, int], object]


@dataclass(frozen=True)
class SolverResult:
    """The rows an algorithm chose, their weights, and how it got there.

    Attributes
    ----------
    indices : (k,) int64
        Columns of Φ with a positive weight, ascending. May be fewer than the size asked for, and
        none at all if no non-negative combination is nearer to the target than zero.
    weights : (k,) float64
        Their weights, positive and finite.
    relative_error : float
        ‖b − Φ w‖ / ‖b‖ on the draws of Φ itself. It flatters once k approaches S: judge a coreset
        on draws it was not fitted to.
    trace : (n_iter,) float64
        Relative error after each iteration.
    sizes : (n_iter,) int64
        Number of chosen columns after each iteration.
    n_iter : int
        Number of iterations: passes or rounds, as the algorithm counts them.
    converged : bool
        Whether the algorithm met its own rule for stopping, rather than its iteration limit.
    method : str
        The algorithm's name.
    seconds : float
        Wall time since the start of the run.
    path : tuple of SolverResult
        One result for each size in the option ``path``, in order; empty without that option.
    """

    indices: NDArray[np.int64]
    weights: NDArray[np.float64]
    relative_error: float
    trace: NDArray[np.float64]
    n_iter: int
    converged: bool
    sizes: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    method: str = ""
    seconds: float = 0.0
    path: tuple[SolverResult, ...] = ()


@dataclass(frozen=True)
class Fit:
    """What an algorithm yields for one size: columns, their weights (zeros allowed), converged."""

    indices: NDArray[np.int64]
    weights: NDArray[np.float64]
    converged: bool


@dataclass(frozen=True)
class Problem:
    """A checked problem with the options that all algorithms share.

    Attributes
    ----------
    phi : (S, M) float32 or float64
        Φ; never copied, never changed.
    target : (S,) float64
        b.
    norms : (M,) float64
        ‖φ_n‖.
    sizes : tuple of int
        Sizes k₁ < k₂ < … to yield a `Fit` for.
    seed : int
        Seed of everything random.
    tol : float
        Relative error at which an algorithm may stop.
    weights_sum : float or None
        Σ w that the weights must have.
    groups : (M,) int64 or None
        Group of every column: whole groups enter or stay out.
    start : (indices, weights) or None
        Warm start.
    callback : callable or None
        Called with (iteration, relative error, number of chosen columns) after each iteration.
    """

    phi: NDArray[np.floating]
    target: NDArray[np.float64]
    norms: NDArray[np.float64]
    sizes: tuple[int, ...]
    seed: int = 0
    tol: float = 1e-12
    weights_sum: float | None = None
    groups: NDArray[np.int64] | None = None
    start: tuple[NDArray[np.int64], NDArray[np.float64]] | None = None
    callback: Callback | None = None
    history: list[tuple[float, int]] = field(default_factory=list)

    @property
    def scale(self) -> float:
        """‖b‖."""
        return float(np.linalg.norm(self.target))

    def rng(self) -> np.random.Generator:
        """Return a fresh generator from the seed."""
        return np.random.default_rng(self.seed)

    def columns(self) -> Columns:
        """Return Φ as a dictionary of columns, the sum constraint folded in."""
        return Columns(self.phi, self.target, self.norms, self.weights_sum)

    def take(self, indices: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return columns of Φ in double precision."""
        return np.take(self.phi, indices, axis=1).astype(np.float64, copy=False)

    def record(self, relative_error: float, size: int) -> None:
        """Note the end of an iteration."""
        self.history.append((float(relative_error), int(size)))
        if self.callback is not None:
            self.callback(len(self.history), float(relative_error), int(size))


Method = Callable[..., Iterator[Fit]]
METHODS: dict[str, Method] = {}

# Options that `solve` takes for every method; `_HONOURS` says who can use which of them.
SHARED = ("callback", "groups", "path", "reweight", "start", "tol", "weights_sum")
_HONOURS: dict[str, frozenset[str]] = {}


def register(name: str, honours: Sequence[str] = ()) -> Callable[[Method], Method]:
    """Return a decorator that enters an algorithm in `METHODS`.

    Parameters
    ----------
    name
        The method's name.
    honours
        Those of the options ``groups``, ``start`` and ``weights_sum`` that it can use.
    """

    def enter(method: Method) -> Method:
        METHODS[name] = method
        _HONOURS[name] = frozenset(honours)
        return method

    return enter


def own_options(method: str) -> tuple[str, ...]:
    """Return the names of the options that belong to one method alone."""
    return tuple(list(inspect.signature(METHODS[method]).parameters)[1:])


def solve(
    phi: ArrayLike,
    target: ArrayLike,
    size: int,
    method: str = "pursuit",
    seed: int = 0,
    *,
    tol: float = 1e-12,
    path: Sequence[int] | None = None,
    reweight: bool = False,
    weights_sum: float | None = None,
    groups: ArrayLike | None = None,
    start: SolverResult | tuple[ArrayLike, ArrayLike] | None = None,
    callback: Callback | None = None,
    **options: Any,
) -> SolverResult:
    """Choose at most `size` columns of Φ and non-negative weights with Φ w close to b.

    Parameters
    ----------
    phi : (S, M) array
        One column for each candidate row: its log likelihood at S draws, centred, over √S.
        float32 is worked on as it is; other types become float64. Never changed.
    target : (S,) array
        b. It need not be the sum of the columns of `phi`, which may be a pool of candidates.
    size
        Largest number of columns, k ≥ 1. A k ≥ M is allowed.
    method
        A name in `METHODS`.
    seed
        Equal seeds give equal results.
    tol
        Relative error at which a method may stop with fewer columns.
    path
        Increasing sizes, none above `size`: one run yields a result for each, in
        ``result.path``, by growing from one size to the next.
    reweight
        Solve the weights on the chosen columns again by non-negative least squares. The methods
        ``pursuit`` and ``orthogonal_pursuit`` do so always.
    weights_sum
        Ask for Σ w equal to this. ``giga`` can do that with ``reweight=True`` only.
    groups : (M,) array of int ≥ 0
        Whole groups enter or stay out, and the rows of the groups that enter number at most
        `size`; rows of weight zero are not listed.
    start
        An earlier result, or (indices, weights), to start from, for methods that can.
    callback
        Called with (iteration, relative error, number of chosen columns) after each iteration.
    **options
        Options of the method alone: see the method's own function.

    Returns
    -------
    SolverResult

    Raises
    ------
    SolverError
        Φ or b not finite, shapes that disagree, a size below 1, a target of zero, no column that
        is not null, an unknown method or option, a sum that no weights can have.

    Examples
    --------
    >>> import numpy as np
    >>> from stancoreset.solvers import solve
    >>> phi = np.random.default_rng(0).standard_normal((5, 200))
    >>> result = solve(phi, phi.sum(axis=1), size=5)
    >>> len(result.indices), result.relative_error < 1e-10
    (5, True)
    """
    began = perf_counter()
    _check_options(method, options, groups, start, weights_sum, reweight)
    matrix, b = _check_arrays(phi, target)
    norms = _check_norms(matrix)
    matrix, b, norms = _moderate(matrix, b, norms)
    problem = Problem(
        phi=matrix,
        target=b,
        norms=norms,
        sizes=_check_sizes(size, path),
        seed=seed,
        tol=_check_tol(tol),
        weights_sum=_check_sum(weights_sum),
        groups=_check_groups(groups, matrix.shape[1], size),
        start=_check_start(start, matrix.shape[1]),
        callback=callback,
    )
    run = _run if matrix.size > SMALL else single_threaded(_run)
    results = run(problem, method, reweight, options, began)
    last = results[-1]
    if path is None:
        return last
    chosen = tuple(r for r, k in zip(results, problem.sizes, strict=True) if k in set(path))
    return SolverResult(**{**vars(last), "path": chosen})


def _run(
    problem: Problem, method: str, reweight: bool, options: Mapping[str, Any], began: float
) -> list[SolverResult]:
    results = []
    for fit in METHODS[method](problem, **options):
        indices, weights = fit.indices, fit.weights
        if reweight:
            columns = problem.columns()
            weights = columns.coreset_weights(nonnegative_weights(columns, indices))
        results.append(_result(problem, method, indices, weights, fit.converged, began))
    return results


def _result(
    problem: Problem,
    method: str,
    indices: NDArray[np.int64],
    weights: NDArray[np.float64],
    converged: bool,
    began: float,
) -> SolverResult:
    order = np.argsort(indices)
    order = order[weights[order] > 0]
    indices, weights = indices[order], weights[order].astype(np.float64)
    residual = problem.target - problem.take(indices) @ weights
    trace = np.array([error for error, _ in problem.history])
    return SolverResult(
        indices=indices.astype(np.int64),
        weights=weights,
        relative_error=float(np.linalg.norm(residual)) / problem.scale,
        trace=trace,
        n_iter=len(trace),
        converged=bool(converged),
        sizes=np.array([size for _, size in problem.history], dtype=np.int64),
        method=method,
        seconds=perf_counter() - began,
    )


def check_method(method: str, options: Mapping[str, Any], others: Sequence[str] = ()) -> None:
    """Raise unless there is such a method and it knows the options, before any work is done.

    Parameters
    ----------
    method
        Name of an algorithm.
    options
        What `solve` would be given beside its arrays, size and seed.
    others
        Names of methods that do not work on a projection, for the message.

    Raises
    ------
    SolverError
    """
    if method not in METHODS:
        known = ", ".join([*METHODS, *others])
        raise SolverError(f"method={method!r} is not known; expected one of {known}")
    shared = {name: options.get(name) for name in ("groups", "start", "weights_sum")}
    own = {name: value for name, value in options.items() if name not in SHARED}
    _check_options(method, own, reweight=bool(options.get("reweight", False)), **shared)


def _check_options(
    method: str,
    options: Mapping[str, Any],
    groups: object,
    start: object,
    weights_sum: object,
    reweight: bool,
) -> None:
    if method not in METHODS:
        raise SolverError(f"method={method!r} is not known; expected one of {', '.join(METHODS)}")
    own = own_options(method)
    unknown = sorted(set(options) - set(own))
    if unknown:
        raise SolverError(
            f"option {unknown[0]!r} is not known to method {method!r}; its own options are "
            f"{', '.join(own) or '(none)'}, and every method takes {', '.join(SHARED)}"
        )
    honours = _HONOURS[method]
    for name, value in (("groups", groups), ("start", start)):
        if value is not None and name not in honours:
            able = ", ".join(m for m, h in _HONOURS.items() if name in h)
            raise SolverError(f"method {method!r} cannot use {name}=; methods that can: {able}")
    if weights_sum is not None and "weights_sum" not in honours and not reweight:
        raise SolverError(
            f"method {method!r} cannot hold the sum of the weights; add reweight=True, or use "
            + ", ".join(m for m, h in _HONOURS.items() if "weights_sum" in h)
        )


def _check_arrays(
    phi: ArrayLike, target: ArrayLike
) -> tuple[NDArray[np.floating], NDArray[np.float64]]:
    try:
        matrix = np.asarray(phi)
        if matrix.dtype != np.float32:
            matrix = matrix.astype(np.float64, copy=False)
        b = np.array(target, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise SolverError(f"phi and target must be arrays of real numbers: {error}") from error
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise SolverError(f"phi has shape {matrix.shape}; expected (S, M), both at least 1")
    if b.shape != (matrix.shape[0],):
        raise SolverError(
            f"target has shape {b.shape}; expected ({matrix.shape[0]},), one entry for each row of "
            f"phi {matrix.shape}"
        )
    if not np.isfinite(b).all():
        where = int(np.argmin(np.isfinite(b)))
        raise SolverError(f"target[{where}] is {b[where]}; expected finite numbers")
    if not (matrix.flags.c_contiguous or matrix.flags.f_contiguous):
        matrix = np.ascontiguousarray(matrix)  # strided products would copy it every time
    return matrix, b


def _check_norms(matrix: NDArray[np.floating]) -> NDArray[np.float64]:
    with np.errstate(over="ignore", invalid="ignore"):
        norms = column_norms(matrix)
    bad = np.flatnonzero(~np.isfinite(norms))
    if len(bad):
        column = matrix[:, bad[0]]
        row = int(np.argmin(np.isfinite(column)))
        raise SolverError(
            f"phi has {len(bad)} column(s) that are not finite, the first phi[{row}, {bad[0]}] = "
            f"{column[row]}; expected finite numbers: look for rows whose log likelihood is NaN "
            "or infinite at some draw"
        )
    if not (norms > 0).any():
        raise SolverError(
            f"all {len(norms)} columns of phi are null: no row's log likelihood varies over the "
            "draws; expected at least one that does"
        )
    return norms


def _moderate(
    matrix: NDArray[np.floating], b: NDArray[np.float64], norms: NDArray[np.float64]
) -> tuple[NDArray[np.floating], NDArray[np.float64], NDArray[np.float64]]:
    """Check the size of b against Φ's; if their squares might overflow, divide both by one factor.

    The weights do not change with a common factor. Only then is Φ copied.
    """
    if not np.abs(b).max() > 0:
        raise SolverError("target is zero: there is nothing to approximate; expected a vector != 0")
    largest = float(norms.max())
    ratio = float(np.abs(b).max()) / largest
    if not 1.0 / MODERATE**2 < ratio < MODERATE**2:
        raise SolverError(
            f"target has entries up to {np.abs(b).max():.3g}, columns of phi norms up to "
            f"{largest:.3g}; expected magnitudes that differ by less than {MODERATE**2:.0g}"
        )
    if 1.0 / MODERATE < largest < MODERATE:
        return matrix, b, norms
    factor = 2.0 ** -round(np.log2(largest))  # a power of two: no digit is lost
    return matrix * matrix.dtype.type(factor), b * factor, norms * factor


def check_count(value: object, name: str) -> int:
    """Return a whole number of at least 1, or raise a `SolverError` that names it."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise SolverError(f"{name}={value!r}; expected a whole number of at least 1")
    return int(value)


def _check_sizes(size: int, path: Sequence[int] | None) -> tuple[int, ...]:
    last = check_count(size, "size")
    if path is None:
        return (last,)
    sizes = tuple(check_count(k, "path") for k in path)
    if not sizes or list(sizes) != sorted(set(sizes)) or sizes[-1] > last:
        raise SolverError(f"path={sizes}; expected increasing sizes, none above size={last}")
    return sizes if sizes[-1] == last else (*sizes, last)


def _check_tol(tol: float) -> float:
    if not (np.isreal(tol) and np.isfinite(tol) and tol >= 0):
        raise SolverError(f"tol={tol!r}; expected a finite number of at least 0")
    return float(tol)


def _check_sum(weights_sum: float | None) -> float | None:
    if weights_sum is None:
        return None
    if not (np.isfinite(weights_sum) and weights_sum > 0):
        raise SolverError(
            f"weights_sum={weights_sum!r} cannot be met by weights >= 0 that are not all zero; "
            "expected a finite number above 0, such as the number of observations"
        )
    return float(weights_sum)


def _check_groups(groups: ArrayLike | None, m: int, size: int) -> NDArray[np.int64] | None:
    if groups is None:
        return None
    labels = np.asarray(groups)
    if labels.shape != (m,) or not np.issubdtype(labels.dtype, np.integer):
        raise SolverError(
            f"groups has shape {labels.shape} and type {labels.dtype}; expected {m} integers, one "
            "for each column of phi"
        )
    if labels.min() < 0:
        raise SolverError(f"groups has the label {labels.min()}; expected labels of at least 0")
    labels = np.unique(labels, return_inverse=True)[1].astype(np.int64)
    smallest = int(np.bincount(labels).min())
    if smallest > size:
        raise SolverError(
            f"size={size} admits no whole group: the smallest has {smallest} rows; expected a size "
            f"of at least {smallest}"
        )
    return labels


def _check_start(
    start: SolverResult | tuple[ArrayLike, ArrayLike] | None, m: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]] | None:
    if start is None:
        return None
    indices, weights = (start.indices, start.weights) if isinstance(start, SolverResult) else start
    index = np.array(indices, dtype=np.int64)
    weight = np.array(weights, dtype=np.float64)
    if index.ndim != 1 or index.shape != weight.shape:
        raise SolverError(
            f"start has indices of shape {index.shape} and weights of shape {weight.shape}; "
            "expected two vectors of one length"
        )
    if len(np.unique(index)) != len(index) or ((index < 0) | (index >= m)).any():
        raise SolverError(f"start has indices that repeat or lie outside 0..{m - 1}")
    if not (np.isfinite(weight) & (weight >= 0)).all():
        raise SolverError("start has weights that are negative or not finite; expected >= 0")
    return index, weight
