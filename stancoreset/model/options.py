"""Options of `CoresetModel` by name, for editors and type checkers.

The options are written out because editors and type checkers see no computed names;
`stancoreset.fit.plan`, NUTS and the selection algorithms define and document them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

from stancoreset.engines import NUTS, Metric
from stancoreset.fit import Candidates, ProjectionName, Selection
from stancoreset.policy import Policy
from stancoreset.progress import Stages


class NUTSOptions(TypedDict, total=False):
    """Options of `stancoreset.NUTS` that are not arguments of `CoresetModel.fit`."""

    thin: int
    keep_every: int
    save_warmup: bool
    adapt_delta: float | None
    max_treedepth: int
    metric: Metric | None
    step_size: float | Sequence[float] | None
    adapt_init_phase: int | None
    adapt_metric_window: int | None
    adapt_step_size: int | None
    parallel_chains: int | None
    show_console: bool
    refresh: int


class SampleOptions(NUTSOptions, total=False):
    """Options of `CoresetModel.sample`."""

    sampler: NUTS | None
    chains: int
    iter_warmup: int | None
    iter_sampling: int


class MethodOptions(TypedDict, total=False):
    """Options of the selection algorithms, each of which takes some."""

    batch: int
    callback: Callable[..., object] | None
    compression: float | None
    gradient_batch: int | None
    groups: Any
    hold: int
    iterations: int
    line_search: int
    max_iter: int
    nonnegative: str
    overshoot: float
    path: Sequence[int] | None
    polish: int
    pool: int
    printed: bool
    rate: float
    regularization: float
    rescale: bool
    reweight: bool
    rtol: float
    sigma_factor: float
    start: Any
    step: float | None
    steps: int
    subsample: int | None
    subsample_weights: bool
    swap_limit: int
    tol: float
    transitions: int
    update: str
    updates: int
    warmup: int | None
    weights_sum: float | None


class MergeOptions(NUTSOptions, MethodOptions, total=False):
    """Options of `CoresetModel.merge` that are not arguments."""

    sampler: NUTS | Literal["laplace", "nuts", "chains"] | None
    selection: Selection | None
    control_variate: bool
    engine_output_dir: str | Path | None
    max_seconds: float | None
    policy: Policy | Mapping[str, float] | str | Path | None
    stages: Stages | None


class FitOptions(MergeOptions, total=False):
    """Options of `CoresetModel.fit` that are not arguments."""

    projection: ProjectionName | None
    draws: int | None
    candidates: Candidates | None
