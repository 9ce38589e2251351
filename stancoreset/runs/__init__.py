"""What a fit leaves: `CoresetFit`, its rounds, its folder, its report and its CSV files.

May import program and what lies below it. Hands out `CoresetFit` and `load_fit`, the `Round` and
`Change` of a fit, `RunFolder`, and what commands and batches need of a run's folder.
"""

from __future__ import annotations

from stancoreset.runs.fit import (
    CoresetFit,
    keep_fit,
    load_fit,
    write_reports,
)
from stancoreset.runs.folder import (
    RunFolder,
    enlist,
    is_complete,
    load_part,
    recorded_seed,
    results_in,
)
from stancoreset.runs.report import markdown_table
from stancoreset.runs.round import (
    FIRST,
    LONGER_CHAINS,
    MATCHING,
    OWN_DRAWS,
    SMALLER_STEPS,
    Change,
    Round,
)

__all__ = [
    "FIRST",
    "LONGER_CHAINS",
    "MATCHING",
    "OWN_DRAWS",
    "SMALLER_STEPS",
    "Change",
    "CoresetFit",
    "Round",
    "RunFolder",
    "enlist",
    "is_complete",
    "keep_fit",
    "load_fit",
    "load_part",
    "markdown_table",
    "recorded_seed",
    "results_in",
    "write_reports",
]
