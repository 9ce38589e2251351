"""Declarations, statements and the whole of a Stan program as small frozen dataclasses.

Used through `stancoreset.stan.syntax.nodes`, which has all nodes of the tree.
"""

from __future__ import annotations

from dataclasses import dataclass

from stancoreset.stan.syntax.expression_nodes import Expr, Node, Type

__all__ = [
    "Assign",
    "Block",
    "Break",
    "Constraint",
    "Continue",
    "Decl",
    "For",
    "ForEach",
    "FunDef",
    "If",
    "JacobianAdd",
    "Message",
    "Parameter",
    "Profile",
    "Program",
    "Return",
    "SizedType",
    "Skip",
    "Statement",
    "Stmt",
    "TargetAdd",
    "Tilde",
    "VoidCall",
    "While",
]


@dataclass(frozen=True)
class SizedType(Node):
    """A declared type: ``array[array…] base[sizes…]``, sizes as expressions.

    A tuple has its members in `items`.
    """

    base: str
    array: tuple[Expr, ...] = ()
    sizes: tuple[Expr, ...] = ()
    items: tuple[SizedType, ...] = ()

    @property
    def dims(self) -> tuple[Expr, ...]:
        """All dimensions, outermost first."""
        return self.array + self.sizes

    @property
    def type(self) -> Type:
        return Type(self.base, len(self.array), tuple(i.type for i in self.items))


@dataclass(frozen=True)
class Constraint(Node):
    """Constraint of a declaration.

    `kind` is ``none``, ``bounds`` (`lower`, `upper`), ``affine`` (`offset`, `multiplier`),
    ``tuple`` (`items`), or Stan's type name: ``simplex``, ``ordered``, ``cov_matrix``, …
    """

    kind: str = "none"
    lower: Expr | None = None
    upper: Expr | None = None
    offset: Expr | None = None
    multiplier: Expr | None = None
    items: tuple[Constraint, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Statement(Node):
    """Base of all statements; `line` is the line in the user's source, 0 if unknown."""

    line: int = 0


@dataclass(frozen=True)
class Decl(Statement):
    """The declaration of one variable; ``int a, b;`` gives two."""

    name: str
    size: SizedType
    constraint: Constraint = Constraint()
    value: Expr | None = None

    @property
    def type(self) -> Type:
        return self.size.type


@dataclass(frozen=True)
class Assign(Statement):
    """``target op value`` with `op` one of ``=``, ``+=``, ``.*=``, …"""

    target: Expr
    op: str
    value: Expr


@dataclass(frozen=True)
class Tilde(Statement):
    """``arg ~ distribution(args) T[lower, upper]``"""

    arg: Expr
    distribution: str
    args: tuple[Expr, ...]
    truncated: bool = False
    lower: Expr | None = None
    upper: Expr | None = None


@dataclass(frozen=True)
class TargetAdd(Statement):
    value: Expr


@dataclass(frozen=True)
class JacobianAdd(Statement):
    value: Expr


@dataclass(frozen=True)
class VoidCall(Statement):
    name: str
    args: tuple[Expr, ...]


@dataclass(frozen=True)
class Message(Statement):
    """``print``, ``reject`` or ``fatal_error``; strings keep their quotes."""

    kind: str
    items: tuple[Expr | str, ...]


@dataclass(frozen=True)
class If(Statement):
    condition: Expr
    yes: Stmt
    no: Stmt | None = None


@dataclass(frozen=True)
class While(Statement):
    condition: Expr
    body: Stmt


@dataclass(frozen=True)
class For(Statement):
    """``for (name in lower:upper) body``"""

    name: str
    lower: Expr
    upper: Expr
    body: Stmt


@dataclass(frozen=True)
class ForEach(Statement):
    name: str
    sequence: Expr
    body: Stmt


@dataclass(frozen=True)
class Block(Statement):
    body: tuple[Stmt, ...]


@dataclass(frozen=True)
class Profile(Statement):
    label: str
    body: tuple[Stmt, ...]


@dataclass(frozen=True)
class Return(Statement):
    value: Expr | None = None


@dataclass(frozen=True)
class Break(Statement):
    pass


@dataclass(frozen=True)
class Continue(Statement):
    pass


@dataclass(frozen=True)
class Skip(Statement):
    pass


@dataclass(frozen=True)
class Parameter(Node):
    """An argument of a user's function."""

    name: str
    type: Type
    data_only: bool = False


@dataclass(frozen=True)
class FunDef(Statement):
    """A user's function; a forward declaration has no body."""

    name: str
    returns: Type
    parameters: tuple[Parameter, ...]
    body: Stmt | None = None


# Every concrete class is itself an Expression or a Statement; these are the names to annotate with.


Stmt = Statement


@dataclass(frozen=True)
class Program(Node):
    """A whole program, block by block.

    `code` is the canonical text (formatted, no comments, includes expanded) that the tree
    was read from; `source` is the text as the user wrote it, which the lines refer to.
    """

    functions: tuple[FunDef, ...] = ()
    data: tuple[Decl, ...] = ()
    transformed_data: tuple[Stmt, ...] = ()
    parameters: tuple[Decl, ...] = ()
    transformed_parameters: tuple[Stmt, ...] = ()
    model: tuple[Stmt, ...] = ()
    generated_quantities: tuple[Stmt, ...] = ()
    code: str = ""
    source: str = ""
