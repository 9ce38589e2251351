"""Data that need not fit in memory: tables on disk, chunk by chunk.

May import stan and the ground floor. Hands out `Table`, the rows that it opens, and passes
over them.
"""

from __future__ import annotations

from stancoreset.rows.tables.files import (
    ArraysPart,
    FilePart,
    Part,
    data_files,
    find_parts,
)
from stancoreset.rows.tables.passes import Kernel, Sums, fold, ordered, sum_part
from stancoreset.rows.tables.scan import Reader, Seen, row_count
from stancoreset.rows.tables.stored import (
    LoadedRows,
    Source,
    StoredRows,
    content_hash,
    in_memory,
    stan_rows,
)
from stancoreset.rows.tables.table import Table, described, table_from_file

__all__ = [
    "ArraysPart",
    "FilePart",
    "Kernel",
    "LoadedRows",
    "Part",
    "Reader",
    "Seen",
    "Source",
    "StoredRows",
    "Sums",
    "Table",
    "content_hash",
    "data_files",
    "described",
    "find_parts",
    "fold",
    "in_memory",
    "ordered",
    "row_count",
    "stan_rows",
    "sum_part",
    "table_from_file",
]
