"""The Gibbs sampler that is a witness of centred slopes has witnesses itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from agreement import assert_agree, of_draws
from pairs.cases import GROUPS
from pairs.simulated import centred_logistic_slopes, centred_slopes
from scipy import stats
from seeds import reseeded
from slopes_gibbs import Given, slopes_gibbs

import stancoreset as sc


def test_coefficients_integrate_out_as_in_the_normal_distribution_of_all_rows():
    """Their covariance is dense here, and priors are SciPy's."""
    data = centred_slopes(30, 1, 4)
    x, y = data["x"], data["y"]
    same = data["jj"][:, None] == data["jj"]
    given = replace(Given.of(data, np.ones(30), y), count=30, square=y @ y)

    def density(t):
        tau, rho, sigma = np.exp(t[:2]), np.tanh(t[2]), np.exp(t[3])
        spread = np.outer(tau, tau) * np.array([[1.0, rho], [rho, 1.0]])
        of_rows = same * (x @ spread @ x.T) + 25.0 * x @ x.T + sigma**2 * np.eye(30)
        prior = stats.halfcauchy(scale=2.5).logpdf(tau).sum()
        prior += stats.beta(2, 2).logpdf(0.5 * (1 + rho))
        jacobian = t[0] + t[1] + np.log1p(-(rho**2)) + t[3]
        return stats.multivariate_normal(cov=of_rows).logpdf(y) + prior + jacobian

    points = np.random.default_rng(2).normal(size=(6, 4))
    apart = [given.at(t)[0] - density(t) for t in points]
    np.testing.assert_allclose(apart, apart[0], atol=1e-8)


@pytest.mark.fit
@pytest.mark.slow
@pytest.mark.parametrize("simulated", [centred_slopes, centred_logistic_slopes])
def test_draws_are_those_of_nuts_on_few_rows(simulated):
    pytest.importorskip("polyagamma")
    data = simulated(600, 3, 15)
    with sc.CoresetModel(GROUPS[f"groups_{simulated.__name__}"].program, engine="stanli") as model:
        full = model.sample(data, chains=2, iter_warmup=500, iter_sampling=2_000, seed=reseeded(4))
    found = slopes_gibbs(data, 8_000, seed=reseeded(5))
    drawn = dict(sc.posterior.arviz.variables_of(full))
    assert_agree(of_draws(found), of_draws(drawn | {"Omega": drawn["Omega"][..., 0, 1]}, *found))
