"""Design: what rows are worth to a posterior, and which of them to choose.

In coordinates in which the posterior has covariance I, a row with root Fisher information U_n,
(r, d), is expected to lower the posterior's entropy by

    Δ_n = ½ log det(I + U_n U_nᵀ),

and rows S together by ½ log det(I + Σ_S U_nᵀ U_n). That is a submodular function of S, so the
greedy choice has at least (1 − 1/e) of the best set's gain. With P the covariance given the rows
chosen so far, K_n = U_n P U_nᵀ and the row m chosen next,

    P ← P − B C⁻¹ Bᵀ,    K_n ← K_n − (U_n B) C⁻¹ (U_n B)ᵀ,    B = P U_mᵀ,    C = I + K_m:

one product with all rows for each choice. Rows may be more than memory holds. A pass over them
keeps those with the largest gains; since a gain never grows as rows are chosen, the best of those
kept is the best of all as long as its gain exceeds every gain that the pass left out. When it no
longer does, another pass starts from P.

References
----------
Seeger & Nickisch (2008), Large scale variational inference and experimental design for sparse
generalized linear models, section 6; Nemhauser, Wolsey & Fisher (1978) for the bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines import Float
from stancoreset.errors import DataError
from stancoreset.limits import NOISE

#: Chunks of consecutive rows: their root information in whitened coordinates, (n, r, d).
Roots = Callable[[], Iterator[Float]]


@dataclass(frozen=True)
class Whitened:
    """A posterior in coordinates z of covariance I: x = mean + factor z.

    `factor` (D, d) leaves directions out in which the draws do not vary; `draws` (S, d) are z.
    """

    mean: Float
    factor: Float = field(repr=False)
    draws: Float = field(repr=False)

    def covariances(self, values: Float) -> Float:
        """Covariances of quantities (S, q) with z, (q, d)."""
        return (values - values.mean(axis=0)).T @ self.draws / (len(self.draws) - 1)


def whitened(draws: Float) -> Whitened:
    """Whiten draws (S, D) by their own covariance.

    Raises
    ------
    DataError
        If they are too few for it.

    >>> z = np.random.default_rng(0).normal(size=(50, 2))
    >>> found = whitened(z @ np.array([[2.0, 1.0], [0.0, 1.0]]))
    >>> np.allclose(np.cov(found.draws.T), np.eye(2))
    True
    """
    mean, sd = draws.mean(axis=0), draws.std(axis=0, ddof=1) if len(draws) > 1 else draws[0] * 0
    vary = np.flatnonzero(sd > NOISE * np.abs(mean))
    different = len(np.unique(draws, axis=0))
    needed = max(2, 2 * len(vary))  # so that no direction's variance is all noise
    if different < needed:
        raise DataError(
            f"the posterior has {different} different draws, and the rows see {len(vary)} "
            "coordinates of it, whose covariance they cannot show: expected at least "
            f"{needed} draws, and better ten for each coordinate; sample "
            "more (iter_sampling=…)"
        )
    standard = (draws[:, vary] - mean[vary]) / sd[vary]
    values, vectors = np.linalg.eigh(standard.T @ standard / (len(draws) - 1))
    kept = values > NOISE * max(values.max(initial=0.0), 1.0)
    root, axes = np.sqrt(values[kept]), vectors[:, kept]
    factor = np.zeros((draws.shape[1], len(root)))
    factor[vary] = sd[vary, None] * axes * root
    return Whitened(mean, factor, standard @ axes / root)


@dataclass(frozen=True)
class Choice:
    """Rows in the order of choice.

    `gain` (k,) is what each adds to the expected fall of the entropy, in nats; `left` (k, q) is the
    share of the targets' linear part that is still uncertain after each: a variance, divided by the
    one before the first choice. `covariance` (d, d) is P at the end.
    """

    rows: NDArray[np.int64]
    gain: Float
    left: Float = field(repr=False)
    covariance: Float = field(repr=False)


def gains(roots: Float) -> Float:
    """½ log det(I + U_n U_nᵀ) of each row, (n, r, d) → (n,).

    >>> gains(np.array([[[1.0, 0.0]], [[0.0, 0.0]]])).round(4).tolist()
    [0.3466, 0.0]
    """
    return _half_log_det(_inner(roots))


def greedy_design(
    roots: Roots,
    width: int,
    size: int,
    *,
    target: Float | None = None,
    repeat: bool = False,
    kept: int = 1_000_000,
) -> Choice:
    """Choose rows one after the other, each with the largest gain given those before.

    Parameters
    ----------
    roots : callable
        Makes an iterator over all rows, as often as it is called.
    width : int
        Number of whitened coordinates, d.
    size : int
        Number of rows, k; fewer if there are fewer.
    target : ndarray, shape (q, d), optional
        Covariances of quantities with the whitened coordinates. A choice then lowers the sum of
        their variances most, each divided by its present one (A-optimal); by default it lowers the
        entropy most (D-optimal). The former is no submodular function: where one pass does not keep
        all rows, it chooses among those with the largest first gains.
    repeat : bool
        Whether a row may be chosen more than once.
    kept : int
        Numbers that a pass may keep.
    """
    state = _State(np.eye(width), np.empty((0, width)) if target is None else target)
    chosen: list[int] = []
    found: list[tuple[float, Float]] = []
    while len(chosen) < size:
        pool = _Pool.of(roots(), state, [] if repeat else chosen, kept)
        if not len(pool.numbers):
            break
        while len(chosen) < size and (place := pool.best()) is not None:
            chosen.append(int(pool.numbers[place]))
            found.append(pool.take(place, state, repeat=repeat))
    gain, left = (np.array(each) for each in zip(*found, strict=True))
    return Choice(np.array(chosen), gain, left, state.covariance)


@dataclass
class _State:
    """The covariance given the rows chosen so far, and the targets' covariances with whitened
    coordinates, (q, d), in units of their linear parts' standard deviations."""

    covariance: Float
    target: Float

    def __post_init__(self) -> None:
        self.target = self.target / np.linalg.norm(self.target, axis=1, keepdims=True)

    def left(self) -> Float:
        """Remaining variances of the targets, each relative to its variance before the design."""
        return np.asarray(np.einsum("qd,de,qe->q", self.target, self.covariance, self.target))


@dataclass
class _Pool:
    """The rows that a pass keeps: U (M, r, d), K (M, r, r) and H = U P Tᵀ (M, r, q).

    `numbers` are their row numbers, `beyond` is the largest gain that was left out, and `out` says
    which may not be chosen any more.
    """

    numbers: NDArray[np.int64]
    roots: Float
    inner: Float
    across: Float
    beyond: float
    out: NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        self.out = np.zeros(len(self.numbers), dtype=np.bool_)

    @classmethod
    def of(
        cls,
        chunks: Iterator[Float],
        state: _State,
        without: Sequence[int],
        kept: int,
    ) -> _Pool:
        """Collect the best rows in one pass over all rows, leaving out those of `without`."""
        pools: list[_Pool] = []
        start, beyond = 0, -np.inf
        for roots in chunks:
            across = roots @ (state.covariance @ state.target.T)
            numbers = np.arange(start, start + len(roots))
            start += len(roots)
            here = cls(numbers, roots, _inner(roots, state.covariance), across, beyond)
            free = (here.gain() > beyond) & ~np.isin(numbers, without)
            pools.append(here._only(np.flatnonzero(free)))
            if sum(pool.roots.size for pool in pools) > 2 * kept:
                pools = [_joined(pools)._best_of(kept)]
                beyond = pools[0].beyond
        return _joined(pools)._best_of(kept)

    def padded(self, rank: int) -> _Pool:
        """This pool with rows of zeros added to each root, up to `rank` rows."""
        more, none = (0, rank - self.roots.shape[1]), (0, 0)
        if not more[1]:
            return self
        return replace(
            self,
            roots=np.pad(self.roots, (none, more, none)),
            inner=np.pad(self.inner, (none, more, more)),
            across=np.pad(self.across, (none, more, none)),
        )

    def _best_of(self, kept: int) -> _Pool:
        """The rows with the largest gains, at least one, in the order of their numbers."""
        most = max(1, kept // max(1, self.roots.shape[1] * self.roots.shape[2]))
        if len(self.numbers) <= most:
            return self
        gain = self.gain()
        order = np.argpartition(-gain, most)
        best = self._only(np.sort(order[:most]))
        return replace(best, beyond=max(self.beyond, float(gain[order[most:]].max())))

    def _only(self, places: NDArray[np.intp]) -> _Pool:
        if len(places) == len(self.numbers):
            return self
        some = {n: getattr(self, n)[places] for n in ("numbers", "roots", "inner", "across")}
        return replace(self, **some)

    def gain(self) -> Float:
        """Each row's gain: nats, or the fall of the targets' variances, if there are any."""
        if not self.across.shape[2]:
            return _half_log_det(self.inner)
        if self.inner.shape[1] == 1:
            return np.asarray(np.sum(self.across[:, 0] ** 2, axis=1) / (1 + self.inner[:, 0, 0]))
        solved = np.linalg.solve(_plus_one(self.inner), self.across)
        return np.asarray(np.einsum("nrq,nrq->n", self.across, solved))

    def best(self) -> int | None:
        """The place of the best row; None if another pass might find a better one."""
        gain = np.where(self.out, -np.inf, self.gain())
        place = int(np.argmax(gain))
        if self.out[place] or (not self.across.shape[2] and gain[place] < self.beyond):
            return None
        return place

    def take(self, place: int, state: _State, *, repeat: bool) -> tuple[float, Float]:
        """Choose a row: update P, K and H; return its gain in nats, and what is left."""
        gain = float(_half_log_det(self.inner[place : place + 1])[0])
        # B C⁻¹ Bᵀ = M Mᵀ, with M = B L⁻ᵀ and C = L Lᵀ
        half = np.linalg.inv(np.linalg.cholesky(_plus_one(self.inner[place])))
        moved = state.covariance @ self.roots[place].T @ half.T
        w = self.roots @ moved
        self.inner -= w * w if w.shape[1] == 1 else w @ w.transpose(0, 2, 1)
        self.across -= w @ (moved.T @ state.target.T)
        state.covariance = state.covariance - moved @ moved.T
        self.out[place] = not repeat
        return gain, state.left()


def _joined(pools: Sequence[_Pool]) -> _Pool:
    """The rows of several pools."""
    if len(pools) == 1:
        return pools[0]
    rank = max(pool.roots.shape[1] for pool in pools)
    alike = [pool.padded(rank) for pool in pools]
    return _Pool(
        np.concatenate([pool.numbers for pool in alike]),
        np.concatenate([pool.roots for pool in alike]),
        np.concatenate([pool.inner for pool in alike]),
        np.concatenate([pool.across for pool in alike]),
        max(pool.beyond for pool in alike),
    )


def _inner(roots: Float, covariance: Float | None = None) -> Float:
    """U_n P U_nᵀ, (n, r, r); P is I by default."""
    moved = roots if covariance is None else roots @ covariance
    if roots.shape[1] == 1:
        return np.einsum("nrd,nrd->n", moved, roots)[:, None, None]
    return np.asarray(moved @ roots.transpose(0, 2, 1))


def _plus_one(inner: Float) -> Float:
    return inner + np.eye(inner.shape[-1])


def _half_log_det(inner: Float) -> Float:
    """½ log det(I + K_n), (n, r, r) → (n,)."""
    if inner.shape[1] == 1:
        return np.asarray(0.5 * np.log1p(np.maximum(inner[:, 0, 0], 0.0)))
    return np.asarray(0.5 * np.linalg.slogdet(_plus_one(inner))[1])
