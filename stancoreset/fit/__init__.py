"""The way of a fit: its plan, reference, quadratic, rows, NUTS and rounds, and merging.

May import analysis and what lies below it. Hands out `Plan` and the options of fits and merges,
`Rounds`, which runs a fit to its end, the `Pipeline` of one round, projections of candidate rows,
and what merges parts.
"""

from __future__ import annotations

from stancoreset.fit.controlled import ControlledSelection
from stancoreset.fit.merging import keep_rows, merge_parts
from stancoreset.fit.plan import (
    BEYOND,
    KERNEL,
    MERGE_SIZE,
    NEEDS_GLM,
    PROJECTIONS,
    Candidates,
    Method,
    Plan,
    ProjectionName,
    Selection,
    Size,
    fit_options,
    merge_options,
    nuts_of,
    own_options,
    reference_name,
    refuse_former,
)
from stancoreset.fit.projector import (
    expanded_view,
    project_rows,
)
from stancoreset.fit.rounds import Rounds
from stancoreset.fit.sizes import AUTO, HELDOUT_DRAWS
from stancoreset.fit.steps import Pipeline

__all__ = [
    "AUTO",
    "BEYOND",
    "HELDOUT_DRAWS",
    "KERNEL",
    "MERGE_SIZE",
    "NEEDS_GLM",
    "PROJECTIONS",
    "Candidates",
    "ControlledSelection",
    "Method",
    "Pipeline",
    "Plan",
    "ProjectionName",
    "Rounds",
    "Selection",
    "Size",
    "expanded_view",
    "fit_options",
    "keep_rows",
    "merge_options",
    "merge_parts",
    "nuts_of",
    "own_options",
    "project_rows",
    "reference_name",
    "refuse_former",
]
