"""A coreset against what a user would do instead, on three models with simulated data.

May import model and the rooms below it. Hands out `compare_rivals`, its size `Effort`, its
table, and the rivals. ``stancoreset paper rivals`` prints the table.
"""

from __future__ import annotations

from stancoreset.experiments.rivals.methods import RIVALS, Effort
from stancoreset.experiments.rivals.numpyro_chains import double_precision
from stancoreset.experiments.rivals.table import TRUTH, compare_rivals, rivals_table

__all__ = ["RIVALS", "TRUTH", "Effort", "compare_rivals", "double_precision", "rivals_table"]
