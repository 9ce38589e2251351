"""Single-threaded linear algebra for many small matrix operations.

A linear algebra library splits even a 100 × 100 product among all its threads, and every split
waits for the slowest. With thousands of such products in a row on a busy machine, the waiting
takes ten times as long as the work and more.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import ParamSpec, TypeVar

from threadpoolctl import ThreadpoolController

__all__ = ["single_threaded"]

P = ParamSpec("P")
T = TypeVar("T")


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


def single_threaded(function: Callable[P, T]) -> Callable[P, T]:
    """Return the function, run with one linear algebra thread.

    >>> import numpy as np
    >>> @single_threaded
    ... def product(a):
    ...     return a @ a
    >>> product(np.eye(2))
    array([[1., 0.],
           [0., 1.]])
    """

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        with _controller().limit(limits=1):
            return function(*args, **kwargs)

    return run
