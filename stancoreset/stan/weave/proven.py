"""Results of the proof: each statement of a program with the facts known at its place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from stancoreset.errors import WeaveError
from stancoreset.stan.syntax import assigned_names, names_in
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.domain import Dep

Statements = list[n.Stmt]
Kind = Literal["other", "prior", "jacobian", "rows", "row", "holds", "adds", "silent", "dropped"]


@dataclass(frozen=True)
class Piece:
    """One additive term of the log density."""

    value: n.Expr
    scale: n.Expr | None = None  # a factor that all rows share; None for one
    # A sum over rows, or the term of one; a variable that holds such a sum; or nothing of rows.
    kind: Literal["rows", "held", "free"] = "rows"


@dataclass(frozen=True)
class Proven:
    """A statement, and what is known of it.

    ========  ================================================================================
    kind      what the statement does
    ========  ================================================================================
    prior     adds what does not look at rows
    jacobian  the same, for a change of variables
    rows      adds sums over rows, in `pieces` with what else it adds
    row       adds the term of a row, in the loop over them
    holds     gives a variable the sum of such pieces
    adds      adds the term of a row to a variable
    silent    a message that is about rows, and is left out
    dropped   a branch that the data may choose and that cannot be weighted, as `error` says
    other     something else
    ========  ================================================================================
    """

    statement: n.Stmt
    kind: Kind = "other"
    env: Mapping[str, Dep] = field(default_factory=dict)  # dependences before it
    parts: tuple[Proven, ...] = ()  # its body, or its branches
    pieces: tuple[Piece, ...] = ()
    loop: str = ""  # variable of the loop over rows around it
    why: str = ""  # what it does, for users
    error: WeaveError | None = None

    @property
    def all(self) -> Iterator[Proven]:
        """Yield this statement and the statements in it."""
        yield self
        for p in self.parts:
            yield from p.all

    @property
    def held(self) -> set[str]:
        """The variables in its pieces that hold sums over rows."""
        return names_in(p.value for p in self.pieces if p.kind == "held")

    @property
    def sets(self) -> set[str]:
        """The variable that it gives sums over rows, if any."""
        if self.kind not in ("holds", "adds"):
            return set()
        s = self.statement
        return {s.name} if isinstance(s, n.Decl) else assigned_names(s)

    @property
    def weighted(self) -> bool:
        """Whether the statement, or one in it, adds rows."""
        return any(p.kind in ("rows", "row", "adds") for p in self.all)


def kept(proven: Iterable[Proven]) -> Statements:
    """The statements but for messages that are left out."""

    def own(p: Proven) -> Statements:
        if p.kind == "silent":
            return []
        if isinstance(p.statement, n.If):
            return around(p.statement, *map(own, p.parts))
        return around(p.statement, [s for x in p.parts for s in own(x)])

    return [s for p in proven for s in own(p)]


def around(s: n.Stmt, body: Statements, no: Statements | None = None) -> Statements:
    """A compound statement with another body; a block, loop or branch without any is left out.

    Any other statement stays. `no` is the other branch of a condition.
    """
    match s:
        case n.Block():
            return as_block(body, s)
        case n.Profile():
            return [replace(s, body=tuple(body))] if body else []
        case n.If():
            return _branches(s, body, no or []) if body or no else []
        case n.For():
            return [replace(s, body=_as_body(body, s.body))] if body else []
        case n.ForEach() | n.While():
            return [replace(s, body=_as_body(body, s.body))]
    return [s]


def _branches(s: n.If, yes: Statements, no: Statements) -> Statements:
    other: n.Stmt | None = None
    if no:
        other = no[0] if len(no) == 1 and isinstance(no[0], n.If) else _as_body(no, s)
    return [replace(s, yes=_as_body(yes, s), no=other)]


def as_block(body: Statements, like: n.Stmt) -> Statements:
    """The statements in braces, if there are any."""
    return [n.Block(tuple(body), line=like.line)] if body else []


def _as_body(body: Statements, like: n.Stmt) -> n.Block:
    """A list as the body of a loop."""
    if len(body) == 1 and isinstance(body[0], n.Block):
        return body[0]
    return n.Block(tuple(body), line=like.line)
