"""Statistics of rows, in expressions, as numbers that are computed once from the full data."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from stancoreset.stan.syntax import Names, bare
from stancoreset.stan.syntax import expression as text
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.expressions import Rows
from stancoreset.stan.weave.library import BLOCKS, FILLED

__all__ = ["Statistics"]


class Statistics:
    """Replaces statistics of rows in expressions by numbers frozen at the full data.

    Parameters
    ----------
    rows : Rows
    obs : str
        The data integer that counts observations.
    names : Names
    """

    def __init__(self, rows: Rows, obs: str, names: Names) -> None:
        self.rows = rows
        self.count = n.integer(obs)
        self.names = names
        self.numbers: dict[str, n.Decl] = {}  # frozen numbers, by their text

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
        updates: dict[str, Any] = {}
        for f in fields(e):
            value = getattr(e, f.name)
            if isinstance(value, n.Expression):
                updates[f.name] = self.hoist(value, as_size=not operands)
            elif isinstance(value, tuple) and value and isinstance(value[0], n.Node):
                updates[f.name] = tuple(self._hoist_part(v, not operands) for v in value)
        changed = {k: v for k, v in updates.items() if v != getattr(e, k)}
        return replace(e, **changed) if changed else e

    def _hoist_part(self, part: Any, as_size: bool) -> Any:
        if isinstance(part, n.Expression):
            return self.hoist(part, as_size)
        inner = {
            f.name: self.hoist(v)
            for f in fields(part)
            if isinstance(v := getattr(part, f.name), n.Expression)
        }
        return replace(part, **inner) if inner else part

    def frozen(self, e: n.Expr) -> n.Expr:
        """A number of transformed data that holds the statistic `e` of the full data."""
        key = text(e)
        if key not in self.numbers:
            name = self.names.fresh(f"{key}_full" if isinstance(e, n.Var) else key)
            self.numbers[key] = n.Decl(name, n.SizedType(e.type.base), value=e)
        return n.Var(self.numbers[key].name, type=e.type)
