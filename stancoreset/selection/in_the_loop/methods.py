"""Methods with the model in the loop, by name."""

from __future__ import annotations

from collections.abc import Callable

from stancoreset.selection.in_the_loop.greedy import sparse_vi
from stancoreset.selection.in_the_loop.newton import quasi_newton

__all__ = ["METHODS"]

#: Methods by name.
METHODS: dict[str, Callable] = {"sparse_vi": sparse_vi, "quasi_newton": quasi_newton}
