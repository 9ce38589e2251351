"""Gibbs sampling of ``HORSESHOE_CODE`` on all rows, without Stan: Pólya–Gamma augmentation.

With coefficients b_j = z_j s_j, z_j standard normal, the program's prior is

    b_j ~ N(0, s_j²)      1 / s_j² = 1 / (τ λ_j)² + 1 / c²      c² = slab_scale² · slab
    λ_j ~ half-t(df, 1)      τ ~ half-t(df_global, scale_global)
    slab ~ inverse-gamma(df_slab / 2, df_slab / 2)

and the intercept of the centred predictors is Student-t(3, 0, 2.5), a scale mixture of normals.
Given ω_n ~ PG(1, η_n) the logistic rows are normal, so that with the prior's variances S the
coefficients integrate out:

    log p(τ, slab | ω, λ) = ½ hᵀ Q⁻¹ h − ½ log |Q| − ½ log |S| + log p(τ) + log p(slab) + const.
    Q = XᵀΩX + S⁻¹      h = Xᵀ(y − ½)

log τ and log slab are drawn from it one after the other by slice sampling, then the coefficients
from N(Q⁻¹h, Q⁻¹), then every log λ_j given b_j, τ and slab: these are independent.

References
----------
Piironen & Vehtari (2017), Sparsity information and regularization in the horseshoe and other
shrinkage priors, Electronic Journal of Statistics 11; van Dyk & Park (2008), Partially collapsed
Gibbs samplers, JASA 103; and those of `polya_gamma`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from polya_gamma import NU, SCALE, Float, sliced

#: Widths of steps out, in logarithms: of τ and of the slab, and of the local scales.
_SHARED, _LOCAL = 0.5, 2.0


@dataclass(frozen=True)
class _Scales:
    """Logarithms of the scales."""

    log_tau: float
    log_slab: float
    log_local: Float


@dataclass(frozen=True)
class _Prior:
    """What the program's data say of the prior."""

    df: float
    df_global: float
    df_slab: float
    scale_global: float
    scale_slab: float

    def variances(self, at: _Scales) -> Float:
        """Of the coefficients."""
        slab = self.scale_slab**2 * np.exp(at.log_slab)
        return 1.0 / (np.exp(-2.0 * (at.log_local + at.log_tau)) + 1.0 / slab)

    def of_local(self, at: _Scales) -> Float:
        """Log density of each log λ_j, up to a constant."""
        return _half_t(at.log_local, self.df, 1.0)

    def of_shared(self, at: _Scales) -> float:
        """Log density of log τ and of log slab, up to a constant."""
        half = 0.5 * self.df_slab
        return float(
            _half_t(at.log_tau, self.df_global, self.scale_global)
            - half * (at.log_slab + np.exp(-at.log_slab))
        )


def _half_t(log_x: Any, df: float, scale: float) -> Any:
    return log_x - 0.5 * (df + 1.0) * np.log1p(np.exp(2.0 * log_x) / (df * scale**2))


@dataclass(frozen=True)
class _Given:
    """XᵀΩX and Xᵀ(y − ½), with the prior's precision of the intercept, which comes last."""

    gram: Float
    along: Float
    intercept: float

    def root(self, variances: Float) -> tuple[Float, Float]:
        """L of Q = L Lᵀ, and L⁻¹ h, for the prior's variances of the coefficients."""
        precision = self.gram + np.diag(np.append(1.0 / variances, self.intercept))
        root = np.linalg.cholesky(precision)
        return root, np.linalg.solve(root, self.along)

    def log_density(self, variances: Float) -> float:
        """Of the variances, coefficients integrated out, up to a constant."""
        root, middle = self.root(variances)
        return float(
            0.5 * middle @ middle - np.log(np.diag(root)).sum() - 0.5 * np.log(variances).sum()
        )


def _shared(
    prior: _Prior, given: _Given, at: _Scales, name: str, rng: np.random.Generator
) -> _Scales:
    """The next τ or slab, coefficients integrated out."""

    def density(t: Float) -> Float:
        there = replace(at, **{name: t[0]})
        return np.array([given.log_density(prior.variances(there)) + prior.of_shared(there)])

    return replace(at, **{name: sliced(density, np.array([getattr(at, name)]), _SHARED, rng)[0]})


def _locals(prior: _Prior, b: Float, at: _Scales, rng: np.random.Generator) -> _Scales:
    """The next local scales, given the coefficients."""

    def density(t: Float) -> Float:
        there = replace(at, log_local=t)
        variances = prior.variances(there)
        return -0.5 * (np.log(variances) + b**2 / variances) + prior.of_local(there)

    return replace(at, log_local=sliced(density, at.log_local, _LOCAL, rng))


def horseshoe_gibbs(
    data: Mapping[str, Any], iterations: int, seed: int = 0, warmup: int = 500
) -> dict[str, Float]:
    """One chain's draws (1, iterations, …) by the program's names, scales as logarithms."""
    from polyagamma import random_polyagamma

    rng = np.random.default_rng(seed)
    prior = _Prior(
        *(float(data[f"hs_{name}"]) for name in ("df", "df_global", "df_slab")),
        *(float(data[f"hs_scale_{name}"]) for name in ("global", "slab")),
    )
    predictors = np.asarray(data["X"], dtype=float)[:, 1:]
    x = np.column_stack([predictors - predictors.mean(axis=0), np.ones(len(predictors))])
    along = x.T @ (np.asarray(data["Y"]) - 0.5)
    d = predictors.shape[1]
    b, scales = np.zeros(d + 1), _Scales(np.log(0.1), 0.0, np.zeros(d))
    kept = []
    for i in range(-warmup, iterations):
        mixed = 0.5 * NU + 0.5 * (b[-1] / SCALE) ** 2
        intercept = rng.gamma(0.5 * (NU + 1)) / mixed / SCALE**2
        half = np.sqrt(random_polyagamma(1.0, x @ b, random_state=rng))[:, None] * x
        given = _Given(half.T @ half, along, intercept)
        for name in ("log_tau", "log_slab"):
            scales = _shared(prior, given, scales, name, rng)
        root, middle = given.root(prior.variances(scales))
        b = np.linalg.solve(root.T, middle + rng.standard_normal(d + 1))
        scales = _locals(prior, b[:-1], scales, rng)
        if i >= 0:
            kept.append(np.concatenate([b, [scales.log_tau, scales.log_slab], scales.log_local]))
    draws = np.array(kept)[None]
    return {
        "b": draws[:, :, :d],
        "Intercept": draws[:, :, d],
        "hs_global": draws[:, :, d + 1],
        "hs_slab": draws[:, :, d + 2],
        "hs_local": draws[:, :, d + 3 :],
    }
