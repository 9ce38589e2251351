"""The coreset's rivals: closed forms of what they compute, and the table at a small size."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import digamma, polygamma
from seeds import reseeded

from papers.command import main
from papers.rivals import (
    RIVALS,
    TRUTH,
    Effort,
    compare_rivals,
    rivals_table,
    table,
)
from papers.rivals.consensus import consensus
from papers.rivals.draws import Draws, Moments, errors, score_moments
from papers.rivals.methods import Rival, Task, random_subset, truth
from papers.rivals.numpyro_chains import (
    MODELS,
    arrays,
    double_precision,
    require_numpyro,
)
from papers.rivals.problems import PROBLEMS, tempered
from papers.store import Store
from stancoreset.engines import resolve_engine
from stancoreset.errors import EngineNotFoundError, OptionError, ProgramError

LOGISTIC, _, GROUPS = PROBLEMS
#: Logarithms of the Jacobian of Stan's transforms, of unconstrained draws (S, P).
JACOBIANS = {
    "logistic": lambda u: 0.0,
    "student": lambda u: u[:, -2] + u[:, -1],  # sigma = exp(u), nu = 1 + exp(u)
    "groups": lambda u: u[:, 4],  # b, Intercept, sd = exp(u), z
}


def random_covariance(rng: np.random.Generator, size: int) -> np.ndarray:
    root = rng.standard_normal((size, size + 2))
    return root @ root.T


# What the rivals compute --------------------------------------------------------------------


def test_consensus_of_gaussian_shards_is_their_product():
    """Shards' draws without sample correlation have the moments of the product exactly."""
    rng = np.random.default_rng(0)
    shards, count, size = 4, 200, 3
    columns = rng.standard_normal((count, shards * size))
    white = np.linalg.qr(columns - columns.mean(axis=0))[0] * np.sqrt(count - 1)
    means = rng.standard_normal((shards, size))
    covs = np.array([random_covariance(rng, size) for _ in range(shards)])
    draws = np.array(
        [
            mean + white[:, j * size : (j + 1) * size] @ np.linalg.cholesky(cov).T
            for j, (mean, cov) in enumerate(zip(means, covs, strict=True))
        ]
    )
    found = consensus(draws)
    precisions = np.linalg.inv(covs)
    cov = np.linalg.inv(precisions.sum(axis=0))
    mean = cov @ sum(w @ m for w, m in zip(precisions, means, strict=True))
    np.testing.assert_allclose(found.mean(axis=0), mean, rtol=1e-10)
    np.testing.assert_allclose(np.cov(found, rowvar=False), cov, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.name)
def test_the_shards_densities_multiply_to_the_posterior(problem):
    """Σ log p(shard) with the prior to the power 1/4 is log p of all rows, and 3 log |J|."""
    rng = np.random.default_rng(1)
    data = problem.simulate(40, rng)
    engine = resolve_engine("stanli")
    with engine.compile(problem.program).bind(data) as full:
        draws = 0.3 * rng.standard_normal((6, full.n_params))
        whole = full.log_density(draws)
    part = engine.compile(tempered(problem.program, 0.25))
    total = np.zeros(6)
    for rows in np.array_split(rng.permutation(40), 4):
        with part.bind(problem.part(data, rows)) as bound:
            total += bound.log_density(draws)
    difference = total - whole - 3 * JACOBIANS[problem.name](draws)
    np.testing.assert_allclose(difference, difference[0], rtol=1e-9, atol=1e-9)


def test_only_programs_with_brms_prior_are_tempered():
    with pytest.raises(ProgramError, match="target \\+= lprior"):
        tempered("model { y ~ normal(mu, 1); }", 0.25)


def test_the_random_subset_is_unbiased():
    """Σ w x over subsets has mean Σ x and the variance N² (1 − n/N) S² / n."""
    rng = np.random.default_rng(2)
    x, size, repeats = rng.gamma(2.0, size=60), 12, 4_000
    subsets = [random_subset(60, size, rng) for _ in range(repeats)]
    assert all(len(set(s.indices)) == size and s.n_obs == 60 for s in subsets)
    sums = np.array([s.weights @ x[s.indices] for s in subsets])
    variance = 60**2 * (1 - size / 60) * x.var(ddof=1) / size
    assert abs(sums.mean() - x.sum()) < 4 * np.sqrt(variance / repeats)
    assert sums.var() == pytest.approx(variance, rel=0.1)


# Errors -------------------------------------------------------------------------------------


def test_errors_are_the_largest_of_all_parameters():
    truth = Moments(np.array([0.0, 1.0]), np.array([1.0, 2.0]), np.zeros(2), np.zeros(2))
    found = Moments(np.array([0.1, 2.0]), np.array([0.7, 2.1]), np.zeros(2), np.zeros(2))
    expected = {"mean_error": pytest.approx(0.5), "sd_error": pytest.approx(30.0)}
    assert errors(found, truth) == expected


def test_moments_of_weighted_draws_are_those_of_copies():
    rng = np.random.default_rng(3)
    values, copies = rng.standard_normal((1, 50, 2)), rng.integers(1, 5, 50)
    weighted = Draws(values, copies / copies.sum(), "a note").moments()
    plain = np.repeat(values[0], copies, axis=0)
    np.testing.assert_allclose(weighted.mean, plain.mean(axis=0))
    np.testing.assert_allclose(weighted.sd, plain.std(axis=0))
    each = np.sqrt(np.sum((copies / copies.sum()) ** 2))
    assert weighted.worst()["mean_mcse"] == pytest.approx(each)
    assert weighted.worst()["sd_mcse"] == pytest.approx(100 * each / np.sqrt(2))
    assert weighted.note == "a note"


def test_scores_give_the_moments_of_a_gaussian_exactly():
    rng = np.random.default_rng(4)
    mean, cov = np.array([1.0, -2.0, 5.0]), random_covariance(rng, 3)
    draws = rng.multivariate_normal(mean, cov, size=(2, 100))
    found = score_moments(draws, -(draws - mean) @ np.linalg.inv(cov))
    np.testing.assert_allclose(found.mean, mean, rtol=1e-9)
    np.testing.assert_allclose(found.sd, np.sqrt(np.diag(cov)), rtol=1e-9)
    assert max(found.worst().values()) < 1e-6


def test_scores_give_the_moments_of_a_gammas_logarithm():
    """u = log Gamma(a) has the score a − e^u, the mean ψ(a) and the variance ψ′(a)."""
    rng = np.random.default_rng(5)
    shapes = np.array([30.0, 60.0])
    draws = np.log(rng.gamma(shapes, size=(4, 500, 2)))
    found, plain = score_moments(draws, shapes - np.exp(draws)), Draws(draws).moments()
    mean, sd = digamma(shapes), np.sqrt(polygamma(1, shapes))
    assert np.all(np.abs(found.mean - mean) < 4 * found.mean_mcse)
    assert np.all(np.abs(found.sd - sd) < 4 * found.sd_mcse)
    assert np.all(found.mean_mcse < 0.2 * plain.mean_mcse)
    assert np.all(found.sd_mcse < 0.5 * plain.sd_mcse)


def task_of_groups(rows: int, seed: int) -> Task:
    """The hierarchical model with simulated rows."""
    rng = np.random.default_rng(seed)
    return Task(GROUPS, GROUPS.simulate(rows, rng), Effort(rows=rows, truth=2_000), seed)


def test_effects_are_judged_as_they_enter_the_predictor():
    values = np.random.default_rng(8).standard_normal((2, 7, 105))
    found = task_of_groups(400, 1).centred(values)
    expected = np.array(values)
    expected[..., 5:] *= np.exp(values[..., 4:5])  # b, Intercept, log sd, z
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.slow
def test_the_truth_of_effects_is_that_of_the_users_own_coordinates():
    """Truth by centred effects and scores; here plain NUTS on (s, z), and s z by hand."""
    task = task_of_groups(3_000, reseeded(9))
    found = truth(task)
    with task.bound("stanli") as bound:
        options = {"chains": 4, "iter_warmup": 500, "iter_sampling": 500, "seed": reseeded(10)}
        draws = np.array(bound.sample(**options).unconstrained)
    draws[..., 5:] *= np.exp(draws[..., 4:5])
    plain = Draws(draws).moments()
    for ours, theirs, error, its in (
        (found.mean, plain.mean, found.mean_mcse, plain.mean_mcse),
        (found.sd, plain.sd, found.sd_mcse, plain.sd_mcse),
    ):
        away = (ours - theirs) / np.hypot(error, its)
        assert np.abs(away).max() < 5
        assert np.sqrt(np.mean(away**2)) < 1.5


@pytest.mark.slow
def test_the_truth_of_effects_is_gibbs_samplings():
    """Pólya–Gamma Gibbs shares neither Stan, nor gradients, nor coordinates with the truth."""
    pytest.importorskip("polyagamma")
    from benchmarks.polya_gamma import gibbs

    task = task_of_groups(3_000, 11)
    found, other = truth(task), gibbs(task.data, 5_000, seed=12, slopes=1 / 2.5**2)
    same = np.delete(np.arange(105), 4)  # Gibbs' moments are of the scale, NUTS' of its logarithm
    away = (found.mean - other.mean)[same] / np.hypot(found.mean_mcse, other.mcse)[same]
    assert np.abs(away).max() < 4.5
    assert np.sqrt(np.mean(away**2)) < 1.4
    np.testing.assert_allclose(found.sd[same], other.sd[same], rtol=0.1)
    log_scale = np.log(other.mean[4]) - 0.5 * (other.sd[4] / other.mean[4]) ** 2
    assert found.mean[4] == pytest.approx(log_scale, abs=0.15 * found.sd[4])


# The table ----------------------------------------------------------------------------------


def small(**changes) -> Effort:
    return Effort(**{"rows": 400, "draws": 100, "truth": 400, **changes})


@pytest.mark.slow
@pytest.mark.fit
@pytest.mark.parametrize("models", [1, 2])
def test_every_rival_is_measured_by_the_same_truth(models):
    methods = ["coreset", "laplace", "pathfinder", "consensus", "subset", "nuts-stanli"]
    effort = small(rows=3_000, truth=1_000)
    records = compare_rivals(effort, reseeded(1), methods, problems=PROBLEMS[:models])
    assert list(records["method"]) == [TRUTH, *methods] * models
    assert records.drop(columns=["mean_error", "sd_error"]).notna().all(axis=None)
    errors = records.pivot(index="model", columns="method", values="mean_error")
    assert (errors["coreset"] < 0.3).all()
    assert (errors["nuts-stanli"] < 1).all()
    assert (errors["subset"] > 3 * errors["coreset"]).all()
    notes = records.pivot(index="model", columns="method", values="note")
    assert (notes["coreset"].str.split().str[0] == notes["subset"].str.split().str[0]).all()


@pytest.mark.fit
@pytest.mark.slow
def test_the_table_from_the_command_line(tmp_path, capsys):
    command = ["rivals", "--quick", "--rows", "3000", "--seed", str(reseeded(1))]
    assert main([*command, "--methods", "laplace", "--out", str(tmp_path), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["settings"]["rows"] == 3000
    records = pd.DataFrame(report["records"])
    assert list(records["model"].unique()) == [problem.title for problem in PROBLEMS]
    assert len(pd.read_csv(tmp_path / "rivals.csv")) == len(records) == 6
    assert len((tmp_path / "rivals.md").read_text().splitlines()) == 2 + len(records)


#: Of the 21 parameters of `LOGISTIC`.
MOMENTS = Moments(np.zeros(21), np.ones(21), np.full(21, 0.1), np.full(21, 0.1), "a, note")


def test_an_interrupted_comparison_computes_only_what_lacks(tmp_path, monkeypatch):
    """Each rival is run once; the truth again, with the rivals that lack, and equal numbers."""
    calls = []

    def counted(rival):
        def run(task):
            calls.append(rival)
            if len(calls) == 2:
                raise KeyboardInterrupt
            return Draws(task.rng(0).standard_normal((2, 50, 21)))

        return Rival(rival, rival, run)

    def stand_in(task):
        calls.append(TRUTH)
        return MOMENTS

    monkeypatch.setattr(table, "RIVALS", [counted("coreset"), counted("laplace")])
    monkeypatch.setattr(table, "truth", lambda task: stand_in(task))
    store = Store(tmp_path / "rivals.csv", {"seed": 1}, resume=True)
    given = {"problems": [LOGISTIC], "store": store}
    with pytest.raises(KeyboardInterrupt):
        compare_rivals(small(), 1, **given)
    assert calls == [TRUTH, "coreset"]
    assert list(store.read()["method"]) == [TRUTH]
    calls += ["later"]
    records = compare_rivals(small(), 1, **given)
    assert calls[3:] == [TRUTH, "coreset", "laplace"]
    assert list(records["method"]) == [TRUTH, "coreset", "laplace"]
    again = compare_rivals(small(), 1, **given)
    assert len(calls) == 6
    pd.testing.assert_frame_equal(again, store.read())
    pd.testing.assert_frame_equal(again, records, rtol=1e-5, check_dtype=False)
    # A rival without numbers, which was not installed then, is run now.
    absent = again.assign(processor=again["processor"].where(again["method"] != "laplace"))
    store.keep(absent.to_dict("records"))
    compare_rivals(small(), 1, **given)
    assert calls[6:] == [TRUTH, "laplace"]
    # One rival alone leaves the others' rows where they are.
    compare_rivals(small(), 1, ["laplace"], **given)
    assert calls[8:] == []
    assert sorted(store.read()["method"]) == ["coreset", "laplace", TRUTH]
    # Nor does it take those of another model.
    two = {"problems": [LOGISTIC, replace(LOGISTIC, title="other")], "store": store}
    compare_rivals(small(), 1, **two)
    records = compare_rivals(small(), 1, ["laplace"], **two)
    assert (
        list(store.read()["method"]) == list(records["method"]) == 2 * [TRUTH, "coreset", "laplace"]
    )


def test_the_benchmarks_table_is_written_from_the_records():
    notebooks = Path(__file__).parents[2]
    written = rivals_table(Store(notebooks / "results/rivals.csv").read())
    assert written in (notebooks / "benchmarks.md").read_text(encoding="utf-8")


def test_what_is_not_installed_is_a_row_that_says_so(monkeypatch):
    """The truth, which takes long, is that of no task."""
    monkeypatch.setattr(table, "truth", lambda task: MOMENTS)
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "numpyro" else found(name)
    )
    with pytest.raises(EngineNotFoundError, match=r'pip install "stancoreset\[rivals\]"'):
        require_numpyro()
    seen = []
    records = compare_rivals(
        small(),
        1,
        ["hmc-ecs", "nuts-numpyro"],
        problems=[LOGISTIC],
        on_record=seen.append,
    )
    assert len(seen) == len(records) == 3
    absent = records[records["method"] != TRUTH]
    assert absent["note"].str.contains("numpyro is not installed").all()
    assert absent[["wall", "processor", "mean_error", "sd_error"]].isna().all(axis=None)
    assert "|  |  |  |  | numpyro is not installed" in rivals_table(records)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--rows", "10"], "rows is 10; expected a whole number of at least 400"),
        (["--trials", "0"], "trials is 0"),
        (["--draws", "5"], "draws is 5"),
        (["--seed", "-1"], "seed is -1"),
        (["--sizes", "5"], "sizes is not an option of rivals"),
        (["--methods", "magic"], "'magic' is not part of rivals; there are coreset"),
        (["--methods", "subset"], "subset without coreset"),
    ],
)
def test_bad_options_exit_with_2(options, words, tmp_path, capsys):
    assert main(["rivals", *options, "--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert len(said.strip().splitlines()) == 1


def test_the_effort_is_checked_without_the_command_line_too():
    with pytest.raises(OptionError, match="rows is 3"):
        compare_rivals(Effort(rows=3))
    assert len({rival.name for rival in RIVALS}) == len(RIVALS)


# numpyro ------------------------------------------------------------------------------------


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.name)
def test_numpyros_densities_are_stans(problem):
    """Log densities of the same parameters differ by Stan's Jacobian and a constant."""
    pytest.importorskip("numpyro")
    from numpyro.infer.util import log_density

    rng = np.random.default_rng(6)
    data = problem.simulate(30, rng)
    with resolve_engine("stanli").compile(problem.program).bind(data) as bound:
        draws = 0.3 * rng.standard_normal((5, bound.n_params))
        stan, values = bound.log_density(draws), bound.constrain(draws)
    with double_precision():
        given, model = arrays(data), MODELS[problem.name]
        joint = [
            float(log_density(model, (), given, {name: v[i] for name, v in values.items()})[0])
            for i in range(5)
        ]
    difference = np.array(joint) + JACOBIANS[problem.name](draws) - stan
    np.testing.assert_allclose(difference, difference[0], rtol=1e-9, atol=1e-9)


@pytest.mark.fit
def test_numpyros_rivals_agree_with_the_truth():
    pytest.importorskip("numpyro")
    records = compare_rivals(
        small(rows=5_000, draws=200),
        reseeded(2),
        ["hmc-ecs", "nuts-numpyro"],
        problems=[PROBLEMS[1]],
    ).set_index("method")
    assert (records["mean_error"].drop(TRUTH) < 0.5).all()
    assert (records["sd_error"].drop(TRUTH) < 40).all()
