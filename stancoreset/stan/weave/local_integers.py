"""Local integers that data decide, written where they are read.

    for (n in 2:N) {
      int m = n - 1;                           for (n in 2:N) {
      y[n] ~ normal(a + b * y[m], s);            y[n] ~ normal(a + b * y[n - 1], s);
    }                                          }

So does ``int last = pos + s[j] - 1;`` in a loop over segments.
"""

from __future__ import annotations

from dataclasses import replace

from stancoreset.stan.syntax import assigned_names, names_in, rewritten
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.draft import Draft

__all__ = ["without_local_integers"]


def without_local_integers(draft: Draft) -> Draft:
    """The values of integers that never change stand in their place, in the model block."""
    program = draft.program
    known = {d.name for d in program.known}
    model = _inlined(program.model, known)
    if model == program.model:
        return draft
    return replace(draft, program=replace(program, model=model))


def _inlined(body: tuple[n.Stmt, ...], known: set[str]) -> tuple[n.Stmt, ...]:
    """The statements of a block; `known` are data and variables of the loops around it."""
    out: list[n.Stmt] = []
    values: dict[str, n.Expr] = {}
    for k, s in enumerate(body):
        s = rewritten(s, lambda e: values.get(e.name) if isinstance(e, n.Var) else None)
        if isinstance(s, n.Decl) and s.type == n.INT and s.value is not None:
            changed = set().union(*map(assigned_names, body[k + 1 :]))
            if s.name not in changed and names_in(s.value) <= known:
                values[s.name] = n.Paren(s.value, type=n.INT)
                continue
        out.append(_within(s, known))
    return tuple(out)


def _within(s: n.Stmt, known: set[str]) -> n.Stmt:
    match s:
        case n.Block(body=body) | n.Profile(body=body):
            return replace(s, body=_inlined(body, known))
        case n.If(yes=yes, no=no):
            return replace(s, yes=_within(yes, known), no=no and _within(no, known))
        case n.For(name=name, body=body):
            return replace(s, body=_within(body, known | {name}))
    return s
