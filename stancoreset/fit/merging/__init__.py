"""Merge and reduce: one coreset from those of parts, for data that arrive in pieces.

May import the files of `stancoreset.fit`. Hands out `keep_rows` and `merge_parts`.
"""

from __future__ import annotations

from stancoreset.fit.merging.reduce import keep_rows, merge_parts

__all__ = ["keep_rows", "merge_parts"]
