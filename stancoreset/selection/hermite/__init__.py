"""Selection without draws: rows' remainders under a Gaussian, and their exact inner products.

May import selection's projection and solvers, reference, rows and engines. Hands out the
projection, the expected derivatives that make the best quadratic, and row functions of GLMs.
"""

from __future__ import annotations

from stancoreset.reference.expected import (
    Expected,
    ExpectedRows,
    RowFunction,
    expected_rows,
    of_coefficients,
    row_function,
    why_not,
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
    "Expected",
    "ExpectedRows",
    "HermiteProjection",
    "RowFunction",
    "expected_rows",
    "of_coefficients",
    "project_hermite",
    "row_function",
    "why_not",
]
