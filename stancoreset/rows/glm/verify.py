"""Numerical check of a proposed GLM against Stan, required before its use.

On random rows and random parameter values each row's log likelihood must equal Stan's up to a
constant per row; and the weighted sums must differ from Stan's log density only by the
log prior, in value and gradient.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines import BoundModel, Compiled, Float
from stancoreset.errors import DataError
from stancoreset.limits import NOISE
from stancoreset.rows.blocks import MANY
from stancoreset.rows.glm.form import proposals, why_not
from stancoreset.rows.glm.kernel import GlmKernel
from stancoreset.stan import WeightedProgram

# Rows below which a check that a likelihood is a GLM takes longer than evaluation in Stan. Fewer
# rows pay with hundreds of groups, whose rows are selected group by group: 1,260 of 7,584 answers
# of 316 people left 94 % of the draws effective, 38 by draws 16 %.
_LEAST_ROWS = 10_000
#: From where on generalised linear models are recognised, in words.
GLM_ENOUGH = f"with {MANY} parameters, or from {_LEAST_ROWS:,} rows on"

#: Largest relative difference from Stan's values.
TOLERANCE = NOISE


@dataclass(frozen=True)
class FoundGlm:
    """The GLM that equals a program's likelihood within a relative error, or why there is none."""

    kernel: GlmKernel | None
    reason: str = ""
    error: float = float("nan")

    def __str__(self) -> str:
        if self.kernel is None:
            return f"Stan ({self.reason})"
        return f"{self.kernel.family} as a matrix product (within {self.error:.0e} of Stan)"


def is_worth_finding(n_obs: int, n_params: int) -> bool:
    """Whether so many rows or parameters make it worth while to recognise a GLM.

    >>> is_worth_finding(10_000, 2), is_worth_finding(2_000, 2), is_worth_finding(2_000, 300)
    (True, False, True)
    """
    return n_obs >= _LEAST_ROWS or n_params >= MANY


def find_glm(
    program: WeightedProgram,
    density: Compiled,
    with_log_lik: Compiled,
    data: Mapping[str, Any],
) -> FoundGlm:
    """Find the GLM that equals the program's likelihood, or the reason why there is none.

    `density` and `with_log_lik` are the program without and with its generated quantities. Of the
    checked data in memory a few random rows are used.
    """
    reason = why_not(program)
    if reason:
        return FoundGlm(None, reason)
    rng = np.random.default_rng([0, 23])
    chosen = _chosen(program, data, rng)
    part = program.subset(data, chosen)
    rows = rows_of(program, part)
    with with_log_lik.bind(part) as bound:
        points = _points(bound, rng)
        if len(points) < 2:
            return FoundGlm(None, "its log density is not finite at random parameter values")
        expected = bound.log_lik(points)
        for kernel in proposals(program, bound.param_names, part):
            try:
                error = _up_to_constants(kernel.log_lik(rows, points), expected)
            except DataError:  # not an outcome of the family, or not a group
                continue
            if error <= TOLERANCE:
                error = max(error, _sums_error(kernel, program, density, part, points, rng))
                if error <= TOLERANCE:
                    return FoundGlm(kernel, error=error)
    return FoundGlm(None, "its likelihood is not a known GLM")


def _chosen(
    program: WeightedProgram,
    data: Mapping[str, Any],
    rng: np.random.Generator,
    count: int = 256,
    look: int = 20_000,
) -> NDArray[np.int64]:
    """Choose `count` random rows, and one of each group among `look`, since groups may differ."""
    n_obs = program.n_obs(data)
    looked_at = np.sort(rng.choice(n_obs, size=min(n_obs, look), replace=False))
    chosen = [rng.choice(looked_at, size=min(n_obs, count), replace=False)]
    for name in program.rows:
        values = np.asarray(data[name])
        if values.ndim == 1 and np.issubdtype(values.dtype, np.integer):
            _, first = np.unique(values[looked_at], return_index=True)
            chosen.append(looked_at[first])
    return np.unique(np.concatenate(chosen))


def rows_of(program: WeightedProgram, data: Mapping[str, Any]) -> dict[str, Any]:
    """Row variables and weights, with the row as first axis."""
    names = (*program.rows, program.weights)
    return {
        name: np.moveaxis(np.asarray(data[name]), program.rows.get(name, 0), 0) for name in names
    }


def _points(bound: BoundModel, rng: np.random.Generator, count: int = 8) -> Float:
    """Random parameter values, near zero first, where every row has a density."""
    radii = np.resize((0.1, 0.3, 1.0), count)[:, None]
    points = rng.uniform(-1, 1, size=(count, bound.n_params)) * radii
    return points[np.isfinite(bound.log_density(points))]


def _up_to_constants(found: Float, expected: Float) -> float:
    """Largest relative difference of (points, rows), up to a constant per row."""
    if not (np.all(np.isfinite(found)) and np.all(np.isfinite(expected))):
        return np.inf
    difference = found - expected
    scale = np.abs(found) + np.abs(expected) + 1.0
    return float(np.max(np.abs(difference - difference[0]) / (scale + scale[0])))


def _sums_error(
    kernel: GlmKernel,
    program: WeightedProgram,
    density: Compiled,
    part: Mapping[str, Any],
    points: Float,
    rng: np.random.Generator,
) -> float:
    """Largest relative error of a GLM's sums and gradients, with unit and random weights."""
    count = program.n_obs(part)
    worst = 0.0
    with density.bind(program.prior_data(part)) as prior:
        prior_value, prior_gradient = prior.log_density_gradient(points)
    for weights in (np.ones(count), rng.gamma(1.0, 2.0, count)):
        weighted = program.with_weights(part, weights)
        rows = rows_of(program, weighted)
        with density.bind(weighted) as bound:
            value, gradient = bound.log_density_gradient(points)
        expected, slope = value - prior_value, gradient - prior_gradient
        found = kernel.evaluate("log_density", rows, points)[0]
        again, found_slope, _ = kernel.evaluate("log_density_gradient", rows, points)
        steep = np.abs(slope).max() + np.abs(gradient).max() + 1.0
        worst = max(
            worst,
            _up_to_constants(found[:, None], expected[:, None]),
            _up_to_constants(again[:, None], expected[:, None]),
            float(np.max(np.abs(found_slope - slope)) / steep),
        )
    return worst
