"""Comparison tables against closed forms and plain numpy."""

from __future__ import annotations

import doctest
import importlib
import json
import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from stancoreset.errors import DataError, OptionError
from stancoreset.posterior import arviz as arviz_compat
from stancoreset.posterior.certificate import certify
from stancoreset.posterior.comparison import compare, summarise


def normal(seed, mean=0.0, sd=1.0, size=(4, 500)):
    return np.random.default_rng(seed).normal(mean, sd, size=size)


@pytest.fixture
def full():
    return {"mu": normal(0, 3.0, 2.0), "beta": normal(1, size=(4, 500, 2))}


@pytest.fixture
def near():
    return {"mu": normal(2, 3.4, 2.2), "beta": normal(3, size=(4, 500, 2))}


class TestTable:
    def test_against_numpy(self, full, near):
        table = compare({"full": full, "near": near}, quantiles=(0.1, 0.9))
        assert table.attrs["reference"] == "full"
        assert list(table.index) == [
            (name, label) for name in ("full", "near") for label in ("mu", "beta[0]", "beta[1]")
        ]
        row, x, y = table.loc[("near", "mu")], near["mu"].ravel(), full["mu"].ravel()
        assert row["mean"] == pytest.approx(x.mean())
        assert row["sd"] == pytest.approx(x.std(ddof=1))
        assert row["q10"] == pytest.approx(np.quantile(x, 0.1))
        assert row["q90"] == pytest.approx(np.quantile(x, 0.9))
        unit = y.std(ddof=1)
        assert row["delta_mean"] == pytest.approx(abs(x.mean() - y.mean()) / unit)
        assert row["sd_ratio"] == pytest.approx(x.std(ddof=1) / unit)
        assert row["wasserstein"] == pytest.approx(stats.wasserstein_distance(x, y) / unit)
        assert row["ess_bulk"] == pytest.approx(arviz_compat.ess(near["mu"]))
        assert row["r_hat"] == pytest.approx(arviz_compat.rhat(near["mu"]))
        errors = [arviz_compat.mcse(v["mu"]) for v in (full, near)]
        assert row["mcse_delta"] == pytest.approx(np.hypot(*errors) / unit, rel=1e-3)
        assert np.isnan(row["ess_per_second"])

    def test_the_reference_is_at_distance_zero(self, full, near):
        table = compare({"near": near, "full": full}, reference="full")
        assert table.attrs["reference"] == "full"
        base = table.loc["full"]
        assert (base[["delta_mean", "mcse_delta", "wasserstein"]] == 0).all(axis=None)
        assert (base["sd_ratio"] == 1).all()
        assert table.index[0] == ("near", "mu")

    @pytest.mark.slow
    def test_monte_carlo_error_covers_the_noise(self):
        # the same posterior twice: |Δmean| / mcse is |z|, whose mean square is 1
        ratios = []
        for seed in range(60):
            table = compare({"a": {"x": normal(2 * seed)}, "b": {"x": normal(2 * seed + 1)}})
            row = table.loc[("b", "x")]
            ratios.append(row["delta_mean"] / row["mcse_delta"])
        assert np.mean(np.square(ratios)) == pytest.approx(1, abs=0.5)

    def test_closed_forms(self):
        # quantile grids of N(0, 1) and N(0.5, 1): everything is known
        q = stats.norm.ppf((np.arange(4000) + 0.5) / 4000)
        grid = np.random.default_rng(0).permutation(q).reshape(4, 1000)
        row = compare({"a": {"x": grid}, "b": {"x": grid + 0.5}}).loc[("b", "x")]
        assert row["delta_mean"] == pytest.approx(0.5, rel=1e-3)
        assert row["wasserstein"] == pytest.approx(0.5, rel=1e-3)
        assert row["sd_ratio"] == pytest.approx(1)
        assert row["q5"] == pytest.approx(0.5 - 1.645, abs=0.01)

    def test_only_common_parameters(self, full, near):
        extra = dict(near, tau=np.full((4, 500), np.nan))
        table = compare({"full": full, "near": extra, "mu only": {"mu": near["mu"]}})
        assert set(table.loc["near"].index) == {"mu", "beta[0]", "beta[1]"}
        assert set(table.loc["mu only"].index) == {"mu"}
        table = compare({"near": extra, "full": full}, var_names=["mu"])
        assert set(table.index.get_level_values("parameter")) == {"mu"}
        # the reference's own NaN column is not compared with anything
        assert "tau" not in compare({"near": extra, "full": full}).loc["near"].index

    def test_labels_come_from_the_reference(self, full):
        named = arviz_compat.posterior_container(
            full, dims={"beta": ["coefficient"]}, coords={"coefficient": ["hour", "distance"]}
        )
        table = compare({"named": named, "plain": full})
        assert list(table.loc["plain"].index) == ["mu", "beta[hour]", "beta[distance]"]

    def test_alone(self, full):
        assert len(compare({"full": full})) == 3

    def test_fixed_parameters(self, full):
        with_fixed = dict(full, one=np.full((4, 500), 0.1))
        moved = dict(full, one=np.full((4, 500), 0.2))
        rounded = dict(full, one=np.full((4, 500), 0.1) + 1e-17)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            table = compare({"a": with_fixed, "b": moved, "c": rounded, "d": with_fixed})
        assert table.loc[("b", "one"), "delta_mean"] == np.inf
        for name in "cd":
            row = table.loc[(name, "one")]
            assert row["delta_mean"] == row["wasserstein"] == 0
            assert row["sd_ratio"] == 1

    def test_input_unchanged(self, full, near):
        kept = {name: value.copy() for name, value in near.items()}
        compare({"full": full, "near": near}, weights={"near": np.arange(2000.0)})
        for name, value in near.items():
            np.testing.assert_array_equal(value, kept[name])

    def test_json(self, full, near):
        table = compare({"full": full, "near": near})
        records = json.loads(table.reset_index().to_json(orient="records"))
        assert [record["parameter"] for record in records[:2]] == ["mu", "beta[0]"]
        assert records[0]["ess_per_second"] is None


class TestWeights:
    def test_integer_weights_are_copies(self, full):
        draws = normal(5, size=(1, 300))
        copies = np.random.default_rng(6).integers(0, 4, size=300)
        copied = np.repeat(draws[0], copies)
        table = compare(
            {"full": {"x": full["mu"]}, "weighted": {"x": draws}, "copied": {"x": copied}},
            weights={"weighted": copies},
        )
        weighted, plain = table.loc[("weighted", "x")], table.loc[("copied", "x")]
        assert weighted["mean"] == pytest.approx(plain["mean"], rel=1e-12)
        assert weighted["wasserstein"] == pytest.approx(plain["wasserstein"], rel=1e-12)
        assert weighted["sd"] == pytest.approx(plain["sd"], rel=5e-3)
        assert weighted["q50"] == pytest.approx(plain["q50"], abs=0.05)

    def test_importance_weights_undo_a_shift(self):
        # draws of N(0.5, 1.2²), weighted into N(0, 1)
        q, p = stats.norm(0.5, 1.2), stats.norm(0, 1)
        draws = normal(7, 0.5, 1.2, size=(4, 5000))
        log_weights = (p.logpdf(draws) - q.logpdf(draws)).ravel()
        weights = np.exp(log_weights)
        exact = stats.norm.ppf((np.arange(20_000) + 0.5) / 20_000)
        exact = np.random.default_rng(0).permutation(exact).reshape(4, 5000)
        table = compare(
            {"exact": {"x": exact}, "raw": {"x": draws}, "weighted": {"x": draws}},
            weights={"weighted": weights},
        )
        raw, row = table.loc[("raw", "x")], table.loc[("weighted", "x")]
        assert raw["delta_mean"] == pytest.approx(0.5, abs=0.03)
        assert row["delta_mean"] < 4 * row["mcse_delta"]
        assert row["delta_mean"] < 0.04
        assert row["sd_ratio"] == pytest.approx(1, abs=0.03)
        assert row["wasserstein"] < 0.05
        assert row["q5"] == pytest.approx(-1.645, abs=0.06)
        kish = weights.sum() ** 2 / (weights**2).sum()
        assert row["ess_bulk"] == pytest.approx(kish, rel=0.05)

    @pytest.mark.slow
    def test_error_of_the_weighted_mean(self):
        # the estimated error matches the spread of estimates over replications
        q, p = stats.norm(0.3, 1.1), stats.norm(0, 1)
        reference = {"x": normal(99, size=(4, 5000))}
        estimates, errors = [], []
        for seed in range(100):
            draws = normal(seed, 0.3, 1.1, size=(4, 250))
            weights = np.exp(p.logpdf(draws) - q.logpdf(draws)).ravel()
            row = compare({"r": reference, "w": {"x": draws}}, weights={"w": weights}).loc[
                ("w", "x")
            ]
            estimates.append(row["mean"])
            errors.append(row["mcse_delta"])
        assert np.mean(errors) == pytest.approx(np.std(estimates), rel=0.25)

    def test_equal_weights_change_nothing(self, full, near):
        plain = compare({"full": full, "near": near})
        equal = compare({"full": full, "near": near}, weights={"near": np.full(2000, 0.3)})
        columns = ["mean", "sd", "q5", "q50", "q95", "delta_mean", "sd_ratio", "wasserstein"]
        np.testing.assert_allclose(equal[columns], plain[columns], rtol=1e-9, atol=1e-12)

    def test_weights_of_some_draws(self, full):
        """A certificate looks at some of the draws; the others get no weight."""
        draws = normal(8, size=(4, 500))
        index = np.arange(0, 2000, 4)
        log_weights = np.random.default_rng(0).normal(0, 0.3, size=500)
        certificate = certify(log_weights, draw_index=index)
        fit = SimpleNamespace(
            posterior=arviz_compat.posterior_container({"mu": draws}),
            certificate=certificate,
            weights=certificate.weights,
            seconds=2.0,
        )
        row = compare({"full": {"mu": full["mu"]}, "fit": fit}).loc[("fit", "mu")]
        looked_at = draws.ravel()[index]
        assert row["mean"] == pytest.approx(certificate.expectation(looked_at))
        assert row["ess_bulk"] == pytest.approx(certificate.ess, rel=1e-6)
        assert row["ess_per_second"] == pytest.approx(row["ess_bulk"] / 2)

    @pytest.mark.parametrize(
        ("weights", "message"),
        [
            (np.ones(7), "2000 draws, but 7 weights"),
            (np.full(2000, -1.0), "not negative"),
            (np.zeros(2000), "not all zero"),
            (np.full(2000, np.nan), "finite"),
        ],
    )
    def test_bad_weights(self, full, weights, message):
        with pytest.raises(DataError, match=message):
            compare({"full": full}, weights={"full": weights})


class TestSeconds:
    def test_where_they_come_from(self, full):
        container = arviz_compat.posterior_container(full, attrs={"sampling_time": 4.0})
        staged = SimpleNamespace(posterior=container, timings={"a": 1.0, "b": 7.0})
        total = SimpleNamespace(posterior=container, timings={"a": 1.0, "total": 10.0})
        table = compare(
            {
                "container": container,
                "staged": staged,
                "total": total,
                "plain": full,
                "given": full,
            },
            seconds={"given": 5.0},
        )
        times = table["ess_bulk"] / table["ess_per_second"]
        got = times.xs("mu", level="parameter")
        assert got["container"] == pytest.approx(4)
        assert got["staged"] == pytest.approx(8)
        assert got["total"] == pytest.approx(10)
        assert np.isnan(got["plain"])
        assert got["given"] == pytest.approx(5)


class TestSummarise:
    def test_worst_of_each(self, full, near):
        table = compare({"full": full, "near": near}, seconds={"near": 2.0})
        worst = summarise(table)
        rows = table.loc["near"]
        assert list(worst.index) == ["full", "near"]
        got = worst.loc["near"]
        assert got["max_delta_mean"] == rows["delta_mean"].max()
        assert got["max_log_sd_ratio"] == np.abs(np.log(rows["sd_ratio"])).max()
        assert got["max_wasserstein"] == rows["wasserstein"].max()
        assert got["min_ess_bulk"] == rows["ess_bulk"].min()
        assert got["min_ess_per_second"] == rows["ess_per_second"].min()
        assert np.isnan(worst.loc["full", "min_ess_per_second"])

    def test_another_table(self):
        with pytest.raises(DataError, match="made by compare"):
            summarise(pd.DataFrame({"a": [1]}))


class TestErrors:
    @pytest.mark.parametrize("nothing", [{}, [], None])
    def test_nothing(self, nothing):
        with pytest.raises(OptionError, match="at least one posterior"):
            compare(nothing)

    def test_no_common_parameters(self, full):
        with pytest.raises(DataError, match="'full' has 'mu', 'beta'; 'other' has 'tau'"):
            compare({"full": full, "other": {"tau": full["mu"]}})

    def test_shapes(self, full):
        other = {"mu": full["mu"], "beta": normal(0, size=(4, 500, 3))}
        with pytest.raises(DataError, match=r"\(2,\) in 'full', but \(3,\) in 'other'"):
            compare({"full": full, "other": other})

    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_not_finite(self, full, near, bad):
        near["mu"][1, 3] = bad
        with pytest.raises(DataError, match="posterior 'near': 1 of 2000 draws of 'mu'"):
            compare({"full": full, "near": near})

    def test_names(self, full):
        with pytest.raises(OptionError, match="two posteriors are called '1'"):
            compare({"1": full, 1: full})
        with pytest.raises(OptionError, match="expected one of 'full'"):
            compare({"full": full}, reference="coreset")
        with pytest.raises(OptionError, match="weights names"):
            compare({"full": full}, weights={"coreset": [1.0]})
        with pytest.raises(DataError, match="'full' has no parameter 'gamma'"):
            compare({"full": full}, var_names=["gamma"])

    def test_same_labels(self):
        x = normal(0)
        with pytest.raises(DataError, match="two parameters are both labelled"):
            compare({"a": {"beta[0]": x, "beta": x[..., None]}})

    def test_quantiles(self, full):
        with pytest.raises(OptionError, match="quantiles"):
            compare({"full": full}, quantiles=(0, 0.5))

    def test_unreadable(self, full):
        with pytest.raises(DataError, match="posterior 'other': cannot read"):
            compare({"full": full, "other": 7})


def test_doctests():
    for name in ("comparison", "named"):
        module = importlib.import_module(f"stancoreset.posterior.{name}")
        assert doctest.testmod(module).failed == 0
