"""Gibbs sampling of groups' centred coefficient vectors on all rows, without Stan.

The programs are `varying_slopes_multi_normal` and `varying_slopes_logistic` of
`tests/stan/weave_programs`, with two coefficients of each group j:

    y_n ~ normal(x_n β_j, σ)  or  bernoulli_logit(x_n β_j)      β_j ~ normal(μ, Σ)
    Σ = diag(τ) Ω diag(τ)    τ_k ~ half-Cauchy(2.5)    Ω ~ LKJ(2)    μ_k ~ normal(0, 5)    p(σ) = 1

Of coefficients each row is a normal pseudo-observation with precision ω_n: σ⁻² of y_n, or with
ω_n ~ PG(1, x_n β_j) of (y_n − ½)/ω_n, as in `polya_gamma`. Groups' sums are A_j = Σ ω_n x_nᵀ x_n
and h_j = Σ ω_n z_n x_nᵀ for pseudo-observations z_n. All β_j integrate out in closed form, and
then does μ: with P = Σ⁻¹ and Q_j = A_j + P

    log p(Σ | ω) = ½ Σ_j h_jᵀ Q_j⁻¹ h_j − ½ Σ_j log |Q_j| + ½ J log |P| + ½ mᵀ M⁻¹ m − ½ log |M|
                   + log p(Σ) + const.
    M = J P − P (Σ_j Q_j⁻¹) P + I / 5²      m = P Σ_j Q_j⁻¹ h_j

log τ, artanh ρ and log σ are drawn from it one after the other by slice sampling, then μ from
N(M⁻¹ m, M⁻¹), then β_j from N(Q_j⁻¹ (h_j + P μ), Q_j⁻¹).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from polya_gamma import Float, sliced

#: Scales of the priors of τ and of μ.
TAU, MU = 2.5, 5.0


@dataclass(frozen=True)
class Given:
    """What is normal given ω: A (J, 2, 2) and h (J, 2), of a normal outcome at σ = 1.

    `count` and `square`, the rows' number and Σ y², are those of a normal outcome.
    """

    a: Float
    h: Float
    count: int = 0
    square: float = 0.0

    @classmethod
    def of(cls, data: Mapping[str, Any], omega: Float, along: Float) -> Given:
        """From the rows' ω_n and ω_n z_n."""
        x = np.asarray(data["x"])
        rows = np.column_stack([x[:, 0] ** 2, x[:, 0] * x[:, 1], x[:, 1] ** 2]) * omega[:, None]
        sums = [
            np.bincount(np.asarray(data["jj"]) - 1, weights=column, minlength=data["J"])
            for column in np.hstack([rows, x * along[:, None]]).T
        ]
        a = np.moveaxis(np.array([[sums[0], sums[1]], [sums[1], sums[2]]]), 2, 0)
        return cls(a, np.column_stack(sums[3:]))

    def at(self, t: Float) -> tuple[float, Float, Float, Float, Float]:
        """Log density of t = (log τ, artanh ρ[, log σ]); Q⁻¹, h, P and M.

        t has log σ if the outcome is normal.
        """
        precise, density = 1.0, 0.0
        if len(t) > 3:
            precise = np.exp(-2.0 * t[3])
            density = (1 - self.count) * t[3] - 0.5 * precise * self.square
        tau, rho = np.exp(t[:2]), np.tanh(t[2])
        p = np.linalg.inv(np.outer(tau, tau) * np.array([[1.0, rho], [rho, 1.0]]))
        h, q = precise * self.h, precise * self.a + p
        inverse = np.linalg.inv(q)
        means = (inverse @ h[:, :, None])[:, :, 0]
        big = len(h) * p - p @ inverse.sum(axis=0) @ p + np.eye(2) / MU**2
        m = p @ means.sum(axis=0)
        density += 0.5 * np.sum(h * means) + 0.5 * m @ np.linalg.solve(big, m)
        density -= 0.5 * (np.log(np.linalg.det(q)).sum() + np.log(np.linalg.det(big)))
        density += 0.5 * len(h) * np.log(np.linalg.det(p))
        density += np.sum(t[:2] - np.log1p((tau / TAU) ** 2)) - 4.0 * np.log(np.cosh(t[2]))
        return float(density), inverse, h, p, big

    def sliced(self, t: Float, k: int, step: float, rng: np.random.Generator) -> float:
        """The next of t_k."""

        def density(value: Float) -> Float:
            return np.array([self.at(np.concatenate([t[:k], value, t[k + 1 :]]))[0]])

        return float(sliced(density, t[k : k + 1], step, rng)[0])

    def drawn(self, t: Float, rng: np.random.Generator) -> tuple[Float, Float]:
        """μ (2,) and β (J, 2) given t and ω."""
        _, inverse, h, p, big = self.at(t)
        m = p @ np.einsum("jkl,jl->k", inverse, h)
        mu = np.linalg.solve(big, m) + np.linalg.solve(
            np.linalg.cholesky(big).T, rng.standard_normal(2)
        )
        noise = np.linalg.cholesky(inverse) @ rng.standard_normal((len(h), 2, 1))
        return mu, (inverse @ (h + p @ mu)[:, :, None] + noise)[:, :, 0]


def slopes_gibbs(
    data: Mapping[str, Any], iterations: int, seed: int = 0, warmup: int = 500
) -> dict[str, Float]:
    """One chain's draws (1, iterations, …) by the program's names, with ρ as ``Omega``.

    The outcome is binary if `y` is of integers.
    """
    rng = np.random.default_rng(seed)
    x, y, jj = (np.asarray(data[name]) for name in ("x", "y", "jj"))
    binary = y.dtype.kind == "i"
    given = replace(Given.of(data, np.ones(len(y)), y), count=len(y), square=float(y @ y))
    t, beta, kept = np.zeros(3 if binary else 4), np.zeros((data["J"], 2)), []
    steps = 4.0 / np.sqrt([data["J"], data["J"], data["J"], len(y)])
    for i in range(-warmup, iterations):
        if binary:
            from polyagamma import random_polyagamma

            eta = np.sum(x * beta[jj - 1], axis=1)
            given = Given.of(data, random_polyagamma(1.0, eta, random_state=rng), y - 0.5)
        for k in range(len(t)):
            t[k] = given.sliced(t, k, steps[k], rng)
        mu, beta = given.drawn(t, rng)
        if i >= 0:
            kept.append((mu, np.exp(t[:2]), np.tanh(t[2]), np.exp(t[-1]), beta))
    names = ("mu", "tau", "Omega", "sigma", "beta")
    draws = {name: np.array([one[k] for one in kept])[None] for k, name in enumerate(names)}
    return {name: one for name, one in draws.items() if name != "sigma" or not binary}
