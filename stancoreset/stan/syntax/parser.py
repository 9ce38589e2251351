"""Stan source → typed syntax tree, read from what stanc prints.

``stanc --debug-decorated-ast`` prints its tree as an S-expression. Its format differs a
little between releases (Stan 2.35 to 2.39 are known); anything not known is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from stancoreset.errors import ProgramError
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.syntax import stanc
from stancoreset.stan.syntax.lines import source_lines
from stancoreset.stan.syntax.nodes import Program
from stancoreset.stan.syntax.queries import picks_one

OPERATORS = {
    "Plus": "+", "Minus": "-", "Times": "*", "Divide": "/", "IntDivide": "%/%",
    "Modulo": "%", "LDivide": "\\", "EltTimes": ".*", "EltDivide": "./", "Pow": "^",
    "EltPow": ".^", "Or": "||", "And": "&&", "Equals": "==", "NEquals": "!=", "Less": "<",
    "Leq": "<=", "Greater": ">", "Geq": ">=", "PNot": "!", "PMinus": "-", "PPlus": "+",
}  # fmt: skip
BASES = {
    "Int": "int", "Real": "real", "Vector": "vector", "RowVector": "row_vector",
    "Matrix": "matrix", "Complex": "complex", "ComplexVector": "complex_vector",
    "ComplexRowVector": "complex_row_vector", "ComplexMatrix": "complex_matrix",
}  # fmt: skip
CONSTRAINTS = {
    "Simplex": "simplex", "Ordered": "ordered", "PositiveOrdered": "positive_ordered",
    "UnitVector": "unit_vector", "CholeskyCorr": "cholesky_factor_corr",
    "CholeskyCov": "cholesky_factor_cov", "Correlation": "corr_matrix",
    "Covariance": "cov_matrix", "StochasticRow": "row_stochastic_matrix",
    "StochasticColumn": "column_stochastic_matrix", "SumToZero": "sum_to_zero_vector",
}  # fmt: skip
# Statements of one word, those of one expression, messages, and expressions of one kind of part.
_WORDS: dict[str, Callable[[], n.Stmt]] = {
    "ReturnVoid": n.Return, "Break": n.Break, "Continue": n.Continue, "Skip": n.Skip,
}  # fmt: skip
_OF_A_VALUE: dict[str, Callable[[n.Expr], n.Stmt]] = {
    "TargetPE": n.TargetAdd, "JacobianPE": n.JacobianAdd, "Return": n.Return,
}  # fmt: skip
_MESSAGES = {"Print": "print", "Reject": "reject", "FatalError": "fatal_error"}
_NUMERALS: dict[str, Callable[[str], n.Expr]] = {
    "IntNumeral": n.IntLit, "RealNumeral": n.RealLit, "ImagNumeral": n.ImagLit,
}  # fmt: skip
_LISTS: dict[str, Callable[[tuple[n.Expr, ...]], n.Expr]] = {
    "ArrayExpr": n.ArrayLit, "RowVectorExpr": n.RowLit, "TupleExpr": n.TupleLit,
}  # fmt: skip
_INDICES: dict[str, Callable[..., n.Indexing]] = {
    "Single": n.Single, "Upfrom": n.From, "Downfrom": n.To, "Between": n.Between,
}  # fmt: skip
_TOKEN = re.compile(r'\(|\)|"(?:\\.|[^"\\])*"|[^\s()"]+')

Sexp = Any  # str | list[Sexp]


def parse_sexp(text: str) -> Sexp:
    """Nested lists of the atoms, as text."""
    stack: list[list[Sexp]] = [[]]
    for token in _TOKEN.findall(text):
        if token == "(":
            stack.append([])
        elif token == ")":
            done = stack.pop()
            if not stack:
                raise unknown("the tree's parentheses", token)
            stack[-1].append(done)
        else:
            stack[-1].append(token)
    if len(stack) != 1 or len(stack[0]) != 1:
        raise unknown("the tree as a whole", text[:80])
    return stack[0][0]


def unknown(what: str, seen: Sexp) -> ProgramError:
    """The error for a form that no known release prints."""
    text = str(seen)
    text = text if len(text) < 200 else text[:200] + " …"
    release = ".".join(map(str, stanc.version()))
    return ProgramError(
        f"stanc {release} prints {what} in an unknown form: {text}. Stan 2.35 to 2.39 are "
        'supported; install one of those (pip install "stancoreset[embedded]" brings one) or '
        "weight the program by hand"
    )


def record(sexp: Sexp, *keys: str) -> list[Sexp]:
    """Values of ``((key value) …)`` in the order of `keys`; missing keys are an error."""
    try:
        found = {item[0]: item[1] for item in sexp}
        return [found[k] for k in keys]
    except (TypeError, IndexError, KeyError):
        raise unknown(f"a record with {', '.join(keys)}", sexp) from None


def name_of(sexp: Sexp) -> str:
    """The text of an identifier."""
    return str(record(sexp, "name")[0])


def quoted(token: str) -> str:
    """A string literal: OCaml prints Stan's text, quotes included, as an escaped atom."""
    if not token.startswith('"'):
        return token
    plain = {"n": "\n", "t": "\t", "r": "\r", "b": "\b"}

    def decode(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code)) if code.isdigit() else plain.get(code, code)

    raw = re.sub(r"\\(\d{3}|.)", decode, token[1:-1])
    return raw.encode("latin-1", "replace").decode("utf-8", "replace")  # OCaml escapes bytes


def type_of(sexp: Sexp) -> n.Type:
    """A type without sizes."""
    match sexp:
        case ["UArray", inner]:
            part = type_of(inner)
            return n.Type(part.base, part.array + 1, part.items)
        case ["UTuple", items]:
            return n.Type("tuple", items=tuple(map(type_of, items)))
        case ["UFun", *_] | "UMathLibraryFunction":
            return n.Type("function")
        case str(name) if name[0] == "U" and name[1:] in BASES:
            return n.Type(BASES[name[1:]])
    raise unknown("a type", sexp)


_BLOCKS = (
    ("functionblock", "functions"),
    ("datablock", "data"),
    ("transformeddatablock", "transformed_data"),
    ("parametersblock", "parameters"),
    ("transformedparametersblock", "transformed_parameters"),
    ("modelblock", "model"),
    ("generatedquantitiesblock", "generated_quantities"),
)


def parse(
    code: str, *, include_paths: Sequence[str | Path] = (), filename: str = "model.stan"
) -> Program:
    """Parse and type-check a Stan program; errors quote Stan's message, which names the `filename`.

    ``#include`` looks in the `include_paths`.

    >>> p = parse("data { int N; vector[N] y; } parameters { real m; } model { y ~ normal(m, 1); }")
    >>> [d.name for d in p.data], p.model[0].distribution
    (['N', 'y'], 'normal')
    """
    flat = code
    if not stanc.is_canonical(code):
        flat = stanc.canonical(code, include_paths=include_paths, filename=filename)
    return _parse_flat(code, flat, tuple(str(p) for p in include_paths))


@lru_cache(maxsize=128)
def _parse_flat(code: str, flat: str, include_paths: tuple[str, ...]) -> Program:
    tree = parse_sexp(stanc.decorated_ast(flat))
    draft = _Reader(flat).program(tree)
    lines = source_lines(draft, code, include_paths)
    # Statements are numbered in reading order, so the second reading gives each its line.
    return _Reader(flat, lines).program(tree)


@dataclass(eq=False)
class _Reader:
    """Reads S-expressions into nodes, numbering statements as it goes."""

    code: str
    lines: Sequence[int] = ()
    count: int = 0
    user: set[str] = field(default_factory=set)

    def place(self) -> tuple[int, int]:
        """Number and line of the statement that is being read; 0 before lines are known."""
        number = self.count
        self.count += 1
        return number, self.lines[number] if self.lines else 0

    def program(self, tree: Sexp) -> Program:
        blocks: dict[str, tuple[Any, ...]] = {}
        values = record(tree, *(key for key, _ in _BLOCKS))
        for (_, attribute), value in zip(_BLOCKS, values, strict=True):
            if not value:
                continue
            body = record(value[0], "stmts")[0]
            if attribute == "functions":
                definitions = [s[0][1][1:] for s in body if s[0][1][0] == "FunDef"]
                self.user = {name_of(record(d, "funname")[0]) for d in definitions}
            blocks[attribute] = self.statements(body)
        return Program(**blocks, code=self.code)

    # ---- statements -------------------------------------------------------------------

    def statements(self, sexps: Sexp) -> tuple[n.Stmt, ...]:
        return tuple(s for sexp in sexps for s in self.statement(sexp))

    def one(self, sexp: Sexp) -> n.Stmt:
        found = tuple(self.statement(sexp))
        first = found[0]
        return first if len(found) == 1 else n.Block(found, number=first.number, line=first.line)

    def block(self, sexp: Sexp) -> n.Block:
        """The body of a loop or branch, with braces even where stanc has none."""
        if record(sexp, "stmt")[0][0] == "Block":
            return cast(n.Block, self.one(sexp))
        number, line = self.place()
        return n.Block(tuple(self.statement(sexp)), number=number, line=line)

    def statement(self, sexp: Sexp) -> Iterator[n.Stmt]:
        match record(sexp, "stmt")[0]:
            case ["VarDecl", *rest]:
                yield from self.declarations(rest)
            case simple_or_compound:
                yield self.simple(simple_or_compound)

    def simple(self, sexp: Sexp) -> n.Stmt:
        number, line = self.place()
        return replace(self.read(sexp), number=number, line=line)

    def read(self, sexp: Sexp) -> n.Stmt:
        """A statement without its place."""
        match sexp:
            case str(word) if word in _WORDS:
                return _WORDS[word]()
            case [str(kind), value] if kind in _OF_A_VALUE:
                return _OF_A_VALUE[kind](self.expr(value))
            case [str(kind), items] if kind in _MESSAGES:
                return n.Message(_MESSAGES[kind], tuple(self.printable(i) for i in items))
            case ["Assignment", *rest]:
                return self.assignment(rest)
            case ["Tilde", *rest]:
                return self.tilde(rest)
            case ["NRFunApp", _, name, args]:
                return n.VoidCall(name_of(name), self.exprs(args))
            case ["IfThenElse", condition, yes, no]:
                return self.conditional(condition, yes, no)
            case ["While", condition, body]:
                return n.While(self.expr(condition), self.block(body))
            case ["For", *rest]:
                keys = ("loop_variable", "lower_bound", "upper_bound", "loop_body")
                name, low, high, body = record(rest, *keys)
                return n.For(name_of(name), self.expr(low), self.expr(high), self.block(body))
            case ["ForEach", name, sequence, body]:
                return n.ForEach(name_of(name), self.expr(sequence), self.block(body))
            case ["Block", body]:
                return n.Block(self.statements(body))
            case ["Profile", label, body]:
                return n.Profile(quoted(label), self.statements(body))
            case ["FunDef", *rest]:
                return self.function(rest)
        raise unknown("a statement", sexp)

    def assignment(self, sexp: Sexp) -> n.Assign:
        left, op, right = record(sexp, "assign_lhs", "assign_op", "assign_rhs")
        match op:
            case "Assign":
                sign = "="
            case ["OperatorAssign", name] if name in OPERATORS:
                sign = OPERATORS[name] + "="
            case _:
                raise unknown("an assignment", op)
        return n.Assign(self.lvalue(left), sign, self.expr(right))

    def tilde(self, sexp: Sexp) -> n.Tilde:
        arg, name, args, cut = record(sexp, "arg", "distribution", "args", "truncation")
        lower, upper = self.truncation(cut)
        return n.Tilde(
            self.expr(arg), name_of(name), self.exprs(args), cut != "NoTruncate",
            lower, upper,
        )  # fmt: skip

    def conditional(self, condition: Sexp, yes: Sexp, no: Sexp) -> n.If:
        test = self.expr(condition)
        first = self.block(yes)
        if not no:
            return n.If(test, first)
        chained = record(no[0], "stmt")[0][0] == "IfThenElse"
        return n.If(test, first, self.one(no[0]) if chained else self.block(no[0]))

    def printable(self, sexp: Sexp) -> n.Expr | str:
        match sexp:
            case ["PString", text]:
                return quoted(text)
            case ["PExpr", value]:
                return self.expr(value)
        raise unknown("a printed item", sexp)

    def truncation(self, sexp: Sexp) -> tuple[n.Expr | None, n.Expr | None]:
        match sexp:
            case "NoTruncate":
                return None, None
            case ["TruncateUpFrom", lower]:
                return self.expr(lower), None
            case ["TruncateDownFrom", upper]:
                return None, self.expr(upper)
            case ["TruncateBetween", lower, upper]:
                return self.expr(lower), self.expr(upper)
        raise unknown("a truncation", sexp)

    def function(self, sexp: Sexp) -> n.FunDef:
        returns, name, arguments, body = record(sexp, "returntype", "funname", "arguments", "body")
        parameters = tuple(
            n.Parameter(name_of(arg), type_of(kind), level == "DataOnly")
            for level, kind, arg in arguments
        )
        result = n.Type("void") if returns == "Void" else type_of(returns[1])
        inner = self.one(body)
        return n.FunDef(
            name_of(name),
            result,
            parameters,
            None if isinstance(inner, n.Skip) else inner,
        )

    def declarations(self, sexp: Sexp) -> Iterator[n.Decl]:
        kind, bounds, variables = record(sexp, "decl_type", "transformation", "variables")
        for variable in variables:
            number, line = self.place()
            name, value = record(variable, "identifier", "initial_value")
            start = self.expr(value[0]) if value else None
            yield n.Decl(
                name_of(name), self.sized(kind), self.constraint(bounds), start,
                number=number, line=line,
            )  # fmt: skip

    def sized(self, sexp: Sexp) -> n.SizedType:
        match sexp:
            case ["SArray", inner, size]:
                # The innermost constructor is the outermost dimension's neighbour: unwrap.
                part = self.sized(inner)
                return n.SizedType(
                    part.base, (self.expr(size), *part.array), part.sizes, part.items
                )
            case ["STuple", items]:
                return n.SizedType("tuple", items=tuple(map(self.sized, items)))
            case str(name) if name[0] == "S" and name[1:] in BASES:
                return n.SizedType(BASES[name[1:]])
            case [str(name), *sizes] if name[0] == "S" and name[1:] in BASES:
                dims = [s for s in sizes if s not in ("AoS", "SoA")]
                return n.SizedType(BASES[name[1:]], sizes=self.exprs(dims))
        raise unknown("a declared type", sexp)

    def constraint(self, sexp: Sexp) -> n.Constraint:
        match sexp:
            case "Identity":
                return n.Constraint()
            case ["Lower", low]:
                return n.Constraint("bounds", lower=self.expr(low))
            case ["Upper", high]:
                return n.Constraint("bounds", upper=self.expr(high))
            case ["LowerUpper", low, high]:
                return n.Constraint("bounds", lower=self.expr(low), upper=self.expr(high))
            case ["Offset", offset]:
                return n.Constraint("affine", offset=self.expr(offset))
            case ["Multiplier", scale]:
                return n.Constraint("affine", multiplier=self.expr(scale))
            case ["OffsetMultiplier", offset, scale]:
                return n.Constraint("affine", offset=self.expr(offset), multiplier=self.expr(scale))
            case ["TupleTransformation", items]:
                return n.Constraint("tuple", items=tuple(map(self.constraint, items)))
            case str(name) if name in CONSTRAINTS:
                return n.Constraint(CONSTRAINTS[name])
        raise unknown("a constraint", sexp)

    def lvalue(self, sexp: Sexp) -> n.Expr:
        match sexp:
            case ["LValue", inner]:
                return self.lvalue(inner)
            case ["LTuplePack", ["lvals", items], *_]:
                return n.TupleLit(tuple(map(self.lvalue, items)))
            case [["lval", inner], ["lmeta", meta]]:
                (kind,) = record(meta, "type_")
                known = {"type": type_of(kind)}
                match inner:
                    case ["LVariable", name]:
                        return n.Var(name_of(name), **known)
                    case ["LIndexed", base, indices]:
                        where = tuple(map(self.indexing, indices))
                        inside = self.lvalue(base)
                        if isinstance(inside, n.Index) and all(map(picks_one, inside.indices)):
                            # `x[n][k] = …` is `x[n, k] = …`
                            where = (*inside.indices, *where)
                            inside = inside.base
                        return n.Index(inside, where, **known)
                    case ["LTupleProjection", base, number]:
                        return n.TupleItem(self.lvalue(base), int(number), **known)
        raise unknown("the left side of an assignment", sexp)

    # ---- expressions ------------------------------------------------------------------

    def exprs(self, sexps: Sexp) -> tuple[n.Expr, ...]:
        return tuple(map(self.expr, sexps))

    def expr(self, sexp: Sexp) -> n.Expr:
        inner, meta = record(sexp, "expr", "emeta")
        match inner:
            case ["Promotion", value, *_]:
                return self.expr(value)
        (kind,) = record(meta, "type_")
        return replace(self.untyped(inner), type=type_of(kind))

    def untyped(self, sexp: Sexp) -> n.Expr:
        """An expression without its type."""
        match sexp:
            case "GetTarget":
                return n.Target()
            case ["Variable", name]:
                return n.Var(name_of(name))
            case [str(kind), text] if kind in _NUMERALS:
                return _NUMERALS[kind](text)
            case [str(kind), items] if kind in _LISTS:
                return _LISTS[kind](self.exprs(items))
            case ["FunApp" | "CondDistApp", _, name, args]:
                called = name_of(name)
                return n.Call(called, self.exprs(args), self.is_user(called))
            case ["BinOp", left, op, right] if op in OPERATORS:
                return n.Binary(self.expr(left), OPERATORS[op], self.expr(right))
            case ["PrefixOp", op, arg] if op in OPERATORS:
                return n.Unary(OPERATORS[op], self.expr(arg))
            case ["PostfixOp", arg, "Transpose"]:
                return n.Transpose(self.expr(arg))
            case ["TernaryIf", *parts]:
                return n.Ternary(*self.exprs(parts))
            case ["Indexed", base, indices]:
                return n.Index(self.expr(base), tuple(map(self.indexing, indices)))
            case ["Paren", arg]:
                return n.Paren(self.expr(arg))
            case ["TupleProjection", base, number]:
                return n.TupleItem(self.expr(base), int(number))
        raise unknown("an expression", sexp)

    def is_user(self, name: str) -> bool:
        # normal_lupdf of a user's normal_lpdf is the user's too.
        return name in self.user or re.sub(r"_lup([dm]f)$", r"_lp\1", name) in self.user

    def indexing(self, sexp: Sexp) -> n.Indexing:
        match sexp:
            case "All":
                return n.All()
            case [str(kind), *parts] if kind in _INDICES:
                return _INDICES[kind](*self.exprs(parts))
        raise unknown("an index", sexp)
