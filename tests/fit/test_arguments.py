"""Effects inside a function that bends: the rows' log likelihood is quadratic in its argument."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import CERTIFIED, assert_agree, of_draws
from seeds import reseeded

import stancoreset as sc
from stancoreset.reference import ITERATED

CODE = """
data { int N; int J; array[N] int<lower=1, upper=J> g; vector[N] x; vector[N] y; }
parameters { real mu; real<lower=0> sd; vector[J] z; real<lower=0> sigma; }
model {
  mu ~ normal(0, 1); sd ~ normal(0, 1); z ~ std_normal(); sigma ~ normal(0, 1);
  for (n in 1:N) y[n] ~ normal(exp(mu + sd * z[g[n]]) * x[n], sigma);
}"""


@pytest.mark.fit
def test_the_reference_has_independent_draws_and_the_fit_is_that_of_all_rows():
    """The rows see ``mu + sd * z`` of each group, against NUTS on all rows."""
    rng, count, groups = np.random.default_rng(3), 1_500, 10
    group, x = rng.integers(0, groups, count), rng.uniform(size=count)
    rate = np.exp(0.3 + 0.6 * rng.normal(size=groups))
    data = {"N": count, "J": groups, "g": group + 1, "x": x}
    data["y"] = rng.normal(rate[group] * x, 0.7)
    with sc.CoresetModel(stan_code=CODE, engine="stanli") as model:
        fit = model.fit(data, seed=reseeded(1), show_progress=False)
        assert set(model.seen) == {"sigma", "mu_sd_z"}
        full = model.sample(data, chains=2, seed=reseeded(2), show_progress=False)
    assert fit.reference.method == ITERATED
    assert not fit.reference.by_chains
    assert fit.certificate.verdict == "certified"
    names = ("mu", "sd", "sigma", "z")
    assert_agree(of_draws(fit.posterior, *names), of_draws(full, *names), within=CERTIFIED)
