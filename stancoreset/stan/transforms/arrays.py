"""Arrays of free numbers: bounds, offset and multiplier entry by entry, and Stan's order.

Stan Reference Manual, "Constraint transforms"; the types whose numbers constrain each other are
in `stancoreset.stan.transforms.bijectors`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

Float = NDArray[np.float64]


def bounded_constrain(u: Float, lower: Float | None, upper: Float | None) -> Float:
    """Numbers between bounds, which broadcast; an infinite bound is no bound.

    lower only: l + exp(u); upper only: b − exp(u); both: l + (b − l) / (1 + exp(−u)).
    """
    lo = np.asarray(-np.inf if lower is None else lower, dtype=float)
    hi = np.asarray(np.inf if upper is None else upper, dtype=float)
    has_lo, has_hi = np.isfinite(lo), np.isfinite(hi)
    lo0, hi0 = np.where(has_lo, lo, 0.0), np.where(has_hi, hi, 0.0)
    with np.errstate(over="ignore"):
        grown = np.exp(u)
    value = np.where(has_lo, lo0 + grown, np.where(has_hi, hi0 - grown, u))
    return np.where(has_lo & has_hi, lo0 + (hi0 - lo0) * expit(u), value)


def bounded_unconstrain(x: Float, lower: Float | None, upper: Float | None) -> Float:
    """Inverse of `bounded_constrain`; NaN for a value outside its bounds.

    A value that rounding has put on its bound counts as half a unit in the last place from
    it: its coordinate is as far out as doubles can tell, and not infinite.
    """
    lo = np.asarray(-np.inf if lower is None else lower, dtype=float)
    hi = np.asarray(np.inf if upper is None else upper, dtype=float)
    has_lo, has_hi = np.isfinite(lo), np.isfinite(hi)
    above = _log_gap(x - np.where(has_lo, lo, 0.0), lo)
    below = _log_gap(np.where(has_hi, hi, 0.0) - x, hi)
    both = above - below  # logit((x − l) / (b − l))
    return np.where(has_lo & has_hi, both, np.where(has_lo, above, np.where(has_hi, below, x)))


def _log_gap(gap: Float, bound: Float) -> Float:
    with np.errstate(divide="ignore", invalid="ignore"):
        least = np.maximum(0.5 * np.spacing(np.abs(bound)), np.finfo(float).smallest_subnormal)
        return np.log(np.where(gap == 0.0, least, gap))


def affine_constrain(u: Float, offset: Float | None, multiplier: Float | None) -> Float:
    """offset + multiplier · u."""
    scaled = u if multiplier is None else u * multiplier
    return np.array(scaled if offset is None else scaled + offset, dtype=float)


def affine_unconstrain(x: Float, offset: Float | None, multiplier: Float | None) -> Float:
    """(x − offset) / multiplier."""
    moved = x if offset is None else x - offset
    return np.array(moved if multiplier is None else moved / multiplier, dtype=float)


def stack_columns(x: Float) -> Float:
    """Matrices (..., R, C) as vectors (..., R·C), column by column: Stan's order."""
    return np.swapaxes(x, -1, -2).reshape(*x.shape[:-2], x.shape[-1] * x.shape[-2])


def unstack_columns(u: Float, rows: int, cols: int) -> Float:
    """Inverse of `stack_columns`."""
    return np.swapaxes(u.reshape(*u.shape[:-1], cols, rows), -1, -2)
