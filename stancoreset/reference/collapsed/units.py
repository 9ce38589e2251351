"""Draws of a posterior whose units are independent given what they share, weighted unit by unit.

What a quadratic leaves of the log likelihood of many units j, compounds or patients, say, is a sum

    r(θ) = r_0(γ) + Σ_j r_j(u_j, γ),      γ: h, and the coordinates that all units share,

which may be little for each unit, and for all together so much that importance weights are useless.
Under prior × quadratic units are independent given γ as well. So with K pairs of candidates u_jk
from a density q_j, for each unit whose Gaussian is N_j,

    w_jk = exp r_j(u_jk, γ) N_j(u_jk) / q_j(u_jk),   W_j = mean_k w_jk,   w(γ) = exp r_0(γ) Π_j W_j,

Draws of the posterior are made by resampling γ with the weights w(γ), and each u_j among its
candidates with the weights w_jk. That holds for any K, because each W_j is an unbiased estimate
of the unit's share in the marginal density of γ.

The noise of W_j makes the weights less even. q_j are Student-t densities, because a likelihood may
have a limit where the quadratic falls. Their mean, scale and tails are those of earlier candidates,
in the coordinates in which N_j is standard. Distances from the mean are stratified, so that
N_j / q_j leaves little noise. The candidates of a pair are opposite each other, so that what r_j
has of odd order leaves none.

References
----------
Tran, Scharth, Pitt and Kohn (2013), "Importance sampling squared for Bayesian inference in latent
variable models", arXiv:1309.3339.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtri

from stancoreset.engines import FARTHEST, Float
from stancoreset.errors import ReferenceFitError
from stancoreset.reference.collapsed.conditional import Conditional, Flat
from stancoreset.reference.collapsed.mixture import log_student_t
from stancoreset.rows import Blocks

#: Unconstrained draws (M, P) → r_0 (M,) and r_j (M, J).
Remainders = Callable[[Float], tuple[Float, Float]]
# Draws of the standard Gaussian that stand beside a unit's candidates, for each of its coordinates.
_BESIDE = 10
# Degrees of freedom of proposals, the heaviest tails first.
_FREEDOM = (8.0, 32.0)


@dataclass(frozen=True)
class UnitProposals:
    """q_j: Student-t densities of the standardised coordinates of each unit.

    Attributes
    ----------
    blocks : Blocks
        The units among the coordinates u.
    centre : ndarray, shape (dim u,)
    factors : tuple of ndarray, shape (J, b, b)
        Lower factors of the scales, of the units of each size b.
    freedom : ndarray, shape (J,)
        Degrees of freedom.
    """

    blocks: Blocks
    centre: Float = field(repr=False)
    factors: tuple[Float, ...] = field(repr=False)
    freedom: Float = field(repr=False)

    @classmethod
    def standard(cls, blocks: Blocks) -> UnitProposals:
        """Proposals with centre zero, scale one and the heaviest tails."""
        factors = [np.tile(np.eye(own.shape[1]), (len(own), 1, 1)) for own in blocks.members]
        freedom = np.full(1 + int(blocks.group.max()), _FREEDOM[0])
        return cls(blocks, np.zeros(len(blocks.group)), tuple(factors), freedom)

    def draw(self, pairs: int, rng: np.random.Generator) -> Float:
        """Pairs of candidates, first ones, then those opposite, (2K, dim u).

        What units share is zero.
        """
        found = np.zeros((2 * pairs, len(self.blocks.group)))
        for unit, own, factor in self._parts():
            count, size = own.shape
            direction = rng.standard_normal((pairs, count, size))
            direction /= np.linalg.norm(direction, axis=2, keepdims=True)
            quantile = (np.arange(pairs)[:, None] + rng.random((pairs, count))) / pairs
            distance = np.sqrt(size * fdtri(size, self.freedom[unit], quantile))
            away = np.einsum("jab,kjb->kja", factor, direction) * distance[:, :, None]
            found[:, own] = self.centre[own] + np.concatenate([away, -away])
        return found

    def log_ratio(self, candidates: Float) -> Float:
        """log N_j / q_j of candidates (M, dim u), (M, J)."""
        found = np.empty((len(candidates), len(self.freedom)))
        for unit, own, factor in self._parts():
            size, here = own.shape[1], candidates[:, own]
            away = np.einsum("jab,mjb->mja", np.linalg.inv(factor), here - self.centre[own])
            log_q = log_student_t(np.sum(away**2, axis=2), self.freedom[unit], size)
            log_q -= np.log(np.einsum("jaa->ja", factor)).sum(axis=1)
            normal = -0.5 * (np.sum(here**2, axis=2) + size * np.log(2 * np.pi))
            found[:, unit] = normal - log_q
        return found

    def fitted(self, candidates: Float, log_w: Float) -> UnitProposals:
        """Proposals that suit weighted candidates, (M, dim u) and (M, J).

        They have the candidates' mean and covariance, and as heavy tails as leave weights with the
        smallest variance, but for two of its standard errors.
        """
        weights = np.exp(log_w - log_w.max(axis=0))
        weights /= weights.sum(axis=0)
        worth = 1 / np.sum(weights**2, axis=0)
        centre, factors = self.centre.copy(), []
        for unit, own, _ in self._parts():
            width = own.shape[1]
            share = (worth[unit] / (worth[unit] + _BESIDE * width))[:, None]
            here, w = candidates[:, own], weights[:, unit]
            mean = share * np.einsum("mj,mja->ja", w, here)
            away = here - mean
            cov = np.einsum("mj,mja,mjb->jab", w, away, away)
            factors.append(
                np.linalg.cholesky(share[..., None] * (cov - np.eye(width)) + np.eye(width))
            )
            centre[own] = mean
        own_ratio, count = self.log_ratio(candidates), len(candidates)
        tried, variances = [], []
        for freedom in _FREEDOM:
            each = np.full(len(self.freedom), freedom)
            tried.append(UnitProposals(self.blocks, centre, tuple(factors), each))
            # E_p p/q' = M Σ w² q/q', w those of candidates from q.
            squares = count**2 * weights**2 * np.exp(tried[-1].log_ratio(candidates) - own_ratio)
            variances.append(squares.mean(axis=0) + 2 * squares.std(axis=0) / np.sqrt(count))
        return replace(tried[0], freedom=np.array(_FREEDOM)[np.argmin(variances, axis=0)])

    def _parts(self) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp], Float]]:
        """Numbers, coordinates and factors of the units of each size."""
        for own, factor in zip(self.blocks.members, self.factors, strict=True):
            yield self.blocks.group[own[:, 0]], own, factor


@dataclass(frozen=True)
class UnitDraws:
    """Weighted values of γ, with several draws of all units at each.

    Attributes
    ----------
    draws : ndarray, shape (S, C, P)
    log_weights : ndarray, shape (S,)
        log w(γ).
    """

    draws: Float = field(repr=False)
    log_weights: Float = field(repr=False)

    def joined(self, more: UnitDraws) -> UnitDraws:
        """These draws and more."""
        return UnitDraws(
            np.concatenate([self.draws, more.draws]),
            np.concatenate([self.log_weights, more.log_weights]),
        )


@dataclass(frozen=True)
class UnitSampler:
    """Draws the parameters of all units, given h, from the posterior.

    Attributes
    ----------
    conditional : Conditional
        Of prior × quadratic, with groups of u, which are the units.
    remainders : callable
        What the quadratic leaves of the log likelihood.
    proposals : UnitProposals
    error : float
        Nats by which r_0 may differ between candidates.
    """

    conditional: Conditional
    remainders: Remainders
    proposals: UnitProposals
    error: float = 0.01

    def candidates(self, h: Float, pairs: int, rng: np.random.Generator) -> Iterator[_Candidates]:
        """Pairs of candidates of every unit, at a value of γ for each of some h, (S, dim h).

        Raises
        ------
        ReferenceFitError
            If r_0 depends on units: they are not independent.
        """
        conditional, blocks = self.conditional, self.proposals.blocks
        shared = blocks.group < 0
        for one, given in zip(h, conditional.given(h), strict=True):
            if isinstance(given, Flat):
                raise ReferenceFitError("prior times quadratic has no finite density")
            standard = self.proposals.draw(pairs, rng)
            standard[:, shared] = rng.standard_normal(np.count_nonzero(shared))
            theta = given.draw(one, conditional.inner, standard)
            common, left = self.remainders(theta)
            common += conditional.density.log_density(theta) - given.log_density(standard)
            if not np.ptp(common) <= self.error:
                raise ReferenceFitError(
                    f"units are not independent given the parameters that they share: what they "
                    f"leave in common differs by {np.ptp(common):.3g} nats"
                )
            # Where all candidates of a unit are impossible, so is γ.
            log_w = np.fmax(left + self.proposals.log_ratio(standard), -FARTHEST)
            yield _Candidates(theta, standard, float(common[0]), log_w)

    def fitted(self, h: Float, pairs: int, rng: np.random.Generator) -> tuple[UnitSampler, float]:
        """This sampler with proposals that suit its candidates at some h, and these ones' noise.

        The noise is the variance of log w(γ) at one γ, with one pair of candidates.
        """
        found = list(self.candidates(h, pairs, rng))
        proposals = self.proposals.fitted(
            np.concatenate([one.standard for one in found]),
            np.concatenate([one.log_w for one in found]),
        )
        return replace(self, proposals=proposals), float(np.mean([one.noise for one in found]))

    def draw(self, h: Float, pairs: int, copies: int, rng: np.random.Generator) -> UnitDraws:
        """Draw γ at each of some h, (S, dim h), with so many draws of all units."""
        inner = self.conditional.inner
        unit = np.full(len(inner), -1)
        unit[inner] = self.proposals.blocks.group
        own = np.flatnonzero(unit >= 0)
        draws, log_weights = np.empty((len(h), copies, len(inner))), np.empty(len(h))
        for s, one in enumerate(self.candidates(h, pairs, rng)):
            log_weights[s] = one.log_weight
            draws[s] = one.theta[0]
            draws[s][:, own] = one.theta[one.chosen(copies, rng)[:, unit[own]], own]
        return UnitDraws(draws, log_weights)


@dataclass(frozen=True)
class _Candidates:
    """Pairs of candidates of all units at one γ: the first ones, then those opposite.

    Attributes
    ----------
    theta : ndarray, shape (2K, P)
    standard : ndarray, shape (2K, dim u)
        In the coordinates in which prior × quadratic is a standard Gaussian.
    common : float
        r_0.
    log_w : ndarray, shape (2K, J)
    """

    theta: Float
    standard: Float
    common: float
    log_w: Float

    @property
    def log_weight(self) -> float:
        """log w(γ)."""
        return self.common + float(np.sum(self._highest + np.log(self.weights.mean(axis=0))))

    @property
    def noise(self) -> float:
        """Variance of log w(γ), times K: by means of every other pair, for pairs are stratified."""
        pairs = self.weights.reshape(2, -1, self.weights.shape[1]).mean(axis=0)
        one, other = pairs[::2].mean(axis=0), pairs[1::2].mean(axis=0)
        return len(pairs) * float(np.sum(((one - other) / (one + other)) ** 2))

    @property
    def weights(self) -> Float:
        """w_jk, as shares of a unit's largest, (2K, J)."""
        return np.exp(self.log_w - self._highest)

    @property
    def _highest(self) -> Float:
        return self.log_w.max(axis=0)

    def chosen(self, copies: int, rng: np.random.Generator) -> NDArray[np.intp]:
        """Numbers of candidates that are drawn by their weights, (C, J)."""
        weights = self.weights
        below = np.cumsum(weights, axis=0) / weights.sum(axis=0)
        return np.asarray((rng.random((copies, 1, len(below[0]))) > below).sum(axis=1))
