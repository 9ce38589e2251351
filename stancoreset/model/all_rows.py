"""All rows as their own coreset, where few rows for each parameter defy every quadratic.

A pilot run on so few rows would be NUTS on all of them: then it is the fit. Nothing is selected,
and the coreset posterior is the full one.
"""

from __future__ import annotations

import numpy as np

from stancoreset.reference import Reference, small_size
from stancoreset.rows import FullData
from stancoreset.selection import Coreset

__all__ = ["all_rows", "are_few"]


def are_few(full: FullData) -> bool:
    """Whether a pilot run would read all rows, which are in memory."""
    return full.passes.stored is None and small_size(full) == full.n_obs


def all_rows(full: FullData, reference: Reference) -> Coreset:
    """Every distinct row, with the weight that it has in the data."""
    rows = np.arange(full.n_obs) if full.row_numbers is None else full.row_numbers
    return Coreset(
        indices=rows,
        weights=full.weights_at(np.arange(len(rows))),
        n_obs=full.n_obs,
        method="all rows",
        relative_error=0.0,
        heldout_error=0.0,
        norm=float(np.std(reference.log_likelihood)),
    )
