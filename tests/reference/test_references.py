"""Pathfinder, pilot, ADVI and the small copies they work on, against closed forms."""

from __future__ import annotations

import sys
from itertools import pairwise

import numpy as np
import pytest
from agreement import assert_agree, exactly, independent, of_draws
from calibration.truth import Summary
from problems import NORMAL_CODE, logistic_data, normal_data
from seeds import reseeded
from test_reference import LOGISTIC, full_data
from tiers import some

from stancoreset.engines.climbing import Step, climb
from stancoreset.engines.stanli import StanliEngine
from stancoreset.errors import OptionError, ReferenceFitError
from stancoreset.reference.base import GaussianFit, Reference, require_usable
from stancoreset.reference.methods import METHODS, fit_reference
from stancoreset.reference.pathfinder import (
    Path,
    inverse_hessians,
    pathfinder_draws,
    single_path,
)
from stancoreset.reference.small_copy import balanced_subsample, recentred, small_copy

N = 20_000


@pytest.fixture(scope="module")
def logistic():
    with full_data(LOGISTIC, logistic_data(N)) as full:
        yield full


@pytest.fixture(scope="module")
def laplace_fit(logistic) -> Reference:
    return fit_reference(logistic, "laplace", 300, 1)


class Gaussian:
    """log N(θ | mean, precision⁻¹) up to a constant; a density known in every respect."""

    def __init__(self, mean: np.ndarray, precision: np.ndarray) -> None:
        self.mean, self.precision, self.n_params = mean, precision, len(mean)

    def log_density(self, draws):
        z = draws - self.mean
        return -0.5 * np.einsum("sp,pq,sq->s", z, self.precision, z)

    def log_density_gradient(self, draws):
        return self.log_density(draws), -(draws - self.mean) @ self.precision


def gaussian(p: int, seed: int = 0) -> Gaussian:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(p, p)) / np.sqrt(p) + np.diag(rng.uniform(0.5, 3, p))
    return Gaussian(rng.normal(size=p), root @ root.T)


def stan_model(code: str, data: dict):
    return StanliEngine().compile(code).bind(data)


# The balanced subsample --------------------------------------------------------------------


@pytest.mark.slow
def test_balanced_subsample_is_unbiased():
    """Each row's weight, averaged over many subsamples, is one."""
    rng = np.random.default_rng(0)
    y, group = (rng.random(400) < 0.02).astype(int), rng.integers(0, 7, 400) ** 2
    total = np.zeros(400)
    for _ in range(3_000):
        rows, weights = balanced_subsample([y, group], 400, 80, rng)
        assert len(rows) == 80
        total[rows] += weights
    mean = total / 3_000
    assert abs(mean.mean() - 1) < 1e-12
    assert np.max(np.abs(mean - 1)) < 0.25  # 5 standard errors of the lightest rows
    assert abs(mean[y == 1].mean() - 1) < 0.05


def test_balanced_subsample_takes_rare_levels_and_bounds_the_weights():
    rng = np.random.default_rng(1)
    y = np.zeros(100_000, dtype=int)
    y[rng.choice(100_000, 60, replace=False)] = 1
    rows, weights = balanced_subsample([y], 100_000, 2_000, rng)
    assert y[rows].sum() == 60
    assert weights.max() < 2.2 * 100_000 / 2_000
    assert weights.sum() == pytest.approx(100_000)
    plain, equal = balanced_subsample([], 100_000, 2_000, rng)
    assert len(np.unique(plain)) == 2_000
    np.testing.assert_allclose(equal, 50.0)


# Recentring --------------------------------------------------------------------------------


@pytest.mark.fit
def test_recentring_finds_the_full_posterior_from_far_away(logistic, laplace_fit):
    """A narrow cloud 20 sd away, wrongly shaped: only its centre is to be moved."""
    fit = laplace_fit.gaussian
    rows = fit.draw(500, np.random.default_rng(2)) + 20 * fit.sd
    moved = recentred(logistic, rows, seed=1)
    assert np.max(np.abs(moved.mean(axis=0) - fit.mean) / fit.sd) < 0.1
    np.testing.assert_allclose(np.cov(moved.T), np.cov(rows.T), rtol=1e-8)


def test_a_small_copy_is_as_wide_as_the_full_posterior(logistic, laplace_fit):
    with small_copy(logistic, seed=3) as small:
        widths = []
        for point in (laplace_fit.gaussian.mean,):
            step = 1e-4 * np.diag(laplace_fit.gaussian.sd)
            up = small.log_density_gradient(point + step)[1]
            down = small.log_density_gradient(point - step)[1]
            widths = -(np.diagonal(up - down)) / (2 * np.diagonal(step))
    full_up = logistic.log_density_gradient(laplace_fit.gaussian.mean + step)[1]
    full_down = logistic.log_density_gradient(laplace_fit.gaussian.mean - step)[1]
    exact = -(np.diagonal(full_up - full_down)) / (2 * np.diagonal(step))
    np.testing.assert_allclose(widths, exact, rtol=0.1)


# Pathfinder --------------------------------------------------------------------------------


def test_climb_tells_of_its_steps_in_order():
    target, steps = gaussian(5), []

    def density(theta):
        value, gradient = target.log_density_gradient(theta[None])
        return float(value[0]), gradient[0]

    summit = climb(density, np.ones(5), visit=steps.append)
    np.testing.assert_array_equal(steps[0].theta, np.ones(5))
    np.testing.assert_allclose(steps[-1].theta, summit.theta, atol=1e-6)
    assert all(a.value <= b.value + 1e-12 for a, b in pairwise(steps))
    for step in steps:
        value, gradient = density(step.theta)
        assert step.value == value
        np.testing.assert_array_equal(step.gradient, gradient)


def test_inverse_hessian_satisfies_the_newest_secant_equation():
    target, rng = gaussian(8), np.random.default_rng(3)
    steps = [
        Step(t, float(target.log_density(t[None])[0]), target.log_density_gradient(t[None])[1][0])
        for t in rng.normal(size=(12, 8))
    ]
    for i, inverse in enumerate(inverse_hessians(steps, history=6)):
        np.testing.assert_array_equal(inverse, inverse.T)
        assert np.linalg.eigvalsh(inverse)[0] > 0
        if i:
            s = steps[i].theta - steps[i - 1].theta
            np.testing.assert_allclose(inverse @ target.precision @ s, s, rtol=1e-8, atol=1e-10)


def test_inverse_hessian_equals_textbook_bfgs():
    """The compact form against H ← (I − ρsyᵀ) H (I − ρysᵀ) + ρssᵀ, from the same diagonal."""
    target, rng = gaussian(4), np.random.default_rng(4)
    thetas = rng.normal(size=(4, 4))
    steps = [Step(t, 0.0, target.log_density_gradient(t[None])[1][0]) for t in thetas]
    *_, compact = inverse_hessians(steps, history=3)
    alpha = np.ones(4)
    pairs = []
    for a, b in pairwise(steps):
        s, y = b.theta - a.theta, a.gradient - b.gradient
        top = (y @ (alpha * y)) / (alpha * (y @ s)) + y**2 / (y @ s)
        alpha = 1 / (top - (y @ (alpha * y)) * s**2 / ((y @ s) * (s @ (s / alpha)) * alpha**2))
        pairs.append((s, y))
    textbook = np.diag(alpha)
    for s, y in pairs:
        v = np.eye(4) - np.outer(y, s) / (y @ s)
        textbook = v.T @ textbook @ v + np.outer(s, s) / (y @ s)
    np.testing.assert_allclose(compact, textbook, rtol=1e-9)


def test_pathfinder_finds_a_gaussian():
    target = gaussian(6)
    path = single_path(target, np.full(6, 1.5), np.random.default_rng(5))
    # ELBO of a perfect fit: the log of the normaliser
    perfect = 0.5 * (6 * np.log(2 * np.pi) - np.linalg.slogdet(target.precision)[1])
    assert path.elbo == pytest.approx(perfect, abs=0.5)
    draws = pathfinder_draws(target, 2_000, seed=1)
    cov = np.linalg.inv(target.precision)
    assert np.max(np.abs(draws.mean(axis=0) - target.mean) / np.sqrt(np.diag(cov))) < 0.1
    np.testing.assert_allclose(np.std(draws, axis=0), np.sqrt(np.diag(cov)), rtol=0.1)


FUNNEL = """
parameters { real v; vector[9] x; }
model { v ~ normal(0, 3); x ~ normal(0, exp(v / 2)); }
"""


def test_pathfinder_stops_before_a_funnels_tip():
    """The density is unbounded as v → −∞; the best lower bound lies before."""
    with stan_model(FUNNEL, {}) as model:
        draws = pathfinder_draws(model, 500, seed=1)
    assert np.all(np.isfinite(draws))
    assert -6 < np.mean(draws[:, 0]) < 4
    assert np.std(draws[:, 0]) > 0.2


MIXTURE = """
parameters { real x; }
model { target += log_mix(0.5, normal_lpdf(x | -1.5, 0.2), normal_lpdf(x | 1.5, 0.2)); }
"""


def test_several_paths_find_several_modes():
    with stan_model(MIXTURE, {}) as model:
        draws = pathfinder_draws(model, 1_000, seed=2, paths=8)[:, 0]
    assert 0.3 < np.mean(draws > 0) < 0.7
    np.testing.assert_allclose(np.std(draws[draws > 0]), 0.2, rtol=0.15)


def test_paths_are_weighted_whatever_the_size_of_the_log_density(monkeypatch):
    """Of a hundred thousand rows it is so large that probabilities rounded to more than one."""
    places = iter(range(200))

    def found(*_):
        place = next(places)
        bounds = -123_456.789 * (1 + place // 4) - np.array([0.0, 0.7, 40.0, 41.0])
        return Path(GaussianFit(np.full(6, 100.0 * place), np.eye(6)), bounds[place % 4])

    room = sys.modules["stancoreset.reference.pathfinder"]  # its function has its name
    monkeypatch.setattr(room, "single_path", found)
    monkeypatch.setattr(room, "KHAT_USABLE", -np.inf)
    shares = []
    for seed in range(50):
        draws = pathfinder_draws(gaussian(6), 100, seed=seed, paths=4)
        assert draws.shape == (100, 6)
        shares.append(np.bincount(np.rint(draws[:, 0] / 100).astype(int) % 4, minlength=4) / 100)
    assert np.mean(shares, axis=0) == pytest.approx([0.668, 0.332, 0, 0], abs=0.02)


def test_pathfinder_says_when_there_is_no_density():
    code = "parameters { real x; } model { target += negative_infinity(); }"
    with (
        stan_model(code, {}) as model,
        pytest.raises(ReferenceFitError, match="no Gaussian with a finite lower bound"),
    ):
        pathfinder_draws(model, 10, seed=1)


# The references ----------------------------------------------------------------------------


@pytest.mark.fit
def test_references_are_determined_by_their_seed(logistic):
    one, two, three = (fit_reference(logistic, "pathfinder", 50, s).draws for s in (1, 1, 2))
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, three)


#: What moving draws of a small copy to the full data leaves open, in standard deviations.
MOVED = 0.05


def moments_of(reference: Reference) -> Summary:
    """Of all its draws: Pathfinder's are independent, a pilot's are four chains, shuffled."""
    rows = np.concatenate([reference.draws, reference.spare])
    if reference.method == "pathfinder":
        return independent({"theta": rows})
    chains = np.empty_like(rows)
    chains[np.random.default_rng(reference.seed).permutation(len(rows))] = rows
    return of_draws({"theta": chains.reshape(4, -1, rows.shape[1])})


@pytest.mark.fit
@pytest.mark.parametrize("method", some(["pathfinder", "pilot"], 2))
def test_references_agree_with_the_posterior(logistic, laplace_fit, method):
    """20,000 rows: the small copy has 2,000, and its own posterior is 3 sd off."""
    reference = fit_reference(logistic, method, 600, seed=reseeded(1))
    fit = laplace_fit.gaussian
    assert reference.method == method
    assert reference.draws.shape == (600, 4)
    assert len(reference.spare) >= 2 * len(reference.draws)
    known = exactly(theta=(fit.mean, fit.sd))
    assert_agree(moments_of(reference), known, within=MOVED)
    np.testing.assert_allclose(
        reference.log_p, logistic.log_density(reference.draws), rtol=1e-10, atol=1e-6
    )


@pytest.mark.fit
def test_pilot_follows_a_skewed_posterior():
    """Few rows: sigma's posterior is skewed, and NUTS on all of them is the posterior."""
    data = normal_data(8)
    with full_data(NORMAL_CODE, data) as full:
        reference = fit_reference(full, "pilot", 1_500, seed=reseeded(1))
        grid = np.stack(
            np.meshgrid(np.linspace(-6, 10, 160), np.linspace(-1.5, 3.5, 160)), axis=-1
        ).reshape(-1, 2)
        density = full.log_density(grid)
    weights = np.exp(density - density.max())
    weights /= weights.sum()
    mean = weights @ grid
    third = weights @ (grid[:, 1] - mean[1]) ** 3
    assert third > 0
    sd = np.sqrt(weights @ (grid - mean) ** 2)
    assert_agree(moments_of(reference), exactly(theta=(mean, sd)), within=MOVED)


@pytest.mark.fit
def test_held_out_and_added_draws_are_different_draws(logistic):
    reference = fit_reference(logistic, "pathfinder", 250, seed=1)
    unseen = reference.more(200, stream=0)
    first, second = reference.more(250, stream=250), reference.more(500, stream=500)
    everything = np.concatenate([reference.draws, unseen, first, second])
    assert len(everything) == 1_200
    assert len(np.unique(everything, axis=0)) == 1_200


@pytest.mark.slow
@pytest.mark.fit
@pytest.mark.cmdstan
def test_references_on_cmdstan(cmdstan, laplace_fit):
    """Ours against Stan's own Pathfinder, and Stan's ADVI moved to the full data."""
    from cmdstanpy import CmdStanModel

    from stancoreset.engines import CompiledWithControl, controlled_for
    from stancoreset.engines.cmdstan.engine import CmdStanEngine
    from stancoreset.rows.full_data import FullData
    from stancoreset.stan import StanProgram, weighted_program

    weighted, engine = weighted_program(StanProgram.from_code(LOGISTIC)), CmdStanEngine()
    controlled = controlled_for(weighted, engine)
    executable = engine.compile(controlled.code, name="logistic")
    compiled = CompiledWithControl(executable, controlled)
    data = weighted.check(logistic_data(N))
    fit = laplace_fit.gaussian
    with FullData(compiled, weighted, data, in_process=False) as full:
        for method, bound in (("pathfinder", 0.15), ("pilot", 0.15), ("advi", 0.4)):
            reference = fit_reference(full, method, 100, seed=reseeded(1))
            rows = np.concatenate([reference.draws, reference.spare])
            assert np.max(np.abs(rows.mean(axis=0) - fit.mean) / fit.sd) < bound
            np.testing.assert_allclose(rows.std(axis=0), fit.sd, rtol=bound)
        with small_copy(full, seed=1) as small:
            ours = pathfinder_draws(small, 1_000, seed=reseeded(1))
            stan = CmdStanModel(exe_file=executable.executable)
            theirs = stan.pathfinder(data=str(small._data_file), seed=1, num_paths=4)
            stans = small.unconstrain(
                {name: theirs.stan_variable(name) for name in ("alpha", "beta")}
            )
    assert np.max(np.abs(ours.mean(axis=0) - stans.mean(axis=0)) / fit.sd) < 0.2
    np.testing.assert_allclose(ours.std(axis=0), stans.std(axis=0), rtol=0.2)


# Bad input ---------------------------------------------------------------------------------


def test_advi_needs_cmdstan(logistic):
    with pytest.raises(OptionError, match=r'"advi" needs CmdStan.*"pathfinder"'):
        fit_reference(logistic, "advi", 100, seed=1)


def test_unknown_references_are_refused_with_the_known_ones(logistic):
    with pytest.raises(OptionError, match=r"'mode'.*" + ".*".join(METHODS)):
        fit_reference(logistic, "mode", 100, seed=1)
    with pytest.raises(OptionError, match="draws is 1"):
        fit_reference(logistic, "pilot", 1, seed=1)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (np.zeros((9, 3)), r"shape \(9, 3\).*\(draws, 2\)"),
        (np.zeros((3, 2)), "3 given"),
        (np.full((9, 2), np.inf), "mu is inf in draw 0"),
        (np.zeros((9, 2)), "mu has the same value"),
    ],
)
def test_unusable_draws_are_refused_by_name(rows, words):
    with pytest.raises(ReferenceFitError, match=words):
        require_usable(rows, ("mu", "sigma"))


def test_the_command_line_lists_every_reference():
    from stancoreset.cli.commands import make_parser

    commands = make_parser()._subparsers._group_actions[0].choices
    option = next(a for a in commands["fit"]._actions if a.dest == "reference")
    assert set(option.choices) == set(METHODS)


# Through the whole fit -----------------------------------------------------------------------

CENTRED = """
data { int N; int J; array[N] int<lower=1, upper=J> g; vector[N] y; }
parameters { real a; vector[J] theta; real<lower=0> tau; real<lower=0> s; }
model {
  a ~ normal(0, 2);
  tau ~ normal(0, 1);
  s ~ normal(0, 2);
  theta ~ normal(a, tau);
  y ~ normal(theta[g], s);
}
"""


@pytest.mark.slow
@pytest.mark.fit
def test_where_laplace_fails_pathfinder_serves(tmp_path):
    """Groups that hardly differ, centred: the joint density has no mode, τ → 0."""
    import stancoreset as sc

    rng = np.random.default_rng(0)
    g = rng.integers(0, 10, 12_000)
    y = rng.normal(1, 1, 12_000)
    data = {"N": 12_000, "J": 10, "g": g + 1, "y": y}
    quick = {"iter_warmup": 500, "adapt_delta": 0.99}  # τ → 0 is the neck of a funnel
    with sc.CoresetModel(stan_code=CENTRED, engine="stanli") as model:
        with pytest.raises(ReferenceFitError, match='reference="pathfinder"'):
            model.reference(data, "laplace", draws=50)
        fit = model.fit(
            data,
            size=60,
            reference="pathfinder",
            max_rounds=1,
            seed=reseeded(1),
            output_dir=tmp_path / "run",
            **quick,
        )
        assert fit.certificate.ess > 0.9 * fit.certificate.n_draws
        again = sc.load_fit(tmp_path / "run")
        assert again.reference.method == "pathfinder"
        np.testing.assert_array_equal(again.reference.spare, fit.reference.spare)
        # s is known well: its posterior is that of a sample of 12,000
        known = exactly(s=(y.std(), y.std() / np.sqrt(2 * 12_000)))
        assert_agree(of_draws(fit.posterior, "s"), known, within=0.1)
