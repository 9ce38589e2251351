"""Certificates of many groups by marginals: what is judged, when, and what is kept of it."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from problems import GROUPED_CODE, grouped_data
from seeds import reseeded

import stancoreset as sc
from stancoreset.program import certify, take_spaced_draws
from stancoreset.program.certify import Certifier
from stancoreset.program.group_sums import left_by_groups
from stancoreset.rows import FullData
from stancoreset.runs.folder import RunFolder

pytestmark = pytest.mark.fit

GROUPS, ROWS = 160, 2_400
#: Slope that is added to each group's effect, in posterior sds: weights are then uneven.
PUSH = 0.034
SLOPES = """
data { int N; int J; array[N] int g; vector[N] x; array[N] int<lower=0, upper=1> y; }
parameters { vector[2] m; vector<lower=0>[2] s; cholesky_factor_corr[2] L; matrix[2, J] z; }
transformed parameters { matrix[J, 2] r = transpose(diag_pre_multiply(s, L) * z); }
model {
  y ~ bernoulli_logit(m[1] + r[g, 1] + (m[2] + r[g, 2]) .* x);
  m ~ normal(0, 1);
  s ~ normal(0, 1);
  L ~ lkj_corr_cholesky(2);
  to_vector(z) ~ std_normal();
}
"""
SHORT = {"iter_sampling": 500, "max_rounds": 1, "show_progress": False}


class Fitted(NamedTuple):
    model: sc.CoresetModel
    data: dict
    fit: sc.CoresetFit


@pytest.fixture(scope="module")
def fitted():
    data, _ = grouped_data(GROUPS, ROWS)
    with sc.CoresetModel(stan_code=GROUPED_CODE, engine="stanli") as model:
        yield Fitted(model, data, model.fit(data, size=400, seed=reseeded(1), **SHORT))


def pushed(fitted, size, alike=False, draws=3_000):
    """A quadratic that pushes every group's effect, up and down in turn, or all up."""
    model, data, fit = fitted
    control = fit.coreset.control
    names = [control.param_names[j] for j in control.columns]
    effects = np.array([name.startswith("r_1_1") for name in names])
    slopes = np.zeros(len(names))
    slopes[effects] = size if alike else size * (-1.0) ** np.arange(GROUPS)
    slopes[effects] /= control.scale[effects]
    wrong = replace(fit.coreset, control=replace(control, gradient=control.gradient + slopes))
    posterior = model.sample(data, wrong, seed=reseeded(2), near=fit.posterior, iter_sampling=draws)
    return wrong, posterior


@pytest.fixture(scope="module")
def uneven(fitted):
    """Rows and quadratic whose weights are uneven, and their posterior."""
    return pushed(fitted, PUSH)


def left_of(fitted, coreset, draws):
    """What groups leave of the log weights, and these themselves, by densities of Stan."""
    session, checked = fitted.model._session, fitted.model.read(fitted.data)
    full = session.full_data(checked)
    with session.bind(checked, coreset) as bound:
        ratio = full.log_density(draws) - bound.log_density(draws)
    return left_by_groups(session, checked, coreset, draws), ratio, full


@pytest.mark.parametrize("engine", ["glm", "stan"])
def test_log_weights_are_sums_over_groups(fitted, uneven, engine):
    """Where one group moves, they change by what this one leaves, and no other's term does."""
    with sc.CoresetModel(stan_code=GROUPED_CODE, engine="stanli", glm=engine == "glm") as model:
        some = fitted._replace(model=model)
        coreset, posterior = uneven
        draws, _ = take_spaced_draws(model._session, model.read(fitted.data), posterior, 300)
        left, ratio, full = left_of(some, coreset, draws)
        assert (full.glm is not None) == (engine == "glm")
        rng, blocks = np.random.default_rng(4), full.blocks
        for k in rng.choice(blocks.local, 5, replace=False):
            moved = draws.copy()
            moved[:, k] = rng.permutation(draws[:, k])
            after, changed, _ = left_of(some, coreset, moved)
            own = blocks.group[k]
            assert changed - ratio == pytest.approx(after[:, own] - left[:, own], abs=1e-7)
            assert np.ptp(changed - ratio) > 0.01
            others = np.delete(after - left, own, axis=1)
            assert np.max(np.abs(others)) < 1e-9


def test_slopes_of_groups_that_correlate_are_in_their_sums(fitted):
    """As brms writes them; repeated rows, and a coreset without a quadratic."""
    groups = 120
    rng = np.random.default_rng(9)
    g, x = np.repeat(np.arange(groups), 12), rng.integers(0, 3, 12 * groups).astype(float)
    y = (rng.random(len(g)) < 1 / (1 + np.exp(0.5 * rng.normal(size=groups)[g] - 0.3 * x))) * 1
    data = {"N": len(g), "J": groups, "g": g + 1, "x": x, "y": y}
    with sc.CoresetModel(stan_code=SLOPES, engine="stanli") as model:
        some = Fitted(model, data, None)
        fit = model.fit(data, seed=reseeded(1), size=60, **SHORT)
        draws, _ = take_spaced_draws(model._session, model.read(data), fit.posterior, 200)
        for coreset in (fit.coreset, replace(fit.coreset, control=None)):
            left, ratio, full = left_of(some, coreset, draws)
            assert full.passes.distinct > 0
            k = int(full.blocks.members[0][3, 1])
            moved = draws.copy()
            moved[:, k] += 0.5
            after, changed, _ = left_of(some, coreset, moved)
            own = full.blocks.group[k]
            assert changed - ratio == pytest.approx(after[:, own] - left[:, own], abs=1e-7)


def test_marginals_stand_beside_a_certificate_of_all_weights(fitted):
    """Where they are asked for; a fit takes gradients only if they may change its verdict."""
    model, data, fit = fitted
    assert (fit.certificate.verdict, fit.certificate.marginals) == ("certified", None)
    certificate = model.certify(data, fit.coreset, fit.posterior, reference=fit.reference)
    assert (certificate.verdict, certificate.by_marginals) == ("certified", False)
    found = certificate.marginals
    assert found.groups == GROUPS
    assert found.names == tuple(fitted.fit.reference.param_names)
    assert len(found.mean_shift) == len(found.names)
    # Their noise is smaller than that of the weights of all together.
    assert found.moved[0] < certificate.mean_shift + 0.02
    assert f"marginals of {GROUPS} groups" in dict(certificate.facts())["marginals"]


def test_uneven_weights_of_many_groups_are_certified_by_marginals(fitted, uneven):
    """Against weights of so many draws that their noise does not matter, and the fit beside it."""
    model, data, fit = fitted
    coreset, posterior = uneven
    certificate = model.certify(data, coreset, posterior, reference=fit.reference)
    assert certificate.efficiency < 0.85
    assert (certificate.verdict, certificate.by_marginals) == ("certified", True)
    found = certificate.marginals
    effects = np.array([name.startswith("z_1") for name in found.names])
    signs = np.sign(found.mean_shift[effects])
    assert np.mean(signs == -((-1.0) ** np.arange(GROUPS))) > 0.95
    assert np.abs(found.mean_shift[effects]).mean() == pytest.approx(PUSH, abs=0.01)
    judge = Certifier(model._session, model.read(data), coreset)
    every = judge.certificate(judge.chains(posterior), 8_000)
    session = model._session
    draws, _ = take_spaced_draws(session, model.read(data), posterior, 8_000)
    scaled = (draws - draws.mean(axis=0)) / draws.std(axis=0)
    weights = np.exp(every.log_weights - every.log_weights.max())
    by_all = weights @ scaled / weights.sum()
    # Draws of a chain depend on each other: chains 1 and 2 against 3 and 4 show the noise.
    first, second = (
        w @ x / w.sum() - x.mean(axis=0)
        for w, x in zip(np.split(weights, 2), np.split(scaled, 2), strict=True)
    )
    noise = np.sqrt(np.mean((first - second) ** 2)) / 2
    assert noise < 0.01
    assert np.sqrt(np.mean((found.mean_shift - by_all) ** 2)) < 1.6 * noise


def test_an_average_that_is_off_is_not_certified(fitted):
    model, data, fit = fitted
    coreset, posterior = pushed(fitted, 0.03, alike=True, draws=500)
    certificate = model.certify(data, coreset, posterior, reference=fit.reference)
    assert certificate.marginals.average_shift > 0.1
    assert certificate.verdict != "certified"


def test_the_judgement_is_kept_in_folders_and_older_ones_have_none(fitted, uneven, tmp_path):
    model, data, fit = fitted
    certificate = model.certify(data, *uneven, reference=fit.reference)
    folder = RunFolder.open(tmp_path / "run", {"seed": 1})
    folder.keep("certificate", certificate)
    again = folder.found("certificate")
    assert (again.verdict, again.by_marginals) == ("certified", True)
    assert str(again) == str(certificate)
    assert again.marginals.describe() == certificate.marginals.describe()
    table = pd.read_csv(tmp_path / "run" / "marginals.csv")
    assert list(table["parameter"]) == list(certificate.marginals.names)
    assert np.array_equal(table["mean_shift"], certificate.marginals.mean_shift)
    # A folder of an earlier version has no such file, and its verdict is that of the weights.
    (tmp_path / "run" / "marginals.csv").unlink()
    old = folder.found("certificate")
    assert (old.marginals, old.by_marginals) == (None, False)
    assert old.verdict == "corrected"
    # Nor does a certificate without any leave the file of another one.
    folder.keep("certificate", certificate)
    folder.keep("certificate", replace(certificate, marginals=None))
    assert not (tmp_path / "run" / "marginals.csv").exists()


def test_gradients_of_another_density_judge_nothing(fitted, uneven, monkeypatch):
    """The values that come with the gradients must be those of the author's program."""
    model, data, fit = fitted
    right = FullData.log_density_gradient

    def other(self, draws):
        value, gradient = right(self, draws)
        return value + 0.01 * draws[:, 0], gradient

    monkeypatch.setattr(FullData, "log_density_gradient", other)
    certificate = model.certify(data, *uneven, reference=fit.reference)
    assert certificate.marginals is None
    assert certificate.verdict == "corrected"


def on_disk(data, folder):
    columns = {f"Xc.{k + 1}": column for k, column in enumerate(data["Xc"].T)}
    frame = pd.DataFrame({"Y": data["Y"], "J_1": data["J_1"], **columns})
    frame.to_parquet(folder / "rows.parquet")
    values = {"Kc": data["Kc"], "N_1": GROUPS}
    return sc.Table(folder / "rows.parquet", values=values, memory=0, chunk_rows=700)


def test_rows_on_disk_are_selected_group_by_group(fitted, tmp_path):
    """The very rows that are selected in memory, with their weights."""
    model, data, fit = fitted
    assert fit.coreset.method == "local"
    there = model.fit(on_disk(data, tmp_path), size=400, seed=reseeded(1), **SHORT)
    assert np.array_equal(there.coreset.indices, fit.coreset.indices)
    assert there.coreset.weights == pytest.approx(fit.coreset.weights, rel=1e-4)
    assert there.certificate.verdict == "certified"
    assert there.passes["reads"] < 40


def test_rows_on_disk_need_not_be_a_generalised_linear_model(fitted, tmp_path):
    """They are selected on draws, and summed, by Stan: as in memory, chunk by chunk."""
    with sc.CoresetModel(stan_code=GROUPED_CODE, engine="stanli", glm=False) as model:
        table = on_disk(fitted.data, tmp_path)
        here, there = (model.fit(d, seed=reseeded(1), **SHORT) for d in (fitted.data, table))
        assert (here.coreset.method, there.coreset.method) == ("local", "local")
        assert np.array_equal(there.coreset.indices, here.coreset.indices)
        assert there.coreset.weights == pytest.approx(here.coreset.weights, rel=1e-3)
        assert there.certificate.verdict == "certified"
        draws, _ = take_spaced_draws(model._session, model.read(fitted.data), here.posterior, 200)
        left = [
            left_by_groups(model._session, model.read(d), here.coreset, draws)
            for d in (fitted.data, table)
        ]
        assert left[1] == pytest.approx(left[0], abs=1e-7)


def test_rows_on_disk_are_read_once_more_only_if_that_may_change_the_verdict(
    fitted, uneven, tmp_path
):
    model, data, fit = fitted
    table = on_disk(data, tmp_path)
    here = model.certify(data, *uneven, reference=fit.reference)
    there = model.certify(table, *uneven, reference=fit.reference)
    assert there.by_marginals
    assert there.marginals.mean_shift == pytest.approx(here.marginals.mean_shift, abs=1e-6)
    good = model.certify(table, fit.coreset, fit.posterior, reference=fit.reference)
    assert (good.verdict, good.marginals) == ("certified", None)


def test_few_parameters_have_no_marginals():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2_000, 2))
    data = {"N": 2_000, "D": 2, "X": x, "y": (rng.random(2_000) < 0.5).astype(int)}
    data |= {"alpha_scale": 5.0, "beta_scale": 2.5}
    with sc.CoresetModel(sc.stan_model_path("logistic"), engine="stanli") as model:
        fit = model.fit(data, size=20, seed=reseeded(1), **SHORT)
    assert fit.certificate.marginals is None
    assert dict(fit.certificate.facts())["marginals"] == ""


def test_draws_are_as_many_as_their_gradients_fit_in_memory(fitted, uneven, monkeypatch):
    model, data, fit = fitted
    every = model.certify(data, *uneven, reference=fit.reference).marginals
    monkeypatch.setattr(certify, "_GRADIENTS", 100_000)  # of 205 parameters at 500 draws
    few = model.certify(data, *uneven, reference=fit.reference).marginals
    assert few.groups == GROUPS
    effects = np.array([name.startswith("z_1") for name in few.names])
    assert few.mean_shift[effects] == pytest.approx(every.mean_shift[effects], abs=0.03)
    assert not np.array_equal(few.mean_shift, every.mean_shift)
    monkeypatch.setattr(certify, "_GRADIENTS", 10_000)
    assert model.certify(data, *uneven, reference=fit.reference).marginals is None
