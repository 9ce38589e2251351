"""What a user does with a Stan program: the model, the steps and rounds of a fit, its folder.

May import selection and what lies below it. Hands out `CoresetModel`, `CoresetFit`, `load_fit`,
the `Plan` of a fit, and what commands and batches need of its folder.
"""

from __future__ import annotations

from stancoreset.model.fit import CoresetFit, load_fit
from stancoreset.model.folder import enlist, load_part, results_in
from stancoreset.model.model import CoresetModel
from stancoreset.model.plan import Plan, own_options
from stancoreset.model.sizes import AUTO

__all__ = [
    "AUTO",
    "CoresetFit",
    "CoresetModel",
    "Plan",
    "enlist",
    "load_fit",
    "load_part",
    "own_options",
    "results_in",
]
