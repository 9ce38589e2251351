"""Programs as people write them, woven and compared with the original on repeated rows.

Two independent routes to the weighted density, besides the identities of the package:

- whole weights r_n: the *original* program on data in which row n stands r_n times has the
  density of the woven program with weights r, up to a constant;
- where transformed data summarise the rows, repeating rows would change the summaries; there
  the outcome of a single row n is changed instead: the woven log density with weights r must
  change by r_n times what the original log density changes by.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiers import some

pytest.importorskip("stanli")
pytest.importorskip("bridgestan")
from seeds import reseeded

from stancoreset import CoresetModel
from stancoreset.engines.base import Engine, Float

FOLDER = Path(__file__).parent / "weave_field"
ROWS = 23  # a prime that is no other size: dimensions of this length are rows
Data = dict[str, Any]


# ---- data ---------------------------------------------------------------------------------


def brms_multilevel_corr(rng: np.random.Generator, n: int) -> Data:
    x = np.column_stack([np.ones(n), rng.normal(size=(n, 2))])
    group, other = rng.integers(1, 6, n), rng.integers(1, 5, n)
    return {
        "N": n, "Y": rng.integers(0, 2, n), "K": 3, "X": x, "Kc": 2, "N_1": 5, "M_1": 2,
        "J_1": group, "Z_1_1": np.ones(n), "Z_1_2": x[:, 1], "NC_1": 1, "N_2": 4, "M_2": 1,
        "J_2": other, "Z_2_1": np.ones(n), "prior_only": 0,
    }  # fmt: skip


def brms_grouped_thresholds(rng: np.random.Generator, n: int) -> Data:
    ranges = np.where(np.arange(n)[:, None] % 2 == 0, [1, 2], [3, 5])
    return {
        "N": n, "Y": rng.integers(1, 4, n), "ngrthres": 2, "nthres": np.array([2, 3]),
        "Jthres": ranges, "K": 2, "X": rng.normal(size=(n, 2)), "prior_only": 0,
    }  # fmt: skip


def brms_zero_inflated(rng: np.random.Generator, n: int) -> Data:
    return {
        "N": n, "Y": rng.poisson(1, n), "K": 2, "X": rng.normal(size=(n, 2)), "K_zi": 1,
        "X_zi": rng.normal(size=(n, 1)), "offsets": rng.normal(size=n), "prior_only": 0,
    }  # fmt: skip


def brms_censored(rng: np.random.Generator, n: int) -> Data:
    return {
        "N": n, "Y": rng.exponential(size=n) + 0.1, "cens": np.resize([0, 1, -1, 2], n),
        "rcens": np.full(n, 12.0), "K": 3, "X": rng.normal(size=(n, 3)), "prior_only": 0,
    }  # fmt: skip


def brms_censored_by_index(rng: np.random.Generator, n: int) -> Data:
    return {
        "N": n, "Y": rng.exponential(size=n) + 0.1, "cens": np.resize([0, 1, -1, 0], n), "K": 3,
        "X": np.column_stack([np.ones(n), rng.normal(size=(n, 2))]), "Kc": 2, "N_1": 4,
        "J_1": rng.integers(1, 5, n), "Z_1_1": np.ones(n), "prior_only": 0,
    }  # fmt: skip


def brms_monotonic(rng: np.random.Generator, n: int) -> Data:
    return {
        "N": n, "Y": rng.normal(size=n), "Ksp": 1, "Imo": 1, "Jmo": np.array([3]),
        "Xmo_1": rng.integers(0, 4, n), "con_simo_1": np.ones(3), "prior_only": 0,
    }  # fmt: skip


def brms_categorical(rng: np.random.Generator, n: int) -> Data:
    return {
        "N": n, "ncat": 3, "Y": rng.integers(1, 4, n), "K_mu2": 3,
        "X_mu2": rng.normal(size=(n, 3)), "K_mu3": 2, "X_mu3": rng.normal(size=(n, 2)),
        "prior_only": 0,
    }  # fmt: skip


def brms_horseshoe(rng: np.random.Generator, n: int) -> Data:
    return {
        "N": n, "Y": rng.normal(size=n), "Kc": 2, "Xc": rng.normal(size=(n, 2)), "Kscales": 2,
        "hs_df": 1.0, "hs_scale_global": 1.0, "hs_df_global": 1.0, "hs_df_slab": 4.0,
        "hs_scale_slab": 2.0, "prior_only": 0,
    }  # fmt: skip


def gp_at_places(rng: np.random.Generator, n: int) -> Data:
    return {
        "N": n, "Y": rng.normal(size=n), "Dgp_1": 1, "Nsubgp_1": 6, "Jgp_u": np.arange(1, 7),
        "Jgp_1": rng.integers(1, 7, n), "Xgp_1": np.linspace(0, 1, 6)[:, None], "prior_only": 0,
    }  # fmt: skip


def stacks_standardised(rng: np.random.Generator, n: int) -> Data:
    return {"N": n, "p": 2, "Y": rng.normal(size=n), "x": rng.normal(size=(n, 2))}


def wells_centred_glm(rng: np.random.Generator, n: int) -> Data:
    return {
        "N": n, "switched": rng.integers(0, 2, n), "dist": 30 * rng.normal(size=n),
        "arsenic": rng.normal(size=n), "educ": rng.normal(size=n),
    }  # fmt: skip


def brms_threads_crossed(rng: np.random.Generator, n: int) -> Data:
    return {
        "N": n, "Y": rng.integers(0, 2, n), "K": 3, "grainsize": 4,
        "X": np.column_stack([np.ones(n), rng.normal(size=(n, 2))]),
        "N_1": 5, "M_1": 1, "J_1": rng.integers(1, 6, n), "Z_1_1": np.ones(n),
        "N_2": 4, "M_2": 1, "J_2": rng.integers(1, 5, n), "Z_2_1": rng.normal(size=n),
        "prior_only": 0,
    }  # fmt: skip


def brms_threads_censored(rng: np.random.Generator, n: int) -> Data:
    return brms_threads_crossed(rng, n) | {
        "Y": rng.uniform(0.5, 1.5, n), "cens": np.resize([0, 1, 0, -1], n),
    }  # fmt: skip


def brms_threads_ordinal(rng: np.random.Generator, n: int) -> Data:
    return brms_threads_crossed(rng, n) | {"Y": rng.integers(1, 5, n), "nthres": 3}


def dogs_while(rng: np.random.Generator, n: int) -> Data:
    return {"n_dogs": n, "n_trials": 5, "y": rng.integers(0, 2, (n, 5))}


def piecewise_hazard(rng: np.random.Generator, n: int) -> Data:
    return {
        "N": n, "K": 3, "cut": np.array([0.0, 0.5, 1.0, 9.0]),
        "t": rng.exponential(size=n).clip(0.01, 8.0), "d": rng.integers(0, 2, n),
        "x": rng.normal(size=n),
    }  # fmt: skip


def hmm_by_subject(rng: np.random.Generator, n: int) -> Data:
    return {"N": n, "T": 4, "y": rng.integers(0, 2, (n, 4))}


def latent_classes(rng: np.random.Generator, n: int) -> Data:
    return {"N": n, "I": 4, "C": 2, "y": rng.integers(0, 2, (n, 4))}


def induced_dirichlet(rng: np.random.Generator, n: int) -> Data:
    return {"N": n, "K": 4, "y": rng.integers(1, 5, n)}


def random_slopes_matrix(rng: np.random.Generator, n: int) -> Data:
    return {
        "N": n, "K": 3, "J": 5, "L": 2, "jj": rng.integers(1, 6, n),
        "x": rng.normal(size=(n, 3)), "u": rng.normal(size=(2, 5)), "y": rng.normal(size=n),
    }  # fmt: skip


def group_centring(rng: np.random.Generator, n: int) -> Data:
    return {
        "N": n, "y": rng.normal(size=n), "x": rng.normal(size=n),
        "g": np.resize(np.arange(1, 6), n),
    }  # fmt: skip


def hand_written_normal(rng: np.random.Generator, n: int) -> Data:
    return {"N": n, "y": rng.normal(size=n), "x": rng.normal(size=n)}


def indices_of_all_kinds(rng: np.random.Generator, n: int) -> Data:
    return {
        "N": n, "y": rng.normal(size=n), "x": rng.normal(size=n), "z": rng.random(n) + 0.2,
        "g": rng.integers(1, 6, n), "h": rng.integers(1, 4, n), "k": rng.integers(1, 9, n),
        "m": rng.integers(2, 6, n), "X": rng.normal(size=(n, 3)), "yb": rng.integers(0, 2, n),
    }  # fmt: skip


thresholds_by_row = quadratic_form_by_row = indices_of_all_kinds

#: Programs whose transformed data summarise the rows, and their outcome.
SUMMARISED = {
    "brms_censored_by_index": "Y",
    "brms_multilevel_corr": "Y",
    "brms_threads_censored": "Y",
    "brms_threads_crossed": "Y",
    "brms_threads_ordinal": "Y",
    "stacks_standardised": "Y",
    "wells_centred_glm": "switched",
    "group_centring": "y",
}
COUNTS = {"dogs_while": "n_dogs"}
PROGRAMS = sorted(path.stem for path in FOLDER.glob("*.stan"))


def build(name: str, n: int = ROWS) -> Data:
    builder: Callable[[np.random.Generator, int], Data] = globals()[name]
    return builder(np.random.default_rng(5), n)


# ---- checks -------------------------------------------------------------------------------


def repeated(data: Data, rows: np.ndarray, count: str) -> Data:
    """Every dimension of length ROWS cut to `rows`, by size alone: the weaver is not asked."""
    out = {**data, count: len(rows)}
    for name, value in data.items():
        axes = [k for k, length in enumerate(np.shape(value)) if length == ROWS]
        if axes:
            out[name] = np.take(value, rows, axis=axes[0])
    return out


def log_density(engine: Engine, code: str, data: Data, thetas: Float) -> Float:
    with engine.compile(code).bind(data) as bound:
        return bound.log_density(thetas)


def feasible(engine: Engine, code: str, data: Data, rng: np.random.Generator) -> Float:
    with engine.compile(code).bind(data) as bound:
        thetas = rng.normal(size=(40, bound.n_params)) * np.resize([1.0, 0.5, 0.1], 40)[:, None]
        # of larger densities, differences of rows have no digits left
        return thetas[np.abs(np.nan_to_num(bound.log_density(thetas), nan=np.inf)) < 1e6][:5]


def same_up_to_a_constant(a: Float, b: Float) -> bool:
    difference = a - b
    size = 1.0 + np.abs(a).max() + np.abs(b).max()
    return bool(np.all(np.abs(difference - difference[0]) <= 1e-9 * size))


@pytest.mark.parametrize("name", some(PROGRAMS, 8))
def test_weights_are_repetitions(name):
    code, data, count = (FOLDER / f"{name}.stan").read_text(), build(name), COUNTS.get(name, "N")
    rng = np.random.default_rng(1)
    with CoresetModel(stan_code=code, engine="stanli") as model:
        assert model.program.obs == count
        table = model.identities(data)
        assert table.passed.all(), table
        assert bool(model.program.frozen) == (name in SUMMARISED)

        original, weighted = model._adopted.original.density_code, model.program.density_code
        thetas = feasible(model.engine, original, data, rng)
        assert len(thetas) == 5
        counts = rng.integers(0, 3, ROWS)
        counts[:2] = 0, 2

        def woven(d: Data) -> Float:
            full = model.program.with_weights(model.read(d), counts.astype(float))
            return log_density(model.engine, weighted, full, thetas)

        if name not in SUMMARISED:
            rows = np.repeat(np.arange(ROWS), counts)
            other = log_density(model.engine, original, repeated(data, rows, count), thetas)
            assert same_up_to_a_constant(woven(data), other)
            return
        outcome = SUMMARISED[name]
        before = log_density(model.engine, original, data, thetas)
        for row in (0, 1, int(np.flatnonzero(counts == 1)[0])):
            y = data[outcome].copy()
            y[row] = y[y != y[row]][0]
            changed = {**data, outcome: y}
            after = log_density(model.engine, original, changed, thetas)
            step = woven(changed) - woven(data)
            np.testing.assert_allclose(step, counts[row] * (after - before), rtol=0, atol=1e-8)


@pytest.mark.fit
def test_original_programs_fit():
    """A coreset of a program that nobody wrote weights for is certified."""
    data = build("hand_written_normal", 2_000)
    options = {"draws": 100, "chains": 2, "iter_warmup": 200, "iter_sampling": 200}
    with CoresetModel(FOLDER / "hand_written_normal.stan", engine="stanli") as model:
        fit = model.fit(data, size=30, seed=reseeded(1), **options)
    assert fit.certificate.verdict == "certified"
    assert fit.coreset.weights.sum() == pytest.approx(2_000, rel=0.2)
