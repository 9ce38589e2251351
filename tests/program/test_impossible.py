"""Rows that a program rules out are named when they end a fit."""

import numpy as np
import pytest
from seeds import reseeded

import stancoreset as sc
from stancoreset.errors import DataError
from stancoreset.program.impossible import impossible_rows

HEAD = """
data { int N; int J; array[N] int g; vector[N] x; array[N] int y; }
parameters { real mu; real<lower=0> tau; vector[J] z; }
model { mu ~ normal(0, 2); tau ~ normal(0, 1); z ~ std_normal();
"""
COUNTS = HEAD + "y ~ poisson_log(mu + tau * z[g] + 0.1 * x); }"
REJECTS = (
    HEAD
    + """for (n in 1:N) {
  if (x[n] > 90) reject("x is ", x[n]);
  y[n] ~ poisson_log(mu + tau * z[g[n]]); } }"""
)
GOOD = {
    "N": 900,
    "J": 40,
    "g": np.arange(900) % 40 + 1,
    "x": np.zeros(900),
    "y": np.random.default_rng(3).poisson(2.0, 900),
}


def changed(name, rows, value):
    values = GOOD[name].copy()
    values[rows] = value
    return {**GOOD, name: values}


@pytest.mark.parametrize(
    ("code", "data", "told"),
    [
        (COUNTS, changed("y", [17], -1), r"row 17 \(g = 18\), counting"),
        (COUNTS, changed("x", [0, 899], 1e200), r"rows 0 \(g = 1\), 899 \(g = 20\), counting"),
        (COUNTS, changed("y", [4, 5, 6, 7, 8], -1), r"rows 4 .* 6 \(g = 7\) and 2 more, counting"),
        (REJECTS, changed("x", [17], 99.0), r"row 17 \(g = 18\), counting"),
    ],
    ids=["outcome", "overflow", "several", "reject"],
)
def test_rows_without_density_are_named(code, data, told):
    with sc.CoresetModel(stan_code=code, engine="stanli") as model:
        error = impossible_rows(model._session, model.read(data), 1)
    assert isinstance(error, DataError)
    with pytest.raises(DataError, match=told):
        raise error


@pytest.mark.parametrize("rows", [[], np.arange(0, 900, 2)], ids=["none", "half of all"])
def test_no_row_is_blamed_where_none_is_odd(rows):
    with sc.CoresetModel(stan_code=COUNTS, engine="stanli") as model:
        assert impossible_rows(model._session, model.read(changed("y", rows, -1)), 1) is None


@pytest.mark.fit
def test_a_fit_says_which_row_ends_it():
    with (
        sc.CoresetModel(stan_code=COUNTS, engine="stanli") as model,
        pytest.raises(DataError, match=r"row 17 \(g = 18\)") as caught,
    ):
        model.fit(changed("y", [17], -1), seed=reseeded(1))
    assert "initialization failed" in str(caught.value.__cause__)


# Stan's `normal_lccdf` is minus infinity from 8.3 sds on, stanli's is not: this one is, in both.
CENSORED = """
functions {
  real tail(real z) { return z > 8.3 ? negative_infinity() : normal_lccdf(z | 0, 1); }
}
data { int N; vector[N] y; array[N] int above; }
parameters { real mu; real<lower=0> s; }
model {
  mu ~ normal(0, 5); s ~ exponential(1);
  for (n in 1:N) {
    if (above[n]) target += tail((y[n] - mu) / s);
    else y[n] ~ normal(mu, s);
  }
}
"""


@pytest.mark.parametrize(("rows", "told"), [(1, "row 5, "), (40, "5, 6, 7 and over 17 more")])
def test_a_tail_that_ends_too_near_is_named(rows, told):
    y = np.random.default_rng(2).normal(size=300)
    above = np.zeros(300, dtype=int)
    y[5 : 5 + rows], above[5 : 5 + rows] = 40.0, 1
    with sc.CoresetModel(stan_code=CENSORED, engine="stanli") as model:
        error = impossible_rows(model._session, model.read({"N": 300, "y": y, "above": above}), 1)
    assert told in str(error)
    expected = r"normal_lccdf \(line 3\) is minus infinity from 8.3 sds .* write normal_lcdf"
    with pytest.raises(DataError, match=expected):
        raise error
