"""Sparse Jacobians of many points by differences along a few directions.

Columns of a Jacobian that have no row in common are read from one difference (Curtis, Powell &
Reid, 1974). Of a symmetric one, an entry in the row of a *hub*, a column with many rows, is read
from the hub's own column, so that other columns may meet there.

References
----------
Curtis, Powell and Reid (1974), On the estimation of sparse Jacobian matrices, IMA Journal of
Applied Mathematics 13. Powell and Toint (1979), On the estimation of sparse Hessian matrices, SIAM
Journal on Numerical Analysis 16.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from stancoreset.engines import Float
from stancoreset.rows.blocks import Matrix
from stancoreset.rows.hessians import dependencies_by_groups

#: Points (S, P) → values (S, p).
Map = Callable[[Float], Float]


def dependencies(
    function: Map, point: Float, width: Float, names: Sequence[str], few: int = 400
) -> Matrix:
    """Find which values change with which coordinates, (p, P), at a point without coincidences.

    Steps have the lengths `width`; the coordinates' `names` tell variables and indices apart, as
    ``"r.3.1"`` does. Of more coordinates than a `few` hundred, groups are moved together.

    >>> pairs = lambda x: np.stack([x[:, 0] * x[:, 1], x[:, 2]], axis=1)
    >>> dependencies(pairs, np.ones(3), np.ones(3), "abc").toarray().astype(int)
    array([[1, 1, 0],
           [0, 0, 1]])
    """
    if len(point) > few:
        return dependencies_by_groups(function, point, width, names)
    values = function(np.concatenate([point[None], point + np.diag(width)]))
    return Matrix((values[1:] != values[0]).T)


@dataclass(frozen=True)
class Directions:
    """Directions along which a Jacobian of known pattern is read; its `shape` is (p, d).

    `steps` (C, P) are a step along each direction, in all P coordinates. Of every entry, `entry`
    (2, nnz) are row and column, `along` and `at` the direction and the value whose difference it
    is, and `length` that of the step along its coordinate. `kept` says which values are rows; by
    default all are.
    """

    shape: tuple[int, int]
    steps: Float = field(repr=False)
    entry: NDArray[np.intp] = field(repr=False)
    along: NDArray[np.intp] = field(repr=False)
    at: NDArray[np.intp] = field(repr=False)
    length: Float = field(repr=False)
    kept: NDArray[np.bool_] | None = field(default=None, repr=False)

    @property
    def count(self) -> int:
        """Number of directions C."""
        return len(self.steps)

    @classmethod
    def of(cls, pattern: Matrix, columns: NDArray[np.bool_], width: Float) -> Directions:
        """Directions for a Jacobian (p, d) along some of P coordinates, `columns` (P,)."""
        colour = _colours(pattern)
        entry = np.array(pattern.nonzero(), dtype=np.intp)
        own = width[columns]
        return cls(
            (pattern.shape[0], pattern.shape[1]),
            _steps(colour, columns, width),
            entry,
            colour[entry[1]],
            entry[0],
            own[entry[1]],
        )

    @classmethod
    def symmetric(cls, pattern: Matrix, columns: NDArray[np.bool_], width: Float) -> Directions:
        """Directions for a Hessian (d, d) along some of P coordinates, `columns` (P,)."""
        pattern = Matrix(((pattern + pattern.T) > 0) + sparse.eye_array(pattern.shape[0]) > 0)
        hub = _hubs(pattern)
        rest = Matrix(sparse.diags_array((~hub).astype(float)) @ pattern.astype(float))
        colour = np.empty(len(hub), dtype=np.intp)
        colour[~hub] = _colours(rest[:, ~hub])
        colour[hub] = colour[~hub].max(initial=-1) + 1 + np.arange(hub.sum())
        entry = np.array(pattern.nonzero(), dtype=np.intp)
        row, column = entry
        turned = hub[row] & ~hub[column]
        source = np.where(turned, row, column)
        return cls(
            (pattern.shape[0], pattern.shape[1]),
            _steps(colour, columns, width),
            entry,
            colour[source],
            np.where(turned, column, row),
            width[columns][source],
            columns,
        )

    def ahead(self, points: Float) -> Float:
        """Points (S, P), each followed by those a step ahead of it: (S (1 + C), P)."""
        return _moved(points, self.steps)

    def around(self, points: Float) -> Float:
        """Points (S, P), each followed by those ahead of it and behind it: (S (1 + 2 C), P)."""
        return _moved(points, np.concatenate([self.steps, -self.steps]))

    def forward(self, values: Float) -> tuple[Float, Callable[[int], Matrix]]:
        """Values at the points from those at `ahead`, and a function that reads each Jacobian.

        The next Jacobian takes the place of the one before.
        """
        values = _by_point(values, 1 + self.count)
        return values[:, 0], lambda k: self._placed(values[k, 1:] - values[k, 0])

    def central(self, values: Float) -> tuple[Float, Callable[[int], Matrix]]:
        """Values at the points from those at `around`, and a function that reads each Jacobian.

        The next Jacobian takes the place of the one before.
        """
        count = self.count
        values = _by_point(values, 1 + 2 * count)
        return values[:, 0], lambda k: self._placed(
            0.5 * (values[k, 1 : count + 1] - values[k, count + 1 :])
        )

    def _placed(self, difference: Float) -> Matrix:
        if self.kept is not None:
            difference = difference[:, self.kept]
        order, jacobian = self._layout
        jacobian.data = (difference[self.along, self.at] / self.length)[order]
        return jacobian

    @property
    def pattern(self) -> Matrix:
        """A Jacobian whose entries are ones."""
        return Matrix((np.ones(len(self.along)), (self.entry[0], self.entry[1])), shape=self.shape)

    @cached_property
    def _layout(self) -> tuple[NDArray[np.intp], Matrix]:
        """The entries' order in a sparse matrix, and the matrix, which takes long to make."""
        numbers = 1 + np.arange(len(self.along))
        placed = Matrix((numbers, (self.entry[0], self.entry[1])), shape=self.shape)
        return placed.data - 1, placed.astype(np.float64)


def _moved(points: Float, steps: Float) -> Float:
    """Points, each followed by what every step leads to."""
    size = points.shape[1]
    moved = points[:, None] + np.concatenate([np.zeros((1, size)), steps])
    return moved.reshape(-1, size)


def _by_point(values: Float, each: int) -> Float:
    """Values (S · each, p) as (S, each, p), also where p is zero."""
    return values.reshape(len(values) // each, each, values.shape[1])


def _steps(colour: NDArray[np.intp], columns: NDArray[np.bool_], width: Float) -> Float:
    steps = np.zeros((int(colour.max(initial=-1)) + 1, len(columns)))
    places = np.flatnonzero(columns)
    steps[colour, places] = width[places]
    return steps


def _hubs(pattern: Matrix) -> NDArray[np.bool_]:
    """Columns with so many rows that a direction of their own costs less than their conflicts."""
    degree = np.diff(pattern.tocsc().indptr)
    return np.asarray(degree > 2 * np.sqrt(pattern.shape[1]))


def _colours(pattern: Matrix) -> NDArray[np.intp]:
    """A colour for every column, such that columns of one colour have no row in common."""
    pattern = Matrix(pattern).astype(np.int32)
    meets = Matrix(pattern.T @ pattern)
    size = pattern.shape[1]
    colour = np.full(size, -1)
    degree = np.diff(meets.indptr)
    if np.all(degree <= 1):
        return np.zeros(size, dtype=np.intp)
    for column in np.argsort(-degree, kind="stable"):
        around = colour[meets.indices[meets.indptr[column] : meets.indptr[column + 1]]]
        taken = np.zeros(len(around) + 1, dtype=bool)
        taken[around[(around >= 0) & (around <= len(around))]] = True
        colour[column] = int(np.argmin(taken))
    return colour
