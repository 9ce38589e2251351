"""Rows that alone tell of a parameter are candidates, however few they are among all rows."""

from __future__ import annotations

import numpy as np
import pytest
from seeds import reseeded

pytest.importorskip("stanli")

import stancoreset as sc
from stancoreset.fit import selecting

# Times to failure, of which a share never fails: no generalised linear model.
CURED = """
data { int N; vector[N] t; array[N] int d; vector[N] arm; }
parameters { real g; real b; real b_arm; real<lower=0> k; }
model {
  g ~ normal(0, 1); b ~ normal(0, 1); b_arm ~ normal(0, 1); k ~ lognormal(0, 0.3);
  for (n in 1:N) {
    real s = exp(b + b_arm * arm[n]);
    if (d[n] == 1) target += log1m_inv_logit(g) + weibull_lpdf(t[n] | k, s);
    else target += log_sum_exp(log_inv_logit(g), log1m_inv_logit(g) + weibull_lccdf(t[n] | k, s));
  }
}
"""


@pytest.mark.fit
@pytest.mark.parametrize("seed", [1, 3])
def test_three_rows_of_an_arm_are_selected(seed, monkeypatch) -> None:
    """The first time that rows are selected: two events, and a time that is only censored."""
    pools = []
    pool_of = selecting._pool

    def pool(*given):
        rows, bound = pool_of(*given)
        pools.append(rows)
        return rows, bound

    monkeypatch.setattr(selecting, "_pool", pool)
    rng = np.random.default_rng(1)
    n = 12_000
    arm = np.zeros(n)
    few = np.sort(rng.choice(n, 3, replace=False))
    arm[few] = 1
    wait = np.exp(0.3 * arm) * rng.weibull(1.3, n)
    wait[rng.random(n) < 0.4] = np.inf
    data = {"N": n, "t": np.minimum(wait, 3.0), "d": (wait < 3).astype(int), "arm": arm}
    with sc.CoresetModel(stan_code=CURED, engine="stanli") as model:
        fit = model.fit(data, seed=reseeded(seed), show_progress=False)
    assert [set(few) <= set(rows) for rows in pools] == [True]
    assert set(few) <= set(fit.coreset.indices)
    assert fit.coreset.size < 25
    assert fit.certificate.verdict == "certified"
    assert fit.certificate.efficiency > 0.99
