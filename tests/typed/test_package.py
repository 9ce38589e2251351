"""What a user gets: the marker in the wheel, the public names, a script that runs."""

from __future__ import annotations

from pathlib import Path

import pytest
import user_script

import stancoreset

ROOT = Path(__file__).parents[2]


def test_the_wheel_says_that_it_is_typed():
    wheel = pytest.importorskip("hatchling.builders.wheel")
    files = {f.distribution_path for f in wheel.WheelBuilder(str(ROOT)).recurse_included_files()}
    assert "stancoreset/py.typed" in files
    assert {f"stancoreset/cli/example/{name}" for name in ("model.stan", "flights.csv")} <= files
    assert {f"stancoreset/{name}/__init__.py" for name in ("model", "engines/cmdstan")} <= files
    assert {f"stancoreset/demo/departures{end}" for end in (".stan", "_nuts.json")} <= files
    assert not [file for file in files if file.startswith(("papers", "notebooks"))]


def test_a_star_import_gives_the_public_names():
    found: dict[str, object] = {}
    exec("from stancoreset import *", found)
    assert set(found) - {"__builtins__"} == set(stancoreset.__all__)
    assert dir(stancoreset) == sorted(stancoreset.__all__)


@pytest.mark.parametrize("name", sorted(set(stancoreset.__all__) - {"__version__"}))
def test_the_script_uses_every_public_name(name):
    assert f"sc.{name}" in Path(user_script.__file__).read_text(encoding="utf-8")


@pytest.mark.fit
def test_the_script_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MPLBACKEND", "agg")
    user_script.main(tmp_path)
    assert "use the draws as they are" in capsys.readouterr().out
    assert (tmp_path / "forest.png").stat().st_size
