"""Chains as CmdStan writes them, read by cmdstanpy and ArviZ."""

from __future__ import annotations

import arviz as az
import cmdstanpy
import numpy as np
import pytest

from stancoreset.engines import Chain, write_chain
from stancoreset.engines.base import SAMPLER_STATS
from stancoreset.engines.layout import Layout

SHAPES = {"mu": (), "z": (2, 3), "a": (2, 3, 4), "none": (0,)}
DRAWS = 23


@pytest.fixture
def draws():
    rng = np.random.default_rng(0)
    return {name: rng.normal(size=(DRAWS, *shape)) for name, shape in SHAPES.items()}


@pytest.fixture
def stats():
    rng = np.random.default_rng(1)
    found = {ours: rng.random(DRAWS) for ours in SAMPLER_STATS.values()}
    found["tree_depth"] = rng.integers(1, 8, DRAWS)
    found["n_steps"] = rng.integers(1, 255, DRAWS)
    found["diverging"] = rng.random(DRAWS) < 0.2
    return found


def written(folder, draws, stats, **about):
    """A file in two blocks."""
    chain = Chain(model="m", engine="stanli 1.0", stan_version=(2, 37), draws=DRAWS, **about)
    cuts = (slice(0, 9), slice(9, DRAWS))
    blocks = ({name: value[cut] for name, value in draws.items()} for cut in cuts)
    path = folder / "chain_1.csv"
    write_chain(path, chain, stats, SHAPES, blocks)
    return path


@pytest.mark.parametrize("metric", [None, "diag_e", "dense_e"])
def test_cmdstanpy_reads_every_number(tmp_path, draws, stats, metric):
    diagonal = np.array([0.5, 1e-9, 3e8])
    inv_metric = {None: None, "diag_e": diagonal, "dense_e": np.diag(diagonal)}[metric]
    path = written(
        tmp_path, draws, stats, inv_metric=inv_metric, step_size=0.1, warmup=50, thin=3, seconds=2.0
    )
    back = cmdstanpy.from_csv(str(path))
    for name in ("mu", "z", "a"):
        np.testing.assert_array_equal(back.stan_variable(name), draws[name])
    for stan, ours in SAMPLER_STATS.items():
        np.testing.assert_array_equal(back.method_variables()[stan][:, 0], stats[ours])
    assert back.step_size.tolist() == [0.1]
    assert back.metric_type == (metric or "unit_e")
    if inv_metric is not None:
        np.testing.assert_array_equal(back.metric[0], inv_metric)
    assert (back.thin, back.num_draws_sampling) == (3, DRAWS)


def test_arviz_reads_flags_and_order(tmp_path, draws, stats):
    path = written(tmp_path, draws, stats)
    back = az.from_cmdstan([str(path)]) if hasattr(az, "from_cmdstan") else None
    if back is not None:
        np.testing.assert_array_equal(back.posterior["a"][0], draws["a"])
        np.testing.assert_array_equal(back.sample_stats["diverging"][0], stats["diverging"])
    header, *lines = [line for line in path.read_text().splitlines() if line[0] != "#"]
    columns = header.split(",")[len(SAMPLER_STATS) :]
    assert columns[:4] == ["mu", "z.1.1", "z.2.1", "z.1.2"]
    table = np.array([line.split(",") for line in lines], dtype=float)[:, len(SAMPLER_STATS) :]
    for name, value in Layout.from_names(columns).split(table).items():
        np.testing.assert_array_equal(value, draws[name])
    assert "true" not in path.read_text()


def test_statistics_that_are_missing_are_zeros(tmp_path, draws):
    back = cmdstanpy.from_csv(str(written(tmp_path, draws, {})))
    assert not any(values.any() for values in back.method_variables().values())
