"""Stan source → typed syntax tree, read from what stanc prints.

``stanc --debug-decorated-ast`` prints its tree as an S-expression. Its format differs a
little between releases (Stan 2.35 to 2.39 are known); anything not known is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from stancoreset.errors import ProgramError
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.syntax import printer, stanc
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
# The kind of a constraint, and the names of its expressions.
_SIDES = {
    "Lower": ("bounds", "lower"), "Upper": ("bounds", "upper"),
    "LowerUpper": ("bounds", "lower", "upper"),
    "Offset": ("affine", "offset"), "Multiplier": ("affine", "multiplier"),
    "OffsetMultiplier": ("affine", "offset", "multiplier"),
}  # fmt: skip
_TRUNCATIONS = {
    "NoTruncate": (), "TruncateUpFrom": ("lower",), "TruncateDownFrom": ("upper",),
    "TruncateBetween": ("lower", "upper"),
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

_WORD = re.compile(
    r"""(?P<skip>//[^\n]*|/\*.*?\*/)
      | (?P<include>\#include[ \t]*(?P<file><[^>\n]*>|"[^"\n]*"|[^\s/]+))
      | (?P<word>"[^"]*"
          | \d+(?:\.(?!\*|/|\^|'))?\d*(?:[eE][+-]?\d+)?i? | \.\d+(?:[eE][+-]?\d+)?
          | \w+ | %/% | \.\*=? | \./=? | \.\^ | [-+*/<>=!]= | && | \|\| | [^\s])""",
    re.VERBOSE | re.DOTALL,
)
_FREE = set("{}();,")  # words that formatting adds or drops

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
        for name in Program().blocks:
            key = "functionblock" if name == "functions" else name.replace(" ", "") + "block"
            (value,) = record(tree, key)
            if not value:
                continue
            (body,) = record(value[0], "stmts")
            if name == "functions":
                definitions = [s[0][1][1:] for s in body if s[0][1][0] == "FunDef"]
                self.user = {name_of(record(d, "funname")[0]) for d in definitions}
            blocks[name.replace(" ", "_")] = self.statements(body)
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
        (inner,) = record(sexp, "stmt")
        if inner[0] == "VarDecl":
            yield from self.declarations(inner[1:])
        else:
            number, line = self.place()
            yield replace(self.read(inner), number=number, line=line)

    def read(self, sexp: Sexp) -> n.Stmt:
        """A statement without its place."""
        match sexp:
            case str(word) if word in _WORDS:
                return _WORDS[word]()
            case [str(kind), value] if kind in _OF_A_VALUE:
                return _OF_A_VALUE[kind](self.expr(value))
            case [str(kind), items] if kind in _MESSAGES:
                parts = (
                    quoted(x) if is_text == "PString" else self.expr(x) for is_text, x in items
                )
                return n.Message(_MESSAGES[kind], tuple(parts))
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
        kind, *limits = [cut] if isinstance(cut, str) else cut
        if kind not in _TRUNCATIONS:
            raise unknown("a truncation", cut)
        known: dict[str, Any] = dict(zip(_TRUNCATIONS[kind], self.exprs(limits), strict=True))
        truncated = kind != "NoTruncate"
        return n.Tilde(self.expr(arg), name_of(name), self.exprs(args), truncated, **known)

    def conditional(self, condition: Sexp, yes: Sexp, no: Sexp) -> n.If:
        test = self.expr(condition)
        first = self.block(yes)
        if not no:
            return n.If(test, first)
        chained = record(no[0], "stmt")[0][0] == "IfThenElse"
        return n.If(test, first, self.one(no[0]) if chained else self.block(no[0]))

    def function(self, sexp: Sexp) -> n.FunDef:
        returns, name, arguments, body = record(sexp, "returntype", "funname", "arguments", "body")
        parameters = tuple(
            n.Parameter(name_of(arg), type_of(kind), level == "DataOnly")
            for level, kind, arg in arguments
        )
        result = n.Type("void") if returns == "Void" else type_of(returns[1])
        inner = self.one(body)
        defined = None if isinstance(inner, n.Skip) else inner
        return n.FunDef(name_of(name), result, parameters, defined)

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
            case [str(name), *values] if name in _SIDES:
                kind, *sides = _SIDES[name]
                known: dict[str, Any] = dict(zip(sides, self.exprs(values), strict=True))
                return n.Constraint(kind, **known)
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
        if inner[0] == "Promotion":
            return self.expr(inner[1])
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
                # normal_lupdf of a user's normal_lpdf is the user's too.
                called = name_of(name)
                normed = re.sub(r"_lup([dm]f)$", r"_lp\1", called)
                return n.Call(called, self.exprs(args), not self.user.isdisjoint({called, normed}))
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

    def indexing(self, sexp: Sexp) -> n.Indexing:
        match sexp:
            case "All":
                return n.All()
            case [str(kind), *parts] if kind in _INDICES:
                return _INDICES[kind](*self.exprs(parts))
        raise unknown("an index", sexp)


# ---- lines of the source --------------------------------------------------------------


def source_lines(draft: n.Program, source: str, include_paths: Sequence[str]) -> list[int]:
    """Lines of the user's source on which the statements of `draft` stand, by their numbers.

    stanc prints its tree without positions. The printed tree and the source are the same words up
    to braces, parentheses, comments and deprecated spellings: the two are aligned word by word.
    """
    printed: list[str] = []
    begins: dict[int, int] = {}  # statements and the words with which they begin
    for text, statement in printer.program_lines(draft):
        if statement is not None:
            begins[statement.number] = len(printed)
        printed += (word for word, _ in _words(text, ()))
    original = list(_words(source, tuple(include_paths)))
    words = [word for word, _ in original]
    lines = [0] * len(printed)
    for i, j, size in SequenceMatcher(None, printed, words, autojunk=False).get_matching_blocks():
        lines[i : i + size] = (line for _, line in original[j : j + size])
    for i in reversed(range(len(lines) - 1)):  # what is spelled otherwise stands before the next
        lines[i] = lines[i] or lines[i + 1]
    count = max((s.number for s in n.find_all(draft, n.Statement)), default=-1) + 1
    # The braces around a loop's body are a statement too, on the line of the loop.
    found = [1] * count
    for k in range(count):
        at = begins.get(k, len(lines))
        found[k] = lines[at] if at < len(lines) else found[max(k - 1, 0)]
    return found


def _words(
    text: str, include_paths: Sequence[str], line: int | None = None
) -> Iterator[tuple[str, int]]:
    """Words of Stan text, each with its line; an included file's carry the include's line."""
    at, seen = 1, 0
    for match in _WORD.finditer(text):
        at += text.count("\n", seen, match.start())
        seen = match.start()
        here = at if line is None else line
        if match["include"]:
            name = match["file"].strip('<>"')
            for folder in include_paths:
                path = Path(folder, name)
                if path.is_file():
                    yield from _words(path.read_text(encoding="utf-8"), include_paths, here)
                    break
        elif match["word"] and match["word"] not in _FREE:
            yield match["word"], here
