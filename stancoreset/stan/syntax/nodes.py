"""The syntax tree of a Stan program as small frozen dataclasses.

Built by `stancoreset.stan.syntax.parser.parse`, printed by `stancoreset.stan.syntax.printer`. An
expression knows its Stan type, a statement its source line. An integer that Stan promotes to a
real keeps its own type ``int``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property
from typing import Any, TypeVar, overload

_A = TypeVar("_A", bound="Node")
_B = TypeVar("_B", bound="Node")
_C = TypeVar("_C", bound="Node")
_S = TypeVar("_S", bound="Statement")


class Node:
    """Anything in the tree."""

    @cached_property
    def _children(self) -> tuple[Node, ...]:
        found: list[Node] = []
        for name in _below(type(self)):  # type: ignore[arg-type]
            value = getattr(self, name)
            if isinstance(value, tuple):
                found += (item for item in value if isinstance(item, Node))
            elif isinstance(value, Node) and not isinstance(value, Type):
                found.append(value)
        return tuple(found)


@dataclass(frozen=True)
class Type(Node):
    """A Stan type without sizes: `base` within `array` array dimensions.

    The base is ``int``, ``real``, ``vector``, ``row_vector``, ``matrix``, ``complex``, ``tuple``
    with its members in `items`, ``function``, ``void``, or one of the complex containers.
    """

    base: str
    array: int = 0
    items: tuple[Type, ...] = ()

    @property
    def rank(self) -> int:
        """Number of indices that reach a scalar."""
        return self.array + (2 if self.base.endswith("matrix") else "vector" in self.base)

    def element(self) -> Type:
        """Type after one single index."""
        if self.array:
            return replace(self, array=self.array - 1)
        if self.base.endswith("matrix"):
            return Type(self.base.replace("matrix", "row_vector"))
        return Type("complex" if self.base.startswith("complex") else "real")


REAL, INT, INTS, VECTOR = Type("real"), Type("int"), Type("int", 1), Type("vector")
ROW_VECTOR, MATRIX = Type("row_vector"), Type("matrix")


@dataclass(frozen=True, kw_only=True)
class Expression(Node):
    """Base of all expressions."""

    type: Type = REAL


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


@dataclass(frozen=True)
class SizedType(Node):
    """A declared type: ``array[array…] base[sizes…]``; a tuple has its members in `items`."""

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

    @property
    def given(self) -> dict[str, Expr]:
        """The bounds, offset and multiplier that there are, by name."""
        keys = ("lower", "upper", "offset", "multiplier")
        return {key: e for key in keys if (e := getattr(self, key)) is not None}


@dataclass(frozen=True, kw_only=True)
class Statement(Node):
    """Base of all statements.

    `line` is that of the user's source, 0 if unknown. The `number` in reading order tells equal
    statements of one line apart. `origin` is the user's statement that this one replaces; None for
    the user's own. It is not part of the tree below this statement, and equal statements may differ
    in it.
    """

    line: int = 0
    number: int = field(default=0, repr=False)
    origin: Statement | None = field(default=None, compare=False, repr=False)

    @property
    def as_written(self) -> Statement:
        """The user's statement: this one, or the one that it replaces."""
        return self.origin or self


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


Stmt = Statement
Increment = Tilde | TargetAdd
Loop = For | ForEach | While


@dataclass(frozen=True)
class Program(Node):
    """A whole program, block by block.

    `code` is the text that the tree was read from: the user's own, which the lines refer to, or its
    canonical form without includes and deprecations.
    """

    functions: tuple[FunDef, ...] = ()
    data: tuple[Decl, ...] = ()
    transformed_data: tuple[Stmt, ...] = ()
    parameters: tuple[Decl, ...] = ()
    transformed_parameters: tuple[Stmt, ...] = ()
    model: tuple[Stmt, ...] = ()
    generated_quantities: tuple[Stmt, ...] = ()
    code: str = ""

    @property
    def blocks(self) -> dict[str, tuple[Statement, ...]]:
        """The statements of each block, by the block's name in Stan."""
        names = (f.name for f in fields(self) if f.name != "code")
        return {name.replace("_", " "): getattr(self, name) for name in names}

    @property
    def integers(self) -> set[str]:
        """Names of the data that are one integer."""
        return {d.name for d in self.data if d.type == INT}

    @property
    def known(self) -> tuple[Decl, ...]:
        """The declarations of data, and of transformed data that are in scope outside them."""
        return (*self.data, *(s for s in self.transformed_data if isinstance(s, Decl)))


_PLAIN = ("Type", "str", "int", "bool")


@cache
def _below(kind: type[Node]) -> tuple[str, ...]:
    """Names of the fields that may hold nodes."""
    asked = fields(kind)  # type: ignore[arg-type]  # every kind is a dataclass
    return tuple(f.name for f in asked if f.compare and f.type not in _PLAIN)


def children(node: Node) -> tuple[Node, ...]:
    """The nodes directly below `node`, in source order."""
    return node._children


#: A node, or several of which some may be missing.
Nodes = Node | Iterable[Node | None] | None


def walk(where: Nodes) -> Iterator[Node]:
    """Yield a node, or each of several, and everything below it, parents first."""
    several = [where] if isinstance(where, Node) else [x for x in where or () if x is not None]
    waiting = several[::-1]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += node._children[::-1]


@overload
def find_all(where: Nodes, one: type[_A], /) -> Iterator[_A]: ...
@overload
def find_all(where: Nodes, one: type[_A], two: type[_B], /) -> Iterator[_A | _B]: ...
@overload
def find_all(
    where: Nodes, one: type[_A], two: type[_B], three: type[_C], /
) -> Iterator[_A | _B | _C]: ...
def find_all(where: Nodes, *kinds: type[Node]) -> Iterator[Node]:
    """Yield the nodes of some kinds in a node, or in several, as `walk` finds them."""
    return (node for node in walk(where) if isinstance(node, kinds))


def parts(s: Node) -> tuple[Statement, ...]:
    """Statements directly in a statement: of a block, in the branches, or a loop's body."""
    return tuple(x for x in s._children if isinstance(x, Statement))


def with_parts(s: _S, change: Callable[[tuple[Stmt, ...]], Iterable[Stmt]]) -> _S:
    """The statement with others directly in it; one without `parts` as it is.

    `change` is given the list of a block, or a branch or a loop's body as a list of one. Where it
    gives another number than one for these, a block of them stands there.
    """

    def one(part: Stmt) -> Stmt:
        found = tuple(change((part,)))
        return found[0] if len(found) == 1 else Block(found, line=part.line)

    match s:
        case Block() | Profile():
            return replace(s, body=tuple(change(s.body)))
        case If():
            return replace(s, yes=one(s.yes), no=s.no and one(s.no))
        case For() | ForEach() | While():
            return replace(s, body=one(s.body))
    return s


def with_body(s: For, body: Iterable[Stmt]) -> For:
    """The loop with other statements in its body."""
    block = s.body if isinstance(s.body, Block) else Block((), line=s.body.line)
    return replace(s, body=replace(block, body=tuple(body)))


def transform(node: Any, change: Callable[[Node], Node | None]) -> Any:
    """Rebuild the tree: `change` is asked for each node, parents first.

    Where it returns a node, that node stands in (and is not searched further); where it
    returns None, the node is kept and its children are visited.
    """
    changed = change(node)
    return with_children(node, lambda x: transform(x, change)) if changed is None else changed


def with_children(node: Any, change: Callable[[Node], Node]) -> Any:
    """The node with `change` of each node directly below it; itself where all stay."""
    updates: dict[str, Any] = {}
    for name in _below(type(node)):  # type: ignore[arg-type]
        value = getattr(node, name)
        if isinstance(value, Type):
            continue
        if isinstance(value, Node):
            new: Any = change(value)
        elif isinstance(value, tuple):
            new = tuple(change(v) if isinstance(v, Node) else v for v in value)
            if all(a is b for a, b in zip(new, value, strict=True)):
                new = value
        else:
            continue
        if new is not value:
            updates[name] = new
    return replace(node, **updates) if updates else node


# ---- nodes that are added to a program, in short ------------------------------------------------


def literal(value: str) -> Expr:
    if "." in value:
        return RealLit(value, type=REAL)
    return IntLit(value, type=INT)


ZERO, ONE = literal("0"), literal("1")


def integer(name: str) -> Var:
    return Var(name, type=INT)


def integers(name: str) -> Var:
    """An array of integers."""
    return Var(name, type=INTS)


def call(name: str, *args: Expr, kind: Type = REAL, user: bool = False) -> Call:
    return Call(name, args, user, type=kind)


def plus(a: Expr, b: Expr) -> Expr:
    return Binary(a, "+", b, type=REAL)


def times(a: Expr, b: Expr) -> Expr:
    return Binary(a, "*", b, type=REAL)


def minus(a: Expr, b: Expr) -> Expr:
    """The difference of two integers."""
    return Binary(a, "-", b, type=INT)


def entry(e: Expr, i: Expr) -> Index:
    """``e[i]``"""
    return Index(e, (Single(i),), type=e.type.element())


def loop(i: str, size: Expr, *body: Stmt, line: int = 0) -> For:
    """``for (i in 1:size) { body }``"""
    return For(i, ONE, size, Block(body, line=line), line=line)
