"""The model: `CoresetModel`, a Stan program that is fitted on a few weighted rows.

May import fit and what lies below it. Hands out `CoresetModel`, `CoresetFit`, `load_fit`,
the `Plan` of a fit with its options, and what commands and batches need of its folder.
"""

from __future__ import annotations

from stancoreset.analysis import Design, Information
from stancoreset.fit import (
    AUTO,
    KERNEL,
    MERGE_SIZE,
    Method,
    Plan,
    ProjectionName,
    Selection,
    Size,
    fit_options,
    merge_options,
    own_options,
    refuse_former,
)
from stancoreset.model.model import CoresetModel
from stancoreset.program import Data, PassesName
from stancoreset.runs import (
    CoresetFit,
    enlist,
    is_complete,
    load_fit,
    load_part,
    markdown_table,
    results_in,
    write_reports,
)

__all__ = [
    "AUTO",
    "KERNEL",
    "MERGE_SIZE",
    "CoresetFit",
    "CoresetModel",
    "Data",
    "Design",
    "Information",
    "Method",
    "PassesName",
    "Plan",
    "ProjectionName",
    "Selection",
    "Size",
    "enlist",
    "fit_options",
    "is_complete",
    "load_fit",
    "load_part",
    "markdown_table",
    "merge_options",
    "own_options",
    "refuse_former",
    "results_in",
    "write_reports",
]
