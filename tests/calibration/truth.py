"""The truth: long NUTS runs on all rows, kept as small files.

    cd tests && python -m calibration.truth [MODEL …]          makes them again

A file holds, for each scalar parameter, mean, standard deviation and the Monte-Carlo errors
of both, and the settings, versions and hashes that they depend on.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm

import stancoreset as sc
from stancoreset.posterior import arviz as arviz_compat

from .models import MODELS, Model

__all__ = ["LARGEST_SD_ERROR", "LARGEST_SHIFT", "Errors", "Summary", "errors", "load", "summarise"]

FOLDER = Path(__file__).parent / "truth"
SETTINGS = {"chains": 4, "iter_warmup": 1_000, "iter_sampling": 2_500, "seed": 20_240_101}
#: A posterior is wrong if a mean is off by more than this many standard deviations,
LARGEST_SHIFT = 0.1
#: or a standard deviation by more than this share,
LARGEST_SD_ERROR = 0.1
# beyond Monte-Carlo error: a normal quantile of 3, all comparisons of one posterior together.
_LEVEL = 2 * norm.sf(3.0)


@dataclass(frozen=True)
class Summary:
    """Means and standard deviations of scalar parameters, with their Monte-Carlo errors.

    Attributes
    ----------
    names : tuple of str
    mean, sd, mcse_mean, mcse_sd : ndarray, shape (P,)
    """

    names: tuple[str, ...]
    mean: np.ndarray
    sd: np.ndarray
    mcse_mean: np.ndarray
    mcse_sd: np.ndarray


@dataclass(frozen=True)
class Errors:
    """How far a posterior is from the truth.

    Attributes
    ----------
    shift : float
        Largest |Δmean| in true standard deviations.
    sd_error : float
        Largest |sd / true sd − 1|.
    wrong : bool
        Whether one of them is above its bound by more than Monte-Carlo error.
    worst : str
        The parameter that is furthest off.
    """

    shift: float
    sd_error: float
    wrong: bool
    worst: str


def summarise(variables: Mapping[str, np.ndarray], weights: np.ndarray | None = None) -> Summary:
    """Of draws (chains, draws, *shape); or of weighted ones, (1, draws, *shape)."""
    columns: dict[str, np.ndarray] = {}
    for name, value in variables.items():
        flat = value.reshape(*value.shape[:2], -1)
        for j in np.flatnonzero(np.ptp(flat, axis=(0, 1))):  # L[1, 1] of a Cholesky factor is 1
            columns[f"{name}[{j + 1}]" if value.ndim > 2 else name] = flat[:, :, j]
    found = [_moments(x) if weights is None else _weighted(x, weights) for x in columns.values()]
    return Summary(tuple(columns), *np.array(found).T)


def _moments(x: np.ndarray) -> tuple[float, ...]:
    return (
        float(x.mean()),
        float(x.std(ddof=1)),
        float(arviz_compat.mcse(x)),
        float(arviz_compat.mcse(x, method="sd")),
    )


def _weighted(x: np.ndarray, weights: np.ndarray) -> tuple[float, ...]:
    """By the delta method, the draws' autocorrelation counted in."""
    values = x.ravel()
    mean = float(weights @ values)
    square = (values - mean) ** 2
    variance = float(weights @ square)
    inflation = max(1.0, values.size / float(arviz_compat.ess(x, method="mean")))
    mcse_mean = np.sqrt(inflation * np.sum(weights**2 * square))
    mcse_sd = np.sqrt(inflation * np.sum(weights**2 * (square - variance) ** 2) / (4 * variance))
    return mean, float(np.sqrt(variance)), float(mcse_mean), float(mcse_sd)


def errors(found: Summary, truth: Summary) -> Errors:
    """Compare the parameters that the truth has."""
    at = [found.names.index(name) for name in truth.names]
    shift = np.abs(found.mean[at] - truth.mean) / truth.sd
    ratio = np.abs(found.sd[at] / truth.sd - 1)
    noise = np.hypot(found.mcse_mean[at], truth.mcse_mean) / truth.sd
    ratio_noise = np.hypot(found.mcse_sd[at], truth.mcse_sd) / truth.sd
    z = norm.isf(0.5 * _LEVEL / (2 * len(at)))  # Bonferroni
    excess = np.maximum(
        shift - LARGEST_SHIFT - z * noise, ratio - LARGEST_SD_ERROR - z * ratio_noise
    )
    return Errors(
        shift=float(shift.max()),
        sd_error=float(ratio.max()),
        wrong=bool(np.any(excess > 0)),
        worst=truth.names[int(np.argmax(excess))],
    )


def _key(model: Model) -> str:
    """Of everything that the truth depends on."""
    digest = hashlib.sha256(model.code.encode())
    for name, value in sorted(model.data().items()):
        digest.update(name.encode() + np.ascontiguousarray(value, dtype=np.float64).tobytes())
    digest.update(json.dumps({**SETTINGS, "adapt_delta": model.adapt_delta}).encode())
    return digest.hexdigest()[:16]


def make(model: Model) -> dict[str, Any]:
    """Run NUTS on all rows and write the file."""
    started = time.perf_counter()
    with sc.CoresetModel(model.file, engine="stanli") as program:
        posterior = program.sample(model.data(), **SETTINGS, adapt_delta=model.adapt_delta)
        version = program.engine.version
    variables = arviz_compat.variables_of(posterior)
    summary = summarise(variables)
    diverging = arviz_compat.sample_stats_of(posterior)["diverging"]
    rhat = {n: arviz_compat.rhat(v) for n, v in variables.items()}
    record = {
        "model": model.name,
        "key": _key(model),
        "settings": {**SETTINGS, "adapt_delta": model.adapt_delta},
        "engine": version,
        "seconds": round(time.perf_counter() - started, 1),
        "divergences": int(np.sum(diverging)),
        "largest_rhat": round(float(max(np.max(v) for v in rhat.values())), 4),
        "parameters": {
            name: {
                key: float(f"{getattr(summary, key)[j]:.8g}")
                for key in ("mean", "sd", "mcse_mean", "mcse_sd")
            }
            for j, name in enumerate(summary.names)
        },
    }
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{model.name}.json").write_text(json.dumps(record, indent=1) + "\n")
    return record


def load(model: Model) -> Summary:
    """The cached truth.

    Raises
    ------
    RuntimeError
        If there is none, or it was made for another program, other data or settings.
    """
    path = FOLDER / f"{model.name}.json"
    record = json.loads(path.read_text()) if path.exists() else {"key": "none"}
    if record["key"] != _key(model):
        raise RuntimeError(
            f"{path.name} was made for {record['key']}, program, data and settings are now "
            f"{_key(model)}: run (in tests) python -m calibration.truth {model.name}"
        )
    parameters = record["parameters"]
    columns = ("mean", "sd", "mcse_mean", "mcse_sd")
    values = {key: np.array([p[key] for p in parameters.values()]) for key in columns}
    return Summary(tuple(parameters), **values)


if __name__ == "__main__":
    for name in sys.argv[1:] or MODELS:
        made = make(MODELS[name])
        print(
            f"{name}: {made['seconds']} s, divergences {made['divergences']}, "
            f"largest R-hat {made['largest_rhat']}",
            flush=True,
        )
