"""What ``stanc --debug-decorated-ast`` prints: S-expressions, records, names and types."""

from __future__ import annotations

import re
from typing import Any

from stancoreset.errors import ProgramError
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.syntax import stanc

__all__ = [
    "BASES",
    "CONSTRAINTS",
    "OPERATORS",
    "Sexp",
    "name_of",
    "parse_sexp",
    "quoted",
    "record",
    "type_of",
    "unknown",
]

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
    """The refusal of a form that no known release prints."""
    text = str(seen)
    text = text if len(text) < 200 else text[:200] + " …"
    release = ".".join(map(str, stanc.version()))
    return ProgramError(
        f"stanc {release} prints {what} in a form that is not known here: {text}. Stan 2.35 "
        'to 2.39 are supported; install one of those (pip install "stancoreset[embedded]" brings '
        "one) or weight the program by hand"
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
