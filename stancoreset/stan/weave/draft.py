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
    """The role that weaving gave to one statement.

    Attributes
    ----------
    line : int
        Line of the user's source.
    text : str
        The statement as Stan prints it.
    role : str
        ``likelihood``, ``prior``, ``jacobian``, ``frozen`` or ``mixed``.
    why : str
    """

    line: int
    text: str
    role: str
    why: str


@dataclass(frozen=True)
class Draft:
    """A program on its way through the passes, with what these know of it.

    Attributes
    ----------
    program : Program
    counts : tuple of str
        The data integers that count observations: none where they are to be found, several where
        the rows of all are put into one table.
    merged : tuple of str
        Further data integers that count the same rows.
    added : tuple of Statement
        What transformed data have that the author's have not: statements that number rows.
    checks : tuple of Statement
        Statements of transformed data that reject data for which rows depend on each other.
    switches : bool
        Whether branches that the data choose are left out where they cannot be weighted; data
        that would choose them are rejected.
    numbered : bool
        Whether rows are picked by their numbers in the full data.
    written, counted, computed_sizes : mapping
        Those of `Woven` and its `Table`.
    author : Program or None
        The program that a table of several counts is for, where `program` is another one.
    given : tuple of Decl
        The user's data block, where that of `program` is another one.
    deps : mapping of str to Dep
        Dependences: of data from `freeze` on, of all variables from `separate` on.
    frozen : mapping of str to Decl
        Transformed data that are computed once from the full data, from `freeze` on.
    aliases : frozenset of str
        Names of the number of rows.
    vectorised : frozenset of Statement
        The user's statements in loops over rows for which whole statements stand.
    transformed_data, data, parameters, transformed_parameters, model, log_lik : tuple of Statement
        Blocks of the weighted program; the last is what fills the pointwise log likelihood.
    proven_parameters, proven_model : tuple of Proven
        Transformed parameters and model with what is known of each statement, from `separate` on.
    rules : Rows or None
        The dependences of expressions, from `separate` on.
    names : Names
        From `separate` on, as all that follows.
    computed, constants : tuple of Decl
        All that is computed once from the full data, and vectors of data alone.
    entries : mapping of Statement to Entry
        What became of the user's statements.
    weighted : frozenset of Statement
        The user's statements that are likelihood.
    dropped : tuple of Dropped
    rows : mapping of str to int
        Variables with one entry per row, and the axis.
    until : float
        When the search for a weighted program ends, by `time.thread_time`: how busy the machine is
        does not change what is found.
    """

    program: n.Program
    counts: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()
    added: tuple[n.Stmt, ...] = ()
    checks: tuple[n.Stmt, ...] = ()
    switches: bool = False
    numbered: bool = False
    written: Mapping[str, int | n.Expr] = field(default_factory=dict)
    counted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    computed_sizes: Mapping[str, n.Expr] = field(default_factory=dict)
    author: n.Program | None = None
    given: tuple[n.Decl, ...] = ()
    deps: Mapping[str, Dep] = field(default_factory=dict)
    frozen: Mapping[str, n.Decl] = field(default_factory=dict)
    aliases: frozenset[str] = frozenset()
    vectorised: frozenset[n.Stmt] = frozenset()
    proven_parameters: tuple[Proven, ...] = ()
    proven_model: tuple[Proven, ...] = ()
    rules: Rows | None = None
    transformed_data: tuple[n.Stmt, ...] = ()
    data: tuple[n.Decl, ...] = ()
    parameters: tuple[n.Decl, ...] = ()
    transformed_parameters: tuple[n.Stmt, ...] = ()
    model: tuple[n.Stmt, ...] = ()
    log_lik: tuple[n.Stmt, ...] = ()
    names: Names = field(default_factory=lambda: Names(n.Program()))
    computed: tuple[n.Decl, ...] = ()
    constants: tuple[n.Decl, ...] = ()
    entries: Mapping[n.Stmt, Entry] = field(default_factory=dict)
    weighted: frozenset[n.Stmt] = frozenset()
    dropped: tuple[Dropped, ...] = ()
    rows: Mapping[str, int] = field(default_factory=dict)
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
    """What passes share that find statements of a program and write others in their place.

    Attributes
    ----------
    program : Program
    names : Names
        Source of fresh names.
    found : list of Statement
        Statements of transformed data that number rows, for `Draft.of`.
    known, declared : dict of str to Decl
        Data, and transformed data that are in scope everywhere; all variables declared once.
    sizes : dict of str to str
        Variables that a data integer sizes first.
    pointers : set of str
        Arrays of integers among the data.
    written : Counter of str
        How often variables of transformed parameters and the model are assigned to.
    """

    def __init__(self, program: n.Program) -> None:
        self.program = program
        self.names = Names(program)
        self.found: list[n.Stmt] = []
        self.known = {d.name: d for d in program.known}
        blocks = (program.transformed_parameters, program.model)
        every = declarations(program.known, program.parameters, *blocks)
        often = Counter(d.name for d in every)
        self.declared = {d.name: d for d in every if often[d.name] == 1}
        self.sizes = first_sizes(program)
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
