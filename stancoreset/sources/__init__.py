"""Data that need not fit in memory: tables on disk, chunk by chunk."""

from __future__ import annotations

from stancoreset.sources.stored import LoadedRows, Source, StoredRows
from stancoreset.sources.table import Table, described, table_from_file

__all__ = ["LoadedRows", "Source", "StoredRows", "Table", "described", "table_from_file"]
