"""How far two evaluations of one weighted program are apart, as relative errors."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

import numpy as np

from stancoreset.engines import Engine, Float
from stancoreset.model.identity_values import BoundTwice, Setting, Values, random_points
from stancoreset.stan import StanProgram, WeightedProgram

__all__ = ["against_original", "errors", "prior_on_all_rows"]

_NUMBERS = 2_000_000  # of the rows' data that are bound at the same time


def errors(setting: Setting, v: Values) -> dict[str, float]:
    """Relative error of every identity that needs the weighted program alone, by name."""
    lik, w = v.log_lik, setting.random
    sizes = np.abs(lik)  # what rounding errors are relative to
    sums = v.zero_a + lik.sum(axis=1)
    weighted = v.zero_a + lik @ w
    step = v.random + lik[:, setting.which]
    return {
        "prior": _up_to_constant(v.zero_a, v.zero_b),
        "sum": _up_to_constant(v.one, sums, sizes.sum(axis=1)),
        "weighted": _up_to_constant(v.random, weighted, sizes @ w),
        "derivative": _up_to_constant(v.bumped, step, sizes @ w),
        "repeated": _up_to_constant(v.counted, v.repeated, sizes @ setting.counts),
        "slice": _exact(lik[:, setting.part], v.log_lik_part),
        "unweighted": _exact(lik, v.log_lik_weighted),
    }


def prior_on_all_rows(
    weighted: WeightedProgram, data: Mapping[str, Any], bound: BoundTwice, thetas: Float
) -> float:
    """Relative error of lp(0) of all rows, run by run, against that of one row.

    Points at which a row has no density say nothing: zero times infinity is no number.
    """
    n_obs = weighted.n_obs(data)
    numbers = sum(np.size(data[name]) for name in weighted.rows)
    length = max(1, _NUMBERS * n_obs // max(1, numbers))
    one = bound.density(weighted.prior_data(data)).log_density(thetas)
    worst = 0.0
    for start in range(0, n_obs, length):
        cut = slice(start, min(start + length, n_obs))
        rows = weighted.subset(data, cut, np.zeros(cut.stop - start))
        with closing(bound.briefly(rows)) as model:
            zero = model.log_density(thetas)
        if np.isfinite(zero - one).sum() > 1:
            worst = max(worst, _up_to_constant(zero, one))
    return worst


def _up_to_constant(left: Float, right: Float, size: Float | float = 0.0) -> float:
    """Largest relative error of left = right + c at the points, c free.

    The point of smallest magnitude fixes c, so that a point far out, where a density is
    large and rounding is coarse, cannot hide an error anywhere else.
    """
    difference = left - right
    scale = np.abs(left) + np.abs(right) + size + 1.0
    counts = np.isfinite(difference) & np.isfinite(scale)
    if counts.sum() < 2:
        return np.inf
    difference, scale = difference[counts], scale[counts]
    base = int(np.argmin(scale))
    return float(np.max(np.abs(difference - difference[base]) / (scale + scale[base])))


def _exact(left: Float, right: Float) -> float:
    """Largest relative error of left = right, number by number; non-finite points are left out."""
    counts = np.isfinite(left).all(axis=1) & np.isfinite(right).all(axis=1)
    if not counts.any():
        return np.inf
    left, right = left[counts], right[counts]
    return float(np.max(np.abs(left - right) / (np.abs(left) + np.abs(right) + 1.0)))


def against_original(
    rows: Mapping[str, Any],
    bound: BoundTwice,
    engine: Engine,
    original: StanProgram,
    thetas: Float,
    rng: np.random.Generator,
) -> dict[str, float]:
    """The original program on the same rows, without weights.

    Where these rows have fewer groups or categories, and so fewer parameters, than all rows,
    the points are others.
    """
    names = {decl.name for decl in original.data}
    data = {name: value for name, value in rows.items() if name in names}
    before = bound.bind(engine.compile(original.code, name=original.name), data)
    after = bound.density(rows)
    if before.n_params != after.n_params:
        return {"original": np.inf, "original gradient": np.inf}
    if after.n_params != thetas.shape[1]:
        thetas = random_points(after, len(thetas), rng)
    value, gradient = before.log_density_gradient(thetas)
    new_value, new_gradient = after.log_density_gradient(thetas)
    return {
        "original": _up_to_constant(new_value, value),
        "original gradient": _gradients(new_gradient, gradient),
    }


def _gradients(left: Float, right: Float) -> float:
    """Largest error relative to the largest entry at each point, where rounding starts."""
    size = np.abs(np.concatenate([left, right], axis=1)).max(axis=1, initial=0.0)
    counts = np.isfinite(size)
    if not counts.any():
        return np.inf
    relative = np.abs(left - right)[counts] / (size[counts, None] + 1.0)
    return float(relative.max(initial=0.0))
