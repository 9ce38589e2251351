"""The certificate against closed forms and against the verdict's own rule."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import cauchy, gamma, norm, t

from stancoreset.errors import CertificateError, StancoresetError
from stancoreset.posterior import faults
from stancoreset.posterior.arviz import MonteCarlo
from stancoreset.posterior.certificate import certify, leaves_no_doubt
from stancoreset.posterior.faults import WeightsAndChains, WeightsMove
from stancoreset.posterior.importance import moved_by, reliable_khat


def gaussian_weights(shift: float, scale: float, draws: int = 4_000, seed: int = 0):
    """Draws of N(0, 1) and log weights to N(shift, scale²)."""
    theta = np.random.default_rng(seed).standard_normal(draws)
    log_p = -0.5 * ((theta - shift) / scale) ** 2
    return theta, log_p + 0.5 * theta**2


def test_equal_posteriors_are_certified_exactly():
    certificate = certify(np.full(1000, 3.7), heldout_error=0.0)
    assert certificate.verdict == "certified"
    assert certificate.ess == pytest.approx(1000)
    assert certificate.reasons == ()


def test_corrected_expectations_match_the_closed_form():
    theta, log_weights = gaussian_weights(shift=0.5, scale=0.9)
    certificate = certify(log_weights, heldout_error=0.01)
    assert certificate.expectation(theta) == pytest.approx(0.5, abs=0.05)
    assert certificate.expectation(theta**2) == pytest.approx(0.5**2 + 0.9**2, abs=0.08)


def test_ess_matches_the_closed_form_for_a_shifted_gaussian():
    # For unit scale E[r]² / E[r²] = exp(−shift²).
    _, log_weights = gaussian_weights(shift=0.4, scale=1.0, draws=20_000)
    certificate = certify(log_weights, heldout_error=0.01)
    assert certificate.ess / 20_000 == pytest.approx(np.exp(-(0.4**2)), abs=0.02)


def test_a_narrow_coreset_posterior_is_rejected():
    # The full posterior is three times as wide: the weights' variance is infinite.
    _, log_weights = gaussian_weights(shift=0.0, scale=3.0)
    certificate = certify(log_weights, heldout_error=0.01)
    assert certificate.verdict == "rejected"
    assert certificate.khat > 0.7


def test_a_large_heldout_error_forbids_certified_but_not_corrected():
    _, log_weights = gaussian_weights(shift=0.05, scale=1.0)
    assert certify(log_weights, heldout_error=0.01).verdict == "certified"
    certificate = certify(log_weights, heldout_error=0.5)
    assert certificate.verdict == "corrected"
    assert "held-out error 0.5" in certificate.reasons[0]
    assert certify(log_weights).verdict == "corrected"


def test_khat_counts_for_less_where_weights_hardly_vary():
    """k̂ is blind to scale: heavy-tailed noise of no size is no reason to reject."""
    heavy = np.random.default_rng(1).standard_t(1.1, size=1_000)
    assert certify(0.5 * heavy, heldout_error=0.01).verdict == "rejected"
    tiny = certify(1e-7 * heavy, heldout_error=0.01)
    assert tiny.khat > 0.5
    assert tiny.verdict == "certified"


def test_the_bound_on_khat_is_that_of_arviz():
    import arviz as az

    rng = np.random.default_rng(0)
    for draws in (250, 1_000, 5_000):
        log_lik = rng.normal(size=(1, draws, 3))
        groups = {"posterior": {"x": log_lik}, "log_likelihood": {"y": log_lik}}
        old = az.__version__ < "1"
        found = az.loo(az.from_dict(**groups) if old else az.from_dict(groups))
        assert reliable_khat(draws) == pytest.approx(found.good_k)


def test_tails_of_infinite_variance_hardly_ever_hide_an_error():
    """Targets with Student's tails and skew ones, by normal draws; errors in closed form."""
    rng = np.random.default_rng(2)
    errors = []
    for trial in range(1_200):
        shift, factor = rng.uniform(-0.2, 0.2), rng.uniform(0.8, 1.2)
        if trial % 2:
            freedom = rng.uniform(3, 40)
            target = t(freedom, scale=np.sqrt(1 - 2 / freedom))
        else:
            shape = rng.uniform(4, 200)
            target = gamma(shape, loc=-np.sqrt(shape), scale=1 / np.sqrt(shape))
        draws = shift + factor * rng.normal(size=1_000)
        log_weights = np.maximum(target.logpdf(draws) - norm.logpdf(draws, shift, factor), -1e3)
        found = certify(log_weights, 0.01, moved=moved_by(log_weights, draws[:, None]))
        if found.verdict == "certified" and 0.5 < found.khat < 0.7:
            errors.append(max(abs(shift), abs(factor - 1)))
    assert len(errors) > 12
    assert np.mean(np.array(errors) > 0.1) < 0.05
    assert max(errors) < 0.15  # which is measured to 0.03


def test_the_bound_on_means_holds():
    """|E_full f − E_coreset f| ≤ sd(f) · (n/ESS − 1)^½."""
    theta, log_weights = gaussian_weights(shift=0.3, scale=0.95)
    certificate = certify(log_weights, heldout_error=0.01)
    bound = np.sqrt(len(theta) / certificate.ess - 1)
    for f in (theta, theta**2, np.sin(theta)):
        off = abs(certificate.expectation(f) - f.mean()) / f.std()
        assert off <= bound + 1e-12


def test_draws_mostly_in_the_wrong_place_are_not_corrected():
    """k̂ is good and the weights are exact, but few draws count, or the rows fit nowhere."""
    _, log_weights = gaussian_weights(shift=1.2, scale=0.5, draws=1_000)
    certificate = certify(log_weights, heldout_error=0.05)
    assert certificate.khat < 0.7
    assert certificate.ess < 0.5 * certificate.n_draws
    assert certificate.verdict == "rejected"
    _, log_weights = gaussian_weights(shift=0.3, scale=0.9, draws=1_000)
    assert certify(log_weights, heldout_error=0.4).verdict == "corrected"
    assert certify(log_weights, heldout_error=0.6).verdict == "rejected"


def test_what_the_weights_move_matches_the_closed_form():
    theta, log_weights = gaussian_weights(shift=0.2, scale=0.95, draws=20_000)
    other = np.random.default_rng(5).standard_normal(20_000)
    mean_shift, sd_change = moved_by(log_weights, np.column_stack([other, theta]))
    assert mean_shift == pytest.approx(0.2, abs=0.01)
    assert sd_change == pytest.approx(0.05, abs=0.01)


def test_weights_too_heavy_by_a_third_are_not_certified_though_most_draws_are_effective():
    """One parameter, precision × 1.3: ESS is 95 %, the standard deviation is 12 % too small."""
    theta, log_weights = gaussian_weights(shift=0.0, scale=np.sqrt(1.3), draws=1_000)
    moved = moved_by(log_weights, theta[:, None])
    certificate = certify(log_weights, heldout_error=0.01, moved=moved)
    assert certificate.ess > 0.9 * certificate.n_draws
    assert certificate.khat < 0.5
    assert certificate.sd_change == pytest.approx(0.14, abs=0.04)
    assert certificate.verdict == "corrected"
    assert "standard deviation" in certificate.reasons[0]


def test_what_the_weights_move_decides_where_it_is_known():
    """Twenty directions, each off by little: no mean or sd is wrong, though ESS is below 99 %."""
    theta = np.random.default_rng(2).standard_normal((1_000, 20))
    log_weights = theta @ np.full(20, 0.035)
    known = certify(log_weights, 0.01, moved=moved_by(log_weights, theta))
    assert 0.9 < known.ess / known.n_draws < 0.99
    assert known.verdict == "certified"
    unknown = certify(log_weights, 0.01)
    assert unknown.verdict == "corrected"
    assert "below the 99 % that" in unknown.reasons[0]


def test_what_few_draws_leave_no_doubt_of_all_draws_certify():
    """Weights that are tilted, bent and noisy, without heavy tails."""
    rng = np.random.default_rng(6)
    nearly_equal, verdicts = 0, []
    for _ in range(400):
        theta = rng.standard_normal((1_000, 8))
        along, bent = rng.standard_normal((2, 8)) / np.sqrt(8)
        noise = rng.standard_normal(1_000)
        kinds = [theta @ along, (theta**2 - 1) @ bent / np.sqrt(2), noise]
        log_weights = 10 ** rng.uniform(-2, -0.5) * rng.dirichlet(np.ones(3)) @ kinds
        few, everything = (
            certify(log_weights[::step], 0.01, moved=moved_by(log_weights[::step], theta[::step]))
            for step in (4, 1)
        )
        if leaves_no_doubt(few):
            verdicts.append(everything.verdict)
            nearly_equal += few.efficiency >= 0.998
    assert verdicts == ["certified"] * len(verdicts)
    assert 100 < nearly_equal < len(verdicts) - 20


@pytest.mark.parametrize(
    ("draws", "efficiency", "khat", "moved", "expected"),
    [
        (250, 0.998, 0.9, 0.061, True),  # 0.07 − 3 (0.002 / 250)^½ = 0.0615
        (250, 0.998, 0.9, 0.062, False),
        (250, 0.96, 0.3, 0.031, True),  # 0.07 − 3 (0.0417 / 250)^½ = 0.0313
        (250, 0.96, 0.3, 0.032, False),
        (250, 0.99, 0.31, 0.01, False),
        (100, 0.998, 0.9, 0.05, True),
        (100, 0.99, 0.3, 0.01, False),  # k̂ is not known
    ],
)
def test_few_draws_are_enough_without_heavy_tails(draws, efficiency, khat, moved, expected):
    noise = np.random.default_rng(0).standard_normal(draws)
    few = certify(0.001 * noise, 0.01, moved=(moved, 0.0))
    assert few.verdict == "certified"
    assert leaves_no_doubt(replace(few, ess=draws * efficiency, khat=khat)) == expected


def test_a_shift_of_heavy_tails_is_seen_though_they_have_no_standard_deviation():
    """Cauchy's distribution moved by one: the mean of its scores, by quadrature."""
    theta = np.random.default_rng(2).standard_cauchy(4_000)
    log_weights = cauchy.logpdf(theta, loc=1.0) - cauchy.logpdf(theta)
    shift, change = moved_by(log_weights, theta[:, None])
    u = (np.arange(200_000) + 0.5) / 200_000
    scores = norm.ppf(cauchy.cdf(cauchy.ppf(u) + 1.0))
    assert shift == pytest.approx(scores.mean(), abs=0.05)
    assert shift > 0.35  # of the draws' own standard deviations it would be hardly any
    assert change == pytest.approx(abs(scores.std() - 1), abs=0.05)
    # Beside it, an ordinary coordinate is judged as it always was.
    other = np.random.default_rng(3).normal(size=4_000)
    small = 0.1 * other
    beside = moved_by(small, np.column_stack([theta, other]))
    assert beside == pytest.approx(moved_by(small, other[:, None]), rel=1e-9)


def test_the_certificate_says_what_is_judged_by_quantiles():
    found = MonteCarlo(0.02, 0.02, 4_000.0, 3_000.0, "hs_local (28 of 30)")
    certificate = certify(0.001 * np.arange(100.0), 0.01, moved=(0.0, 0.0), monte_carlo=found)
    assert certificate.verdict == "certified"
    assert certificate.heavy_tails == "hs_local (28 of 30)"
    assert "judged by quantiles: hs_local (28 of 30)" in str(certificate)
    fact = dict(certificate.facts())["judged by quantiles"]
    assert fact.startswith("hs_local (28 of 30): tails too heavy for a variance")
    assert certificate.describe()["heavy_tails"] == "hs_local (28 of 30)"
    none = certify(np.zeros(100), 0.01)
    assert dict(none.facts())["judged by quantiles"] == ""
    assert none.describe()["heavy_tails"] is None
    assert "quantiles" not in str(none)


def test_chains_that_have_not_mixed_are_rejected_whatever_the_weights():
    """Weights compare densities where the draws are, not how many draws are where."""
    equal = np.zeros(1000)
    assert certify(equal, heldout_error=0.0, rhat=1.02).verdict == "certified"
    apart = certify(equal, heldout_error=0.0, rhat=1.7)
    assert apart.verdict == "rejected"
    assert apart.rhat == 1.7
    assert "R̂ is 1.70, above 1.05" in apart.reasons[0]


def test_constant_shift_changes_nothing():
    _, log_weights = gaussian_weights(shift=0.3, scale=1.0)
    one, two = certify(log_weights), certify(log_weights + 1e4)
    assert one.khat == pytest.approx(two.khat, abs=1e-6)
    np.testing.assert_allclose(one.weights, two.weights, rtol=1e-8)


def test_zero_density_draws_have_no_weight():
    _, log_weights = gaussian_weights(shift=0.1, scale=1.0)
    log_weights[:3] = -np.inf
    certificate = certify(log_weights, heldout_error=0.01)
    np.testing.assert_array_equal(certificate.weights[:3], 0.0)
    assert certificate.weights.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("log_weights", "words"),
    [
        (np.zeros(10), "10 draws are too few"),
        (np.r_[np.zeros(200), np.nan], "draw 200 is nan"),
        (np.r_[np.inf, np.zeros(200)], "draw 0 is inf"),
        (np.full(200, -np.inf), "is -inf"),
    ],
)
def test_bad_log_weights_are_refused(log_weights, words):
    with pytest.raises(CertificateError, match=words):
        certify(log_weights)


@pytest.mark.parametrize("moved", [(0.08, 0.0), (0.0, 0.08)])
def test_a_mean_or_a_standard_deviation_that_moves_is_enough(moved):
    weights = 0.001 * np.random.default_rng(0).standard_normal(1_000)
    found = certify(weights, 0.01, moved=moved)
    assert found.verdict == "corrected"
    assert found.faults == (WeightsMove(0.08, 0.07),)


@pytest.mark.parametrize("means", [True, False])
def test_what_weights_move_and_chains_leave_is_added_for_each_kind(means):
    """0.06 and two errors of 0.025 of the same kind are 0.11; of different kinds 0.08 at most."""
    weights = 0.001 * np.random.default_rng(0).standard_normal(1_000)
    moved, errors = (0.06, 0.03), (0.025, 0.01) if means else (0.01, 0.025)
    found = certify(weights, 0.01, moved=moved, monte_carlo=MonteCarlo(*errors, 400.0, 300.0))
    if means:
        (fault,) = found.faults
        assert isinstance(fault, WeightsAndChains)
        numbers = fault.off, fault.bound, fault.moved, fault.mcse
        assert numbers == pytest.approx((0.11, 0.1, 0.06, 0.025))
    else:
        assert found.verdict == "certified"


@pytest.mark.parametrize("name", ["divergences", "n_transitions"])
@pytest.mark.parametrize("count", [-1, 2.5])
def test_counts_of_transitions_are_whole_numbers(name, count):
    with pytest.raises(StancoresetError, match=name):
        certify(np.zeros(200), **{name: count})


def test_expectation_wants_the_certified_draws():
    certificate = certify(np.zeros(200))
    with pytest.raises(CertificateError, match="200"):
        certificate.expectation(np.zeros(100))


@pytest.mark.parametrize(
    ("moved", "mean", "sd", "verdict", "longer"),
    [
        (0.0, 0.049, 0.049, "certified", False),
        (0.0, 0.051, 0.01, "rejected", True),
        (0.0, 0.01, 0.051, "rejected", True),
        (0.02, 0.039, 0.039, "certified", False),
        (0.02, 0.01, 0.041, "corrected", True),  # the weights mend the one, not the other
        (0.06, 0.019, 0.019, "certified", False),
        (0.06, 0.021, 0.021, "corrected", False),  # it is the rows that have to become better
        (0.06, 0.051, 0.021, "rejected", True),
        (0.08, 0.01, 0.01, "corrected", False),
        (0.08, 0.06, 0.01, "rejected", True),
        (0.0, np.nan, np.nan, "certified", False),
    ],
)
def test_what_weights_move_and_two_standard_errors_stay_within_a_tenth(
    moved, mean, sd, verdict, longer
):
    weights = 0.001 * np.random.default_rng(0).standard_normal(1_000)
    found = MonteCarlo(mean, sd, 400.0, 300.0)
    certificate = certify(weights, 0.01, moved=(moved, moved), monte_carlo=found)
    assert certificate.verdict == verdict
    assert (certificate.longer > 1) == longer
    assert certificate.short == (longer and moved <= 0.07)
    # Chains as much longer are long enough, and not by more than they have to be.
    enough = (
        MonteCarlo(*(np.array([mean, sd]) / np.sqrt(f * certificate.longer))) for f in (1.01, 0.99)
    )
    again = [certify(weights, 0.01, moved=(moved, moved), monte_carlo=e).longer > 1 for e in enough]
    assert again == [False, bool(np.isfinite(mean))]
    if verdict == "rejected":
        assert any("mcse" in r and "iter_sampling" in r for r in certificate.reasons)
    assert ("Monte-Carlo error" in str(certificate)) == (
        f"Monte-Carlo error {mean:.2g} sd of a mean" in str(certificate)
    )


SPOILERS = {
    "divergences": 9,
    "rhat": 1.2,
    "unvisited": 0.4,
    "unseen": 0.3,
    "heldout_error": 0.2,
    "moved": (0.09, 0.01),
    "monte_carlo": MonteCarlo(0.06, 0.02, 300.0, 200.0),
}


def spoiled_by(*names: str):
    """A certificate of nearly equal weights that only these spoil."""
    weights = 0.001 * np.random.default_rng(0).standard_normal(1_000)
    fine = {"heldout_error": 0.01, "moved": (0.0, 0.0), "n_transitions": 4_000}
    return certify(weights, **{**fine, **{name: SPOILERS[name] for name in names}})


@pytest.mark.parametrize(
    ("names", "short", "unmixed", "diverged"),
    [
        ((), False, False, False),
        (("monte_carlo",), True, True, False),
        (("rhat",), False, True, False),
        (("unvisited",), False, True, False),
        (("rhat", "monte_carlo"), False, True, False),
        (("divergences",), False, False, True),
        (("divergences", "monte_carlo"), False, False, True),
        (("divergences", "unvisited"), False, False, False),
        (("divergences", "rhat", "unvisited"), False, False, True),
        (("divergences", "rhat", "unvisited", "unseen"), False, False, False),
        (("divergences", "rhat", "moved"), False, False, True),
        (("divergences", "moved"), False, False, False),
        (("rhat", "heldout_error"), False, False, False),
        (("unseen",), False, False, False),
    ],
)
def test_what_to_change_follows_the_faults_and_no_sentence(names, short, unmixed, diverged):
    certificate = spoiled_by(*names)
    assert len(certificate.faults) == len(names)
    neutral = replace(
        certificate, reasons=(*certificate.reasons, "The rows were read on a Monday.")
    )
    compared = replace(certificate, against="the rows of a shard", reasons=())
    for found in (certificate, neutral, compared):
        assert (found.short, found.unmixed, found.diverged) == (short, unmixed, diverged)
        np.testing.assert_equal(found.longer, certificate.longer)
        assert found.longer_beside == certificate.longer_beside


def test_a_neutral_sentence_leaves_the_next_round_as_it_is():
    weights = 0.001 * np.random.default_rng(0).standard_normal(1_000)
    found = MonteCarlo(0.03, 0.03, 1_000.0, 900.0)
    alone = certify(weights, 0.01, moved=(0.06, 0.01), monte_carlo=found)
    assert [type(fault) for fault in alone.faults] == [faults.WeightsAndChains]
    assert alone.longer_beside > 1
    told = replace(alone, reasons=("A sentence.", *alone.reasons, "Another one."))
    assert told.longer_beside == alone.longer_beside


def test_a_fault_is_a_value_whose_text_and_description_have_its_numbers():
    certificate = spoiled_by("rhat", "divergences")
    assert certificate.faults == (faults.Divergent(9, 4_000), faults.Unmixed(1.2, 1.05))
    assert certificate.reasons == tuple(map(str, certificate.faults))
    described = certificate.describe()["faults"][1]
    assert described == {"kind": "Unmixed", "rhat": 1.2, "bound": 1.05, "disagreement": ""}


def test_equal_weights_leave_no_doubt_whatever_their_rounding():
    found = certify(np.zeros(300), 0.0, moved=(0.0, 0.0))
    assert leaves_no_doubt(replace(found, ess=300 * (1 + 1e-14)))
