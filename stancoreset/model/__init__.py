"""The model: `CoresetModel`, a Stan program that is fitted on a few weighted rows.

May import fit and what lies below it. Hands out `CoresetModel`.
"""

from __future__ import annotations

from stancoreset.model.model import CoresetModel

__all__ = ["CoresetModel"]
