"""Declarations that move between data and parameters, by an engine and by the text."""

from __future__ import annotations

import numpy as np
import pytest

from stancoreset.engines import resolve_engine
from stancoreset.stan import (
    StanProgram,
    parameter_as_data,
    stan_model_path,
    weighted_program,
    weights_as_parameters,
)

ENGINE = resolve_engine("stanli")


@pytest.mark.parametrize("name", ["ordered_logistic", "student_t"])
def test_along_weights_gradients_are_log_likelihoods(name):
    weighted = weighted_program(StanProgram.from_file(stan_model_path(name)))
    rng = np.random.default_rng(1)
    y = rng.integers(1, 4, 7)
    scales = {d.name: 1.5 for d in weighted.program.data if d.name[-6:] in ("_scale", "_shape")}
    checked = weighted.check(
        {"N": 7, "D": 2, "K": 3, "X": rng.normal(size=(7, 2)), "y": y, "nu_rate": 0.1} | scales
    )
    weights = rng.uniform(0, 2, 7)
    with (
        ENGINE.compile(weighted.code, log_lik=weighted.log_lik).bind(checked) as own,
        ENGINE.compile(weighted.density_code).bind(checked | {"weights": weights}) as heavy,
        ENGINE.compile(weights_as_parameters(weighted)).bind(checked) as moved,
    ):
        theta = rng.normal(scale=0.3, size=own.n_params)
        assert moved.n_params == own.n_params + 7
        slope = moved.log_density_gradient(np.concatenate([theta, weights])[None])[1][0]
        along_theta = heavy.log_density_gradient(theta[None])[1][0]
        log_lik = own.log_lik(np.stack([theta, 0 * theta]))
        there = moved.log_density_gradient(np.concatenate([0 * theta, weights])[None])[1][0]
    np.testing.assert_allclose(slope[: own.n_params], along_theta, rtol=1e-10)
    # Log likelihoods are known up to a constant for each row.
    found = slope[own.n_params :] - there[own.n_params :]
    np.testing.assert_allclose(found, log_lik[0] - log_lik[1], rtol=1e-9)


def test_weights_that_transformed_data_read_stay_data():
    code = (
        "data { int N; vector[N] y; vector<lower=0>[N] weights; } "
        "transformed data { vector[N] wy = weights .* y; } parameters { real m; } "
        "model { target += m * sum(wy) - 0.5 * square(m) * sum(weights); } "
        "generated quantities { vector[N] log_lik = m * y - 0.5 * square(m); }"
    )
    assert weights_as_parameters(weighted_program(StanProgram.from_code(code))) is None


@pytest.mark.parametrize(
    "own",
    [
        "b ~ gamma(2, exp(a));",
        "target += gamma_lpdf(b | 2, exp(a));",
        "for (k in 1:2) b[k] ~ gamma(2, exp(a));",
        "for (k in 1:2) { real rate = exp(a); target += gamma_lupdf(b[k] | 2, rate); }",
    ],
)
def test_a_parameter_as_data_leaves_the_density_of_the_others(own):
    """The parameter's own density, which depends on the others, is taken out."""
    code = "parameters { real a; vector<lower=0>[2] b; } model { a ~ normal(sum(b), 2); %s }"
    b, a = np.array([0.7, 1.9]), np.array([[-0.4], [1.3], [2.0]])
    with (
        ENGINE.compile(code.replace("%s", "b ~ gamma(2, 1);")).bind({}) as both,
        ENGINE.compile(parameter_as_data(code.replace("%s", own), "b")).bind({"b": b}) as alone,
    ):
        ours = alone.log_density(a)
        exact = both.log_density(np.hstack([a, np.tile(np.log(b), (3, 1))]))
    np.testing.assert_allclose(ours - ours[0], exact - exact[0], rtol=1e-12)
