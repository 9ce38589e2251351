"""The syntax tree of a Stan program as small frozen dataclasses.

Built by `stancoreset.stan.syntax.parser.parse`, printed by `stancoreset.stan.syntax.printer`. An
expression knows its Stan type and whether it is data only; a statement knows its source line. An
integer that Stan promotes to a real keeps its own type ``int``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

from stancoreset.stan.syntax.expression_nodes import (
    REAL,
    All,
    ArrayLit,
    Between,
    Binary,
    Call,
    Expr,
    Expression,
    From,
    ImagLit,
    Index,
    Indexing,
    IntLit,
    Node,
    Paren,
    RealLit,
    RowLit,
    Single,
    Target,
    Ternary,
    To,
    Transpose,
    TupleItem,
    TupleLit,
    Type,
    Unary,
    Var,
)
from stancoreset.stan.syntax.statement_nodes import (
    Assign,
    Block,
    Break,
    Constraint,
    Continue,
    Decl,
    For,
    ForEach,
    FunDef,
    If,
    JacobianAdd,
    Message,
    Parameter,
    Profile,
    Program,
    Return,
    SizedType,
    Skip,
    Statement,
    Stmt,
    TargetAdd,
    Tilde,
    VoidCall,
    While,
)

__all__ = [
    "REAL",
    "All",
    "ArrayLit",
    "Assign",
    "Between",
    "Binary",
    "Block",
    "Break",
    "Call",
    "Constraint",
    "Continue",
    "Decl",
    "Expr",
    "Expression",
    "For",
    "ForEach",
    "From",
    "FunDef",
    "If",
    "ImagLit",
    "Index",
    "Indexing",
    "IntLit",
    "JacobianAdd",
    "Message",
    "Node",
    "Parameter",
    "Paren",
    "Profile",
    "Program",
    "RealLit",
    "Return",
    "RowLit",
    "Single",
    "SizedType",
    "Skip",
    "Statement",
    "Stmt",
    "Target",
    "TargetAdd",
    "Ternary",
    "Tilde",
    "To",
    "Transpose",
    "TupleItem",
    "TupleLit",
    "Type",
    "Unary",
    "Var",
    "VoidCall",
    "While",
    "children",
    "transform",
    "walk",
]


def children(node: Node) -> Iterator[Node]:
    """The nodes directly below `node`, in source order."""
    for f in fields(node):  # type: ignore[arg-type]
        value = getattr(node, f.name)
        if isinstance(value, Type):
            continue
        if isinstance(value, Node):
            yield value
        elif isinstance(value, tuple):
            yield from (item for item in value if isinstance(item, Node | FunDef))


def walk(node: Node) -> Iterator[Node]:
    """`node` and everything below it, parents first."""
    yield node
    for child in children(node):
        yield from walk(child)


def transform(node: Any, change: Callable[[Node], Node | None]) -> Any:
    """Rebuild the tree: `change` is asked for each node, parents first.

    Where it returns a node, that node stands in (and is not searched further); where it
    returns None, the node is kept and its children are visited.
    """
    changed = change(node)
    if changed is not None:
        return changed
    updates: dict[str, Any] = {}
    for f in fields(node):
        value = getattr(node, f.name)
        if isinstance(value, Type):
            continue
        if isinstance(value, Node):
            new: Any = transform(value, change)
        elif isinstance(value, tuple):
            new = tuple(transform(v, change) if isinstance(v, Node) else v for v in value)
            if all(a is b for a, b in zip(new, value, strict=True)):
                new = value
        else:
            continue
        if new is not value:
            updates[f.name] = new
    return replace(node, **updates) if updates else node
