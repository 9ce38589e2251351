"""Rows' remainders under a Gaussian, by exact inner products, or on draws within each group.

May import selection's projection and solvers, reference, rows and engines. Hands out the
projection and the series of all rows.
"""

from __future__ import annotations

from stancoreset.selection.hermite.local import LocalSelection, select_locally
from stancoreset.selection.hermite.on_draws import (
    candidates_of,
    groups_of_rows,
    indicators,
    select_on_draws,
)
from stancoreset.selection.hermite.projection import (
    MAX_CANDIDATES,
    HermiteProjection,
    project_hermite,
)
from stancoreset.selection.hermite.rows import AllRows

__all__ = [
    "MAX_CANDIDATES",
    "AllRows",
    "HermiteProjection",
    "LocalSelection",
    "candidates_of",
    "groups_of_rows",
    "indicators",
    "project_hermite",
    "select_locally",
    "select_on_draws",
]
