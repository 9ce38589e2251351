"""`solve`: check the problem, run the named algorithm, build the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from stancoreset.checks import check_flag, check_is, check_whole
from stancoreset.limits import BLOCK
from stancoreset.parallel import single_threaded
from stancoreset.selection.solvers.base import (
    METHODS,
    Callback,
    Fit,
    Problem,
    SolverName,
    SolverResult,
)
from stancoreset.selection.solvers.checks import (
    check_arrays,
    check_groups,
    check_method,
    check_norms,
    check_sizes,
    check_start,
    check_sum,
    check_tol,
    moderate,
)
from stancoreset.selection.solvers.nnls import nonnegative_weights


def solve(
    phi: ArrayLike,
    target: ArrayLike,
    size: int,
    method: SolverName = "pursuit",
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
    """Select at most `size` columns of Φ and non-negative weights with Φ w close to b.

    Parameters
    ----------
    phi : (S, M) array
        One column per candidate row: its log likelihood at S draws, centred, over √S. float32 is
        used as it is; other types become float64. The array is not changed.
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
        Whether to solve for the weights of the selected columns again by non-negative least
        squares. The methods ``pursuit`` and ``orthogonal_pursuit`` always do.
    weights_sum
        The required Σ w. ``giga`` supports it only with ``reweight=True``.
    groups : (M,) array of int ≥ 0
        Group of every column. Only whole groups are selected, of at most `size` rows in all;
        rows of weight zero are not listed.
    start
        An earlier result, or (indices, weights), to start from, for methods that support it.
    callback
        Called with (iteration, relative error, number of chosen columns) after each iteration.
    **options
        Options specific to the method: see the method's function.

    Returns
    -------
    SolverResult

    Raises
    ------
    SolverError
        If Φ or b is not finite, shapes disagree, the size is below 1, the target or all columns
        are zero, a method or option is unknown, or no weights can have the sum.

    Examples
    --------
    >>> import numpy as np
    >>> from stancoreset.selection.solvers import solve
    >>> phi = np.random.default_rng(0).standard_normal((5, 200))
    >>> result = solve(phi, phi.sum(axis=1), size=5)
    >>> len(result.indices), result.relative_error < 1e-10
    (5, True)
    """
    began = perf_counter()
    check_flag("reweight", reweight)
    check_whole("seed", seed, 0)
    if callback is not None:
        check_is("callback", callback, Callable, "a function")  # type: ignore[arg-type]
    shared = {"groups": groups, "start": start, "weights_sum": weights_sum, "reweight": reweight}
    check_method(method, {**options, **shared})
    matrix, b = check_arrays(phi, target)
    norms = check_norms(matrix)
    matrix, b, norms = moderate(matrix, b, norms)
    problem = Problem(
        phi=matrix,
        target=b,
        norms=norms,
        sizes=check_sizes(size, path),
        seed=seed,
        tol=check_tol(tol),
        weights_sum=check_sum(weights_sum),
        groups=check_groups(groups, matrix.shape[1], size),
        start=check_start(start, matrix.shape[1]),
        callback=callback,
    )
    # Of smaller ones products in several threads are slower than in one.
    run = _run if matrix.size > BLOCK // 2 else single_threaded(_run)
    results = run(problem, method, reweight, options, began)
    last = results[-1]
    if path is None:
        return last
    chosen = tuple(r for r, k in zip(results, problem.sizes, strict=True) if k in set(path))
    return SolverResult(**{**vars(last), "path": chosen})


def _run(
    problem: Problem, method: SolverName, reweight: bool, options: Mapping[str, Any], began: float
) -> list[SolverResult]:
    fits = METHODS[method](problem, **options)
    return [_result(problem, method, fit, reweight, began) for fit in fits]


def _result(problem: Problem, method: str, fit: Fit, reweight: bool, began: float) -> SolverResult:
    indices, weights = fit.indices, fit.weights
    if reweight:
        columns = problem.columns()
        weights = columns.coreset_weights(nonnegative_weights(columns, indices))
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
        converged=bool(fit.converged),
        sizes=np.array([size for _, size in problem.history], dtype=np.int64),
        method=method,
        seconds=perf_counter() - began,
    )
