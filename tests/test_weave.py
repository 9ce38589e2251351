"""Weaving: test programs through all identities, refusals with line and reason."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("stanli")
pytest.importorskip("bridgestan")

from stancoreset.errors import WeaveError
from stancoreset.stan import stanc
from stancoreset.stan.weave import weave
from weave_checks import frozen_data, identities, model, outputs
from weave_data import make_data, obs_of

FOLDER = Path(__file__).parent / "weave_programs"
PROGRAMS = sorted(p.stem for p in FOLDER.glob("*.stan") if not p.stem.startswith("refuse_"))
REFUSED = sorted(p.stem for p in FOLDER.glob("refuse_*.stan"))


def read(name: str) -> str:
    return (FOLDER / f"{name}.stan").read_text()


@pytest.mark.parametrize("name", PROGRAMS)
def test_identities(name):
    code = read(name)
    woven = weave(code, obs_of(code))
    stanc.check(woven.code)
    assert outputs(woven) == [woven.log_lik]
    assert any(e.role in ("likelihood", "mixed") for e in woven.explanation)
    errors = identities(code, make_data(code), woven=woven)
    assert max(errors.values()) < 1e-9, errors


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_say_where_and_why(name):
    code = read(name)
    line, reason = re.search(r"^// refuse: (\S+) (.*)$", code, re.MULTILINE).groups()
    with pytest.raises(WeaveError) as caught:
        weave(code)
    assert re.fullmatch(line, str(caught.value.line)), caught.value
    assert re.search(reason, caught.value.reason), caught.value
    if caught.value.line:
        assert f"line {caught.value.line}" in str(caught.value)
