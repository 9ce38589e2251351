"""Positions that a loop over segments carries along, computed once for each segment instead.

    int pos = 1;
    for (j in 1:J) {
      segment(y, pos, s[j]) ~ multi_normal(…);
      pos += s[j];
    }

Where data alone decide the position, transformed data find the position of each segment by the
same loop, and each pass begins with its own:

    for (j in 1:J) { pos = pos_of_j[j]; … }
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stancoreset.stan.syntax import (
    assignments,
    body_of,
    counted_to,
    names_in,
    sources,
    target_vars,
)
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.draft import Draft, Rewriter
from stancoreset.stan.weave.slices import needed


def with_positions_found(draft: Draft) -> Draft:
    """Each pass of a loop begins with the integers that the passes before it have counted up."""
    find = _Find(draft.program)
    model = find.statements(draft.program.model)
    return draft.of(replace(draft.program, model=model), find.found)


class _Find(Rewriter):
    """Sets the carried integers of loops, and collects the statements that find them."""

    def statements(self, body: Sequence[n.Stmt]) -> tuple[n.Stmt, ...]:
        out: list[n.Stmt] = []
        for k, s in enumerate(body):
            if isinstance(s, n.Block):
                out.append(replace(s, body=self.statements(s.body)))
            elif isinstance(s, n.For) and self.over_rows(s):
                set_first = [x for d in _carried(body[:k], s) for x in self.set(d, body[:k], s)]
                out.append(n.with_body(s, (*set_first, *body_of(s.body))))
            else:
                out.append(s)
        return tuple(out)

    def set(self, d: n.Decl, before: Sequence[n.Stmt], s: n.For) -> list[n.Stmt]:
        """Statements that set a carried integer before each pass; none if data do not decide."""
        carried = n.integer(d.name)
        every = n.integers(self.names.fresh(f"{d.name}_of_{s.name}"))
        own = n.entry(every, n.integer(s.name))
        found = n.with_body(s, (n.Assign(own, "=", carried), *body_of(s.body)))
        counting = needed([*before, found], {every.name})
        local = {x.name for x in n.find_all(counting, n.For, n.Decl)}
        read = names_in(counting)
        if read - self.known.keys() - local - {every.name}:
            return []
        count = n.integer(counted_to(s))
        self.found.append(n.Decl(every.name, n.SizedType("int", array=(count,)), line=s.line))
        self.found.append(n.Block(tuple(counting)))
        return [n.Assign(carried, "=", own, line=s.line)]


def _carried(before: Sequence[n.Stmt], s: n.For) -> list[n.Decl]:
    """Integers declared before a loop whose value in one pass depends on that in another."""
    pairs = [*assignments(s, names_in)]
    assigned = [*n.find_all(s, n.Assign)]
    carried = {
        v.name
        for x in assigned
        for v in target_vars(x.target)
        if x.op != "=" or v.name in sources(pairs, names_in(x.value))
    }
    return [d for d in before if isinstance(d, n.Decl) and d.type == n.INT and d.name in carried]
