"""Posteriors with their importance weights applied, as ArviZ reads them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from stancoreset.errors import CertificateError, DataError, OptionError
from stancoreset.posterior import arviz as arviz_compat
from stancoreset.posterior.arviz import (
    attrs_of,
    group_of,
    groups_of,
    posterior_container,
    sample_stats_of,
    variables_of,
)
from stancoreset.posterior.certificate import certify
from stancoreset.posterior.corrected import corrected_posterior, systematic_resample
from stancoreset.runs.fit import CoresetFit


def shifted(shift: float = 0.5, seed: int = 0):
    """Draws of N(0, 1) in four chains, certified for N(shift, 1)."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(4, 1_000))
    posterior = posterior_container(
        {"x": x, "both": np.stack([x, -x], axis=-1)},
        {"lp": -0.5 * x**2},
        constant_data={"coreset_row": np.arange(5)},
        coords={"side": ["right", "left"]},
        dims={"both": ["side"]},
        attrs={"seed": seed},
    )
    index = np.arange(0, 4_000, 2)
    log_weights = shift * x.ravel()[index]
    return posterior, certify(log_weights, heldout_error=0.01, draw_index=index)


def test_resampled_draws_have_the_full_posteriors_moments():
    posterior, certificate = shifted()
    assert certificate.verdict == "corrected"
    found = corrected_posterior(posterior, certificate)
    values = variables_of(found)
    assert values["x"].shape == (1, 2_000)
    assert values["x"].mean() == pytest.approx(0.5, abs=0.06)
    assert values["x"].std() == pytest.approx(1.0, abs=0.06)
    assert abs(variables_of(posterior)["x"].mean()) < 0.05
    np.testing.assert_allclose(values["both"][..., 1], -values["x"])
    np.testing.assert_allclose(sample_stats_of(found)["lp"], -0.5 * values["x"] ** 2)
    # labels, data and provenance stay
    assert list(group_of(found, "posterior")["side"].to_numpy()) == ["right", "left"]
    assert "coreset_row" in group_of(found, "constant_data")
    assert attrs_of(found)["seed"] == 0
    assert attrs_of(found)["corrected"] == "resampled"
    assert attrs_of(found)["pareto_khat"] == certificate.khat


def test_weighted_draws_carry_their_weights():
    posterior, certificate = shifted()
    found = corrected_posterior(posterior, certificate, resample=False)
    x = variables_of(found)["x"]
    weights = sample_stats_of(found)["importance_weight"]
    assert x.shape == weights.shape == (1, 2_000)
    assert weights.sum() == pytest.approx(1.0)
    assert np.sum(weights * x) == pytest.approx(certificate.expectation(x[0]))


def test_arviz_counts_copies_as_copies():
    posterior, certificate = shifted(0.8)
    many = corrected_posterior(posterior, certificate, resample=20_000)
    assert variables_of(many)["x"].shape == (1, 20_000)
    table = arviz_compat.summary(many)
    assert table.loc["x", "ess_bulk"] < 4_000
    assert "both[left]" in table.index


def test_a_certified_posterior_is_left_alone():
    posterior, _ = shifted()
    fine = certify(np.zeros(4_000), heldout_error=0.01)
    assert corrected_posterior(posterior, fine) is posterior


def test_a_rejected_posterior_cannot_be_corrected():
    posterior, _ = shifted()
    poor = certify(20 * np.random.default_rng(0).standard_cauchy(4_000), heldout_error=0.01)
    assert poor.verdict == "rejected"
    with pytest.raises(CertificateError, match=r"rejected.*larger size="):
        corrected_posterior(posterior, poor)


def test_bad_input_is_refused():
    posterior, certificate = shifted()
    with pytest.raises(OptionError, match="resample is -1"):
        corrected_posterior(posterior, certificate, resample=-1)
    few = posterior_container({"x": np.zeros((1, 50))})
    with pytest.raises(DataError, match=r"50 draws: it is not the posterior"):
        corrected_posterior(few, certificate)


def test_systematic_resampling_is_exact_to_one_copy():
    weights = np.random.default_rng(1).dirichlet(np.full(50, 0.3))
    counts = np.bincount(systematic_resample(weights, 700), minlength=50)
    assert counts.sum() == 700
    assert np.max(np.abs(counts - 700 * weights)) <= 1


def test_a_fits_summary_is_that_of_the_corrected_posterior():
    posterior, certificate = shifted()
    fit = CoresetFit(
        selected=SimpleNamespace(),
        posterior=posterior,
        certificate=certificate,
        reference=SimpleNamespace(),
        laplace=None,
        timings={},
        settings={},
        provenance={},
    )
    assert fit.summary().loc["x", "mean"] == pytest.approx(0.5, abs=0.06)
    assert set(groups_of(fit.corrected())) == {"posterior", "sample_stats", "constant_data"}
