"""The statements that some variables depend on, and statements without some variables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from stancoreset.stan.syntax import (
    assigned_names,
    assignments,
    declarations,
    names_in,
    sources,
    target_vars,
)
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.draft import Draft

__all__ = ["around", "needed", "without", "without_unread"]


def needed(body: Iterable[n.Stmt], wanted: set[str]) -> list[n.Stmt]:
    """The statements that the values of `wanted` depend on, control flow included."""
    body = list(body)
    return _keep(body, sources((pair for s in body for pair in _reads(s)), wanted))


def _reads(s: n.Stmt) -> Iterator[tuple[str, set[str]]]:
    """Variables, and the names that their values and declared sizes and bounds depend on."""
    yield from assignments(s, names_in)
    for d in n.walk(s):
        if isinstance(d, n.Decl):
            yield d.name, names_in(d.size) | names_in(d.constraint)


def _keep(body: Iterable[n.Stmt], live: set[str]) -> list[n.Stmt]:
    out: list[n.Stmt] = []
    for s in body:
        match s:
            case n.Decl():
                if s.name in live:
                    out.append(s)
            case n.Assign():
                if {v.name for v in target_vars(s.target)} & live:
                    out.append(s)
            case n.Break() | n.Continue():
                out.append(s)
            case _:
                out += around(s, lambda body: _keep(body, live)) or []
    return out


def around(s: n.Stmt, inside: Callable[[Iterable[n.Stmt]], list[n.Stmt]]) -> list[n.Stmt] | None:
    """A compound statement with its parts filtered by `inside`; empty if nothing is left.

    None for a statement without parts.
    """
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
    out: list[n.Stmt] = []
    for s in body:
        match s:
            case n.Decl():
                if s.name not in names:
                    out.append(s)
            case n.Assign():
                if not {v.name for v in target_vars(s.target)} <= names:
                    out.append(s)
            case n.Message(kind="print") if names_in(s) & names:
                continue
            case _:
                left = around(s, lambda body: without(body, names))
                out += [s] if left is None else left
    return out


def without_unread(draft: Draft) -> Draft:
    """The program without local variables of the model that nothing reads, or only a print."""
    program = draft.program
    model = program.model
    names = {d.name for d in declarations(model) if d.constraint.kind == "none"}
    for s in (s for b in model for s in n.walk(b) if isinstance(s, n.Decl | n.Assign)):
        if any(isinstance(e, n.Call) and e.name.endswith("_lp") for e in n.walk(s)):
            names -= {s.name} if isinstance(s, n.Decl) else assigned_names(s)  # adds to the target
    while (left := tuple(_unread(model, names))) != model:
        model = left
    return (
        draft if model is program.model else replace(draft, program=replace(program, model=model))
    )


def _unread(body: Iterable[n.Stmt], names: set[str]) -> list[n.Stmt]:
    """The statements without those of `names` that nothing but they themselves depend on."""
    body = list(body)
    pairs = [pair for s in body for pair in _reads(s)]
    wanted = {name for name, _ in pairs} - names
    for s in (s for b in body for s in n.walk(b) if isinstance(s, n.Statement)):
        if not isinstance(s, n.Decl | n.Assign) and not _prints(s):
            wanted.update(*(names_in(c) for c in n.children(s) if not isinstance(c, n.Statement)))
    live = sources(pairs, wanted)
    return without(body, names - live)


def _prints(s: n.Stmt) -> bool:
    return isinstance(s, n.Message) and s.kind == "print"
