"""Suggestions for misspelt names, for error messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["near_misses"]


def near_misses(name: str, names: Iterable[str]) -> list[str]:
    """Return at most two known names similar to `name`.

    Examples
    --------
    >>> near_misses("beta_scal", ["beta_scale", "y"])
    ['beta_scale']
    """
    by_lower = {str(other).lower(): str(other) for other in names}
    close = difflib.get_close_matches(name.lower(), by_lower, n=2, cutoff=0.7)
    return [by_lower[other] for other in close]
