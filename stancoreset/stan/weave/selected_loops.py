"""Loops over an array of row numbers, as loops over all rows.

``for (k in 1:K) target += f(y[J[k]]);`` passes each row as often as it stands in J, which is
computed once from the full data (see `stancoreset.stan.weave.selections`):

    for (n in 1:N) for (r in 1:times_J[n]) target += f(y[n]);

The passes may come in another order, which is no matter where each is about one row alone; that
is for the walk over the loop to find out, as for any loop over rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from stancoreset.stan.syntax import assigned_names, bare, has_own_break, names_in
from stancoreset.stan.syntax import expression as text
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.per_row import literal

__all__ = ["SelectedLoop", "selected_loop"]

_INT = n.Type("int")


@dataclass(frozen=True)
class SelectedLoop:
    """A loop whose passes are about the rows that an array of numbers names.

    Attributes
    ----------
    pointer : nodes.Expr
        J or ``J[1:K]``.
    body : nodes.Stmt
        One pass.
    numbers : frozenset of str
        Texts of what stands for the number of the row in `body`: ``J[k]``, or a name.
    """

    pointer: n.Expr
    body: n.Stmt
    numbers: frozenset[str]

    def over_rows(self, obs: str, row: str, again: str, times: n.Expr) -> n.For:
        """The loop over `row` in ``1:obs``, with `times` passes (``again``) for each."""
        body = _renumbered(self.body, self.numbers, n.Var(row, type=_INT))
        line = self.body.line
        inner = n.For(again, literal("1"), times, _block(body), line=line)
        return n.For(row, literal("1"), n.Var(obs, type=_INT), _block(inner), line=line)


def selected_loop(
    s: n.For | n.ForEach, pointers: Mapping[str, str], rows: Collection[str]
) -> SelectedLoop | None:
    """What `s` is if it passes over selected rows; None for all other loops.

    Parameters
    ----------
    s : nodes.For or nodes.ForEach
    pointers : mapping of str to str
        Data that are arrays of integers → the text of their size.
    rows : collection of str
        Variables with one entry per row.
    """
    pointer = _each(s, pointers) if isinstance(s, n.ForEach) else _counted(s, pointers)
    if pointer is None or has_own_break(s.body):
        return None
    entry = s.name if isinstance(s, n.ForEach) else text(_entry(pointer, s.name))
    numbers = {entry, *_aliases(s.body, entry)}
    elsewhere = s.name in names_in(_renumbered(s.body, numbers, literal("1")))
    if elsewhere or not any(_picks_row(e, numbers, rows) for e in n.walk(s.body)):
        return None
    return SelectedLoop(pointer, s.body, frozenset(numbers))


def _each(s: n.ForEach, pointers: Mapping[str, str]) -> n.Expr | None:
    """``for (i in J)`` or ``for (i in J[1:K])``."""
    pointer = base = bare(s.sequence)
    match pointer:
        case n.Index(base=base, indices=(n.Between(n.IntLit(text="1"), _) | n.To(_),)):
            pass
    return pointer if isinstance(base, n.Var) and base.name in pointers else None


def _counted(s: n.For, pointers: Mapping[str, str]) -> n.Expr | None:
    """``for (k in 1:K)`` where k stands in ``J[k]`` alone: J, or ``J[1:K]`` if J may be longer."""
    if text(bare(s.lower)) != "1" or assigned_names(s.body) & names_in(s.upper):
        return None
    found = {
        e.base.name
        for e in n.walk(s.body)
        if isinstance(e, n.Index) and isinstance(e.base, n.Var) and e.base.name in pointers
        if text(e) == text(_entry(e.base, s.name))
    }
    if len(found) != 1:
        return None
    (name,) = found
    pointer, upper = n.Var(name, type=n.Type("int", 1)), text(bare(s.upper))
    if upper in (pointers[name], f"size({name})", f"num_elements({name})"):
        return pointer
    return n.Index(pointer, (n.Between(literal("1"), s.upper),), type=pointer.type)


def _entry(pointer: n.Expr, number: str) -> n.Index:
    base = pointer.base if isinstance(pointer, n.Index) else pointer
    return n.Index(base, (n.Single(n.Var(number, type=_INT)),), type=_INT)


def _aliases(body: n.Stmt, entry: str) -> set[str]:
    """Names declared as the row's number, ``int i = J[k];``, and never changed."""
    declared: dict[str, set[str]] = {}
    for d in n.walk(body):
        if isinstance(d, n.Decl):
            declared.setdefault(d.name, set()).add("" if d.value is None else text(bare(d.value)))
    changed = assigned_names(body)
    return {name for name, values in declared.items() if values == {entry} and name not in changed}


def _renumbered(body: n.Stmt, numbers: Collection[str], by: n.Expr) -> n.Stmt:
    """The body with another expression for the row's number; names for it are gone."""

    def alias(s: n.Node) -> bool:
        return isinstance(s, n.Decl) and s.name in numbers

    def change(e: n.Node) -> n.Node | None:
        if isinstance(e, n.Block) and any(map(alias, e.body)):
            kept = tuple(x for x in e.body if not alias(x))
            return n.transform(replace(e, body=kept), change)
        return by if isinstance(e, n.Var | n.Index) and text(e) in numbers else None

    return n.transform(body, change)


def _picks_row(e: n.Node, numbers: Collection[str], rows: Collection[str]) -> bool:
    """Whether `e` is the entry of a row: ``y[J[k]]``."""
    return (
        isinstance(e, n.Index)
        and isinstance(e.base, n.Var)
        and e.base.name in rows
        and isinstance(e.indices[0], n.Single)
        and text(bare(e.indices[0].index)) in numbers
    )


def _block(s: n.Stmt) -> n.Block:
    return s if isinstance(s, n.Block) else n.Block((s,), line=s.line)
