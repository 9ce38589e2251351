"""Selected rows on the left, ``mu[I] += C .* f[J];``, as a loop over all rows.

brms writes the Gaussian process of one level of a factor (``gp(x, by = f)``) for the rows I that
have it. Where each row stands in I does not change when rows are left out, and is found once from
the full data:

    for (n in 1:N) if (place[n] > 0) mu[n] += C[place[n]] * f[J[place[n]]];

Missing values that are parameters, brms' ``mi()``, belong to their rows in this way: ``Yl[Jmi] =
Ymi;``. A row has the value that is missing in it, and no other row has.
"""

from __future__ import annotations

from dataclasses import replace

from stancoreset.stan.syntax import bare, declarations, with_statements
from stancoreset.stan.syntax import expression as text
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.draft import DoesNotApplyError, Draft, Rewriter, need
from stancoreset.stan.weave.elements import Element
from stancoreset.stan.weave.numbers import numbered_once, numbers_of_rows


def without_left_selections(draft: Draft) -> Draft:
    """Loops over all rows stand in place of assignments to selected rows."""
    placed = _Placed(draft.program)
    return draft.of(with_statements(draft.program, placed.statement), placed.found)


class _Placed(Rewriter):
    """Replaces assignments to selected rows; `found` are the statements that place the rows."""

    def __init__(self, program: n.Program) -> None:
        super().__init__(program)
        self.places: dict[tuple[str, str], n.Var] = {}
        given = (*program.known, *program.parameters)
        self.lengths = {d.name: text(d.size.dims[0]) for d in given if d.size.dims}
        local = declarations(program.transformed_parameters, program.model)
        self.sized = {d.name for d in local if d.type.rank == 1} & self.sizes.keys()

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
                    return self.loop(s, target, pointer.name, self.sizes[v])
                except DoesNotApplyError:
                    return None
        return None

    def loop(self, s: n.Assign, target: n.Index, pointer: str, count: str) -> n.For:
        row = n.integer(self.names.fresh("n"))
        places = self.places.get((pointer, count)) or self.placed(pointer, count)
        place = n.entry(places, row)
        own = n.entry(target.base, row)

        def of_row(e: n.Expr) -> n.Expr | None:
            if text(e) == text(target):
                return own
            if isinstance(e, n.Var):
                need(e.name in self.known or self.lengths.get(e.name) == self.lengths[pointer])
                return n.entry(e, place)
            match e:
                case n.Index(base=n.Var() as base, indices=(n.Single(n.Var() as j),)):
                    return n.entry(base, n.entry(j, place))
            return None

        element = Element(of_row, whole=lambda e: text(target.base) in text(e))
        value = element.of(s.value) if s.value.type.rank else element.shared(s.value)
        put = replace(s, target=own, op=s.op.replace(".", ""), value=value)
        test = n.Binary(place, ">", n.ZERO, type=n.INT)
        chosen = n.If(test, n.Block((put,), line=s.line), line=s.line)
        return n.loop(row.name, n.integer(count), chosen, line=s.line)

    def placed(self, pointer: str, count: str) -> n.Var:
        """The array of where each row stands among the selected; 0 if it does not."""
        size, chosen = n.integer(count), n.integers(pointer)
        places = n.integers(self.names.fresh(f"place_in_{pointer}"))
        k = n.integer(self.names.fresh("k"))
        mine = n.entry(places, n.entry(chosen, k))
        self.found += [
            numbers_of_rows(places, size, n.ZERO),
            n.loop(k.name, n.call("size", chosen, kind=n.INT), numbered_once(mine, k)),
        ]
        self.places[pointer, count] = places
        return places
