"""The syntax tree printed as readable Stan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.syntax.queries import body_of

_INDENT = "  "

#: Binding strength of Stan's operators (reference manual, "Operator precedence"); atoms have none.
PRECEDENCE = {
    "||": 2, "&&": 3, "==": 4, "!=": 4, "<": 5, "<=": 5, ">": 5, ">=": 5,
    "+": 6, "-": 6, "*": 7, ".*": 7, "/": 7, "./": 7, "%": 7, "\\": 8, "%/%": 7.5,
    "^": 10, ".^": 10, "?": 1, "unary": 9, "atom": 11,
}  # fmt: skip

_WITH_BAR = ("_lpdf", "_lpmf", "_lupdf", "_lupmf", "_cdf", "_lcdf", "_lccdf")


def _strength(e: n.Expr) -> float:
    match e:
        case n.Ternary():
            return PRECEDENCE["?"]
        case n.Binary(op=op):
            return PRECEDENCE[op]
        case n.Unary():
            return PRECEDENCE["unary"]
        case n.IntLit(text=t) | n.RealLit(text=t) if t.startswith("-"):
            return PRECEDENCE["unary"]
    return PRECEDENCE["atom"]


def _within(e: n.Expr, least: float = PRECEDENCE["atom"]) -> str:
    """`e`, in parentheses if it binds more loosely than `least`."""
    text = expression(e)
    return f"({text})" if _strength(e) < least else text


def expression(e: n.Node) -> str:
    """One expression as Stan text; parentheses are added where the tree needs them."""
    kind = type(e)
    if kind not in _EXPRESSIONS:
        raise TypeError(f"cannot print {kind.__name__} as a Stan expression")
    return _EXPRESSIONS[kind](e)


def _call(e: n.Call) -> str:
    if e.args and e.name.endswith(_WITH_BAR):  # a density separates its outcome by a bar
        return f"{e.name}({expression(e.args[0])} | {_list(e.args[1:])})"
    return f"{e.name}({_list(e.args)})"


def _binary(e: n.Binary) -> str:
    own = PRECEDENCE[e.op]
    right_associative = e.op in ("^", ".^")
    left = _within(e.left, own + 0.1 if right_associative else own)
    right = _within(e.right, own if right_associative else own + 0.1)
    return f"{left} {e.op} {right}"


def _unary(e: n.Unary) -> str:
    inner = _within(e.arg, PRECEDENCE["unary"])
    # `--x` is no token of Stan's, but reads as one.
    return f"{e.op}({inner})" if inner.startswith(e.op) else f"{e.op}{inner}"


def _tuple(e: n.TupleLit) -> str:
    # Of one item without a comma it is an expression in parentheses.
    return f"({_list(e.items)}{',' if len(e.items) == 1 else ''})"


#: How an expression or an index of each kind is printed.
_EXPRESSIONS: dict[type[n.Node], Callable[[Any], str]] = {
    n.Var: lambda e: e.name,
    n.IntLit: lambda e: e.text,
    n.RealLit: lambda e: e.text,
    n.ImagLit: lambda e: f"{e.text}i",
    n.Call: _call,
    n.Binary: _binary,
    n.Index: lambda e: f"{_within(e.base)}[{_list(e.indices)}]",
    n.Paren: lambda e: f"({expression(e.arg)})",
    n.Unary: _unary,
    n.Transpose: lambda e: f"{_within(e.arg)}'",
    n.Ternary: lambda e: f"{_within(e.condition, 2)} ? {_within(e.yes, 2)} : {_within(e.no, 1)}",
    n.ArrayLit: lambda e: f"{{{_list(e.items)}}}",
    n.RowLit: lambda e: f"[{_list(e.items)}]",
    n.TupleLit: _tuple,
    n.TupleItem: lambda e: f"{_within(e.base)}.{e.number}",
    n.Target: lambda e: "target()",
    n.Single: lambda i: expression(i.index),
    n.From: lambda i: f"{expression(i.lower)} : ",
    n.To: lambda i: f" : {expression(i.upper)}",
    n.Between: lambda i: f"{expression(i.lower)} : {expression(i.upper)}",
    n.All: lambda i: " : ",
}


def _list(items: Iterable[n.Node | str]) -> str:
    return ", ".join(x if isinstance(x, str) else expression(x) for x in items)


def _constraint(c: n.Constraint) -> str:
    given = [f"{name}={_within(value, 6)}" for name, value in c.given.items()]
    return f"<{', '.join(given)}>" if given else ""


def _sized_type(size: n.SizedType, constraint: n.Constraint) -> str:
    """The type of a declaration, for example ``array[N] vector<lower=0>[K]``."""
    array = f"array[{_list(size.array)}] " if size.array else ""
    if size.base == "tuple":
        parts = constraint.items or (n.Constraint(),) * len(size.items)
        inner = ", ".join(_sized_type(s, c) for s, c in zip(size.items, parts, strict=True))
        return f"{array}tuple({inner})"
    special = constraint.kind not in ("none", "bounds", "affine")
    base = constraint.kind if special else size.base
    if constraint.kind == "sum_to_zero_vector" and size.base == "matrix":
        base = "sum_to_zero_matrix"
    sizes = size.sizes
    if constraint.kind in ("corr_matrix", "cov_matrix", "cholesky_factor_corr"):
        sizes = sizes[:1]  # square: one size is written
    shape = f"[{_list(sizes)}]" if sizes else ""
    return f"{array}{base}{_constraint(constraint)}{shape}"


def _unsized_type(t: n.Type) -> str:
    """A type of a function's argument, for example ``array[,] int``."""
    array = f"array[{',' * (t.array - 1)}] " if t.array else ""
    inner = f"tuple({', '.join(map(_unsized_type, t.items))})" if t.base == "tuple" else t.base
    return array + inner


def block_lines(body: Iterable[n.Stmt], depth: int = 1) -> Iterator[tuple[str, n.Stmt | None]]:
    """Lines of a list of statements, each with the statement that begins on it."""
    for s in body:
        yield from _lines(s, depth)


def _lines(s: n.Stmt, depth: int) -> Iterator[tuple[str, n.Stmt | None]]:
    pad = _INDENT * depth
    match s:
        case n.If():
            head: n.Stmt | None = s
            opening = f"{pad}if ({expression(s.condition)}) {{"
            while True:
                yield opening, head
                yield from block_lines(body_of(s.yes), depth + 1)
                if not isinstance(s.no, n.If):
                    break
                s = head = s.no
                opening = f"{pad}}} else if ({expression(s.condition)}) {{"
            if s.no is not None:
                yield f"{pad}}} else {{", None
                yield from block_lines(body_of(s.no), depth + 1)
            yield f"{pad}}}", None
            return
        case n.For():
            opening = f"for ({s.name} in {expression(s.lower)} : {expression(s.upper)}) {{"
            body = body_of(s.body)
        case n.ForEach():
            opening, body = f"for ({s.name} in {expression(s.sequence)}) {{", body_of(s.body)
        case n.While():
            opening, body = f"while ({expression(s.condition)}) {{", body_of(s.body)
        case n.Block():
            opening, body = "{", s.body
        case n.Profile():
            opening, body = f"profile({s.label}) {{", s.body
        case n.FunDef(body=inner) if inner is not None:
            opening, body = f"{_signature(s)} {{", body_of(inner)
        case _:
            yield pad + statement(s), s
            return
    yield pad + opening, s
    yield from block_lines(body, depth + 1)
    yield f"{pad}}}", None


def _signature(f: n.FunDef) -> str:
    """``real f(data real x, vector y)``"""
    args = ", ".join(
        f"{'data ' if p.data_only else ''}{_unsized_type(p.type)} {p.name}" for p in f.parameters
    )
    return f"{_unsized_type(f.returns)} {f.name}({args})"


def _tilde(s: n.Tilde) -> str:
    text = f"{expression(s.arg)} ~ {s.distribution}({_list(s.args)})"
    if s.truncated:
        lower, upper = (" " if b is None else expression(b) for b in (s.lower, s.upper))
        text += f" T[{lower}, {upper}]".replace(",  ]", ", ]")
    return f"{text};"


def _value(sign: str, e: n.Expr | None) -> str:
    """A value behind a word or sign, or nothing."""
    return "" if e is None else f"{sign} {expression(e)}"


#: How a statement of each kind is printed that stands on one line.
_STATEMENTS: dict[type[n.Node], Callable[[Any], str]] = {
    n.Decl: lambda s: f"{_sized_type(s.size, s.constraint)} {s.name}{_value(' =', s.value)};",
    n.Assign: lambda s: f"{expression(s.target)} {s.op} {expression(s.value)};",
    n.Tilde: _tilde,
    n.TargetAdd: lambda s: f"target += {expression(s.value)};",
    n.JacobianAdd: lambda s: f"jacobian += {expression(s.value)};",
    n.VoidCall: lambda s: f"{s.name}({_list(s.args)});",
    n.Message: lambda s: f"{s.kind}({_list(s.items)});",
    n.Return: lambda s: f"return{_value('', s.value)};",
    n.Break: lambda s: "break;",
    n.Continue: lambda s: "continue;",
    n.Skip: lambda s: ";",
}


def statement(s: n.Stmt) -> str:
    """A simple statement on one line; a compound one over several."""
    if isinstance(s, n.FunDef) and s.body is None:
        return f"{_signature(s)};"
    known = _STATEMENTS.get(type(s))
    return known(s) if known else "\n".join(line for line, _ in _lines(s, 0))


def statements(body: Iterable[n.Stmt], depth: int = 1) -> str:
    """Several statements, indented."""
    return "\n".join(line for line, _ in block_lines(body, depth))


def program_lines(p: n.Program) -> Iterator[tuple[str, n.Stmt | None]]:
    """Lines of a whole program, each with the statement that begins on it."""
    for title, body in p.blocks.items():
        if body:
            yield f"{title} {{", None
            yield from block_lines(body)
            yield "}", None


def program(p: n.Program) -> str:
    """A whole program; blocks without statements are left out."""
    return "".join(f"{line}\n" for line, _ in program_lines(p))
