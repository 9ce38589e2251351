"""Moment matching against targets whose moments are known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal, multivariate_t

from stancoreset.errors import CertificateError, DataError
from stancoreset.posterior.certificate import certify
from stancoreset.posterior.moment_matching import moment_match

P = 4
COV = np.array(
    [[1.0, 0.8, 0.2, 0.0], [0.8, 2.0, 0.3, 0.1], [0.2, 0.3, 0.5, -0.2], [0.0, 0.1, -0.2, 3.0]]
)
TARGET = multivariate_normal(np.array([1.0, -1.0, 0.5, 0.0]), COV)


def check_moments(match, mean, cov, sd_error: float) -> None:
    """Weighted mean within `sd_error` sds, weighted sds within 10 %."""
    sd = np.sqrt(np.diag(cov))
    got = match.weights @ match.draws
    assert np.max(np.abs(got - mean) / sd) < sd_error
    spread = np.sqrt(match.weights @ (match.draws - got) ** 2)
    np.testing.assert_allclose(spread, sd, rtol=0.1)


@pytest.mark.parametrize(
    ("shift", "stretch", "expected"),
    [
        (np.array([3.0, 0.0, 0.0, 0.0]), np.ones(P), "mean"),
        (np.zeros(P), np.array([0.5, 1.0, 0.5, 0.6]), "scale"),
        (np.array([1.0, -1.0, 0.5, 1.5]), np.array([0.6, 0.7, 0.6, 0.7]), "mean"),
    ],
)
def test_a_shifted_or_narrow_gaussian_is_matched(shift, stretch, expected):
    cov = COV * np.outer(stretch, stretch)
    proposal = multivariate_normal(TARGET.mean + shift, cov)
    draws = proposal.rvs(4_000, random_state=1)
    match = moment_match(draws, TARGET.logpdf, proposal.logpdf)
    assert match.khat_before > 0.5
    assert match.khat <= 0.5
    assert expected in match.maps
    check_moments(match, TARGET.mean, COV, 0.1)
    # the raw weights are those that certify judges
    np.testing.assert_allclose(certify(match.log_weights).khat, match.khat)


def test_a_wrongly_correlated_gaussian_needs_the_covariance():
    proposal = multivariate_normal(TARGET.mean, np.diag(np.diag(COV)) * 0.5)
    draws = proposal.rvs(6_000, random_state=2)
    match = moment_match(draws, TARGET.logpdf, proposal.logpdf)
    assert match.khat < match.khat_before
    assert "covariance" in match.maps
    check_moments(match, TARGET.mean, COV, 0.1)


def test_weights_stay_exact_under_the_maps():
    """log w = log p(θ') − log g(T⁻¹θ') + log|det A|: integrates to the target's normaliser."""
    proposal = multivariate_normal(TARGET.mean + 1.5, COV * 0.6)
    draws = proposal.rvs(20_000, random_state=3)
    match = moment_match(draws, lambda t: TARGET.logpdf(t) + 7.0, proposal.logpdf)
    assert match.maps
    top = match.log_weights.max()
    assert top + np.log(np.mean(np.exp(match.log_weights - top))) == pytest.approx(7.0, abs=0.03)


def test_a_heavy_tailed_target():
    target = multivariate_t(np.full(2, 2.0), np.eye(2), df=6)
    proposal = multivariate_normal(np.zeros(2), np.eye(2))
    match = moment_match(proposal.rvs(4_000, random_state=4), target.logpdf, proposal.logpdf)
    assert match.khat < match.khat_before
    assert np.max(np.abs(match.weights @ match.draws - 2.0)) < 0.15


def test_good_draws_are_left_alone():
    draws = TARGET.rvs(1_000, random_state=5)
    match = moment_match(draws, TARGET.logpdf, TARGET.logpdf)
    assert match.maps == ()
    assert match.evaluations == 1_000
    np.testing.assert_array_equal(match.draws, draws)
    assert match.ess == pytest.approx(1_000)


def test_known_weights_are_not_computed_again():
    proposal = multivariate_normal(TARGET.mean + 2.0, COV)
    draws = proposal.rvs(2_000, random_state=6)
    seen: list[int] = []

    def target(t):
        seen.append(len(t))
        return TARGET.logpdf(t)

    known = TARGET.logpdf(draws) - proposal.logpdf(draws)
    one = moment_match(draws, target, proposal.logpdf(draws), log_weights=known)
    two = moment_match(draws, TARGET.logpdf, proposal.logpdf)
    np.testing.assert_allclose(one.draws, two.draws)
    assert one.evaluations == sum(seen) == two.evaluations - 2_000


def test_rounds_are_bounded():
    proposal = multivariate_normal(np.full(P, 40.0), COV)
    draws = proposal.rvs(500, random_state=7)
    match = moment_match(draws, TARGET.logpdf, proposal.logpdf, max_rounds=2)
    assert match.evaluations <= 3 * 500
    assert match.khat > 0.7


def test_a_target_that_is_zero_in_places():
    proposal = multivariate_normal(np.zeros(1), np.eye(1))
    draws = proposal.rvs(2_000, random_state=8)[:, None]

    def half(t):  # N(1, 1/4) cut at zero; its mean is 1 + 0.5·φ(2)/Φ(2)
        with np.errstate(divide="ignore"):
            return np.where(t[:, 0] > 0, -2 * (t[:, 0] - 1) ** 2, -np.inf)

    match = moment_match(draws, half, proposal.logpdf, khat_goal=0.2)
    exact = 1 + 0.5 * np.exp(-2) / np.sqrt(2 * np.pi) / 0.97724987
    assert match.weights @ match.draws[:, 0] == pytest.approx(exact, abs=0.05)


@pytest.mark.parametrize(
    ("draws", "proposal", "words"),
    [
        (np.zeros(9), np.zeros(9), r"shape \(9,\), expected \(S, P\)"),
        (np.full((9, 2), np.nan), np.zeros(9), "NaN or infinite"),
        (np.zeros((9, 2)), np.zeros(8), r"log_proposal has shape \(8,\)"),
        (np.zeros((9, 2)), np.full(9, -np.inf), "log_proposal"),
    ],
)
def test_unusable_input_is_refused(draws, proposal, words):
    with pytest.raises(DataError, match=words):
        moment_match(draws, lambda t: np.zeros(len(t)), proposal)


def test_no_overlap_is_an_error():
    with pytest.raises(CertificateError, match="do not overlap"):
        moment_match(np.zeros((200, 1)), lambda t: np.full(len(t), -np.inf), np.zeros(200))
