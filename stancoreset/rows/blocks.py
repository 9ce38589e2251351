"""Groups of coordinates that meet only through shared ones, and linear algebra in their order.

Effects of one grouping factor never meet in a row. A Hessian of a hierarchical model is thus a
block arrow: with s the coordinates that all groups share and j those of a group,

        ⎡ A    C_1ᵀ  C_2ᵀ … ⎤                ⎡ L      0     0  … ⎤
    Q = ⎢ C_1  D_1           ⎥            F = ⎢ B_1 L  L_1        ⎥      F Fᵀ = Q⁻¹
        ⎣ C_2        D_2     ⎦                ⎣ B_2 L        L_2  ⎦

with L Lᵀ = (A − Σ_j C_jᵀ D_j⁻¹ C_j)⁻¹, B_j = −D_j⁻¹ C_j and L_j L_jᵀ = D_j⁻¹: given the shared
coordinates, a Gaussian's groups are independent. Everything costs O(P G) numbers, not P², with G
shared coordinates. Of two crossed factors, whose levels meet each other, the levels of the smaller
one are shared as well: the larger is eliminated by its Schur complement, of G² numbers.

The same F from draws is the Gaussian of greatest likelihood among those with independent groups
(a decomposable graphical model): B_j are regression coefficients on the shared coordinates, and
L_j L_jᵀ the residuals' covariances. Far fewer draws than coordinates are enough for it.

References
----------
Lauritzen (1996), Graphical models, sections 5.3 and 6.1.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import LinAlgError, cho_solve, cholesky, solve_triangular
from scipy.sparse.csgraph import connected_components

from stancoreset.engines import Float
from stancoreset.limits import KEPT, NOISE, ROUNDING

#: Smallest number of coordinates at which blocks are looked for: below, a dense matrix costs less.
MANY = 150
#: Largest number of coordinates for which a dense matrix costs little.
MAX_DENSE = 1_000
#: Draws for each function of a regression from which its coefficients are known.
DRAWS_EACH = 3

Matrix = sparse.csr_array
#: A matrix as an ndarray, or as a sparse one where there are many groups.
AnyMatrix: TypeAlias = Any


@dataclass(frozen=True)
class Blocks:
    """The group of every coordinate, (P,), from 0; −1 for those that groups share.

    `hubs` are those of the shared coordinates that meet most others, where the rest are levels of a
    crossed factor; otherwise None.
    """

    group: NDArray[np.intp] = field(repr=False)
    hubs: NDArray[np.intp] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, pattern: Any) -> Blocks | None:
        """The groups of a symmetric pattern, (P, P), or None if it has no such form.

        The coordinates that meet most others are shared, as few as leave only small groups; more,
        if groups are then so much smaller that functions of second order are fewer: of a district
        and the schools in it the district.

        >>> arrow = np.eye(400)
        >>> arrow[0] = arrow[:, 0] = 1
        >>> Blocks.of(arrow).shared
        array([0])
        """
        pattern = Matrix(pattern)
        pattern = Matrix(abs(pattern) > 0)
        size = pattern.shape[0]
        if size < MANY:
            return None
        found: list[Blocks] = []
        largest = 20  # coordinates of a group: of larger ones a dense matrix knows more
        while largest and (blocks := cls._with_fewest(pattern, largest)) is not None:
            found.append(blocks)
            largest = blocks.widest // 2
        if not found:
            return cls._crossed(pattern) if size > MAX_DENSE else None
        return min(found, key=lambda blocks: blocks.functions)

    @classmethod
    def _with_fewest(cls, pattern: Matrix, largest: int) -> Blocks | None:
        """The groups of at most so many coordinates that the fewest shared ones leave."""
        degree = np.diff(pattern.indptr)
        descending = np.argsort(-degree, kind="stable")
        fewest, most = 0, pattern.shape[0] // 4  # where more are shared a dense matrix knows more
        if cls._without(pattern, descending[:most], largest) is None:
            return None
        while fewest < most:
            middle = (fewest + most) // 2
            if cls._without(pattern, descending[:middle], largest) is None:
                fewest = middle + 1
            else:
                most = middle
        return cls._without(pattern, descending[:most], largest)

    @classmethod
    def _without(cls, pattern: Matrix, shared: NDArray[np.intp], largest: int) -> Blocks | None:
        """The groups that are left without some coordinates, if all are small."""
        group = np.full(pattern.shape[0], -1)
        rest = np.setdiff1d(np.arange(pattern.shape[0]), shared)
        _, group[rest] = connected_components(pattern[rest][:, rest], directed=False)
        return cls(group) if np.bincount(group[rest]).max() <= largest else None

    @classmethod
    def _crossed(cls, pattern: Matrix) -> Blocks | None:
        """Groups of one coordinate, where without hubs the others meet as two crossed factors do.

        Such a graph is bipartite: in its double cover, which joins (i, 0) to (j, 1) where i meets
        j, these are in two components, one for each factor.
        """
        size = pattern.shape[0]
        hub = np.diff(pattern.indptr) > 0.5 * size
        rest = np.flatnonzero(~hub)
        meet = pattern[rest][:, rest].astype(float)
        meet = Matrix(meet - sparse.diags_array(meet.diagonal()))
        meet.eliminate_zeros()
        cover: AnyMatrix = sparse.block_array([[None, meet], [meet.T, None]], format="csr")
        _, sheet = connected_components(cover, directed=False)
        here, there = sheet[: len(rest)], sheet[len(rest) :]
        _, part = connected_components(meet, directed=False)
        if not len(rest) or np.any((here == there) & (np.diff(meet.indptr) > 0)):
            return None
        # Of each connected part the smaller side is shared; lonely coordinates are not.
        first = here < there
        count = np.bincount(part)
        smaller = 2 * np.bincount(part, weights=first) <= count
        shared = np.where(smaller[part], first, ~first) & (np.diff(meet.indptr) > 0)
        group = np.full(size, -1)
        group[rest[~shared]] = np.arange(np.count_nonzero(~shared))
        many = np.count_nonzero(group < 0)
        # F has P G entries, which pay up to half of P².
        fits = many <= min(0.5 * size, KEPT / size)
        return cls(group, np.flatnonzero(hub)) if fits else None

    @cached_property
    def star(self) -> Blocks:
        """Groups in which only hubs are shared: a crossed factor's levels are groups of one."""
        if self.hubs is None:
            return self
        group = self.group.copy()
        crossed = np.setdiff1d(self.shared, self.hubs)
        group[crossed] = group.max() + 1 + np.arange(len(crossed))
        return Blocks(group, self.hubs)

    @cached_property
    def shared(self) -> NDArray[np.intp]:
        """Coordinates that groups share, (G,)."""
        return np.flatnonzero(self.group < 0)

    @cached_property
    def local(self) -> NDArray[np.intp]:
        """The coordinates that belong to a group, ascending."""
        return np.flatnonzero(self.group >= 0)

    @cached_property
    def members(self) -> tuple[NDArray[np.intp], ...]:
        """The coordinates of groups of each size b, (J, b)."""
        order = self.local[np.argsort(self.group[self.local], kind="stable")]
        size = np.bincount(self.group[self.local])
        first = np.cumsum(size) - size
        return tuple(
            order[first[size == b][:, None] + np.arange(b)] for b in np.unique(size[size > 0])
        )

    @cached_property
    def in_groups(self) -> NDArray[np.intp]:
        """The coordinates of `members`, one after the other, (l,)."""
        return np.concatenate([block.ravel() for block in self.members])

    @cached_property
    def place(self) -> NDArray[np.intp]:
        """The number of each coordinate among those of its group, or among the shared ones."""
        place = np.empty(len(self.group), dtype=np.intp)
        place[self.shared] = np.arange(len(self.shared))
        for block in self.members:
            place[block] = np.arange(block.shape[1])
        return place

    @property
    def widest(self) -> int:
        """Coordinates of the largest group."""
        return max(block.shape[1] for block in self.members)

    @property
    def numbers(self) -> int:
        """Largest number of a factor's numbers."""
        return self._places[2]

    @property
    def functions(self) -> int:
        """Number of functions 1, s, z, z zᵀ and z sᵀ of shared coordinates s and one group's z."""
        shared, own = len(self.shared), self.widest
        return (1 + shared) * (1 + own) + own * (own + 1) // 2

    def root(self, precision: Matrix) -> Matrix:
        """F with F Fᵀ a block arrow's inverse; a LinAlgError if it is not positive definite."""
        return self._assembled(*self._inverse(precision))

    def factor(self, precision: Matrix) -> BlockFactor:
        """A factor that keeps what is sparse of a block arrow; errors are those of `root`."""
        if self.hubs is None:
            schur, parts = self._parts(precision)
            roots = tuple(_inverse_roots(own) for _, own, _ in parts)
            cross: AnyMatrix = np.concatenate([_stacked(beside) for _, _, beside in parts])
            for root, (_, _, beside) in zip(roots, parts, strict=True):
                along = _stacked(root.swapaxes(1, 2) @ beside)
                schur -= along.T @ along
        else:
            # Most levels of crossed factors do not meet, and groups have one coordinate each.
            shared, (block,) = self.shared, self.members
            roots = (_inverse_roots(precision.diagonal()[block][:, :, None]),)
            whole = Matrix(precision[:, shared])
            cross = whole[block.ravel()]
            scaled = sparse.diags_array(roots[0].ravel()) @ cross
            schur = (whole[shared] - scaled.T @ scaled).toarray()
        lower = cholesky(schur, lower=True) if len(self.shared) else schur
        return BlockFactor(self, roots, cross, lower)

    def variances(self, precision: Matrix) -> Float:
        """Diagonal of the inverse of a block arrow, (P,); errors are those of `root`."""
        root, parts = self._inverse(precision)
        found = np.empty(len(self.group))
        found[self.shared] = np.sum(root**2, axis=1)
        for block, slopes, roots in parts:
            found[block] = np.sum(_times(slopes, root) ** 2, axis=2) + np.sum(roots**2, axis=2)
        return found

    def _inverse(
        self, precision: Matrix
    ) -> tuple[Float, list[tuple[NDArray[np.intp], Float, Float]]]:
        """L, and B_j and L_j for the groups of each size."""
        schur, parts = self._parts(precision)
        found = []
        for block, own, cross in parts:
            roots = _inverse_roots(own)
            slopes = -(roots @ roots.swapaxes(-1, -2)) @ cross
            schur += _stacked(cross).T @ _stacked(slopes)
            found.append((block, slopes, roots))
        return (_inverse_roots(schur[None])[0] if len(schur) else schur), found

    def semidefinite(self, matrix: Matrix) -> tuple[Matrix, Float, Float]:
        """Split a block arrow M into a positive semi-definite Q and its negative part V diag(v) Vᵀ.

        With Q the first, positive semi-definite, M = Q − V diag(v) Vᵀ, where V (G, r) and v (r,)
        are along shared coordinates; except that what is negative within a group, given these, is
        left out.
        """
        shared = self.shared
        corner, found = self._parts(matrix)
        schur, parts = corner.copy(), []
        least = ROUNDING * max(1.0, float(np.abs(matrix.data).max(initial=0.0)))
        for block, own, cross in found:
            values, vectors = np.linalg.eigh(own)
            kept = values > least
            vectors = vectors * kept[:, None, :]
            along = np.einsum("jba,jbg->jag", vectors, cross)
            slopes = along / np.where(kept, values, 1.0)[:, :, None]
            schur -= _stacked(along).T @ _stacked(slopes)
            beside = vectors @ along
            positive = vectors * values[:, None, :] @ vectors.swapaxes(-1, -2)
            parts.append((positive, *_square(block)))
            parts.append((beside, block[:, :, None], shared))
            parts.append((beside.swapaxes(1, 2), shared[:, None], block[:, None, :]))
        values, vectors = np.linalg.eigh(0.5 * (schur + schur.T))
        negative = values < -least
        vectors, values = vectors[:, negative], -values[negative]
        parts.append((corner + (vectors * values) @ vectors.T, shared[:, None], shared))
        return self.placed(parts), vectors, values

    def root_of_draws(self, centred: Float) -> Matrix | None:
        """F of draws without their mean, (S, P); None if they are too few."""
        count, shared = len(centred), self.shared
        free = count - 1 - len(shared)
        if count < DRAWS_EACH * len(shared) or free < DRAWS_EACH * self.widest:
            return None
        left, singular, right = np.linalg.svd(centred[:, shared], full_matrices=False)
        root = right.T * (singular / np.sqrt(count - 1))
        known = singular > NOISE * singular.max(initial=0.0)
        axes, inverse = left[:, known], right[known].T / singular[known]
        parts = []
        for block in self.members:
            own = centred[:, block]
            slopes = np.einsum("gk,ks->gs", inverse, axes.T) @ own.reshape(count, -1)
            residual = own - (centred[:, shared] @ slopes).reshape(own.shape)
            covariance = np.einsum("sja,sjb->jab", residual, residual) / free
            # A coordinate that is constant keeps a spread of zero.
            width = np.sqrt(np.einsum("jaa->ja", covariance))
            width = np.where(width > 0, width, 1.0)
            correlation = covariance / width[:, :, None] / width[:, None, :]
            values, vectors = np.linalg.eigh(correlation)
            roots = width[:, :, None] * vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
            by_group = slopes.reshape(len(shared), *block.shape).transpose(1, 2, 0)
            parts.append((block, by_group, roots))
        return self._assembled(root, parts)

    def _parts(self, matrix: Matrix) -> tuple[Float, list[tuple[NDArray[np.intp], Float, Float]]]:
        """A, and the coordinates (J, b), D_j and C_j of the groups of each size."""
        own, cross, size = self._places
        row = np.repeat(np.arange(len(self.group)), np.diff(matrix.indptr))
        column = matrix.indices
        beside = self.group[column] < 0
        kept = beside | (self.group[row] == self.group[column])
        at = np.where(beside, cross[row], own[row]) + self.place[column]
        values = np.bincount(at[kept], matrix.data[kept], size).astype(np.float64, copy=False)
        shared, parts, end = len(self.shared), [], 0
        for block in self.members:
            count, width = block.shape
            begin, middle, end = end, end + width * block.size, end + (width + shared) * block.size
            inner = values[begin:middle].reshape(count, width, width)
            parts.append((block, inner, values[middle:end].reshape(count, width, shared)))
        return values[end:].reshape(shared, shared), parts

    @cached_property
    def _places(self) -> tuple[NDArray[np.intp], NDArray[np.intp], int]:
        """Where a row of D_j, and of C_j or A, begins among all numbers, and how many they are."""
        own = np.zeros(len(self.group), dtype=np.intp)
        cross = own.copy()
        shared, end = len(self.shared), 0
        for block in self.members:
            width = block.shape[1]
            number = np.arange(block.size).reshape(block.shape)
            own[block] = end + width * number
            end += width * block.size
            cross[block] = end + shared * number
            end += shared * block.size
        cross[self.shared] = end + shared * np.arange(shared)
        return own, cross, end + shared**2

    def _assembled(self, root: Float, parts: list[tuple[NDArray[np.intp], Float, Float]]) -> Matrix:
        """F of L, and of B_j and L_j for the groups of each size."""
        shared = self.shared
        pieces = [(root, shared[:, None], shared)]
        for block, slopes, roots in parts:
            pieces.append((_times(slopes, root), block[:, :, None], shared))
            pieces.append((roots, *_square(block)))
        return self.placed(pieces)

    def placed(self, pieces: list[tuple[Float, NDArray[np.intp], NDArray[np.intp]]]) -> Matrix:
        """A matrix of pieces, each with the rows and columns of its entries, which broadcast."""
        size = len(self.group)
        placed = [np.broadcast_arrays(*piece) for piece in pieces]
        values, rows, columns = (np.concatenate([p[k].ravel() for p in placed]) for k in range(3))
        there = values != 0
        return Matrix((values[there], (rows[there], columns[there])), shape=(size, size))


@dataclass(frozen=True)
class BlockFactor:
    """A factored block arrow Q, by its groups and the Schur complement of what they share.

    Groups' rows are in the order of `blocks.in_groups`. `roots` are W_j, (J, b, b) of the groups of
    each size, with W_j W_jᵀ = D_j⁻¹; `cross` C (l, G), between the groups' coordinates and the
    shared ones; and `lower` L with L Lᵀ = A − Cᵀ D⁻¹ C.
    """

    blocks: Blocks = field(repr=False)
    roots: tuple[Float, ...] = field(repr=False)
    cross: AnyMatrix = field(repr=False)
    lower: Float = field(repr=False)

    @property
    def log_det(self) -> float:
        """log det Q."""
        own = sum(np.sum(np.log(np.einsum("jaa->ja", root))) for root in self.roots)
        return 2.0 * float(np.sum(np.log(np.diag(self.lower))) - own)

    def solve(self, slope: Float) -> Float:
        """Q⁻¹ times a vector, (P,)."""
        shared, local = self.blocks.shared, self.blocks.in_groups
        own = self._by_own(slope[local])
        found = np.empty_like(slope)
        rest = slope[shared] - self.cross.T @ own
        found[shared] = cho_solve((self.lower, True), rest) if len(shared) else rest
        found[local] = own - self._by_own(self.cross @ found[shared])
        return found

    def spread(self, noise: Float) -> Float:
        """Draws of N(0, Q⁻¹) from standard normal ones, (S, P) → (S, P)."""
        shared, local = self.blocks.shared, self.blocks.in_groups
        found = np.empty_like(noise)
        if len(shared):
            found[:, shared] = solve_triangular(
                self.lower, noise[:, shared].T, lower=True, trans="T"
            ).T
        by_shared = self._by_own(self.cross @ found[:, shared].T)
        found[:, local] = (self._times(self.roots, noise[:, local].T) - by_shared).T
        return found

    def _by_own(self, values: Float) -> Float:
        """D⁻¹ times a vector (l,) or a matrix (l, S)."""
        turned = tuple(root.swapaxes(1, 2) for root in self.roots)
        return self._times(self.roots, self._times(turned, values))

    def _times(self, matrices: tuple[Float, ...], values: Float) -> Float:
        """Groups' matrices times a vector (l,) or a matrix (l, S)."""
        found, begin = [], 0
        for each in matrices:
            count, width, _ = each.shape
            end = begin + count * width
            found.append((each @ values[begin:end].reshape(count, width, -1)).ravel())
            begin = end
        return np.concatenate(found).reshape(values.shape)


def _square(block: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows and columns of groups' own entries, of their coordinates (J, b)."""
    return block[:, :, None], block[:, None, :]


def _stacked(blocks: Float) -> Float:
    """(J, b, G) → (J b, G)."""
    return blocks.reshape(blocks.shape[0] * blocks.shape[1], blocks.shape[2])


def _times(blocks: Float, matrix: Float) -> Float:
    """(J, b, G) times (G, H) as one product: J small ones would read the matrix J times."""
    return (_stacked(blocks) @ matrix).reshape(*blocks.shape[:2], matrix.shape[1])


def without_negative(matrix: AnyMatrix) -> AnyMatrix:
    """The positive semi-definite part of a symmetric matrix, (p, p); itself if it has no other.

    A block arrow stays one: what is negative in a group, given the shared coordinates, is left out
    first, then what is negative along these. A sparse matrix that is none stays as it is, and so
    does one with entries that are not finite.

    >>> without_negative(np.diag([2.0, -1.0])).tolist()
    [[2.0, 0.0], [0.0, 0.0]]
    """
    blocks = Blocks.of(matrix) if is_sparse(matrix) else None
    numbers = matrix.data if is_sparse(matrix) else matrix
    if (is_sparse(matrix) and blocks is None) or not np.isfinite(numbers).all():
        return matrix
    least = NOISE * float(np.abs(matrix.diagonal()).max(initial=0.0))
    with suppress(LinAlgError):
        if blocks is None:
            cholesky(matrix + least * np.eye(len(matrix)))
        else:
            blocks.factor(Matrix(matrix + least * sparse.eye_array(matrix.shape[0])))
        return matrix
    if blocks is not None:
        return blocks.semidefinite(Matrix(matrix))[0]
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


def quadratic_terms(
    delta: Float, gradient: Float, matrix: AnyMatrix, shared: NDArray[np.bool_]
) -> Float:
    """Terms of gᵀδ − ½ δᵀAδ, each of one coordinate by itself or with `shared` ones, (S, p).

    Those of coordinates that meet by themselves, in a group, are halved between them; those of
    shared coordinates alone are zero.
    """
    bent = 0.5 * np.asarray((delta + np.where(shared, delta, 0.0)) @ matrix)
    return np.where(shared, 0.0, delta * (gradient - bent))


def is_sparse(matrix: AnyMatrix) -> bool:
    """Whether a matrix is sparse."""
    return bool(sparse.issparse(matrix))


def dense(matrix: AnyMatrix) -> Float:
    """A matrix as an ndarray."""
    return np.asarray(matrix.toarray() if is_sparse(matrix) else matrix)


def entries(matrix: Matrix, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> Float:
    """Entries of a sparse matrix at places whose indices broadcast."""
    rows, columns = np.broadcast_arrays(rows, columns)
    found: AnyMatrix = matrix[rows.ravel(), columns.ravel()]
    return dense(found).reshape(rows.shape)


def _inverse_roots(matrices: Float) -> Float:
    """F with F Fᵀ the inverse of each positive definite matrix, (J, b, b), or a LinAlgError."""
    scale = np.einsum("jaa->ja", matrices)
    if not np.all(scale > 0):
        raise LinAlgError("a diagonal entry is not positive")
    scale = np.sqrt(scale)
    scaled = matrices / scale[:, :, None] / scale[:, None, :]
    if len(matrices) == 1:
        lower = cholesky(scaled[0], lower=True)
        inverse = solve_triangular(lower, np.eye(len(lower)), lower=True)[None]
    else:
        inverse = np.linalg.inv(np.linalg.cholesky(scaled))
    return np.asarray(inverse.swapaxes(-1, -2) / scale[:, :, None])
