"""Methods with the model in the loop, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from stancoreset.selection.in_the_loop.chains import coreset_mcmc
from stancoreset.selection.in_the_loop.greedy import sparse_vi
from stancoreset.selection.in_the_loop.newton import quasi_newton
from stancoreset.selection.solvers import SolverResult

#: The keys of `METHODS`, for type checkers.
InTheLoopName: TypeAlias = Literal["sparse_vi", "quasi_newton", "coreset_mcmc"]
#: Methods by name.
METHODS: dict[str, Callable[..., SolverResult]] = {
    "sparse_vi": sparse_vi,
    "quasi_newton": quasi_newton,
    "coreset_mcmc": coreset_mcmc,
}
