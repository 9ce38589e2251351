"""A fit's chains as CmdStan writes them, with generated quantities of the full data."""

from __future__ import annotations

from dataclasses import replace

import cmdstanpy
import numpy as np
import pytest
from problems import BRMS, NORMAL_CODE, brms_data, normal_data
from scipy.stats import norm
from seeds import reseeded
from tiers import some

import stancoreset as sc
from stancoreset.errors import CertificateError, DataError, OptionError, OutputError
from stancoreset.posterior.arviz import attrs_of, variables_of
from stancoreset.runs import stan_csv

QUICK = {"size": 30, "chains": 2, "iter_sampling": 400}
# A program with every kind of generated quantity.
NORMAL = NORMAL_CODE.replace(
    "vector[N] log_lik;",
    "vector[N] log_lik; real noise = normal_rng(mu, sigma); vector[0] nothing; matrix[2, 3] A; "
    "for (i in 1:2) for (j in 1:3) A[i, j] = i * mu + j * mean(y);",
)


@pytest.fixture(scope="module")
def data():
    return brms_data(2_000)


@pytest.fixture(scope="module")
def fit(data):
    with sc.CoresetModel(stan_code=BRMS, engine="stanli") as model:
        return model.fit(data, seed=reseeded(1), **QUICK)


@pytest.fixture(scope="module")
def rows():
    return normal_data(500)


@pytest.fixture(scope="module")
def with_rows(rows):
    with sc.CoresetModel(stan_code=NORMAL, engine="stanli") as model:
        return model.fit(rows, seed=reseeded(2), **QUICK)


def read(paths):
    """Draws by name, (chains, draws, *shape)."""
    back = cmdstanpy.from_csv([str(path) for path in paths])
    found = back.stan_variables()
    return {name: v.reshape(len(paths), -1, *v.shape[1:]) for name, v in found.items()}


def as_corrected(fit):
    weights = np.linspace(1, 2, fit.certificate.n_draws)
    certificate = replace(fit.certificate, verdict="corrected", weights=weights / weights.sum())
    return replace(fit, certificate=certificate)


@pytest.mark.fit
def test_chains_have_the_program_s_variables_in_order(fit, data, tmp_path):
    paths = fit.write_csv(tmp_path / "chains", data)
    assert [path.name for path in paths] == ["chain_1.csv", "chain_2.csv"]
    back, ours = read(paths), variables_of(fit.posterior)
    assert list(back) == ["b", "Intercept", "sigma", "lprior", "b_Intercept"]
    for name in ("b", "Intercept", "sigma", "lprior"):
        np.testing.assert_array_equal(back[name], ours[name])
    means = data["X"][:, 1:].mean(axis=0)  # of all rows, not of the coreset's
    np.testing.assert_allclose(back["b_Intercept"], ours["Intercept"] - ours["b"] @ means)


@pytest.mark.fit
def test_comments_tell_how_the_chains_were_sampled(fit, data, tmp_path):
    paths = fit.write_csv(tmp_path, data)
    back, attrs = cmdstanpy.from_csv([str(path) for path in paths]), attrs_of(fit.posterior)
    config = back.metadata.cmdstan_config
    assert config["seed"] == reseeded(1)
    assert config["delta"] == attrs["adapt_delta"]
    assert config["num_warmup"] == attrs["iter_warmup"]
    np.testing.assert_array_equal(back.step_size, fit.native.step_size)
    np.testing.assert_array_equal(back.inv_metric, fit.native.inv_metric)
    assert back.time[0]["total"] == pytest.approx(attrs["sampling_time"], abs=1e-3)


@pytest.mark.fit
def test_a_saved_fit_writes_the_same_files(fit, data, tmp_path):
    fit.save(tmp_path / "run")
    assert (tmp_path / "run" / "model.stan").read_text() == BRMS
    loaded = sc.load_fit(tmp_path / "run")
    first, second = fit.write_csv(tmp_path / "1", data), loaded.write_csv(tmp_path / "2", data)
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()


@pytest.mark.fit
def test_quantities_with_an_element_per_row_come_in_blocks(with_rows, rows, tmp_path, monkeypatch):
    whole = read(with_rows.write_csv(tmp_path / "whole", rows))
    monkeypatch.setattr(stan_csv, "_BYTES", 40 * 8 * 500)
    pieces = read(with_rows.write_csv(tmp_path / "pieces", rows))
    mu, sigma = (variables_of(with_rows.posterior)[name][..., None] for name in ("mu", "sigma"))
    for found in (whole, pieces):
        assert "nothing" not in found
        np.testing.assert_allclose(found["log_lik"], norm(mu, sigma).logpdf(rows["y"]))
        i, j = np.ogrid[1:3, 1:4]
        np.testing.assert_allclose(found["A"], i * mu[..., None] + j * rows["y"].mean())
        # Random numbers are new in every draw, also at the beginning of a block.
        z = (found["noise"] - mu[..., 0]) / sigma[..., 0]
        assert len(np.unique(z)) == z.size
        assert abs(z.mean()) < 5 / np.sqrt(z.size)
        assert z.std() == pytest.approx(1, abs=5 / np.sqrt(z.size))
    np.testing.assert_array_equal(whole["mu"], pieces["mu"])


@pytest.mark.fit
def test_names_limit_the_quantities(with_rows, rows, tmp_path):
    back = read(with_rows.write_csv(tmp_path, rows, ["A"]))
    assert list(back) == ["mu", "sigma", "A"]
    assert list(read(with_rows.write_csv(tmp_path / "none", names=[]))) == ["mu", "sigma"]
    with pytest.raises(OptionError, match="no generated quantity mu"):
        with_rows.write_csv(tmp_path / "other", rows, ["mu"])


@pytest.mark.fit
def test_a_corrected_fit_writes_its_resampled_draws(fit, data, tmp_path):
    corrected = as_corrected(fit)
    paths = corrected.write_csv(tmp_path, data)
    back, ours = read(paths), variables_of(corrected.corrected())
    assert len(paths) == 1
    np.testing.assert_array_equal(back["b"], ours["b"])
    means = data["X"][:, 1:].mean(axis=0)
    np.testing.assert_allclose(back["b_Intercept"], ours["Intercept"] - ours["b"] @ means)


@pytest.mark.fit
def test_what_cannot_be_written_is_an_error(fit, with_rows, data, rows, tmp_path, monkeypatch):
    rejected = replace(fit, certificate=replace(fit.certificate, verdict="rejected"))
    with pytest.raises(CertificateError, match="rejected"):
        rejected.write_csv(tmp_path, data)
    with pytest.raises(DataError, match="lacks the generated quantities log_lik"):
        with_rows.write_csv(tmp_path)
    with pytest.raises(DataError, match="2000 rows, but the fit is of 500"):
        with_rows.write_csv(tmp_path, normal_data(2_000))
    with pytest.raises(OutputError, match="earlier version"):
        replace(fit, program="").write_csv(tmp_path, data)
    monkeypatch.setattr(stan_csv, "_CHARACTERS", 10**15)
    with pytest.raises(OutputError, match="GB left"):
        fit.write_csv(tmp_path, data)
    assert not list(tmp_path.glob("*.csv"))


@pytest.mark.fit
def test_rows_on_disk_are_refused_but_not_missed_without_need(with_rows, rows, tmp_path):
    table = sc.Table({"y": rows["y"]}, memory=1, chunk_rows=100)
    with pytest.raises(DataError, match="all 500 rows in memory"):
        with_rows.write_csv(tmp_path, table)
    assert list(read(with_rows.write_csv(tmp_path, table, ["A"]))) == ["mu", "sigma", "A"]
    in_memory = with_rows.write_csv(tmp_path / "all", sc.Table({"y": rows["y"]}))
    assert read(in_memory)["log_lik"].shape[-1] == 500


@pytest.mark.fit
def test_chains_are_replaced_only_if_asked(fit, data, tmp_path):
    fit.write_csv(tmp_path, data)
    with pytest.raises(OutputError, match="already holds chain_1"):
        fit.write_csv(tmp_path, data)
    as_corrected(fit).write_csv(tmp_path, data, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["chain_1.csv"]


TWO_COUNTS = """
data { int N; int N_a; int N_b; vector[N_a] Y_a; vector[N_b] Y_b; }
parameters { real m; real d; }
model {
  m ~ normal(0, 5); d ~ normal(0, 5);
  Y_a ~ normal(m, 1); Y_b ~ normal(m + d, 2);
}
generated quantities { real mean_b = m + d + 0 * sum(Y_b); }
"""


@pytest.mark.fit
@pytest.mark.parametrize("asked", some(["N_a, N_b", None], 2))
def test_rows_of_two_counts_are_found_again(asked, tmp_path):
    """The coreset's own count is none of the author's program."""
    rng = np.random.default_rng(0)
    data = {"N": 90, "N_a": 400, "N_b": 300}
    data |= {"Y_a": rng.normal(1, 1, 400), "Y_b": rng.normal(3, 2, 300)}
    code = TWO_COUNTS if asked else TWO_COUNTS.replace("Y_", "y_")
    data = data if asked else {k.replace("Y_", "y_"): v for k, v in data.items()}
    with sc.CoresetModel(stan_code=code, engine="stanli", obs=asked) as model:
        fit = model.fit(data, seed=reseeded(1), output_dir=tmp_path / "run", **QUICK)
    for one in (fit, sc.load_fit(tmp_path / "run")):
        found = read(one.write_csv(tmp_path / "csv", data, overwrite=True))
        np.testing.assert_allclose(found["mean_b"], found["m"] + found["d"], atol=1e-6)
