"""Programs as brms writes them today, from its own code generator: which weave, and rightly.

The programs of `brms_programs.R` are none of the fixtures. R and brms are needed.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("stanli")

import stancoreset as sc
from stancoreset.errors import DataError, WeaveError

HERE = Path(__file__).parent
HELPER = Path(sc.__file__).parent / "cli" / "coreset_brm.R"
# Rows that depend on each other, or that have a parameter each.
REFUSED = {
    "gev": "combines observations",
    "gpfull": "a group of its own",
    "me": "one element per observation",
}
# Outcomes of their own rows.
COUNTS = {"mvsub": "N_y, N_y2"}


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    if shutil.which("Rscript") is None:
        pytest.skip("R is not installed")
    looks = "for (p in c('brms', 'jsonlite')) if (!nzchar(system.file(package = p))) cat(p)"
    asked = subprocess.run(["Rscript", "-e", looks], capture_output=True, text=True, check=True)
    if asked.stdout:
        pytest.skip(f"the R package {asked.stdout} is not installed")
    folder = tmp_path_factory.mktemp("brms")
    command = ["Rscript", HERE / "brms_programs.R", folder, HELPER]
    subprocess.run(command, check=True, capture_output=True)
    return folder


@pytest.mark.slow
def test_all_weave_but_those_whose_rows_depend_on_each_other(programs):
    refused, wrong = {}, {}
    files = sorted(programs.glob("*.stan"))
    for file in files:
        name = file.stem
        try:
            with sc.CoresetModel(file, engine="stanli", obs=COUNTS.get(name)) as model:
                table = model.identities(file.with_suffix(".json"), points=3, seed=0)
        except (WeaveError, DataError) as error:
            refused[name] = str(error)
        else:
            if not table.passed.all():
                wrong[name] = table[~table.passed]
    assert len(files) > 70
    assert not wrong
    assert refused.keys() == REFUSED.keys()
    for name, why in REFUSED.items():
        assert why in refused[name], name
