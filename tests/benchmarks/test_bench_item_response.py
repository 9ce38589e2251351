"""Tests of many persons: one parameter of each integrated out, against NUTS on all answers.

    pytest tests/benchmarks/test_bench_item_response.py --benchmark-only -s

``STANCORESET_BENCH_PERSONS=2000`` and ``STANCORESET_BENCH_QUESTIONS=50`` set the size, and
``STANCORESET_BENCH_NUTS=0`` leaves NUTS on all answers out. Times are those of the processor.
"""

from __future__ import annotations

import os
import time

import numpy as np
import pytest
from agreement import CERTIFIED, assert_agree, differences, of_draws
from scipy.special import expit

import stancoreset as sc
from stancoreset.posterior.arviz import variables_of

PERSONS = int(os.environ.get("STANCORESET_BENCH_PERSONS", "800"))
QUESTIONS = int(os.environ.get("STANCORESET_BENCH_QUESTIONS", "15"))
WITH_NUTS = os.environ.get("STANCORESET_BENCH_NUTS", "1") == "1"
DATA = """
data {
  int<lower=1> N;
  int<lower=1> P;
  int<lower=1> Q;
  array[N] int<lower=1, upper=P> person;
  array[N] int<lower=1, upper=Q> question;
  array[N] int<lower=0> answer;
}
"""
SLOPES = (
    DATA
    + """
parameters {
  vector[P] ability;
  vector[Q] place;
  vector<lower=0>[Q] slope;
}
model {
  ability ~ std_normal();
  place ~ normal(0, 1.5);
  slope ~ lognormal(0, 0.5);
  answer ~ bernoulli_logit(slope[question] .* (ability[person] - place[question]));
}
"""
)
STEPS = (
    DATA
    + """
parameters {
  vector[P] attitude;
  vector[Q] place;
  ordered[3] step;
  real<lower=0> spread;
}
model {
  spread ~ gamma(4, 3);
  attitude ~ normal(0, spread);
  place ~ normal(0, 1);
  step ~ normal(0, 1.5);
  for (n in 1 : N) {
    answer[n] + 1 ~ ordered_logistic(attitude[person[n]] - place[question[n]], step);
  }
}
"""
)


def answers(graded: bool) -> dict[str, object]:
    rng = np.random.default_rng(8)
    person, question = (a.ravel() for a in np.indices((PERSONS, QUESTIONS)))
    ability, place = rng.normal(size=PERSONS), rng.normal(size=QUESTIONS)
    away = ability[person] - place[question]
    if graded:
        above = expit(1.3 * away[:, None] - np.array([-1.0, 0.0, 1.2]))
        answer = (rng.random((person.size, 1)) < above).sum(axis=1)
    else:
        slope = np.exp(0.4 * rng.normal(size=QUESTIONS))
        answer = (rng.random(person.size) < expit(slope[question] * away)).astype(int)
    return {
        "N": person.size, "P": PERSONS, "Q": QUESTIONS,
        "person": person + 1, "question": question + 1, "answer": answer,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "code", "names"),
    [
        ("two parameters a question", SLOPES, ("place", "slope", "ability")),
        ("graded, the attitudes' spread unknown", STEPS, ("place", "step", "spread", "attitude")),
    ],
)
def test_integrated_fits_agree_with_nuts_on_all_answers(benchmark, kind, code, names):
    data = answers(graded=code is STEPS)
    with sc.CoresetModel(stan_code=code, engine="stanli", obs="N") as model:
        started = time.process_time()
        fit = benchmark.pedantic(lambda: model.fit(data, seed=1, show_progress=False), rounds=1)
        took_fit = time.process_time() - started
        assert fit.certificate.verdict == "certified"
        assert str(fit.way).startswith("integrals")
        row = f"\n| {kind}, {PERSONS:,} × {QUESTIONS} | {took_fit:.0f} |"
        if not WITH_NUTS:
            print(row)
            return
        started = time.process_time()
        full = model.sample(data, seed=2, show_progress=False)
        took = time.process_time() - started
    one, two = of_draws(variables_of(fit.posterior), *names), of_draws(variables_of(full), *names)
    print(f"{row} {took:.0f} | {differences(one, two)} |")
    assert_agree(one, two, within=CERTIFIED)
