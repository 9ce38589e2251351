"""Matrices as vectors in Stan's order, column by column."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["stack_columns", "unstack_columns"]

Float = NDArray[np.float64]


def stack_columns(x: Float) -> Float:
    """Matrices (..., R, C) as vectors (..., R·C), column by column: Stan's order."""
    return np.swapaxes(x, -1, -2).reshape(*x.shape[:-2], x.shape[-1] * x.shape[-2])


def unstack_columns(u: Float, rows: int, cols: int) -> Float:
    """Inverse of `stack_columns`."""
    return np.swapaxes(u.reshape(*u.shape[:-1], cols, rows), -1, -2)
