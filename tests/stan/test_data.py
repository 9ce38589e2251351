"""Reading, writing and hashing data, and the messages for what cannot be used."""

from __future__ import annotations

import builtins
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from stancoreset.errors import DataError
from stancoreset.stan.data.files import data_hash, json_text, read_data, to_json


@pytest.fixture
def without_orjson(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "orjson":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)


# --- kinds of values ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "dtype", "shape"),
    [
        (np.int32(3), int, ()),
        (np.float32(0.5), float, ()),
        (True, int, ()),
        (np.array(4), int, ()),
        ([1, 2, 3], np.int64, (3,)),
        ([1, 2.5], np.float64, (2,)),
        ([True, False], np.int64, (2,)),
        (np.array([1, 2], dtype=np.uint8), np.int64, (2,)),
        (np.array([[1, 2]], dtype=np.float32), np.float64, (1, 2)),
        (pd.Series([1.0, 2.0]), np.float64, (2,)),
        (pd.Series([1, 2], dtype="Int64"), np.int64, (2,)),
        (pd.Series([True, False], dtype="boolean"), np.int64, (2,)),
        (pd.DataFrame({"a": [1, 2], "b": [0.5, 1.5]}), np.float64, (2, 2)),
        (pd.DataFrame({"a": [True, False], "b": [0.5, 1.5]}), np.float64, (2, 2)),
        ([[1, 2], [3, 4]], np.int64, (2, 2)),
        ([], np.float64, (0,)),
    ],
)
def test_values_become_plain_numbers_and_arrays(value: Any, dtype: Any, shape: Any) -> None:
    result = read_data({"x": value})["x"]
    assert np.shape(result) == shape
    assert type(result) is dtype if shape == () else result.dtype == dtype
    np.testing.assert_array_equal(np.asarray(result, dtype=float), np.asarray(value, dtype=float))


def test_arrays_of_the_right_type_are_not_copied_and_never_changed() -> None:
    x, i, flags = np.ones((4, 2)), np.arange(4), np.array([True, False])
    data = {"x": x, "i": i, "flags": flags}
    result = read_data(data)
    assert result["x"] is x
    assert result["i"] is i
    assert flags.dtype == bool
    assert data["flags"] is flags


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.array([1.0, np.nan, 2.0]), r"'x' has nan at \[1\] .*1 of 3"),
        (np.array([[1.0, 2.0], [np.inf, 2.0]]), r"'x' has inf at \[1, 0\]"),
        (-np.inf, "'x' is -inf"),
        ([[1, 2], [3]], r"'x' is ragged: element 0 has shape \(2,\), element 1 has shape \(1,\)"),
        ([[[1], [2, 3]], [[1]]], "'x' is ragged within element 0"),
        (np.array([1, "a"], dtype=object), r"'x' holds 'a' \(str\) at \[1\]"),
        (["a", "b"], r"'x' holds 'a' .*number its categories"),
        (["1", "a", "2"], r"'x' holds 'a' \(str\) at \[1\] .*beside numbers; .*remove its row"),
        (["1", "2"], r"'x' holds '1' .*; expected numbers without quotes"),
        ([1, 10**25], r"'x' holds 1000.*at \[1\] .*beyond 64 bits; expected a real number"),
        ([1, None], r"'x' holds None .*remove or impute this row"),
        (None, "'x' holds None"),
        ({"a": 1}, "'x' holds {'a': 1}"),
        (np.array([1j]), "complex"),
        (np.array(["2020-01-01"], dtype="datetime64[D]"), "dates"),
        (np.array([2**63], dtype=np.uint64), "9223372036854775808"),
        (pd.Series([1, None], dtype="Int64"), r"'x' has nan at \[1\]"),
        (pd.Series([[1.0], [1.0, 2.0]]), r"'x' is ragged: row 0 has shape \(1,\), row 1"),
    ],
)
def test_unusable_values_are_named(value: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_data({"x": value})


def test_huge_finite_values_are_finite() -> None:
    huge = np.array([1.7e308, 1.7e308])
    assert read_data({"x": huge})["x"] is huge


def test_only_the_names_of_interest_are_looked_at() -> None:
    assert read_data({"x": 1, "note": "text"}, only=["x", "y"]) == {"x": 1}


# --- files -------------------------------------------------------------------------------


def test_json_file(tmp_path: Path) -> None:
    path = tmp_path / "data.json"
    path.write_text('{"N": 2, "x": [[1, 2], [3, 4.5]], "y": [1, 0]}')
    data = read_data(path)
    assert data["N"] == 2
    assert data["y"].dtype == np.int64
    np.testing.assert_array_equal(data["x"], [[1, 2], [3, 4.5]])


@pytest.mark.usefixtures("without_orjson")
def test_json_file_without_orjson(tmp_path: Path) -> None:
    test_json_file(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"y": ["a, 2]}', "Unterminated string starting at line 1, column 8; expected {"),
        ('{"N": 2,\n "y": [1, 0', r"data.json is not JSON: .* at line 2, column \d+"),
        ("", "is empty; expected {"),
        ('{"y": [1, 0], "N": 2, }', "at line 1, column 23; .*correct it there, or write it again"),
        ('{"N": 2,\n "y": [1, 0', "expected } at its end: the file seems to be cut off"),
        ("[1, 2]", "holds a JSON list; expected an object"),
        ('{"y": [1, NaN]}', r"'y' has nan at \[1\]"),
        ('{"y": [1, "NaN"]}', r"'y' holds 'NaN' \(str\) at \[1\]"),
        ('{"y": [1, null]}', r"'y' holds None \(NoneType\) at \[1\]"),
    ],
)
def test_bad_json(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "data.json"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        read_data(path)


def test_binary_rubbish_is_not_json(tmp_path: Path) -> None:
    path = tmp_path / "data.bin"
    path.write_bytes(b"\xff\xfe\x00\x81")
    with pytest.raises(DataError, match="not JSON"):
        read_data(path)


def test_no_such_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no such data file: .*nowhere\.json"):
        read_data(tmp_path / "nowhere.json")
    with pytest.raises(DataError, match="is a folder"):
        read_data(tmp_path)
    (tmp_path / "x.tsv").write_text("y\n1\n")
    with pytest.raises(DataError, match=r"is not JSON: .*; expected \.csv, \.feather, "):
        read_data(tmp_path / "x.tsv")
    with pytest.raises(DataError, match="the data are a int"):
        read_data(3)


def test_npz(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    np.savez(path, N=3, y=np.array([0, 1, 1]))
    data = read_data(str(path))
    assert data["N"] == 3
    np.testing.assert_array_equal(data["y"], [0, 1, 1])
    np.savez(path, y=np.array([1, "a"], dtype=object))
    with pytest.raises(DataError, match="npz archive of numeric arrays"):
        read_data(path)
    path.write_bytes(b"not a zip file")
    with pytest.raises(DataError, match="npz archive of numeric arrays"):
        read_data(path)


def test_tables(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "y": [1, 0, 1],
            "X.1": [1.0, 2.0, 3.0],
            "X.2": [4, 5, 6],
            "Z[2]": [0.5, 0.5, 0.5],
            "Z[1]": [1.5, 1.5, 1.5],
            "name": ["a", "b", "c"],
        }
    )
    frame["L"] = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    path = tmp_path / "table.parquet"
    frame.to_parquet(path)
    for source in (frame, path):
        data = read_data(source, only=["X", "Z", "L", "y"])
        np.testing.assert_array_equal(data["X"], [[1, 4], [2, 5], [3, 6]])
        np.testing.assert_array_equal(data["Z"], [[1.5, 0.5]] * 3)
        np.testing.assert_array_equal(data["L"], [[1, 2], [3, 4], [5, 6]])
        np.testing.assert_array_equal(data["y"], [1, 0, 1])
        with pytest.raises(DataError, match=r"'name' holds 'a' .*expected numbers: .*--columns"):
            read_data(source)
    csv = tmp_path / "table.csv"
    frame[["y", "X.1", "X.2"]].to_csv(csv, index=False)
    assert set(read_data(csv)) == {"y", "X"}


def test_table_with_a_gap_or_unreadable(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no X\.2; expected X\.1 … X\.D without gaps"):
        read_data(pd.DataFrame({"X.1": [1.0], "X.3": [1.0]}))
    path = tmp_path / "x.parquet"
    path.write_bytes(b"rubbish")
    with pytest.raises(DataError, match="cannot be read as a table"):
        read_data(path)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["X.1", "X.2", "X.2", "y"], r"several columns for 'X': 'X.1', 'X.2', 'X.2'"),
        (["X.1", "X[1]", "X.2", "y"], r"several columns for 'X': 'X.1', 'X\[1\]'"),
        (["X", "X.1", "X.2", "y"], r"several columns for 'X': 'X', 'X.1', 'X.2'"),
        (["X.1", "X.2", "y", "y"], r"several columns for 'y': 'y', 'y'"),
        (["X.2", "X.3", "X.4", "y"], r"no X\.1; expected X\.1 … X\.D without gaps"),
    ],
)
def test_a_variable_that_its_columns_do_not_make_clear(columns: list[str], message: str) -> None:
    frame = pd.DataFrame(np.arange(8.0).reshape(2, 4), columns=columns)
    with pytest.raises(DataError, match=message):
        read_data(frame)
    assert read_data(frame.assign(z=1.0), only=["z"])["z"].tolist() == [1.0, 1.0]


def test_csv_columns_of_the_same_name(tmp_path: Path) -> None:
    """pandas calls the second y.1, and X,X,X would lose its first column in silence."""
    path = tmp_path / "twice.csv"
    path.write_text("X,X,X,y\n1,2,3,4\n5,6,7,8\n")
    with pytest.raises(DataError, match="several columns for 'X': 'X', 'X', 'X'"):
        read_data(path)


def test_masked_values_are_missing_values() -> None:
    masked = np.ma.masked_array([1.0, 2.0, 3.0], [False, True, False])
    with pytest.raises(DataError, match=r"'y' has 1 masked values, the first at \[1\]"):
        read_data({"y": masked})
    assert read_data({"y": np.ma.masked_array([1, 2])})["y"].tolist() == [1, 2]


def test_messages_do_not_print_all_the_data() -> None:
    with pytest.raises(DataError, match=r"'y' holds \{.*\.\.\.\} \(set\)") as error:
        read_data({"y": set(range(100_000))})
    assert len(str(error.value)) < 500


def test_frames_that_speak_arrow() -> None:
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"y": [1.0, 2.0], "X.1": [1, 2], "X.2": [3, 4]})

    class Frame:  # as polars' is
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return table.__arrow_c_stream__(requested_schema)

    for source in (table, Frame()):
        found = read_data(source)
        assert found["y"].tolist() == [1.0, 2.0]
        assert found["X"].tolist() == [[1, 3], [2, 4]]


def test_later_sources_win(tmp_path: Path) -> None:
    frame = pd.DataFrame({"y": [1.0, 2.0]})
    data = read_data([frame, {"scale": 2.5}, {"scale": 3.5}])
    assert data["scale"] == 3.5
    assert data["y"].shape == (2,)


# --- writing and hashing -----------------------------------------------------------------

doubles = hnp.arrays(
    np.float64,
    hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4),
    elements=st.floats(allow_nan=False, allow_infinity=False),
)


@given(doubles)
def test_json_round_trip_is_exact(x: np.ndarray) -> None:
    back = np.array(json.loads(json_text({"x": x}))["x"], dtype=float).reshape(x.shape)
    assert back.tobytes() == x.tobytes()


def test_json_of_scalars_strides_and_integers(tmp_path: Path) -> None:
    x = np.arange(12.0).reshape(3, 4)
    data = {"N": 3, "s": 0.1, "x": x, "t": x.T, "f": np.asfortranarray(x)[::2], "i": np.arange(3)}
    parsed = json.loads(json_text(data))
    assert parsed == {
        "N": 3, "s": 0.1, "x": x.tolist(), "t": x.T.tolist(), "f": x[::2].tolist(), "i": [0, 1, 2],
    }  # fmt: skip
    assert '"i":[0,1,2]' in json_text(data)  # Stan refuses 0.0 for an int
    path = to_json(data, tmp_path / "out.json")
    assert json.loads(path.read_text()) == parsed
    assert list(tmp_path.iterdir()) == [path]
    assert json_text({}) == "{}"
    assert json.loads(to_json({}, path).read_text()) == {}


@pytest.mark.usefixtures("without_orjson")
def test_json_without_orjson(tmp_path: Path) -> None:
    test_json_of_scalars_strides_and_integers(tmp_path)


def test_failed_write_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="'y' has nan"):
        to_json({"x": 1, "y": np.array([np.nan])}, tmp_path / "out.json")
    assert list(tmp_path.iterdir()) == []


def test_hash_sees_content_and_nothing_else() -> None:
    x = np.random.default_rng(0).normal(size=(500, 7))
    base = data_hash({"x": x, "N": 3})
    assert data_hash({"N": np.int32(3), "x": np.asfortranarray(x)}) == base
    assert data_hash({"N": 3, "x": x.tolist()}) == base
    changed = x.copy()
    changed[499, 6] = np.nextafter(changed[499, 6], 9)
    for other in (
        {"x": changed, "N": 3},
        {"x": x, "N": 4},
        {"z": x, "N": 3},
        {"x": x.reshape(7, 500), "N": 3},
        {"x": x},
    ):
        assert data_hash(other) != base


def test_hash_of_a_strided_array_in_blocks() -> None:
    x = np.random.default_rng(0).normal(size=(3, 800_000)).T
    assert data_hash({"x": x}) == data_hash({"x": np.ascontiguousarray(x)})


def test_a_table_without_a_line_of_names_says_so(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("0.5,1,a\n0.7,0,b\n")
    with pytest.raises(DataError, match=r"first line .*holds numbers: 0\.5, 1, a; .*names"):
        read_data(path)


def test_a_table_with_a_cell_too_many_says_where(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("x,y\n1,2\n1,2,3\n")
    with pytest.raises(DataError, match=r"rows\.csv cannot .*line 3.*correct it there, or write"):
        read_data(path)
