"""The certificate against the truth: a quick part of the study in tests/calibration.

Each model once, and coresets that are wrong on purpose, which must not be certified.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from seeds import reseeded

import stancoreset as sc
from calibration.models import MODELS, Model
from calibration.study import Record, confusion, judge
from calibration.truth import Summary, errors, load, summarise
from stancoreset.program.certify import Certifier

QUICK = {"chains": 2, "iter_warmup": 250, "iter_sampling": 1_000}
SIZE, SEED = 30, 1
# Thirty rows are no coreset of six hundred groups: the study alone fits those, by its defaults.
FITTED = [name for name in MODELS if not name.startswith("many_")]
# Programs as brms writes them take as long as all others together.
LONG = [name for name in FITTED if name.startswith("brms_")]
# A likelihood that is all but a Gaussian, one that is not, effects of groups, and two modes.
OFTEN = ("gaussian", "logistic", "hierarchical_noncentred", "mixture")
# One pass with so few rows and draws is certified, corrected or rejected as chance will have it.
# So do chains of two parameters that hardly know each other apart, and those along a funnel.
REFINED = ("heavy_tailed", "hierarchical_noncentred", "near_separable", "mixture", *LONG)


class Fitted(NamedTuple):
    model: Model
    program: sc.CoresetModel
    data: dict[str, Any]
    fit: sc.CoresetFit


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=() if name in OFTEN else pytest.mark.slow) for name in FITTED],
)
def fitted(request) -> Iterator[Fitted]:
    model = MODELS[request.param]
    data = model.data()
    with sc.CoresetModel(model.file, engine="stanli") as program:
        fit = program.fit(
            data,
            size=SIZE,
            seed=reseeded(SEED),
            draws=250,
            candidates=1_500,
            **({} if request.param in REFINED else {"max_rounds": 1}),
            adapt_delta=model.adapt_delta,
            **QUICK,
        )
        yield Fitted(model, program, data, fit)


@pytest.mark.fit
def test_certified_is_right(fitted):
    found = judge(fitted.model, fitted.fit.posterior, fitted.fit.certificate)
    assert found["verdict"] in ("certified", "corrected")
    assert not found["wrong"], found


def shifted(fit: sc.CoresetFit, coordinate: int) -> sc.Coreset:
    """A mean off by 0.3 sd: exp(0.3 θ/sd) more density. Nine in ten draws stay effective."""
    control = fit.coreset.control
    gradient = control.gradient.copy()
    gradient[coordinate] += 0.3 / fit.reference.gaussian.sd[coordinate]
    return replace(fit.coreset, control=replace(control, gradient=gradient))


def heavy(fit: sc.CoresetFit, _: int) -> sc.Coreset:
    """All rows, each a third too heavy: precision × 1.3, sds 12 % too small."""
    if fit.coreset.n_obs > 5_000:
        pytest.skip("NUTS on all rows takes long")
    rows = np.arange(fit.coreset.n_obs)
    return replace(fit.coreset, indices=rows, weights=np.full(len(rows), 1.3), control=None)


def halved(fit: sc.CoresetFit, _: int) -> sc.Coreset:
    """The rows alone, every other without weight."""
    keep = np.arange(fit.coreset.size) % 2 == 0
    return replace(fit.coreset, weights=fit.coreset.weights * keep, control=None)


@pytest.mark.fit
@pytest.mark.parametrize("spoil", [shifted, heavy, halved])
def test_what_is_wrong_on_purpose_is_not_certified(fitted, spoil):
    """The held-out error is left as it was: the draws have to tell."""
    model, program, data, fit = fitted
    wrong = spoil(fit, 0)
    posterior = program.sample(
        data,
        wrong,
        inits=fit.reference.gaussian.mean,
        seed=reseeded(SEED),
        max_treedepth=6,
        adapt_delta=model.adapt_delta,
        **QUICK,
    )
    certificate = program.certify(data, wrong, posterior, reference=fit.reference)
    assert certificate.verdict != "certified"
    if certificate.verdict == "corrected":
        assert not judge(model, posterior, certificate)["wrong"]


@pytest.mark.fit
@pytest.mark.parametrize("missed", [{"divergences": 500}, {"unseen": 0.2}])
def test_moment_matching_does_not_vouch_for_what_was_never_drawn(missed):
    """Good weights say nothing of divergences, or of mass where no draw has been."""
    model = MODELS["logistic"]
    data = model.data()
    with sc.CoresetModel(model.file, engine="stanli") as program:
        fit = program.fit(data, size=SIZE, seed=reseeded(SEED), draws=250, max_rounds=1, **QUICK)
        judging = Certifier(program._session, program.read(data), fit.coreset)
        # A quarter of them, which was enough, knows no mean to 0.05 standard deviations.
        everything = program.certify(data, fit.coreset, fit.posterior)
        draws, certificate = judging.matched(fit.posterior, everything)
        assert draws.shape == (everything.n_draws, 6) == (1_000, 6)
        assert certificate.verdict == "certified"
        assert judging.matched(fit.posterior, replace(everything, **missed)) is None


# --- the study's own arithmetic ------------------------------------------------------------


def exact(mean: float, sd: float = 1.0, mcse: float = 0.0) -> Summary:
    return Summary(("mu",), *(np.array([x]) for x in (mean, sd, mcse, mcse)))


@pytest.mark.parametrize(
    ("mean", "sd", "mcse", "wrong"),
    [
        (0.09, 1.0, 0.0, False),
        (0.11, 1.0, 0.0, True),
        (0.0, 1.09, 0.0, False),
        (0.0, 0.89, 0.0, True),
        (0.15, 1.0, 0.02, False),  # within Monte-Carlo error
        (0.2, 1.0, 0.02, True),
    ],
)
def test_wrong_is_beyond_bound_and_noise(mean, sd, mcse, wrong):
    assert errors(exact(mean, sd, mcse), exact(0.0)).wrong == wrong


def test_weighted_summaries_and_their_errors():
    """Against many replications: N(0, 1) draws weighted to N(0.5, 1)."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(200):
        x = rng.normal(size=(1, 400))
        weights = np.exp(0.5 * x[0])
        found.append(summarise({"mu": x}, weights / weights.sum()))
    means, sds = np.array([s.mean[0] for s in found]), np.array([s.sd[0] for s in found])
    assert means.mean() == pytest.approx(0.5, abs=0.02)
    assert sds.mean() == pytest.approx(1.0, abs=0.02)
    assert np.mean([s.mcse_mean[0] for s in found]) == pytest.approx(means.std(), rel=0.2)
    assert np.mean([s.mcse_sd[0] for s in found]) == pytest.approx(sds.std(), rel=0.25)


@pytest.mark.parametrize("name", MODELS)
def test_truths_are_known_as_well_as_what_is_certified(name):
    """NUTS on all rows, too, is as good as its chains are long."""
    truth = load(MODELS[name])
    assert np.max(truth.mcse_mean / truth.sd) < 0.05
    assert np.max(truth.mcse_sd / truth.sd) < 0.05


def test_a_truth_of_other_data_is_refused():
    with pytest.raises(RuntimeError, match=r"calibration\.truth gaussian"):
        load(replace(MODELS["gaussian"], seed=2))


def test_the_confusion_table_counts():
    def record(verdict: str, wrong: bool) -> Record:
        return Record("m", "arm", 10, 1, verdict, wrong, wrong, 0, 0, 0, 0, "mu", {})

    table = confusion([record("certified", False), record("rejected", True)])
    assert table.splitlines()[-1] == "| all | 1 | 0 | 0 | 0 | 0 | 1 |"
