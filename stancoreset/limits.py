"""Limits of the machine that numerical code keeps to: digits of a double, numbers in memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

__all__ = ["BLOCK", "CACHED", "KEPT", "NOISE", "ROUNDING", "cuts"]

_DIGITS = np.finfo(np.float64).precision
#: Relative error of rounding in sums of many numbers, 1e-12: the last fifth of a double's digits.
ROUNDING = 10.0 ** (-4 * _DIGITS / 5)
#: Relative error of what such sums determine, as eigenvalues, 1e-9: the last two fifths.
NOISE = 10.0 ** (-3 * _DIGITS / 5)
#: Numbers that stay in a processor's second cache: 512 KB.
CACHED = 1 << 16
#: Numbers of a temporary array: 16 MB.
BLOCK = 2_000_000
#: Numbers of an array that is kept between passes over the rows: 160 MB.
KEPT = 20_000_000


def cuts(count: int, width: int = 1, numbers: int = BLOCK, least: int = 1) -> Iterator[slice]:
    """Cut `count` items of `width` numbers each into slices of at most so many `numbers`.

    A slice has at least `least` items, whatever their width.

    >>> list(cuts(5, width=10, numbers=20))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    step = max(least, numbers // max(1, width))
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))
