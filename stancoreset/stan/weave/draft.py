"""A program on its way to being woven: what each pass takes, and what it gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from time import thread_time

from stancoreset.errors import WeaveError
from stancoreset.stan.syntax import Names, counted_to, declarations, first_sizes, times_assigned
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.domain import Dep
from stancoreset.stan.weave.expressions import Rows
from stancoreset.stan.weave.proven import Proven
from stancoreset.stan.weave.switches import Dropped


class DoesNotApplyError(Exception):
    """What a pass rewrites does not have the form that it knows, and stays as it was."""


def need(holds: object) -> None:
    """Leave what is rewritten as it was, by a DoesNotApplyError, unless a condition holds."""
    if not holds:
        raise DoesNotApplyError


class OutOfTimeError(WeaveError):
    """The search for a weighted program has taken as long as it may."""


@dataclass(frozen=True)
class Entry:
    """The role that weaving gave to one statement."""

    line: int  # of the user's source
    text: str  # the statement as Stan prints it
    role: str  # ``likelihood``, ``prior``, ``jacobian``, ``frozen`` or ``mixed``
    why: str


@dataclass(frozen=True)
class Draft:
    """A program on its way through the passes, with what these know of it."""

    program: n.Program
    # The data integers that count observations: none where they are to be found, several where the
    # rows of all are put into one table; and further ones that count the same rows.
    counts: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()
    # What transformed data have that the author's have not: statements that number rows, and those
    # that reject data for which rows depend on each other.
    added: tuple[n.Stmt, ...] = ()
    checks: tuple[n.Stmt, ...] = ()
    # Whether branches that the data choose are left out where they cannot be weighted; data that
    # would choose them are rejected.
    switches: bool = False
    numbered: bool = False  # whether rows are picked by their numbers in the full data
    # Those of `Woven` and its `Table`.
    written: Mapping[str, int | n.Expr] = field(default_factory=dict)
    counted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    computed_sizes: Mapping[str, n.Expr] = field(default_factory=dict)
    # The program that a table of several counts is for, and the user's data block, where those of
    # `program` are others.
    author: n.Program | None = None
    given: tuple[n.Decl, ...] = ()
    # From `freeze` on: dependences of data (from `separate` on, of all variables), transformed data
    # that are computed once from the full data, and names of the number of rows.
    deps: Mapping[str, Dep] = field(default_factory=dict)
    frozen: Mapping[str, n.Decl] = field(default_factory=dict)
    aliases: frozenset[str] = frozenset()
    # The user's statements in loops over rows for which whole statements stand.
    vectorised: frozenset[n.Stmt] = frozenset()
    # From `separate` on: statements with what is known of each, and dependences of expressions.
    proven_parameters: tuple[Proven, ...] = ()
    proven_model: tuple[Proven, ...] = ()
    rules: Rows | None = None
    # Blocks of the weighted program; the last is what fills the pointwise log likelihood.
    transformed_data: tuple[n.Stmt, ...] = ()
    data: tuple[n.Decl, ...] = ()
    parameters: tuple[n.Decl, ...] = ()
    transformed_parameters: tuple[n.Stmt, ...] = ()
    model: tuple[n.Stmt, ...] = ()
    log_lik: tuple[n.Stmt, ...] = ()
    names: Names = field(default_factory=lambda: Names(n.Program()))  # from `separate` on
    # All that is computed once from the full data, and vectors of data alone.
    computed: tuple[n.Decl, ...] = ()
    constants: tuple[n.Decl, ...] = ()
    # What became of the user's statements, and which of them are likelihood.
    entries: Mapping[n.Stmt, Entry] = field(default_factory=dict)
    weighted: frozenset[n.Stmt] = frozenset()
    dropped: tuple[Dropped, ...] = ()
    rows: Mapping[str, int] = field(default_factory=dict)  # variables by row, and the axis
    # When the search for a weighted program ends, by `time.thread_time`: how busy the machine is
    # does not change what is found.
    until: float = inf

    @property
    def obs(self) -> str:
        """The data integer that counts observations, where there is one."""
        return self.counts[0]

    def of(self, program: n.Program, found: Sequence[n.Stmt] = ()) -> Draft:
        """The draft of another program, whose transformed data number rows by statements `found`.

        It is this draft itself, where nothing is found and the program is the same.
        """
        if not found and program == self.program:
            return self
        own = (*program.transformed_data, *found)
        program = replace(program, transformed_data=own)
        return replace(self, program=program, added=(*self.added, *found))


class Rewriter:
    """What passes share that find statements of a program and write others in their place."""

    def __init__(self, program: n.Program) -> None:
        self.program = program
        self.names = Names(program)
        self.found: list[n.Stmt] = []  # of transformed data that number rows, for `Draft.of`
        # Data, and transformed data that are in scope everywhere.
        self.known = {d.name: d for d in program.known}
        blocks = (program.transformed_parameters, program.model)
        every = declarations(program.known, program.parameters, *blocks)
        often = Counter(d.name for d in every)
        # All variables that are declared once, and those that a data integer sizes first.
        self.declared = {d.name: d for d in every if often[d.name] == 1}
        self.sizes = first_sizes(program)
        # Arrays of integers among the data, and how often other variables are assigned to.
        self.pointers = {d.name for d in program.known if d.type == n.INTS}
        self.written = times_assigned((*blocks[0], *blocks[1]))

    def over_rows(self, s: n.Node) -> bool:
        """Whether a statement is a loop that may pass over rows, ``for (n in 1:N)`` with N data."""
        return counted_to(s) in self.program.integers


Pass = Callable[[Draft], Draft]


def through(passes: Iterable[Pass], draft: Draft) -> Draft:
    """Run a chain of passes on a draft; each may raise a `WeaveError`."""
    for step in passes:
        if thread_time() > draft.until:
            raise OutOfTimeError(
                0,
                "the program is too large for its rows to be told apart in time; name the integer "
                "that counts the observations with obs=, and leave out what the likelihood does "
                "not need",
                advice="",
            )
        draft = step(draft)
    return draft
