"""Effects shifted by what the rows see beside them: parameters, and the mean of other effects.

Where the rows see m + a_k, and know it better than the prior knows the mean of all effects, m goes
up as all a_k go down: a ridge, the narrower the more effects there are. In

    c_k = a_k + Σ_q A_kq φ_q,

with an A near one for φ = m, it does not exist. The log Jacobian is zero, whatever numbers A are:
they are data. Each φ is a parameter that may take any value, or the mean of effects that come
before: where rows see m + a_k + b_l, the mean of all b_l goes down as that of all a_k goes up. The
A of a covariate that groups have in common differ from group to group.

Of the mean of the effects themselves, c_k = a_k + (s − 1) ā, it is known much less than effects
without their mean, or much better; s makes it as wide as that of independent effects would be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stancoreset.stan.syntax import nodes as n

Float = NDArray[np.float64]

#: Matrices A, effects × elements of φ, by the effects' number and φ's name.
Shifts = Mapping[tuple[int, str], Float]


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
        number = np.zeros(shape, dtype=np.intp)
        if self.kinds is not None:
            number += np.expand_dims(
                np.arange(shape[self.kinds - 1]), tuple(set(range(len(shape))) - {self.kinds - 1})
            )
        return number.ravel()


@dataclass(frozen=True)
class Source:
    """φ: a parameter, or the mean of effects that come before."""

    name: str
    column: n.Expr  # a vector of Stan
    of_effects: int | None = None  # their number

    @classmethod
    def parameter(cls, decl: n.Decl) -> Source:
        """A parameter, a number or a vector."""
        phi = n.Var(decl.name)
        return cls(decl.name, n.call("rep_vector", phi, n.ONE) if decl.size.base == "real" else phi)

    @classmethod
    def mean(cls, number: int, effects: Shifted) -> Source:
        """The mean of effects of one kind."""
        value = n.call("mean", indexed(effects.name, effects.part))
        return cls(f"mean_{number + 1}", n.call("rep_vector", value, n.ONE), number)


@dataclass(frozen=True)
class Shift:
    """A shift of some effects by one φ, as statements of the program."""

    number: int  # of the effects
    effects: Shifted
    by: Source  # φ
    # Of the matrix A, effects × elements of φ, and of its sizes.
    name: str
    rows: str
    columns: str

    @property
    def by_own_mean(self) -> bool:
        """Whether φ is the mean of the effects that are shifted, as they are after it."""
        return self.by.of_effects == self.number

    @property
    def declarations(self) -> tuple[n.Decl, ...]:
        """Declarations of the matrix A in the data, sizes first."""
        sizes = self.rows, self.columns
        none = n.Constraint("bounds", n.IntLit("0"))
        matrix = n.SizedType("matrix", (), tuple(map(n.Var, sizes)))
        whole = (n.Decl(size, n.SizedType("int"), none) for size in sizes)
        return (*whole, n.Decl(self.name, matrix))

    def data(self, amount: Float) -> dict[str, Any]:
        """Data for the declarations of A; A has no rows if nothing is shifted."""
        return {self.rows: amount.shape[0], self.columns: amount.shape[1], self.name: amount}

    @property
    def back(self) -> n.Stmt:
        """Statement that subtracts A φ from c, which has the effects' name, if A has rows."""
        here = indexed(self.effects.name, self.effects.part)
        amount: n.Expr = n.Binary(n.Var(self.name), "*", self.by.column)
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


def own_mean(effects: Float) -> Float:
    """The A, (d, 1), with which the mean of effects (S, d) is as wide as of independent ones.

    Of c = a + (s − 1) ā, with s² = var(a_k − ā) d / (d − 1) over d var(ā), a is c + (1/s − 1) c̄.
    """
    size = effects.shape[1]
    mean = effects.mean(axis=1, keepdims=True)
    own, of_mean = np.mean(np.var(effects - mean, axis=0)), (size - 1) * np.var(mean)
    return np.full((size, 1), 1.0 - np.sqrt(of_mean / own) if own > 0 and of_mean > 0 else 0.0)


def is_free(decl: n.Decl) -> bool:
    """Whether a parameter is a number or a vector whose elements may take any value.

    Those that are ordered are the thresholds of ordinal outcomes.
    """
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
