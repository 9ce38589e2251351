"""Selection of rows and weights: projections, the control variate, and the coreset itself.

May import reference, posterior, rows, engines and stan. Hands out `Coreset`, `select`, the
projections, the expansion and the control variate; rooms inside it are the solvers, selection in
the loop, Hermite series, and the thinning of draws.
"""

from __future__ import annotations

from stancoreset.selection.control_variates import (
    LEAST_CURVATURE,
    UNBOUNDED,
    ControlVariate,
    control_variate,
    stable_share,
)
from stancoreset.selection.coreset import (
    QUADRATIC_ONLY,
    Coreset,
    Remainder,
    row_columns,
    select,
)
from stancoreset.selection.design import Whitened, gains, greedy_design, whitened
from stancoreset.selection.expansion import PAIRS, Expansion, expand, no_expectation
from stancoreset.selection.fisher import extend_fisher, project_fisher
from stancoreset.selection.hermite import (
    MAX_CANDIDATES,
    AllRows,
    HermiteProjection,
    LocalSelection,
    candidates_of,
    project_hermite,
    select_locally,
    select_on_draws,
)
from stancoreset.selection.projection import (
    Projection,
    default_candidates,
    extend,
    heldout_error,
    project,
)
from stancoreset.selection.taylor import TaylorProjection, extend_taylor, project_taylor
from stancoreset.selection.thinning import Thinned, kernel_rows, thin
from stancoreset.selection.union import joined_controls, merge

__all__ = [
    "LEAST_CURVATURE",
    "MAX_CANDIDATES",
    "PAIRS",
    "QUADRATIC_ONLY",
    "UNBOUNDED",
    "AllRows",
    "ControlVariate",
    "Coreset",
    "Expansion",
    "HermiteProjection",
    "LocalSelection",
    "Projection",
    "Remainder",
    "TaylorProjection",
    "Thinned",
    "Whitened",
    "candidates_of",
    "control_variate",
    "default_candidates",
    "expand",
    "extend",
    "extend_fisher",
    "extend_taylor",
    "gains",
    "greedy_design",
    "heldout_error",
    "joined_controls",
    "kernel_rows",
    "merge",
    "no_expectation",
    "project",
    "project_fisher",
    "project_hermite",
    "project_taylor",
    "row_columns",
    "select",
    "select_locally",
    "select_on_draws",
    "stable_share",
    "thin",
    "whitened",
]
