"""The identities hold for right programs and name what is wrong with broken ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tiers import some

pytest.importorskip("stanli")

from ready_programs import NAMES, example

import stancoreset as sc
from stancoreset.engines.base import Engine
from stancoreset.engines.stanli import StanliEngine
from stancoreset.errors import DataError, IdentityError
from stancoreset.program import identities
from stancoreset.program.identities import (
    TOLERANCE,
    check_adopted,
    check_identities,
    identity_table,
    require_identities,
)
from stancoreset.stan import (
    StanProgram,
    WeightedProgram,
    stan_model_path,
    weighted_program,
)

PROGRAM = """
functions {{
  real coupled(vector y, int n, real mu, real sigma) {{
    return normal_lpdf(y[n] | n > 1 ? 0.5 * mu + 0.1 * y[n - 1] : mu, sigma);
  }}
}}
data {{
  int<lower=0> N;
  vector[N] y;
  vector<lower=0>[N] weights;
}}
parameters {{
  real mu;
  real<lower=0> sigma;
}}
model {{
  {prior}
  for (n in 1 : N) {{
    {row}
  }}
}}
generated quantities {{
  vector[N] log_lik;
  for (n in 1 : N) {{
    log_lik[n] = {log_lik};
  }}
}}
"""
PRIOR = "mu ~ normal(0, 2); sigma ~ normal(0, 1);"
ROW = "target += weights[n] * normal_lpdf(y[n] | mu, sigma);"
LOG_LIK = "normal_lpdf(y[n] | mu, sigma)"


@pytest.fixture(scope="module")
def engine() -> Engine:
    return StanliEngine()


def program(prior: str = PRIOR, row: str = ROW, log_lik: str = LOG_LIK) -> WeightedProgram:
    code = PROGRAM.format(prior=prior, row=row, log_lik=log_lik)
    return weighted_program(StanProgram.from_code(code))


def data(n: int = 60) -> dict[str, Any]:
    return {"N": n, "y": np.random.default_rng(1).normal(2.0, 1.5, size=n)}


@pytest.mark.parametrize("name", some(NAMES, 4))
def test_the_ready_programs_pass(name: str, engine: Engine) -> None:
    weighted = weighted_program(StanProgram.from_file(stan_model_path(name)))
    for seed in range(3):
        checked = weighted.check(example(name))
        rows = require_identities(weighted, engine, checked, seed=seed)
        assert [row.name for row in rows] == [
            "prior", "sum", "weighted", "derivative", "repeated", "slice", "unweighted",
        ]  # fmt: skip
        assert max(row.error for row in rows) < TOLERANCE / 100


@pytest.mark.parametrize("n", [1, 2, 60])
def test_any_number_of_rows(n: int, engine: Engine) -> None:
    weighted = program()
    require_identities(weighted, engine, weighted.check(data(n)))


def test_densities_may_lack_constants(engine: Engine) -> None:
    """What does not depend on the parameters may be dropped from the model block."""
    weighted = program(row="target += weights[n] * normal_lupdf(y[n] | mu, sigma);")
    require_identities(weighted, engine, weighted.check(data()))


@pytest.mark.parametrize(
    ("change", "name", "cause"),
    [
        ({"row": "target += square(weights[n]) * normal_lpdf(y[n] | mu, sigma);"},
         "weighted", "exactly once"),
        ({"row": "target += sqrt(weights[n]) * normal_lpdf(y[n] | mu, sigma);"},
         "weighted", "exactly once"),
        ({"row": ROW + " target += -0.1 * square(mu);"}, "prior", "not multiplied by its weight"),
        ({"row": ROW + " target += normal_lpdf(y[n] | mu, sigma);"}, "prior", "not multiplied"),
        ({"prior": PRIOR + " target += -0.1 * N * square(mu);"}, "prior", "number"),
        ({"prior": PRIOR + " mu ~ normal(mean(y), 1);"}, "prior", "means, counts"),
        ({"log_lik": "normal_lpdf(y[n] | mu, 1)"}, "sum", "disagree"),
        ({"log_lik": LOG_LIK + " + normal_lpdf(mu | 0, 2)"}, "sum", "a part of the prior"),
        ({"log_lik": f"weights[n] * {LOG_LIK}"}, "unweighted", "multiplied by the weights"),
        ({"row": "target += weights[n] * coupled(y, n, mu, sigma);",
          "log_lik": "coupled(y, n, mu, sigma)"}, "slice", "depends on other rows"),
        ({"row": "target += weights[n] * normal_lpdf(y[n] | mu + 0.1 * mean(y), sigma);",
          "log_lik": "normal_lpdf(y[n] | mu + 0.1 * mean(y), sigma)"}, "slice", "all rows"),
        ({"row": "target += weights[n] * sum(weights) / N * normal_lpdf(y[n] | mu, sigma);"},
         "weighted", "weights used twice"),
    ],
)  # fmt: skip
def test_broken_programs_fail_closed(
    change: dict[str, str], name: str, cause: str, engine: Engine
) -> None:
    weighted = program(**change)
    checked = weighted.check(data())
    rows = check_identities(weighted, engine, checked)
    failed = {row.name: row for row in rows if not row.passed}
    assert name in failed
    assert failed[name].error > 1e-5
    assert cause in failed[name].cause
    with pytest.raises(IdentityError, match=r"'model' do not behave: the identity .* fails with"):
        require_identities(weighted, engine, checked)


def test_a_point_far_out_hides_nothing(engine: Engine) -> None:
    """Rounding where the density is −1e20 must not excuse an error of one where it is −100."""
    steep = "target += -weights[n] * exp(24 * abs(mu)); " + ROW
    log_lik = LOG_LIK + " - exp(24 * abs(mu))"
    good = program(row=steep, log_lik=log_lik)
    require_identities(good, engine, good.check(data()))
    bad = program(row=steep, log_lik=log_lik + " + 1e-3 * mu")
    with pytest.raises(IdentityError, match="'sum'"):
        require_identities(bad, engine, bad.check(data()), points=20)


def test_points_without_a_density_do_not_count(engine: Engine) -> None:
    half = program(prior=PRIOR + " if (mu < 0) reject(mu);")
    require_identities(half, engine, half.check(data()))
    never = program(prior=PRIOR + " if (sigma > 0) reject(sigma);")
    with pytest.raises(IdentityError, match="finite at 0 of 40 random points"):
        check_identities(never, engine, never.check(data()))


def test_against_the_original(engine: Engine) -> None:
    weighted = program()
    text = PROGRAM.split("generated quantities")[0]
    original = text.replace("  vector<lower=0>[N] weights;\n", "")
    same = original.format(prior=PRIOR, row="y[n] ~ normal(mu, sigma);")
    checked = weighted.check(data())
    rows = require_identities(weighted, engine, checked, original=StanProgram.from_code(same))
    assert [row.name for row in rows[-2:]] == ["original", "original gradient"]
    for other in (
        original.format(prior=PRIOR, row="y[n] ~ normal(mu, 1.1 * sigma);"),
        same.replace("real mu;", "real mu; real extra;"),
    ):
        found = check_identities(weighted, engine, checked, original=StanProgram.from_code(other))
        assert not found[-2].passed
        assert not found[-1].passed


def test_the_same_seed_gives_the_same_errors(engine: Engine) -> None:
    weighted = program()
    checked = weighted.check(data(500))
    first = identity_table(check_identities(weighted, engine, checked, seed=4))
    again = identity_table(check_identities(weighted, engine, checked, seed=4))
    assert first.equals(again)
    assert list(first.columns) == ["name", "statement", "error", "passed"]


def test_one_row_that_the_prior_looks_at_is_found_among_all(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fifty rows of 2,000 hardly ever hold it; all of them do, also some at a time."""
    weighted = program(prior=PRIOR + " if (max(y) > 100) mu ~ normal(5, 1);")
    rows = data(2_000)
    rows["y"][1_234] = 101.0
    checked = weighted.check(rows)
    for numbers in (2_000_000, 300):
        monkeypatch.setattr(identities, "BLOCK", numbers)
        with pytest.raises(IdentityError, match="'prior'"):
            require_identities(weighted, engine, checked)
    rows["y"][1_234] = 99.0
    require_identities(weighted, engine, weighted.check(rows))


def test_a_row_without_a_density_says_nothing_of_the_prior(engine: Engine) -> None:
    """Zero times minus infinity is no number, for any of the points."""
    row = "target += weights[n] * lognormal_lpdf(y[n] | mu, sigma);"
    weighted = program(row=row, log_lik="lognormal_lpdf(y[n] | mu, sigma)")
    rows = {"N": 2_000, "y": np.exp(data(2_000)["y"])}
    rows["y"][1_234] = 0.0
    require_identities(weighted, engine, weighted.check(rows))


def test_a_likelihood_that_is_switched_off_is_named(engine: Engine) -> None:
    """brms' flag; any other can only be looked for."""
    off = ROW.replace("target += ", "if (!prior_only) target += ")
    code = PROGRAM.replace("data {{\n", "data {{\n  int prior_only;\n", 1).format(
        prior=PRIOR, row=off, log_lik=f"prior_only ? 0 : {LOG_LIK}"
    )
    flagged = weighted_program(StanProgram.from_code(code))
    assert all(row.passed for row in check_identities(flagged, engine, _whole(flagged, 0)))
    with pytest.raises(IdentityError, match=r"likelihood of 0.*prior_only is 1: set it to 0"):
        check_identities(flagged, engine, _whole(flagged, 1))


def _whole(some: WeightedProgram, prior_only: int) -> dict[str, Any]:
    return some.check({**data(), "prior_only": prior_only})


@pytest.mark.parametrize("bad", [[3], [41], [7, 59]])
def test_a_row_that_stan_refuses_is_named(monkeypatch, engine: Engine, bad: list[int]) -> None:
    """The first of those that cannot be read by themselves."""
    code = PROGRAM.replace("vector[N] y;", "vector[N] y;\n  vector[N] x;").format(
        prior=PRIOR, row=ROW, log_lik=LOG_LIK
    )
    picky = weighted_program(StanProgram.from_code(code))
    rows = picky.check({**data(), "x": np.arange(60.0)})

    class Picky:
        """Stan that refuses some values."""

        def __init__(self, compiled):
            self.compiled = compiled

        def bind_density(self, some):
            self.refuse(some)
            return self.compiled.bind_density(some)

        def bind(self, some, **options):
            self.refuse(some)
            return self.compiled.bind(some, **options)

        def refuse(self, some):
            if np.isin(some["x"], bad).any():
                raise DataError("Stan refuses the data of the program 'model': x")

    with_control = identities.CompiledWithControl
    monkeypatch.setattr(
        identities, "CompiledWithControl", lambda *a, **k: Picky(with_control(*a, **k))
    )
    with pytest.raises(DataError, match=rf": x \(row {bad[0]}, counting from 0, with y = .*x = "):
        check_identities(picky, engine, rows)


def test_no_row_is_blamed_for_what_all_rows_have(engine: Engine) -> None:
    """A number that is refused with any rows, and with none."""
    code = PROGRAM.replace("int<lower=0> N;", "int<lower=0> N;\n  vector[2] u;", 1).replace(
        "parameters {{", "transformed data {{ simplex[2] v = u; }}\nparameters {{", 1
    )
    one = weighted_program(
        StanProgram.from_code(code.format(prior=PRIOR, row=ROW, log_lik=LOG_LIK))
    )
    with pytest.raises(DataError) as raised:
        check_identities(one, engine, one.check({**data(), "u": [0.5, 0.6]}))
    assert "row" not in str(raised.value)


GAUSSIAN_PROCESS = """
data {
  int<lower=1> N; int<lower=1> J; array[N] int<lower=1, upper=J> g; array[N] int y;
  array[J] real x;
}
parameters { real mu; real<lower=0> alpha; real<lower=0> rho; vector[J] z; }
transformed parameters {
  vector[J] f;
  { matrix[J, J] K = gp_exp_quad_cov(x, alpha, rho);
    for (j in 1:J) K[j, j] += 1e-12;
    f = cholesky_decompose(K) * z; }
}
model {
  mu ~ normal(0, 2); alpha ~ normal(0, 1); rho ~ inv_gamma(5, 5); z ~ std_normal();
  y ~ poisson_log(mu + f[g]);
}"""


def test_gradients_that_know_few_digits_are_compared_in_these(engine: Engine) -> None:
    """The Cholesky factor of a nearly singular matrix, as brms writes ``gp(x)``."""
    rng = np.random.default_rng(3)
    g = rng.integers(1, 16, 900)
    values = {"J": 15, "g": g, "y": rng.poisson(1.5, 900), "x": np.linspace(0, 1, 15)}
    with sc.CoresetModel(stan_code=GAUSSIAN_PROCESS, engine="stanli") as model:
        errors = model.identities(values).set_index("name")
        adopted, checked = model._adopted, model.read(values)
    assert errors.passed.all()
    # Another program differs in the first digits.
    other = GAUSSIAN_PROCESS.replace("std_normal()", "normal(0, 0.01)")
    found = check_identities(
        adopted.weighted, engine, checked, original=StanProgram.from_code(other)
    )
    failed = {row.name for row in found if not row.passed}
    assert failed == {"original", "original gradient"}


def test_digits_that_stan_leaves_out_of_logits_are_no_failure() -> None:
    """Beyond ±20 Stan's Bernoulli density is linear in the logit, which leaves out e⁻²⁰ = 2e-9."""
    code = """data { int N; array[N] int<lower=0, upper=1> y; vector[N] x; }
    parameters { real a; }
    model { a ~ normal(0, 1); y ~ bernoulli_logit(20.2 * x + a); }"""
    data = {"N": 100, "y": np.zeros(100, dtype=int), "x": np.ones(100)}
    with sc.CoresetModel(stan_code=code, engine="stanli") as model:
        errors = model.identities(data).set_index("name")
    assert errors.passed.all()
    assert 1e-9 < errors.error["original gradient"] < 2.1e-9


def test_numbers_beyond_the_digits_of_sums_are_the_likely_cause():
    """One cell lacks its decimal point: theta and log1p_exp(theta) differ by less than rounding."""
    code = """data { int N; array[N] int y; vector[N] dose; } parameters { real a; real b; }
    model { y ~ binomial_logit(9, a + b * dose); a ~ normal(0, 2); b ~ normal(0, 2); }"""
    rng = np.random.default_rng(0)
    data = {"N": 20, "y": rng.integers(0, 9, 20), "dose": rng.normal(size=20)}
    data["dose"][7], data["y"][7] = -1.8e15, 9
    with (
        sc.CoresetModel(stan_code=code, engine="stanli") as model,
        pytest.raises(IdentityError, match=r"Likely cause: 'dose' reaches 1\.8e\+15, .* units"),
    ):
        check_adopted(model._adopted, model.engine, model.read(data), require_identities, seed=1)
