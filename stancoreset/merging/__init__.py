"""Coresets of parts become one, for data that arrive in pieces: merge and reduce."""

from __future__ import annotations

from stancoreset.merging.reduce import keep_rows, merge_parts
from stancoreset.merging.union import merge

__all__ = ["keep_rows", "merge", "merge_parts"]
