"""Stan's data: read from files, checked against declarations, evaluated in expressions.

May import stan.syntax and the ground floor. Hands out the readers, the check and `evaluate_int`.
"""

from __future__ import annotations

from stancoreset.stan.data.check import check_data, declared
from stancoreset.stan.data.evaluate import Scope, evaluate_int
from stancoreset.stan.data.files import (
    DataSource,
    data_hash,
    indexed_columns,
    json_text,
    raw_data,
    read_data,
    to_json,
)
from stancoreset.stan.data.tables import (
    FORMATS,
    READABLE,
    ArrowTable,
    TableFile,
    reading_table,
    require_different,
)
from stancoreset.stan.data.values import Value, as_value, index_words, masked_values, not_finite

__all__ = [
    "FORMATS",
    "READABLE",
    "ArrowTable",
    "DataSource",
    "Scope",
    "TableFile",
    "Value",
    "as_value",
    "check_data",
    "data_hash",
    "declared",
    "evaluate_int",
    "index_words",
    "indexed_columns",
    "json_text",
    "masked_values",
    "not_finite",
    "raw_data",
    "read_data",
    "reading_table",
    "require_different",
    "to_json",
]
