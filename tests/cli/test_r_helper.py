"""brms models by `coreset_brm`, with real R and brms, against the same draws in Python."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import arviz as az
import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, log_expit
from seeds import reseeded

import stancoreset as sc
from stancoreset.cli.commands import main
from stancoreset.posterior.arviz import group_of, posterior_container, variables_of

HELPER = Path(sc.__file__).parent / "cli" / "coreset_brm.R"
ROWS, GROUPS, CLUSTERS = 1_000, 6, 5

# What a brmsfit is asked for. Numbers go to JSON with all digits.
SCRIPT = """
suppressMessages(library(brms))
a <- commandArgs(TRUE)
source(a[1]); d <- read.csv(a[2]); d$g <- factor(d$g); d$h <- factor(d$h)
fit <- coreset_brm(
  y ~ x + (1 + x | g) + (1 | h), d, family = bernoulli(), dir = a[3], command = a[4],
  coreset = list(size = 300, seed = as.numeric(a[6]), engine = "stanli", chains = 2,
                 candidates = 1e5, no_plots = TRUE, quiet = TRUE))
at <- data.frame(x = seq(-1, 1, length.out = 5))
effects <- conditional_effects(fit, "x", int_conditions = list(x = at$x))$x
jsonlite::write_json(list(
  verdict = attr(fit, "certificate")$verdict, class = class(fit),
  fixed = summary(fit)$fixed[, "Estimate"], rhat = rhat(fit)[["b_x"]],
  g = ranef(fit)$g[, "Estimate", ], h = ranef(fit)$h[, "Estimate", 1],
  sd = VarCorr(fit)$g$sd[, "Estimate"], cor = VarCorr(fit)$g$cor["x", "Estimate", "Intercept"],
  epred = colMeans(posterior_epred(fit)), predicted = mean(posterior_predict(fit)),
  shape = dim(posterior_predict(fit)), effects = effects$estimate__, at = effects$x,
  log_lik = colMeans(log_lik(fit)), loo = loo(fit)$estimates["elpd_loo", "Estimate"]
), a[5], auto_unbox = TRUE, digits = NA)
"""


def without_r() -> str:
    """Why R cannot be asked; empty if it can."""
    if shutil.which("Rscript") is None:
        return "R is not installed"
    looks = (
        "for (p in c('brms', 'rstan', 'jsonlite')) if (!nzchar(system.file(package = p))) cat(p)"
    )
    missing = rscript(looks).stdout
    return f"the R package {missing} is not installed" if missing else ""


def rscript(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = ["Rscript", "-e", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def r():
    reason = without_r()
    if reason:
        pytest.skip(reason)


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    """This interpreter's stancoreset as one executable."""
    path = tmp_path_factory.mktemp("command") / "stancoreset"
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m stancoreset "$@"\n')
    path.chmod(0o755)
    return path


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    g, h = rng.integers(0, GROUPS, ROWS), rng.integers(0, CLUSTERS, ROWS)
    x = rng.normal(1, 1, ROWS)  # not about zero: Intercept and b_Intercept are not alike
    by_group, by_cluster = rng.normal(0, [0.6, 0.4], (GROUPS, 2)), rng.normal(0, 0.5, CLUSTERS)
    eta = -1 + 0.4 * x + by_group[g, 0] + by_group[g, 1] * x + by_cluster[h]
    return pd.DataFrame({"y": (rng.random(ROWS) < expit(eta)).astype(int), "x": x, "g": g, "h": h})


@pytest.fixture(scope="module")
def came_back(r, command, table, tmp_path_factory):
    """What brms says of its fit, and the draws that Python has of the same run."""
    folder = tmp_path_factory.mktemp("r")
    table.to_csv(folder / "data.csv", index=False)
    places = (HELPER, folder / "data.csv", folder / "run", command, folder / "said.json")
    done = rscript(SCRIPT, *places, reseeded(1))
    assert done.returncode == 0, done.stderr
    fit = sc.load_fit(folder / "run")
    back = variables_of(fit.corrected())
    draws = {name: value.reshape(-1, *value.shape[2:]) for name, value in back.items()}
    return json.loads((folder / "said.json").read_text()), draws, fit


def predictor(draws, table):
    """log odds of every row, (draws, rows), with b_Intercept from the full data's mean."""
    x, g, h = (table[name].to_numpy() for name in ("x", "g", "h"))
    intercept = draws["Intercept"] - draws["b"][:, 0] * x.mean()
    eta = intercept[:, None] + draws["b"] * x
    return eta + draws["r_1"][:, g, 0] + draws["r_1"][:, g, 1] * x + draws["r_2_1"][:, h]


@pytest.mark.fit
def test_summaries_are_those_of_the_draws(came_back, table):
    said, draws, fit = came_back
    assert said["class"] == "brmsfit"
    assert said["verdict"] == fit.certificate.verdict
    intercept = draws["Intercept"] - draws["b"][:, 0] * table["x"].mean()
    fixed = [intercept.mean(), draws["b"][:, 0].mean()]
    np.testing.assert_allclose(said["fixed"], fixed, atol=1e-6)
    np.testing.assert_allclose(said["g"], draws["r_1"].mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(said["h"], draws["r_2_1"].mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(said["sd"], draws["sd_1"].mean(axis=0), atol=1e-6)
    # The correlation of two effects is an element of the Cholesky factor.
    np.testing.assert_allclose(said["cor"], draws["L_1"][:, 1, 0].mean(), atol=1e-6)
    assert said["rhat"] < 1.05


@pytest.mark.fit
def test_predictions_are_those_of_the_draws(came_back, table):
    said, draws, _ = came_back
    p = expit(predictor(draws, table))
    np.testing.assert_allclose(said["epred"], p.mean(axis=0), atol=1e-6)
    assert said["shape"] == list(p.shape)
    assert said["predicted"] == pytest.approx(p.mean(), abs=5 / np.sqrt(p.size))
    intercept = draws["Intercept"] - draws["b"][:, 0] * table["x"].mean()
    eta = intercept[:, None] + draws["b"] * np.asarray(said["at"])
    np.testing.assert_allclose(said["effects"], np.median(expit(eta), axis=0), atol=1e-6)


@pytest.mark.fit
def test_loo_is_that_of_the_draws(came_back, table):
    said, draws, fit = came_back
    log_lik = log_expit((2 * table["y"].to_numpy() - 1) * predictor(draws, table))
    np.testing.assert_allclose(said["log_lik"], log_lik.mean(axis=0), atol=1e-6)
    chains = group_of(fit.corrected(), "posterior").sizes["chain"]
    values = log_lik.reshape(chains, -1, ROWS)
    ours = az.loo(posterior_container({"mu": values[..., 0]}, log_likelihood={"y": values}))
    total = ours.elpd_loo if hasattr(ours, "elpd_loo") else ours.elpd
    assert said["loo"] == pytest.approx(total, abs=0.2)


FAILING = """
a <- commandArgs(TRUE)
source(a[1]); d <- data.frame(y = c(1, 2, 4), x = 1:3)
said <- function(...) tryCatch(coreset_brm(y ~ x, d, ...), error = conditionMessage)
cat(said(dir = a[2], command = a[3]), said(iter = 10), sep = "\\n")
"""


@pytest.mark.fit
def test_a_rejected_fit_is_an_error(r, tmp_path):
    """The command is a stand-in that only leaves a report."""
    run, stand_in = tmp_path / "run", tmp_path / "rejects"
    report = json.dumps(
        {"certificate": {"verdict": "rejected", "reasons": ["the draws missed it"]}}
    )
    stand_in.write_text(
        f"#!/bin/sh\nmkdir '{run}'\necho '{report}' > '{run}/report.json'\nexit 3\n"
    )
    stand_in.chmod(0o755)
    done = rscript(FAILING, HELPER, run, stand_in)
    rejected, refused = done.stdout.splitlines()
    assert rejected == "the fit was rejected: the draws missed it"
    assert refused == "NUTS is set by coreset = list(...), not by: iter"


def test_the_command_prints_the_helper(capsys):
    assert main(["r-helper"]) == 0
    assert capsys.readouterr().out == HELPER.read_text(encoding="utf-8")
    assert os.path.getsize(HELPER) < 4_000
