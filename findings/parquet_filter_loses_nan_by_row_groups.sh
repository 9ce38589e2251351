#!/bin/sh
# Whether a filter `x != 1` keeps a row with NaN depends on the size of row groups.
#
# Versions: pyarrow 26.0.1, dask 2026.8.0, pandas 3.1.1, numpy 2.4.6.
# Guess: NaN != 1 holds, so the row stays, as it does in memory and in pandas; row groups are
#   storage.
# What happens: Statistics of a row group leave NaN out. A group of ones and one NaN says that
#   its least and greatest value are one, and is skipped whole: with groups of 1,000 rows the
#   NaN row is read, with groups of 500 it is not. dask, which hands the filter on, loses it
#   too.
# Why it matters: Data that a user filters before a coreset is selected has another number of
#   rows, and other row numbers, after the file has been written again with other row groups.
set -eu
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
"${PYTHON:-python3}" -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check pyarrow==26.0.1 'dask[dataframe]==2026.8.0' pandas==3.1.1 numpy==2.4.6
venv/bin/python - <<'END'
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

x = np.r_[np.ones(500), np.linspace(2, 3, 500)]
x[10] = np.nan
kept = {}
for size in (1_000, 500, 100):
    pq.write_table(pa.table({"x": x}), "x.parquet", row_group_size=size)
    by_arrow = pq.read_table("x.parquet", filters=[("x", "!=", 1.0)]).num_rows
    by_dask = len(dd.read_parquet("x.parquet", filters=[("x", "!=", 1.0)]).compute())
    in_memory = int((pd.read_parquet("x.parquet")["x"] != 1.0).sum())
    kept[size] = by_arrow, by_dask, in_memory
    print(f"row groups of {size:5,}: pyarrow {by_arrow}, dask {by_dask}, pandas in memory {in_memory}")
assert kept == {1_000: (501, 501, 501), 500: (500, 500, 501), 100: (500, 500, 501)}
END
