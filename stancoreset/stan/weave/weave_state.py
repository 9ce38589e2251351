"""What the walk through a program's statements knows at a statement."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import NoReturn

from stancoreset.stan.syntax import Names
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.domain import SUM, UNSET, Dep, coupled, join
from stancoreset.stan.weave.expressions import Rows
from stancoreset.stan.weave.terms import Terms

__all__ = ["Statements", "Walk", "as_block", "as_body"]

Statements = list[n.Stmt]


def as_body(body: Statements, like: n.Stmt) -> n.Block:
    """A list as the body of a loop."""
    if len(body) == 1 and isinstance(body[0], n.Block):
        return body[0]
    return n.Block(tuple(body), line=like.line)


def as_block(body: Statements, like: n.Stmt) -> Statements:
    return [n.Block(tuple(body), line=like.line)] if body else []


class Walk(ABC):
    """What the parts of the walk share; `weave_flow.Flow` is the whole."""

    program: n.Program
    obs: str
    depth: int
    env: dict[str, Dep]
    data: set[str]
    names: Names
    rows: Rows
    terms: Terms
    density_block: bool

    def __init__(self) -> None:
        self.branches = UNSET  # dependence of the conditions that lead here
        self.left = UNSET  # that of the conditions on which a pass of the loop was left before
        self.loop = ""  # variable of the loop over observations that we are in
        self.outside: set[str] = set()  # variables declared outside that loop
        self.adding: set[str] = set()  # those of them that the loop does nothing but add to
        self.accumulators: set[str] = set()  # scalars that add up rows
        self.repeats = ""  # why the number of passes of a loop around us changes with the rows
        self.once: set[str] = set()  # variables declared outside that loop
        self.carried: set[str] = set()  # variables that a pass of a loop around us may hand on
        self.weighted: set[int] = set()  # ids of the statements that were weighted
        self.origin: dict[int, n.Stmt] = {}  # rewritten statement → the user's
        self.vectorised: set[int] = set()  # those of them that stand for a loop
        self.kept: Statements = []

    @property
    def context(self) -> Dep:
        """Dependence of whether a statement is reached."""
        return join(self.branches, self.left)

    def one_of(self, a: Dep, b: Dep) -> Dep:
        """Dependence of what is the one or the other, as branches and passes leave it."""
        if "sum" in (a.kind, b.kind):
            kinds = {a.kind, b.kind} - {"sum"}
            if kinds <= {"unset"} or (kinds <= {"unset", "free"} and not self.depth):
                return SUM.with_stat(max(a.stat, b.stat))
            return coupled("it is a sum over observations, or else a number that is none")
        return join(a, b)

    @abstractmethod
    def statement(self, s: n.Stmt) -> tuple[Statements, Statements]: ...

    @abstractmethod
    def scoped(self, body: Iterable[n.Stmt]) -> tuple[Statements, Statements]: ...

    @abstractmethod
    def define(self, name: str, value: n.Expr | None, dep: Dep) -> None: ...

    @abstractmethod
    def under(
        self, dep: Dep, run: Callable[[], tuple[Statements, Statements]]
    ) -> tuple[Statements, Statements]: ...

    @abstractmethod
    def refuse(self, s: n.Stmt, why: str) -> NoReturn: ...

    @abstractmethod
    def log(self, s: n.Stmt, role: str, why: str) -> None: ...

    @abstractmethod
    def log_lik(self, i: n.Expr, value: n.Expr, s: n.Stmt) -> n.Stmt: ...
