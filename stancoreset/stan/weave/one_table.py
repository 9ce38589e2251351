"""Observations in blocks of their own count, as censored and uncensored times, in one table.

    target += weibull_lpdf(t | a, s) + weibull_lccdf(c | a, s);     // vector[N] t; vector[C] c;

The log density is a sum over the rows of each block, so it is woven along one count and then
along the next. A coreset has rows of all: data have one row for each, of all columns, and
``block`` tells which columns it fills. Transformed data take the blocks apart again,

    vector[N] t = t_rows[rows_of_N];

for the woven program and for the author's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from stancoreset.stan.syntax import Names, names_in, printer, renamed, substituted
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.assemble import Woven, formatted
from stancoreset.stan.weave.counts import optional
from stancoreset.stan.weave.draft import Draft, Entry
from stancoreset.stan.weave.table import Column, Table


def in_one_table(draft: Draft, along: Callable[[Draft], Woven]) -> Woven:
    """The program woven along all of its counts; `along` weaves it along one."""
    one = replace(draft, added=())
    alone = [along(replace(one, counts=(count,))) for count in draft.counts]
    parts = alone[:1]
    for count in draft.counts[1:]:
        parts.append(along(replace(one, program=parts[-1].tree, counts=(count,))))
    return _Joined(draft, parts).woven(_merged(alone))


class _Joined:
    """Puts the blocks of a program, which is woven along all counts, into one table."""

    def __init__(self, draft: Draft, parts: Sequence[Woven]) -> None:
        self.draft = draft
        own = draft.program.transformed_data
        self.program = program = replace(draft.author or draft.program, transformed_data=own)
        self.counts = counts = draft.counts
        self.parts = parts
        self.names = names = Names(parts[-1].tree)
        self.obs = n.integer(names.fresh("N_rows"))
        self.block = n.integers(names.fresh("block"))
        self.rows = tuple(n.integers(names.fresh(f"rows_of_{c}")) for c in counts)
        self.row = n.integer(names.fresh("n"))
        self.columns = tuple(
            Column(name, names.fresh(f"{name}_rows"), k, axis)
            for k, part in enumerate(parts)
            for name, axis in part.rows.items()
        )
        self.weights = tuple(
            n.Var(names.fresh(f"{part.weights}_of_{c}"), type=n.VECTOR)
            for part, c in zip(parts, counts, strict=True)
        )
        given = {d.name for d in program.data}
        self.given = tuple(c for c in self.columns if c.given in given)
        self.computed = tuple(c for c in self.columns if c.given not in given)

    def woven(self, explanation: tuple[Entry, ...]) -> Woven:
        tree = self.tree()
        original = replace(
            self.program,
            data=self.data(self.program.data),
            transformed_data=(*self.blocks(self.program.data), *self.program.transformed_data),
        )
        frozen = {k: v for part in self.parts for k, v in part.frozen.items()}
        for c in self.computed:
            del frozen[c.given]
            frozen[c.name] = c.name
        table = Table(
            self.obs.name, self.block.name, self.counts, self.given,
            self.draft.given or self.program.data, original,
            self.draft.computed_sizes,
        )  # fmt: skip
        return Woven(
            code=formatted([self.comment()], tree),
            obs=self.obs.name,
            rows={self.block.name: 0} | {c.name: c.axis for c in self.columns},
            explanation=explanation,
            frozen=frozen,
            frozen_code=self.frozen_code(),
            tree=tree,
            numbered=bool(self.draft.added) or any(part.numbered for part in self.parts),
            outcome_statistics=tuple(x for part in self.parts for x in part.outcome_statistics),
            table=table,
        )

    def tree(self) -> n.Program:
        """The weighted program."""
        tree = self.parts[-1].tree
        old = [part.weights for part in self.parts]
        weights = n.Var("weights", type=n.VECTOR)
        size = n.SizedType("vector", sizes=(self.obs,))
        bounds = n.Constraint("bounds", lower=n.ZERO)
        left = tuple(d for d in tree.data if d.name not in old)
        taken = tuple(
            n.Decl(new.name, n.SizedType("vector", sizes=(n.integer(count),)),
                   value=n.Index(weights, (n.Single(rows),), type=n.VECTOR))
            for new, count, rows in zip(self.weights, self.counts, self.rows, strict=True)
        )  # fmt: skip
        new = {name: var.name for name, var in zip(old, self.weights, strict=True)}
        body = (*tree.transformed_data, *tree.transformed_parameters, *tree.model)
        assert not {"log_lik"} & names_in(body)
        return replace(
            tree,
            data=(*self.data(left), n.Decl(weights.name, size, bounds)),
            transformed_data=(*self.blocks(left), *taken, *renamed(tree.transformed_data, new)),
            transformed_parameters=renamed(tree.transformed_parameters, new),
            model=renamed(tree.model, new),
            generated_quantities=self.generated(),
        )

    def generated(self) -> tuple[n.Stmt, ...]:
        """``log_lik`` of the rows of all blocks."""
        whole = n.Var("log_lik", type=n.VECTOR)
        out: list[n.Stmt] = [n.Decl(whole.name, n.SizedType("vector", sizes=(self.obs,)))]
        for part, rows in zip(self.parts, self.rows, strict=True):
            own = n.Var(self.names.fresh("ll"), type=n.VECTOR)
            body = renamed(part.tree.generated_quantities, {part.log_lik: own.name})
            put = n.Assign(n.Index(whole, (n.Single(rows),), type=whole.type), "=", own)
            out.append(n.Block((*body, put)))
        return tuple(out)

    def data(self, declarations: Sequence[n.Decl]) -> tuple[n.Decl, ...]:
        """The data block with columns of the table in place of the blocks' variables."""
        columns = {c.given: c for c in self.columns}
        sized = n.SizedType("int", array=(self.obs,))
        table = (
            n.Decl(self.obs.name, n.SizedType("int"), n.Constraint("bounds", lower=n.ZERO)),
            n.Decl(
                self.block.name,
                sized,
                n.Constraint("bounds", lower=n.ONE, upper=n.literal(str(len(self.counts)))),
            ),
        )
        gone = {*self.counts, *columns}
        out = []
        for d in declarations:
            if d.name in columns:
                out.append(n.Decl(columns[d.name].name, self.long(d.size), line=d.line))
            elif d.name not in self.counts:
                bounds = names_in(d.constraint) & gone
                out.append(replace(d, constraint=n.Constraint()) if bounds else d)
        return (*table, *out)

    def long(self, size: n.SizedType) -> n.SizedType:
        return substituted(size, dict.fromkeys(self.counts, self.obs))  # type: ignore[no-any-return]

    def blocks(self, declarations: Sequence[n.Decl]) -> tuple[n.Stmt, ...]:
        """Statements of transformed data that take the blocks out of the table."""
        known = {d.name: d for d in declarations}
        absent = optional(n.Program(data=tuple(declarations)))
        out: list[n.Stmt] = []
        for k, (count, rows) in enumerate(zip(self.counts, self.rows, strict=True)):
            number = n.integer(count)
            out += [
                n.Decl(count, n.SizedType("int"), value=n.ZERO),
                self.if_in(k, n.Assign(number, "+=", n.ONE)),
                n.Decl(rows.name, n.SizedType("int", array=(number,))),
            ]
            place = n.integer(self.names.fresh("k"))
            put = n.Assign(n.entry(rows, place), "=", self.row)
            step = n.Assign(place, "+=", n.ONE)
            start = n.Decl(place.name, n.SizedType("int"), value=n.ONE)
            out.append(n.Block((start, self.if_in(k, n.Block((put, step))))))
        for c in self.columns:
            if c.given in known:
                out.append(self.taken(c, known[c.given], c.given in absent))
        return tuple(out)

    def if_in(self, block: int, s: n.Stmt) -> n.Stmt:
        """``for (n in 1:N_rows) if (block[n] == 1) s``"""
        test = n.Binary(n.entry(self.block, self.row), "==", n.literal(str(block + 1)), type=n.INT)
        return n.loop(self.row.name, self.obs, n.If(test, s))

    def taken(self, c: Column, d: n.Decl, optional: bool) -> n.Decl:
        """``vector[N] t = t_rows[rows_of_N];``"""
        column = n.Var(c.name, type=d.type)
        value: n.Expr = n.Index(column, self.cut(c), type=d.type)
        if optional:
            some = n.Binary(n.call("num_elements", column, kind=n.INT), ">", n.ZERO, type=n.INT)
            value = n.Ternary(some, value, column, type=d.type)
        return replace(d, value=value)

    def cut(self, c: Column) -> tuple[n.Indexing, ...]:
        """The indices of a block's rows in a column."""
        return (*(n.All() for _ in range(c.axis)), n.Single(self.rows[c.block]))

    def frozen_code(self) -> str:
        """Generated quantities of the user's program with the table."""
        lines: list[str] = []
        for part in self.parts:
            lines += part.frozen_code.strip().splitlines()[1:-1]
        declared = {d.name: d for d in self.parts[-1].tree.data}
        extra: list[n.Stmt] = []
        for c in self.computed:
            d = declared[c.given]
            whole = n.Var(c.name, type=d.type)
            size = self.long(d.size)
            extra += [
                n.Decl(c.name, size, value=_zeros(size)),
                n.Assign(
                    n.Index(whole, self.cut(c), type=d.type), "=", n.Var(c.given, type=d.type)
                ),
            ]
        if extra:
            text = printer.program(n.Program(generated_quantities=tuple(extra)))
            lines += text.strip().splitlines()[1:-1]
        return "\n".join(["generated quantities {", *lines, "}"]) + "\n" if lines else ""

    def comment(self) -> str:
        *some, last = (f"{count} of block {k}" for k, count in enumerate(self.counts, 1))
        return (
            f"Woven by stancoreset. Each of the {self.obs.name} observations, {', '.join(some)} "
            f"and {last}, adds weights[n] times its log likelihood to the log density; log_lik[n] "
            "is that log likelihood without the weight."
        )


def _zeros(size: n.SizedType) -> n.Expr:
    """A container of zeros of that size."""
    number: n.Expr = n.ZERO if size.base == "int" else n.literal("0.0")
    if size.sizes:
        number = n.call(f"rep_{size.base}", number, *size.sizes, kind=n.Type(size.base))
    if size.array:
        number = n.call("rep_array", number, *size.array, kind=size.type)
    return number


def _merged(alone: Sequence[Woven]) -> tuple[Entry, ...]:
    """The role of each statement, combined from the weavings along all counts."""
    found: dict[tuple[int, str], Entry] = {}
    for part in alone:
        for e in part.explanation:
            before = found.get((e.line, e.text))
            if before is None or before.role in ("prior", "jacobian"):
                found[e.line, e.text] = e
    return tuple(sorted(found.values(), key=lambda e: e.line))
