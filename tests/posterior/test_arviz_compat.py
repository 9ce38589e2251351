"""Containers, readers, files and diagnostics, on whichever ArviZ is installed."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import textwrap
import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.stats import cauchy, genpareto, norm

from stancoreset.engines.base import SampleResult
from stancoreset.errors import DataError, OptionError, OutputError
from stancoreset.posterior import arviz as compat
from stancoreset.posterior.arviz.versions import arviz, is_v1


@pytest.fixture
def draws():
    rng = np.random.default_rng(1)
    return {"alpha": rng.normal(size=(4, 50)), "beta": rng.normal(size=(4, 50, 3, 2))}


@pytest.fixture
def container(draws):
    return compat.posterior_container(
        draws,
        {"lp": np.arange(200.0).reshape(4, 50), "diverging": np.zeros((4, 50), bool)},
        observed_data={"y": [0, 1, 1]},
        constant_data={"indices": np.array([3, 5]), "weights": [1.5, 2.5]},
        log_likelihood=np.zeros((4, 50, 3)),
        attrs={"seed": 1, "note": "text", "nested": {"a": [1, 2]}, "nothing": None},
    )


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


class TestImport:
    def test_lazy_and_silent(self):
        output = run("""
            import sys, warnings, logging
            import matplotlib, numpy
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", module="matplotlib")  # its own, of its parser
            logging.basicConfig(level=logging.INFO)
            import stancoreset.posterior.arviz as compat
            assert not {"arviz", "xarray", "pandas"} & set(sys.modules)
            before, level = dict(matplotlib.rcParams), logging.getLogger("arviz").level
            compat.ess(numpy.random.default_rng(0).normal(size=(4, 100)))
            compat.summary({"x": numpy.random.default_rng(0).normal(size=100)})
            assert "arviz" in sys.modules
            assert dict(matplotlib.rcParams) == before
            assert logging.getLogger("arviz").level == level
            assert len(logging.root.handlers) == 1
        """)
        assert output == ""


class TestContainer:
    def test_type_is_the_installed_line(self, container):
        assert isinstance(container, xr.DataTree) == is_v1()
        assert compat.is_container(container)
        assert not compat.is_container({})

    def test_groups_and_values(self, container, draws):
        groups = compat.groups_of(container)
        assert set(groups) == {
            "posterior",
            "sample_stats",
            "log_likelihood",
            "observed_data",
            "constant_data",
        }
        got = compat.variables_of(container)
        for name, values in draws.items():
            np.testing.assert_array_equal(got[name], values)
        assert groups["observed_data"]["y"].dims == ("y_dim_0",)
        np.testing.assert_array_equal(groups["constant_data"]["weights"], [1.5, 2.5])

    def test_attributes_are_plain(self, container):
        attrs = compat.attrs_of(container)
        assert attrs["seed"] == 1
        assert attrs["note"] == "text"
        assert json.loads(attrs["nested"]) == {"a": [1, 2]}
        assert attrs["nothing"] == "null"

    def test_arviz_itself_takes_it(self, container):
        table = arviz().summary(container, var_names=["alpha"])
        assert list(table.index) == ["alpha"]

    def test_loo_agrees_with_its_definition(self):
        # log_lik constant in the draws: elpd_loo is its sum exactly
        rows = np.array([-1.0, -2.0, -3.5])
        rng = np.random.default_rng(0)
        noise = 1e-6 * rng.normal(size=(4, 200, 3))
        post = compat.posterior_container(
            {"mu": rng.normal(size=(4, 200))}, log_likelihood=rows + noise
        )
        loo = arviz().loo(post)
        elpd = loo.elpd if is_v1() else loo.elpd_loo
        assert elpd == pytest.approx(-6.5, abs=1e-4)

    def test_labels(self):
        post = compat.posterior_container(
            {"beta": np.random.default_rng(0).normal(size=(2, 20, 2))},
            dims={"beta": ["coefficient"]},
            coords={"coefficient": ["distance", "delay"], "unused": [1, 2, 3]},
        )
        assert list(compat.summary(post).index) == ["beta[distance]", "beta[delay]"]

    def test_inputs_stay_as_they_are(self, draws):
        kept = {name: values.copy() for name, values in draws.items()}
        post = compat.posterior_container(draws)
        compat.add_group(post, "constant_data", {"weights": [1.0]})
        assert set(compat.groups_of(post)) == {"posterior"}
        for name, values in draws.items():
            np.testing.assert_array_equal(values, kept[name])

    @pytest.mark.parametrize(
        ("variables", "message"),
        [
            ({}, "at least one variable"),
            ({"a": np.zeros((2, 5)), "b": np.zeros((2, 6))}, "'b' has 2 chains of 6 draws"),
            ({"a": np.zeros(5)}, r"shape \(5,\)"),
            ({"a": [[1.0, 2.0], [3.0]]}, "not a rectangular array"),
            ({"a": np.array([[object()]])}, "not an array of numbers"),
        ],
    )
    def test_bad_variables(self, variables, message):
        with pytest.raises(DataError, match=message):
            compat.posterior_container(variables)

    def test_stats_of_another_length(self):
        with pytest.raises(DataError, match="sample_stats has 2 chains of 4 draws"):
            compat.posterior_container({"a": np.zeros((2, 5))}, {"lp": np.zeros((2, 4))})

    def test_labels_of_wrong_length(self):
        with pytest.raises(OptionError, match="3 labels, but the dimension has 2"):
            compat.posterior_container(
                {"b": np.zeros((1, 5, 2))}, dims={"b": ["x"]}, coords={"x": [1, 2, 3]}
            )
        with pytest.raises(OptionError, match="names 2 dimensions"):
            compat.posterior_container({"b": np.zeros((1, 5, 2))}, dims={"b": ["x", "y"]})

    def test_add_group_refuses_to_replace(self, container):
        with pytest.raises(OptionError, match="overwrite=True"):
            compat.add_group(container, "observed_data", {"y": [1]})
        changed = compat.add_group(container, "observed_data", {"y": [7]}, overwrite=True)
        assert compat.group_of(changed, "observed_data")["y"].item() == 7
        assert compat.attrs_of(changed) == compat.attrs_of(container)

    def test_missing_group(self, container):
        with pytest.raises(DataError, match=r"no group 'prior'.*'posterior'"):
            compat.group_of(container, "prior")

    def test_from_result(self, draws):
        flat = np.concatenate([draws["alpha"][..., None], draws["beta"].reshape(4, 50, 6)], -1)
        result = SampleResult(
            variables=draws,
            stats={"lp": np.zeros((4, 50))},
            unconstrained=flat,
            seconds=2.5,
            settings={"seed": 3, "chains": 4, "inits": None},
        )
        post = compat.from_result(result, attrs={"program": "abc"})
        attrs = compat.attrs_of(post)
        assert attrs["sampling_time"] == 2.5
        assert attrs["seed"] == 3
        assert attrs["program"] == "abc"
        kept = compat.group_of(post, "unconstrained_posterior")["unconstrained"]
        np.testing.assert_array_equal(kept, flat)


def write_stan_csv(path, chain: int, values: np.ndarray) -> None:
    """A CmdStan sampler's output file, as CmdStan 2.35 writes it."""
    header = f"""\
        # stan_version_major = 2
        # stan_version_minor = 35
        # stan_version_patch = 0
        # model = toy_model
        # method = sample (Default)
        #   sample
        #     num_samples = {len(values)}
        #     num_warmup = 1000 (Default)
        #     save_warmup = false (Default)
        #     thin = 1 (Default)
        #     adapt
        #       engaged = true (Default)
        #     algorithm = hmc (Default)
        #       hmc
        #         engine = nuts (Default)
        #           nuts
        #             max_depth = 10 (Default)
        #         metric = diag_e (Default)
        #     num_chains = 1 (Default)
        # id = {chain}
        # data
        #   file =  (Default)
        # random
        #   seed = 1
        # output
        #   file = {path}
        """
    columns = (
        "lp__,accept_stat__,stepsize__,treedepth__,n_leapfrog__,divergent__,energy__,"
        "mu,beta.1.1,beta.2.1,beta.1.2,beta.2.2"
    )
    adaptation = (
        "# Adaptation terminated\n# Step size = 0.9\n"
        "# Diagonal elements of inverse mass matrix:\n# 1, 1, 1, 1, 1\n"
    )
    rows = "\n".join(
        ",".join(f"{x:.17g}" for x in (-1.0 * i, 0.9, 0.5, 2, 3, i == 0, 1.0, *row))
        for i, row in enumerate(values)
    )
    tail = "\n# \n#  Elapsed Time: 0.1 seconds (Warm-up)\n#                0.1 seconds (Sampling)\n"
    tail += "#                0.2 seconds (Total)\n# \n"
    path.write_text(f"{textwrap.dedent(header)}{columns}\n{adaptation}{rows}{tail}")


class TestReading:
    def test_every_kind_gives_the_same(self, draws, container):
        dataset = compat.dataset_of(container)
        shuffled = dataset.transpose("draw", ..., "chain")
        fit = SimpleNamespace(posterior=container)
        for posterior in (container, dataset, shuffled, draws, fit):
            got = compat.variables_of(posterior)
            assert set(got) == set(draws)
            for name, values in draws.items():
                np.testing.assert_array_equal(got[name], values)

    def test_one_dimensional_arrays_make_one_chain(self):
        got = compat.variables_of({"a": np.arange(7.0), "b": np.zeros((7, 2))})
        assert got["a"].shape == (1, 7)
        assert got["b"].shape == (1, 7, 2)

    def test_dataset_without_chains(self):
        data = xr.Dataset({"a": ("draw", np.arange(6.0)), "unsampled": ("k", [1.0])})
        assert {k: v.shape for k, v in compat.variables_of(data).items()} == {"a": (1, 6)}

    def test_cmdstanpy_fit_keeps_chains(self, tmp_path):
        import cmdstanpy

        rng = np.random.default_rng(5)
        chains = rng.normal(size=(2, 10, 5))
        logging.getLogger("cmdstanpy").setLevel(logging.ERROR)
        for chain, values in enumerate(chains, 1):
            write_stan_csv(tmp_path / f"toy-{chain}.csv", chain, values)
        fit = cmdstanpy.from_csv(str(tmp_path))
        got = compat.variables_of(fit)
        np.testing.assert_allclose(got["mu"], chains[..., 0], rtol=1e-15)
        # CSV columns run column-major: beta.1.1, beta.2.1, beta.1.2, beta.2.2
        expected = np.moveaxis(chains[..., 1:].reshape(2, 10, 2, 2), 2, 3)
        np.testing.assert_allclose(got["beta"], expected, rtol=1e-15)
        stats = compat.sample_stats_of(fit)
        assert stats["lp"].shape == (2, 10)
        np.testing.assert_array_equal(stats["lp"][1], -np.arange(10.0))
        assert stats["diverging"].dtype == bool
        assert stats["diverging"].sum() == 2
        table = compat.variables_of(fit.draws_pd())
        np.testing.assert_array_equal(table["beta"], got["beta"])
        np.testing.assert_array_equal(table["mu"], got["mu"])

    def test_stanli_fit(self):
        stanli = pytest.importorskip("stanli")
        draws = np.random.default_rng(0).normal(size=(2, 5, 3))
        fit = stanli.Fit(["mu", "beta[1]", "beta[2]"], draws, np.zeros((2, 5, 7)), 10, 1)
        got = compat.variables_of(fit)
        np.testing.assert_array_equal(got["mu"], draws[..., 0])
        np.testing.assert_array_equal(got["beta"], draws[..., 1:])

    def test_table(self):
        table = pd.DataFrame(
            {"b[2]": [1.0, 2, 3, 4], "b[1]": [5.0, 6, 7, 8], "s": [0.0] * 4, "lp__": [0.0] * 4}
        )
        got = compat.variables_of(table)
        assert set(got) == {"b", "s"}
        np.testing.assert_array_equal(got["b"][0, :, 0], [5, 6, 7, 8])
        got = compat.variables_of(table.assign(chain__=[1, 2, 1, 2]))
        np.testing.assert_array_equal(got["b"][:, :, 0], [[5, 7], [6, 8]])
        with pytest.raises(DataError, match="chains of different lengths"):
            compat.variables_of(table.assign(chain__=[1, 2, 2, 2]))
        with pytest.raises(DataError, match="'b' do not fill an array"):
            compat.variables_of(table.drop(columns="b[1]"))

    @pytest.mark.parametrize(
        ("posterior", "message"),
        [
            (3.0, "cannot read posterior draws from an object of type builtins.float"),
            ({}, "no variables"),
            ({"a": 1.0}, "single number"),
            ({"a": np.zeros((500, 3))}, "500 chains of 3 draws.*shape \\(1, draws"),
            ({"a": np.zeros((2, 5)), "b": np.zeros((3, 5))}, "3 chains of 5 draws"),
            (xr.Dataset({"a": ("x", [1.0])}), "no dimension 'draw'"),
        ],
    )
    def test_not_a_posterior(self, posterior, message):
        with pytest.raises(DataError, match=message):
            compat.variables_of(posterior)

    def test_sample_stats(self, container, draws):
        stats = compat.sample_stats_of(container)
        assert set(stats) == {"lp", "diverging"}
        assert stats["lp"].shape == (4, 50)
        assert compat.sample_stats_of(SimpleNamespace(posterior=container)).keys() == stats.keys()
        assert compat.sample_stats_of(draws) == {}


class TestFiles:
    def test_round_trip(self, container, tmp_path):
        path = compat.save(container, tmp_path / "posterior.nc")
        back = compat.load(path)
        assert type(back) is type(container)
        assert compat.attrs_of(back) == compat.attrs_of(container)
        before, after = compat.groups_of(container), compat.groups_of(back)
        assert set(before) == set(after)
        for name, dataset in before.items():
            for key, values in dataset.items():
                np.testing.assert_array_equal(after[name][key], values)
                assert after[name][key].dtype == values.dtype
        assert [p.name for p in tmp_path.iterdir()] == ["posterior.nc"]
        # the file is closed: it can be replaced, and the draws are still there
        path.unlink()
        assert np.isfinite(compat.variables_of(back)["alpha"]).all()

    def test_arviz_reads_it(self, container, tmp_path):
        path = compat.save(container, tmp_path / "posterior.nc")
        theirs = arviz().from_netcdf(str(path))
        np.testing.assert_array_equal(
            theirs["posterior"]["alpha"], compat.variables_of(container)["alpha"]
        )
        getattr(theirs, "close", lambda: None)()

    def test_interrupted_write_leaves_the_old_file(self, container, tmp_path, monkeypatch):
        path = compat.save(container, tmp_path / "posterior.nc")
        old = path.read_bytes()

        def fail(*_args, **_options):
            raise KeyboardInterrupt

        monkeypatch.setattr("os.replace", fail)
        with pytest.raises(KeyboardInterrupt):
            compat.save(container, path)
        assert path.read_bytes() == old
        assert [p.name for p in tmp_path.iterdir()] == ["posterior.nc"]

    def test_errors(self, container, tmp_path):
        with pytest.raises(OutputError, match="cannot write"):
            compat.save(container, tmp_path / "missing" / "posterior.nc")
        with pytest.raises(DataError, match="no such file"):
            compat.load(tmp_path / "posterior.nc")
        (tmp_path / "text.nc").write_text("not NetCDF")
        with pytest.raises(DataError, match="not a readable NetCDF file"):
            compat.load(tmp_path / "text.nc")
        xr.Dataset({"a": [1]}).to_netcdf(tmp_path / "other.nc", engine="h5netcdf")
        with pytest.raises(DataError, match="no group 'posterior'"):
            compat.load(tmp_path / "other.nc")


class TestDiagnostics:
    def test_independent_draws(self):
        draws = np.random.default_rng(0).normal(size=(4, 1000, 20))
        assert compat.ess(draws).mean() == pytest.approx(4000, rel=0.05)
        np.testing.assert_allclose(compat.rhat(draws), 1, atol=0.005)
        np.testing.assert_allclose(compat.mcse(draws), 1 / np.sqrt(4000), rtol=0.2)

    def test_autoregression(self):
        # AR(1) with coefficient ρ: ESS of the mean = n (1 − ρ) / (1 + ρ)
        rng, rho, n = np.random.default_rng(3), 0.8, 20_000
        x = np.zeros((4, n))
        noise = rng.normal(size=(4, n))
        for t in range(1, n):
            x[:, t] = rho * x[:, t - 1] + noise[:, t]
        expected = 4 * n * (1 - rho) / (1 + rho)
        assert compat.ess(x, method="mean") == pytest.approx(expected, rel=0.1)

    def test_separated_chains(self):
        x = np.random.default_rng(0).normal(size=(4, 200)) + np.arange(4)[:, None]
        assert compat.rhat(x) > 1.3

    def test_one_chain_and_posteriors(self, container):
        assert np.isnan(compat.rhat(np.random.default_rng(0).normal(size=(1, 100))))
        assert np.isnan(compat.ess(np.zeros((2, 3))))
        assert compat.ess(container)["beta"].shape == (3, 2)
        with pytest.raises(DataError, match="shape \\(5,\\)"):
            compat.ess(np.zeros(5))

    def test_summary(self, container, draws):
        table = compat.summary(container, ["beta"], prob=0.8)
        assert list(table.columns) == [
            "mean",
            "sd",
            "q10",
            "q90",
            "mcse_mean",
            "mcse_sd",
            "ess_bulk",
            "ess_tail",
            "r_hat",
        ]
        assert list(table.index)[:3] == ["beta[0, 0]", "beta[0, 1]", "beta[1, 0]"]
        flat = draws["beta"].reshape(200, 6)
        np.testing.assert_allclose(table["mean"], flat.mean(0))
        np.testing.assert_allclose(table["sd"], flat.std(0, ddof=1))
        np.testing.assert_allclose(table["q90"], np.quantile(flat, 0.9, axis=0), rtol=1e-6)
        np.testing.assert_allclose(table["ess_bulk"], compat.ess(container)["beta"].ravel())
        with pytest.raises(DataError, match="no variable 'gamma'"):
            compat.summary(container, ["gamma"])
        with pytest.raises(OptionError, match="prob"):
            compat.summary(container, prob=1)

    def test_summary_takes_the_options_of_arviz(self, container):
        whole = compat.summary(container)
        rounded = compat.summary(container, round_to=2)
        assert list(rounded.columns) == list(whole.columns)
        np.testing.assert_allclose(rounded["q95"], whole["q95"].round(2), atol=1e-9)
        assert list(compat.summary(container, kind="stats").columns) == ["mean", "sd", "q5", "q95"]
        diagnostics = compat.summary(container, kind="diagnostics")
        assert set(diagnostics.columns) == set(list(whole.columns)[4:])
        some = compat.summary(container, ["bet"], filter_vars="like")
        assert set(some.index) == {label for label in whole.index if label.startswith("beta")}
        stats = compat.summary(container, ["lp"], group="sample_stats", kind="stats")
        assert list(stats.index) == ["lp"]
        for options in ({"rounds": 2}, {"kind": "everything"}):
            with pytest.raises(OptionError, match=r"arviz\.summary refuses these options: "):
                compat.summary(container, **options)

    def test_an_interval_of_arviz_takes_the_place_of_ours(self, container):
        options = {"ci_kind": "hdi", "ci_prob": 0.5} if is_v1() else {"hdi_prob": 0.5}
        table = compat.summary(container, **options, round_to="none")
        expected = arviz().summary(compat.dataset_of(container), **options, round_to="none")
        assert list(table.columns) == list(expected.columns)
        np.testing.assert_array_equal(table, expected)
        assert not {"q5", "q95"} & set(table.columns)

    def test_every_table_calls_rhat_the_same(self, container):
        from stancoreset.posterior import compare

        assert "r_hat" in compat.summary(container)
        assert "r_hat" in compare({"a": container})


class TestPSIS:
    @pytest.mark.parametrize("k", [0.2, 0.5, 0.9])
    def test_pareto_shape(self, k):
        # exp(k·E), E ~ Exp(1), is Pareto with shape k
        rng = np.random.default_rng(11)
        got = [compat.psislw(k * rng.exponential(size=4000))[1] for _ in range(10)]
        assert np.mean(got) == pytest.approx(k, abs=0.05)

    def test_gaussian_ratio_mean(self):
        # E_p[x²] for p = N(0, 1) from draws of q = N(0, 1.5²)
        x = np.random.default_rng(2).normal(0, 1.5, size=20_000)
        lw, khat = compat.psislw(-0.5 * x**2 + 0.5 * (x / 1.5) ** 2 + 123.0)
        assert khat < 0.1
        assert np.exp(lw).sum() == pytest.approx(1)
        assert np.exp(lw) @ x**2 == pytest.approx(1, abs=0.03)

    def test_body_unchanged_tail_smoothed(self):
        raw = np.random.default_rng(4).normal(size=2000)
        lw, _ = compat.psislw(raw)
        body = raw < np.quantile(raw, 0.9)
        np.testing.assert_allclose(np.diff(lw[body]), np.diff(raw[body]), atol=1e-9)
        assert (np.argsort(lw, kind="stable") == np.argsort(raw)).mean() > 0.9
        shape = (4, 500)
        np.testing.assert_array_equal(compat.psislw(raw.reshape(shape))[0], lw.reshape(shape))

    def test_input_unchanged_and_shift_invariant(self):
        raw = np.random.default_rng(4).normal(size=500)
        kept = raw.copy()
        lw, khat = compat.psislw(raw)
        np.testing.assert_array_equal(raw, kept)
        shifted, same = compat.psislw(raw - 1e5)
        np.testing.assert_allclose(shifted, lw, atol=1e-8)
        assert same == pytest.approx(khat, abs=1e-6)

    def test_degenerate(self):
        lw, khat = compat.psislw(np.full(100, 3.0) + 1e-12 * np.arange(100))
        np.testing.assert_allclose(lw, -np.log(100))
        assert khat == 0
        assert compat.psislw(np.arange(20.0))[1] == np.inf
        assert compat.psislw(np.r_[np.zeros(50), -np.arange(50.0)])[1] == np.inf
        lw, khat = compat.psislw(np.r_[np.random.default_rng(0).normal(size=900), [-np.inf] * 100])
        assert khat < 0.7
        assert np.exp(lw[900:]).sum() == 0 or np.exp(lw[900:]).sum() < 1e-300
        few = np.r_[np.random.default_rng(0).normal(size=50), [-np.inf] * 950]
        assert compat.psislw(few)[1] == np.inf

    @pytest.mark.parametrize("bad", [[np.nan, 0.0], [np.inf, 0.0], [], [-np.inf, -np.inf]])
    def test_bad_weights(self, bad):
        with pytest.raises(DataError, match="log weight"):
            compat.psislw(np.array(bad))

    def test_no_warnings(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            compat.psislw(np.arange(1000.0) ** 2)


def test_doctests():
    import doctest

    from stancoreset.posterior.arviz import containers, diagnostics, reading

    for module in (containers, diagnostics, reading):
        assert doctest.testmod(module).failed == 0


def test_the_worst_rhat_is_the_largest_of_all():
    rng = np.random.default_rng(0)
    offsets = np.linspace(0, 0.6, 4)[:, None, None] * rng.random(40)
    draws = rng.normal(size=(4, 500, 40)) * np.geomspace(1e-3, 1e3, 40) * (1 + offsets)
    draws += offsets * np.geomspace(1e-3, 1e3, 40)
    found = compat.worst_rhat({"a": draws[..., :15], "b": draws[..., 15:].reshape(4, 500, 5, 5)})
    assert found == pytest.approx(compat.rhat(draws).max(), rel=1e-12)
    still = {"a": draws, "diagonal": np.ones((4, 500))}
    assert compat.worst_rhat(still) == pytest.approx(found, rel=1e-12)
    assert np.isnan(compat.worst_rhat({"one": draws[:1]}))
    assert np.isnan(compat.worst_rhat({"still": np.ones((4, 500))}))


def slab(rng, chains, draws, share=0.2, stay=0.96, width=30.0):
    """Draws of a spike and a slab, where a chain changes between them but seldom."""
    inside = np.empty((chains, draws), dtype=bool)
    state = rng.random(chains) < share
    leave = (1 - stay) * share / (1 - share)
    for t in range(draws):
        inside[:, t] = state
        state = np.where(state, rng.random(chains) < stay, rng.random(chains) < leave)
    return np.where(inside, width, 1.0) * rng.normal(size=inside.shape)


@pytest.mark.slow
def test_monte_carlo_errors_are_those_of_many_runs():
    """The spread of means and sds over 200 runs, of normal draws and of a slab seldom visited."""
    rng = np.random.default_rng(0)
    for make in (lambda: rng.normal(size=(4, 500)), lambda: slab(rng, 4, 2_000)):
        runs = [make() for _ in range(200)]
        found = [compat.worst_monte_carlo({"x": run}) for run in runs]
        sds = np.array([run.std() for run in runs])
        means = np.array([run.mean() for run in runs])
        assert np.median([f.mean for f in found]) == pytest.approx(
            means.std() / sds.mean(), rel=0.2
        )
        assert np.median([f.sd for f in found]) == pytest.approx(sds.std() / sds.mean(), rel=0.2)


@pytest.mark.slow
def test_the_worst_monte_carlo_error_is_the_largest_of_all():
    """Of 1,200 scalars with errors of all sizes, on scales of all sizes, found by a few."""
    rng = np.random.default_rng(1)
    rough = np.linspace(0, 0.95, 1_200)
    draws = rng.normal(size=(4, 200, 1_200))
    for t in range(1, 200):  # autoregressive, the one more, the other less
        draws[:, t] = rough * draws[:, t - 1] + np.sqrt(1 - rough**2) * draws[:, t]
    draws[:, :, 300] = slab(rng, 4, 200)
    draws = draws * np.geomspace(1e-6, 1e6, 1_200) + np.linspace(-9, 9, 1_200)
    found = compat.worst_monte_carlo({"a": draws[..., :200], "b": draws[..., 200:]})
    sd = draws.std(axis=(0, 1), ddof=1)
    assert found.mean == pytest.approx(np.max(compat.mcse(draws) / sd), rel=0.05)
    assert found.sd == pytest.approx(np.max(compat.mcse(draws, method="sd") / sd), rel=1e-9)
    assert found.ess_bulk == pytest.approx(np.min(compat.ess(draws)), rel=0.1)
    still = {"a": draws, "one": np.full((4, 200), 0.1), "diagonal": np.ones((4, 200, 2))}
    assert compat.worst_monte_carlo(still) == found
    assert np.isnan(compat.worst_monte_carlo({"one": np.ones((4, 200))}).mean)
    assert np.isnan(compat.worst_monte_carlo({"few": draws[:, :3]}).mean)
    assert compat.worst_monte_carlo({"short": draws[:, :5]}).mean > 0.2


def autoregressive(rng, draws, rho, chains=4):
    """Standard normal draws of chains whose lag-one correlation is `rho`."""
    z = rng.normal(size=(chains, draws))
    for t in range(1, draws):
        z[:, t] = rho * z[:, t - 1] + np.sqrt(1 - rho**2) * z[:, t]
    return z


@pytest.mark.parametrize("freedom", [1, 1.5, 3, 10])
def test_the_khat_of_draws_is_the_shape_of_their_tail(freedom):
    """1/ν of Student's t, and what scipy's maximum likelihood says of the same tails."""
    rng = np.random.default_rng(3)
    draws = rng.standard_t(freedom, size=(4, 25_000))
    found = compat.pareto_khat(draws)
    assert found == pytest.approx(1 / freedom, abs=0.15)
    assert found == pytest.approx(compat.pareto_khat(draws[::-1]), abs=0.01)
    assert found == pytest.approx(compat.pareto_khat(9 - 7 * draws), abs=0.01)
    flat = draws.ravel() - np.median(draws)
    beyond = [np.sort(side)[-int(3 * np.sqrt(flat.size)) :] for side in (flat, -flat)]
    shapes = [genpareto.fit(side - side[0] + 1e-12, floc=0)[0] for side in beyond]
    assert found == pytest.approx(max(shapes), abs=0.07)
    one_sided = np.where(draws > 0, draws, -np.log1p(np.maximum(-draws, 0)))
    right = compat.pareto_khat(one_sided)
    assert right == pytest.approx(compat.pareto_khat(-one_sided))
    assert right == pytest.approx(shapes[0], abs=0.07)


def test_normal_scores_are_those_of_the_bulk_effective_size():
    """ArviZ's own rank-normalisation; any increasing function has the same."""
    x = np.exp(2 * autoregressive(np.random.default_rng(4), 300, 0.6))
    scores = compat.normal_scores(x)
    assert compat.ess(scores, "mean") == pytest.approx(compat.ess(x, "bulk"))
    np.testing.assert_array_equal(scores, compat.normal_scores(np.log(x)))
    assert scores.std() == pytest.approx(1, abs=0.01)
    both = np.stack([x, -x], axis=2)
    np.testing.assert_allclose(compat.normal_scores(both), np.stack([scores, -scores], axis=2))


def test_heavy_tails_are_told_from_light_ones():
    """Of forty variables each; chains that mix badly, and skewed ones, have a variance."""
    rng = np.random.default_rng(5)
    shape = (4, 1_000, 40)
    slow = np.stack([autoregressive(rng, 1_000, 0.9) for _ in range(40)], axis=2)
    light = {
        "normal": rng.normal(size=shape),
        "slow": slow,
        "exponential": rng.exponential(size=shape),
        "log-normal": np.exp(0.5 * rng.normal(size=shape)),
        "t of 10": rng.standard_t(10, size=shape),
        "still": np.ones(shape),
        "discrete": rng.poisson(0.1, size=shape),
    }
    heavy = {
        "cauchy": rng.standard_cauchy(size=shape),
        "half": np.abs(rng.standard_cauchy(size=shape)),
        "slow": np.abs(cauchy.ppf(norm.cdf(slow))),
    }
    for name, draws in light.items():
        same, none = compat.with_normal_scores(draws)
        assert same is draws, name
        assert not none.any(), name
    for name, draws in heavy.items():
        scores, every = compat.with_normal_scores(draws)
        assert every.all(), name
        np.testing.assert_array_equal(scores, compat.normal_scores(draws), name)
    mixed = np.concatenate([light["normal"], heavy["half"][:, :, :3]], axis=2)
    scores, which = compat.with_normal_scores(mixed)
    assert np.flatnonzero(which).tolist() == [40, 41, 42]
    np.testing.assert_array_equal(scores[:, :, :40], light["normal"])
    most = np.concatenate([light["normal"][:, :, :2], heavy["half"][:, :, :3]], axis=2)
    told = compat.worst_monte_carlo(
        {"b": light["normal"], "local": heavy["half"], "mixed": mixed, "most": most}
    )
    assert told.heavy == "local, mixed (3 of 43), most"
    assert told.sd < 0.02  # where that of half a Cauchy's sd is a third
    assert compat.worst_monte_carlo({"b": light["normal"]}).heavy == ""
    # Chains that mix badly have the errors of their ranks.
    slow = compat.worst_monte_carlo({"slow": heavy["slow"]})
    assert slow.mean == pytest.approx(1 / np.sqrt(slow.ess_bulk), rel=0.3)
    assert slow.mean > 0.04
    # A slab of which two visits are known is no heavy tail, until more are.
    twice = rng.normal(size=(4, 200))
    twice[0, 20:60], twice[2, 100:140] = 20 * twice[0, 20:60], 20 * twice[2, 100:140]
    assert np.isnan(compat.pareto_khat(twice))
    assert compat.worst_monte_carlo({"x": twice}).sd > 0.2


@pytest.mark.slow
def test_the_error_of_heavy_tails_is_that_of_their_quantiles():
    """Over eighty runs, against the scores by Cauchy's own distribution function."""
    rng = np.random.default_rng(6)
    runs = [cauchy.ppf(norm.cdf(autoregressive(rng, 400, 0.5))) for _ in range(80)]
    found = [compat.worst_monte_carlo({"x": run}) for run in runs]
    assert all(f.heavy == "x" for f in found)
    known = [norm.ppf(cauchy.cdf(run)) for run in runs]
    means, sds = (np.std([f(k) for k in known]) for f in (np.mean, np.std))
    assert np.median([f.mean for f in found]) == pytest.approx(means, rel=0.2)
    assert np.median([f.sd for f in found]) == pytest.approx(sds, rel=0.25)
    medians = np.array([norm.ppf(cauchy.cdf(np.median(run))) for run in runs])
    assert np.std(medians) == pytest.approx(1.2 * means, rel=0.3)


def test_chains_of_different_widths_have_a_large_rhat_among_many():
    """Equal means: only the spread tells the one scalar from two hundred others."""
    draws = np.random.default_rng(2).normal(size=(4, 500, 200))
    draws[:2, :, 150] *= 3
    assert compat.worst_rhat({"x": draws}) == pytest.approx(compat.rhat(draws).max())
    assert compat.worst_rhat({"x": draws}) > 1.1
