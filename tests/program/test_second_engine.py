"""CmdStan beside stanli: asked where the program is compiled, and a disagreement is an error."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("stanli")

import stancoreset as sc
from stancoreset.engines import resolve_engine
from stancoreset.errors import EngineError, IdentityError, OptionError
from stancoreset.program.second_engine import compare_engines, find_second

CODE = """data { int N; vector[N] y; } parameters { real m; real<lower=0> s; }
model { m ~ normal(0, 1); s ~ exponential(1); y ~ normal(m, s); }
"""
DATA = {"N": 40, "y": np.random.default_rng(0).normal(size=40)}


def compiled(code: str):
    return resolve_engine("stanli").compile(code, name="heights")


def test_a_disagreement_names_program_point_and_both_numbers():
    draws = np.random.default_rng(1).normal(size=(5, 2))
    good, other = compiled(CODE), compiled(CODE.replace("exponential(1)", "exponential(1.5)"))
    same = compare_engines({"A 1": good, "B 2": good}, DATA, draws, tolerance=1e-8)
    assert same == "B 2 equals A 1 within 0e+00 at 5 draws"
    with pytest.raises(IdentityError) as refused:
        compare_engines({"A 1": good, "B 2": other}, DATA, draws, tolerance=1e-8)
    said = str(refused.value)
    with good.bind(DATA) as bound:
        values = bound.log_density(draws)
        points = bound.constrain(draws)
    assert "'heights'" in said
    assert any(f"is {value:.10g} by A 1 and" in said for value in values)
    assert any(f"s = {np.array2string(s, precision=6)}" in said for s in points["s"])


def test_who_is_asked(monkeypatch):
    monkeypatch.setenv("CMDSTAN", "/nowhere")
    stanli = resolve_engine("stanli")
    assert find_second(stanli, "never") is None
    assert find_second(stanli, "auto") is None
    with pytest.raises(EngineError):
        find_second(stanli, "always")
    with pytest.raises(OptionError, match="second_engine"):
        sc.CoresetModel(stan_code=CODE, second_engine="sometimes")


@pytest.mark.cmdstan
@pytest.mark.parametrize("asked", ["always", "auto", "never"])
def test_a_certificate_says_that_both_engines_agree(cmdstan, asked):
    """In this order: the program is compiled when it is asked for the first time."""
    with sc.CoresetModel(stan_code=CODE, engine="stanli", second_engine=asked) as model:
        fit = model.fit(DATA, method="gaussian", seed=1)
    assert ("CmdStan" in fit.certificate.witness) == (asked != "never")
    assert ("equals stanli" in fit.certificate.witness) == (asked != "never")
