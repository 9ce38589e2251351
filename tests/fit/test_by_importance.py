"""Draws of the posterior by weights of all parameters, where rows tell one of them by its tail."""

from __future__ import annotations

from contextlib import closing
from itertools import pairwise

import numpy as np
import pytest
from agreement import CERTIFIED, assert_agree, of_draws
from problems import INFLATED_CODE, OVERDISPERSED_CODE, plain_counts
from scipy import integrate, stats
from seeds import reseeded

import stancoreset as sc
from stancoreset.engines.stanli import StanliEngine
from stancoreset.errors import NoCoresetError
from stancoreset.fit import by_importance
from stancoreset.posterior import arviz


@pytest.mark.fit
@pytest.mark.parametrize("seed", [1, 2])
def test_a_tail_that_rows_without_zeros_leave_is_that_of_quadrature(seed, tmp_path):
    """No row is zero, so that the inflation is independent of all else: its density is known."""
    data = plain_counts(2_000, 20, 3.5, seed)
    assert np.min(data["y"]) > 0
    with sc.CoresetModel(stan_code=INFLATED_CODE) as model:
        fit = model.fit(data, seed=reseeded(seed), output_dir=tmp_path)
        again = model.fit(data, seed=reseeded(seed), output_dir=tmp_path, resume=True)
    assert fit.certificate.verdict == "certified"
    assert str(fit.way) == "integrals → no rows → independent draws → weights"
    drawn = arviz.variables_of(fit.posterior)["azi"]
    np.testing.assert_array_equal(drawn, arviz.variables_of(again.posterior)["azi"])

    def density(azi: float) -> float:
        log_lik = -2_000 * np.logaddexp(0, azi)
        return float(np.exp(stats.t.logpdf(azi / 2.5, 3) + log_lik))

    edges = [-np.inf, -30, -15, -10, -8, -7, -6, 3]
    shares = np.array([integrate.quad(density, *ends)[0] for ends in pairwise(edges)])
    ours = np.histogram(drawn, edges)[0] / drawn.size
    # Draws are worth a quarter of 4,000 independent ones at least: 1.6 percentage points of ½.
    np.testing.assert_allclose(ours, shares / shares.sum(), atol=4.5 * 0.016)
    with pytest.raises(NoCoresetError, match="all parameters weighted together; give size="):
        _ = fit.coreset
    assert fit.made_of == "2,000 rows, with all parameters weighted together"
    assert "Posterior of" in (tmp_path / "report.md").read_text()


@pytest.mark.fit
@pytest.mark.parametrize(
    ("code", "rows"),
    [(OVERDISPERSED_CODE, 1_000), pytest.param(INFLATED_CODE, 1_500, marks=pytest.mark.slow)],
)
def test_fits_are_those_of_nuts_on_all_rows(code, rows):
    """By stanli of the program as written: nothing woven is in it."""
    data = plain_counts(rows, 10, 1.2, 4)
    with sc.CoresetModel(stan_code=code) as model:
        fit = model.fit(data, seed=reseeded(1))
    with closing(StanliEngine().compile(code).bind(data)) as bound:
        full = bound.sample(chains=2, iter_sampling=1_000, seed=reseeded(2)).variables
    assert fit.certificate.verdict == "certified"
    names = ("a", "b", "s")
    assert_agree(of_draws(fit.posterior, *names), of_draws(full, *names), within=CERTIFIED)
    ours, theirs = (
        {"log_phi": np.log(v["phi"])} if "phi" in v else {"azi": np.maximum(v["azi"], -30)}
        for v in (arviz.variables_of(fit.posterior), full)
    )
    assert_agree(of_draws(ours), of_draws(theirs), within=CERTIFIED)


@pytest.mark.fit
def test_weights_that_are_worth_too_little_leave_the_fit_as_it_was(monkeypatch):
    data = plain_counts(1_000, 10, 1.2, 4)
    monkeypatch.setattr(by_importance, "MOST", 1)
    with sc.CoresetModel(stan_code=OVERDISPERSED_CODE) as model:
        fit = model.fit(data, seed=reseeded(1), max_rounds=1)
    assert not fit.reference.is_integrated
    assert fit.coreset.n_obs == 1_000


def test_a_parameter_that_explains_what_is_left_is_found():
    """By ranks: one draw in a tail leaves a hundred times more than all others."""
    rng = np.random.default_rng(3)
    draws = rng.normal(size=(100, 5))
    left = np.exp(2 * draws[:, 3]) + 0.1 * rng.normal(size=100)
    left[np.argmax(draws[:, 3])] = 1e4
    shares = by_importance._explained(draws, left)
    assert np.argmax(shares) == 3
    assert shares[3] > 0.8
    assert np.delete(shares, 3).max() < 0.3
