"""Questions to a finished fit: leave-one-out, predictions, information of rows, designs.

May import runs and what lies below it. Hands out `loo`, `generated_quantities`, `information` and
`design`, with their results, and what reads new rows for them.
"""

from __future__ import annotations

from stancoreset.analysis.information import (
    Asked,
    Design,
    Information,
    design,
    information,
    worth,
)
from stancoreset.analysis.pointwise import (
    generated_quantities,
    loo,
    quantity_names,
    with_log_likelihood,
    with_replications,
)

__all__ = [
    "Asked",
    "Design",
    "Information",
    "design",
    "generated_quantities",
    "information",
    "loo",
    "quantity_names",
    "with_log_likelihood",
    "with_replications",
    "worth",
]
