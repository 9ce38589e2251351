"""What reading, writing, checking and evaluating Stan programs costs, against plain baselines.

Run with ``pytest tests/benchmarks/test_stan.py --benchmark-only``; compare within a group.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import pytest

from stancoreset.program.identities import check_identities
from stancoreset.stan import (
    StanProgram,
    WeightedProgram,
    stan_model_path,
    weighted_program,
)
from stancoreset.stan.data.files import data_hash, json_text

N, D = 50_000, 12

LOOPS = {
    "logistic": "bernoulli_logit_lpmf(y[n] | eta[n])",
    "negative_binomial": "neg_binomial_2_log_lpmf(y[n] | odds[n] + log(phi), phi)",
}


def make_data(name: str) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, D))
    data = {
        "N": N, "D": D, "X": x, "y": rng.integers(0, 2, N), "weights": np.ones(N),
        "alpha_scale": 5.0, "beta_scale": 2.5,
    }  # fmt: skip
    extra = {"phi_shape": 2.0, "phi_rate": 0.1} if name == "negative_binomial" else {}
    return data | extra


def ready(name: str) -> WeightedProgram:
    return weighted_program(StanProgram.from_file(stan_model_path(name)))


def looped(name: str) -> str:
    """The ready program with its closed-form likelihood as a loop over Stan's own density."""
    code = ready(name).density_code
    start = code.index("target += dot_product")
    return code[:start] + f"for (n in 1 : N) target += weights[n] * {LOOPS[name]};\n}}\n"


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("form", ["closed form", "loop"])
def test_gradient(benchmark: Any, name: str, form: str) -> None:
    stanli = pytest.importorskip("stanli")
    benchmark.group = f"gradient of {name}, {N} rows"
    code = ready(name).density_code if form == "closed form" else looped(name)
    model = stanli.bridgestan_model(stan_code=code, data=make_data(name))
    theta = np.full(model.param_unc_num(), 0.1)
    benchmark(model.log_density_gradient, theta)


@pytest.mark.parametrize("writer", ["json_text", "json_text without orjson", "json.dumps"])
def test_writing_json(benchmark: Any, monkeypatch: pytest.MonkeyPatch, writer: str) -> None:
    benchmark.group = f"Stan JSON of {N} x {D} doubles"
    data = make_data("logistic")
    if writer == "json_text":
        pytest.importorskip("orjson")
    if writer == "json_text without orjson":
        monkeypatch.setitem(sys.modules, "orjson", None)  # makes the import fail
    if writer == "json.dumps":
        benchmark(lambda: json.dumps(data, default=lambda x: x.tolist()))
    else:
        benchmark(json_text, data)


@pytest.mark.parametrize("step", ["check", "hash", "half the rows", "200 rows"])
def test_data(benchmark: Any, step: str) -> None:
    benchmark.group = f"data of {N} rows"
    program = ready("logistic")
    data = program.check(make_data("logistic"))
    rows = np.random.default_rng(1).choice(N, 200, replace=False)
    benchmark(
        {
            "check": lambda: program.check(data),
            "hash": lambda: data_hash(data),
            "half the rows": lambda: program.subset(data, slice(0, N // 2)),
            "200 rows": lambda: program.subset(data, rows),
        }[step]
    )


def test_identities(benchmark: Any) -> None:
    pytest.importorskip("stanli")
    from stancoreset.engines.stanli import StanliEngine

    program, engine = ready("logistic"), StanliEngine()
    data = program.check(make_data("logistic"))
    rows = benchmark(check_identities, program, engine, data)
    assert all(row.passed for row in rows)
