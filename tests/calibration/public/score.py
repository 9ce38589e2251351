"""Whether a simulator simulates its program: identities of the joint density's gradient.

With u the unconstrained parameters, data y and p(u, y) the density of a program, normalised or not,
integration by parts gives, where u and y are draws of p,

    E ∂ log p / ∂u_j = 0,        E u_j ∂ log p / ∂u_j = −1.

The gradient is Stan's, of the program as written; the draws are numpy's. The first finds errors of
the likelihood and of priors' centres, the second of priors' scales; both of the transforms.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from weave_checks import model

from .case import Case
from .simulation import Simulation

__all__ = ["deviations"]


def deviations(case: Case, draws: int, rows: int, seed: int = 0) -> dict[str, tuple[float, float]]:
    """Both identities' deviations, in standard errors, of each unconstrained parameter.

    The centre that u is counted from is its median: E (u − c) ∂ log p / ∂u = −1 for any c.
    """
    points, gradients, names = [], [], []
    for k in range(draws):
        truth, data = case.simulate(Simulation(np.random.default_rng([seed, k]), rows))
        bound = model(case.code, data)
        names = bound.param_unc_names()
        u = bound.param_unconstrain(flat(truth, bound))
        points.append(u)
        gradients.append(bound.log_density_gradient(u)[1])
    u, g = np.array(points), np.array(gradients)
    first, second = g, (u - np.median(u, axis=0)) * g + 1

    def z(x: np.ndarray) -> np.ndarray:
        return x.mean(axis=0) / (x.std(axis=0, ddof=1) / np.sqrt(draws))

    return dict(zip(names, zip(z(first).tolist(), z(second).tolist(), strict=True), strict=True))


def flat(truth: dict[str, Any], bound: Any) -> np.ndarray:
    """The constrained parameters in Stan's order, containers column by column."""
    found = []
    for name in bound.param_names():
        base, *index = name.split(".")
        value = np.asarray(truth[base], dtype=float)
        found.append(value[tuple(int(i) - 1 for i in index)])
    return np.array(found)
