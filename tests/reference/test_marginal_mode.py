"""The marginal mode of scales, against that of a density whose effects are integrated out."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import norm
from seeds import reseeded

from stancoreset.errors import ReferenceFitError
from stancoreset.reference import marginal_mode

TAU = 1.3


class Groups:
    """y_j ~ normal(b_j, s_j), b_j ~ normal(m, τ) in some units, far from zero: (m, log τ, b).

    The priors are m ~ normal(5000, 50) and τ ~ half-normal(30), in these units.
    """

    def __init__(self, groups: int, unit: float) -> None:
        rng = np.random.default_rng(5)
        self.unit = unit
        self.error = unit * rng.uniform(0.2, 2.0, groups)
        self.y = unit * (5_000 + TAU * rng.normal(size=groups)) + self.error * rng.normal(
            size=groups
        )
        self.n_params = groups + 2
        self.param_names = ("m", "tau", *(f"b.{j + 1}" for j in range(groups)))
        self.unseen = np.arange(self.n_params) < 2
        self.scales = np.arange(self.n_params) == 1

    def of_rows(self, points):
        away = (self.y - points[:, 2:]) / self.error
        slope = np.zeros_like(points)
        slope[:, 2:] = away / self.error
        return -0.5 * np.sum(away**2, axis=1), slope

    def of_prior(self, points):
        m, log_tau, b = points[:, :1], points[:, 1:2], points[:, 2:]
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            tau = np.exp(log_tau)
            apart, far, wide = (b - m) / tau, (m / self.unit - 5_000) / 50, tau / (30 * self.unit)
            count = b.shape[1]
            value = -0.5 * np.sum(apart**2, axis=1) - (count - 1) * log_tau[:, 0]
            value = value - 0.5 * far[:, 0] ** 2 - 0.5 * wide[:, 0] ** 2
            total = np.sum(apart**2, axis=1, keepdims=True) - (count - 1) - wide**2
            along = np.sum(apart / tau, axis=1, keepdims=True) - far / (50 * self.unit)
            return value, np.concatenate([along, total, -apart / tau], axis=1)

    def of_both(self, points):
        pairs = zip(self.of_rows(points), self.of_prior(points), strict=True)
        return tuple(one + other for one, other in pairs)

    @property
    def marginal(self):
        """Mode of (m, log τ) by quadrature's closed form: y_j ~ normal(m, √(τ² + s_j²))."""

        def minus(at):
            m, tau = at[0] * self.unit, np.exp(at[1]) * self.unit
            rows = norm.logpdf(self.y, m, np.hypot(tau, self.error)).sum()
            return -rows - norm.logpdf(at[0], 5_000, 50) + 0.5 * (np.exp(at[1]) / 30) ** 2 - at[1]

        found = minimize(minus, [5_000.0, 1.0], method="Nelder-Mead", options={"xatol": 1e-6})
        return found.x[0] * self.unit, found.x[1] + np.log(self.unit)

    def model(self, gradient):
        return model_of(self.param_names, gradient)


def model_of(names, gradient):
    """A log density by its gradient."""
    return SimpleNamespace(
        n_params=len(names),
        param_names=names,
        log_density=lambda points: gradient(points)[0],
        log_density_gradient=gradient,
    )


@pytest.mark.fit
@pytest.mark.parametrize("unit", [1e-5, 1.0, 1e4])
@pytest.mark.parametrize("groups", [40, 400])
def test_it_is_the_marginal_mode_in_any_units(groups, unit):
    """Four hundred groups have a sparse Hessian."""
    some = Groups(groups, unit)
    density, prior = some.model(some.of_both), some.model(some.of_prior)
    top = marginal_mode(density, prior, some.unseen, some.scales, reseeded(1)).mean
    m, log_tau = some.marginal
    assert abs(top[0] - m) < 0.2 * TAU * unit
    assert abs(top[1] - log_tau) < 0.3
    # θ is the mode for these: precision-weighted means.
    weight, own = np.exp(-2 * top[1]), some.error**-2
    np.testing.assert_allclose(
        top[2:], (weight * top[0] + own * some.y) / (weight + own), atol=0.02 * unit
    )


@pytest.mark.fit
def test_without_scales_a_location_is_found():
    """τ is a number that the program knows; then no scales are tried."""
    some = Groups(30, 1.0)

    def known(gradient):
        def without(points):
            value, slope = gradient(np.insert(points, 1, np.log(TAU), axis=1))
            return value, np.delete(slope, 1, axis=1)

        return model_of(("m", *some.param_names[2:]), without)

    unseen = np.arange(some.n_params - 1) < 1
    models = known(some.of_both), known(some.of_prior)
    top = marginal_mode(*models, unseen, np.zeros_like(unseen), reseeded(1)).mean
    weight = 1 / (TAU**2 + some.error**2)
    assert abs(top[0] - np.average(some.y, weights=weight)) < 0.3 / np.sqrt(weight.sum())


def test_no_curvature_is_an_error_that_names_the_direction():
    flat = model_of(("m", "b"), lambda points: (np.zeros(len(points)), np.zeros_like(points)))
    unseen = np.array([True, False])
    with pytest.raises(ReferenceFitError, match="b"):
        marginal_mode(flat, flat, unseen, np.zeros(2, dtype=bool), 1)


class Products:
    """y_si ~ normal(exp(l_i) θ_s, 1), θ_s ~ normal(0, 1), l_i ~ normal(0, τ): (log τ, l, θ).

    The prior is τ ~ half-normal(1). The density is highest where all θ are next to nothing.
    """

    def __init__(self, people: int = 300, items: int = 4) -> None:
        rng = np.random.default_rng(7)
        self.items = items
        ability, factor = rng.normal(size=people), np.exp(0.3 * rng.normal(size=items))
        self.y = ability[:, None] * factor + rng.normal(size=(people, items))
        self.n_params = 1 + items + people
        self.param_names = (
            "tau",
            *(f"l.{i + 1}" for i in range(items)),
            *(f"t.{s + 1}" for s in range(people)),
        )
        self.unseen = np.arange(self.n_params) == 0

    def of_prior(self, points):
        log_tau, logs, ability = np.split(points, [1, 1 + self.items], axis=1)
        apart, wide = logs * np.exp(-log_tau), np.exp(2 * log_tau)
        squares = np.sum(apart**2, axis=1, keepdims=True)
        value = -0.5 * (squares + wide) - (self.items - 1) * log_tau
        value = value[:, 0] - 0.5 * np.sum(ability**2, axis=1)
        along = squares - (self.items - 1) - wide
        return value, np.concatenate([along, -apart * np.exp(-log_tau), -ability], axis=1)

    def of_both(self, points):
        value, slope = self.of_prior(points)
        factor, ability = np.exp(points[:, 1 : 1 + self.items]), points[:, 1 + self.items :]
        left = self.y - ability[:, :, None] * factor[:, None, :]
        slope = slope.copy()
        slope[:, 1 : 1 + self.items] += np.einsum("psi,ps->pi", left, ability) * factor
        slope[:, 1 + self.items :] += np.einsum("psi,pi->ps", left, factor)
        return value - 0.5 * np.sum(left**2, axis=(1, 2)), slope

    def marginal(self, log_tau):
        """The mode of l with θ integrated out in closed form: y_s ~ normal(0, 1 + f fᵀ)."""

        def minus(logs):
            f, prior = np.exp(logs), 0.5 * np.sum(logs**2) * np.exp(-2 * log_tau)
            fitted = np.sum((self.y @ f) ** 2) / (1 + f @ f)
            return prior + 0.5 * len(self.y) * np.log1p(f @ f) - 0.5 * fitted

        return minimize(minus, np.zeros(self.items)).x


@pytest.mark.fit
def test_effects_that_multiply_one_another_are_where_their_mass_is():
    """The conditional mode has factors twice as large."""
    some = Products()
    density, prior = (model_of(some.param_names, of) for of in (some.of_both, some.of_prior))
    found = marginal_mode(density, prior, some.unseen, some.unseen, reseeded(1))
    logs = some.marginal(found.mean[0])
    assert found.mean[1 : 1 + some.items] == pytest.approx(logs, abs=0.2)

    def minus(x):
        value, slope = some.of_both(np.concatenate([found.mean[:1], x])[None])
        return -value[0], -slope[0, 1:]

    top = minimize(minus, found.mean[1:], jac=True).x
    assert np.min(top[: some.items] - logs) > 0.6
