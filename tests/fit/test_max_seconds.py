"""A limit of time: no round begins that would end later."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from problems import NORMAL_CODE, normal_data

import stancoreset as sc
from stancoreset.cli.commands import main
from stancoreset.errors import OptionError
from stancoreset.fit.refinement import seconds_of_next
from stancoreset.posterior import arviz
from stancoreset.runs import LONGER_CHAINS, Change, Round

# Five random rows without a quadratic are no posterior of 400: the first round is rejected.
POOR = {"size": 5, "method": "uniform", "control_variate": False, "chains": 2, "seed": 1}
POOR |= {"iter_warmup": 100, "iter_sampling": 200, "show_progress": False}


def made(seconds: float, action: str, number: int = 0) -> Round:
    return Round(number, action, "laplace", 9, 250, 0.3, 1.2, 40, 1000, 0, "rejected", seconds)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (Change("pilot as reference", "pilot", {}), 4.0),
        (Change("pilot as reference", "pilot", {}, lengthened=2.0), 8.0),
        (Change(LONGER_CHAINS, "laplace", {}, lengthened=3.0), 12.0),
        (Change("own draws as reference", "own draws", {}), 7.0),
    ],
)
def test_the_next_round_takes_as_long_as_the_latest_of_its_kind(
    change: Change, expected: float
) -> None:
    rounds = [made(10, "first pass"), made(7, "own draws as reference", 1), made(4, "other", 2)]
    assert seconds_of_next(change, rounds) == expected


@pytest.mark.parametrize("value", [-1, "long", True, float("nan")])
def test_a_limit_that_is_none(value: object) -> None:
    with (
        sc.CoresetModel(stan_code=NORMAL_CODE, engine="stanli") as model,
        pytest.raises(OptionError, match=r"max_seconds is .*, expected a number of at least 0"),
    ):
        model.fit(normal_data(400), max_seconds=value)


@pytest.mark.fit
def test_the_best_result_so_far_says_why_no_further_round_was_begun(tmp_path: Path) -> None:
    """It is kept in the folder, and a resumed run goes on as one that had no limit."""
    data, out = normal_data(400), tmp_path / "run"
    with sc.CoresetModel(stan_code=NORMAL_CODE, engine="stanli") as model:
        fit = model.fit(data, max_seconds=0, output_dir=out, **POOR)
        assert fit.certificate.verdict != "certified"
        assert len(fit.rounds) == 1
        assert fit.certificate.stopped == fit.certificate.reasons[-1]
        assert "max_seconds is 0; raise max_seconds and resume" in fit.certificate.stopped
        assert sc.load_fit(out).certificate.reasons == fit.certificate.reasons
        report = json.loads((out / "report.json").read_text())
        assert report["certificate"]["stopped"] == fit.certificate.stopped

        resumed = model.fit(data, output_dir=out, resume=True, **POOR)
        whole = model.fit(data, **POOR)
        roomy = model.fit(data, max_seconds=1e6, **POOR)
    assert len(resumed.rounds) == len(whole.rounds) == len(roomy.rounds) > 1
    for other in (resumed, roomy):
        assert not other.certificate.stopped
        assert other.certificate.reasons == whole.certificate.reasons
        mine, theirs = (arviz.variables_of(f.posterior)["mu"] for f in (other, whole))
        np.testing.assert_array_equal(mine, theirs)
    assert sc.load_fit(out).certificate.reasons == whole.certificate.reasons


@pytest.mark.fit
def test_the_limit_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model.stan").write_text(NORMAL_CODE)
    data = {name: np.asarray(v).tolist() for name, v in normal_data(400).items()}
    (tmp_path / "data.json").write_text(json.dumps(data))
    asked = ["fit", str(tmp_path / "model.stan"), str(tmp_path / "data.json"), "--engine", "stanli"]
    asked += ["--out", str(tmp_path / "run"), "--size", "5", "--method", "uniform", "--no-plots"]
    asked += ["--no-control-variate", "--chains", "1", "--iter-sampling", "150", "--seed", "1"]
    main([*asked, "--max-seconds", "0"])
    said = capsys.readouterr()
    assert "no further round" in said.out + said.err
    assert len(sc.load_fit(tmp_path / "run").rounds) == 1
