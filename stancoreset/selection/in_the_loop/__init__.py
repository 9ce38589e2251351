"""Selection with the model in the loop: draws of the coreset's own posterior, no reference.

May import solvers and the ground floor. Hands out the methods, and `CoresetPosterior`, the few
callables that a model is to them; `stancoreset.model.in_the_loop` makes one of any Stan program.
"""

from __future__ import annotations

from stancoreset.selection.in_the_loop.base import CoresetPosterior, Tangent, kl_gradient, tangent
from stancoreset.selection.in_the_loop.greedy import sparse_vi
from stancoreset.selection.in_the_loop.methods import METHODS
from stancoreset.selection.in_the_loop.newton import quasi_newton

__all__ = [
    "METHODS",
    "CoresetPosterior",
    "Tangent",
    "kl_gradient",
    "quasi_newton",
    "sparse_vi",
    "tangent",
]
