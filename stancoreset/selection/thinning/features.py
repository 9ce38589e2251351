"""Functions of the parameters whose expectations few weighted draws shall reproduce.

With φ(x) the vector of all functions at a draw x, weights w on few draws are judged by

    ‖Σ w_i φ(x_i) − b‖²,   b = Σ v_j φ(x_j) over all draws, v their own weights.

The functions come in blocks. u is a draw standardised by the means and sds of all draws:

``moments``
    u_d, u_d² and u_d u_e: means, standard deviations and correlations.
``quantiles``
    1{u_d ≤ q} for 19 quantiles q of every parameter: the marginal distribution functions.
``kernel``
    √2 cos(ωᵀz + β) of the whitened draw z = Wᵀu, ω ~ N(0, I/ℓ²), β ~ U(0, 2π): the mean over m of
    them approximates the Gaussian kernel exp(−‖z − z'‖²/2ℓ²) (Rahimi & Recht 2007), so that the
    distance of expectations is the maximum mean discrepancy (MMD) of that kernel. ℓ is the median
    distance of two draws. A kernel of the user's own takes its place; see
    `stancoreset.selection.thinning.kernels`.

A block is scaled so that E‖φ(x) − b‖² over its functions is the same for all blocks, and one for
all together: the distance of n independent draws is 1/√n on average, and no kind of function
counts more than another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.spatial.distance import pdist

from stancoreset.engines import Float
from stancoreset.limits import NOISE, ROUNDING, cuts
from stancoreset.parallel import single_threaded
from stancoreset.selection.thinning.kernels import Gram

Single = NDArray[np.float32]
#: Draws: consecutive ones, or positions.
Places: TypeAlias = "slice | NDArray[np.int64]"

#: The blocks by name.
PARTS = ("moments", "quantiles", "kernel")
#: Largest number of functions of each kind; beyond it, that many are drawn at random.
MOST = 1_000
#: Probabilities of the quantiles.
_LEVELS = np.arange(1, 20) / 20


@dataclass(frozen=True)
class Standardised:
    """Draws (S, D) in units of their own weighted means and sds.

    The sd of a parameter that does not vary is infinite, so that its u is zero.
    """

    draws: Float = field(repr=False)
    weights: Float = field(repr=False)
    mean: Float
    sd: Float

    @classmethod
    def of(cls, draws: Float, weights: Float) -> Standardised:
        """Measure means and sds, block by block."""
        mean = weights @ draws
        variance, largest = np.zeros_like(mean), np.abs(mean)
        for places in cuts(len(draws), draws.shape[1]):
            variance += weights[places] @ (draws[places] - mean) ** 2
            largest = np.maximum(largest, np.abs(draws[places]).max(axis=0))
        sd = np.sqrt(variance)
        return cls(draws, weights, mean, np.where(sd > ROUNDING * largest, sd, np.inf))

    @property
    def varying(self) -> NDArray[np.intp]:
        """The parameters that vary."""
        return np.flatnonzero(np.isfinite(self.sd))

    def at(self, places: Places) -> Float:
        """u of some draws."""
        return (self.draws[places] - self.mean) / self.sd

    def sample(self, rng: np.random.Generator, count: int = 20_000) -> NDArray[np.int64]:
        """Positions of at most `count` draws, in proportion to their weights.

        As many as by default determine quantiles and correlations.
        """
        if len(self.weights) <= count and np.ptp(self.weights) == 0:
            return np.arange(len(self.weights))
        return np.sort(rng.choice(len(self.weights), count, p=self.weights)).astype(np.int64)


@dataclass(frozen=True)
class _Block:
    """`count` functions of u (D, n), the standardised draws at some places: (count, n)."""

    count: int
    values: Callable[[Single, Places], Single]


@dataclass(frozen=True)
class Features:
    """The map from draws to functions, φ, in single precision."""

    standard: Standardised
    blocks: tuple[tuple[_Block, float], ...] = field(repr=False)

    def __len__(self) -> int:
        return 1 + sum(block.count for block, _ in self.blocks)

    def at(self, places: Places) -> Single:
        """φ of some draws, (F, n), one column each. The first function is the constant 1."""
        u = np.ascontiguousarray(self.standard.at(places).T, dtype=np.float32)
        values = np.empty((len(self), u.shape[1]), dtype=np.float32)
        values[0], stop = 1.0, 1
        for block, scale in self.blocks:
            start, stop = stop, stop + block.count
            np.multiply(block.values(u, places), np.float32(scale), out=values[start:stop])
        return values

    @single_threaded  # the products are small, and threads would wait for one another
    def expectation(self) -> Float:
        """b = E φ(x) over all draws, a few at a time."""
        total, weights = np.zeros(len(self)), self.standard.weights
        for places in cuts(len(weights), len(self)):
            total += self.at(places) @ weights[places].astype(np.float32)
        return total


def feature_map(
    draws: Float,
    weights: Float,
    parts: Sequence[str] = PARTS,
    given: Float | None = None,
    *,
    gram: Gram | None = None,
    seed: int = 0,
) -> Features:
    """Choose the functions for draws (S, D) with weights (S,); see the module's notes.

    `given` (S, n) are values of the user's own functions; their means and second moments are
    matched, too. `gram` is a kernel in place of the Gaussian one.

    >>> x = np.random.default_rng(0).normal(size=(500, 2))
    >>> features = feature_map(x, np.full(500, 1 / 500), ["moments"])
    >>> features.at(slice(0, 3)).shape     # 1, two means, two squares, one product
    (6, 3)
    """
    standard, rng = Standardised.of(draws, weights), np.random.default_rng(seed)
    blocks: list[_Block] = []
    if "moments" in parts:
        blocks += _moments(standard, rng)
    if "quantiles" in parts:
        blocks.append(_indicators(standard, rng))
    if "kernel" in parts:
        blocks.append(_fourier(standard, rng) if gram is None else _factor(gram))
    if given is not None:
        blocks.append(_given(Standardised.of(given, weights)))
    return Features(standard, tuple(_scaled(blocks, standard, rng)))


def _scaled(
    blocks: Sequence[_Block], standard: Standardised, rng: np.random.Generator
) -> list[tuple[_Block, float]]:
    """The blocks that vary, each with the scale that gives all the same spread."""
    places = standard.sample(rng, 4_000)
    u = np.ascontiguousarray(standard.at(places).T, dtype=np.float32)
    spreads = [float(np.var(block.values(u, places), axis=1).sum()) for block in blocks]
    varying = [
        (block, spread) for block, spread in zip(blocks, spreads, strict=True) if spread > NOISE
    ]
    return [(block, float(1.0 / np.sqrt(spread * len(varying)))) for block, spread in varying]


def _some(count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Positions of `count` values: all, or `MOST` of them at random."""
    if count <= MOST:
        return np.arange(count)
    return np.sort(rng.choice(count, MOST, replace=False)).astype(np.int64)


def _moments(standard: Standardised, rng: np.random.Generator) -> Iterator[_Block]:
    """u_d, u_d² and u_d u_e."""
    some = standard.varying[_some(len(standard.varying), rng)]
    first, second = np.triu_indices(len(some), 1)
    pairs = _some(len(first), rng)
    one, other = some[first[pairs]], some[second[pairs]]
    yield _Block(len(some), lambda u, _: u[some])
    yield _Block(len(some), lambda u, _: u[some] * u[some])
    yield _Block(len(one), lambda u, _: u[one] * u[other])


def _indicators(standard: Standardised, rng: np.random.Generator) -> _Block:
    """1{u_d ≤ q}."""
    cells = _some(len(standard.varying) * len(_LEVELS), rng)
    column, level = np.divmod(cells, len(_LEVELS))
    chosen, within = np.unique(column, return_inverse=True)
    chosen = standard.varying[chosen]
    u = standard.at(standard.sample(rng))[:, chosen]
    found = np.quantile(u, _LEVELS, axis=0)[level, within]
    columns, thresholds = chosen[within], found.astype(np.float32)[:, np.newaxis]
    return _Block(len(columns), lambda u, _: (u[columns] <= thresholds).astype(np.float32))


def _fourier(standard: Standardised, rng: np.random.Generator) -> _Block:
    """√2 cos(ωᵀu + β), with the whitening in ω (m, D)."""
    whiten = _whitening(standard, rng)
    distances = pdist(standard.at(standard.sample(rng, 1_000)) @ whiten)
    apart = distances[distances > 0]
    length = float(np.median(apart)) if len(apart) else 1.0
    wide = rng.standard_normal((MOST, whiten.shape[1])) @ whiten.T / length
    frequencies = wide.astype(np.float32)
    phases = rng.uniform(0.0, 2.0 * np.pi, MOST).astype(np.float32)[:, np.newaxis]

    def values(u: Single, _: Places) -> Single:
        angle = frequencies @ u
        angle += phases
        np.cos(angle, out=angle)
        angle *= np.float32(np.sqrt(2.0))
        return angle

    return _Block(MOST, values)


def _given(own: Standardised) -> _Block:
    """The user's own functions, standardised, and their squares."""

    def values(_: Single, places: Places) -> Single:
        z = own.at(places).astype(np.float32).T
        return np.concatenate([z, z * z])

    return _Block(2 * len(own.mean), values)


def _factor(gram: Gram) -> _Block:
    """Functions whose inner products are a kernel of the user's own."""
    factor = gram.factor()
    return _Block(factor.shape[1], lambda _, places: factor[places].T)


def _whitening(standard: Standardised, rng: np.random.Generator, most: int = 500) -> Float:
    """W (D, D'), so that Wᵀu has nearly the covariance I.

    The correlations are shrunk towards zero by the share D/(D + S): with more parameters than
    draws, their own whitening would put all draws at the same distance from each other.
    """
    varying, count = standard.varying, len(standard.varying)
    chosen = np.zeros((len(standard.mean), count))
    chosen[varying, np.arange(count)] = 1.0
    if count > most:
        return chosen
    places = standard.sample(rng)
    u = standard.at(places)[:, varying]
    share = count / (count + len(places))
    values, vectors = eigh((1.0 - share) * (u.T @ u) / len(u) + share * np.eye(count))
    whiten: Float = chosen @ (vectors / np.sqrt(values))
    return whiten
