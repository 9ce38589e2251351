"""The weighted Fisher information projection, against formulas evaluated in numpy."""

from __future__ import annotations

import numpy as np
import pytest
from problems import NORMAL_CODE, logistic_data, normal_data
from seeds import reseeded

import stancoreset as sc
from stancoreset.errors import OptionError
from stancoreset.selection.coreset import select
from stancoreset.selection.fisher import extend_fisher, project_fisher, random_coordinates
from stancoreset.selection.projection import heldout_error

DATA = logistic_data(4_000)
QUICK = {"iter_warmup": 300, "iter_sampling": 500, "chains": 2}


@pytest.fixture(scope="module")
def model():
    with sc.CoresetModel(sc.stan_model_path("logistic"), engine="stanli") as model:
        yield model


@pytest.fixture(scope="module")
def reference(model):
    return model.reference(DATA, draws=120, seed=1)


@pytest.fixture(scope="module")
def projection(model, reference):
    return model.project(DATA, reference, projection="fisher", candidates=700, seed=2, heldout=60)


def gradients(theta: np.ndarray) -> np.ndarray:
    """∇L_n(θ_s) of logistic regression, (S, N, D): (y − σ(η))·(1, x)."""
    z = np.column_stack([np.ones(DATA["N"]), DATA["X"]])
    residual = DATA["y"] - 1 / (1 + np.exp(-theta @ z.T))
    return residual[:, :, None] * z


def by_hand(theta, seed, stream):
    """√(D/J)·∂L_n(θ_j)/∂θ_{d_j}, all N columns."""
    count, d = theta.shape
    coordinates = random_coordinates(count, d, np.random.default_rng([seed, 17, stream]))
    return np.sqrt(d / count) * gradients(theta)[np.arange(count), :, coordinates]


def test_features_and_target_equal_the_formula(projection, reference):
    phi = by_hand(reference.draws, reference.seed, 0)
    assert projection.phi.shape == (120, 700)
    np.testing.assert_allclose(projection.phi, phi[:, projection.candidates], atol=1e-8)
    np.testing.assert_allclose(projection.target, phi.sum(axis=1), rtol=1e-9, atol=1e-9)
    unseen = by_hand(reference.more(60, stream=0), reference.seed, 1)
    np.testing.assert_allclose(projection.heldout_phi, unseen[:, projection.candidates], atol=1e-8)
    np.testing.assert_allclose(projection.heldout_target, unseen.sum(axis=1), atol=1e-8)


@pytest.mark.slow
def test_inner_products_are_those_of_the_weighted_fisher_norm(model, reference):
    """⟨φ_n, φ_m⟩ is an unbiased estimate of E[∇L_n · ∇L_m]: here, over many features."""
    many = model.reference(DATA, draws=3_000, seed=3)
    projected = model.project(DATA, many, projection="fisher", candidates=20, seed=2, heldout=2)
    theta = reference.gaussian.draw(8_000, np.random.default_rng(5))
    z = np.column_stack([np.ones(DATA["N"]), DATA["X"]])[projected.candidates]
    residual = DATA["y"][projected.candidates] - 1 / (1 + np.exp(-theta @ z.T))
    exact = (residual.T @ residual / len(theta)) * (z @ z.T)
    estimate = projected.phi.T @ projected.phi
    np.testing.assert_allclose(estimate, exact, atol=0.1 * np.abs(exact).max())


def test_coordinates_are_balanced_and_uniform():
    counts = np.bincount(random_coordinates(103, 5, np.random.default_rng(0)), minlength=5)
    assert counts.sum() == 103
    assert np.ptp(counts) <= 1
    first = [random_coordinates(3, 5, np.random.default_rng(s)) for s in range(4_000)]
    share = np.bincount(np.concatenate(first), minlength=5) / (3 * 4_000)
    np.testing.assert_allclose(share, 0.2, atol=0.015)


def test_extended_projection_equals_one_made_at_once(model, projection, reference):
    full = model._session.full_data(model.read(DATA))
    rows, pool = model._session.pool(model.read(DATA), 700, seed=2)
    more = reference.more(80, stream=120)
    larger = extend_fisher(projection, full, pool, reference, more)
    expected = np.concatenate(
        [
            by_hand(reference.draws, reference.seed, 0) * np.sqrt(120 / 200),
            by_hand(more, reference.seed, 121) * np.sqrt(80 / 200),
        ]
    )
    np.testing.assert_allclose(larger.phi, expected[:, rows], atol=1e-8)
    np.testing.assert_allclose(larger.target, expected.sum(axis=1), atol=1e-8)
    assert larger.n_draws == 200
    assert larger.heldout_target is projection.heldout_target


def test_all_rows_together_are_the_target(model, reference):
    """Differences of log_lik add up to the exact gradient, constrained parameters included."""
    with sc.CoresetModel(stan_code=NORMAL_CODE, engine="stanli") as normal:
        data = normal_data(3_000)
        own = normal.reference(data, draws=60, seed=1)
        everything = normal.project(data, own, projection="fisher", seed=1, heldout=40)
    assert heldout_error(everything, np.arange(3_000), np.ones(3_000)) < 1e-7
    np.testing.assert_allclose(everything.phi.sum(axis=1), everything.target, rtol=1e-6, atol=1e-5)


@pytest.mark.fit
def test_selection_on_it_is_certified(model):
    fit = model.fit(logistic_data(8_000), size=60, projection="fisher", seed=reseeded(1), **QUICK)
    assert fit.certificate.verdict == "certified"
    assert fit.coreset.size <= 60
    assert fit.settings["projection"] == "fisher"


def test_select_works_unchanged_and_is_seeded(model, projection, reference):
    again = model.project(DATA, reference, projection="fisher", candidates=700, seed=2, heldout=60)
    np.testing.assert_array_equal(again.phi, projection.phi)
    one, two = (select(p, 40, method="giga", seed=3) for p in (projection, again))
    np.testing.assert_array_equal(one.indices, two.indices)
    assert select(projection, 40).heldout_error < one.heldout_error < 1


@pytest.mark.parametrize("call", ["fit", "project"])
def test_unknown_projection(model, reference, call):
    arguments = (DATA,) if call == "fit" else (DATA, reference)
    with pytest.raises(OptionError, match="projection is 'hessian', expected one of 'loglik'"):
        getattr(model, call)(*arguments, projection="hessian")


@pytest.mark.fit
@pytest.mark.slow
def test_command_line_option(tmp_path, capsys):
    from stancoreset.cli.commands import main

    np.savez(tmp_path / "d.npz", **logistic_data(2_000))
    command = ["fit", str(sc.stan_model_path("logistic")), str(tmp_path / "d.npz")]
    options = ["--engine", "stanli", "--size", "30", "--projection", "fisher", "--no-plots"]
    quick = ["--chains", "2", "--iter-warmup", "200", "--iter-sampling", "300", "--json"]
    assert main([*command, *options, *quick, "--out", str(tmp_path / "run")]) == 0
    assert '"projection": "fisher"' in capsys.readouterr().out


def test_project_fisher_is_what_the_model_calls(model, projection, reference):
    full = model._session.full_data(model.read(DATA))
    rows, pool = model._session.pool(model.read(DATA), 700, seed=2)
    direct = project_fisher(full, pool, rows, reference, heldout=60)
    np.testing.assert_array_equal(direct.phi, projection.phi)
