"""All rows as their own coreset, where few rows for each parameter defy every quadratic.

A pilot run on so few rows is NUTS on all of them. If its chains agree, or may if they are longer,
NUTS on all rows is the fit: nothing is selected, and the coreset posterior is the full one. Chains
that disagree by more may never agree: the posterior may be improper, or have several modes. Then
rows are selected, unless more than half of them are needed.
"""

from __future__ import annotations

import numpy as np

from stancoreset.policy import Policy
from stancoreset.reference import Reference, small_size
from stancoreset.rows import FullData
from stancoreset.selection import Coreset


def are_few(full: FullData) -> bool:
    """Whether a pilot run would read all rows, which are in memory."""
    return full.passes.stored is None and small_size(full) == full.n_obs


def stand_for_themselves(full: FullData, reference: Reference, policy: Policy) -> bool:
    """Whether all rows are the coreset: no quadratic settles, and chains on them may mix."""
    may_agree = reference.rhat <= policy.chains_may_agree
    return bool(reference.unsettled) and are_few(full) and may_agree


def are_most(full: FullData, reference: Reference, coreset: Coreset) -> bool:
    """Whether no quadratic settles, and few rows of which a coreset has more than half.

    NUTS on all rows costs at most twice as much then, and leaves nothing out.
    """
    return bool(reference.unsettled) and are_few(full) and 2 * coreset.size > full.n_obs


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
        norm=reference.norm,
    )
