"""Checks of `solve`'s arguments: errors name the argument, the value seen and the expected one."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping, Sequence, Set
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stancoreset.checks import (
    check_choice,
    check_is,
    check_names,
    is_number,
    is_whole,
    shown,
    understood,
)
from stancoreset.errors import SolverError
from stancoreset.selection.solvers.base import (
    HONOURS,
    METHODS,
    SolverName,
    SolverResult,
    own_options,
)
from stancoreset.selection.solvers.columns import Float, Index, column_norms

# Options that `solve` accepts for every method; `HONOURS` says which methods support which.
SHARED = ("callback", "groups", "path", "reweight", "start", "tol", "weights_sum")


def check_method(method: str, options: Mapping[str, Any], others: Sequence[str] = ()) -> None:
    """Raise unless the method exists and supports the options, before any work is done.

    `options` are the arguments of `solve` other than its arrays, size and seed; `others` are names
    of methods that do not use a projection, for the message.
    """
    check_names("others", others, "names of methods")
    for known in ([*METHODS, *others], METHODS):
        check_choice("method", method, known, error=SolverError)
    check_is("options", options, Mapping, "a dict of options")
    name = cast("SolverName", method)
    own, honours = own_options(name), HONOURS[name]
    unknown = sorted(set(options) - {*own, *SHARED})
    if "weights" in unknown:
        raise SolverError(
            "weights of rows are no option: give them with the data, as its variable 'weights', or "
            "in a formula, 'y | weights(w) ~ x'"
        )
    if unknown:
        raise SolverError(
            f"option {unknown[0]!r} is not known to method {method!r}; its own options are "
            f"{', '.join(own) or '(none)'}, and every method takes {', '.join(SHARED)}"
        )
    _check_values(name, {key: options[key] for key in own if key in options})
    for key in ("groups", "start"):
        if options.get(key) is not None and key not in honours:
            able = ", ".join(m for m, h in HONOURS.items() if key in h)
            raise SolverError(f"method {method!r} cannot use {key}=; methods that can: {able}")
    constrained = options.get("weights_sum") is not None and not options.get("reweight", False)
    if constrained and "weights_sum" not in honours:
        raise SolverError(
            f"method {method!r} cannot constrain the sum of the weights; add reweight=True, or use "
            + ", ".join(m for m, h in HONOURS.items() if "weights_sum" in h)
        )


def _check_values(method: SolverName, options: Mapping[str, Any]) -> None:
    """Raise unless options have the types of their defaults; methods check their ranges."""
    parameters = inspect.signature(METHODS[method]).parameters
    for name, value in options.items():
        default, optional = parameters[name].default, "None" in str(parameters[name].annotation)
        if value is None and optional:
            continue
        if isinstance(default, bool):
            right, expected = isinstance(value, bool | np.bool_), "True or False"
        elif isinstance(default, int) or "int" in str(parameters[name].annotation):
            right, expected = is_whole(value) and 0 <= value < 2**63, "a whole number of at least 0"
        else:
            right = is_finite(value) and value >= 0
            expected = "a finite number of at least 0"
        if not right:
            raise SolverError(f"{name}={shown(value)}; expected {expected}")


def check_arrays(phi: ArrayLike, target: ArrayLike) -> tuple[NDArray[np.floating], Float]:
    """Return Φ, copied only if its type or layout requires it, and b."""
    try:
        matrix, b = np.asarray(phi), np.asarray(target)
        for name, array in (("phi", matrix), ("target", b)):
            if array.dtype.kind not in "biufO":
                raise SolverError(
                    f"{name} is of type {array.dtype}; expected an array of real numbers"
                )
        if matrix.dtype != np.float32:
            matrix = matrix.astype(np.float64, copy=False)
        b = np.array(b, dtype=np.float64)
    except SolverError:
        raise
    except Exception as error:  # any error of a foreign object
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


def check_norms(matrix: NDArray[np.floating]) -> Float:
    """Return ‖φ_n‖ of every column; entries of Φ that are not finite show in the norms."""
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
            f"all {len(norms)} columns of phi are zero: no row's log likelihood varies over the "
            "draws; expected at least one that does"
        )
    return norms


def moderate(
    matrix: NDArray[np.floating], b: Float, norms: Float, most: float = 1e9
) -> tuple[NDArray[np.floating], Float, Float]:
    """Compare the magnitudes of b and Φ; if squares might overflow, divide both by one factor.

    A common factor does not change the weights. Φ is copied only in that case.
    """
    if not np.abs(b).max() > 0:
        raise SolverError("target is zero: nothing to approximate; expected a nonzero vector")
    largest = float(norms.max())
    ratio = float(np.abs(b).max()) / largest
    if not 1.0 / most**2 < ratio < most**2:
        raise SolverError(
            f"target has entries up to {np.abs(b).max():.3g}, columns of phi norms up to "
            f"{largest:.3g}; expected magnitudes that differ by less than {most**2:.0g}"
        )
    if 1.0 / most < largest < most:
        return matrix, b, norms
    factor = 2.0 ** -round(np.log2(largest))  # a power of two: no digit is lost
    return matrix * matrix.dtype.type(factor), b * factor, norms * factor


def check_count(value: object, name: str, least: int = 1) -> int:
    """Return a whole number of at least `least`, or raise a `SolverError` that names it."""
    if not is_whole(value) or not least <= value < 2**63:  # type: ignore[operator]
        raise SolverError(f"{name}={shown(value)}; expected a whole number of at least {least}")
    return int(value)  # type: ignore[call-overload,no-any-return]


def check_sizes(size: int, path: Sequence[int] | None) -> tuple[int, ...]:
    """Return the sizes to solve for, the largest last."""
    last = check_count(size, "size")
    if path is None:
        return (last,)
    with understood("path", path, "a list of increasing sizes", SolverError):
        if isinstance(path, str | bytes | Mapping | Set):
            raise TypeError
        sizes = tuple(check_count(k, "path") for k in path)
    if not sizes or list(sizes) != sorted(set(sizes)) or sizes[-1] > last:
        raise SolverError(f"path={sizes}; expected increasing sizes, none above size={last}")
    return sizes if sizes[-1] == last else (*sizes, last)


def check_tol(tol: float) -> float:
    """Return the tolerance."""
    if not is_finite(tol) or tol < 0:
        raise SolverError(f"tol={shown(tol)}; expected a finite number of at least 0")
    return float(tol)


def is_finite(value: Any) -> bool:
    """Whether this is a finite number."""
    return is_number(value) and abs(value) <= sys.float_info.max


def check_sum(weights_sum: float | None) -> float | None:
    """Return Σ w, which must be positive."""
    if weights_sum is None:
        return None
    if not is_finite(weights_sum) or weights_sum <= 0:
        raise SolverError(
            f"weights_sum={shown(weights_sum)} cannot be met by weights >= 0 that are not all "
            "zero; expected a finite number above 0, such as the number of observations"
        )
    return float(weights_sum)


def check_groups(groups: ArrayLike | None, m: int, size: int) -> Index | None:
    """Return the groups numbered from 0 without gaps; at least one must fit the size."""
    if groups is None:
        return None
    with understood("groups", groups, "an array of integers", SolverError):
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


def check_start(
    start: SolverResult | tuple[ArrayLike, ArrayLike] | None, m: int
) -> tuple[Index, Float] | None:
    """Return the warm start as indices and weights."""
    if start is None:
        return None
    with understood("start", start, "a result, or a pair (indices, weights)", SolverError):
        given = (start.indices, start.weights) if isinstance(start, SolverResult) else start
        indices, weights = given
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
