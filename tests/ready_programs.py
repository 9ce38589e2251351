"""The ready Stan programs, each with a small data set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["MODELS", "NAMES", "D", "J", "K", "N", "example"]

MODELS = Path(__file__).parents[1] / "stan_models"
NAMES = sorted(path.stem for path in MODELS.glob("*.stan"))

N, D, J, K = 23, 3, 4, 4
HORSESHOE = {
    "local_df": 1.2, "global_df": 1.5, "global_scale": 0.3, "slab_scale": 1.8, "slab_df": 4.5,
}  # fmt: skip


def example(name: str) -> dict[str, Any]:
    """A small data set for each program, drawn near its model."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(N, D))
    eta = 0.3 + x @ np.array([0.5, -0.3, 0.2])
    binary = (rng.random(N) < 1 / (1 + np.exp(-eta))).astype(int)
    regression = {
        "N": N, "D": D, "X": x, "weights": np.ones(N), "alpha_scale": 1.7, "beta_scale": 0.9,
    }  # fmt: skip
    if name == "gaussian_mean":
        a, b = rng.normal(size=(2, D, D))
        return {
            "N": N, "D": D, "y": x + 1.0, "weights": np.ones(N), "mu0": rng.normal(size=D),
            "Sigma": a @ a.T + np.eye(D), "Sigma0": b @ b.T + np.eye(D),
        }  # fmt: skip
    extra: dict[str, dict[str, Any]] = {
        "logistic": {"y": binary},
        "hierarchical_logistic": {
            "y": binary, "J": J, "g": rng.integers(1, J + 1, N), "tau_scale": 0.8,
        },
        "poisson_log": {"y": rng.poisson(np.exp(eta))},
        "poisson_softplus": {"y": rng.poisson(np.log1p(np.exp(eta)))},
        "negative_binomial": {
            "y": rng.negative_binomial(3, 3 / (3 + np.exp(eta))), "phi_shape": 2.5, "phi_rate": 0.2,
        },
        "gaussian_linear": {"y": eta + rng.normal(size=N), "sigma_scale": 1.3},
        "student_t": {
            "y": eta + rng.standard_t(4, size=N),
            "sigma_scale": 1.3, "nu_shape": 2.5, "nu_rate": 0.2,
        },
        "sparse_linear": {"y": eta + rng.normal(size=N), "sigma_scale": 1.3},
        "sparse_logistic": {"y": binary},
        "horseshoe_linear": {"y": eta + rng.normal(size=N), "sigma_scale": 1.3, **HORSESHOE},
        "horseshoe_logistic": {"y": binary, **HORSESHOE},
        "ordered_logistic": {"K": K, "y": 1 + rng.integers(K, size=N), "cut_scale": 1.9},
    }  # fmt: skip
    found = regression | extra[name]
    lacking = {"ordered_logistic": ("alpha_scale",)}.get(name, ())
    if name.startswith("horseshoe"):
        lacking = ("beta_scale",)
    return {key: value for key, value in found.items() if key not in lacking}
