"""Selection without draws: rows' remainders under a Gaussian, and their exact inner products.

May import the projection, reference, rows, engines and the ground floor. Hands out the
projection of rows that see one linear predictor, and the Hermite series that it is made of.
"""

from __future__ import annotations

from stancoreset.selection.hermite.projection import (
    MAX_CANDIDATES,
    HermiteProjection,
    project_hermite,
)
from stancoreset.selection.hermite.series import (
    ExpectedRows,
    RowFunction,
    expected_rows,
    of_coefficients,
    row_function,
    why_not,
)

__all__ = [
    "MAX_CANDIDATES",
    "ExpectedRows",
    "HermiteProjection",
    "RowFunction",
    "expected_rows",
    "of_coefficients",
    "project_hermite",
    "row_function",
    "why_not",
]
