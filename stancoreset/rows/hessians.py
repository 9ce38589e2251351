"""Hessians from differences of gradients, in as few gradients as their zeros allow.

Central differences along every coordinate cost 2 P gradients. Effects of one grouping factor never
meet in a row, so that most second derivatives of a hierarchical model are zero, and they are so
exactly: a gradient's sum over rows is the same, bit for bit, where no row touches both parameters.

1. Which parameters meet is found by group tests. A few parameters are moved together; j may meet k
   only if every test that moves j changes the gradient along k. Levels of a factor are told apart
   by the tests that move them, of which no two levels have the same half: T tests suffice for
   C(T, T/2) levels (Sperner, 1928). Where a parameter meets several levels, the tests may name more
   than there are, never fewer.
2. Parameters of one colour are moved together in a central difference of gradients, which gives

       D_ic = Σ_{j of colour c} h_j H_ij

   An entry is read where one parameter of its colour meets i, or, by symmetry, at the transposed
   place. In a star colouring no path of four parameters that meet has two colours only, and every
   entry can be read at one of both places. The greedy colouring is that of Gebremedhin et al.
3. A difference along a random direction guards the result. If they differ, parameters meet here
   that did not before, as where a scale was zero to rounding: they are looked for again, and if
   that does not help, all 2 P gradients are taken.

Of many parameters in groups (`stancoreset.rows.blocks`) the pattern is the colouring: a colour for
each that groups share, and one for each place within a group. These Hessians are sparse matrices.

References
----------
Coleman & Moré (1984), Estimation of sparse Hessian matrices and graph coloring problems,
Mathematical Programming 28. Gebremedhin, Manne & Pothen (2005), What color is your Jacobian? Graph
coloring for computing derivatives, SIAM Review 47, section 4.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from math import comb

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from stancoreset.engines import Float
from stancoreset.errors import ReferenceFitError
from stancoreset.limits import cuts
from stancoreset.rows.blocks import MANY, AnyMatrix, Blocks, Matrix, dense, entries

Gradient = Callable[[Float], tuple[Float, Float]]
Pattern = NDArray[np.bool_]

_log = logging.getLogger(__name__)

#: The step of central differences in units of the width: it balances truncation (h²) against the
#: rounding of gradients (1/h).
STEP = 1e-3


def central_hessian(gradient: Gradient, theta: Float, scale: Float) -> Float:
    """Compute a Hessian from central differences of a gradient along every coordinate.

    H_{·j} = (∇f(θ + h_j e_j) − ∇f(θ − h_j e_j)) / 2 h_j, symmetrised, with steps of `STEP` times
    the typical width of f in each coordinate, `scale` (P,). A `ReferenceFitError` is raised if a
    gradient is not finite.
    """
    step = STEP * scale
    hessian = _differences(gradient, theta, np.diag(step)) / step[:, None]
    return 0.5 * (hessian + hessian.T)


def has_kinks(
    gradient: Gradient, theta: Float, scale: Float, wide: float = 0.1, apart: float = 0.1
) -> bool:
    """Whether a gradient jumps near a point, so that small steps do not tell the curvature.

    Difference quotients of the gradient along one random direction are compared over two steps, of
    `STEP` and of `wide` times the `scale` (P,). Those of a smooth function agree but for terms of
    second order in the steps. Where the gradient jumps, as at zero residuals of a median, the
    short step meets few jumps or none, and the quotients differ by more than a share `apart` of the
    larger one.

    >>> one, kinks = np.ones(1), np.linspace(-1, 1, 100)
    >>> smooth = lambda x: (None, -np.sinh(x))
    >>> absolute = lambda x: (None, np.sum(np.sign(kinks - x), axis=1, keepdims=True))
    >>> has_kinks(smooth, one, one), has_kinks(absolute, 0 * one, one)
    (False, True)
    """
    rng = np.random.default_rng(len(theta))
    across = scale * rng.uniform(0.5, 1.0, len(theta)) * rng.choice([-1.0, 1.0], len(theta))
    near, far = _differences(gradient, theta, np.outer([STEP, wide], across))
    near, far = scale * near / STEP, scale * far / wide
    largest = max(np.linalg.norm(near), np.linalg.norm(far))
    return bool(np.linalg.norm(near - far) > apart * largest)


@dataclass(frozen=True)
class Steps:
    """Steps of central differences that tell a curvature.

    Attributes
    ----------
    scale : ndarray, shape (P,)
        Steps are `STEP` times as long.
    jumps : bool
        Whether the gradient jumps within them, so that they are as long as the density is wide.
    """

    scale: Float
    jumps: bool

    @classmethod
    def near(cls, gradient: Gradient, theta: Float, scale: Float) -> Steps:
        """Steps at a point (P,) of a density with standard deviations of about `scale` (P,)."""
        jumps = has_kinks(gradient, theta, scale)
        return cls(scale / STEP if jumps else scale, jumps)


class Hessians:
    """Hessians of one function at several points; which parameters meet is kept from the first on.

    The coordinates' `names` tell variables and indices apart, as ``"r.3.1"`` does.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._places = _group_tests(names)
        self._tests = np.concatenate(self._places)
        #: Which parameters meet.
        self._pattern: Matrix | None = None
        self._blocks: Blocks | None = None
        #: Of each parameter; those of one colour are moved together.
        self._colour: NDArray[np.intp] | None = None

    def at(self, gradient: Gradient, theta: Float, scale: Float) -> AnyMatrix:
        """The Hessian at a point, (P, P), sparse if many parameters come in groups.

        The arguments are those of `central_hessian`.
        """
        p = len(theta)
        if not self._pays(p):
            return central_hessian(gradient, theta, scale)
        looked = self._pattern is None
        if looked:
            self._look(gradient, theta, scale)
        found = self._read(gradient, theta, scale)
        if found is None and not looked:
            _log.info("parameters meet that did not before: they are looked for again")
            self._look(gradient, theta, scale)
            found = self._read(gradient, theta, scale)
        if found is None:
            _log.info("more parameters meet than were found: all second derivatives are taken")
            found = central_hessian(gradient, theta, scale)
            self._add(Matrix(found != 0))
        return found

    def blocks(self, gradient: Gradient, theta: Float, scale: Float) -> Blocks | None:
        """The groups of many parameters, found at the first point; None if they have none."""
        if len(theta) >= MANY and self._pays(len(theta)) and self._pattern is None:
            self._look(gradient, theta, scale)
        return self._blocks

    def _pays(self, parameters: int) -> bool:
        """Whether tests pay: at most one for two parameters."""
        return 2 * len(self._tests) <= parameters

    def _look(self, gradient: Gradient, theta: Float, scale: Float) -> None:
        """Find which parameters meet at a point."""
        unchanged = _unchanged(gradient, theta, scale, self._tests)
        self._add(_meetings(unchanged, self._places))

    def _add(self, pattern: Matrix) -> None:
        """Parameters that meet at one point more."""
        self._pattern = pattern if self._pattern is None else Matrix(pattern + self._pattern > 0)
        self._blocks = Blocks.of(self._pattern)
        self._colour = None

    def _read(self, gradient: Gradient, theta: Float, scale: Float) -> AnyMatrix | None:
        """The Hessian, if the known pattern is that of this point."""
        assert self._pattern is not None
        if self._colour is None:
            self._colour = self._colours()
        if self._blocks is None and self._colour.max() + 2 >= len(theta):
            return central_hessian(gradient, theta, scale)  # with the guard, as many gradients
        found = _guarded(gradient, theta, scale, self._pattern, self._colour)
        return found if found is None or self._blocks is not None else dense(found)

    def _colours(self) -> NDArray[np.intp]:
        """Of groups a colour for each shared parameter and each place in a group; else a star's."""
        blocks = self._blocks
        if blocks is None:
            return colours(dense(self._pattern) > 0)
        return np.where(blocks.group < 0, 0, len(blocks.shared)) + blocks.place


def _unchanged(gradient: Gradient, theta: Float, scale: Float, tests: Pattern) -> Pattern:
    """Mask (T, P) of parameters along which the gradient is unchanged by each test's move.

    `tests` (T, P) says which parameters each test moves; every parameter is moved by one at least.
    """
    # Away from θ, where products of parameters may happen to be zero.
    rng = np.random.default_rng(tests.shape)
    steps = STEP * scale * rng.uniform(0.5, 1.0, (len(tests) + 1, len(theta)))
    start = theta + steps[-1]
    gradients = gradient(np.vstack([start, start + tests * steps[:-1]]))[1]
    return np.asarray(gradients[1:] == gradients[0])  # never where they are not finite


def dependencies_by_groups(
    function: Callable[[Float], Float], point: Float, width: Float, names: Sequence[str]
) -> Matrix:
    """Find which values change with which of many coordinates, (p, P), by a few tests.

    A test moves half of an index's values; see `stancoreset.rows.directions.dependencies`.
    """
    places = _group_tests(names)
    tests = np.concatenate(places)
    values = function(np.concatenate([point[None], point + tests * width]))
    return _dependencies(np.asarray(values[1:] == values[0]), places)


def _meetings(unchanged: Pattern, places: Sequence[Pattern]) -> Matrix:
    """Pairs (P, P) whose mixed derivative was non-zero in every test, without a look at most."""
    pattern = _dependencies(unchanged, places)
    both = pattern.multiply(pattern.T)
    return Matrix(both + sparse.eye_array(unchanged.shape[1], dtype=np.int8))


def _dependencies(unchanged: Pattern, places: Sequence[Pattern]) -> Matrix:
    """Pairs of a value and a coordinate such that all tests that move this change that, (p, P).

    Of every variable the tests of one index, that of most values, name pairs; all tests judge
    these. `unchanged`, (T, p), says which values the tests leave as they are.
    """
    starts = np.cumsum([0, *map(len, places)])
    finest: dict[int, slice] = {}
    for place, start in sorted(zip(places, starts, strict=False), key=lambda one: len(one[0])):
        finest[int(np.argmax(place.any(axis=0)))] = slice(start, start + len(place))
    tests = np.concatenate(places)
    found = [_named(~unchanged[rows], tests[rows]) for rows in finest.values()]
    one, other = (np.concatenate([pairs[k] for pairs in found]) for k in (0, 1))
    meet = np.ones(len(one), dtype=bool)
    for same, moved in zip(unchanged, tests, strict=True):
        meet &= ~(same[one] & moved[other])
    shape = unchanged.shape[1], tests.shape[1]
    return Matrix((meet[meet].astype(np.int8), (one[meet], other[meet])), shape=shape)


def _named(changed: Pattern, moved: Pattern) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Pairs i, j of parameters such that all tests of one index that move j change i.

    The tests of every value are equally many, so that if i is changed by as many, they are those
    of one value, which is looked up.
    """
    bit = 1 << np.arange(len(moved))  # so many values need fewer tests than an integer has bits
    columns = np.flatnonzero(moved.any(axis=0))
    size = np.count_nonzero(moved[:, columns[0]])
    codes, of_column = np.unique(bit @ moved[:, columns], return_inverse=True)
    seen, first, of_row = np.unique(bit @ changed, return_index=True, return_inverse=True)
    count = np.count_nonzero(changed[:, first], axis=0)
    same = np.flatnonzero(np.isin(seen, codes) & (count == size))
    one, other = [same], [np.searchsorted(codes, seen[same])]
    wider = np.flatnonzero(count > size)
    for cut in cuts(len(wider), len(codes)):
        some = wider[cut]
        which, value = np.nonzero((codes & ~seen[some, None]) == 0)
        one.append(some[which])
        other.append(value)
    places = np.concatenate(one), np.concatenate(other)
    within = Matrix((np.ones(len(places[0])), places), shape=(len(seen), len(codes)))
    rows: AnyMatrix = within[of_row]
    pairs = rows[:, of_column].tocoo()
    return pairs.row.astype(np.intp), columns[pairs.col]


def colours(pattern: Pattern) -> NDArray[np.intp]:
    """A star colouring of parameters of which some meet: (P, P) → (P,).

    A parameter v may have the colour of one that is two steps away, v – w – x, only if w has a
    lower colour than both. Those that meet most come first.
    """
    p = len(pattern)
    colour = np.full(p, p)  # none yet, which is no low one
    near = pattern & ~np.eye(p, dtype=bool)
    for v in np.argsort(-near.sum(axis=1), kind="stable"):
        around = np.flatnonzero(near[v])
        beyond = np.any(near[around] & (colour[around, None] > colour), axis=0)
        taken = np.concatenate([colour[around], colour[beyond]])
        colour[v] = np.setdiff1d(np.arange(p), taken)[0]
    return colour


def _guarded(
    gradient: Gradient, theta: Float, scale: Float, pattern: Matrix, colour: NDArray[np.intp]
) -> Matrix | None:
    """The Hessian by colours; None if it differs from a difference along a random direction."""
    step, p = STEP * scale, len(theta)
    of_colour = colour == np.arange(colour.max() + 1)[:, None]
    # Of different lengths along coordinates of one colour, which would else stay mixed up.
    across = step * np.random.default_rng(p).uniform(-1.0, 1.0, p)
    *moved, expected = _differences(gradient, theta, np.vstack([of_colour * step, across]))
    # Entry (i, j) is the difference of j's colour along i if no other of that colour meets i.
    row, column = (at.astype(np.intp) for at in pattern.nonzero())
    meet = Matrix((np.ones(len(row)), (row, column)), shape=(p, p))
    alone = entries(Matrix(meet @ Matrix(of_colour.T.astype(float))), row, colour[column]) == 1
    row, column = row[alone], column[alone]
    read = Matrix((np.ones(len(row)), (row, column)), shape=(p, p))
    values = np.array(moved)[colour[column], row] / step[column]
    values = values / entries(Matrix(read + read.T), row, column)
    half = Matrix((values, (row, column)), shape=(p, p))
    hessian = Matrix(half + half.T)
    return hessian if _is_right(hessian, across, expected, scale) else None


def _is_right(
    hessian: AnyMatrix, across: Float, expected: Float, scale: Float, apart: float = 1e-3
) -> bool:
    """Whether a Hessian gives the `expected` difference of gradients along a step `across`.

    It may be `apart` by a share of the terms in its sum, and by 1e-6 in units of precision.
    """
    allowed = apart * (abs(hessian) @ (STEP * scale)) + 1e-6 * STEP / scale
    return bool(np.all(np.abs(hessian @ across - expected) <= allowed))


def _differences(gradient: Gradient, theta: Float, steps: Float) -> Float:
    """Half the difference of gradients, which must be finite, around each step: (K, P) → (K, P)."""
    _, gradients = gradient(theta + np.concatenate([steps, -steps]))
    if not np.all(np.isfinite(gradients)):
        raise ReferenceFitError(
            "the gradient of the log density is not finite next to the mode: the mode lies "
            "on the edge of the parameters' support; check the constraints of the parameters, or "
            'try another reference (reference="pathfinder" or "pilot"), or posterior draws of your '
            "own (reference=draws)"
        )
    return 0.5 * (gradients[: len(steps)] - gradients[len(steps) :])


def _group_tests(names: Sequence[str]) -> list[Pattern]:
    """Tests for each index of each variable, (T, P): no two of its values share all their tests.

    They move each value equally often.
    """
    places: dict[tuple[str, int], dict[int, list[int]]] = {}
    for column, name in enumerate(names):
        variable, *indices = re.findall(r"^.*?(?=(?:\.\d+)*$)|(?<=\.)\d+", name)
        for place, index in enumerate(indices or ["1"]):
            values = places.setdefault((variable, place), {})
            values.setdefault(int(index), []).append(column)
    tests = []
    for values in places.values():
        count = next(t for t in range(1, len(values) + 1) if comb(t, (t + 1) // 2) >= len(values))
        moved = np.zeros((count, len(names)), dtype=bool)
        codes = islice(combinations(range(count), (count + 1) // 2), len(values))
        for columns, code in zip(values.values(), codes, strict=True):
            moved[np.ix_(code, columns)] = True
        tests.append(moved)
    return tests
