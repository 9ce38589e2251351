"""Climbs in units of their own path, against modes known in closed form."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from seeds import reseeded

from stancoreset.engines import climb
from stancoreset.reference import ascend

P = 40
WIDTHS = np.geomspace(1e-4, 1e3, P)


def test_the_mode_of_a_gaussian_whose_widths_differ():
    rng = np.random.default_rng(reseeded(1))
    mean = rng.normal(size=P)
    basis = np.linalg.qr(np.eye(P) + 0.05 * rng.normal(size=(P, P)))[0]
    root = basis.T / WIDTHS  # of the precision, nearly along the axes
    calls = []

    def gradient(points):
        calls.append(len(points))
        away = (points - mean) @ root
        return -0.5 * np.sum(away**2, axis=1), -away @ root.T

    found = ascend(SimpleNamespace(n_params=P, log_density_gradient=gradient), np.zeros(P))
    assert gradient(found[None])[0] > -P / 4  # draws are P/2 below the mode
    spent = len(calls)
    # L-BFGS in the parameters' own units is further below the mode after as many evaluations.
    plain = climb(
        lambda theta: (float(gradient(theta[None])[0][0]), gradient(theta[None])[1][0]),
        np.zeros(P),
        max_iter=spent // 2,
    )
    assert plain.value < gradient(found[None])[0]


def test_a_wall_of_the_support_is_climbed_around():
    """log x − x with x > 0: the mode is at one."""

    def gradient(points):
        with np.errstate(divide="ignore", invalid="ignore"):
            inside = points > 0
            values = np.where(inside, np.log(points) - points, -np.inf)
            return values.sum(axis=1), np.where(inside, 1 / points - 1, np.nan)

    model = SimpleNamespace(n_params=2, log_density_gradient=gradient)
    np.testing.assert_allclose(ascend(model, np.array([1e-3, 30.0])), 1.0, atol=1e-3)


def test_effects_that_meet_a_held_scale_have_a_mode():
    """Of a ~ normal(mu, tau) without its pole: y / (1 + error²) with mu = 0 and tau = 1."""
    y, error = np.array([1.0, -2.0, 0.5]), 0.5

    def gradient(points):
        mu, log_tau, a = points[:, :1], points[:, 1:2], points[:, 2:]
        apart, tau = a - mu, np.exp(log_tau)
        value = -0.5 * (apart / tau) ** 2 - log_tau - 0.5 * ((y - a) / error) ** 2
        pull = apart / tau**2
        own = (pull.sum(axis=1), ((apart / tau) ** 2 - 1).sum(axis=1))
        return value.sum(axis=1), np.column_stack([*own, (y - a) / error**2 - pull])

    model = SimpleNamespace(n_params=5, log_density_gradient=gradient)
    held = np.array([True, True, False, False, False])
    found = ascend(model, np.zeros(5), held)
    np.testing.assert_array_equal(found[:2], 0.0)
    np.testing.assert_allclose(found[2:], y / (1 + error**2), rtol=1e-3)
