"""``candidates="kernel"``: a pool of rows that stand for all, whatever the reference."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from agreement import CERTIFIED, assert_agree, of_draws
from problems import logistic_data, logistic_posterior
from seeds import reseeded
from tiers import some

import stancoreset as sc
from stancoreset.errors import OptionError
from stancoreset.selection import kernel_rows

DATA = logistic_data(4_000)
CODE = """
data { int N; matrix[N, 3] X; array[N] int<lower=0, upper=1> y; }
parameters { real alpha; vector[3] beta; }
model { alpha ~ normal(0, 5); beta ~ normal(0, 2.5); y ~ bernoulli_logit(alpha + X * beta); }
"""


@pytest.fixture(scope="module")
def model():
    with sc.CoresetModel(stan_code=CODE, engine="stanli") as model:
        yield model


@pytest.mark.fit
def test_the_pool_is_chosen_by_the_rows_values_and_weights(model, tmp_path):
    session, weights = model._session, np.random.default_rng(1).gamma(1.0, size=4_000)
    checked = model.read({**DATA, "weights": weights})
    rows, pool = session.pool(checked, 300, 5, np.array([0, 3_999]), by_kernel=True)
    pool.close()
    values = {"X": DATA["X"], "y": DATA["y"]}
    expected = kernel_rows(values, 300, weights=weights / weights.sum(), seed=5)
    np.testing.assert_array_equal(rows, np.union1d(expected, [0, 3_999]))

    # Of rows on disk, those of the random sample in memory are asked.
    frame = pd.DataFrame(DATA["X"], columns=["a", "b", "c"]).assign(y=DATA["y"])
    frame.to_parquet(tmp_path / "rows.parquet")
    table = sc.Table(tmp_path / "rows.parquet", columns={"X": ["a", "b", "c"]}, memory=0)
    stored = model.read(table)
    rows, pool = session.pool(stored, 300, 5, by_kernel=True)
    pool.close()
    assert set(rows) <= set(stored.sample_rows)
    assert (np.diff(rows) > 0).all()


@pytest.mark.fit
@pytest.mark.parametrize(
    "options",
    some([{}, {"projection": "taylor"}, {"method": "sparse_vi"}], 3),
)
def test_fits_agree_with_the_full_posterior(model, options):
    in_the_loop = "method" in options  # its weights depend on few draws
    size = 20 if in_the_loop else "auto"
    fit = model.fit(DATA, size=size, candidates="kernel", seed=reseeded(1), **options)
    assert fit.certificate.verdict in ("certified", "corrected")[: 1 + in_the_loop]
    assert_agree(of_draws(fit.corrected()), logistic_posterior(DATA), within=CERTIFIED)


def test_methods_that_draw_by_chance_need_random_candidates(model):
    with pytest.raises(OptionError, match="'uniform' draws rows at random"):
        model.fit(DATA, size=20, candidates="kernel", method="uniform")
