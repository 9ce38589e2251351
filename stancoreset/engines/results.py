"""Conversion of an engine's NUTS output to a `SampleResult`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines.base import SAMPLER_STATS, Float, SampleResult

__all__ = ["sample_result"]

_COUNTS = ("tree_depth", "n_steps")


def sample_result(
    variables: Mapping[str, Float],
    columns: Mapping[str, NDArray[Any]],
    kept: int,
    unconstrain: Callable[[Mapping[str, Float]], Float],
    shapes: Mapping[str, tuple[int, ...]],
    **about: Any,
) -> SampleResult:
    """Sort an engine's arrays into posterior, warm-up and statistics.

    `variables` (chains, warm-up + kept, *shape) and `columns`, sampler statistics under Stan's
    names, end with the `kept` posterior draws; `shapes` are those of the parameters. `about` holds
    the other fields of `SampleResult`.
    """
    stats: dict[str, NDArray[Any]] = {
        SAMPLER_STATS[name]: np.asarray(value)
        for name, value in columns.items()
        if name in SAMPLER_STATS
    }
    for count in _COUNTS:
        stats[count] = stats[count].astype(np.int64)
    stats["diverging"] = stats["diverging"].astype(bool)
    draws = {name: value[:, -kept:] for name, value in variables.items()}
    flat = {name: draws[name].reshape(-1, *shape) for name, shape in shapes.items()}
    chains = len(stats["diverging"])
    warmed = stats["diverging"].shape[1] > kept
    return SampleResult(
        variables=draws,
        stats={name: value[:, -kept:] for name, value in stats.items()},
        unconstrained=unconstrain(flat).reshape(chains, kept, -1),
        warmup_variables={n: v[:, :-kept] for n, v in variables.items()} if warmed else {},
        warmup_stats={n: v[:, :-kept] for n, v in stats.items()} if warmed else {},
        **about,
    )
