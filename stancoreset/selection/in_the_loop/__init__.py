"""Selection with the model in the loop, from draws of the coreset's own posterior.

May import solvers and the top-level modules. Hands out the methods, and `CoresetPosterior`, the
callables they need; `stancoreset.fit.in_the_loop` makes one from any Stan program.
"""

from __future__ import annotations

from stancoreset.selection.in_the_loop.base import CoresetPosterior, Tangent, kl_gradient, tangent
from stancoreset.selection.in_the_loop.chains import coreset_mcmc
from stancoreset.selection.in_the_loop.greedy import sparse_vi
from stancoreset.selection.in_the_loop.methods import METHODS, InTheLoopName
from stancoreset.selection.in_the_loop.newton import quasi_newton

__all__ = [
    "METHODS",
    "CoresetPosterior",
    "InTheLoopName",
    "Tangent",
    "coreset_mcmc",
    "kl_gradient",
    "quasi_newton",
    "sparse_vi",
    "tangent",
]
