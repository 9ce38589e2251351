"""A merge that is interrupted goes on, and what it was certified against is not forgotten."""

from __future__ import annotations

import json

import numpy as np
import pytest
from problems import logistic_data
from seeds import reseeded
from test_merge import LOGISTIC, QUICK, cut, draws_of

import stancoreset as sc
from stancoreset.cli.commands import main
from stancoreset.errors import OutputError
from stancoreset.progress import Stages

FILES = ("reference.npz", "coreset.csv", "coreset.json", "posterior.nc", "certificate.csv")


class Interrupted(Exception):
    """In place of Ctrl-C."""


class Fuse(Stages):
    """Ends the merge when a stage ends, and remembers the stages that were computed."""

    def __init__(self, blows_at: str = "") -> None:
        super().__init__(show_progress=False, on_done=self._after)
        self.blows_at = blows_at

    def _after(self, name: str, _seconds: float) -> None:
        if name == self.blows_at:
            raise Interrupted(name)


@pytest.fixture(scope="module")
def model():
    with sc.CoresetModel(LOGISTIC, engine="stanli") as model:
        yield model


@pytest.fixture(scope="module")
def parts(model):
    pieces = cut(logistic_data(3_000), [0, 1_200, 3_000])
    return [(piece, model.fit(piece, size=20, seed=reseeded(1), **QUICK)) for piece in pieces]


@pytest.fixture(scope="module")
def kept(parts):
    return [fit for _, fit in parts]


def stamps(folder):
    """Which file is there: written anew, it would be another one."""
    found = {name: (folder / name).stat() for name in FILES if (folder / name).exists()}
    return {name: (status.st_ino, status.st_mtime_ns) for name, status in found.items()}


@pytest.mark.slow
@pytest.mark.fit
@pytest.mark.parametrize("whole", [True, False])
def test_finished_stages_are_kept_and_the_result_is_that_of_one_go(
    model, parts, kept, whole, tmp_path
):
    given = parts if whole else kept
    expected = model.merge(given, size=25, seed=reseeded(1), **QUICK)
    run, finished = tmp_path / "run", []
    for name in ("reference", "select", "sample", "certify"):
        with pytest.raises(Interrupted):
            model.merge(
                given,
                size=25,
                seed=reseeded(1),
                output_dir=run,
                resume=True,
                stages=Fuse(name),
                **QUICK,
            )
        now = stamps(run)
        assert now.items() >= dict(finished).items(), "a finished stage was computed again"
        finished = now.items()
    assert set(stamps(run)) == set(FILES) - {"certificate.csv"}
    with pytest.raises(OutputError, match="earlier run"):
        model.merge(given, size=25, seed=reseeded(1), output_dir=run, **QUICK)
    with pytest.raises(OutputError, match="size was 25, now 24"):
        model.merge(given, size=24, seed=reseeded(1), output_dir=run, resume=True, **QUICK)
    last = Fuse()
    merged = model.merge(
        given, size=25, seed=reseeded(1), output_dir=run, resume=True, stages=last, **QUICK
    )
    assert not {"reference", "select", "measure", "sample"} & set(last.seconds)
    assert stamps(run).items() >= dict(finished).items()
    np.testing.assert_array_equal(merged.coreset.indices, expected.coreset.indices)
    np.testing.assert_array_equal(merged.coreset.weights, expected.coreset.weights)
    np.testing.assert_array_equal(merged.certificate.log_weights, expected.certificate.log_weights)
    assert merged.coreset.heldout_error == expected.coreset.heldout_error
    for name, values in draws_of(expected).items():
        np.testing.assert_array_equal(draws_of(merged)[name], values)
    # A fit that has been read back is merged like any other.
    (piece, fit), *_ = parts
    twice = [sc.load_fit(run), model.keep(piece, fit)]
    assert model.merge(twice, size=25, seed=reseeded(1), **QUICK).coreset.n_obs == 4_200
    again = model.merge(given, size=24, seed=reseeded(1), output_dir=run, overwrite=True, **QUICK)
    assert again.coreset.size <= 24
    assert not stamps(run).items() & dict(finished).items()


@pytest.mark.fit
def test_other_data_of_a_part_are_another_merge(model, parts, tmp_path):
    """A row that no coreset holds changes the certificate, and nothing before it."""
    run = tmp_path / "run"
    with pytest.raises(Interrupted):
        model.merge(
            parts, size=25, seed=reseeded(1), output_dir=run, stages=Fuse("sample"), **QUICK
        )
    piece, fit = parts[0]
    row = int(np.setdiff1d(np.arange(piece["N"]), fit.coreset.indices)[0])
    changed = {**piece, "y": piece["y"].copy()}
    changed["y"][row] = 1 - changed["y"][row]
    with pytest.raises(OutputError, match="cannot be resumed: data_hash"):
        model.merge(
            [(changed, fit), parts[1]],
            size=25,
            seed=reseeded(1),
            output_dir=run,
            resume=True,
            **QUICK,
        )


@pytest.mark.fit
@pytest.mark.slow
def test_what_it_was_compared_with_is_still_told_after_reading_it_back(
    model, parts, kept, tmp_path
):
    merged = model.merge(kept, size=25, seed=reseeded(1), output_dir=tmp_path / "run", **QUICK)
    words = "the union of 2 coresets (40 rows), not all 3000 rows"
    assert merged.certificate.verdict == "certified"
    back = sc.load_fit(tmp_path / "run")
    for fit in (merged, back):
        assert fit.certificate.against == words
        assert fit.certificate.reasons == (f"compared with {words}",)
        assert words in str(fit.certificate)
        assert words in str(fit)
        assert f"- compared with {words}\n" in fit.markdown()
        assert fit.report()["certificate"]["against"] == words
    back.save(tmp_path / "copy")
    for folder in ("run", "copy"):
        assert words in (tmp_path / folder / "report.md").read_text()
        report = json.loads((tmp_path / folder / "report.json").read_text())
        assert report["certificate"]["against"] == words
        assert report["certificate"]["reasons"] == [f"compared with {words}"]
    assert sc.load_fit(tmp_path / "copy").certificate.against == words
    # With all the data there is nothing to tell.
    model.merge(parts, size=25, seed=reseeded(1), output_dir=tmp_path / "whole", **QUICK)
    whole = sc.load_fit(tmp_path / "whole")
    assert whole.certificate.against == ""
    assert "against" not in str(whole.certificate)
    assert "compared with" not in whole.markdown()


@pytest.mark.fit
@pytest.mark.slow
def test_the_command_goes_on_where_it_stopped(tmp_path, capsys, monkeypatch):
    quick = ["--iter-warmup", "200", "--iter-sampling", "800", "--chains", "2", "--no-plots"]
    quick += ["--engine", "stanli", "--size", "20"]
    runs, files = [], []
    for number, piece in enumerate(cut(logistic_data(2_000), [0, 1_000, 2_000])):
        files.append(str(tmp_path / f"{number}.json"))
        text = json.dumps({k: np.asarray(v).tolist() for k, v in piece.items()})
        (tmp_path / f"{number}.json").write_text(text)
        runs.append(str(tmp_path / f"run{number}"))
        assert main(["fit", str(LOGISTIC), files[-1], "--out", runs[-1], *quick, "--quiet"]) == 0
    out = tmp_path / "both"
    command = ["merge", str(LOGISTIC), *runs, "--data", *files, "--out", str(out), *quick]

    def interrupted(*_args: object, **_options: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("stancoreset.fit.sampling.run_nuts", interrupted)
        assert main(command) == 130
    assert "continue with --resume" in capsys.readouterr().err
    before = stamps(out)
    assert set(before) == {"reference.npz", "coreset.csv", "coreset.json"}
    assert main(command) == 2
    assert "--resume" in capsys.readouterr().err
    assert main([*command, "--resume"]) == 0
    said = capsys.readouterr().out
    assert "select" not in said
    assert "Certified against all 2000 rows of 2 parts" in said
    assert stamps(out).items() >= before.items()
    assert main([*command, "--overwrite", "--quiet", "--size", "auto"]) == 0
    assert not stamps(out).items() & before.items()
    assert main(["merge", str(LOGISTIC), str(out), "--out", f"{out}2", *quick]) == 0
    said = capsys.readouterr().out
    size = sc.load_fit(out).coreset.size
    words = f"a coreset ({size} rows), not all 2000 rows"
    assert said.count(words) == 3, "the verdict's line, the last lines, and the certificate in them"
    assert "because" not in said
