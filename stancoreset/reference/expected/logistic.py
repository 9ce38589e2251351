"""Expectations of the softplus and its derivatives under a Gaussian: the logistic regression's.

    S = E log(1 + e^η),   P = E σ(η),   V = E σ′(η),   T_j = E[σ″(η) He_j(Z)],   η = m + s Z

where σ is the logistic function. A narrow Gaussian is integrated by a Gauss–Hermite rule with as
many nodes as its width needs. These rules converge slowly where s is large, because σ has poles at
distance π/s from the real line of Z. There

    log(1 + e^η) = max(η, 0) + log(1 + e^−|η|)      σ(η) = 1{η > 0} − sign(η) σ(−|η|)

has expectations of the first parts in closed form, and the second parts, as σ′ and σ″, fall as
e^−|η|: at fixed places t on either side of zero only the Gaussian's density depends on m and s.

Both are accurate to about 1e-11, relative to the value. Relative accuracy is lost below 1e-12 only.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.polynomial.legendre import leggauss
from scipy.special import ndtr, roots_hermitenorm

from stancoreset.engines import Float
from stancoreset.limits import CACHED, cuts

# Largest standard deviations and the numbers of Gauss–Hermite nodes that suffice up to these; wider
# ones take Gauss–Legendre nodes on either side of zero.
_NARROW = ((0.02, 3), (0.06, 4), (0.15, 6), (0.25, 8), (0.4, 12), (0.6, 16), (0.75, 24), (0.85, 32))
_WIDE = ((1.5, 96), (np.inf, 64))
_WIDTHS = np.array([width for width, _ in (*_NARROW, *_WIDE)])
_NODES = [nodes for _, nodes in (*_NARROW, *_WIDE)]
_LAST = len(_NARROW) - 1  # the last of the narrow


def expected_softplus(mean: Float, scale: Float, highest: int = -1) -> Float:
    """S, P, V, and T_0 … T_highest, for m and s of shape (n,): (4 + highest, n).

    The mean must not be positive: for others log(1 + e^η) = η + log(1 + e^−η). S, P and V of the
    far tail therefore keep their leading digits.

    >>> expected_softplus(np.array([0.0, -9.0]), np.array([0.0, 1.0])).round(9)
    array([[6.93147181e-01, 2.03412000e-04],
           [5.00000000e-01, 2.03356000e-04],
           [2.50000000e-01, 2.03244000e-04]])
    """
    out = np.empty((4 + highest, len(mean)))
    which = np.searchsorted(_WIDTHS, scale)
    if highest >= 0:
        # Polynomials need the nodes of a Gaussian half as wide again, and those of the fourth.
        wider = np.searchsorted(_WIDTHS, 1.5 * scale)
        which = np.maximum(which, np.clip(wider, 3, _LAST))
    which = np.minimum(which, len(_NODES) - 1)  # a scale that is not a number
    for rule in np.flatnonzero(np.bincount(which, minlength=len(_NODES))):
        by_rule, nodes = _narrow if rule <= _LAST else _wide, _NODES[rule]
        rows = np.flatnonzero(which == rule)
        for cut in cuts(len(rows), nodes, CACHED, least=16):
            piece = rows[cut]
            out[:, piece] = by_rule(mean[piece], scale[piece], nodes, highest)
    return out


def _narrow(mean: Float, scale: Float, nodes: int, highest: int) -> Float:
    """Compute the expectations of `expected_softplus` by a Gauss–Hermite rule; for small scales."""
    x, w = _hermite(nodes)
    eta = mean + x[:, None] * scale
    small = np.exp(-np.abs(eta))
    larger = 1.0 / (1.0 + small)
    smaller = small * larger
    positive = eta > 0
    bend = smaller * larger
    found = [
        w @ (np.maximum(eta, 0.0) + np.log1p(small)),
        w @ np.where(positive, larger, smaller),
        w @ bend,
    ]
    if highest >= 0:
        third = bend * np.where(positive, smaller - larger, larger - smaller)
        found += [(w * he) @ third for he in polynomials(x, highest)]
    return np.stack(found)


def _wide(mean: Float, scale: Float, nodes: int, highest: int) -> Float:
    """Compute the expectations of `expected_softplus` at fixed places; for large scales."""
    t, log_part, smaller, bend, third = _fixed(nodes)
    z = mean / scale
    # Places t and −t are these numbers of standard deviations from the mean.
    above, below = np.divide.outer(t, scale) - z, -np.divide.outer(t, scale) - z
    ahead, behind = _density(above) / scale, _density(below) / scale
    both = ahead + behind
    found = [
        mean * ndtr(z) + scale * _density(z) + log_part @ both,
        ndtr(z) + smaller @ (behind - ahead),
        bend @ both,
    ]
    for up, down in zip(polynomials(above, highest), polynomials(below, highest), strict=True):
        found.append(third @ (down * behind - up * ahead))
    return np.stack(found)


def _density(z: Float) -> Float:
    return np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)


@cache
def _hermite(nodes: int) -> tuple[Float, Float]:
    """Gauss–Hermite nodes and weights for the standard normal."""
    x, w = roots_hermitenorm(nodes)
    return x, w / w.sum()


@cache
def _fixed(nodes: int, reach: float = 40.0) -> tuple[Float, ...]:
    """Places t > 0, and there log(1 + e^−t), σ(−t), σ′(t) and −σ″(t) times the weights.

    What is left of e^−t beyond `reach` is rounding error.
    """
    x, w = leggauss(nodes)
    t, w = 0.5 * reach * (x + 1.0), 0.5 * reach * w
    small = np.exp(-t)
    larger = 1.0 / (1.0 + small)
    smaller = small * larger
    bend = smaller * larger
    return t, w * np.log1p(small), w * smaller, w * bend, w * bend * (larger - smaller)


def polynomials(x: Float, highest: int) -> list[Float]:
    """He_0(x) … He_highest(x), none if `highest` is negative: He_{k+1} = x He_k − k He_{k−1}."""
    found = [np.ones_like(x), x]
    for k in range(1, highest):
        found.append(x * found[k] - k * found[k - 1])
    return found[: highest + 1]
