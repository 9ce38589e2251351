"""The seeds of the tests' fits, which one option moves all at once: ``--seeds-from N``.

What a fit's draws are must not decide whether a test passes. With another beginning, every
test marked ``fit`` takes other seeds for what is random in a fit: its reference's draws, its
candidates and its chains. The data stay as they are.
"""

from __future__ import annotations

__all__ = ["begin_from", "reseeded"]

_beginning = 0


def begin_from(number: int) -> None:
    """Count all seeds from `number`: for conftest.py, before tests are collected."""
    global _beginning
    _beginning = number


def reseeded(seed: int = 0) -> int:
    """The seed of a fit: `seed` itself, unless ``--seeds-from`` moves it.

    Examples
    --------
    >>> reseeded(3)
    3
    """
    return _beginning + seed
