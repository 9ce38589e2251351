"""Selected rows on the left, ``mu[I] += C .* f[J];``, as a loop over all rows.

brms writes the Gaussian process of one level of a factor (``gp(x, by = f)``) for the rows I that
have it. Where each row stands in I does not change when rows are left out, and is found once from
the full data:

    for (n in 1:N) if (place[n] > 0) mu[n] += C[place[n]] * f[J[place[n]]];
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from stancoreset.stan.syntax import Names, bare
from stancoreset.stan.syntax import expression as text
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.elements import Element, NotSplitError
from stancoreset.stan.weave.integers import INT, ONE

__all__ = ["without_left_selections"]

_INTS = n.Type("int", 1)
_ZERO = n.IntLit("0", type=INT, data_only=True)


def without_left_selections(program: n.Program) -> n.Program:
    """The program with loops over all rows in place of assignments to selected rows."""
    spread = _Spread(program, Names(program))
    parameters, model = (
        tuple(n.transform(s, spread.statement) for s in block)
        for block in (program.transformed_parameters, program.model)
    )
    if not spread.found:
        return program
    body = (*program.transformed_data, *spread.found)
    return replace(program, transformed_data=body, transformed_parameters=parameters, model=model)


@dataclass
class _Spread:
    """Replaces assignments to selected rows; `found` are the statements that place the rows."""

    program: n.Program
    names: Names
    found: list[n.Stmt] = field(default_factory=list)
    places: dict[tuple[str, str], n.Var] = field(default_factory=dict)

    def __post_init__(self) -> None:
        program = self.program
        known = [d for d in (*program.data, *program.transformed_data) if isinstance(d, n.Decl)]
        self.known = {d.name for d in known}
        self.pointers = {d.name for d in known if d.type == _INTS}
        counts = {d.name for d in program.data if d.type == INT}
        local = (d for b in (program.transformed_parameters, program.model) for s in b
                 for d in n.walk(s) if isinstance(d, n.Decl))  # fmt: skip
        self.sized = {
            d.name: size.name
            for d in local
            if d.type.rank == 1 and isinstance(size := bare(d.size.dims[0]), n.Var)
            if size.name in counts
        }

    def statement(self, s: n.Node) -> n.Node | None:
        """A loop over all rows in place of ``mu[I] += …``; None for all else."""
        match s:
            case n.Assign(target=n.Index(base=n.Var(name=v), indices=(n.Single(i),)) as target):
                pointer = bare(i)
                if v not in self.sized or not isinstance(pointer, n.Var):
                    return None
                if pointer.name not in self.pointers:
                    return None
                try:
                    return self.loop(s, target, pointer.name, self.sized[v])
                except NotSplitError:
                    return None
        return None

    def loop(self, s: n.Assign, target: n.Index, pointer: str, count: str) -> n.For:
        size = n.Var(count, type=INT, data_only=True)
        row = n.Var(self.names.fresh("n"), type=INT, data_only=True)
        places = self.places.get((pointer, count)) or self.placed(pointer, count)
        place = n.Index(places, (n.Single(row),), type=INT, data_only=True)
        own = n.Index(target.base, (n.Single(row),), type=target.type.element())

        def entry(e: n.Expr) -> n.Expr | None:
            if text(e) == text(target):
                return own
            kind = e.type.element()
            if isinstance(e, n.Var):
                if e.name not in self.known:  # a parameter for each selected row
                    raise NotSplitError
                return n.Index(e, (n.Single(place),), type=kind)
            match e:
                case n.Index(base=n.Var() as base, indices=(n.Single(n.Var() as j),)):
                    picked = n.Index(j, (n.Single(place),), type=INT)
                    return n.Index(base, (n.Single(picked),), type=kind)
            return None

        element = Element(entry, {}, lambda e: text(target.base) in text(e))
        value = element.of(s.value) if s.value.type.rank else element.shared(s.value)
        put = replace(s, target=own, op=s.op.replace(".", ""), value=value)
        test = n.Binary(place, ">", _ZERO, type=INT, data_only=True)
        body = n.Block((n.If(test, n.Block((put,), line=s.line), line=s.line),), line=s.line)
        return n.For(row.name, ONE, size, body, line=s.line)

    def placed(self, pointer: str, count: str) -> n.Var:
        """The array of where each row stands among the selected; 0 if it does not."""
        size = n.Var(count, type=INT, data_only=True)
        places = n.Var(self.names.fresh(f"place_in_{pointer}"), type=_INTS, data_only=True)
        zeros = n.Call("rep_array", (_ZERO, size), type=_INTS)
        chosen = n.Var(pointer, type=_INTS, data_only=True)
        k = n.Var(self.names.fresh("k"), type=INT, data_only=True)
        one = n.Index(chosen, (n.Single(k),), type=INT, data_only=True)
        mine = n.Index(places, (n.Single(one),), type=INT, data_only=True)
        # A row that stands in it twice gets -1; the declared bound then names the row.
        twice = n.Unary("-", ONE, type=INT, data_only=True)
        value = n.Ternary(n.Binary(mine, "!=", _ZERO, type=INT), twice, k, type=INT)
        body = n.Block((n.Assign(mine, "=", value),))
        bounds = n.Constraint("bounds", lower=_ZERO)
        self.found += [
            n.Decl(places.name, n.SizedType("int", array=(size,)), bounds, zeros),
            n.For(k.name, ONE, n.Call("size", (chosen,), type=INT), body),
        ]
        self.places[pointer, count] = places
        return places
