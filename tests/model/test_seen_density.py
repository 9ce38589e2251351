"""Densities of centred effects by the likelihood in ψ, against the program's with rows in Stan."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from pairs.cases import CASES
from pairs.simulated import crossed_logistic, gaussian_slopes, ordinal_groups, weibull_groups

import stancoreset as sc
from stancoreset.model.seen_density import SeenDensity, places_of
from stancoreset.reference import marginal_mode
from stancoreset.rows import central_hessian, is_sparse

MODELS = {
    # Matrix products, dense and sparse; a likelihood by Stan in ψ, with ordered cut points.
    "sim_crossed_logistic": lambda: crossed_logistic(2_000, number=12, others=5),
    "groups_crossed": lambda: crossed_logistic(3_000, number=160, others=10),
    "sim_ordinal_groups": lambda: ordinal_groups(1_500, number=9),
    "sim_weibull_groups": lambda: weibull_groups(1_500),
}


@pytest.fixture(params=MODELS, scope="module")
def both(request):
    """The density both ways, and the session."""
    with sc.CoresetModel(CASES[request.param].program, engine="stanli") as model:
        session, data = model._session, model.read(MODELS[request.param]())
        effects = session.effects
        with (
            effects.centred(session.no_rows(data)) as prior,
            effects.centred(data) as rows,
        ):
            points = np.random.default_rng(3).uniform(-1, 1, (4, prior.bound.n_params))
            places = places_of(session.seen(data, prior.back(points)), points)
            ours = SeenDensity(session.seen_data(data), prior.bound, places)
            yield SimpleNamespace(ours=ours, theirs=rows.bound, prior=prior.bound, points=points)


def test_densities_and_gradients_are_those_of_all_rows_in_stan(both):
    value, slope = both.ours.log_density_gradient(both.points)
    expected, along = both.theirs.log_density_gradient(both.points)
    assert np.ptp(value - expected) < 1e-10 * np.max(np.abs(expected))
    assert np.ptp(both.ours.log_density(both.points) - expected) < 1e-10 * np.max(np.abs(expected))
    np.testing.assert_allclose(slope, along, rtol=1e-9, atol=1e-8)
    assert (both.ours.n_params, both.ours.param_names) == (
        both.theirs.n_params,
        both.theirs.param_names,
    )


def test_hessians_are_differences_of_gradients_in_stan(both):
    at, width = both.points[0], np.full(both.ours.n_params, 0.05)
    found = both.ours.hessian(at, width)
    expected = central_hessian(both.theirs.log_density_gradient, at, width)
    found = found.toarray() if is_sparse(found) else found
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@pytest.mark.fit
def test_the_marginal_mode_is_that_of_all_rows_in_stan(both):
    """Both are found to a fifth of a logarithm of a scale."""
    seen = both.ours.likelihood.param_names
    unseen = np.ones(both.ours.n_params, dtype=bool)
    unseen[both.ours.places] = False
    assert unseen.sum() == both.ours.n_params - len(seen)
    one, other = (
        marginal_mode(density, both.prior, unseen, unseen, seed=1)
        for density in (both.ours, both.theirs)
    )
    np.testing.assert_allclose(one.mean[unseen], other.mean[unseen], atol=0.3)
    apart = (one.mean - other.mean) / other.sd
    assert np.sqrt(np.mean(apart[~unseen] ** 2)) < 0.3
    np.testing.assert_allclose(one.sd, other.sd, rtol=0.25)


def test_correlated_slopes_are_no_coordinates_of_centred_effects():
    """Rows see r = L z; centred effects divide by no matrix. Nor is one coordinate two of ψ."""
    with sc.CoresetModel(CASES["sim_gaussian_slopes"].program, engine="stanli") as model:
        session, data = model._session, model.read(gaussian_slopes(900, number=8))
        with session.effects.centred(session.no_rows(data)) as prior:
            points = np.random.default_rng(1).uniform(-1, 1, (2, prior.bound.n_params))
            psi = session.seen(data, prior.back(points))
    assert places_of(psi, points) is None
    assert places_of(points[:, [1, 1]], points) is None
