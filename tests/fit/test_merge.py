"""Coresets of parts become one: against closed forms, the full data, and nonsense."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from agreement import CERTIFIED, assert_agree, exactly, of_draws
from problems import NORMAL_CODE, logistic_data, normal_data
from seeds import reseeded
from tiers import some

import stancoreset as sc
from stancoreset.cli.commands import main
from stancoreset.errors import DataError, OptionError
from stancoreset.fit.merging.parts import read_part, union_rows
from stancoreset.fit.merging.sessions import PartsSession, UnionSession
from stancoreset.posterior import arviz as arviz_compat
from stancoreset.runs.round import LONGER_CHAINS
from stancoreset.selection.control_variates import ControlVariate
from stancoreset.selection.coreset import Coreset
from stancoreset.selection.union import joined_controls

QUICK = {"iter_warmup": 200, "iter_sampling": 1_000, "chains": 2}
LOGISTIC = sc.stan_model_path("logistic")

# y_n ~ normal(mu, 1) in each of two dimensions, mu ~ normal(0, 3): a posterior in closed form.
MEAN_CODE = """
data {
  int<lower=0> N;
  matrix[N, 2] y;
  vector<lower=0>[N] weights;
}
parameters { vector[2] mu; }
model {
  target += normal_lpdf(mu | 0, 3);
  for (n in 1:N) target += weights[n] * normal_lpdf(y[n] | mu, 1);
}
generated quantities {
  vector[N] log_lik;
  for (n in 1:N) log_lik[n] = normal_lpdf(y[n] | mu, 1);
}
"""


def cut(data, edges):
    """The data in pieces."""
    n = data["N"]
    pieces = []
    for a, b in itertools.pairwise(edges):
        rows = {
            name: value[a:b]
            for name, value in data.items()
            if isinstance(value, np.ndarray) and len(value) == n
        }
        pieces.append({**data, **rows, "N": b - a})
    return pieces


def draws_of(fit):
    values = arviz_compat.variables_of(fit.posterior)
    return {k: v.reshape(-1, *v.shape[2:]) for k, v in values.items()}


@pytest.fixture(scope="module")
def model():
    with sc.CoresetModel(LOGISTIC, engine="stanli") as model:
        yield model


@pytest.fixture(scope="module")
def data():
    return logistic_data(12_000)


@pytest.fixture(scope="module")
def parts(model, data):
    pieces = cut(data, [0, 2_000, 5_000, 9_000, 12_000])
    return [(p, model.fit(p, size=30, seed=reseeded(1), **QUICK)) for p in pieces]


# The union -------------------------------------------------------------------------------


@pytest.mark.fit
def test_fits_are_joined_as_their_coresets(parts):
    fits = [fit for _, fit in parts]
    joined, expected = sc.merge(fits), sc.merge([fit.coreset for fit in fits])
    np.testing.assert_array_equal(joined.indices, expected.indices)
    np.testing.assert_array_equal(joined.weights, expected.weights)
    assert joined.describe() == expected.describe()


@pytest.mark.fit
def test_the_union_keeps_rows_and_weights(parts, data):
    union = sc.merge([fit.coreset for _, fit in parts])
    assert union.n_obs == 12_000
    assert union.size == sum(fit.coreset.size for _, fit in parts)
    starts = [0, 2_000, 5_000, 9_000]
    for (piece, fit), start in zip(parts, starts, strict=True):
        mine = (union.indices >= start) & (union.indices < start + piece["N"])
        np.testing.assert_array_equal(union.indices[mine] - start, fit.coreset.indices)
        np.testing.assert_array_equal(union.weights[mine], fit.coreset.weights)
        np.testing.assert_array_equal(
            data["X"][union.indices[mine]], piece["X"][fit.coreset.indices]
        )


def test_closing_releases_the_union_and_every_part(model, data):
    session, weights = model._session, np.full(20, 100.0)
    parts = []
    for number, piece in enumerate(cut(data, [0, 2_000, 5_000]), 1):
        coreset = Coreset(np.arange(20), weights, piece["N"], "uniform", 0.1, 0.1)
        parts.append(read_part(session, (piece, coreset), number))
    union = sc.merge([part.coreset for part in parts])
    selecting = UnionSession(session, union)
    joined = PartsSession(session, union, parts, selecting, union_rows(session.program, parts))
    joined.full_data(joined.on_union)
    selecting.full_data(joined.on_union)
    assert len(joined._sessions) == 2
    bound = list(joined._sessions)
    joined.close()
    assert all(one._full is None for one in (*bound, selecting))


def test_quadratics_add_exactly():
    rng = np.random.default_rng(0)
    controls = []
    for _ in range(3):
        curvature = np.array([1.5, -0.7])
        controls.append(
            ControlVariate(
                centre=rng.normal(size=3),
                columns=np.array([0, 2]),
                param_names=("a", "b", "c"),
                gradient=rng.normal(size=2),
                scale=np.exp(rng.normal(size=2)),
                axes=rng.normal(size=(2, 2)),
                curvature=curvature,
                width=np.where(curvature < 0, 8.0, 1e9),
                offset=np.zeros(2),
                diagonal=np.exp(rng.normal(size=2)),
                least_eigenvalue=-0.1,
            )
        )
    total = joined_controls([(controls[0], 1.0), (None, 5.0), (controls[1], 2), (controls[2], 3)])
    points = rng.normal(size=(20, 3))
    difference = total.value(points) - sum(control.value(points) for control in controls)
    np.testing.assert_allclose(difference - difference[0], 0, atol=1e-12)
    # The negative directions stay themselves, three of them, with offsets.
    assert np.count_nonzero(total.offset) == np.count_nonzero(total.curvature < 0) == 3
    summed = sum(control.matrix for control in controls)
    np.testing.assert_allclose(total.matrix, summed, rtol=1e-9, atol=1e-12)
    assert joined_controls([(None, 1.0)]) is None
    with pytest.raises(OptionError, match="different parameters"):
        joined_controls([(controls[0], 1.0), (replace(controls[1], param_names=("a",)), 1.0)])


@pytest.mark.slow
@pytest.mark.fit
@pytest.mark.parametrize("control_variate", [True, False])
def test_the_bound_is_one(model, data, control_variate):
    """(1): the union's error under the posterior of all data is below the sum of the parts'."""
    pieces = cut(data, [0, 3_000, 6_000, 12_000])
    options = {"control_variate": control_variate, "max_rounds": 1, **QUICK}
    fits = [model.fit(p, size=8, seed=reseeded(2), **options) for p in pieces]
    union = sc.merge([fit.coreset for fit in fits])
    assert union.heldout_error == pytest.approx(
        sum(f.coreset.heldout_error * f.coreset.norm for f in fits)
        / min(f.coreset.norm for f in fits)
    )
    checked = model.read(data)
    draws = model.reference(data, draws=300, seed=reseeded(3)).draws
    full = model._session.full_data(checked)
    target = full.log_likelihood(draws)
    with model._session.density().bind(model._session.rows(checked, union)) as bound:
        gap = target - (bound.log_density(draws) - full.log_prior(draws))
    assert np.std(gap) / np.std(target) < union.heldout_error


@pytest.mark.fit
def test_merging_in_any_grouping_is_the_same(parts):
    a, b, c, d = (fit.coreset for _, fit in parts)
    flat, tree = sc.merge([a, b, c, d]), sc.merge([sc.merge([a, b]), sc.merge([c, d])])
    np.testing.assert_array_equal(flat.indices, tree.indices)
    np.testing.assert_array_equal(flat.weights, tree.weights)
    points = np.random.default_rng(0).normal(size=(5, 4))
    gap = flat.control.value(points) - tree.control.value(points)
    np.testing.assert_allclose(
        gap - gap[0], 0, atol=1e-6 * np.abs(flat.control.value(points)).max()
    )
    assert sc.merge([a]).size == a.size


@pytest.mark.fit
def test_a_union_is_saved_like_any_coreset(parts, tmp_path):
    union = sc.merge([fit.coreset for _, fit in parts])
    union.save(tmp_path / "union.csv")
    back = Coreset.load(tmp_path / "union.csv")
    np.testing.assert_array_equal(back.weights, union.weights)
    np.testing.assert_array_equal(back.control.gradient, union.control.gradient)
    assert back.norm == union.norm
    assert list(back.columns) == list(parts[0][1].coreset.columns) != []
    for name, value in back.columns.items():
        given = [fit.coreset.columns[name] for _, fit in parts]
        np.testing.assert_array_equal(value, np.concatenate(given))
    bare = replace(parts[1][1].coreset, columns={})  # of an earlier version
    assert not sc.merge([parts[0][1].coreset, bare]).columns


# Merge and reduce ------------------------------------------------------------------------


@pytest.mark.fit
@pytest.mark.parametrize("kept", some([False, True], 2))
@pytest.mark.parametrize("control_variate", some([False, True], 2, first=1))
def test_a_gaussian_mean_in_closed_form(kept, control_variate):
    rng = np.random.default_rng(4)
    data = {"N": 6_000, "y": rng.normal([0.5, -1.0], 1.0, size=(6_000, 2))}
    data["y"][:1_500] += 0.3  # parts that are not alike
    precision = 6_000 + 1 / 9
    mean, sd = data["y"].sum(axis=0) / precision, precision**-0.5
    with sc.CoresetModel(stan_code=MEAN_CODE, engine="stanli") as model:
        parts = []
        for piece in cut(data, [0, 1_500, 3_000, 6_000]):
            fit = model.fit(
                piece, size=15, seed=reseeded(1), control_variate=control_variate, **QUICK
            )
            parts.append(model.keep(piece, fit) if kept else (piece, fit))
        merged = model.merge(
            parts,
            size=15,
            seed=reseeded(1),
            control_variate=control_variate,
            iter_sampling=2_000,
            **{k: v for k, v in QUICK.items() if k != "iter_sampling"},
        )
    assert merged.certificate.verdict == "certified"
    assert_agree(of_draws(merged.posterior), exactly(mu=(mean, sd)), within=CERTIFIED)
    assert merged.coreset.n_obs == 6_000


@pytest.mark.fit
def test_four_parts_of_a_logistic_regression_are_certified_on_all_data(model, data, parts):
    merged = model.merge(parts, size=40, seed=reseeded(1), **QUICK)
    assert merged.certificate.verdict == "certified"
    assert merged.certificate.reasons == ()
    assert merged.provenance["certified_against"] == "all 12000 rows of 4 parts"
    assert merged.coreset.size <= 40
    # The same as the ordinary way: on the data in one piece.
    again = model.certify(data, merged.coreset, merged.posterior)
    looked_at = np.isin(again.draw_index, merged.certificate.draw_index)
    assert looked_at.sum() == merged.certificate.n_draws >= 250
    np.testing.assert_allclose(
        np.diff(again.log_weights[looked_at]), np.diff(merged.certificate.log_weights), atol=1e-6
    )
    constant = arviz_compat.groups_of(merged.posterior)["constant_data"]
    np.testing.assert_array_equal(constant["coreset_row"].values, merged.coreset.indices)


@pytest.mark.fit
def test_without_the_data_the_error_is_a_bound_and_the_certificate_says_so(model, data, parts):
    fits = [fit for _, fit in parts]  # with their rows, as a fit of an earlier version is given
    for piece, fit in parts:
        kept = model.keep(piece, replace(fit, data=None)).data
        assert all(np.array_equal(fit.data[name], kept[name]) for name in {*kept, *fit.data})
    merged = model.merge(fits, size=40, seed=reseeded(1), **QUICK)
    assert "not all 12000 rows" in merged.certificate.reasons[-1]
    assert "bound" in merged.provenance["certified_against"]
    with_data = model.merge(parts, size=40, seed=reseeded(1), **QUICK)
    np.testing.assert_array_equal(merged.coreset.indices, with_data.coreset.indices)
    assert merged.coreset.heldout_error > with_data.coreset.heldout_error
    # Both ways of handing over the rows are the same.
    pairs = [(fit.coreset.subset(piece), fit.coreset) for piece, fit in parts]
    again = model.merge(pairs, size=40, seed=reseeded(1), **QUICK)
    np.testing.assert_array_equal(merged.coreset.weights, again.coreset.weights)


@pytest.mark.slow
@pytest.mark.fit
def test_a_part_that_was_badly_selected_shows(model, parts):
    """All weights of one part too large: the full data tell, and so does the bound, if it knows."""
    piece, fit = parts[1]
    wrong = replace(fit.coreset, weights=1.5 * fit.coreset.weights, control=None)
    bare = [(p, replace(f.coreset)) for p, f in parts]
    bare[1] = (piece, wrong)
    assert model.merge(bare, size=60, seed=reseeded(1), **QUICK).certificate.verdict == "rejected"
    wrong = replace(wrong, heldout_error=0.5)
    bare = [(f.coreset.subset(p), f.coreset) for p, f in parts]
    bare[1] = (wrong.subset(piece), wrong)
    blind = model.merge(bare, size=60, seed=reseeded(1), **QUICK)
    assert blind.certificate.verdict != "certified"


@pytest.mark.fit
@pytest.mark.slow
def test_a_tree_of_eight_parts(model):
    """A stream: each part is fitted and forgotten, pairs are merged, and pairs of pairs."""
    data = logistic_data(16_000, seed=5)
    fits = [
        model.fit(piece, size=30, seed=reseeded(1), **QUICK)
        for piece in cut(data, range(0, 16_001, 2_000))
    ]
    while len(fits) > 1:
        fits = [
            model.merge(pair, size=30, seed=reseeded(1), **QUICK)
            for pair in zip(fits[::2], fits[1::2], strict=True)
        ]
    (merged,) = fits
    assert merged.coreset.n_obs == 16_000
    assert merged.coreset.size <= 30
    assert np.all(merged.coreset.indices < 16_000)
    np.testing.assert_array_equal(merged.data["X"], data["X"][merged.coreset.indices])
    certificate = model.certify(data, merged.coreset, merged.posterior)
    assert certificate.ess > 900
    checked = model.read(data)
    draws = merged.reference.draws[:200]
    full = model._session.full_data(checked)
    target = full.log_likelihood(draws)
    with model._session.density().bind(model._session.rows(checked, merged.coreset)) as bound:
        gap = target - (bound.log_density(draws) - full.log_prior(draws))
    assert np.std(gap) / np.std(target) < merged.coreset.heldout_error < 0.1


@pytest.mark.slow
@pytest.mark.fit
def test_weights_that_come_with_the_data_count(model):
    data = logistic_data(2_000)
    counts = np.random.default_rng(1).integers(1, 4, size=2_000).astype(float)
    weighted = {**data, "weights": counts}
    pieces = cut(weighted, [0, 1_000, 2_000])
    fits = [(p, model.fit(p, size=30, seed=reseeded(1), **QUICK)) for p in pieces]
    merged = model.merge(fits, size=40, seed=reseeded(1), **QUICK)
    assert merged.certificate.verdict == "certified"
    assert model.certify(weighted, merged.coreset, merged.posterior).ess > 900
    assert model.certify(data, merged.coreset, merged.posterior).ess < 900


@pytest.mark.slow
@pytest.mark.fit
@pytest.mark.parametrize("method", ["uniform", "importance"])
def test_rows_drawn_by_chance_stand_for_as_many_as_those_of_the_union(model, parts, method):
    union = sum(fit.coreset.weights.sum() for _, fit in parts)
    options = {"size": 60, "seed": reseeded(1), "method": method, **QUICK}
    bare = model.merge(parts, control_variate=False, **options)
    np.testing.assert_allclose(bare.coreset.weights.sum(), union)
    merged = model.merge(parts, **options)  # less where that is better beyond second order
    assert 0.5 * union < merged.coreset.weights.sum() <= union * (1 + 1e-9)
    assert merged.certificate.verdict == "certified"


# Degenerate and wrong input --------------------------------------------------------------


@pytest.mark.fit
def test_one_part_alone(model, parts):
    (piece, fit), *_ = parts
    alone = model.merge([(piece, fit)], size=30, seed=reseeded(1), **QUICK)
    assert alone.certificate.verdict == "certified"
    assert alone.coreset.n_obs == 2_000
    more = model.merge([fit], size=500, seed=reseeded(1), **QUICK)
    assert set(more.coreset.indices) <= set(fit.coreset.indices)


@pytest.mark.fit
@pytest.mark.fit
def test_chains_that_are_too_short_become_longer(model, parts):
    few = {**QUICK, "iter_sampling": 100}
    fit = model.merge(parts, size=30, seed=reseeded(1), **few)
    assert fit.rounds[0].lengthened > 1
    assert {r.action for r in fit.rounds[1:]} <= {LONGER_CHAINS}
    assert fit.certificate.verdict == "certified"
    assert fit.certificate.mcse_mean < 0.05
    assert {r.size for r in fit.rounds} == {fit.coreset.size}


@pytest.mark.fit
def test_parts_that_cannot_be_merged(model, parts):
    (piece, fit), (other, second), *_ = parts
    for nothing in ([], ()):
        with pytest.raises(OptionError, match="nothing to merge"):
            sc.merge(nothing)
    with pytest.raises(OptionError, match="part 1 is a dict, expected a Coreset"):
        sc.merge([piece])
    with pytest.raises(OptionError, match=r"part 2 is a fit without its rows.*model\.keep"):
        model.merge([(piece, fit), replace(second, data=None)], **QUICK)
    with pytest.raises(OptionError, match="part 1 is a dict"):
        model.merge([piece], **QUICK)
    with pytest.raises(DataError, match=r"part 2 has 2000 rows .* from 3000 rows and has 30"):
        model.merge([(piece, fit), (piece, second)], **QUICK)
    with pytest.raises(DataError, match=r"'beta_scale' is 2.5 in part 1 and 1.0 in part 2"):
        model.merge([(piece, fit), ({**other, "beta_scale": 1.0}, second)], **QUICK)
    with pytest.raises(DataError, match=r"not selected from these data, though .* as many rows"):
        model.keep({**piece, "y": 1 - piece["y"]}, fit)
    with pytest.raises(DataError, match="the data have 3000 rows, but the fit is of 2000"):
        model.keep(other, fit)
    with pytest.raises(OptionError, match="coresets is a single Coreset, expected a list"):
        sc.merge(fit.coreset)
    with pytest.raises(DataError, match=r"part 2: .*y"):
        model.merge([(piece, fit), ({k: v for k, v in other.items() if k != "y"}, second)])
    with pytest.raises(OptionError, match="size is 0"):
        model.merge(parts, size=0)


@pytest.mark.fit
def test_parts_of_different_programs(model, parts):
    with sc.CoresetModel(stan_code=NORMAL_CODE, engine="stanli") as normal:
        y = normal_data(500)
        stranger = normal.fit(y, size=10, seed=reseeded(1), **QUICK)
        with pytest.raises(OptionError, match=r"different programs .*'logistic' and 'model'"):
            sc.merge([parts[0][1].coreset, stranger.coreset])
        changed = NORMAL_CODE.replace(
            "exponential_lpdf(sigma | 0.1)", "exponential_lpdf(sigma | 1)"
        )
        with (
            sc.CoresetModel(stan_code=changed, engine="stanli") as later,
            pytest.raises(OptionError, match="not selected with 'model', but with another program"),
        ):
            later.merge([(y, stranger)], **QUICK)


# The command line ------------------------------------------------------------------------


@pytest.mark.fit
@pytest.mark.slow
def test_on_the_command_line(tmp_path, capsys):
    quick = ["--iter-warmup", "200", "--iter-sampling", "800", "--chains", "2"]
    quick += ["--engine", "stanli", "--size", "25", "--no-plots"]
    names = []
    for number, piece in enumerate(cut(logistic_data(3_000), [0, 1_000, 2_000, 3_000])):
        file = tmp_path / f"{number}.json"
        file.write_text(json.dumps({k: np.asarray(v).tolist() for k, v in piece.items()}))
        run = tmp_path / f"run{number}"
        assert main(["fit", str(LOGISTIC), str(file), "--out", str(run), *quick, "--quiet"]) == 0
        names.append((str(run), str(file)))
    (a, a_data), (b, b_data), (c, c_data) = names
    two = str(tmp_path / "two")
    command = ["merge", str(LOGISTIC), a, b, "--out", two, *quick]
    rows = Path(a, "coreset_data.json").read_bytes()
    Path(a, "coreset_data.json").unlink()
    assert main([*command]) == 2
    assert (
        "does not contain the rows of its coreset, because an earlier version"
        in capsys.readouterr().err
    )
    Path(a, "coreset_data.json").write_bytes(rows)
    assert main(["merge", str(LOGISTIC), a, b, "--out", str(tmp_path / "rows"), *quick]) == 0
    assert "Certified against the union of 2 coresets (50 rows)" in capsys.readouterr().out
    assert main([*command, "--data", a_data]) == 2
    assert "1 file(s) for 2 run(s)" in capsys.readouterr().err
    assert main(["merge", str(LOGISTIC), a, f"{a}/../{a.rsplit('/')[-1]}", "--out", two]) == 2
    assert "is given twice: its data would count twice" in capsys.readouterr().err
    assert main([*command, "--data", a_data, b_data]) == 0
    said = capsys.readouterr().out
    assert "Certified against all 2000 rows of 2 parts" in said
    three = str(tmp_path / "three")
    assert (
        main(["merge", str(LOGISTIC), two, c, "--data", "-", c_data, "--out", three, *quick]) == 0
    )
    said = capsys.readouterr().out
    assert "the union of 2 coresets" in said
    fit = sc.load_fit(three)
    assert fit.coreset.n_obs == 3_000
    assert fit.data["N"] == fit.coreset.size
    assert "not all 3000 rows" in fit.provenance["certified_against"]
    assert main(["merge", str(LOGISTIC), two, three, "--out", three, *quick]) == 2
    assert "earlier run" in capsys.readouterr().err
