"""Folders of runs that are damaged: every file, in many ways, is one error that names it.

With checksums nothing that was changed is read. Folders of earlier versions have none; there
everything that no run leaves is refused, and nothing ends in an error that is not ours.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from problems import logistic_data
from tiers import some

import stancoreset as sc
from stancoreset.cli.commands import main
from stancoreset.errors import OutputError, StancoresetError
from stancoreset.posterior import arviz as arviz_compat
from stancoreset.runs import report
from stancoreset.runs.checksums import CHECKSUMS
from stancoreset.runs.folder import RunFolder

pytestmark = pytest.mark.fit  # what is damaged is the run of one

READ = (
    "coreset.csv",
    "coreset.json",
    "coreset.npz",
    "coreset_data.json",
    "certificate.csv",
    "laplace.nc",
    "posterior.nc",
    "reference.npz",
    "report.json",
)
STAGES = {
    "reference.npz": "reference",
    "coreset.csv": "coreset",
    "coreset.json": "coreset",
    "coreset.npz": "coreset",
    "posterior.nc": "posterior",
    "certificate.csv": "certificate",
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A finished run that has kept its rows, with everything that a folder may hold."""
    where = tmp_path_factory.mktemp("runs") / "run"
    with sc.CoresetModel(sc.stan_model_path("logistic"), engine="stanli") as model:
        data = logistic_data(2_000)
        fit = model.fit(data, size=30, seed=1, chains=2, iter_warmup=150, iter_sampling=150)
        model.keep(data, fit).save(where)
    assert set(READ) < {path.name for path in where.iterdir()}
    return where


@pytest.fixture(scope="module", autouse=True)
def read_once() -> Iterator[None]:
    """NetCDF, which takes most of the time, is read once for each content."""
    load, contents = arviz_compat.load, {}

    def loaded(path: str | Path) -> Any:
        content = Path(path).read_bytes()
        if content not in contents:
            contents[content] = load(path)
        return contents[content]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arviz_compat, "load", loaded)
        yield


@pytest.fixture(params=["with checksums", "without"])
def run(request, whole, tmp_path) -> Path:
    """A copy to be damaged; as this version writes it, and as those before did."""
    copy = Path(shutil.copytree(whole, tmp_path / "run"))
    if request.param == "without":
        (copy / CHECKSUMS).unlink()
    return copy


def halved(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])


def of_lines(file: Path) -> None:
    """Cut where a line ends, as a table would be."""
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[: max(1, len(lines) // 2)]))


def junk(file: Path) -> None:
    file.write_bytes(np.random.default_rng(0).bytes(5_000))


def junk_within(file: Path) -> None:
    content = bytearray(file.read_bytes())
    middle, length = len(content) // 2, max(400, len(content) // 10)  # NetCDF has unused places
    content[middle : middle + length] = np.random.default_rng(0).bytes(length)
    file.write_bytes(content)


def a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


DAMAGES: dict[str, Callable[[Path], object]] = {
    "halved": halved,
    "cut at a line": of_lines,
    "empty": lambda file: file.write_bytes(b""),
    "text": lambda file: file.write_text("once upon a time\nthere was a file"),
    "junk": junk,
    "junk in the middle": junk_within,
    "zeros": lambda file: file.write_bytes(bytes(file.stat().st_size)),
    "nested": lambda file: file.write_text("[" * 100_000),
    "a number": lambda file: file.write_text("3"),
    "a list": lambda file: file.write_text("[1, 2]"),
    "not UTF-8": lambda file: file.write_bytes(b'{"caf\xe9": 1}'),
    "a folder": a_folder,
    "a link to nothing": lambda file: (file.unlink(), file.symlink_to("nowhere")),
    "another file": lambda file: shutil.copy(file.with_name("report.md"), file),
}


def refused(path: Path, file: str) -> None:
    """Wherever it is read, the error is ours and names the file."""
    with pytest.raises(StancoresetError) as caught:
        sc.load_fit(path)
    assert file in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("file", READ)
def test_a_damaged_file_is_refused_by_name(run, file, damage):
    before = (run / file).read_bytes()
    DAMAGES[damage](run / file)
    if (file, damage) == ("coreset_data.json", "a link to nothing"):
        return  # a run that has not kept its rows has none
    damaged = not (run / file).is_file() or (run / file).read_bytes() != before
    if not damaged:  # one line cannot be cut at a line
        assert sc.load_fit(run).certificate.verdict == "certified"
        return
    refused(run, file)


@pytest.mark.parametrize("file", READ)
def test_a_missing_file_is_refused_by_name(run, file):
    (run / file).unlink()
    if file == "coreset_data.json":
        assert sc.load_fit(run).data is None
    else:
        refused(run, file)


@contextlib.contextmanager
def as_nobody() -> Iterator[None]:
    """The administrator may read everything: then as somebody else."""
    if os.geteuid():
        yield
        return
    os.seteuid(65_534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("file", [*READ, CHECKSUMS, ""])
def test_a_file_that_may_not_be_read_is_refused_by_name(whole, file):
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        run = Path(shutil.copytree(whole, Path(place) / "run"))
        sc.load_fit(run)  # imports what nobody else may import
        (run / file).chmod(0)
        with as_nobody():
            refused(run, file or "run")
        (run / file).chmod(0o700)


@pytest.mark.parametrize("damage", [d for d in DAMAGES if d != "a link to nothing"])
def test_a_damaged_list_of_checksums_is_refused_by_name(whole, tmp_path, damage):
    run = Path(shutil.copytree(whole, tmp_path / "run"))
    DAMAGES[damage](run / CHECKSUMS)
    if damage == "empty":  # what is not in it is not finished
        refused(run, "report.json")
    else:
        refused(run, CHECKSUMS)


def one_digit(file: Path) -> None:
    content = bytearray(file.read_bytes())
    digits = [i for i, c in enumerate(content) if c in b"12345678"]
    content[digits[len(digits) // 2]] += 1
    file.write_bytes(content)


@pytest.mark.parametrize("file", READ)
def test_a_single_digit_shows_in_the_checksum(whole, tmp_path, file):
    run = Path(shutil.copytree(whole, tmp_path / "run"))
    one_digit(run / file)
    with pytest.raises(OutputError, match=rf"{file} is not the file that was written"):
        sc.load_fit(run)


WRONG: tuple[Any, ...] = (None, "x", "", [], {}, [1], {"a": 1}, -1, 0, 1.5, True, 1e400, [[1]])


# Members of a report that are handed on as they are: one of them stands for the others.
HANDED_ON = ("settings", "provenance")


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where values are in a JSON document, the first of every list."""
    if path:
        yield path
    if isinstance(value, dict):
        for key in list(value)[: 1 if path and path[0] in HANDED_ON else None]:
            yield from places(value[key], (*path, key))
    elif isinstance(value, list) and value:
        yield from places(value[0], (*path, 0))


def used(path: Path) -> None:
    """Read, and used for all that a command prints: an error is ours, or there is none."""
    try:
        fit = sc.load_fit(path)
    except StancoresetError as error:
        if str(path) not in str(error):
            raise AssertionError(f"names no file: {error}") from error
        return
    _ = str(fit.certificate), fit.report(), fit.seconds, report._rounds(fit), report._passes(fit)


@pytest.mark.parametrize("values", [1, pytest.param(len(WRONG) + 1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("file", ["report.json", "coreset.json", "coreset_data.json"])
def test_members_of_the_wrong_type_and_without_them(whole, tmp_path, file, values):
    """Without checksums: a member that is read must be of its type, and the others may be any.

    So many wrong values for each place, in turn.
    """
    run = Path(shutil.copytree(whole, tmp_path / "run"))
    (run / CHECKSUMS).unlink()
    document = json.loads((run / file).read_text())
    turns = cycle(("without", *WRONG))
    for place in places(document):
        *path, last = place
        for value in islice(turns, values):
            changed = json.loads((whole / file).read_text())
            inner = changed
            for key in path:
                inner = inner[key]
            if value == "without":
                del inner[last]
            else:
                inner[last] = value
            (run / file).write_text(json.dumps(changed))
            used(run)


@pytest.mark.parametrize("file", some(["coreset.csv", "certificate.csv"], 2))
def test_columns_of_the_wrong_type_and_without_them(whole, tmp_path, file):
    import pandas as pd

    run = Path(shutil.copytree(whole, tmp_path / "run"))
    (run / CHECKSUMS).unlink()
    table = pd.read_csv(whole / file)
    for column in table:
        for value in ("without", np.nan, "x", -1, 1.5, np.inf, 10**12, 10**30):
            changed = table.astype(object)
            if value == "without":
                changed = changed.drop(columns=[column])
            else:
                changed.loc[0, column] = value
            changed.to_csv(run / file, index=False)
            used(run)
    for twice in (pd.concat([table, table]), table.iloc[:-1], table.iloc[:0], table.iloc[::-1]):
        twice.to_csv(run / file, index=False)
        if len(twice) == len(table) and file == "certificate.csv":
            continue  # the draws in another order
        refused(run, file)


def test_a_nan_weight_is_refused(run):
    text = (run / "coreset.csv").read_text().splitlines()
    row = text[3].split(",")[0]
    (run / "coreset.csv").write_text("\n".join([*text[:3], f"{row},nan", *text[4:]]) + "\n")
    refused(run, "coreset.csv")


@pytest.mark.parametrize("file", some(["reference.npz", "coreset.npz"], 2))
def test_arrays_of_the_wrong_type_or_shape_and_without_them(whole, tmp_path, file):
    run = Path(shutil.copytree(whole, tmp_path / "run"))
    (run / CHECKSUMS).unlink()
    with np.load(whole / file) as stored:
        arrays = dict(stored)
    for name in arrays:
        for value in (
            None,
            np.array("x"),
            np.array([None]),
            np.full(arrays[name].shape, np.nan),
            np.zeros(0),
            np.zeros((2, 2, 2)),
            np.array(1 + 2j),
            arrays[name][..., :1] if arrays[name].ndim else np.zeros(3),
        ):
            others = {k: v for k, v in arrays.items() if k != name}
            np.savez(run / file, **others, **({} if value is None else {name: value}))
            used(run)


@pytest.mark.parametrize("damage", ["halved", "empty", "junk", "a folder"])
@pytest.mark.parametrize("file", STAGES)
def test_a_run_that_is_resumed_reads_no_damaged_stage(run, file, damage):
    settings = json.loads((run / ".stancoreset.json").read_text())
    if not (run / CHECKSUMS).exists():  # else they would be noted as they are
        (run / ".stancoreset.json").touch()
    folder = RunFolder.open(run, settings, resume=True)
    DAMAGES[damage](run / file)
    with pytest.raises(StancoresetError, match=file.replace(".", r"\.")):
        folder.found(STAGES[file])


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_marker_is_refused_where_it_is_needed(run, damage):
    marker = run / ".stancoreset.json"
    DAMAGES[damage](marker)
    assert sc.load_fit(run).certificate.verdict == "certified"  # needs none
    with pytest.raises(OutputError, match="run"):
        RunFolder.open(run, {"seed": 1}, resume=True)
    with contextlib.suppress(OutputError):  # a folder in its place, or no marker at all
        RunFolder.open(run, {"seed": 1}, overwrite=True)
    assert sc.load_fit(run).certificate.verdict == "certified"


@pytest.mark.parametrize(
    "command",
    [
        ["compare", "RUN"],
        ["plot", "RUN", "weights", "--output", "w.png"],
        ["merge", "MODEL", "RUN", "--out", "both"],
    ],
)
def test_commands_refuse_damaged_folders_in_one_line(whole, tmp_path, command, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(whole, "run")
    halved(Path("run/coreset.csv"))
    names = {"RUN": "run", "MODEL": str(sc.stan_model_path("logistic"))}
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors):
        assert main([names.get(word, word) for word in command]) == 2
    (line,) = errors.getvalue().splitlines()
    assert "coreset.csv is not the file that was written" in line


def test_a_folder_without_a_fit_is_told_from_one_that_was_not_finished(tmp_path):
    def said(folder):
        with pytest.raises(OutputError, match="holds no finished fit") as caught:
            sc.load_fit(folder)
        return str(caught.value)

    assert "no such folder" in said(tmp_path / "nowhere")
    assert "not made by stancoreset" in said(tmp_path)
    run = tmp_path / "runs" / "first"
    run.mkdir(parents=True)
    (run / ".stancoreset.json").write_text("{}")
    assert "--resume" in said(run)
    assert f"such as {run}" in said(run.parent)
