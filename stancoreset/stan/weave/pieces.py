"""The additive terms of an increment of the target: what all rows share, and sums over rows."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import NoReturn

from stancoreset.errors import WeaveError
from stancoreset.stan.syntax import bare, names_in
from stancoreset.stan.syntax import expression as text
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.syntax import statement as statement_text
from stancoreset.stan.weave.advice import IN_A_LOOP, SUMS_ALONE, mixed_by_row
from stancoreset.stan.weave.domain import BY_DATA
from stancoreset.stan.weave.expressions import Rows
from stancoreset.stan.weave.library import density_of
from stancoreset.stan.weave.proven import Piece
from stancoreset.stan.weave.sampling import density_call, is_literal


def because(what: str, why: str) -> str:
    """``what: why``, or `what` alone where no reason is known."""
    return f"{what}: {why}" if why else what


def refuse(s: n.Stmt, why: str, advice: str = IN_A_LOOP) -> NoReturn:
    """Raise the error that names the user's statement; `advice` is empty where `why` has it."""
    s = s.as_written
    why = why or "it cannot be split into rows"
    advice = (mixed_by_row(s) if advice == SUMS_ALONE else "") or advice
    raise WeaveError(s.line, why, statement_text(s), advice=advice)


@dataclass(frozen=True, eq=False)
class Pieces:
    """Takes increments of the target apart into terms."""

    rows: Rows
    functions: Container[str]  # the user's
    count: n.Var  # the data integer that counts observations

    def of(self, s: n.Increment) -> tuple[Piece, ...]:
        """The terms of an increment; refuses what is neither free of rows nor a sum over them."""
        if isinstance(s, n.Tilde):
            return (self.of_tilde(s),)
        found = tuple(self.collect(s.value, None, s))
        if all(p.kind == "free" for p in found) and self.rows.of(s.value).stat == BY_DATA:
            refuse_statistic(s)
        return found

    def of_tilde(self, s: n.Tilde) -> Piece:
        e = density_call(s, self.functions)
        dep = self.rows.of(e)
        bounds = [self.rows.value(b) for b in (s.lower, s.upper) if b is not None]
        for b in bounds:
            if b.looks_at_rows and not (b.kind == "rowwise" and dep.kind == "sum"):
                refuse(s, b.why or "the bounds of the truncation depend on rows", b.advice)
        if dep.kind == "coupled":
            refuse(s, dep.why, dep.advice)
        if dep.kind in ("free", "unset"):
            stat = max([dep.stat, *(b.stat for b in bounds)])
            if stat == BY_DATA or self.rows.value(s.arg).stat:
                refuse_statistic(s)
            self.refuse_frozen_outcome(s, e)
            return Piece(e, kind="free")
        if dep.kind != "sum":
            refuse(s, "it is not a sum over observations")
        return Piece(e)

    def refuse_frozen_outcome(self, s: n.Stmt, e: n.Expr) -> None:
        """A likelihood of counts or sums over rows cannot be weighted row by row."""
        outcome = names_in(e)
        for x in n.walk(e):
            _, args = density_of(x)
            outcome -= names_in(args[1:]) - names_in(args[:1])
        summary = sorted(outcome & self.rows.frozen)
        if summary:
            refuse(
                s,
                f"`{summary[0]}` sums several observations into one outcome",
                "write the likelihood as a sum over observations, `for (n in 1:N) y[n] ~ …;`",
            )

    def collect(self, e: n.Expr, scale: n.Expr | None, s: n.Stmt) -> Iterator[Piece]:
        """The terms of ``scale * e``."""
        e = bare(e)
        if e.type.rank and self.rows.of(e).kind == "rowwise":
            e = n.call("sum", e)  # target += a container adds its entries
        dep = self.rows.of(e)
        by_count = self.rows.by_count(e) if e.type == n.REAL else None
        if by_count and by_count[0] is not None:
            yield Piece(self.count, scaled(scale, by_count[0]))
            if by_count[1] is not None:
                yield from self.collect(by_count[1], scale, s)
        elif dep.kind == "coupled":
            refuse(s, dep.why, dep.advice)
        elif inner := self.addends(e, scale):
            for one, factor in inner:
                yield from self.collect(one, factor, s)
        elif dep.kind in ("free", "unset"):
            if dep.stat == BY_DATA or (dep.stat and not any(density_of(x)[0] for x in n.walk(e))):
                refuse_statistic(s)
            self.refuse_frozen_outcome(s, e)
            yield Piece(e, scale, "free")
        elif isinstance(e, n.Index):
            refuse(s, self.rows.as_value(dep, e).why, advice="")
        elif isinstance(held := _summed(e), n.Var) and self.rows.of(held).kind == "sum":
            yield Piece(e, scale, "held")
        else:
            yield Piece(e, scale)

    def addends(self, e: n.Expr, scale: n.Expr | None) -> list[tuple[n.Expr, n.Expr | None]]:
        """Expressions and their factors that add up to ``scale * e``; empty if it stays whole."""
        if self.rows.of(e).kind in ("free", "unset"):
            return []
        match e:
            case n.Binary(left=left, op="+" | "-" as op, right=right):
                return [(left, scale), (right, scale if op == "+" else _negative(scale))]
            case n.Unary(op="-", arg=arg):
                return [(arg, _negative(scale))]
            case n.Binary(left=left, op="*", right=right) if not left.type.rank:
                for factor, rest in ((left, right), (right, left)):
                    additive = self.rows.of(rest).kind in ("sum", "count")
                    if self.rows.of(factor).kind == "free" and additive:
                        return [(rest, scaled(scale, factor))]
            case n.Binary(left=left, op="/", right=right) if not right.type.rank:
                one = n.literal("1.0") if scale is None else scale
                if one.type == n.INT:  # of two integers, the quotient drops its remainder
                    one = n.Binary(n.literal("1.0"), "*", one, type=n.REAL)
                return [(left, n.Binary(one, "/", right, type=n.REAL))]
        return []


def refuse_statistic(s: n.Stmt) -> NoReturn:
    """Refuse a term without rows that is computed from rows."""
    refuse(
        s,
        "a prior, or a term that is not a sum over observations, is computed from data "
        "rows; compute the number in transformed data (it is then computed once, from the "
        "full data), or write the term as a sum over observations",
        advice="",
    )


def _summed(e: n.Expr) -> n.Expr:
    """v of ``sum(v)``, for a container v; itself for all else."""
    match e:
        case n.Call(name="sum", args=(v,)):
            return bare(v)
    return e


def _negative(scale: n.Expr | None) -> n.Expr | None:
    if scale is None:
        return n.Unary("-", n.literal("1.0"), type=n.REAL)
    if isinstance(scale, n.Unary):
        return None if text(scale.arg) == "1.0" else scale.arg
    return n.Unary("-", scale, type=scale.type)


def scaled(scale: n.Expr | None, e: n.Expr) -> n.Expr:
    if scale is None:
        return e
    if isinstance(scale, n.Unary) and is_literal(scale) and text(scale.arg) in ("1", "1.0"):
        return n.Unary("-", e, type=e.type)
    return n.Binary(scale, "*", e, type=e.type)
