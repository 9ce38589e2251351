"""Design, groups and default priors beside those of brms itself, asked by R.

brms writes design matrices by R's ``model.matrix``; columns may stand in another order.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest
from formulas.tables import simulated

import stancoreset as sc

pytestmark = pytest.mark.fit  # R takes as long

#: Formula of brms, its family there, our formula and family.
CASES = {
    "slopes": ("gaussian ~ x * f + (x | g)", "gaussian()", None, "gaussian"),
    "robust": ("student ~ x + f:z", "student()", None, "student"),
    "crossed": ("poisson ~ x + offset(z) + (1 | g) + (1 | h)", "poisson()", None, "poisson"),
    "nested": (
        "negbinomial ~ x + offset(z) + (1 | g/h)",
        "negbinomial()",
        None,
        "negbinomial",
    ),
    "spline": ("bernoulli ~ bs(x, df = 5)", "bernoulli()", "bernoulli ~ bs(x, df=5)", "bernoulli"),
    "trials": (
        "binomial | trials(trials) ~ f + (x || g)",
        "binomial()",
        None,
        "binomial",
    ),
    "weighted": ("gaussian | weights(w) ~ x + f", "gaussian()", None, "gaussian"),
    "overdispersed": (
        "beta_binomial | trials(trials) ~ x",
        "beta_binomial()",
        None,
        "beta_binomial",
    ),
    "zeros": (
        "zero_inflated_poisson ~ x + (1 | g)",
        "zero_inflated_poisson()",
        None,
        "zero_inflated_poisson",
    ),
    "hurdle": ("hurdle_negbinomial ~ x", "hurdle_negbinomial()", None, "hurdle_negbinomial"),
    "times": ("weibull | cens(late) ~ x + (1 | g)", "weibull()", None, "weibull"),
    "logs": ("lognormal ~ x", "lognormal()", None, "lognormal"),
    "by_factor": ("gamma ~ x + (0 + f | g)", "Gamma('log')", None, "gamma"),
    "no_intercept": ("beta ~ 0 + f + z", "Beta()", None, "beta"),
    "ordinal": ("cumulative ~ x + f + (f | g)", "cumulative()", None, "cumulative"),
}

SCRIPT = """
suppressMessages({library(brms); library(splines)})
a <- commandArgs(TRUE)
d <- read.csv(a[1]); cases <- jsonlite::read_json(a[2])
said <- lapply(cases, function(case) {
  formula <- as.formula(case[[1]]); family <- eval(parse(text = case[[2]]))
  p <- get_prior(formula, d, family = family)
  p <- p[p$coef == "" & p$group == "" & p$class != "cor", c("class", "prior")]
  data <- unclass(make_standata(formula, d, family = family))
  list(data = lapply(data, function(v) if (is.array(v)) unname(v) else v),
       prior = setNames(as.list(p$prior), p$class),
       code = make_stancode(formula, d, family = family))
})
jsonlite::write_json(said, a[3], auto_unbox = TRUE, digits = NA)
"""


def without_brms() -> str:
    """Why brms cannot be asked; empty if it can."""
    if shutil.which("Rscript") is None:
        return "R is not installed"
    looks = "for (p in c('brms', 'jsonlite')) if (!nzchar(system.file(package = p))) cat(p)"
    asked = subprocess.run(["Rscript", "-e", looks], capture_output=True, text=True, check=False)
    missing = asked.stdout.strip()
    return f"the R package {missing} is not installed" if missing else ""


@pytest.fixture(scope="module")
def brms(tmp_path_factory):
    """What brms says of every case."""
    reason = without_brms()
    if reason:
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("brms")
    files = [folder / name for name in ("table.csv", "cases.json", "said.json")]
    table().to_csv(files[0], index=False)
    files[1].write_text(json.dumps({name: case[:2] for name, case in CASES.items()}))
    command = ["Rscript", "-e", SCRIPT, *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(files[2].read_text())


def table() -> pd.DataFrame:
    frame = simulated(300, seed=3)
    return frame.assign(
        bernoulli=frame.bernoulli.astype(int),
        w=np.arange(len(frame)) % 4,
        late=np.where(np.arange(len(frame)) % 5, "none", "right"),
    )


def ours(case: str) -> sc.Regression:
    formula, _, own, family = CASES[case]
    return sc.regression(own or formula, table(), family=family, engine="stanli")


def in_any_order(columns: np.ndarray) -> np.ndarray:
    """Columns, sorted by their values."""
    return columns[:, np.lexsort(np.round(columns, 9))]


def projection(columns: np.ndarray) -> np.ndarray:
    """The projection on a constant and these columns."""
    q, _ = np.linalg.qr(np.column_stack([np.ones(len(columns)), columns]))
    return q @ q.T


@pytest.mark.parametrize("case", CASES)
def test_the_design_is_that_of_brms(case, brms):
    theirs, data = brms[case]["data"], ours(case).data
    x = np.asarray(theirs["X"], dtype=float)
    if "X" not in data and case != "ordinal":
        x = x[:, 1:]
    raw = data["X"] if "X" in data else data["Xc"] + data["means_X"]
    if case == "spline":  # of two bases of one space, R's lacks a function, formulae's is centred
        raw, x = projection(raw), projection(x)
    np.testing.assert_allclose(in_any_order(raw), in_any_order(x), atol=1e-9)
    np.testing.assert_allclose(data["Y"], theirs["Y"], rtol=1e-12)
    for name in ("offsets", "trials", "weights"):
        assert (name in data) == (name in theirs)
        np.testing.assert_allclose(data.get(name, 0), theirs.get(name, 0), rtol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_groups_and_what_multiplies_their_effects_are_those_of_brms(case, brms):
    theirs, regression = brms[case]["data"], ours(case)
    data = regression.data
    names = [name.removeprefix("J_") for name in data if name.startswith("J_")]
    numbers = sorted(name.removeprefix("J_") for name in theirs if name.startswith("J_"))
    assert len(names) == len(numbers)
    for g in names:
        # The same partition of the rows, for brms may number levels, and groups, otherwise.
        (number,) = (
            i
            for i in numbers
            if len({*zip(data[f"J_{g}"], theirs[f"J_{i}"], strict=True)})
            == data[f"N_{g}"]
            == theirs[f"N_{i}"]
        )
        assert data[f"M_{g}"] == theirs[f"M_{number}"]
        one = np.ones(data["N"])
        z = [data.get(f"Z_{g}_{m + 1}", one) for m in range(data[f"M_{g}"])]
        z_theirs = [theirs[f"Z_{number}_{m + 1}"] for m in range(data[f"M_{g}"])]
        np.testing.assert_allclose(np.array(z), np.array(z_theirs), atol=1e-12)
        correlated = f"L_{number};" in brms[case]["code"]
        assert (f"L_{g}" in regression.priors) == correlated


def numbers_of(prior: str) -> tuple[str, list[float]]:
    name, _, rest = prior.partition("(")
    return name, [float(text) for text in re.findall(r"-?[\d.]+(?:e-?\d+)?", rest)]


@pytest.mark.parametrize("case", CASES)
def test_default_priors_are_those_of_brms(case, brms):
    """brms' classes: b is flat where it says nothing; sd stands for all groups."""
    theirs, priors = brms[case]["prior"], ours(case).priors
    own = {name.partition("_")[0] for name in priors} - {"L"}
    assert own == set(theirs)
    for name, text in priors.items():
        if name.startswith("L_"):
            assert "lkj_corr_cholesky_lpdf(L_" in brms[case]["code"]
            assert text == "lkj_corr_cholesky(1)"
            continue
        expected = theirs[name.partition("_")[0]]
        if text == "flat":
            assert expected in ("", "(flat)")
        else:
            distribution, values = numbers_of(text)
            assert distribution == numbers_of(expected)[0]
            np.testing.assert_allclose(values, numbers_of(expected)[1], rtol=1e-9)
