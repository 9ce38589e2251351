"""Local numbers that never change, written where they are read.

for (n in 2:N) {
  int m = n - 1;                           for (n in 2:N) {
  y[n] ~ normal(a + b * y[m], s);            y[n] ~ normal(a + b * y[n - 1], s);
}                                          }

real mu;
for (j in 1:J) {                           for (j in 1:J) {
  mu = a[j];                                 segment(y, pos, s[j]) ~ normal(a[j], sigma);
  segment(y, pos, s[j]) ~ normal(mu, sigma);
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from stancoreset.stan.syntax import assigned_names, declarations, names_in, rewritten
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.draft import Draft
from stancoreset.stan.weave.sampling import adding_call
from stancoreset.stan.weave.slices import without_unread


def without_local_numbers(draft: Draft) -> Draft:
    """The values of numbers that are set once stand in their place, in the model block."""
    model = _Numbers(draft.program.model).block(draft.program.model)
    out = draft.of(replace(draft.program, model=model))
    return draft if out is draft else without_unread(out)


@dataclass
class _Numbers:
    """Writes numbers out where they are read."""

    model: tuple[n.Stmt, ...]

    def __post_init__(self) -> None:
        below = [*n.find_all(self.model, n.Assign, n.Var)]
        scalars = (d for d in declarations(self.model) if not d.type.rank)
        self.declared = Counter(d.name for d in scalars if d.constraint.kind == "none")
        assigned = [x.target for x in below if isinstance(x, n.Assign)]
        self.assigned = Counter(v.name for v in assigned if isinstance(v, n.Var))
        self.mentioned = Counter(x.name for x in below if isinstance(x, n.Var))

    def block(self, body: tuple[n.Stmt, ...]) -> tuple[n.Stmt, ...]:
        """The statements of a block."""
        out: list[n.Stmt] = []
        values: dict[str, n.Expr] = {}
        for k, s in enumerate(body):
            s = rewritten(s, lambda e: values.get(e.name) if isinstance(e, n.Var) else None)
            found = self.setting(s, body[k + 1 :])
            if found and not adding_call(found[1]) and _keeps(*found, body[k + 1 :]):
                name, value = found
                values[name] = n.Paren(value, type=value.type)
            else:
                out.append(n.with_parts(s, self.block))
        return tuple(out)

    def setting(self, s: n.Stmt, after: tuple[n.Stmt, ...]) -> tuple[str, n.Expr] | None:
        """A number and its value, where that is the only one it ever has, and is read after it."""
        match s:
            case n.Decl(name=name, value=n.Expression() as value) if not s.type.rank:
                changed = assigned_names(after)
                return None if name in changed or s.constraint.kind != "none" else (name, value)
            case n.Assign(target=n.Var(name=name), op="=", value=value):
                reads = [*n.find_all(after, n.Var)]
                here = sum(x.name == name for x in reads)
                once = self.declared[name] == self.assigned[name] == 1
                if once and self.mentioned[name] == here + 1:
                    return name, value
        return None


def _keeps(name: str, value: n.Expr, after: tuple[n.Stmt, ...]) -> bool:
    """Whether what a value is computed from stays the same as long as its name is read."""
    last = max((k for k, s in enumerate(after) if name in names_in(s)), default=-1)
    changed = assigned_names(after[: last + 1])
    return not names_in(value) & changed
