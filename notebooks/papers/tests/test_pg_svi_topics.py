"""Correlated topic models: derivatives, steps, EM and held-out words, against other routes."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice, repeat

import matplotlib as mpl

mpl.use("agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax
from scipy.stats import multivariate_normal, norm, qmc

from papers import EXPERIMENTS, correlated_topics, draw, run
from papers.correlated_topics import (
    Corpus,
    Posteriors,
    Topics,
    by_draws,
    delta,
    fitted,
    laplace,
    learned,
    log_likelihood,
    log_predictive,
    mean_field,
    proximal_step,
    sampled,
    weighted_draws,
)
from papers.pg_svi_topics import CORPORA, random_start, truth
from stancoreset.reference import Expectation, GaussianFit


def model(width: int, seed: int = 0, vocabulary: int = 6) -> Topics:
    rng = np.random.default_rng(seed)
    words = rng.dirichlet(np.full(vocabulary, 0.5), width).T + 1e-3
    spread = rng.standard_normal((width, width))
    cov = spread @ spread.T / width + 0.5 * np.eye(width)
    return Topics(words / words.sum(axis=0), 0.3 * rng.standard_normal(width), cov)


#: Counts of six words in three documents.
COUNTS = np.array([[7, 0, 2, 1, 0, 3], [0, 5, 0, 0, 4, 1], [1, 0, 0, 2, 0, 0]])
DOCUMENTS = Corpus.of(COUNTS)


def log_lik(counts: np.ndarray, topics: Topics, z: np.ndarray) -> np.ndarray:
    """By the words' probabilities, at points (..., K)."""
    return np.log(softmax(z, axis=-1) @ topics.words.T) @ counts


def some_q(topics: Topics, diagonal: bool, seed: int = 1) -> Posteriors:
    rng = np.random.default_rng(seed)
    width = len(topics.mean)
    mean = rng.standard_normal((3, width))
    if diagonal:
        return Posteriors(mean, rng.uniform(0.5, 3.0, (3, width)))
    root = rng.standard_normal((3, width, width)) + 2 * np.eye(width)
    return Posteriors(mean, root @ np.swapaxes(root, 1, 2))


def nodes(mean: np.ndarray, cov: np.ndarray, count: int = 40) -> tuple[np.ndarray, np.ndarray]:
    """Points and weights of Gauss and Hermite's rule for N(mean, cov)."""
    x, w = hermegauss(count)
    grid = np.stack(np.meshgrid(*[x] * len(mean), indexing="ij"), axis=-1).reshape(-1, len(mean))
    weights = w / w.sum()
    for _ in mean[1:]:
        weights = np.multiply.outer(weights, w / w.sum())
    return mean + grid @ np.linalg.cholesky(cov).T, weights.ravel()


class Quasi:
    """Quasi-random normal noise in place of a generator's."""

    def standard_normal(self, shape):
        uniform = qmc.Sobol(shape[-1], scramble=True, seed=3).random(shape[1])
        return np.broadcast_to(norm.ppf(uniform), shape)


def differences(function, at: np.ndarray, h: float = 1e-5) -> np.ndarray:
    """The derivatives of a function of one vector."""
    return np.array(
        [(function(at + h * e) - function(at - h * e)) / (2 * h) for e in np.eye(len(at))]
    )


def kl(mean, cov, topics: Topics) -> float:
    off = mean - topics.mean
    inside = np.trace(topics.precision @ cov) + off @ topics.precision @ off - len(mean)
    return 0.5 * (inside + np.linalg.slogdet(topics.cov)[1] - np.linalg.slogdet(cov)[1])


# Derivatives -------------------------------------------------------------------------------


def test_log_likelihood_and_its_derivatives_by_finite_differences():
    topics = model(4)
    q = some_q(topics, False)
    value = log_likelihood(DOCUMENTS, topics, q.mean[:, None])[:, 0]
    alpha, gamma, shares = laplace(summed=True)(DOCUMENTS, topics, q)
    diagonal = laplace(summed=True)(DOCUMENTS, topics, some_q(topics, True))
    for d, counts in enumerate(COUNTS):
        assert value[d] == pytest.approx(log_lik(counts, topics, q.mean[d]), rel=1e-12)

        def slope(z, counts=counts):
            return differences(lambda at: log_lik(counts, topics, at), z, 1e-4)

        np.testing.assert_allclose(alpha[d], -slope(q.mean[d]), atol=1e-6)
        np.testing.assert_allclose(gamma[d], -differences(slope, q.mean[d], 1e-3), atol=1e-4)
    np.testing.assert_allclose(diagonal[1], np.einsum("dkk->dk", gamma), rtol=1e-10)
    np.testing.assert_allclose(shares.sum(axis=2), DOCUMENTS.counts, rtol=1e-12)


@pytest.mark.parametrize("diagonal", [False, True])
def test_averages_over_draws_by_quadrature_in_the_difference_of_two_topics(diagonal):
    """With u = z_1 − z_2 the chance of topic 1 is 1/(1 + e^−u), and u is normal."""
    topics = model(2)
    q = some_q(topics, diagonal)
    alpha, gamma, shares = by_draws(2**13, Quasi())(DOCUMENTS, topics, q)
    for d, counts in enumerate(COUNTS):
        spread = np.sqrt(np.array([1, -1]) @ q.cov[d] @ np.array([1, -1]))
        u = q.mean[d] @ [1, -1] + spread * np.linspace(-9, 9, 4001)
        weight = norm.pdf(np.linspace(-9, 9, 4001))
        weight /= weight.sum()
        chance = 1 / (1 + np.exp(-u))
        first, second = topics.words[:, :1] * chance, topics.words[:, 1:] * (1 - chance)
        of_first = first / (first + second)
        slope = counts @ of_first - counts.sum() * chance
        bend = counts @ (of_first * (1 - of_first)) - counts.sum() * chance * (1 - chance)
        assert alpha[d] == pytest.approx(weight @ slope * np.array([-1, 1]), abs=2e-3)
        matrix = -(weight @ bend) * np.array([[1, -1], [-1, 1]])
        np.testing.assert_allclose(gamma[d], np.diag(matrix) if diagonal else matrix, atol=5e-3)
        np.testing.assert_allclose(shares[d].sum(axis=0)[0], counts @ of_first @ weight, atol=2e-3)


def delta_value(counts, topics, mean, cov):
    share = softmax(mean)
    bend = np.diag(share) - np.outer(share, share)
    log_sum = logsumexp(mean) + 0.5 * np.trace(bend @ cov)
    return counts.sum() * log_sum - counts @ np.log(topics.words @ np.exp(mean))


def mean_field_value(counts, topics, mean, cov):
    """With the best of the tangents E log Σ e^z ≤ Σ e^{m + v/2}/ζ − 1 + log ζ."""
    moments = np.exp(mean + 0.5 * np.diag(cov)).sum()
    tangents = [moments / x - 1 + np.log(x) for x in moments * np.geomspace(0.99, 1.01, 201)]
    return counts.sum() * min(tangents) - counts @ np.log(topics.words @ np.exp(mean))


@pytest.mark.parametrize(("rule", "value"), [(delta, delta_value), (mean_field, mean_field_value)])
def test_delta_and_mean_field_by_finite_differences(rule, value):
    topics = model(4)
    q = some_q(topics, rule is mean_field)
    alpha, gamma, _ = rule(DOCUMENTS, topics, q)
    for d, counts in enumerate(COUNTS):
        cov, mean = q.cov[d], q.mean[d]

        def at(step, widening, counts=counts, mean=mean, cov=cov):
            return value(counts, topics, mean + step, cov + np.diag(widening))

        np.testing.assert_allclose(
            alpha[d], differences(lambda x: at(x, np.zeros(4)), np.zeros(4)), atol=1e-5
        )
        by_variance = differences(lambda v: at(np.zeros(4), v), np.zeros(4))
        own = gamma[d] if q.diagonal else np.diag(gamma[d])
        np.testing.assert_allclose(own, 2 * by_variance, atol=1e-5)


# Fixed points ------------------------------------------------------------------------------


def settled(topics, rule, diagonal, steps=300):
    start = Posteriors.prior(topics, 3, diagonal)
    return next(islice(fitted(DOCUMENTS, topics, start, 1.0, rule), steps - 1, None))


def best(negative, width: int, diagonal: bool) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the highest bound, by scipy."""
    lower = np.diag_indices(width) if diagonal else np.tril_indices(width)

    def unpacked(values):
        spread = np.zeros((width, width))
        spread[lower] = values[width:]
        return values[:width], spread @ spread.T

    start = np.concatenate([np.zeros(width), np.eye(width)[lower]])
    found = minimize(lambda x: negative(*unpacked(x)), start, method="BFGS")
    return unpacked(found.x)


@pytest.mark.parametrize("diagonal", [False, True])
def test_proximal_steps_end_at_the_highest_bound_by_quadrature(diagonal):
    topics = model(2)
    q = settled(topics, by_draws(2**12, Quasi()), diagonal, 30)
    for d, counts in enumerate(COUNTS):

        def negative(mean, cov, counts=counts):
            z, weight = nodes(mean, cov, 20)
            return kl(mean, cov, topics) - weight @ log_lik(counts, topics, z)

        mean, cov = best(negative, 2, diagonal)
        np.testing.assert_allclose(q.mean[d], mean, atol=5e-3)
        np.testing.assert_allclose(q.cov[d], cov, atol=5e-3)


@pytest.mark.parametrize(
    ("rule", "value", "diagonal"),
    [(delta, delta_value, False), (delta, delta_value, True), (mean_field, mean_field_value, True)],
)
def test_delta_and_mean_field_end_where_scipy_does(rule, value, diagonal):
    topics = model(3)
    q = settled(topics, rule, diagonal)
    for d, counts in enumerate(COUNTS):

        def negative(mean, cov, counts=counts):
            return kl(mean, cov, topics) + value(counts, topics, mean, cov)

        mean, cov = best(negative, 3, diagonal)
        np.testing.assert_allclose(q.mean[d], mean, atol=2e-3)
        np.testing.assert_allclose(q.cov[d], cov, atol=2e-3)


def test_laplace_ends_at_the_mode():
    topics = model(3)
    plain, summed = (settled(topics, laplace(which), False) for which in (False, True))
    prior = multivariate_normal(topics.mean, topics.cov)
    for d, counts in enumerate(COUNTS):

        def negative(z, counts=counts):
            return -log_lik(counts, topics, z) - prior.logpdf(z)

        mode = minimize(negative, np.zeros(3), method="BFGS", options={"gtol": 1e-7}).x
        np.testing.assert_allclose(plain.mean[d], mode, atol=1e-4)
        np.testing.assert_allclose(summed.mean[d], mode, atol=1e-4)
        bend = differences(lambda z: differences(negative, z, 1e-3), mode, 1e-3)
        np.testing.assert_allclose(summed.precision[d], bend, atol=1e-3)
        # Fixed topics of words would tell more about z.
        assert np.linalg.eigvalsh(plain.precision[d] - summed.precision[d])[0] > -1e-9


# Steps -------------------------------------------------------------------------------------


def test_a_step_is_the_librarys_natural_gradient():
    topics, beta = model(4), 0.7
    q = some_q(topics, False)
    alpha, gamma, _ = delta(DOCUMENTS, topics, q)
    new = proximal_step(DOCUMENTS, topics, q, beta, delta)
    for d in range(3):
        one = GaussianFit(q.mean[d], np.linalg.cholesky(q.cov[d]))
        slope = -alpha[d] - topics.precision @ (q.mean[d] - topics.mean)
        log_density = Expectation(0.0, slope, -gamma[d] - topics.precision)
        step = log_density.step(one, beta / (1 + beta))
        assert np.abs(step.mean - one.mean).max() < correlated_topics.LONGEST
        np.testing.assert_allclose(new.mean[d], step.mean, rtol=1e-9)
        np.testing.assert_allclose(new.cov[d], step.cov, rtol=1e-9)


def test_steps_are_shortened_where_the_curvature_is_negative_or_the_move_is_long():
    topics = model(3)
    q = some_q(topics, False)

    def rule(corpus, topics, q):
        bend = np.zeros((3, 3, 3))
        bend[0] = -1e3 * np.eye(3)
        return np.full((3, 3), 1e4), bend, corpus.counts

    new = proximal_step(DOCUMENTS, topics, q, 1.0, rule)
    assert np.linalg.eigvalsh(new.precision - 0.1 * q.precision).min() > 0
    np.testing.assert_allclose(np.abs(new.mean - q.mean).max(axis=1), 2.0)
    whole = 0.5 * (q.precision[1] + topics.precision)
    np.testing.assert_allclose(new.precision[1], whole, rtol=1e-12)


def test_blocks_of_documents_change_nothing(monkeypatch):
    topics = model(3)
    whole = settled(topics, laplace(True), False, 5)
    monkeypatch.setattr(correlated_topics, "_BLOCK", 1)
    assert len(list(DOCUMENTS.blocks(9))) == 3
    np.testing.assert_allclose(settled(topics, laplace(True), False, 5).mean, whole.mean)


# Documents ---------------------------------------------------------------------------------


def test_documents_hold_their_counts():
    table = np.zeros_like(COUNTS)
    rows = np.repeat(np.arange(3), DOCUMENTS.words.shape[1]).reshape(DOCUMENTS.words.shape)
    np.add.at(table, (rows, DOCUMENTS.words), DOCUMENTS.counts.astype(int))
    np.testing.assert_array_equal(table, COUNTS)
    np.testing.assert_array_equal(DOCUMENTS.lengths, COUNTS.sum(axis=1))
    assert DOCUMENTS.of_rows(np.array([2])).words.tolist() == [[0, 3]]


def test_documents_have_the_models_word_shares():
    topics = model(3)
    parts = sampled(topics, 2000, 30.0, 2, np.random.default_rng(0))
    z = np.random.default_rng(1).multivariate_normal(topics.mean, topics.cov, 50_000)
    expected = (softmax(z, axis=1) @ topics.words.T).mean(axis=0)
    for part in parts:
        assert part.lengths.mean() == pytest.approx(30, abs=0.5)
        shares = np.bincount(part.words.ravel(), part.counts.ravel(), 6)
        np.testing.assert_allclose(shares / shares.sum(), expected, atol=0.01)


# Held-out words ----------------------------------------------------------------------------


def test_weighted_draws_and_predictions_by_quadrature():
    """log p(y) and E[P(word | z) | y] of two topics, on a grid of the two latent values."""
    topics = model(2)
    second = Corpus.of(np.array([[2, 0, 0, 1, 0, 0], [0, 3, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0]]))
    z, log_weight = weighted_draws(DOCUMENTS, topics, 100_000, np.random.default_rng(0))
    evidence = logsumexp(log_weight, axis=1) - np.log(z.shape[1])
    own, powers = log_predictive(second, topics, z, log_weight)
    prior_points, prior_weight = nodes(topics.mean, topics.cov, 100)
    for d, counts in enumerate(COUNTS):
        posterior = prior_weight * np.exp(log_lik(counts, topics, prior_points))
        assert evidence[d] == pytest.approx(np.log(posterior.sum()), abs=0.01)
        posterior /= posterior.sum()
        chances = softmax(prior_points, axis=1) @ topics.words.T
        held = {0: {0: 2, 3: 1}, 1: {1: 3}, 2: {0: 1, 1: 1}}[d]
        expected = sum(y * np.log(posterior @ chances[:, n]) for n, y in held.items())
        assert own[d] == pytest.approx(expected, abs=0.01)
        expected = sum(np.log(posterior @ chances[:, n] ** y) for n, y in held.items())
        assert powers[d] == pytest.approx(expected, abs=0.01)


def test_equation_20_rewards_a_wide_q():
    """It is above the log probability where a word comes twice, and grows with the width."""
    topics = model(3)
    noise = np.random.default_rng(0).standard_normal((3, 500, 3))
    narrow, wide = (log_predictive(DOCUMENTS, topics, s * noise) for s in (0.1, 2.0))
    assert (narrow[1] > narrow[0]).all()
    assert (wide[1] - wide[0] > 10 * (narrow[1] - narrow[0])).all()
    once = Corpus.of(np.eye(6, dtype=int)[:3])
    np.testing.assert_allclose(*log_predictive(once, topics, noise), rtol=1e-12)


def test_density_of_q():
    q = some_q(model(3), False)
    z = np.random.default_rng(0).standard_normal((3, 4, 3))
    for d in range(3):
        expected = multivariate_normal(q.mean[d], np.linalg.inv(q.precision[d])).logpdf(z[d])
        np.testing.assert_allclose(q.log_density(z)[d], expected)
    diagonal = some_q(model(3), True)
    full = Posteriors(diagonal.mean, np.stack([np.diag(p) for p in diagonal.precision]))
    np.testing.assert_allclose(diagonal.log_density(z), full.log_density(z))
    np.testing.assert_allclose(diagonal.at(z), full.at(z))


# Learning ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("rule", "diagonal"), [("PG", False), ("MF", True)])
@pytest.mark.slow
def test_em_finds_the_topics_and_the_moments(rule, diagonal):
    vocabulary, documents = 12, 150
    true = Topics(
        np.where(np.arange(vocabulary)[:, None] % 2 == [0, 1], 1 / 6 - 0.01, 0.01),
        np.array([0.5, -0.5]),
        np.array([[1.0, -0.6], [-0.6, 1.0]]),
    )
    rng = np.random.default_rng(0)
    (corpus,) = sampled(true, documents, 150.0, 1, rng)
    start = Topics(0.6 * true.words + 0.4 / vocabulary, np.zeros(2), np.eye(2))
    expectations = by_draws(10, rng) if rule == "PG" else mean_field
    batches = repeat(np.array_split(np.arange(documents), 5))
    found = next(islice(learned(corpus, start, expectations, diagonal, batches), 39, None))
    # The start is 0.35 away.
    assert np.abs(found.words - true.words).sum(axis=0).max() < 0.15
    np.testing.assert_allclose(found.words.sum(axis=0), 1.0)
    # Only the difference of two latent values is in the likelihood.
    sign = np.array([1.0, -1.0])
    assert found.mean @ sign == pytest.approx(1.0, abs=0.5)
    if rule == "PG":  # the other bound has too small a variance
        assert sign @ found.cov @ sign == pytest.approx(3.2, rel=0.4)


def test_one_update_has_the_expected_counts_and_moments():
    """Of all documents at once, by formulas written out: β, μ and Σ after one pass."""
    topics = model(3)
    after = next(learned(DOCUMENTS, topics, laplace(), False, repeat([np.arange(3)]), steps=4))
    q = settled(topics, laplace(), False, 4)
    chance = topics.words * softmax(q.mean, axis=1)[:, None]
    chance /= chance.sum(axis=2, keepdims=True)
    counts = np.einsum("dn,dnk->nk", COUNTS, chance) + correlated_topics.SMOOTHING
    np.testing.assert_allclose(after.words, counts / counts.sum(axis=0), rtol=1e-10)
    np.testing.assert_allclose(after.mean, q.mean.mean(axis=0), rtol=1e-10)
    cov = q.cov.mean(axis=0) + np.cov(q.mean.T, bias=True)
    np.testing.assert_allclose(after.cov, cov, rtol=1e-10)


def test_the_random_start_has_the_documents_words():
    start = random_start(DOCUMENTS, 6, np.random.default_rng(0))
    assert start.words.shape == (6, 10)
    np.testing.assert_allclose(start.words.sum(axis=0), 1.0)
    possible = (COUNTS + 1) / (COUNTS + 1).sum(axis=1, keepdims=True)
    distance = np.abs(possible[:, :, None] - start.words).sum(axis=1).min(axis=0)
    np.testing.assert_allclose(distance, 0.0, atol=1e-12)


# The experiment ----------------------------------------------------------------------------


@pytest.mark.slow
def test_the_papers_order_with_known_topics():
    """The posterior, then PG, PG-MF, and far behind, MF; Laplace and delta lie between."""
    experiment = EXPERIMENTS["pg-svi-ctm"]
    methods = ("PG", "PG-MF", "Laplace", "delta", "MF", "exact")
    settings = replace(experiment.quick, rows=12, sizes=(1, 10), methods=methods)
    outcome = run(experiment, settings, seed=3)
    last = outcome.records[outcome.records["pass"] == 10].set_index(["dataset", "method"])
    for name in CORPORA:
        bound = last.loc[f"{name}, topics known"]["bound"]
        assert bound["exact"] < bound["PG"] < bound["exact"] + 1.0
        for other in ("PG-MF", "Laplace", "delta", "MF"):
            assert bound["PG"] < bound[other]
        assert bound["PG-MF"] < bound["MF"]
        assert "exact" not in last.loc[f"{name}, topics learned"].index
    figure = draw(outcome)
    assert len(figure.axes) == 6
    assert {ax.get_xscale() for ax in figure.axes} == {"log"}
    plt.close(figure)


def test_true_topics_share_their_frequent_words():
    topics = truth(400, np.random.default_rng(0))
    assert topics.words.shape == (400, 10)
    np.testing.assert_allclose(topics.words.sum(axis=0), 1.0)
    assert topics.words[0].mean() == pytest.approx(1 / np.sum(1 / np.arange(1, 401)), rel=0.3)
    assert np.linalg.eigvalsh(topics.cov)[0] >= 0.45
