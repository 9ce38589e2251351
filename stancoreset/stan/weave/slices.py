"""The statements that some variables depend on, and statements without some variables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from stancoreset.stan.syntax import (
    assigned_names,
    assignments,
    declarations,
    names_in,
    own_nodes,
    sources,
)
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.draft import Draft

_COMPOUND = n.Block | n.Profile | n.If | n.Loop


def needed(body: Iterable[n.Stmt], wanted: set[str]) -> list[n.Stmt]:
    """The statements that the values of `wanted` depend on, control flow included."""
    body = list(body)
    live = sources((pair for s in body for pair in _reads(s)), wanted)

    def keep(s: n.Stmt, context: frozenset[str]) -> bool:
        return bool(_given(s) & live) or isinstance(s, n.Break | n.Continue)

    return filtered(body, keep)


def _reads(s: n.Stmt) -> Iterator[tuple[str, set[str]]]:
    """Variables, and the names that their values and declared sizes and bounds depend on."""
    yield from assignments(s, names_in)
    for d in n.find_all(s, n.Decl):
        yield d.name, names_in(d.size) | names_in(d.constraint)


def _given(s: n.Stmt) -> set[str]:
    """Names of the variables that a simple statement declares or assigns to."""
    return {s.name} if isinstance(s, n.Decl) else assigned_names(s)


def filtered(
    body: Iterable[n.Stmt],
    keep: Callable[[n.Stmt, frozenset[str]], bool],
    context: frozenset[str] = frozenset(),
) -> list[n.Stmt]:
    """The statements to `keep`, with the conditions, loops and blocks around them.

    `keep` is given a simple statement, and the names that decide whether and how often it runs:
    those of `context`, and of the conditions and loops around it.
    """
    out: list[n.Stmt] = []
    for s in body:
        if not isinstance(s, _COMPOUND):
            out += [s] if keep(s, context) else []
            continue
        inner = context | names_in(own_nodes(s))
        lists = (s.body,) if isinstance(s, n.Block | n.Profile) else ((x,) for x in n.parts(s))
        parts = [filtered(x, keep, inner) for x in lists]
        if not isinstance(s, n.Loop) or any(map(_does_something, parts[0])):
            out += around(s, *parts)
    return out


def around(s: n.Stmt, body: Sequence[n.Stmt], no: Sequence[n.Stmt] = ()) -> list[n.Stmt]:
    """A compound statement with another body; a block, loop or branch without any is left out.

    Any other statement stays. `no` is the other branch of a condition.
    """
    if not isinstance(s, _COMPOUND):
        return [s]
    if not (body or no or isinstance(s, n.ForEach | n.While)):
        return []
    if isinstance(s, n.If) and not no:
        s = replace(s, no=None)
    lists = iter((body, no))
    return [n.with_parts(s, lambda part: next(lists))]


def _does_something(s: n.Stmt) -> bool:
    """Whether a pass of a loop over `s` leaves anything behind; leaving the loop is nothing."""
    empty = _COMPOUND | n.Break | n.Continue | n.Skip
    return any(isinstance(x, n.Statement) and not isinstance(x, empty) for x in n.walk(s))


def without(body: Iterable[n.Stmt], names: set[str]) -> list[n.Stmt]:
    """The statements without declarations of and assignments to `names`."""

    def keep(s: n.Stmt, context: frozenset[str]) -> bool:
        if isinstance(s, n.Decl | n.Assign):
            return not _given(s) <= names
        return not (_prints(s) and names_in(s) & names)

    return filtered(body, keep)


def without_unread(draft: Draft) -> Draft:
    """The program without local variables of the model that nothing reads, or only a print."""
    program = draft.program
    model = program.model
    names = {d.name for d in declarations(model) if d.constraint.kind == "none"}
    for s in n.find_all(model, n.Decl, n.Assign):
        if any(e.name.endswith("_lp") for e in n.find_all(s, n.Call)):
            names -= {s.name} if isinstance(s, n.Decl) else assigned_names(s)  # adds to the target
    while (left := tuple(_unread(model, names))) != model:
        model = left
    return draft.of(replace(program, model=model))


def _unread(body: Iterable[n.Stmt], names: set[str]) -> list[n.Stmt]:
    """The statements without those of `names` that nothing but they themselves depend on."""
    body = list(body)
    pairs = [pair for s in body for pair in _reads(s)]
    wanted = {name for name, _ in pairs} - names
    for s in n.find_all(body, n.Statement):
        if not isinstance(s, n.Decl | n.Assign) and not _prints(s):
            wanted |= names_in(own_nodes(s))
    live = sources(pairs, wanted)
    return without(body, names - live)


def _prints(s: n.Stmt) -> bool:
    return isinstance(s, n.Message) and s.kind == "print"
