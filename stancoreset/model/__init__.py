"""The model: `CoresetModel`, a Stan program that is fitted on a few weighted rows.

May import fit and what lies below it. Hands out `CoresetModel`; for one release it finds the
names that it had before in the rooms where they are.
"""

from __future__ import annotations

import warnings
from typing import Any

from stancoreset import analysis, fit, program, runs
from stancoreset.model.model import CoresetModel

__all__ = ["CoresetModel"]


def __getattr__(name: str) -> Any:
    for room in (fit, runs, analysis, program):
        if name in room.__all__:
            warnings.warn(
                f"stancoreset.model.{name} is gone; import {name} from {room.__name__}",
                FutureWarning,
                stacklevel=2,
            )
            return getattr(room, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
