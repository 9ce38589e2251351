"""The model: `CoresetModel`, the steps and rounds of its fits, their folders, merging.

May import selection and what lies below it. Hands out `CoresetModel`, `CoresetFit`, `load_fit`,
the `Plan` of a fit with its options, and what commands and batches need of its folder.
"""

from __future__ import annotations

from stancoreset.model.fit import CoresetFit, load_fit, write_reports
from stancoreset.model.folder import enlist, is_complete, load_part, results_in
from stancoreset.model.information import Design, Information
from stancoreset.model.model import CoresetModel
from stancoreset.model.passes import PassesName
from stancoreset.model.plan import (
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
from stancoreset.model.report import markdown_table
from stancoreset.model.session import Data
from stancoreset.model.sizes import AUTO

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
