"""Methods in the loop where every coreset posterior, and its KL, is a closed form."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import lsq_linear
from tiers import some

from stancoreset.errors import SolverError
from stancoreset.selection.in_the_loop import (
    METHODS,
    CoresetPosterior,
    coreset_mcmc,
    kl_gradient,
    quasi_newton,
    sparse_vi,
    tangent,
)
from stancoreset.selection.in_the_loop.base import advance
from stancoreset.selection.in_the_loop.chains import Descent, adam, drift, hot_dog
from stancoreset.selection.in_the_loop.greedy import gradient_step
from stancoreset.selection.in_the_loop.newton import newton_step


class GaussianMean:
    """y_n ~ N(θ, I), θ ~ N(0, I): π_w = N(Σ w_n y_n / (1 + Σ w), I / (1 + Σ w))."""

    def __init__(self, n=2_000, d=10, seed=0):
        rng = np.random.default_rng(seed)
        self.y = 1 + rng.normal(size=(n, d)) * np.linspace(0.5, 2, d)

    def draw(self, columns, weights, count, rng):
        precision = 1 + weights.sum()
        noise = rng.normal(size=(count, self.y.shape[1])) / np.sqrt(precision)
        return weights @ self.y[columns] / precision + noise

    def log_lik(self, theta, columns):
        y = self.y if columns is None else self.y[columns]
        return theta @ y.T - 0.5 * np.sum(theta**2, axis=1, keepdims=True)

    def target(self, theta, rng):
        return theta @ self.y.sum(axis=0) - 0.5 * len(self.y) * np.sum(theta**2, axis=1)

    def subsampled(self, theta, rng, size=500):
        rows = rng.choice(len(self.y), size=size, replace=False)
        return self.log_lik(theta, rows).sum(axis=1) * len(self.y) / size

    @property
    def model(self):
        n = len(self.y)
        return CoresetPosterior(n, float(n), self.draw, self.log_lik, self.target)

    def kl(self, columns, weights):
        """KL(π_w ‖ π), exact."""
        n, d = self.y.shape
        precision, full = 1 + weights.sum(), 1 + n
        shift = weights @ self.y[columns] / precision - self.y.sum(axis=0) / full
        ratio = full / precision
        return 0.5 * (d * (ratio - 1 - np.log(ratio)) + full * shift @ shift)

    def uniform_kl(self, size, seed):
        rows = np.random.default_rng(seed).choice(len(self.y), size, replace=False)
        return self.kl(rows, np.full(size, len(self.y) / size))


GAUSSIAN = GaussianMean()
RUNS = {
    "quasi_newton": {},
    "sparse_vi": {},
    "sparse_vi, newton": {"update": "newton", "steps": 4},
    "coreset_mcmc": {"updates": 100},
}


def run(name, model, size, **options):
    return METHODS[name.split(",")[0]](model, size, **{**RUNS[name], **options})


# The gradient and the steps -------------------------------------------------------------


def test_gradient_is_that_of_the_exact_kl():
    small = GaussianMean(n=40, d=3)
    columns = np.array([3, 11, 20, 31])
    weights = np.array([4.0, 0.5, 9.0, 0.0])
    step = 1e-5 * np.eye(4)
    exact = [(small.kl(columns, weights + h) - small.kl(columns, weights - h)) / 2e-5 for h in step]
    estimate = kl_gradient(small.model, columns, weights, draws=400_000, seed=1)
    np.testing.assert_allclose(estimate, exact, rtol=0.02, atol=0.02 * np.abs(exact).max())


def test_gradient_from_a_subsampled_target_is_unbiased():
    columns, weights = np.arange(5), np.full(5, 400.0)
    noisy = replace(GAUSSIAN.model, target=GAUSSIAN.subsampled, exact=False)
    estimates = [kl_gradient(noisy, columns, weights, 100, seed) for seed in range(600)]
    exact = kl_gradient(GAUSSIAN.model, columns, weights, draws=100_000)
    error = np.std(estimates, axis=0) / np.sqrt(len(estimates))
    assert np.all(np.abs(np.mean(estimates, axis=0) - exact) < 4 * error)


def some_tangent(size=12, count=200, seed=0):
    rng = np.random.default_rng(seed)
    weights = rng.random(size) * 2 * len(GAUSSIAN.y) / size
    weights[0] = 0.0
    return tangent(GAUSSIAN.model, np.arange(size), weights, count, rng), weights


@pytest.mark.parametrize("seed", range(4))
def test_newton_step_is_the_non_negative_minimum(seed):
    here, weights = some_tangent(seed=seed)
    tau = 0.01 * np.mean(np.sum(here.features**2, axis=0))
    ridge = np.sqrt(tau) * np.eye(len(weights))
    expected = lsq_linear(
        np.vstack([here.features, ridge]),
        np.concatenate([here.target, np.sqrt(tau) * weights]),
        bounds=(0, np.inf),
        method="bvls",
    ).x
    goal = newton_step(here, weights, 0.01)
    assert (goal == 0).any()
    np.testing.assert_allclose(goal, expected, rtol=1e-6, atol=1e-6 * expected.max())


def test_newton_step_without_active_bounds_is_the_papers():
    here, weights = some_tangent()
    shifted = replace(here, target=here.features @ (weights + 500.0))
    residual = shifted.target - here.features @ weights
    gram = here.features.T @ here.features
    tau = 0.01 * np.mean(np.diag(gram))
    paper = np.linalg.solve(gram + tau * np.eye(12), here.features.T @ residual)
    assert (weights + paper > 0).all()
    for exact in (True, False):
        np.testing.assert_allclose(
            newton_step(shifted, weights, 0.01, exact=exact), weights + paper
        )


def test_gradient_step_is_exact_along_its_direction():
    here, weights = some_tangent()
    weights = weights + 1e6  # far from the bounds
    here = replace(here, residual=here.target - here.features @ weights)
    moved = gradient_step(here, weights, 1.0) - weights
    np.testing.assert_allclose(
        moved / np.linalg.norm(moved), -here.gradient / np.linalg.norm(here.gradient)
    )
    after = here.residual - here.features @ moved
    assert abs(after @ (here.features @ moved)) < 1e-9 * np.sum((here.features @ moved) ** 2)


def test_gradient_step_never_leaves_the_orthant():
    here, weights = some_tangent()
    assert (gradient_step(here, weights, 50.0) >= 0).all()


def test_steps_that_go_too_far_are_shortened():
    """From the wide posterior of light weights, the whole way to a thousand times too heavy."""
    n = len(GAUSSIAN.y)
    columns, light, step = np.arange(n), np.full(n, 1e-3), np.full(n, 1e3)
    ends = {
        search: advance(
            GAUSSIAN.model, columns, light, step, 100, np.random.default_rng(0), search=search
        )[0]
        for search in (True, False)
    }
    np.testing.assert_array_equal(ends[False], light + step)
    assert ends[True].sum() < 5 * n
    assert GAUSSIAN.kl(columns, ends[True]) < 0.1 * GAUSSIAN.kl(columns, light)
    assert GAUSSIAN.kl(columns, ends[True]) < 0.1 * GAUSSIAN.kl(columns, ends[False])


def test_a_good_step_is_taken_whole():
    columns, weights = np.arange(30), np.full(30, len(GAUSSIAN.y) / 30)
    rng = np.random.default_rng(0)
    goal = newton_step(tangent(GAUSSIAN.model, columns, weights, 400, rng), weights, 0.01)
    end, there = advance(GAUSSIAN.model, columns, weights, goal - weights, 400, rng)
    np.testing.assert_allclose(end, goal, atol=1e-9)
    assert there.features.shape == (400, 30)


# The methods ----------------------------------------------------------------------------


@pytest.mark.fit
@pytest.mark.parametrize(
    ("name", "factor"), [("quasi_newton", 100), ("sparse_vi", 50), ("sparse_vi, newton", 10_000)]
)
@pytest.mark.parametrize("size", some([20, 40], 2))
def test_exact_kl_far_below_uniform_rows(name, factor, size):
    seeds = range(5)
    results = [run(name, GAUSSIAN.model, size, seed=seed) for seed in seeds]
    kls = [GAUSSIAN.kl(r.indices, r.weights) for r in results]
    uniform = [GAUSSIAN.uniform_kl(size, seed) for seed in seeds]
    print(f"{name}, k = {size}: KL {np.median(kls):.3g}, uniform {np.median(uniform):.3g}")
    assert np.median(kls) < np.median(uniform) / factor


def test_the_kl_falls_with_the_size():
    kls = {}
    for size in (10, 40, 160):
        results = [quasi_newton(GAUSSIAN.model, size, seed=seed) for seed in range(5)]
        kls[size] = np.median([GAUSSIAN.kl(r.indices, r.weights) for r in results])
    assert kls[160] < 1e-6
    assert kls[40] < 0.01 * kls[10]


def test_steps_within_the_orthant_beat_cutting():
    """Why quasi_newton departs from the paper in how it keeps weights non-negative."""
    kls = {}
    for way in ("exact", "cut"):
        results = [quasi_newton(GAUSSIAN.model, 20, seed=s, nonnegative=way) for s in range(9)]
        kls[way] = np.median([GAUSSIAN.kl(r.indices, r.weights) for r in results])
    assert kls["exact"] < 0.3 * kls["cut"]


def test_errors_on_fresh_draws_are_honest():
    result = quasi_newton(GAUSSIAN.model, 15, seed=2)
    fresh = tangent(GAUSSIAN.model, result.indices, result.weights, 5_000, np.random.default_rng(9))
    assert result.relative_error == pytest.approx(fresh.relative_error, rel=0.35)
    assert result.relative_error in result.trace


@pytest.mark.parametrize("name", some(["quasi_newton", "sparse_vi, newton"], 2))
def test_a_subsampled_target_still_helps(name):
    noisy = replace(GAUSSIAN.model, target=GAUSSIAN.subsampled, exact=False)
    kls = []
    for seed in range(5):
        result = run(name, noisy, 40, seed=seed)
        kls.append(GAUSSIAN.kl(result.indices, result.weights))
    assert np.median(kls) < np.median([GAUSSIAN.uniform_kl(40, s) for s in range(5)]) / 20


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("size", [1, 7, 25])
def test_what_every_result_keeps(name, size):
    result = run(name, GAUSSIAN.model, size, seed=3)
    assert 1 <= len(result.indices) <= size
    assert (np.diff(result.indices) > 0).all()
    assert (result.weights > 0).all()
    assert np.isfinite(result.weights).all()
    assert result.indices.dtype == np.int64
    again, other = (run(name, GAUSSIAN.model, size, seed=seed) for seed in (3, 4))
    np.testing.assert_array_equal(again.indices, result.indices)
    np.testing.assert_array_equal(again.weights, result.weights)
    assert not np.array_equal(other.weights, result.weights)


@pytest.mark.parametrize("name", RUNS)
def test_more_rows_than_there_are(name):
    small = GaussianMean(n=6, d=2)
    result = run(name, small.model, 50, seed=0)
    assert len(result.indices) <= 6
    assert small.kl(result.indices, result.weights) < 0.05


def test_callback_sees_every_round():
    seen = []
    result = sparse_vi(GAUSSIAN.model, 6, seed=0, callback=lambda *a: seen.append(a))
    assert [a[0] for a in seen] == [1, 2, 3, 4, 5, 6]
    np.testing.assert_array_equal([a[1] for a in seen], result.trace)
    np.testing.assert_array_equal([a[2] for a in seen], result.sizes)


def test_path_holds_the_coresets_of_earlier_rounds():
    """A run of as many rounds, draws and as long steps ends where the path passes."""
    whole = sparse_vi(GAUSSIAN.model, 12, seed=3, path=(4, 9), polish=0)
    assert [len(result.trace) for result in whole.path] == [4, 9]
    alone = sparse_vi(GAUSSIAN.model, 4, seed=3, polish=0)
    first = whole.path[0]
    np.testing.assert_array_equal(first.indices, alone.indices)
    np.testing.assert_array_equal(first.weights, alone.weights)
    assert first.relative_error == alone.relative_error
    assert whole.path[1].seconds <= whole.seconds
    polished = sparse_vi(GAUSSIAN.model, 12, seed=3, path=(4, 12), polish=5)
    assert not np.array_equal(polished.path[1].weights, polished.weights)
    assert sparse_vi(GAUSSIAN.model, 4, seed=3).path == ()


@pytest.mark.fit
def test_path_of_a_run_that_ends_early_repeats_its_last_coreset():
    small = GaussianMean(n=3, d=1)
    result = sparse_vi(small.model, 40, seed=0, path=(1, 40), polish=0, steps=40, update="newton")
    assert len(result.path) == 2
    assert len(result.path[1].indices) <= 3


def test_duplicates_and_rows_that_say_nothing():
    small = GaussianMean(n=50, d=2)
    small.y[10:30] = small.y[0]
    dumb = small.model

    def log_lik(theta, columns):
        values = small.log_lik(theta, columns)
        rows = np.arange(50) if columns is None else columns
        values[:, rows >= 40] = -1.0
        return values

    for name in RUNS:
        result = run(name, replace(dumb, log_lik=log_lik), 12, seed=1)
        assert np.isfinite(result.weights).all()
        if name.startswith("sparse_vi"):
            assert (result.indices < 40).all()


# Coreset MCMC ---------------------------------------------------------------------------


def by_hand(gradients, start, r):
    """Hot DoG's recursions, a coordinate and a step at a time; `gradients` of the weights."""
    b1, b2, eps, path = 0.9, 0.999, 1e-8, [list(start)]
    m, v, d = ([0.0] * len(start) for _ in range(3))
    for t in range(1, 26):
        now, new = path[-1], []
        g = gradients(np.array(now))
        for i in range(len(start)):
            m[i] = b1 * m[i] + (1 - b1) * g[i]
            v[i] = b2 * v[i] + (1 - b2) * g[i] ** 2
            distance = r
            if t > 1:
                d[i] = b1 * d[i] + (1 - b1) * max(abs(now[i] - start[i]), d[i])
                distance = d[i] / (1 - b1**t)
            size = distance / ((t * v[i] / (1 - b2**t)) ** 0.5 + eps)
            new.append(max(0.0, now[i] - size * m[i] / (1 - b1**t)))
        path.append(new)
    return np.array(path)


CURVATURE, LOWEST = np.array([1e-3, 1.0, 40.0]), np.array([30.0, 0.0, 55.0])


def quadratic(weights):
    """Gradient of a quadratic; the second coordinate's minimum is on the bound."""
    return CURVATURE * (weights - LOWEST) + np.array([0.0, 3.0, 0.0])


def test_hot_dog_follows_its_recursions():
    start = np.array([50.0, 4.0, 50.0])
    state, weights, path = Descent(start, rate=0.2), start, [start]
    for _ in range(25):
        state, weights = hot_dog(state, weights, quadratic(weights))
        path.append(weights)
    np.testing.assert_allclose(path, by_hand(quadratic, start, 0.2), rtol=1e-12)


@pytest.mark.parametrize("rate", [1e-4, 1e-2, 1e2])
def test_hot_dog_needs_no_learning_rate(rate):
    """Over six orders of magnitude of r; ADAM, at rates of the same range, does need one."""
    start = np.array([50.0, 4.0, 50.0])
    state, weights = Descent(start, rate=rate), start
    for _ in range(3_000):
        state, weights = hot_dog(state, weights, quadratic(weights))
    np.testing.assert_allclose(weights, LOWEST, atol=0.5)
    if rate == 1e-2:
        state, weights = Descent(start, rate=rate), start
        for _ in range(3_000):
            state, weights = adam(state, weights, quadratic(weights))
        assert abs(weights[0] - 30) > 15


def test_adam_is_that_of_the_paper():
    """Of the first step only the sign of the gradient remains; of the second, by hand."""
    start, first, second = np.array([5.0, 5.0]), np.array([4.0, -0.1]), np.array([2.0, 0.3])
    state, weights = adam(Descent(start, rate=0.5), start, first)
    np.testing.assert_allclose(weights, [4.5, 5.5])
    _, after = adam(state, weights, second)
    mean = (0.09 * first + 0.1 * second) / 0.19
    square = (0.000999 * first**2 + 0.001 * second**2) / (1 - 0.999**2)
    np.testing.assert_allclose(weights - after, 0.5 / np.sqrt(2) * mean / np.sqrt(square))


def moving(gaussian, far=30.0, beta=0.8):
    """Chains that start far away and move towards π_w, which they leave invariant."""
    last = []

    def draw(columns, weights, count, rng):
        if not last or len(last[0]) != count:
            last[:] = [far + np.zeros((count, gaussian.y.shape[1]))]
        fresh = gaussian.draw(columns, weights, count, rng)
        mean = weights @ gaussian.y[columns] / (1 + weights.sum())
        step = np.sqrt(beta) * (last[0] - mean) + np.sqrt(1 - beta) * (fresh - mean)
        last[:] = [mean + step]
        return last[0]

    return replace(gaussian.model, draw=draw)


def test_correlated_chains_train_the_weights():
    result = coreset_mcmc(moving(GAUSSIAN), 40, updates=600, seed=0)
    kl, uniform = GAUSSIAN.kl(result.indices, result.weights), GAUSSIAN.uniform_kl(40, 0)
    print(f"coreset_mcmc: KL {kl:.3g}, uniform {uniform:.3g}")
    assert len(result.trace) == 601
    assert kl < 0.01 * uniform


def test_the_mean_of_the_weights_averages_over_subsamples():
    noisy = replace(GAUSSIAN.model, target=GAUSSIAN.subsampled, exact=False)
    result = coreset_mcmc(noisy, 40, updates=600, seed=1)
    assert GAUSSIAN.kl(result.indices, result.weights) < 0.02 * GAUSSIAN.uniform_kl(40, 1)


def test_weights_wait_for_the_chains():
    """The first update is at stationary chains, or after as many iterations as are allowed."""
    calls = []

    def watched(model):
        def draw(columns, weights, count, rng):
            calls.append(weights.copy())
            return model.draw(columns, weights, count, rng)

        return replace(model, draw=draw)

    coreset_mcmc(watched(moving(GAUSSIAN)), 20, updates=2, seed=0)
    held = len(calls) - 3
    assert held % 30 == 0
    assert 30 < held < 300  # 30 iterations from so far away are not enough
    assert all((weights == 100).all() for weights in calls[: held + 1])
    calls.clear()
    coreset_mcmc(watched(moving(GAUSSIAN)), 20, updates=2, seed=0, hold=0)
    assert len(calls) == 3


def test_drift_by_hand():
    """Two chains of nine values: means of the last two thirds, residuals around their lines."""
    one = np.array([9.0, 9, 9, 1, 2, 1, 5, 6, 5])  # residuals −⅓, ⅔, −⅓: variance 2/3
    two = np.array([0.0, 0, 0, 0, 1, 0, 0, 1, 0])
    first = 4 / np.sqrt(2 / 3)
    assert drift(one[:, None]) == pytest.approx(first)
    assert drift(np.column_stack([one, two])) == pytest.approx(first / 2)
    assert drift(np.ones((9, 3))) == np.inf


def test_coreset_mcmc_calls_back():
    seen = []
    result = coreset_mcmc(GAUSSIAN.model, 6, updates=5, seed=0, callback=lambda *a: seen.append(a))
    assert [a[0] for a in seen] == [1, 2, 3, 4, 5]
    np.testing.assert_array_equal([a[1] for a in seen], result.trace[:-1])
    assert {a[2] for a in seen} == {6}


# Bad input ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("quasi_newton", {"draws": 1}, "draws=1"),
        ("quasi_newton", {"draws": 0}, "draws=0"),
        ("quasi_newton", {"iterations": 0}, "iterations=0"),
        ("quasi_newton", {"regularization": -1.0}, "regularization=-1.0"),
        ("quasi_newton", {"regularization": np.nan}, "regularization=nan"),
        ("quasi_newton", {"line_search": -2}, "line_search=-2"),
        ("quasi_newton", {"nonnegative": "maybe"}, "nonnegative is 'maybe'"),
        ("sparse_vi", {"draws": 1}, "draws=1"),
        ("sparse_vi", {"steps": 0}, "steps=0"),
        ("sparse_vi", {"steps": 2.5}, "steps=2.5"),
        ("sparse_vi", {"polish": -1}, "polish=-1"),
        ("sparse_vi", {"step_size": 0.0}, "step_size=0.0"),
        ("sparse_vi", {"update": "adam"}, "update is 'adam'"),
        ("sparse_vi", {"path": (3, 2)}, "path=\\(3, 2\\)"),
        ("sparse_vi", {"path": (10**9,)}, "none above size="),
        ("coreset_mcmc", {"draws": 1}, "draws=1"),
        ("coreset_mcmc", {"updates": 0}, "updates=0"),
        ("coreset_mcmc", {"hold": -1}, "hold=-1"),
        ("coreset_mcmc", {"rate": 0.0}, "rate=0.0"),
        ("coreset_mcmc", {"rate": np.inf}, "rate=inf"),
        ("coreset_mcmc", {"update": "sgd"}, "update is 'sgd', expected one of 'hot_dog', 'adam'"),
    ],
)
def test_options_that_make_no_sense(name, options, message):
    with pytest.raises(SolverError, match=message):
        METHODS[name](GAUSSIAN.model, 5, **options)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("size", [0, -1, 2.5, True])
def test_sizes_that_make_no_sense(name, size):
    with pytest.raises(SolverError, match="size="):
        METHODS[name](GAUSSIAN.model, size)


@pytest.mark.parametrize("name", METHODS)
def test_log_likelihoods_that_are_not_finite(name):
    def broken(theta, rng):
        return np.where(np.arange(len(theta)) == 3, -np.inf, GAUSSIAN.target(theta, rng))

    with pytest.raises(SolverError, match=r"of all rows is not finite at 1 of \d+ draws"):
        METHODS[name](replace(GAUSSIAN.model, target=broken), 5)

    def nan(theta, columns):
        return np.full_like(GAUSSIAN.log_lik(theta, columns), np.nan)

    with pytest.raises(SolverError, match="not finite at"):
        METHODS[name](replace(GAUSSIAN.model, log_lik=nan), 5)


@pytest.mark.parametrize("name", METHODS)
def test_a_likelihood_that_never_varies(name):
    flat = replace(GAUSSIAN.model, target=lambda theta, rng: np.zeros(len(theta)))
    with pytest.raises(SolverError, match="same at every draw"):
        METHODS[name](flat, 5)


def test_no_candidate_that_correlates():
    aligned = GaussianMean(n=2, d=1)
    aligned.y[:] = 1.0
    with pytest.raises(SolverError, match="no candidate"):
        sparse_vi(
            replace(aligned.model, target=lambda t, rng: -aligned.log_lik(t, None).sum(axis=1)),
            2,
        )


def test_the_papers_own_steps_are_raw_gradients():
    """One step of one row is w = max(0, −γ g) with the gradient at w = 0, on the same draws."""
    tiny = GaussianMean(n=50, d=2)
    result = sparse_vi(tiny.model, 1, steps=1, polish=0, update="paper", draws=500, seed=3)
    rng = np.random.default_rng(3)
    nothing = tangent(tiny.model, np.zeros(0, dtype=int), np.zeros(0), 500, rng)
    feature = tiny.log_lik(nothing.draws, result.indices)
    feature = (feature - feature.mean(axis=0)) / np.sqrt(499)
    assert result.weights[0] == pytest.approx(float(nothing.residual @ feature[:, 0]))
    half = sparse_vi(
        tiny.model, 1, steps=1, polish=0, update="paper", draws=500, seed=3, step_size=0.5
    )
    assert half.weights[0] == pytest.approx(result.weights[0] / 2)


@pytest.mark.fit
def test_the_papers_own_steps_stop_improving():
    """Of 1,000 rows: with eight times the rows the KL is hardly lower, but a hundredth by ours."""
    wide, kls = GaussianMean(1_000, 2), {}
    for update, steps in (("paper", 100), ("gradient", 10)):
        for size in (5, 40):
            options = {"update": update, "steps": steps, "polish": 0}
            results = [sparse_vi(wide.model, size, **options, seed=s) for s in range(3)]
            kls[update, size] = np.median([wide.kl(r.indices, r.weights) for r in results])
    print(kls)
    assert kls["paper", 40] > 0.5 * kls["paper", 5]
    assert kls["gradient", 40] < 0.01 * kls["paper", 40]
