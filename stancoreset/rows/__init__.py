"""The full data as sums over rows: in memory, on disk, on Dask, as a matrix product.

May import engines and stan. Hands out `FullData`, rows' log likelihoods, and the `Witness`, which
evaluates the author's own program on all rows.
"""

from __future__ import annotations

from stancoreset.rows.blocks import (
    DRAWS_EACH,
    MANY,
    MAX_DENSE,
    AnyMatrix,
    BlockFactor,
    Blocks,
    Matrix,
    dense,
    is_sparse,
    quadratic_terms,
    without_negative,
)
from stancoreset.rows.costs import Costs, CountedRows
from stancoreset.rows.directions import Directions, dependencies
from stancoreset.rows.distinct import distinct_rows
from stancoreset.rows.distributed import Distributed
from stancoreset.rows.full_data import FullData, repeats
from stancoreset.rows.hessians import STEP, Hessians, Steps, central_hessian
from stancoreset.rows.log_lik import bind_rows, row_log_lik
from stancoreset.rows.sandwich import DenseSandwich, SparseSandwich
from stancoreset.rows.sums import MAX_ROWS_PER_CHUNK, ArrayChunks
from stancoreset.rows.witness import (
    SHOWN,
    TOLERANCE,
    FullDensity,
    ShownWitness,
    StoredWitness,
    Witness,
    WitnessedDensity,
    shown_rows,
)

__all__ = [
    "DRAWS_EACH",
    "MANY",
    "MAX_DENSE",
    "MAX_ROWS_PER_CHUNK",
    "SHOWN",
    "STEP",
    "TOLERANCE",
    "AnyMatrix",
    "ArrayChunks",
    "BlockFactor",
    "Blocks",
    "Costs",
    "CountedRows",
    "DenseSandwich",
    "Directions",
    "Distributed",
    "FullData",
    "FullDensity",
    "Hessians",
    "Matrix",
    "ShownWitness",
    "SparseSandwich",
    "Steps",
    "StoredWitness",
    "Witness",
    "WitnessedDensity",
    "bind_rows",
    "central_hessian",
    "dense",
    "dependencies",
    "distinct_rows",
    "is_sparse",
    "quadratic_terms",
    "repeats",
    "row_log_lik",
    "shown_rows",
    "without_negative",
]
