"""Statistics of rows, in expressions, as numbers that are computed once from the full data."""

from __future__ import annotations

from dataclasses import dataclass, field

from stancoreset.stan.syntax import Names, bare
from stancoreset.stan.syntax import expression as text
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.expressions import Rows
from stancoreset.stan.weave.library import BLOCKS, FILLED


@dataclass(eq=False)
class Statistics:
    """Replaces statistics of rows in expressions by numbers frozen at the full data."""

    rows: Rows
    count: n.Var  # the data integer that counts observations
    names: Names
    numbers: dict[str, n.Decl] = field(default_factory=dict)  # those frozen, by their text

    def hoist(self, e: n.Expr, as_size: bool = True) -> n.Expr:
        """`e` with the statistics of the rows in it replaced by frozen numbers.

        With `as_size`, an `e` that is the number of rows itself stays what it is.
        """
        dep = self.rows.of(e)
        if dep.kind == "count" and (as_size or self.rows.pure_sums):
            return e
        if dep.kind == "count" and isinstance(bare(e), n.Var):
            return self.frozen(self.count)
        if not isinstance(e, n.IntLit | n.RealLit) and e.type.rank == 0 and self.rows.constant(e):
            value = self.rows.as_value(dep, e)
            if value.kind == "free" and value.stat:
                return self.frozen(bare(e))
        sizes = isinstance(e, n.Call) and (e.name in FILLED or e.name in BLOCKS or e.user)
        operands = isinstance(e, n.Binary | n.Unary | n.Ternary | n.Call) and not sizes

        def inside(part: n.Node) -> n.Node:
            if isinstance(part, n.Expression):
                return self.hoist(part, as_size=not operands)
            return n.with_children(part, inside)  # type: ignore[no-any-return]  # an index

        return n.with_children(e, inside)  # type: ignore[no-any-return]

    def frozen(self, e: n.Expr) -> n.Expr:
        """A number of transformed data that holds the statistic `e` of the full data."""
        key = text(e)
        if key not in self.numbers:
            name = self.names.fresh(f"{key}_full" if isinstance(e, n.Var) else key)
            self.numbers[key] = n.Decl(name, n.SizedType(e.type.base), value=e)
        return n.Var(self.numbers[key].name, type=e.type)
