"""Quantities of groups that a loop over rows fills, as loops over the groups.

    for (n in 1:N) top[g[n]] = fmax(u[g[n]], v[g[n]]);
    for (j in 1:J) top[j] = fmax(u[j], v[j]);

Every row of a group writes the same value. A group without rows has none in the author's program,
so that nothing may read it there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stancoreset.stan.syntax import (
    assigned_names,
    bare,
    body_of,
    declarations,
    indexed_name,
    names_in,
    single,
    with_blocks,
)
from stancoreset.stan.syntax import expression as text
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.draft import Draft, Rewriter


def with_groups_filled_by_group(draft: Draft) -> Draft:
    """A loop over groups stands before a loop over rows that fills what groups have."""
    return draft.of(with_blocks(draft.program, _Groups(draft.program).statements))


class _Groups(Rewriter):
    """Takes the values of groups out of loops over rows."""

    def statement(self, s: n.Stmt) -> tuple[n.Stmt, ...]:
        if isinstance(s, n.For) and self.over_rows(s):
            return self.loop(s)
        return (s if isinstance(s, n.Loop) else n.with_parts(s, self.statements),)

    def statements(self, body: Sequence[n.Stmt]) -> tuple[n.Stmt, ...]:
        return tuple(new for s in body for new in self.statement(s))

    def loop(self, s: n.For) -> tuple[n.Stmt, ...]:
        """Loops over groups, and what is left of a loop over rows."""
        body = body_of(s.body)
        filled = {k: new for k, x in enumerate(body) if (new := self.filled(x, s)) is not None}
        if not filled:
            return (s,)
        left = tuple(x for k, x in enumerate(body) if k not in filled)
        rest = (n.with_body(s, left),) if left else ()
        return (*filled.values(), *rest)

    def filled(self, x: n.Stmt, s: n.For) -> n.For | None:
        """``top[g[n]] = f(g[n]);`` as a loop over groups; None for all else."""
        match x:
            case n.Assign(
                target=n.Index(base=n.Var(name=name) as top, indices=(n.Single(i),)), op="="
            ):
                pointer = bare(i)
            case _:
                return None
        own = self.declared.get(name)
        if own is None or own.value is not None or self.written[name] != 1:
            return None
        numbers = indexed_name(pointer)
        if numbers not in self.pointers or text(pointer) != f"{numbers}[{s.name}]":
            return None
        group = n.integer(self.names.fresh("j"))

        def of_group(e: n.Node) -> n.Node | None:
            return group if isinstance(e, n.Index) and text(e) == text(pointer) else None

        value = n.transform(x.value, of_group)
        inner = {d.name for d in declarations([s.body])}
        if names_in(value) & {s.name, name, *inner, *(assigned_names(s) - {name})}:
            return None
        size = own.size.dims[0]
        if not all(self.as_long(e, group.name, text(size)) for e in n.find_all(value, n.Index)):
            return None
        put = replace(x, target=n.entry(top, group), value=value)
        return n.loop(group.name, size, put, line=x.line)

    def as_long(self, e: n.Index, group: str, size: str) -> bool:
        """Whether what a group picks from has an entry for each group."""
        picked = [k for k, i in enumerate(e.indices) if group in names_in(i)]
        if not picked:
            return True
        d = self.declared.get(indexed_name(e))
        return d is not None and all(
            k < len(d.size.dims)
            and text(single(e.indices[k]) or n.ZERO) == group
            and text(d.size.dims[k]) == size
            for k in picked
        )
