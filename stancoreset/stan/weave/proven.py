"""Results of the proof: each statement of a program with the facts known at its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from stancoreset.errors import WeaveError
from stancoreset.stan.syntax import assigned_names, names_in
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.domain import Dep

Statements = list[n.Stmt]
Kind = Literal["other", "prior", "jacobian", "rows", "row", "holds", "adds", "silent", "dropped"]


@dataclass(frozen=True)
class Piece:
    """One additive term of the log density.

    It is of the kind ``rows``, a sum over rows or the term of one, ``held``, a variable that holds
    such a sum, or ``free``, what does not look at rows.
    """

    value: n.Expr
    scale: n.Expr | None = None  # factor that all rows share; None for one
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
        return set().union(*(names_in(p.value) for p in self.pieces if p.kind == "held"))

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
