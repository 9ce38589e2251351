"""Rows that stay on disk give what rows in memory give, and bad tables a clear error each."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from agreement import CERTIFIED, assert_agree, of_draws
from seeds import reseeded

import stancoreset as sc
from stancoreset.errors import DataError, OptionError, OutputError
from stancoreset.program.adopt import adopt
from stancoreset.progress import Stages
from stancoreset.rows.full_data import FullData
from stancoreset.rows.glm import find_glm
from stancoreset.rows.tables import LoadedRows, StoredRows, Table, table_from_file
from stancoreset.rows.tables.scan import Seen
from stancoreset.stan import StanProgram, WeightedProgram, weighted_program

N, D = 12_000, 3
NAMES = ["a", "b", "c"]
SCALES = {"alpha_scale": 5.0, "beta_scale": 2.5}
COLUMNS = {"X": NAMES, "y": "late"}
CHAINS = {"chains": 2, "iter_sampling": 2_000}


def program() -> WeightedProgram:
    return weighted_program(StanProgram.from_file(sc.stan_model_path("logistic")))


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, D))
    y = rng.random(N) < 1 / (1 + np.exp(-(x @ [1.0, -0.5, 0.2] - 0.4)))
    return pd.DataFrame({**dict(zip(NAMES, x.T, strict=True)), "late": y.astype(int)})


@pytest.fixture(scope="module")
def data(frame: pd.DataFrame) -> dict[str, Any]:
    return {"X": frame[NAMES].to_numpy(), "y": frame["late"].to_numpy(), **SCALES}


@pytest.fixture(scope="module")
def folder(frame: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three Parquet files of unequal length, with several row groups each."""
    path = tmp_path_factory.mktemp("rows")
    for i, part in enumerate((frame[:5_000], frame[5_000:6_000], frame[6_000:])):
        part.to_parquet(path / f"part-{i}.parquet", row_group_size=700, index=False)
    return path


def table(rows: Any, **options: Any) -> Table:
    given = {"columns": COLUMNS, "values": SCALES, "memory": 0, "chunk_rows": 1_300, **options}
    return Table(rows, **given)


def opened(rows: Any, **options: Any) -> StoredRows:
    stored = table(rows, **options).open_for(program())
    assert isinstance(stored, StoredRows)
    return stored


def sources(frame: pd.DataFrame, folder: Path) -> dict[str, Any]:
    import pyarrow as pa
    import pyarrow.dataset as ds
    import pyarrow.feather

    others = folder.with_name("others")
    others.mkdir(exist_ok=True)
    for name in frame:
        np.save(others / f"{name}.npy", frame[name].to_numpy())
    pyarrow.feather.write_feather(frame, others / "rows.feather")
    files = sorted(folder.glob("*.parquet"))
    return {
        "folder": folder,
        "glob": str(folder / "part-*.parquet"),
        "files": files,
        "dataset": ds.dataset([str(f) for f in files]),
        "arrow": pa.Table.from_pandas(frame, preserve_index=False),
        "feather": others / "rows.feather",
        "frame": frame,
        "maps": {name: np.load(others / f"{name}.npy", mmap_mode="r") for name in frame},
        "npy": {name: str(others / f"{name}.npy") for name in frame},
        "chunks": lambda: (frame.iloc[i : i + 999] for i in range(0, N, 999)),
        "list of chunks": [frame.iloc[:7_000], pa.Table.from_pandas(frame.iloc[7_000:])],
    }


KINDS = [
    "folder", "glob", "files", "dataset", "arrow", "feather", "frame", "maps", "npy", "chunks",
    "list of chunks",
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_source_holds_the_same_rows(kind, frame, folder):
    stored = opened(sources(frame, folder)[kind])
    assert stored.n_obs == N
    assert (stored["N"], stored["D"], stored["beta_scale"]) == (N, D, 2.5)
    chunks = list(stored.chunks())
    np.testing.assert_array_equal(np.concatenate([c["X"] for c in chunks]), frame[NAMES])
    np.testing.assert_array_equal(np.concatenate([c["y"] for c in chunks]), frame["late"])
    assert stored.reads == 2
    rows = np.array([11_999, 0, 5_000, 5_000, 4_999])
    taken = stored.take(rows)
    np.testing.assert_array_equal(taken["X"], frame[NAMES].to_numpy()[rows])
    assert taken["y"].dtype == np.int64


def test_a_folder_that_arrow_wrote_has_the_order_in_which_arrow_reads_it(tmp_path, frame):
    """Part 10 stands before part 2; see findings/arrow_reads_part_10_before_part_2.sh."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    rows = pa.Table.from_pandas(frame, preserve_index=False)
    ds.write_dataset(rows, tmp_path, format="parquet", max_rows_per_file=1_000,
                     max_rows_per_group=1_000)  # fmt: skip
    read = ds.dataset(tmp_path).to_table().to_pandas()
    assert not np.array_equal(read["late"], frame["late"])
    ours = opened(tmp_path).take(np.arange(N))
    np.testing.assert_array_equal(ours["X"], read[NAMES])


def test_sample_is_random_rows_whatever_the_chunks(folder, frame):
    small, large = (
        opened(folder / "part-0.parquet"),
        opened(folder / "part-0.parquet", chunk_rows=9),
    )
    assert small.fingerprint() == large.fingerprint()
    np.testing.assert_array_equal(small.sample["X"], large.sample["X"])
    np.testing.assert_array_equal(small.sample["X"], frame[NAMES].to_numpy()[small.sample_rows])


@pytest.mark.slow
def test_reservoir_keeps_every_row_equally_often():
    from stancoreset.rows.tables.columns import RowVariable
    from stancoreset.rows.tables.files import find_parts
    from stancoreset.rows.tables.scan import Reader, merge_samples, survey_part

    reader = Reader((RowVariable("x", ("x",), False, True),), 7)
    parts = [find_parts({"x": x})[0] for x in (np.arange(30), np.arange(30, 40))]
    counts = np.zeros(40)
    for seed in range(2_000):
        surveys = [survey_part(reader, p, i, seed, 10) for i, p in enumerate(parts)]
        numbers, rows = merge_samples(surveys, 10)
        np.testing.assert_array_equal(rows["x"], numbers)
        counts[numbers] += 1
    # Each row is kept with probability 1/4: binomial standard deviation 19.4.
    assert np.max(np.abs(counts - 500)) < 5 * 19.4


def test_rows_taken_once_are_not_read_again(folder, monkeypatch):
    monkeypatch.setitem(Table.open_parts.__kwdefaults__, "sample_rows", (10, 50))
    stored = opened(folder)
    rows = np.arange(0, N, 400)
    first = stored.take(rows)
    reads = stored.reads
    again = stored.take(rows[::-1])
    np.testing.assert_array_equal(first["X"], again["X"][::-1])
    assert (reads, stored.reads) == (2, 2)


@pytest.mark.parametrize("threads", [1, 3])
def test_sums_over_chunks_equal_sums_in_memory(threads, folder, data):
    model = sc.CoresetModel(sc.stan_model_path("logistic"), engine="stanli")
    compiled = model.engine.compile(model.program.density_code)
    stored = table(folder, threads=threads).open_for(model.program)
    memory = model.read(data)
    draws = np.random.default_rng(1).normal(size=(7, D + 1)) * 0.3
    with (
        FullData(compiled, model.program, stored, in_process=True) as disk,
        FullData(compiled, model.program, memory, in_process=True) as full,
    ):
        np.testing.assert_allclose(
            disk.log_likelihood(draws), full.log_likelihood(draws), rtol=1e-12
        )
        value, gradient = disk.log_density_gradient(draws)
        expected, slope = full.log_density_gradient(draws)
        np.testing.assert_allclose(value, expected, rtol=1e-12)
        np.testing.assert_allclose(gradient, slope, rtol=1e-9, atol=1e-9)
        told: list[int] = []
        disk.log_likelihood(draws, told.append)
        assert sum(told) == len(draws)
        assert disk.passes.as_dict() == {"densities": 14, "gradients": 7, "cost": 21, "reads": 4}


def test_rows_in_the_variables_of_a_glm_are_those_in_memory(folder, data):
    model = sc.CoresetModel(sc.stan_model_path("logistic"), engine="stanli")
    memory, compiled = model.read(data), model._session.density()
    glm = find_glm(model.program, compiled, model._session.with_log_lik(), memory)
    stored, some = table(folder).open_for(model.program), np.array([5_500, 2])
    with (
        FullData(compiled, model.program, stored, in_process=True, glm=glm) as disk,
        FullData(compiled, model.program, memory, in_process=True, glm=glm) as full,
    ):
        for name in ("y", "weights"):
            for _ in range(2):  # they are read again
                one, two = (
                    np.concatenate([getattr(chunk, name) for chunk in each.glm_rows()])
                    for each in (disk, full)
                )
                np.testing.assert_array_equal(one, two)
        assert len(list(disk.glm_rows())) > len(list(full.glm_rows()))
        here, there = disk.glm_pool(some), full.glm_pool(some)
        np.testing.assert_array_equal(here.z.dense, there.z.dense)
        np.testing.assert_array_equal(here.weights, there.weights)


@pytest.fixture(scope="module")
def fit(folder, tmp_path_factory):
    model = sc.CoresetModel(sc.stan_model_path("logistic"), engine="stanli")
    out = tmp_path_factory.mktemp("out") / "fit"
    return model.fit(table(folder), size=40, seed=reseeded(1), output_dir=out, **CHAINS), out, model


@pytest.mark.fit
def test_fit_of_rows_on_disk_is_certified_with_few_reads(fit, folder):
    result, _, model = fit
    assert result.certificate.verdict == "certified"
    assert result.passes["reads"] <= 14
    assert result.coreset.n_obs == N
    assert model.certify(table(folder), result.coreset, result.posterior).verdict == "certified"


@pytest.mark.fit
def test_rows_on_disk_are_selected_without_draws_on_request(fit, folder):
    found = fit[2].fit(
        table(folder), size=40, seed=reseeded(1), projection="hermite", max_rounds=1, **CHAINS
    )
    assert found.certificate.verdict == "certified"
    share = found.certificate.ess / found.certificate.n_draws
    assert share == pytest.approx(found.coreset.predicted_ess, abs=0.01)


@pytest.mark.fit
def test_methods_with_the_model_in_the_loop(fit, folder):
    found = fit[2].fit(
        table(folder), size=100, seed=reseeded(1), chains=2, method="quasi_newton", subsample=2_000
    )
    assert found.certificate.verdict == "certified"
    # Another fit of the same rows begins to count anew.
    assert found.passes["reads"] < 2 * fit[0].passes["reads"]


@pytest.mark.fit
def test_fit_agrees_with_the_fit_of_rows_in_memory(fit, data):
    memory, disk = fit[2].fit(data, size=40, seed=reseeded(1), **CHAINS), fit[0]
    one, two = memory.reference.gaussian, disk.reference.gaussian
    np.testing.assert_allclose((one.mean - two.mean) / one.sd, 0, atol=0.05)
    np.testing.assert_allclose(one.sd, two.sd, rtol=0.01)
    assert_agree(of_draws(memory.posterior), of_draws(disk.posterior), within=CERTIFIED)


@pytest.mark.fit
def test_fit_keeps_the_rows_of_the_coreset(fit, data):
    result, out, _ = fit
    expected = data["X"][result.coreset.indices]
    for kept in (result.data, sc.load_fit(out).data):
        np.testing.assert_array_equal(kept["X"], expected)
        np.testing.assert_array_equal(kept["weights"], result.coreset.weights)
        assert kept["N"] == result.coreset.size
    assert "the rows were read" in (out / "report.md").read_text()


def test_small_tables_are_loaded(folder, data):
    loaded = Table(folder, columns=COLUMNS, values=SCALES).open_for(program())
    assert isinstance(loaded, LoadedRows)
    np.testing.assert_array_equal(loaded["X"], data["X"])
    model = sc.CoresetModel(sc.stan_model_path("logistic"), engine="stanli")
    read = model.read(Table(folder, columns=COLUMNS, values=SCALES))
    assert read["N"] == N
    assert "part-0.parquet" in read.describe()["data"]


def test_rows_on_disk_are_not_handed_out_whole(folder):
    stored = opened(folder)
    with pytest.raises(DataError, match=r"12000 rows of 'X' are not in memory"):
        stored["X"]
    model = sc.CoresetModel(sc.stan_model_path("logistic"), engine="stanli")
    with pytest.raises(DataError, match=r"NUTS on all 12000 rows needs them in memory"):
        model.sample(table(folder))


# --- categories, weights, axes -----------------------------------------------------------

GROUPS = """
data { int N; int J; array[N] int<lower=1, upper=J> g; vector[N] x; vector[N] y; }
parameters { vector[J] a; real b; real<lower=0> s; }
model { a ~ normal(0, 1); b ~ normal(0, 1); s ~ normal(0, 1);
  for (n in 1:N) y[n] ~ normal(a[g[n]] + b * x[n], s); }
"""


def group_frame() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    g = rng.choice(["EWR", "JFK", "LGA"], 6_000)
    x = rng.normal(size=6_000)
    return pd.DataFrame({"airport": g, "x": x, "y": x + (g == "JFK") + rng.normal(size=6_000)})


@pytest.mark.parametrize("dtype", ["object", "category", "string"])
def test_categories_become_codes_with_a_recorded_dictionary(dtype):
    frame = group_frame().astype({"airport": dtype})
    woven = adopt(StanProgram.from_code(GROUPS)).weighted
    stored = Table(
        frame, columns={"g": "airport"}, counts={"J": "airport"}, memory=0, chunk_rows=500
    ).open_for(woven)
    assert isinstance(stored, StoredRows)
    assert stored["J"] == 3
    assert stored.describe()["levels"] == {"g": ["EWR", "JFK", "LGA"]}
    codes = np.concatenate([c["g"] for c in stored.chunks()])
    np.testing.assert_array_equal(codes, pd.Categorical(frame["airport"]).codes + 1)


@pytest.mark.fit
def test_levels_are_in_the_report_and_fix_the_codes(tmp_path):
    frame = group_frame()
    frame.to_parquet(tmp_path / "rows.parquet")
    given = {"airport": ["LGA", "EWR", "JFK"]}
    rows = Table(
        tmp_path / "rows.parquet", columns={"g": "airport"}, levels=given, counts={"J": "airport"},
        memory=0, chunk_rows=2_000,
    )  # fmt: skip
    model = sc.CoresetModel(stan_code=GROUPS, engine="stanli")
    fit = model.fit(rows, size=60, seed=reseeded(1), chains=2)
    assert fit.report()["provenance"]["levels"] == {"g": ["LGA", "EWR", "JFK"]}
    assert fit.certificate.verdict == "certified"
    codes = fit.data["g"]
    names = frame["airport"].to_numpy()[fit.coreset.indices]
    assert [given["airport"][c - 1] for c in codes] == list(names)


@pytest.mark.fit
@pytest.mark.parametrize("reference", ["pathfinder", "pilot"])
def test_other_references_read_rows_on_disk_too(reference, folder):
    model = sc.CoresetModel(sc.stan_model_path("logistic"), engine="stanli")
    found = model.reference(table(folder, chunk_rows=5_000), reference, draws=50, seed=reseeded(1))
    assert found.draws.shape == (50, D + 1)


def test_weights_are_a_column(frame):
    rng = np.random.default_rng(5)
    weighted = frame.assign(count=rng.integers(1, 4, N))
    model = sc.CoresetModel(sc.stan_model_path("logistic"), engine="stanli")
    compiled = model.engine.compile(model.program.density_code)
    stored = opened(weighted, columns={**COLUMNS, "weights": "count"})
    memory = model.read(
        {
            "X": frame[NAMES].to_numpy(),
            "y": frame["late"],
            "weights": weighted["count"],
            **SCALES,
        }
    )
    draws = rng.normal(size=(3, D + 1))
    with (
        FullData(compiled, model.program, stored, in_process=True) as disk,
        FullData(compiled, model.program, memory, in_process=True) as full,
    ):
        np.testing.assert_allclose(disk.log_density(draws), full.log_density(draws), rtol=1e-12)
        with disk.subsample(N, rng) as a, full.subsample(N, rng) as b:
            np.testing.assert_allclose(a.log_density(draws), b.log_density(draws), rtol=1e-12)
        rows, counts = np.array([7, 0, 11_999]), weighted["count"].to_numpy()
        for each in (disk, full):
            np.testing.assert_array_equal(each.weights_at(rows), counts[rows])
            np.testing.assert_array_equal(each.weights_of(rows), counts[rows])
        assert full.total_weight == counts.sum()
        assert disk.total_weight == pytest.approx(counts.sum(), rel=0.05)  # of the sample


def test_rows_on_the_second_axis(frame):
    code = """
    data { int N; int D; matrix[D, N] Z; array[N] int y; }
    parameters { vector[D] b; } model { b ~ normal(0, 1);
      for (n in 1:N) y[n] ~ bernoulli_logit(dot_product(b, Z[ : , n])); }
    """
    woven = adopt(StanProgram.from_code(code)).weighted
    if woven.rows["Z"] != 1:
        pytest.fail("Z carries observations on its second axis")
    stored = Table(frame, columns={"Z": NAMES, "y": "late"}, memory=0).open_for(woven)
    assert stored.sample["Z"].shape == (D, N)
    assert woven.subset(stored, [1, 2])["Z"].shape == (D, 2)


def test_columns_by_name_and_lists(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    x = np.random.default_rng(0).normal(size=(2_000, D))
    y = np.arange(2_000) % 2
    pq.write_table(pa.table({"X": list(x), "y": y}), tmp_path / "lists.parquet")
    pd.DataFrame({**{f"X.{j + 1}": x[:, j] for j in range(D)}, "y": y}).to_parquet(
        tmp_path / "named.parquet"
    )
    for name in ("lists", "named"):
        stored = Table(tmp_path / f"{name}.parquet", values=SCALES, memory=0).open_for(program())
        np.testing.assert_array_equal(np.concatenate([c["X"] for c in stored.chunks()]), x)


def test_frozen_variables_need_the_rows_in_memory(frame):
    code = """
    data { int N; vector[N] a; array[N] int late; }
    transformed data { vector[N] centred = a - mean(a); }
    parameters { real b; } model { b ~ normal(0, 1); late ~ bernoulli_logit(centred * b); }
    """
    model = sc.CoresetModel(stan_code=code, engine="stanli")
    with pytest.raises(DataError, match="computes centred from all rows"):
        model.read(Table(frame, memory=0))
    read = model.read(Table(frame))
    np.testing.assert_allclose(read["centred"], frame["a"] - frame["a"].mean())


# --- bad input ---------------------------------------------------------------------------


def written(tmp_path: Path, *frames: pd.DataFrame) -> Path:
    for i, f in enumerate(frames):
        f.to_parquet(tmp_path / f"{i}.parquet", index=False)
    return tmp_path


def test_schema_that_differs(tmp_path, frame):
    text = frame.iloc[:100].astype({"b": str})
    with pytest.raises(DataError, match=r"'b' is double in .*0.parquet and .* in .*1.parquet"):
        opened(written(tmp_path, frame, text))


def test_missing_columns(tmp_path, frame):
    with pytest.raises(DataError, match=r"1.parquet has no column 'c'; it has 'a', 'b', 'late'"):
        opened(written(tmp_path, frame, frame.drop(columns="c")))
    with pytest.raises(DataError, match=r"no column 'Late'; did you mean 'late'\?"):
        opened(frame, columns={"X": NAMES, "y": "Late"})


def test_a_column_of_lists_is_a_matrix_by_itself(frame):
    lists = frame.assign(b=[[1.0, 2.0]] * len(frame))
    with pytest.raises(DataError, match=r"column 'b' holds lists, expected a number in each row"):
        opened(lists, columns={"X": NAMES, "y": "late"})


def test_unknown_variable(frame):
    with pytest.raises(DataError, match=r"columns name 'Z', which is not a data variable .* X, y"):
        opened(frame, columns={**COLUMNS, "Z": "a"})


def test_nulls_name_column_and_row(tmp_path, frame):
    holes = frame.copy()
    holes.loc[[4_321, 4_400], "b"] = np.nan
    with pytest.raises(DataError, match=r"'b' has 2 missing values .* row 4321"):
        opened(written(tmp_path, holes))
    with pytest.raises(DataError, match=r"'b' has 2 missing values .* row 4321"):
        opened(holes)
    with pytest.raises(DataError, match=r"'b' has nan in row 4321 .*2 values"):
        opened({name: holes[name].to_numpy() for name in holes})
    infinite = frame.assign(a=frame["a"].where(frame.index != 77, np.inf))
    with pytest.raises(DataError, match=r"'a' has inf in row 77"):
        opened(infinite)


def test_empty_part(tmp_path, frame):
    with pytest.raises(DataError, match=r"1.parquet has no rows"):
        opened(written(tmp_path, frame, frame.iloc[:0]))
    with pytest.raises(DataError, match="no rows"):
        opened(lambda: iter(()))


def test_text_where_a_number_is_wanted(frame):
    with pytest.raises(DataError, match=r"'b' is of type .*, for example '.*'; expected numbers"):
        opened(frame.assign(b="high"))


def test_fractions_where_integers_are_wanted(frame):
    with pytest.raises(DataError, match=r"'late' has 0.5 in row 3 .*declared as int"):
        opened(frame.assign(late=np.where(np.arange(N) == 3, 0.5, 1.0)))


def test_unseen_category():
    woven = adopt(StanProgram.from_code(GROUPS)).weighted
    rows = Table(
        group_frame(), columns={"g": "airport"}, levels={"airport": ["EWR", "JFK"]},
        counts={"J": "airport"}, memory=0,
    )  # fmt: skip
    with pytest.raises(DataError, match=r"category 'LGA' in row \d+ .* 2 known ones: 'EWR', 'JFK'"):
        rows.open_for(woven)


def test_iterators_can_be_read_only_once(frame):
    with pytest.raises(DataError, match="can be read only once"):
        opened(iter([frame]))


def test_files_that_are_not_there_or_damaged(tmp_path):
    with pytest.raises(DataError, match="no such data file"):
        opened(tmp_path / "nothing.parquet")
    with pytest.raises(DataError, match="holds no file"):
        opened(tmp_path)
    (tmp_path / "bad.parquet").write_text("not Parquet")
    with pytest.raises(DataError, match=r"bad\.parquet cannot be read as a table"):
        opened(tmp_path / "bad.parquet")
    with pytest.raises(DataError, match="rows are a int"):
        opened(3)


def test_wrong_count_and_options(frame):
    with pytest.raises(DataError, match="values give N = 5, but there are 12000 rows"):
        opened(frame, values={**SCALES, "N": 5})
    for name, value in {"chunk_rows": 0, "threads": "2", "memory": "1GB"}.items():
        with pytest.raises(OptionError, match=f"{name} is {value!r}, expected a whole number"):
            Table(frame, **{name: value})
    for name in ("columns", "values", "levels", "counts"):
        with pytest.raises(OptionError, match=f"{name} are a list, expected a mapping"):
            Table(frame, **{name: ["y"]})
    with pytest.raises(OptionError, match="columns give 3 for 'y'"):
        Table(frame, columns={"y": 3})
    with pytest.raises(OptionError, match="levels of 'g' have 'b' twice"):
        Table(frame, levels={"g": ["a", "b", "b"]})
    with pytest.raises(OptionError, match="levels of 'g' are 'ab', expected a list"):
        Table(frame, levels={"g": "ab"})


def test_columns_that_are_none(frame):
    arrays = {name: frame[name].to_numpy() for name in frame}
    with pytest.raises(DataError, match=r"'N' = 12000, expected a column .*values="):
        opened({**arrays, "N": 12_000})
    with pytest.raises(DataError, match="'b' has 1 masked values"):
        opened({**arrays, "b": np.ma.masked_array(arrays["b"], np.arange(12_000) == 5)})
    with pytest.raises(DataError, match="more than one column 'b'"):
        opened(pd.concat([frame, frame[["b"]]], axis=1))


def test_rows_of_different_length(frame):
    import pyarrow as pa

    lists = [[1.0, 2.0], [3.0, 4.0, 5.0, 6.0], [7.0, 8.0, 9.0]] * 4_000  # three each on average
    table = pa.table({"X": lists, "y": frame["late"]})
    with pytest.raises(DataError, match="lists of different lengths: 2 in row 0, 4 in row 1"):
        opened(table, columns={})
    x, y = frame[NAMES].to_numpy(), frame["late"].to_numpy()
    chunks = [{"X": x[:6_000], "y": y[:6_000]}, {"X": x[6_000:, :2], "y": y[6_000:]}]
    with pytest.raises(DataError, match="'X' has 2 numbers in a row, and 3 in earlier rows"):
        opened(chunks, columns={})


@pytest.mark.parametrize("memory", [0, 1 << 28])
def test_functions_of_chunks_must_return_the_same_rows(frame, memory):
    def shrinking():
        nonlocal length
        length -= 1_000
        yield from (frame[i : min(i + 1_000, length)] for i in range(0, length, 1_000))

    class Count:
        def evaluate(self, _method, chunk, _draws):
            return (len(chunk["y"]), 1)

    def read(rows):  # twice
        data = table(rows, memory=memory).open_for(program())
        if isinstance(data, StoredRows):
            data.sums(Count(), "log_density", np.zeros((1, 1)))
        return data["N"]

    length = 13_000
    with pytest.raises(DataError, match="11000 rows at the first read, and there are 10000 now"):
        read(shrinking)
    one = iter([frame])
    with pytest.raises(DataError, match=r"has no rows; .* must return a new iterator"):
        read(lambda: one)
    with pytest.raises(DataError, match="function of chunks returned a NoneType"):
        read(lambda: None)
    assert read(lambda: frame) == len(frame)


def test_what_other_tools_leave_in_folders(tmp_path, frame):
    written(tmp_path, frame)
    (tmp_path / "_metadata.parquet").write_bytes(b"x")
    (tmp_path / ".half.parquet").write_bytes(b"x")
    assert opened(tmp_path)["N"] == len(frame)
    frame.assign(k=frame["late"]).to_parquet(tmp_path / "hive", partition_cols=["k"])
    with pytest.raises(DataError, match=r"'k' is in the names of the folders: .*hive"):
        opened(tmp_path / "hive", columns={"X": NAMES, "y": "k"})
    frame.to_csv(tmp_path / "rows.csv")
    assert opened(tmp_path / "rows.csv")["N"] == len(frame)
    chunks = opened(lambda: pd.read_csv(tmp_path / "rows.csv", chunksize=5_000))
    assert chunks["N"] == len(frame)


def test_views_of_texts():
    import pyarrow as pa

    texts = pa.array(["b", "a", "b"] * 5)
    for column in (texts.cast(pa.string_view()), texts.dictionary_encode()):
        data = opened_groups(pa.table({"g": column, "y": [0, 1, 1] * 5}))
        assert list(data["g"]) == [2, 1, 2] * 5


def opened_groups(rows):
    program = StanProgram.from_code(
        "data { int N; int J; array[N] int g; array[N] int y; } parameters { vector[J] a; } "
        "model { a ~ normal(0, 1); y ~ bernoulli_logit(a[g]); }"
    )
    return Table(rows, counts={"J": "g"}).open_for(adopt(program).weighted)


def test_data_that_change_during_the_run(tmp_path, frame, monkeypatch):
    monkeypatch.setitem(Table.open_parts.__kwdefaults__, "sample_rows", (10, 10))
    stored = opened(written(tmp_path, frame))
    frame.iloc[:50].to_parquet(tmp_path / "0.parquet")
    with pytest.raises(DataError, match="the data changed during the run"):
        stored.take(np.array([11_000]))


def test_what_was_read_is_told_by_its_order_and_not_by_its_chunks():
    n = 20_000
    rng = np.random.default_rng(3)
    rows = {"X": rng.normal(size=(n, 3)), "y": rng.integers(0, 2, n), "z": rng.normal(size=n)}
    rows["y"][:4], rows["indicator"] = [0, 1, 1, 0], np.zeros(n)
    rows["indicator"][[17, 300]] = 1.0

    def seen(rows: dict[str, np.ndarray], *cuts: int) -> Seen:
        pieces = itertools.pairwise([0, *cuts, n])
        parts = (Seen.of({k: v[a:b] for k, v in rows.items()}, a) for a, b in pieces)
        return sum(parts, Seen())

    whole = seen(rows)
    assert whole == seen(rows, 1, 300, n - 1) == seen(rows, 450) == seen(rows, *range(7, n, 99))
    others = [{k: v[::-1] for k, v in rows.items()}]

    def moved(name: str, places: object, values: object) -> None:
        other = rows[name].copy()
        other[places] = values
        others.append({**rows, name: other})

    for name, value in rows.items():
        moved(name, 5, value[5] + 1)
        moved(name, 7, -1 - value[7])
        if name != "indicator":
            one, another = np.flatnonzero(np.atleast_2d(value.T)[0] != value.flat[0])[[0, -1]]
            moved(name, [0, one, another], value[[one, 0, another]])
            moved(name, [0, one, another], value[[another, one, 0]])
    moved("y", slice(4), [1, 0, 0, 1])  # of the same sum, and the same centre
    for far in (1, 2_048, 2**14):  # numbers that differ in their upper bits alone
        moved("indicator", [17, 17 + far], [0.0, 1.0])
    others.append({**rows, "X": rows["X"][:, [1, 0, 2]]})
    others.append({**rows, "X": rows["z"][:, None] * [1, 1, 1], "z": rows["X"][:, 0]})
    assert len({whole, *map(seen, others)}) == 1 + len(others)


@pytest.mark.fit
@pytest.mark.parametrize("kind", ["parquet", "feather", "shuffled chunks", "memory map"])
def test_rows_that_change_between_two_reads_of_a_fit(tmp_path, frame, kind):
    """As many as before, of the same types: only their values are others."""
    other = frame.sample(frac=1.0, random_state=1).reset_index(drop=True)
    path = tmp_path / f"rows.{kind}"
    frames = iter([frame, frame] + [other] * 99)
    if kind == "parquet":
        frame.to_parquet(path)
        rows: Any = path
    elif kind == "feather":
        frame.to_feather(path)
        rows = path
    elif kind == "memory map":
        columns = {name: np.array(frame[name]) for name in frame}
        for name, values in columns.items():
            np.save(tmp_path / f"{name}.npy", values)
        rows = {name: tmp_path / f"{name}.npy" for name in columns}
    else:
        rows = lambda: iter([next(frames)])  # noqa: E731

    def change(name: str, _seconds: float) -> None:
        if name != "reference":
            return
        if kind == "parquet":
            other.to_parquet(path)
        elif kind == "feather":
            other.to_feather(path)
        elif kind == "memory map":
            for name in frame:
                values = np.load(tmp_path / f"{name}.npy", mmap_mode="r+")
                values[:] = other[name]
                values.flush()

    with (
        sc.CoresetModel(sc.stan_model_path("logistic"), engine="stanli") as model,
        pytest.raises(DataError, match=r"changed during the run, in .*others now"),
    ):
        model.fit(
            table(rows),
            size=20,
            chains=1,
            iter_warmup=50,
            iter_sampling=100,
            stages=Stages(show_progress=False, on_done=change),
        )


@pytest.mark.parametrize("kind", ["parquet", "feather", "table", "batch", "dataset", "chunks"])
def test_two_columns_of_one_name(tmp_path, kind):
    import pyarrow as pa
    import pyarrow.dataset as ds
    import pyarrow.feather
    import pyarrow.parquet

    columns = [pa.array(np.arange(40.0)), pa.array(np.arange(40.0)[::-1]), pa.array([0, 1] * 20)]
    twice = pa.table(columns, names=["x", "x", "y"])
    if kind == "parquet":
        pyarrow.parquet.write_table(twice, tmp_path / "t.parquet")
    else:
        pyarrow.feather.write_feather(twice, str(tmp_path / "t.feather"))
    rows = {
        "parquet": tmp_path / "t.parquet",
        "feather": tmp_path / "t.feather",
        "table": twice,
        "batch": twice.to_batches()[0],
        "dataset": ds.InMemoryDataset(twice),
        "chunks": lambda: iter([twice]),
    }[kind]
    code = "data { int N; vector[N] x; vector[N] y; } parameters { real b; } "
    code += "model { b ~ normal(0, 1); y ~ normal(b * x, 1); }"
    program = adopt(StanProgram.from_code(code)).weighted
    with pytest.raises(DataError, match=r"has more than one column 'x'; rename or drop"):
        Table(rows).open_for(program)
    if kind in ("table", "batch", "parquet"):
        source = str(rows) if kind == "parquet" else rows
        with pytest.raises(DataError, match=r"several columns for 'x'|more than one column 'x'"):
            program.check(source)


@pytest.mark.fit
def test_a_full_disk_leaves_finished_stages(folder, frame, tmp_path, monkeypatch):
    """The disk fills up when the posterior is written; a second run goes on from the coreset."""
    import errno

    from stancoreset.runs import folder as run_folder

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    model = sc.CoresetModel(sc.stan_model_path("logistic"), engine="stanli")
    out = tmp_path / "fit"
    with monkeypatch.context() as patch:
        patch.setattr(run_folder.arviz, "save", full)
        with pytest.raises((OutputError, OSError), match="No space left"):
            model.fit(table(folder), size=40, seed=reseeded(1), output_dir=out, chains=2)
    assert (out / "coreset.csv").exists()
    kept = (out / "coreset.csv").read_bytes()
    fit = model.fit(table(folder), size=40, seed=reseeded(1), output_dir=out, chains=2, resume=True)
    assert fit.certificate.verdict == "certified"
    assert (out / "coreset.csv").read_bytes() == kept
    # every row's own data, though the table stays on disk
    rows = sc.Coreset.load(out / "coreset.csv")
    assert set(rows.columns) == {"y", *(f"X[{i + 1}]" for i in range(fit.data["X"].shape[1]))}
    np.testing.assert_array_equal(rows.columns["y"], frame["late"].to_numpy()[rows.indices])
    np.testing.assert_array_equal(rows.columns["X[2]"], frame[NAMES[1]].to_numpy()[rows.indices])
    assert "reference" in fit.timings or fit.passes["gradients"] == 0


# --- the mapping in a file, the command line ---------------------------------------------


def test_table_from_file(tmp_path, folder):
    toml = tmp_path / "columns.toml"
    toml.write_text(
        'memory = 0\n[columns]\nX = ["a", "b", "c"]\ny = "late"\n'
        "[values]\nalpha_scale = 5.0\nbeta_scale = 2.5\n"
    )
    text = tmp_path / "columns.json"
    text.write_text(json.dumps({"columns": COLUMNS, "values": SCALES, "memory": 0}))
    one, two = (table_from_file(p, folder).open_for(program()) for p in (toml, text))
    assert one.fingerprint() == two.fingerprint()
    toml.write_text("colums = 1")
    with pytest.raises(DataError, match="has 'colums'; expected any of columns"):
        table_from_file(toml, folder)
    toml.write_text("[")
    with pytest.raises(DataError, match="neither TOML nor JSON"):
        table_from_file(toml, folder)


@pytest.mark.fit
def test_command_line(tmp_path, folder, capsys):
    from stancoreset.cli.commands import main

    toml = tmp_path / "columns.toml"
    toml.write_text(
        'memory = 0\n[columns]\nX = ["a", "b", "c"]\ny = "late"\n'
        "[values]\nalpha_scale = 5.0\nbeta_scale = 2.5\n"
    )
    files = [str(p) for p in sorted(folder.glob("*.parquet"))]
    arguments = ["fit", str(sc.stan_model_path("logistic")), *files, "--columns", str(toml)]
    arguments += ["--size", "40", "--chains", "2", "--out", str(tmp_path / "out"), "--no-plots"]
    assert main([*arguments, "--engine", "stanli"]) == 0
    assert "certified" in capsys.readouterr().out
    assert sc.load_fit(tmp_path / "out").passes["reads"] > 0
