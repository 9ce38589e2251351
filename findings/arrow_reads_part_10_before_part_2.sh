#!/bin/sh
# A folder that Arrow itself wrote is read back in another order of rows.
#
# Versions: pyarrow 26.0.1, dask 2026.8.0, pandas 3.1.1, numpy 2.4.6.
# Guess: What `write_dataset` writes, `dataset`, `read_table` and pandas read back in the order
#   written, and dask in the order of pandas.
# What happens: Arrow names its files part-0 to part-11 without leading zeros and reads them by
#   the alphabet: 0, 1, 10, 11, 2. dask sorts by number and gives the order written. The same
#   folder has two orders of rows, neither with an error.
# Why it matters: Weights of a coreset belong to numbers of rows. Rows numbered by one reader
#   and taken by the other get weights of strangers.
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
import pyarrow.dataset as ds
import pyarrow.parquet as pq

written = np.arange(1_200)
ds.write_dataset(pa.table({"row": written}), "rows", format="parquet",
                 max_rows_per_file=100, max_rows_per_group=100)
read = {
    "pyarrow.dataset": ds.dataset("rows").to_table()["row"].to_numpy(),
    "pyarrow.parquet": pq.read_table("rows")["row"].to_numpy(),
    "pandas": pd.read_parquet("rows")["row"].to_numpy(),
    "dask": dd.read_parquet("rows").compute()["row"].to_numpy(),
}
for name, rows in read.items():
    print(f"{name:16} first rows of its blocks: {(rows[::100] // 100).tolist()}")
    assert sorted(rows) == written.tolist()
assert (read.pop("dask") == written).all()
for rows in read.values():
    assert (rows[::100] // 100).tolist() == [0, 1, 10, 11, 2, 3, 4, 5, 6, 7, 8, 9]
END
