"""Rows begin with states of their own: positions that are carried along, and scratch containers.

    int pos = 1;
    for (j in 1:J) {
      segment(y, pos, s[j]) ~ multi_normal(…);
      pos += s[j];
    }

Where data alone decide the position, transformed data find that of each segment by the same loop,
and each pass begins with its own, ``pos = pos_of_j[j];``.

    array[T] vector[K] gamma;
    for (n in 1:N) {
      gamma[first[n]] = …;                                      // which elements a row writes
      for (t in (first[n] + 1):T) gamma[t] = … gamma[t - 1] …;  // depends on its data
      target += log(sum(gamma[T]));
    }

A row that reads only what it has written itself is the same with a container of its own. Where
data alone decide what is written and read, the same loop with a mark for each element, in
transformed data, finds the first row that would read what another row has left, and rejects it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stancoreset.stan.syntax import (
    Names,
    assigned_names,
    assignments,
    body_of,
    counted_to,
    names_in,
    part_of,
    sources,
    target_vars,
)
from stancoreset.stan.syntax import expression as text
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.draft import DoesNotApplyError, Draft, Rewriter, need
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
    carried = {
        name
        for x in n.find_all(s, n.Assign)
        for name in assigned_names(x)
        if x.op != "=" or name in sources(pairs, names_in(x.value))
    }
    return [d for d in before if isinstance(d, n.Decl) and d.type == n.INT and d.name in carried]


def with_own_scratch(draft: Draft) -> Draft:
    """Scratch containers stand inside loops over rows; checks reject a row that reads another's."""
    move = _Move(draft.program)
    moved = draft.of(replace(draft.program, model=move.statements(draft.program.model)))
    return draft if moved is draft else replace(moved, checks=tuple(move.found))


class _Move(Rewriter):
    """Moves declarations into loops; `found` are the checks."""

    def statements(self, body: Sequence[n.Stmt]) -> tuple[n.Stmt, ...]:
        scratch = {
            s.name: s for s in body
            if isinstance(s, n.Decl) and s.value is None and s.type.rank
            and names_in(s.size) <= self.known.keys() and not s.size.items
        }  # fmt: skip
        others = [s for s in body if not (isinstance(s, n.Decl) or self.over_rows(s))]
        outside = names_in(others)
        loops = [s for s in body if isinstance(s, n.For) and self.over_rows(s)]
        filled = set().union(*map(_filled, loops)) - outside
        moved = {k: d for k, d in scratch.items() if k in filled and self.checked(d, loops)}
        out: list[n.Stmt] = []
        for s in body:
            if isinstance(s, n.For) and s in loops:
                own = [d for k, d in moved.items() if k in names_in(s)]
                out.append(n.with_body(s, (*own, *body_of(s.body))))
            elif isinstance(s, n.Block):
                out.append(replace(s, body=self.statements(s.body)))
            elif not (isinstance(s, n.Decl) and s.name in moved):
                out.append(s)
        return tuple(out)

    def checked(self, d: n.Decl, loops: Sequence[n.For]) -> bool:
        """Whether the data tell what the rows read of a container; its checks are kept."""
        using = [s for s in loops if d.name in names_in(s)]
        try:
            found = [_Marks(d, self.names, {*self.known, s.name}).check(s) for s in using]
        except DoesNotApplyError:
            return False
        self.found += found
        return True


def _filled(s: n.Stmt) -> set[str]:
    """Names of containers to whose elements the statements below assign."""
    return assigned_names(x for x in n.find_all(s, n.Assign) if isinstance(x.target, n.Index))


class _Marks:
    """A loop over rows with marks for the elements of one container that a row has written."""

    def __init__(self, d: n.Decl, names: Names, known: set[str]) -> None:
        self.scratch = d
        self.known = known  # names of data and of what is computed from data alone
        rank = n.Type("int", len(d.size.dims))
        self.marks = n.Var(names.fresh(f"{d.name}_written"), type=rank)
        self.all = n.Var(names.fresh(f"all_of_{d.name}"), type=rank)

    def check(self, s: n.For) -> n.Stmt:
        """The statement of transformed data."""
        sizes = n.SizedType("int", array=self.scratch.size.dims)

        def filled(value: n.Expr) -> n.Expr:
            return n.call("rep_array", value, *sizes.array, kind=self.marks.type)

        body = n.Block((n.Assign(self.marks, "=", filled(n.ZERO)), *self.marked(s.body)))
        return n.Block(
            (
                n.Decl(self.marks.name, sizes),
                n.Decl(self.all.name, sizes, value=filled(n.ONE)),
                replace(s, body=body, number=0),
            )
        )

    def marked(self, s: n.Stmt | None) -> tuple[n.Stmt, ...]:
        """Checks and marks in place of a statement."""
        match s:
            case n.Block(body=body) | n.Profile(body=body):
                return (n.Block(tuple(new for x in body for new in self.marked(x))),)
            case n.Decl(name=name, value=value):
                reads = self.reads(value)
                if s.type == n.INT and not reads and self.is_known(value):
                    self.known.add(name)
                    return (s,)
                self.known.discard(name)
                return reads
            case n.Assign():
                return self.assignment(s)
            case n.If(condition=condition, yes=yes, no=no):
                self.require(condition)
                branches = [n.Block(self.marked(x)) for x in (yes, no)]
                return (replace(s, yes=branches[0], no=branches[1]),)
            case n.For(name=name, lower=lower, upper=upper, body=body):
                self.require(lower, upper)
                self.known.add(name)
                return (replace(s, body=n.Block(self.marked(body))),)
            case n.While(condition=condition, body=body):
                self.require(condition)
                return (replace(s, body=n.Block(self.marked(body))),)
            case n.Tilde() | n.TargetAdd() | n.Message():
                return self.reads(s)
            case n.Break() | n.Continue():
                return (s,)
            case n.Skip() | None:
                return ()
        raise DoesNotApplyError

    def assignment(self, s: n.Assign) -> tuple[n.Stmt, ...]:
        base, *_ = target_vars(s.target)
        if base.name != self.scratch.name:
            reads = (*self.reads(s.target), *self.reads(s.value))
            if base.name in self.known:  # an integer that may decide what follows
                self.require(s.target, s.value)
                return (*reads, s)
            return reads
        reads = self.reads(s.value if s.op == "=" else n.Binary(s.target, "+", s.value))
        need(not isinstance(s.target, n.TupleLit) and len(target_vars(s.target)) == 1)
        return (*reads, n.Assign(self.of(s.target, self.marks), "=", self.of(s.target, self.all)))

    def reads(self, node: n.Node | None) -> tuple[n.Stmt, ...]:
        """A check of each part of the container that is read below `node`."""
        if node is None:
            return ()
        if isinstance(node, n.Ternary) and self.is_known(node.condition):
            branches = [n.Block(self.reads(e)) for e in (node.yes, node.no)]
            some = any(branch.body for branch in branches)
            return (n.If(node.condition, branches[0], branches[1]),) if some else ()
        if isinstance(node, n.Var | n.Index) and part_of(node) == self.scratch.name:
            return (self.rejected(node),)
        found = (check for child in n.children(node) for check in self.reads(child))
        return tuple(dict.fromkeys(found))

    def rejected(self, e: n.Expr) -> n.Stmt:
        """The rejection of a row that reads an element which it has not written."""
        marks = self.of(e, self.marks)
        rank = marks.type.rank
        if rank:
            flat = n.call("to_array_1d", marks, kind=n.INTS) if rank > 1 else marks
            total, every = (
                n.call(f, v, kind=n.INT) for f, v in (("sum", flat), ("num_elements", marks))
            )
            missing = n.Binary(total, "<", every, type=n.INT)
        else:
            missing = n.Binary(marks, "==", n.ZERO, type=n.INT)
        why = (
            f"{text(e)} has an element that this row has not written: `{self.scratch.name}` keeps "
            "a value of another row there"
        )
        reject = n.Message("reject", (f'"{why}"',))
        return n.If(missing, n.Block((reject,)))

    def of(self, e: n.Expr, marks: n.Var) -> n.Expr:
        """Marks for the part of the container that `e` reads."""
        if not isinstance(e, n.Index):
            return marks
        self.require(*e.indices)
        base = self.of(e.base, marks)
        return n.Index(base, e.indices, type=n.Type("int", e.type.rank))

    def is_known(self, *nodes: n.Node | None) -> bool:
        return all(node is None or names_in(node) <= self.known for node in nodes)

    def require(self, *nodes: n.Node | None) -> None:
        """Leave the check where more than data decides."""
        need(self.is_known(*nodes))
