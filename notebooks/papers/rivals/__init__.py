"""A coreset against what a user would do instead, on three models with simulated data.

Hands out `compare_rivals`, its size `Effort`, its table, and the rivals.
``python notebooks/papers rivals`` prints the table.
"""

from __future__ import annotations

from papers.rivals.methods import RIVALS, Effort
from papers.rivals.numpyro_chains import double_precision
from papers.rivals.table import TRUTH, compare_rivals, rivals_table

__all__ = ["RIVALS", "TRUTH", "Effort", "compare_rivals", "double_precision", "rivals_table"]
