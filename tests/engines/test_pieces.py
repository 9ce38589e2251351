"""Chains in pieces are one Markov chain, whose draws memory and files share."""

from __future__ import annotations

import json
from typing import Any

import cmdstanpy
import numpy as np
import pytest
import stanli
from seeds import reseeded

from stancoreset.engines import resolve_engine, stanli_pieces
from stancoreset.engines.base import SAMPLER_STATS
from stancoreset.engines.stanli_programs import for_stanli
from stancoreset.errors import EngineError

CODE = """
data { int N; vector[N] y; }
parameters { real mu; vector<lower=0>[3] s; matrix[2, 2] z; }
transformed parameters { array[2] vector[2] w; for (i in 1:2) w[i] = s[i] * z[:, i]; }
model { mu ~ normal(0, 5); s ~ exponential(1); to_vector(z) ~ std_normal(); y ~ normal(mu, s[1]); }
"""
DATA = {"N": 40, "y": np.random.default_rng(0).normal(1.0, 2.0, 40)}
QUICK: dict[str, Any] = {"chains": 2, "iter_warmup": 200, "iter_sampling": 300, "seed": 3}
# mu, s, z and w.
COLUMNS = 1 + 3 + 4 + 4


@pytest.fixture(scope="module")
def bound() -> Any:
    with resolve_engine("stanli").compile(CODE, name="pieces").bind(DATA) as made:
        yield made


@pytest.fixture
def in_pieces(monkeypatch) -> int:
    """Pieces of so many transitions."""
    monkeypatch.setattr(stanli_pieces, "_MANY", 1)
    monkeypatch.setattr(stanli_pieces, "_AT_ONCE", 2 * COLUMNS * 70)
    return 70


def calls(monkeypatch) -> list[dict[str, Any]]:
    """What stanli is asked for, from now on."""
    found, sample = [], stanli.Model.sample

    def heard(self: Any, **options: Any) -> Any:
        found.append(options)
        return sample(self, **options)

    monkeypatch.setattr(stanli.Model, "sample", heard)
    return found


def test_few_draws_are_those_of_one_run(bound, monkeypatch):
    whole = bound.sample(**QUICK)
    asked = calls(monkeypatch)
    monkeypatch.setattr(stanli_pieces, "_MANY", 2 * COLUMNS * 300)
    again = bound.sample(**QUICK)
    assert len(asked) == 1
    np.testing.assert_array_equal(again.unconstrained, whole.unconstrained)
    assert again.native is not None


@pytest.mark.parametrize("metric", ["diag_e", "dense_e", "unit_e"])
def test_every_piece_goes_on_with_each_chains_own_steps(bound, in_pieces, monkeypatch, metric):
    """A run of a single chain, which has a step size and a metric of its own, says the same."""
    asked = calls(monkeypatch)
    found = bound.sample(**QUICK, metric=metric)
    assert [one["samples"] for one in asked] == [70, 70, 70, 70, 20]
    assert len({one["seed"] for one in asked}) == len(asked)
    assert found.native is None
    steps = found.stats["step_size"]
    assert np.ptp(steps, axis=1).max() == 0
    assert len(set(steps[:, 0])) == 2
    data = {**DATA, "y": DATA["y"].tolist()}
    model = stanli.Model(mir=str(stanli.stan_to_mir(for_stanli(CODE)[0])), data=json.dumps(data))
    for start in (70, 280):
        piece = asked[start // 70]
        np.testing.assert_allclose(piece["inits"], found.unconstrained[:, start - 1], rtol=1e-9)
        alone = model.sample(
            chains=1,
            warmup=0,
            samples=20,
            seed=piece["seed"],
            inits=found.unconstrained[0, start - 1],
            metric=metric,
            inv_metric=None if found.inv_metric is None else found.inv_metric[0],
            step_size=float(steps[0, 0]),
            adapt_engaged=False,
            refresh=0,
        )
        np.testing.assert_allclose(
            alone.draws("s")[0], found.variables["s"][0, start : start + 20], rtol=1e-4
        )
        stats = dict(zip(stanli.SAMPLER_COLUMNS, alone.sampler_stats[0].T, strict=True))
        for theirs, ours in SAMPLER_STATS.items():
            here = found.stats[ours][0, start : start + 20]
            np.testing.assert_allclose(here, stats[theirs], rtol=1e-4, err_msg=theirs)


def test_pieces_begin_as_one_run_does(bound, in_pieces):
    found = bound.sample(**QUICK, save_warmup=True)
    again = bound.sample(**{**QUICK, "iter_sampling": in_pieces}, save_warmup=True)
    for name, value in again.variables.items():
        np.testing.assert_array_equal(found.variables[name][:, :in_pieces], value)
    for name, value in again.warmup_variables.items():
        assert value.shape[1] == QUICK["iter_warmup"]
        np.testing.assert_array_equal(found.warmup_variables[name], value)
    # A logarithm's last bit depends on where in an array a number stands.
    np.testing.assert_array_max_ulp(bound.unconstrain(flat(found.variables)), joined(found), 1)


def flat(variables: Any) -> dict[str, Any]:
    """Draws of all chains, one after the other."""
    return {name: value.reshape(-1, *value.shape[2:]) for name, value in variables.items()}


def joined(found: Any) -> Any:
    return found.unconstrained.reshape(-1, found.unconstrained.shape[-1])


@pytest.mark.fit
def test_pieces_have_the_posteriors_moments(bound, in_pieces):
    """z and s[2:] know only their priors, of which every moment is known."""
    found = bound.sample(chains=4, iter_sampling=10_000, seed=reseeded(1))
    z = found.variables["z"].reshape(4, 10_000, -1)
    # Effective draws are at least a fifth of all, by chains of this length in one run.
    error = 1 / np.sqrt(z[..., 0].size / 5)
    np.testing.assert_allclose(z.mean(axis=(0, 1)), 0, atol=5 * error)
    np.testing.assert_allclose(z.std(axis=(0, 1)), 1, atol=5 * error)
    np.testing.assert_allclose(found.variables["s"][..., 1:].mean(axis=(0, 1)), 1, atol=5 * error)


@pytest.mark.parametrize("pieces", [False, True])
@pytest.mark.parametrize("warmup", [False, True])
def test_files_have_the_draws_that_memory_does_not_keep(bound, request, tmp_path, pieces, warmup):
    if pieces:
        request.getfixturevalue("in_pieces")
    asked = {**QUICK, "thin": 2, "save_warmup": warmup}
    found = bound.sample(**asked, keep_every=4, output_dir=str(tmp_path / "new" / "csv"))
    files = sorted((tmp_path / "new" / "csv").iterdir())
    assert [path.name[-6:] for path in files] == ["_1.csv", "_2.csv"]
    mcmc = cmdstanpy.from_csv([str(path) for path in files])
    assert (mcmc.chains, mcmc.num_draws_sampling, mcmc.thin) == (2, 150, 2)
    assert found.settings["thin"] == 8
    for name, value in found.variables.items():
        theirs = mcmc.stan_variable(name).reshape(2, 150, *value.shape[2:])
        np.testing.assert_array_equal(theirs[:, ::4], value, err_msg=name)
        if warmup:
            all_of_them = mcmc.stan_variable(name, inc_warmup=True).reshape(2, -1, *value.shape[2:])
            assert all_of_them.shape[1] == 250
            warmed = found.warmup_variables[name]
            np.testing.assert_array_equal(all_of_them[:, :100:4], warmed)
    for theirs, ours in SAMPLER_STATS.items():
        np.testing.assert_array_equal(
            mcmc.method_variables()[theirs].T[:, -150::4], found.stats[ours]
        )
    np.testing.assert_array_equal(mcmc.step_size, found.stats["step_size"][:, 0])
    np.testing.assert_array_equal(getattr(mcmc, "inv_metric", mcmc.metric), found.inv_metric)


def test_files_change_no_draws(bound, tmp_path):
    whole = bound.sample(**QUICK)
    filed = bound.sample(**QUICK, output_dir=str(tmp_path))
    again = bound.sample(**QUICK, output_dir=str(tmp_path))
    np.testing.assert_array_equal(filed.unconstrained, whole.unconstrained)
    np.testing.assert_array_equal(again.unconstrained, whole.unconstrained)
    assert len(list(tmp_path.iterdir())) == 4  # earlier ones stay


def test_chains_that_fail_leave_no_files(bound, tmp_path, monkeypatch, in_pieces):
    sample, made = stanli.Model.sample, []

    def fails(self: Any, **options: Any) -> Any:
        made.append(options)
        if len(made) == 3:
            raise RuntimeError("chain 1: out of luck")
        return sample(self, **options)

    monkeypatch.setattr(stanli.Model, "sample", fails)
    with pytest.raises(EngineError, match="sampling 'pieces' failed: chain 1: out of luck"):
        bound.sample(**QUICK, output_dir=str(tmp_path))
    assert not list(tmp_path.iterdir())


def test_progress_goes_on_from_piece_to_piece(bound, in_pieces):
    heard: list[tuple[int, int]] = []
    bound.sample(**QUICK, refresh=10, on_iteration=lambda *where: heard.append(where))
    for chain in (0, 1):
        iterations = [i for c, i in heard if c == chain]
        assert iterations == sorted(iterations)
        assert iterations[-1] == 500


def test_random_data_are_drawn_once(in_pieces, monkeypatch):
    """stanli would draw them again for every piece."""
    code = """
    transformed data { real y = normal_rng(0, 1); vector[20] x = rep_vector(0, 20); }
    parameters { real mu; vector[20] z; }
    model { y ~ normal(mu, 0.1); z ~ normal(x, 1); }
    """
    asked = calls(monkeypatch)
    with resolve_engine("stanli").compile(code, name="random").bind({}) as made:
        made.sample(**QUICK)
    assert len(asked) == 1
