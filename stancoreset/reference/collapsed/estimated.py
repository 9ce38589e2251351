"""The marginal density of h by importance sampling of u, where a quadratic describes u alone.

With the posterior density p, and u drawn from its Gaussian given h under prior × quadratic,

    p̂(h) = p(h, u) / N(u | m(h), H(h)⁻¹),      E p̂(h) = ∫ p(h, u) du,

so that weights p̂(h) / q(h) of h ~ q are exact ones of (h, u), whatever the quadratic says of h.

References
----------
Tran, Scharth, Gunawan, Kohn, Brown and Hawkins (2021), "Robustly estimating the marginal likelihood
for cognitive models via importance sampling", Behavior Research Methods 53.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from stancoreset.engines import Float
from stancoreset.reference.collapsed.conditional import Conditional, Flat
from stancoreset.reference.collapsed.mixture import WeightedDraws, sample_by_importance


@dataclass(eq=False)
class EstimatedMarginal:
    """Unbiased estimates of the marginal density of h under a target density.

    Attributes
    ----------
    conditional : Conditional
        Whose Gaussians u is drawn from.
    target : callable
        Log density, (S, P) → (S,), NaN or −∞ where there is none.
    rng : numpy.random.Generator
    drawn : list of ndarray, shape (K, P) each
        h with the u that was drawn for it, of all calls.
    """

    conditional: Conditional = field(repr=False)
    target: Callable[[Float], Float] = field(repr=False)
    rng: np.random.Generator = field(repr=False)
    drawn: list[Float] = field(default_factory=list, repr=False)

    def __call__(self, h: Float) -> Float:
        """Logarithms of p̂ at some h, (K, dim h) → (K,); −∞ where u has no Gaussian."""
        inner = self.conditional.inner
        draws = np.tile(self.conditional.point, (len(h), 1))
        log_q = np.full(len(h), np.inf)
        for k, given in enumerate(self.conditional.given(h)):
            if not isinstance(given, Flat):
                noise = self.rng.standard_normal((1, int(inner.sum())))
                draws[k] = given.draw(h[k], inner, noise)[0]
                log_q[k] = given.log_density(noise)[0] - given.log_marginal
        self.drawn.append(draws)
        found = self.target(draws) - log_q
        return np.where(np.isnan(found), -np.inf, found)

    def sample(
        self,
        near: Float,
        sizes: Sequence[int],
        enough: Callable[[WeightedDraws], bool] | None = None,
    ) -> WeightedDraws:
        """Weighted draws of h, at first near draws (S, P); see `sample_by_importance`."""
        h = near[:, ~self.conditional.inner]
        cov = np.atleast_2d(np.cov(h.T))
        return sample_by_importance(self, h.mean(axis=0), cov, sizes, self.rng, enough)

    def resampled(self, found: WeightedDraws, count: int, seed: int) -> Float:
        """So many draws of h and u by the weights of h, (count, P); of one seed always these.

        Values are in random order, and those of one draw follow each other: the autocorrelation
        shows what they are worth.
        """
        rng = np.random.default_rng([seed, 167])
        which = found.resample(count, rng)
        rank = rng.permutation(len(found.points))
        return np.concatenate(self.drawn)[which[np.argsort(rank[which], kind="stable")]]
