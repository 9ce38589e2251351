"""Types, expressions and indices of a Stan program as small frozen dataclasses.

Used through `stancoreset.stan.syntax.nodes`, which has all nodes of the tree.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = [
    "REAL",
    "All",
    "ArrayLit",
    "Between",
    "Binary",
    "Call",
    "Expr",
    "Expression",
    "From",
    "ImagLit",
    "Index",
    "Indexing",
    "IntLit",
    "Node",
    "Paren",
    "RealLit",
    "RowLit",
    "Single",
    "Target",
    "Ternary",
    "To",
    "Transpose",
    "TupleItem",
    "TupleLit",
    "Type",
    "Unary",
    "Var",
]


class Node:
    """Anything in the tree."""


@dataclass(frozen=True)
class Type(Node):
    """A Stan type without sizes.

    Attributes
    ----------
    base : str
        ``int``, ``real``, ``vector``, ``row_vector``, ``matrix``, ``complex``, ``tuple``,
        ``function``, ``void``, or one of the complex containers.
    array : int
        Number of array dimensions around the base.
    items : tuple of Type
        The members of a tuple.
    """

    base: str
    array: int = 0
    items: tuple[Type, ...] = ()

    @property
    def rank(self) -> int:
        """Number of indices that reach a scalar."""
        inner = {"matrix": 2, "complex_matrix": 2}.get(self.base, 0)
        return self.array + (inner or ("vector" in self.base))

    def element(self) -> Type:
        """Type after one single index."""
        if self.array:
            return replace(self, array=self.array - 1)
        if self.base.endswith("matrix"):
            return Type(self.base.replace("matrix", "row_vector"))
        return Type("complex" if self.base.startswith("complex") else "real")


REAL = Type("real")


@dataclass(frozen=True, kw_only=True)
class Expression(Node):
    """Base of all expressions: `type`, and `data_only` if no parameter can reach it."""

    type: Type = REAL
    data_only: bool = False


@dataclass(frozen=True)
class IntLit(Expression):
    text: str


@dataclass(frozen=True)
class RealLit(Expression):
    text: str


@dataclass(frozen=True)
class ImagLit(Expression):
    text: str


@dataclass(frozen=True)
class Var(Expression):
    name: str


@dataclass(frozen=True)
class Single(Node):
    """``x[e]``: one element, or several if `index` is an integer array."""

    index: Expr


@dataclass(frozen=True)
class All(Node):
    """``x[:]``"""


@dataclass(frozen=True)
class From(Node):
    """``x[lower:]``"""

    lower: Expr


@dataclass(frozen=True)
class To(Node):
    """``x[:upper]``"""

    upper: Expr


@dataclass(frozen=True)
class Between(Node):
    """``x[lower:upper]``"""

    lower: Expr
    upper: Expr


@dataclass(frozen=True)
class Index(Expression):
    base: Expr
    indices: tuple[Indexing, ...]


@dataclass(frozen=True)
class Call(Expression):
    """A function call; `args` are expressions, or names of functions as `Var`.

    `user` tells a function of the program from one of Stan's. A density's first argument is
    its outcome: ``normal_lpdf(y | mu, sigma)`` has ``args = (y, mu, sigma)``.
    """

    name: str
    args: tuple[Expr, ...]
    user: bool = False


@dataclass(frozen=True)
class Unary(Expression):
    op: str
    arg: Expr


@dataclass(frozen=True)
class Transpose(Expression):
    arg: Expr


@dataclass(frozen=True)
class Binary(Expression):
    left: Expr
    op: str
    right: Expr


@dataclass(frozen=True)
class Ternary(Expression):
    condition: Expr
    yes: Expr
    no: Expr


@dataclass(frozen=True)
class Paren(Expression):
    arg: Expr


@dataclass(frozen=True)
class ArrayLit(Expression):
    items: tuple[Expr, ...]


@dataclass(frozen=True)
class RowLit(Expression):
    items: tuple[Expr, ...]


@dataclass(frozen=True)
class TupleLit(Expression):
    items: tuple[Expr, ...]


@dataclass(frozen=True)
class TupleItem(Expression):
    base: Expr
    number: int


@dataclass(frozen=True)
class Target(Expression):
    """``target()``"""


Expr = Expression
Indexing = Single | All | From | To | Between
