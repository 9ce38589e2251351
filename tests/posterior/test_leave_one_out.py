"""Leave-one-out cross-validation: against exact refits in closed form, ArviZ, and repetition."""

from __future__ import annotations

import inspect

import arviz as az
import numpy as np
import pytest
from scipy.stats import norm

import stancoreset as sc
from stancoreset.errors import DataError, OptionError, StancoresetError
from stancoreset.posterior import arviz as arviz_compat
from stancoreset.posterior import leave_one_out

N, S = 200, 4_000


def normal_rows(n=N, draws=S, seed=0):
    """y_n ~ N(μ, 1), μ ~ N(0, 1): log likelihoods (S, n) at draws of the posterior of μ."""
    rng = np.random.default_rng(seed)
    y = rng.normal(0.3, 1, n)
    mu = rng.normal(y.sum() / (n + 1), (n + 1) ** -0.5, draws)
    return y, mu, norm.logpdf(y, mu[:, None], 1)


def blocks(log_lik, rows=None, size=37):
    rows = np.arange(log_lik.shape[1]) if rows is None else rows
    return [(rows[a : a + size], log_lik[:, a : a + size]) for a in range(0, len(rows), size)]


def test_each_row_left_out_in_closed_form():
    """p(y_n | all others) = N(m, 1 + 1/N) with m the posterior mean of N − 1 rows."""
    y, _, log_lik = normal_rows()
    found = leave_one_out(blocks(log_lik), N)
    mean = (y.sum() - y) / N
    exact = norm.logpdf(y, mean, np.sqrt(1 + 1 / N))
    np.testing.assert_allclose(found.elpd_i, exact, atol=0.01)
    assert found.elpd == pytest.approx(exact.sum(), abs=0.1)
    assert found.se == pytest.approx(np.sqrt(N) * exact.std(ddof=1), rel=0.01)
    assert found.p == pytest.approx(1.0, abs=0.15)  # one parameter
    assert found.bad == 0


def test_arviz_says_the_same():
    _, mu, log_lik = normal_rows(draws=1_200)
    chains = mu.reshape(4, -1)
    container = arviz_compat.add_group(
        arviz_compat.posterior_container({"mu": chains}),
        "log_likelihood",
        {"y": log_lik.reshape(4, -1, N)},
        dims={"y": ["row"]},
    )
    theirs = az.loo(container, pointwise=True)
    share = float(arviz_compat.ess(chains, method="mean")) / chains.size
    ours = leave_one_out(blocks(log_lik), N, relative_efficiency=share)
    new = hasattr(theirs, "elpd")  # ArviZ 1.x
    assert ours.elpd == pytest.approx(float(theirs.elpd if new else theirs.elpd_loo), abs=1e-8)
    # ArviZ 0.23 divides by N where 1.x divides by N − 1.
    assert ours.se == pytest.approx(float(theirs.se) * (1 if new else (N / (N - 1)) ** 0.5))
    assert ours.p == pytest.approx(float(theirs.p if new else theirs.p_loo), abs=1e-8)
    np.testing.assert_allclose(ours.khat, np.ravel(theirs.pareto_k), atol=1e-8)
    np.testing.assert_allclose(ours.elpd_i, np.ravel(theirs.elpd_i if new else theirs.loo_i))


@pytest.mark.slow
def test_errors_of_samples_are_what_repetition_shows():
    """Estimates from random rows scatter around the sum of all rows as they say they do."""
    y, mu, log_lik = normal_rows(1_000, 500)
    everything = leave_one_out(blocks(log_lik), 1_000)
    near = norm.logpdf(y, mu.mean(), 1)
    rng = np.random.default_rng(3)
    found = []
    for _ in range(200):
        rows = np.sort(rng.choice(1_000, size=100, replace=False))
        found.append(
            leave_one_out(blocks(log_lik[:, rows], rows), 1_000, approximate=near + 0.05 * y)
        )
    elpds = np.array([f.elpd for f in found])
    claimed = np.sqrt(np.mean([f.sampling_se**2 for f in found]))
    assert abs(elpds.mean() - everything.elpd) < 4 * claimed / np.sqrt(200)
    assert elpds.std() == pytest.approx(claimed, rel=0.2)
    assert np.mean([f.se for f in found]) == pytest.approx(everything.se, rel=0.02)
    # Terms at the posterior mean are much nearer than none.
    plain = leave_one_out(blocks(log_lik[:, rows], rows), 1_000)
    best = leave_one_out(blocks(log_lik[:, rows], rows), 1_000, approximate=near)
    assert best.sampling_se < 0.1 * plain.sampling_se


def test_comparison_as_arviz_has_it():
    y, mu, log_lik = normal_rows(draws=1_000)
    other = norm.logpdf(y, mu[:, None], 1.3)
    models = {"wide": other, "right": log_lik}
    table = sc.loo_compare({k: leave_one_out(blocks(v), N) for k, v in models.items()})
    assert list(table.index) == ["right", "wide"]
    difference = leave_one_out(blocks(other), N).elpd_i - leave_one_out(blocks(log_lik), N).elpd_i
    assert table.loc["wide", "elpd_diff"] == pytest.approx(difference.sum())
    assert table.loc["wide", "se_diff"] == pytest.approx(np.sqrt(N) * difference.std(ddof=1))
    assert table.loc["right", ["elpd_diff", "se_diff", "sampling_se_diff"]].tolist() == [0, 0, 0]
    containers = {
        name: arviz_compat.add_group(
            arviz_compat.posterior_container({"mu": mu[None]}),
            "log_likelihood",
            {"y": values[None]},
            dims={"y": ["row"]},
        )
        for name, values in models.items()
    }
    new = "round_to" in inspect.signature(az.compare).parameters
    theirs = az.compare(containers, **({"round_to": "none"} if new else {}))
    assert list(theirs.index) == list(table.index)
    assert abs(theirs.loc["wide", "elpd_diff"]) == pytest.approx(-difference.sum(), rel=1e-3)
    assert theirs.loc["wide", "dse"] == pytest.approx(table.loc["wide", "se_diff"], rel=0.01)


def test_a_difference_of_samples_knows_its_error():
    """Two models that differ by a constant: no error remains, whatever the rows."""
    y, mu, log_lik = normal_rows(1_000, 400)
    rows = np.arange(0, 1_000, 20)
    near = norm.logpdf(y, mu.mean(), 1)
    both = {
        name: leave_one_out(blocks(log_lik[:, rows] - less, rows), 1_000, approximate=near - less)
        for name, less in (("good", 0.0), ("bad", 0.2))
    }
    row = sc.loo_compare(both).loc["bad"]
    assert row["elpd_diff"] == pytest.approx(-200.0)
    assert row["sampling_se_diff"] == pytest.approx(0.0, abs=1e-9)
    assert row["se_diff"] == pytest.approx(0.0, abs=1e-4)


def test_bad_input():
    _, _, log_lik = normal_rows(20, 200)
    ours = leave_one_out(blocks(log_lik), 20)
    log_lik[5, 7] = -np.inf
    with pytest.raises(DataError, match="row 7 is not finite"):
        leave_one_out(blocks(log_lik), 20)
    others = leave_one_out(blocks(normal_rows(21, 200)[2]), 21)
    for models in ({"a": ours, "b": others}, {"a": others, "b": ours}):  # whichever is the best
        with pytest.raises(OptionError, match="same rows"):
            sc.loo_compare(models)
    with pytest.raises(OptionError, match="empty"):
        sc.loo_compare({})
    with pytest.raises(StancoresetError, match=r"what model\.loo returns"):
        sc.loo_compare({"a": 3.0})
