"""Selection with the model in the loop: draws of the coreset's own posterior, no reference.

NumPy alone: a model is a `CoresetPosterior`, a few callables, closed form or not;
`stancoreset.coreset_posterior` makes one of any weighted Stan program.
"""

from __future__ import annotations

from collections.abc import Callable

from .base import CoresetPosterior, Tangent, kl_gradient, tangent
from .greedy import sparse_vi
from .newton import quasi_newton

__all__ = [
    "METHODS",
    "CoresetPosterior",
    "Tangent",
    "kl_gradient",
    "quasi_newton",
    "sparse_vi",
    "tangent",
]

#: Methods by name.
METHODS: dict[str, Callable] = {"sparse_vi": sparse_vi, "quasi_newton": quasi_newton}
