"""Numbers of rows of a kind, counted in transformed data, as sums over rows.

    transformed data { int zeros = 0; for (n in 1:N) if (y[n] == 0) zeros += 1; }
    model { target += zeros * log(p) + (N - zeros) * log1m(p); }

Each row has what it has added to the number, which transformed data find from all rows:

    target += sum(zeros_by_row) * log(p) + (N - sum(zeros_by_row)) * log1m(p);
"""

from __future__ import annotations

from dataclasses import replace

from stancoreset.stan.syntax import assigned_names, bare, counted_to
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.syntax import statement as statement_text
from stancoreset.stan.weave.draft import Draft, Rewriter
from stancoreset.stan.weave.gathered import with_one_effect


def with_row_counts_summed(draft: Draft) -> Draft:
    """Sums over rows stand in the target for numbers of rows of a kind."""
    program = draft.program
    counts = _Counts(program)
    model = tuple(n.transform(s, counts.statement) for s in program.model)
    found = [s for name in counts.read for s in counts.by_row.get(name, ())]
    return draft.of(replace(program, model=model), found)


class _Counts(Rewriter):
    """The numbers of rows; `values` are the sums that they are, `by_row` what each row adds."""

    def __init__(self, program: n.Program) -> None:
        super().__init__(program)
        self.values: dict[str, n.Expr] = {}
        self.by_row: dict[str, list[n.Stmt]] = {}
        self.read: list[str] = []
        body = program.transformed_data
        for k, d in enumerate(body):
            if not (isinstance(d, n.Decl) and d.type == n.INT and d.value is not None):
                continue
            writes = [s for s in body if d.name in assigned_names(s)]
            later = assigned_names(body[k:])
            match bare(d.value):
                case n.Call(name="sum", args=(n.Var(name=v),)) if (
                    v in self.sizes and not {d.name, v} & later
                ):
                    self.values[d.name] = d.value
                case n.IntLit(text="0") if len(writes) == 1 and isinstance(writes[0], n.For):
                    self.count(d.name, writes[0])

    def count(self, name: str, s: n.For) -> None:
        """Write an integer that a loop over rows counts up as a number by row, if it is one."""
        size = counted_to(s)
        own = n.integers(self.names.fresh(f"{name}_by_row"))
        steps = {f"{name} += 1;", f"{name} = {name} + 1;"}
        at = n.entry(own, n.integer(s.name))

        def by_row(x: n.Assign) -> n.Assign | None:
            step = statement_text(x) in steps
            return n.Assign(at, "+=", n.ONE, line=x.line) if step else None

        loop = with_one_effect(s, by_row)
        writes = [x for x in n.find_all(s, n.Assign) if name in assigned_names(x)]
        inner = any(n.find_all(s.body, n.For, n.ForEach, n.While))
        if loop is None or size not in self.program.integers or inner:
            return
        if not all(statement_text(x) in steps for x in writes):
            return
        count = n.integer(size)
        zeros = n.call("rep_array", n.ZERO, count, kind=n.INTS)
        self.by_row[name] = [n.Decl(own.name, n.SizedType("int", (count,)), value=zeros), loop]
        self.values[name] = n.call("sum", own, kind=n.INT)

    def statement(self, s: n.Node) -> n.Node | None:
        """An increment with sums for numbers that stand in its sums and products."""
        if isinstance(s, n.Loop):
            return s  # whose passes would add up all rows each
        if not isinstance(s, n.TargetAdd):
            return None
        value = self.arithmetic(s.value)
        return s if value is s.value else replace(s, value=value, origin=s.as_written)

    def arithmetic(self, e: n.Expr) -> n.Expr:
        match e:
            case n.Paren(arg=arg) | n.Unary(arg=arg):
                new = self.arithmetic(arg)
                return e if new is arg else replace(e, arg=new)
            case n.Binary(left=left, op="+" | "-" | "*", right=right):
                one, other = self.arithmetic(left), self.arithmetic(right)
                same = one is left and other is right
                return e if same else replace(e, left=one, right=other)
            case n.Var(name=name) if name in self.values:
                self.read += [] if name in self.read else [name]
                return self.values[name]
        return e
