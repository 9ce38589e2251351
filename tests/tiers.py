"""Which values of a parametrised test every run tries, and which only long campaigns do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

__all__ = ["some"]


def some(values: Iterable[Any], of: int, first: int = 0) -> list[Any]:
    """All `values` for ``parametrize``, but only one in `of`, from number `first` on, not slow.

    Examples
    --------
    >>> [bool(value.marks) for value in some("abcde", 3, first=1)]
    [True, False, True, True, False]
    """
    listed = list(values)
    if not 0 <= first < min(of, len(listed)):
        raise ValueError(f"first is {first}: none of {len(listed)} values would be in every run")
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)),  # of several arguments
            marks=() if n % of == first else pytest.mark.slow,
        )
        for n, value in enumerate(listed)
    ]
