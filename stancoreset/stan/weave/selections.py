"""Densities of selected rows, ``y[J[1:K]] ~ normal(mu[J[1:K]], s)``, as loops over all rows.

An array J of row numbers points at other rows once rows are left out. How often each row
stands in it does not change, and is computed once from the full data:

    for (n in 1:N) if (times_J[n] > 0) target += times_J[n] * normal_lpdf(y[n] | mu[n], s);

This is how brms (2.22 and later) writes censoring, and how subsets are written by hand; loops over
selected rows become loops over all rows in the same way.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from stancoreset.stan.syntax import (
    assigned_names,
    bare,
    body_of,
    constants,
    declarations,
    from_first,
    has_own_break,
    indexed_name,
    name_of,
    names_in,
    rewritten,
    single,
    without_declarations,
)
from stancoreset.stan.syntax import expression as text
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.accumulators import addends
from stancoreset.stan.weave.domain import coupled, rowwise
from stancoreset.stan.weave.draft import DoesNotApplyError, Draft, Rewriter, need
from stancoreset.stan.weave.elements import at
from stancoreset.stan.weave.expressions import Rows
from stancoreset.stan.weave.library import density, suffix
from stancoreset.stan.weave.pieces import refuse
from stancoreset.stan.weave.sampling import density_call
from stancoreset.stan.weave.separate import Flow


def spread(draft: Draft) -> Draft:
    """Densities of selected rows become loops over all rows."""
    return _Spread(draft.program, draft.obs).done(draft)


class _Spread(Rewriter):
    def __init__(self, program: n.Program, obs: str) -> None:
        super().__init__(program)
        self.obs = obs
        self.functions = {f.name for f in program.functions}
        self.globals = {*self.known}
        self.lengths = {name: text(self.known[name].size.dims[0]) for name in self.pointers}
        every = declarations(
            program.data, program.transformed_data, program.transformed_parameters, program.model
        )
        other = {d.name for d in every if not d.size.dims or name_of(d.size.dims[0]) != obs}
        self.sized = {d.name for d in every} - other
        known_rows = {name: rowwise(0) for name in self.sized}
        self.dependences = Rows(known_rows, self.globals, lambda e, deps: coupled("not followed"))
        self.counts: dict[str, n.Var] = {}  # how often rows are selected, by the selection's text

    def done(self, draft: Draft) -> Draft:
        loops = (n.transform(s, self.selected_loop) for s in self.program.model)
        model = tuple(n.transform(s, self.statement) for s in loops)
        if not self.counts:
            return draft
        return draft.of(replace(self.program, model=model), self.found)

    # ---- statements -----------------------------------------------------------------------

    def selected_loop(self, s: n.Node) -> n.Node | None:
        """A loop over all rows in place of one over selected rows; None for all else."""
        if not isinstance(s, n.For | n.ForEach):
            return None
        pointer = bare(s.sequence) if isinstance(s, n.ForEach) else _counted(s, self.lengths)
        if pointer is None or name_of(from_first(pointer)) not in self.pointers:
            return s  # nor is any loop inside it
        if has_own_break(s.body) or not names_in(pointer) <= self.globals:
            return s
        if name_of(pointer) in self.sized:  # a loop over all rows
            return s
        entry = s.name if isinstance(s, n.ForEach) else text(_numbered(pointer, s.name))
        numbers = {entry, *_aliases(s.body, entry)}  # texts of the number of the row
        row = n.integer(self.names.loop())
        body = _renumbered(s.body, numbers, row)
        picks = any(_picks_row(e, numbers, self.sized) for e in n.walk(s.body))
        if s.name in names_in(body) or not picks:
            return s
        again, often = self.names.fresh("again"), self.often(pointer, row)
        passes = n.loop(again, often, *body_of(body), line=s.body.line)
        return n.loop(row.name, n.integer(self.obs), passes, line=s.body.line)

    def statement(self, s: n.Node) -> n.Node | None:
        """A loop over rows in place of an increment of selected rows; None for all else."""
        if not isinstance(s, n.Increment) or (isinstance(s, n.Tilde) and s.truncated):
            return None
        value = density_call(s, self.functions) if isinstance(s, n.Tilde) else s.value
        try:
            rest, loops = self.parts(value, s)
        except DoesNotApplyError:
            return None
        if not loops:
            return None
        if rest is not None:
            loops.insert(0, n.TargetAdd(rest, line=s.line, origin=s.as_written))
        return loops[0] if len(loops) == 1 else n.Block(tuple(loops), line=s.line)

    def parts(self, e: n.Expr, s: n.Stmt) -> tuple[n.Expr | None, list[n.Stmt]]:
        """The rest of a sum, and a loop for each of its densities of selected rows."""
        rest: n.Expr | None = None
        loops: list[n.Stmt] = []
        for negative, term in addends(e):
            if isinstance(term, n.Call) and (selected := self.selected(term)):
                loops.append(self.loop(term, selected, negative, s))
            else:
                own = n.Unary("-", term, type=n.REAL) if negative else term
                rest = own if rest is None else n.plus(rest, own)
        return rest, loops

    def loop(self, e: n.Call, selected: set[str], negative: bool, s: n.Stmt) -> n.Stmt:
        need(len(selected) == 1)
        (chosen,) = selected
        i = n.integer(self.names.loop())
        entry = self.user_entry(e, chosen, i, s) if e.user else self.entry(e, chosen, i)
        index = next(x for a in e.args for x in n.walk(a) if self.selection(x) == chosen)
        assert isinstance(index, n.Index)
        assert isinstance(index.indices[0], n.Single)
        often = self.often(bare(index.indices[0].index), i)
        value: n.Expr = n.times(often, entry)
        if negative:
            value = n.Unary("-", value, type=n.REAL)
        add = n.TargetAdd(value, line=s.line, origin=s.as_written)
        test = n.Binary(often, ">", n.ZERO, type=n.INT)
        branch = n.If(test, n.Block((add,), line=s.line), line=s.line)
        return n.loop(i.name, n.integer(self.obs), branch, line=s.line)

    def entry(self, e: n.Call, chosen: str, i: n.Expr) -> n.Expr:
        """The term of row `i` in a sum, or in a density of Stan's."""
        if e.name == "sum":
            return self.row(e.args[0], chosen, i)
        known = density(suffix(e.name)[0])
        if known is None or known.glm is not None:
            raise DoesNotApplyError
        args = [self.row(a, chosen, i) if chosen in self.selections(a) else a for a in e.args]
        need(all(a.type.rank == known.rank(position) for position, a in enumerate(args)))
        return replace(e, args=tuple(args))

    def user_entry(self, e: n.Call, chosen: str, i: n.Expr, s: n.Stmt) -> n.Expr:
        """The term of row `i` in a user's density: it must be a sum over the selected rows."""
        whole = [self.whole(a, chosen) for a in e.args]
        flow = Flow(self.program, self.obs, {}, self.globals, self.names)
        dep = flow.call_user(e, [self.dependences.of(a) for a in whole])
        if dep.kind != "sum":
            why = dep.why or f"`{e.name}` is not a sum over the selected observations"
            refuse(s, why, dep.advice)
        return replace(e, args=tuple(self.picked(a, chosen, n.Between(i, i)) for a in e.args))

    # ---- expressions ------------------------------------------------------------------------

    def selection(self, e: n.Node) -> str:
        """The text of J or J[1:K] in ``v[J[1:K]]``, for v with one entry per row."""
        if not isinstance(e, n.Index) or indexed_name(e) not in self.sized:
            return ""
        pointer = single(e.indices[0])
        if pointer is None or name_of(from_first(pointer)) not in self.pointers:
            return ""
        return text(pointer) if names_in(pointer) <= self.globals else ""

    def selections(self, e: n.Node) -> set[str]:
        return {found for x in n.walk(e) if (found := self.selection(x))}

    def selected(self, e: n.Call) -> set[str]:
        """The selections in a density, or in a sum."""
        if e.type.rank or not (suffix(e.name)[1] or e.name == "sum"):
            return set()
        return set().union(*(self.selections(a) for a in e.args))

    def row(self, e: n.Expr, chosen: str, i: n.Expr) -> n.Expr:
        """The entry of row `i` of an expression of the selected rows."""
        return at(self.whole(e, chosen), i, self.dependences)

    def whole(self, e: n.Expr, chosen: str) -> n.Expr:
        """An expression of the selected rows for all rows, each row's entry being the same."""
        others = n.transform(e, lambda x: n.ZERO if self.selection(x) == chosen else None)
        whole = self.picked(e, chosen, n.All())
        dep = self.dependences.of(whole)
        # a statistic, ``mean(x[J])``, is another for all rows
        mixes = chosen in self.selections(e) and (dep.kind != "rowwise" or dep.stat)
        need(not mixes and not names_in(others) & self.sized)
        return whole

    def picked(self, e: n.Expr, chosen: str, index: n.Indexing) -> n.Expr:
        """An expression of the selected rows for those at `index`."""

        def other(x: n.Node) -> n.Node | None:
            if self.selection(x) != chosen or not isinstance(x, n.Index):
                return None
            all_of_it = isinstance(index, n.All) and not x.indices[1:]
            return x.base if all_of_it else replace(x, indices=(index, *x.indices[1:]))

        return n.transform(e, other)  # type: ignore[no-any-return]

    # ---- how often each row is selected -------------------------------------------------------

    def often(self, pointer: n.Expr, row: n.Expr) -> n.Expr:
        """Number of times that a row is selected, of an array that is filled once."""
        chosen = text(pointer)
        if chosen not in self.counts:
            stem = pointer.base if isinstance(pointer, n.Index) else pointer
            times = n.integers(self.names.fresh(f"times_{text(stem)}"))
            size = n.integer(self.obs)
            start = n.call("rep_array", n.ZERO, size, kind=n.INTS)
            i = n.integer(self.names.fresh("j"))
            step = n.Assign(n.entry(times, i), "+=", n.ONE)
            self.found += [
                n.Decl(times.name, n.SizedType("int", (size,)), value=start),
                n.ForEach(i.name, pointer, n.Block((step,))),
            ]
            self.counts[chosen] = times
        return n.entry(self.counts[chosen], row)


def _counted(s: n.For, pointers: Mapping[str, str]) -> n.Expr | None:
    """``for (k in 1:K)`` where k stands in ``J[k]`` alone: J, or ``J[1:K]`` if J may be longer."""
    if text(bare(s.lower)) != "1" or assigned_names(s.body) & names_in(s.upper):
        return None
    found = {
        name
        for e in n.find_all(s.body, n.Index)
        if (name := indexed_name(e)) in pointers and text(e) == text(_numbered(e.base, s.name))
    }
    if len(found) != 1:
        return None
    (name,) = found
    pointer, upper = n.integers(name), text(bare(s.upper))
    if upper in (pointers[name], f"size({name})", f"num_elements({name})"):
        return pointer
    return n.Index(pointer, (n.Between(n.ONE, s.upper),), type=pointer.type)


def _numbered(pointer: n.Expr, number: str) -> n.Index:
    base = pointer.base if isinstance(pointer, n.Index) else pointer
    return n.entry(base, n.integer(number))


def _aliases(body: n.Stmt, entry: str) -> set[str]:
    """Names declared as the row's number, ``int i = J[k];``, and never changed."""
    found = constants([body]).items()
    return {name for name, d in found if d.value is not None and text(bare(d.value)) == entry}


def _renumbered(body: n.Stmt, numbers: Collection[str], by: n.Expr) -> n.Stmt:
    """The body with another expression for the row's number; names for it are gone."""

    def change(e: n.Node) -> n.Node | None:
        return by if isinstance(e, n.Var | n.Index) and text(e) in numbers else None

    return rewritten(n.Block(without_declarations(body_of(body), numbers)), change)


def _picks_row(e: n.Node, numbers: Collection[str], rows: Collection[str]) -> bool:
    """Whether `e` is the entry of a row: ``y[J[k]]``."""
    if not isinstance(e, n.Index) or indexed_name(e) not in rows:
        return False
    place = single(e.indices[0])
    return place is not None and text(place) in numbers
