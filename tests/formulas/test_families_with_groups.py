"""Formulas with groups whose outcomes hardly tell of a family's own parameter."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from seeds import reseeded

import stancoreset as sc


@pytest.mark.fit
@pytest.mark.parametrize(
    ("family", "rows"),
    [
        ("student", 1_500),
        ("negbinomial", 20_000),
        pytest.param("zero_inflated_poisson", 1_500, marks=pytest.mark.slow),
        pytest.param("zero_inflated_negbinomial", 1_500, marks=pytest.mark.slow),
    ],
)
def test_outcomes_of_the_family_without_its_own_parameter_are_certified(family, rows):
    """Normal outcomes and Poisson counts leave tails, zeros and dispersion to the prior."""
    rng = np.random.default_rng(1)
    x, g = rng.normal(size=rows), rng.integers(0, 20, rows)
    eta = 0.3 + 0.4 * x + 0.5 * rng.normal(size=20)[g]
    y = eta + rng.normal(size=rows) if family == "student" else rng.poisson(np.exp(eta))
    table = pd.DataFrame({"y": y, "x": x, "g": [f"g{k}" for k in g]})
    regression = sc.regression("y ~ x + (1 | g)", table, family=family)
    fit = regression.fit(seed=reseeded(1))
    assert fit.certificate.verdict == "certified"
    slope = fit.posterior["posterior"]["b"].values
    assert abs(slope.mean() - 0.4) < 5 * slope.std()
