"""The statements that some variables depend on, and statements without some variables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial

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
        inner = context | names_in(own_nodes(s)) if n.parts(s) else context
        parts = _around(s, partial(filtered, keep=keep, context=inner))
        out += ([s] if keep(s, context) else []) if parts is None else parts
    return out


def _around(s: n.Stmt, inside: Callable[[Iterable[n.Stmt]], list[n.Stmt]]) -> list[n.Stmt] | None:
    """A compound statement filtered by `inside`, or nothing; None for a statement without parts."""
    match s:
        case n.If():
            yes, no = inside((s.yes,)), inside(() if s.no is None else (s.no,))
            if not (yes or no):
                return []
            first = yes[0] if yes else n.Block((), line=s.line)
            return [replace(s, yes=first, no=no[0] if no else None)]
        case n.For() | n.ForEach() | n.While():
            inner = inside((s.body,))
            return [replace(s, body=inner[0])] if any(map(_does_something, inner)) else []
        case n.Block() | n.Profile():
            inner = inside(s.body)
            return [replace(s, body=tuple(inner))] if inner else []
    return None


def _does_something(s: n.Stmt) -> bool:
    """Whether a pass of a loop over `s` leaves anything behind; leaving the loop is nothing."""
    empty = (n.If, n.Block, n.Profile, n.For, n.ForEach, n.While, n.Break, n.Continue, n.Skip)
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
