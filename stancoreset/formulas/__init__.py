"""Regressions from a formula and a table: a readable Stan program, its data and its labels.

May import model, posterior, stan and the ground floor. Hands out `regression`, which makes a
`Regression`, and the names of its families.
"""

from __future__ import annotations

from stancoreset.formulas.families import FAMILIES, FamilyName
from stancoreset.formulas.regressions import Regression, regression
from stancoreset.formulas.tables import TableSource

__all__ = ["FAMILIES", "FamilyName", "Regression", "TableSource", "regression"]
