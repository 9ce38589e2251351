"""Fisher information of a GLM's rows, against quadrature and averages of scores over draws."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit

from stancoreset.rows.glm import GlmFisher, GlmKernel, GlmRows, seen_by_glm
from stancoreset.rows.glm.predictor import Coefficients, Design, Term

WIDTH = 3


def kernel(family, scale=None):
    terms = Coefficients((Term("X", tuple(range(WIDTH))),), scale)
    return GlmKernel(family, "y", "weights", terms)


def problem(seed=0, rows=6):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(rows, WIDTH))
    factor = np.tril(rng.normal(size=(WIDTH, WIDTH))) * 0.4
    made = GlmRows(Design(z), rng.normal(size=rows), np.zeros(rows), np.arange(1.0, rows + 1))
    return made, rng.normal(size=WIDTH), factor


def squares(roots):
    return np.einsum("nrd,nre->nde", roots, roots)


CURVATURES = {
    "bernoulli_logit": lambda eta: expit(eta) * expit(-eta),
    "poisson_log": np.exp,
}


@pytest.mark.parametrize("family", CURVATURES)
def test_curvature_is_averaged_over_the_predictor(family):
    rows, mean, factor = problem()
    roots = GlmFisher(kernel(family), mean, factor).roots(rows)
    for row, (z, offset, weight) in enumerate(
        zip(rows.z.dense, rows.offset, rows.weights, strict=True)
    ):
        centre, sd = z @ mean + offset, np.linalg.norm(z @ factor)

        def integrand(u, centre=centre, sd=sd):
            return CURVATURES[family](centre + sd * u) * np.exp(-0.5 * u**2) / np.sqrt(2 * np.pi)

        gamma = quad(integrand, -14, 14, epsabs=0, epsrel=1e-11, limit=200)[0]
        along = z @ factor
        expected = weight * gamma * np.outer(along, along)
        assert np.allclose(squares(roots)[row], expected, rtol=1e-5, atol=0)


def test_normal_with_unknown_scale_equals_the_average_of_squared_scores():
    rows, mean, factor = problem()
    rng = np.random.default_rng(1)
    wide = np.zeros((WIDTH + 1, WIDTH + 1))
    wide[:WIDTH, :WIDTH], wide[WIDTH] = factor, rng.normal(size=WIDTH + 1)
    sigma, fisher = 1.7, kernel("normal", WIDTH)
    found = GlmFisher(fisher, np.append(mean, np.log(sigma)), wide, sigma**-2).roots(rows)
    assert found.shape == (len(rows), 2, WIDTH + 1)
    draws = 400_000
    noise = rng.normal(size=draws)
    for row, (z, weight) in enumerate(zip(rows.z.dense, rows.weights, strict=True)):
        scores = np.column_stack([np.outer(noise / sigma, z), noise**2 - 1]) @ wide
        expected = weight * scores.T @ scores / draws
        assert np.allclose(squares(found)[row], expected, atol=0.02 * np.abs(expected).max())


def test_known_scale_and_groups():
    rows, mean, factor = problem()
    known = GlmFisher(kernel("normal", 2.0), mean, factor, 0.25).roots(rows)
    along = rows.z.dense @ factor
    expected = rows.weights[:, None, None] * 0.25 * along[:, :, None] * along[:, None]
    assert np.allclose(squares(known), expected)
    # A coefficient that is the product of a parameter and a scale: c = τ z.
    scaled = Coefficients((Term("X", (0, 1, 2), scale=3),), None)
    draws = np.random.default_rng(0).normal(size=(9, 4))
    found = seen_by_glm(replace(kernel("poisson_log"), coefficients=scaled), draws)
    assert np.allclose(found, draws[:, :3] * np.exp(draws[:, 3:]))


def test_no_curvature_is_lost_far_from_zero():
    rows, mean, factor = problem()
    far = replace(rows, offset=np.array([-700.0, 700.0, 40.0, -40.0, 0.0, 5.0]))
    roots = GlmFisher(kernel("bernoulli_logit"), mean, factor).roots(far)
    assert np.isfinite(roots).all()
    assert squares(roots)[2].max() > 0
