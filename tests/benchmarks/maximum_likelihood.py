"""Maximum likelihood in numpy for programs of brms, which knows nothing of Stan or of coresets.

Of half a million rows the prior says nothing of slopes, and effects of groups of ten thousand rows
are hardly shrunk: they are free coefficients here, as are those of splines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize, special, stats

__all__ = ["FAMILIES", "Family"]

Float = np.ndarray
# Steps of differences.
_STEP = 1e-3


@dataclass(frozen=True)
class Family:
    """An outcome's log density at a linear predictor and further parameters without bounds.

    `further` has for each parameter that the program names its value by those without bounds.
    """

    log_density: Callable[[Mapping[str, Any], Float, Float], Float]
    start: tuple[float, ...]
    further: Mapping[str, Callable[[Float], float]]

    def fit(self, data: Mapping[str, Any]) -> dict[str, tuple[Float, Float]]:
        """Slopes ``b`` and further parameters, each with its standard errors."""
        x, slopes = _design(data)
        width = x.shape[1]

        def at(theta: Float) -> tuple[Float, Float, Float]:
            """Log densities of rows, their slopes and second derivatives along the predictor."""
            eta, rest = x @ theta[:width], theta[width:]
            here, up, down = (
                self.log_density(data, eta + step, rest) for step in (0.0, _STEP, -_STEP)
            )
            return here, (up - down) / (2 * _STEP), (up - 2 * here + down) / _STEP**2

        def gradient(theta: Float) -> Float:
            eta, moves = x @ theta[:width], _STEP * np.eye(len(self.start))
            along = [
                (
                    self.log_density(data, eta, theta[width:] + m)
                    - self.log_density(data, eta, theta[width:] - m)
                ).sum()
                for m in moves
            ]
            return -np.append(x.T @ at(theta)[1], np.array(along) / (2 * _STEP)) / len(x)

        def hessian(theta: Float) -> Float:
            bent = np.zeros((len(theta), len(theta)))
            bent[:width, :width] = -(x.T * at(theta)[2]) @ x / len(x)
            for k in range(width, len(theta)):
                move = _STEP * np.eye(len(theta))[k]
                bent[k] = bent[:, k] = (gradient(theta + move) - gradient(theta - move)) / (
                    2 * _STEP
                )
            return bent

        found = optimize.minimize(
            lambda theta: -at(theta)[0].mean(),
            np.append(np.zeros(width), self.start),
            jac=gradient,
            hess=hessian,
            method="trust-exact",
            options={"gtol": 1e-7},
        ).x
        cov = np.linalg.inv(hessian(found)) / len(x)
        rest = found[width:]
        estimates = {"b": (found[:slopes], np.sqrt(np.diag(cov))[:slopes])}
        for name, value in self.further.items():
            moves = 1e-5 * np.eye(len(rest))
            slope = np.array([(value(rest + m) - value(rest - m)) / 2e-5 for m in moves])
            error = np.sqrt(slope @ cov[width:, width:] @ slope)
            estimates[name] = np.array(value(rest)), np.array(error)
        return estimates


def _design(data: Mapping[str, Any]) -> tuple[Float, int]:
    """Predictors, columns of splines and indicators of groups or an intercept; and how many b has.

    Cut points stand for the intercept: there the first group has no indicator.
    """
    x = np.asarray(data["X"], dtype=np.float64)
    x = x if "nthres" in data else x[:, 1:]
    columns = [x, *(np.asarray(data[name]) for name in ("Xs", "Zs_1_1") if name in data)]
    if "J_1" in data:
        levels = np.eye(int(data["N_1"]))[np.asarray(data["J_1"]) - 1]
        columns.append(levels[:, "nthres" in data :])
    else:
        columns.append(np.ones((len(x), 1)))
    return np.column_stack(columns), x.shape[1]


def _zero_inflated(data: Mapping[str, Any], eta: Float, rest: Float) -> Float:
    y = np.asarray(data["Y"])
    counted = stats.poisson.logpmf(y, np.exp(eta)) + special.log_expit(-rest[0])
    return np.where(y == 0, np.logaddexp(special.log_expit(rest[0]), counted), counted)


def _negative_binomial(data: Mapping[str, Any], eta: Float, rest: Float) -> Float:
    shape, mean = np.exp(rest[0]), np.exp(eta + np.asarray(data["offsets"]))
    return stats.nbinom.logpmf(np.asarray(data["Y"]), shape, shape / (shape + mean))


def _student(data: Mapping[str, Any], eta: Float, rest: Float) -> Float:
    scale, freedom = np.exp(rest[0]), 1 + np.exp(rest[1])
    return stats.t.logpdf(np.asarray(data["Y"]), freedom, eta, scale)


def _weibull(data: Mapping[str, Any], eta: Float, rest: Float) -> Float:
    """Of censored times the probability to be longer; the mean is exp(eta)."""
    shape = np.exp(rest[0])
    how = {"c": shape, "scale": np.exp(eta) / special.gamma(1 + 1 / shape)}
    y = np.asarray(data["Y"])
    ended = np.asarray(data["cens"]) == 0
    return np.where(ended, stats.weibull_min.logpdf(y, **how), stats.weibull_min.logsf(y, **how))


def _ordinal(data: Mapping[str, Any], eta: Float, rest: Float) -> Float:
    cuts = np.concatenate([[-np.inf], rest[0] + np.cumsum([0, *np.exp(rest[1:])]), [np.inf]])
    y = np.asarray(data["Y"])
    return np.log(special.expit(cuts[y] - eta) - special.expit(cuts[y - 1] - eta))


#: By the name of what makes the data, see ``tests/pairs/simulated.py``.
FAMILIES = {
    "zero_inflated": Family(_zero_inflated, (-1.0,), {"zi": lambda r: special.expit(r[0])}),
    "negative_binomial": Family(_negative_binomial, (0.0,), {"shape": lambda r: np.exp(r[0])}),
    "student_spline": Family(
        _student,
        (0.0, 1.0),
        {"sigma": lambda r: np.exp(r[0]), "nu": lambda r: 1 + np.exp(r[1])},
    ),
    "weibull_groups": Family(_weibull, (0.0,), {"shape": lambda r: np.exp(r[0])}),
    "ordinal_groups": Family(_ordinal, (-1.0, 0.0, 0.0, 0.0), {}),
}
