"""Simulation-based calibration of the whole pipeline.

Parameters are drawn from the prior, data from the model; the coreset posterior is fitted to
the data. If it is the posterior, the rank of the true parameter among its draws is uniform.

References
----------
Talts, Betancourt, Simpson, Vehtari & Gelman (2018), "Validating Bayesian inference algorithms
with simulation-based calibration", arXiv:1804.06788.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import chisquare
from seeds import reseeded

import stancoreset as sc
from stancoreset.posterior import arviz as arviz_compat

__all__ = ["PROBLEMS", "Problem", "Ranks", "calibrate", "histograms", "uniformity"]

PROGRAMS = Path(__file__).parent / "programs"
#: Draws that the truth is ranked among: ranks 0, …, 99.
DRAWS = 99
Drawn = tuple[dict[str, Any], dict[str, Any]]


@dataclass(frozen=True)
class Problem:
    """A program and draws from its prior, with data for each.

    Attributes
    ----------
    program : str
    size : int
        Rows of the coreset.
    draw : callable
        Generator → (true parameters, data).
    """

    program: str
    size: int
    draw: Callable[[np.random.Generator], Drawn]


@dataclass(frozen=True)
class Ranks:
    """Ranks of the truth, (replications,) for each scalar parameter, and the verdicts."""

    ranks: dict[str, np.ndarray]
    verdicts: Counter[str]


def _gaussian(rng: np.random.Generator) -> Drawn:
    alpha, beta = rng.normal(size=2)
    x = rng.normal(size=300)
    y = alpha + beta * x + rng.normal(size=300)
    return {"alpha": alpha, "beta": beta}, {"N": 300, "x": x, "y": y}


def _logistic(rng: np.random.Generator) -> Drawn:
    alpha, beta = rng.normal(), rng.normal(size=2)
    X = rng.normal(size=(300, 2))
    y = (rng.random(300) < 1 / (1 + np.exp(-alpha - X @ beta))).astype(int)
    return {"alpha": alpha, "beta": beta}, {"N": 300, "X": X, "y": y}


def _hierarchical(rng: np.random.Generator) -> Drawn:
    mu, tau, sigma = rng.normal(), abs(rng.normal()), np.exp(0.5 * rng.normal())
    z = rng.normal(size=6)
    g = rng.integers(6, size=300)
    y = mu + tau * z[g] + sigma * rng.normal(size=300)
    truth = {"mu": mu, "tau": tau, "sigma": sigma, "z": z}
    return truth, {"N": 300, "J": 6, "g": g + 1, "y": y}


PROBLEMS = {
    "gaussian": Problem("sbc_gaussian", 15, _gaussian),
    "logistic": Problem("sbc_logistic", 15, _logistic),
    "hierarchical": Problem("sbc_hierarchical", 40, _hierarchical),
}


def calibrate(name: str, replications: int, seed: int = 0, **options: Any) -> Ranks:
    """Fit as many data sets, and rank their true parameters."""
    problem = PROBLEMS[name]
    ranks: dict[str, list[int]] = {}
    verdicts: Counter[str] = Counter()
    with sc.CoresetModel(PROGRAMS / f"{problem.program}.stan", engine="stanli") as model:
        for replication in range(replications):
            truth, data = problem.draw(np.random.default_rng([seed, replication]))
            fit = model.fit(
                data, size=problem.size, seed=reseeded(replication), show_progress=False, **options
            )
            verdicts[fit.certificate.verdict] += 1
            for label, rank in ranked(truth, handed_out(fit)).items():
                ranks.setdefault(label, []).append(rank)
    return Ranks({label: np.array(found) for label, found in ranks.items()}, verdicts)


def handed_out(fit: sc.CoresetFit) -> Mapping[str, np.ndarray]:
    """The draws that a user goes on with: resampled by their weights, if so judged."""
    corrected = fit.certificate.verdict == "corrected"
    return arviz_compat.variables_of(fit.corrected() if corrected else fit.posterior)


def ranked(truth: Mapping[str, Any], draws: Mapping[str, np.ndarray]) -> dict[str, int]:
    """How many of `DRAWS` evenly spaced draws are smaller than the truth."""
    found = {}
    for name, value in truth.items():
        flat = draws[name].reshape(draws[name].shape[0] * draws[name].shape[1], -1)
        taken = flat[np.linspace(0, len(flat) - 1, DRAWS).round().astype(int)]
        for j, true in enumerate(np.atleast_1d(value)):
            label = f"{name}[{j + 1}]" if np.ndim(value) else name
            found[label] = int(np.sum(taken[:, j] < true))
    return found


def uniformity(ranks: np.ndarray, bins: int = 10) -> float:
    """p-value of the χ² test that ranks are uniform on 0, …, `DRAWS`."""
    counts = np.bincount(ranks * bins // (DRAWS + 1), minlength=bins)
    return float(chisquare(counts).pvalue)


def histograms(result: Ranks, bins: int = 10) -> str:
    """Counts by bin and p-value of each parameter, as a Markdown table."""
    lines = [
        f"| parameter | {' | '.join(f'{b / bins:.0%}' for b in range(bins))} | χ² p |",
        "|---" * (bins + 2) + "|",
    ]
    for label, ranks in result.ranks.items():
        counts = np.bincount(ranks * bins // (DRAWS + 1), minlength=bins)
        p = uniformity(ranks, bins)
        lines.append(f"| {label} | {' | '.join(map(str, counts))} | {p:.2f} |")
    return "\n".join(lines)
