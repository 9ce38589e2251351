"""Effects shifted by what the rows see beside them: parameters, and the mean of other effects.

Where the rows see m + a_k, and know it better than the prior knows the mean of all effects, m goes
up as all a_k go down: a ridge, the narrower the more effects there are. In

    c_k = a_k + Σ_q A_kq φ_q,

with an A near one for φ = m, it does not exist. The log Jacobian is zero, whatever numbers A are:
they are data. Each φ is a parameter that may take any value, or the mean of effects that come
before: where rows see m + a_k + b_l, the mean of all b_l goes down as that of all a_k goes up. The
A of a covariate that groups have in common differ from group to group.

The mean of the effects themselves may be known much less, or better, than they are without it: in
c_k = a_k + (s − 1) ā it is as wide as that of independent effects would be, and the log Jacobian is
a constant. Means are weighted by precision, w_k ∝ 1 / var(a_k − ā): others have the noise of levels
with few rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stancoreset.stan.syntax import nodes as n

Float = NDArray[np.float64]


class Amount(NamedTuple):
    """How far effects are shifted: A, effects × elements of φ; weights of means, φ × effects."""

    matrix: Float
    weights: Float


NOT_SHIFTED = Amount(np.zeros((0, 0)), np.zeros((0, 0)))
#: By the effects' number and φ's name.
Shifts = Mapping[tuple[int, str], Amount]


@dataclass(frozen=True)
class Shifted:
    """Effects that may be shifted: a parameter, or part of an array."""

    name: str  # the parameter
    part: tuple[int, ...]  # which element of an array, from 1; empty for the whole parameter
    base: str  # Stan's type of the effects: ``"vector"``, ``"row_vector"`` or ``"matrix"``
    # The axis, from 1, along which effects are of several kinds; None if all are of one.
    kinds: int | None = None

    @property
    def shifted(self) -> Shifted:
        """This value itself, so that plain and centred effects are used alike."""
        return self

    def exponents(self, _: Mapping[str, Float]) -> tuple[float, ...]:
        """The one exponent, zero: shifted effects are not centred."""
        return (0.0,)

    def kind(self, shape: tuple[int, ...]) -> NDArray[np.intp]:
        """The kind of every element of effects of this shape, (d,)."""
        if self.kinds is None:
            return np.zeros(math.prod(shape), dtype=np.intp)
        return np.indices(shape)[self.kinds - 1].ravel()


@dataclass(frozen=True)
class Source:
    """φ: a parameter, or the means of each kind of other effects, of which `number` is theirs."""

    name: str
    value: n.Expr  # of means the effects
    base: str
    number: int | None = None
    kinds: int | None = None  # of the effects, as those of `Shifted`

    @classmethod
    def parameter(cls, decl: n.Decl) -> Source:
        """A parameter, a number or a vector."""
        return cls(decl.name, n.Var(decl.name), decl.size.base)

    @classmethod
    def mean(cls, number: int, effects: Shifted) -> Source:
        """The means of effects; no name in Stan begins as theirs does."""
        value = indexed(effects.name, effects.part)
        return cls(f"_mean_{number + 1}", value, effects.base, number, effects.kinds)

    def column(self, name: str) -> n.Expr:
        """φ as a vector of Stan, of means with weights by this name, row by row."""
        value, weights = self.value, n.Var(name)
        if self.number is None:
            return value if self.base == "vector" else n.call("rep_vector", value, n.ONE)
        if self.kinds is None:
            flat = n.call("to_vector", n.Transpose(value) if self.base == "matrix" else value)
            return n.call("rep_vector", n.call("dot_product", weights, flat), n.ONE)
        sizes = n.call("rows", value), n.call("cols", value)
        shaped = n.call("to_matrix", weights, *sizes, n.ZERO)
        if self.kinds == 1:
            return n.call("rows_dot_product", shaped, value)
        return n.Transpose(n.call("columns_dot_product", shaped, value))


@dataclass(frozen=True)
class Shift:
    """A shift of some effects by one φ, as statements of the program."""

    number: int  # of the effects
    effects: Shifted
    by: Source  # φ
    # Of the matrix A, effects × elements of φ, and its sizes; of a mean's weights and their number.
    name: str
    rows: str
    columns: str
    weights: str
    weighted: str

    @property
    def by_own_mean(self) -> bool:
        """Whether φ is the mean of the effects that are shifted, as they are after it."""
        return self.by.number == self.number

    @property
    def declarations(self) -> tuple[n.Decl, ...]:
        """Declarations of the matrix A and of weights in the data, sizes first."""
        none = n.Constraint("bounds", n.IntLit("0"))
        sizes = [self.rows, self.columns, *([] if self.by.number is None else [self.weighted])]
        rows, columns, *weighted = map(n.Var, sizes)
        return (
            *(n.Decl(size, n.SizedType("int"), none) for size in sizes),
            n.Decl(self.name, n.SizedType("matrix", (), (rows, columns))),
            *(n.Decl(self.weights, n.SizedType("vector", (), (one,))) for one in weighted),
        )

    def data(self, amount: Amount) -> dict[str, Any]:
        """Data for the declarations; A has no rows if nothing is shifted."""
        rows, columns = amount.matrix.shape
        found = {self.rows: rows, self.columns: columns, self.name: amount.matrix}
        if self.by.number is not None:
            # Every effect is in the mean of one kind.
            found |= {
                self.weighted: amount.weights.shape[1],
                self.weights: amount.weights.sum(axis=0),
            }
        return found

    @property
    def back(self) -> n.Stmt:
        """Statement that subtracts A φ from c, which has the effects' name, if A has rows."""
        here = indexed(self.effects.name, self.effects.part)
        amount: n.Expr = n.Binary(n.Var(self.name), "*", self.by.column(self.weights))
        if self.effects.base == "matrix":
            sizes = n.call("rows", here), n.call("cols", here)
            amount = n.call("to_matrix", amount, *sizes, n.ZERO)  # row by row
        elif self.effects.base == "row_vector":
            amount = n.Transpose(amount)
        return where_asked(n.Var(self.rows), n.Assign(here, "=", n.Binary(here, "-", amount)))


def regression(
    effects: Float,
    kind: NDArray[np.intp],
    sources: Mapping[str, Float],
    longest: int = 20,
    draws: int = 10,
) -> dict[str, Float]:
    """The A, (d, elements of φ), that leave no slope of effects on any φ.

    Without them effects would go down where φ goes up. Effects of a kind, `kind` (d,), have the
    mean slope, and their own as far as slopes differ by more than the noise of so few draws: it is
    shrunk by the share of noise in their variance.

    Draws of the `effects` are (S, d), and those of each φ (S, q). A φ of more than `longest`
    elements holds effects itself, and has no A; none has with fewer than so many `draws` for each
    element.
    """
    columns = {name: c for name, c in sources.items() if 0 < c.shape[1] <= longest}
    if not columns:
        return {}
    phi = np.hstack(list(columns.values()))
    free = len(phi) - 1 - phi.shape[1]
    if len(phi) < draws * phi.shape[1] or free < 1:
        return {}
    phi, here = phi - phi.mean(axis=0), effects - effects.mean(axis=0)
    slopes = np.linalg.lstsq(phi, here)[0]
    left = np.sum((here - phi @ slopes) ** 2, axis=0) / free
    noise = np.diag(np.linalg.pinv(phi.T @ phi))[:, None] * left
    for one in np.unique(kind):
        own = kind == one
        mean = slopes[:, own].mean(axis=1, keepdims=True)
        away = slopes[:, own] - mean
        spread = np.mean(away**2, axis=1, keepdims=True)
        share = noise[:, own].mean(axis=1, keepdims=True) / np.where(spread > 0, spread, 1.0)
        slopes[:, own] = mean + np.maximum(0.0, 1.0 - share) * away
    ends = np.cumsum([c.shape[1] for c in columns.values()])[:-1]
    return {name: -part.T for name, part in zip(columns, np.split(slopes, ends), strict=True)}


def precisions(effects: Float) -> Float:
    """1 / var(a_k − ā) of effects (S, d), (d,); of one alone it is 1."""
    variance = np.var(effects - effects.mean(axis=1, keepdims=True), axis=0)
    return 1.0 / np.where(variance > 0, variance, 1.0)


def weights_of(effects: Float, kind: NDArray[np.intp]) -> Float:
    """The weights of effects (S, d) in the mean of their kind, (kinds, d)."""
    found = np.zeros((kind.max() + 1, len(kind)))
    for one, weights in enumerate(found):
        precision = precisions(effects[:, kind == one])
        weights[kind == one] = precision / precision.sum()
    return found


def own_mean(effects: Float, kind: NDArray[np.intp]) -> Amount | None:
    """The shift by their own means with which these are as wide as those of independent effects.

    Of c = a + (s − 1) ā, with s² var ā = 1 / Σ_k 1 / var(a_k − ā), a is c + (1/s − 1) c̄. There is
    none of effects (S, d) that do not vary, nor of one alone.
    """
    if not np.all(np.var(effects, axis=0) > 0) or len(kind) <= kind.max() + 1:
        return None
    weights, matrix = weights_of(effects, kind), np.zeros((len(kind), kind.max() + 1))
    for one in range(kind.max() + 1):
        own = effects[:, kind == one]
        if own.shape[1] > 1:
            spread = np.var(own @ weights[one, kind == one])
            matrix[kind == one, one] = 1.0 - np.sqrt(spread * precisions(own).sum())  # 1 − 1/s
    return Amount(matrix, weights)


def is_free(decl: n.Decl) -> bool:
    """Whether a parameter is a number or a vector of any values, or of ordered thresholds."""
    return (
        decl.constraint.kind in ("none", "affine", "ordered")
        and not decl.size.array
        and decl.size.base in ("real", "vector")
    )


def where_asked(asked: n.Expr, s: n.Stmt) -> n.Stmt:
    """A statement that runs only where a number among the data is positive."""
    return n.If(n.Binary(asked, ">", n.ZERO), n.Block((s,)))


def indexed(name: str, part: tuple[int, ...]) -> n.Expr:
    """A variable, or an element of an array."""
    indices = tuple(n.Single(n.IntLit(str(i))) for i in part)
    return n.Index(n.Var(name), indices) if part else n.Var(name)
