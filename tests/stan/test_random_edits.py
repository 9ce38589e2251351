"""A dozen edits of the campaign of random edits, of every kind of input, and its own judgement."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from stan import random_edits

pytestmark = pytest.mark.fit

#: Edits of tokens, statements, constraints, values, columns, cells and bytes; one ends in a fit.
_NUMBERS = (0, 1, 3, 6, 19, 20, 21, 24, 32, 61, 98, 17)


def test_edits_end_in_a_right_fit_or_in_one_clear_error(tmp_path: Path) -> None:
    command = [sys.executable, random_edits.__file__, "--out", str(tmp_path), "--only"]
    here = Path(random_edits.__file__).parents[2]
    path = os.pathsep.join([str(here), os.environ.get("PYTHONPATH", "")])
    subprocess.run(
        [*command, *map(str, _NUMBERS)],
        check=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": path},
    )
    lines = (tmp_path / "edits.jsonl").read_text().splitlines()
    found = {made["number"]: made for made in map(json.loads, lines)}
    assert found.keys() == {*_NUMBERS}
    for number, made in found.items():
        assert made["outcome"] in ("ok", "error"), (number, made)
    assert {made["outcome"] for made in found.values()} == {"ok", "error"}


@pytest.mark.parametrize(
    ("found", "outcome"),
    [
        ({"verdict": "rejected"}, "ok"),
        ({"error": "DataError"}, "error"),
        ({"verdict": "certified", "warnings": ["RuntimeWarning: overflow"]}, "FOREIGN"),
        ({"verdict": "certified", "stderr": "DLASCL: illegal value"}, "FOREIGN"),
        ({"exit": 1, "stderr": "Traceback"}, "FOREIGN"),
        ({"exit": -signal.SIGSEGV}, "FOREIGN"),
        ({"exit": -signal.SIGXCPU}, "SLOW"),
    ],
)
def test_outcomes(found: dict[str, object], outcome: str) -> None:
    edit = random_edits.Edit("case", "kind", "python", "", {}, [])
    blank: dict[str, object] = {"exit": 0, "warnings": [], "stderr": ""}
    assert random_edits.outcome(blank | found, edit) == outcome


@pytest.mark.parametrize(
    ("code", "stderr", "outcome"),
    [
        (0, "", "ok"),
        (3, "", "ok"),
        (2, "stancoreset: error: no such file", "error"),
        (2, "usage: stancoreset", "FOREIGN"),
        (1, "", "FOREIGN"),
        (0, "RuntimeWarning: overflow", "FOREIGN"),
    ],
)
def test_outcomes_of_the_command_line(code: int, stderr: str, outcome: str) -> None:
    edit = random_edits.Edit("case", "kind", "command", "", {}, [])
    found = {"exit": 0, "warnings": [], "stderr": stderr, "code": code}
    assert random_edits.outcome(found, edit) == outcome


def test_an_edit_is_a_function_of_its_number() -> None:
    one, other = random_edits.edited(33, 1), random_edits.edited(33, 1)
    assert one == other
    assert random_edits.edited(33, 2) != one
    kinds = {random_edits.edited(number, 1).kind for number in range(150)}
    every = (*random_edits.PROGRAM_EDITS, *random_edits.DATA_EDITS, *random_edits.FILE_EDITS)
    assert len(kinds) > 0.8 * len({change.__name__ for change in every})


def test_a_deleted_row_is_gone_from_all_columns() -> None:
    data = {"N": 3, "y": [1, 2, 3], "x": [[1.0], [2.0], [3.0]], "z": 1}
    left = random_edits.delete_row(data, np.random.default_rng(0))
    assert (left["N"], len(left["y"]), len(left["x"]), left["z"]) == (3, 2, 2, 1)
    assert left["y"] == [row[0] for row in left["x"]]
