"""Effects shifted by parameters that the rows see beside them.

Where the rows see m + a_k, and know it better than the prior knows the mean of all effects, m goes
up as all a_k go down: a ridge, the narrower the more effects there are. In

    c_k = a_k + Σ_q A_q φ_q,

with an A near one for φ = m, it does not exist. The log Jacobian is zero, whatever numbers A are:
they are data. Each φ is a parameter that may take any value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stancoreset.stan.syntax import nodes as n

Float = NDArray[np.float64]

#: Matrices A, kinds of effects × elements of φ, by the effects' number and φ's name.
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

    def means(self, effects: Float) -> Float:
        """Mean of the effects (S, …) of each kind in every draw, (S, kinds)."""
        axes = tuple(axis for axis in range(1, effects.ndim) if axis != (self.kinds or 0))
        return effects.mean(axis=axes).reshape(len(effects), -1)

    def by(self, amount: Float, ndim: int) -> Float:
        """Amounts (S, kinds) in a shape that broadcasts against effects with `ndim` axes."""
        if self.kinds is None:
            return amount.reshape(len(amount), *(1,) * (ndim - 1))
        if self.kinds == 2:
            return amount[:, None]
        return amount.reshape(*amount.shape, *(1,) * (ndim - 2))


@dataclass(frozen=True)
class Shift:
    """A shift of some effects by one parameter φ, as statements of the program."""

    number: int  # of the effects
    effects: Shifted
    by: n.Decl  # φ
    # Of the matrix A, kinds of effects × elements of φ, and of its sizes.
    name: str
    rows: str
    columns: str

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
        phi = n.Var(self.by.name)
        column = n.call("rep_vector", phi, n.ONE) if self.by.size.base == "real" else phi
        kinds: n.Expr = n.Binary(n.Var(self.name), "*", column)
        if self.effects.kinds is None:
            amount: n.Expr = n.Index(kinds, (n.Single(n.ONE),))
        elif self.effects.kinds == 2:
            amount = n.call("rep_matrix", n.Transpose(kinds), n.call("rows", here))
        elif self.effects.base == "matrix":
            amount = n.call("rep_matrix", kinds, n.call("cols", here))
        else:
            amount = kinds
        return where_asked(n.Var(self.rows), n.Assign(here, "=", n.Binary(here, "-", amount)))


def regression(
    means: Float,
    by: Sequence[str],
    values: Mapping[str, Float],
    longest: int = 20,
    draws: int = 10,
) -> dict[str, Float]:
    """The A, (kinds, elements of φ), that leave no slope of the effects' means on any φ.

    Without them effects would go down where φ goes up. The `means` of the effects are (S, kinds),
    `by` names the φ, and `values` are their draws, (S, *shape) each. A φ of more than `longest`
    elements holds effects itself, and has no A; none has with fewer than so many `draws` for each
    element.
    """
    columns = {name: values[name].reshape(len(means), -1) for name in by}
    columns = {name: c for name, c in columns.items() if 0 < c.shape[1] <= longest}
    if not columns:
        return {}
    phi = np.hstack(list(columns.values()))
    if len(phi) < draws * phi.shape[1]:
        return {}
    slopes = np.linalg.lstsq(phi - phi.mean(axis=0), means - means.mean(axis=0))[0]
    ends = np.cumsum([c.shape[1] for c in columns.values()])[:-1]
    return {name: -part.T for name, part in zip(columns, np.split(slopes, ends), strict=True)}


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
