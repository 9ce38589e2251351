"""Values of simple Stan expressions: sizes, bounds, offsets and multipliers.

Everything has a leading axis of draws: data have one "draw", parameters have S, and numpy's
broadcasting does the rest. What is not simple (user functions, loops, indices with gaps) is
refused with a `ProgramError` that quotes the expression.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from stancoreset.errors import ProgramError
from stancoreset.stan.syntax import expression, times_assigned
from stancoreset.stan.syntax import nodes as n

Array = NDArray[Any]


class Scope:
    """Values of variables, and the definitions of those that can be computed from them.

    The values in `data` have no axis of draws; `values` have one, (1 or S, *shape). The statements
    of `transformed_data` define further variables, each by one plain assignment.

    >>> from stancoreset.stan.syntax.parser import parse
    >>> program = parse("data { int N; } parameters { vector[2 * N + 1] x; } model {}")
    >>> Scope({"N": 3}).evaluate(program.parameters[0].size.dims[0])
    array([7])
    """

    def __init__(self, data: Mapping[str, Any], transformed_data: Sequence[n.Stmt] = ()) -> None:
        self.values: dict[str, Array] = {name: np.asarray(v)[None] for name, v in data.items()}
        self._definitions = _definitions(transformed_data)

    def fork(self) -> Scope:
        """An independent scope that starts with the same values."""
        other = Scope({})
        other.values = dict(self.values)
        other._definitions = dict(self._definitions)
        return other

    def evaluate(self, e: n.Expr) -> Array:
        """Value of an expression, shape (1 or S, *shape).

        A ProgramError is raised if the expression is beyond what is evaluated here, a KeyError if
        it uses a variable that has no value.
        """
        try:
            with np.errstate(all="ignore"):
                return self._evaluate(e)
        except (ValueError, TypeError, IndexError, OverflowError) as error:
            raise ProgramError(f"`{expression(e)}` cannot be evaluated: {error}") from error

    def _evaluate(self, e: n.Expr) -> Array:
        match e:
            case n.IntLit(text=text):
                return np.array([int(text.replace("_", ""))])
            case n.RealLit(text=text):
                return np.array([float(text.replace("_", ""))])
            case n.Var(name=name):
                if name not in self.values and name in self._definitions:
                    definition = self._definitions.pop(name)  # popped: a circle must not recurse
                    self.values[name] = self.evaluate(definition)
                return self.values[name]
            case n.Paren(arg=arg):
                return self._evaluate(arg)
            case n.Unary(op=op, arg=arg):
                return _UNARY[op](self._evaluate(arg))
            case n.Transpose(arg=arg):
                value = self._evaluate(arg)
                return np.swapaxes(value, -1, -2) if arg.type.base == "matrix" else value
            case n.Ternary(condition=condition, yes=yes, no=no):
                test = self._evaluate(condition)
                if len(test) == 1:  # one branch only: the other may be undefined
                    return self._evaluate(yes if test[0] else no)
                first, second = _align(self._evaluate(yes), self._evaluate(no))
                return np.where(_align(test != 0, first)[0], first, second)
            case n.Binary():
                return _binary(e, self._evaluate(e.left), self._evaluate(e.right))
            case n.ArrayLit(items=items) | n.RowLit(items=items):
                parts = np.broadcast_arrays(*(self._evaluate(item) for item in items))
                return np.stack(parts, axis=1)
            case n.Index(base=base, indices=indices):
                return self._index(e, self._evaluate(base), indices)
            case n.Call(name="size" | "rows" | "cols" as name, args=(arg,), user=False):
                return np.array([_extent(name, arg.type, self._evaluate(arg).shape[1:])])
            case n.Call(name=name, args=args, user=False) if name in _FUNCTIONS:
                return np.asarray(_FUNCTIONS[name](*(self._evaluate(arg) for arg in args)))
        raise _refusal(e)

    def _index(self, e: n.Expr, base: Array, indices: Sequence[n.Indexing]) -> Array:
        at: list[Any] = [slice(None)]
        for index in indices:
            match index:
                case n.All():
                    at.append(slice(None))
                case n.Single(index=inner):
                    position = self._evaluate(inner)
                    if len(position) != 1 or (position.ndim > 1 and len(indices) > 1):
                        raise _refusal(e)
                    at.append(position[0] - 1)
                case n.From(lower=lower):
                    at.append(slice(self._int(lower) - 1, None))
                case n.To(upper=upper):
                    at.append(slice(None, self._int(upper)))
                case n.Between(lower=lower, upper=upper):
                    at.append(slice(self._int(lower) - 1, max(self._int(upper), 0)))
        return base[tuple(at)]

    def _int(self, e: n.Expr) -> int:
        value = self._evaluate(e)
        if value.size != 1:
            raise _refusal(e)
        return int(value.reshape(()))


def evaluate_number(scope: Scope, e: n.Expr) -> float | None:
    """Evaluate an expression of data that is one number; None if it cannot be evaluated."""
    try:
        value = scope.evaluate(e)
    except (ProgramError, KeyError):  # Stan knows more functions
        return None
    return float(value.item()) if value.size == 1 else None


def evaluate_int(scope: Scope, e: n.Expr) -> int | None:
    """Evaluate an integer expression of data; None if it cannot be evaluated."""
    value = evaluate_number(scope, e)
    return None if value is None else int(value)


def _definitions(statements: Sequence[n.Stmt]) -> dict[str, n.Expr]:
    """Variables whose one and only assignment is unconditional and whole."""
    found: dict[str, n.Expr] = {}
    for statement in statements:
        match statement:
            case n.Decl(name=name, value=n.Expression() as value):
                found[name] = value
            case n.Assign(target=n.Var(name=name), op="=", value=value):
                found[name] = value
    given = times_assigned(statements)
    given.update(d.name for d in n.find_all(statements, n.Decl) if d.value is not None)
    return {name: value for name, value in found.items() if given[name] == 1}


def _refusal(e: n.Expr) -> ProgramError:
    return ProgramError(
        f"`{expression(e)}` is not a simple expression of data, parameters, numbers, arithmetic "
        "and elementary functions"
    )


# --- operators ---------------------------------------------------------------------------


def _align(a: Array, b: Array) -> tuple[Array, Array]:
    """Give scalars per draw the dimensions of containers: (S,) → (S, 1, …)."""
    ndim = max(a.ndim, b.ndim)
    return (
        a.reshape(*a.shape, *(1,) * (ndim - a.ndim)),
        b.reshape(*b.shape, *(1,) * (ndim - b.ndim)),
    )


def _elementwise(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    def apply(a: Array, b: Array) -> Array:
        return np.asarray(function(*_align(a, b)))

    return apply


def _truncated(a: Array, b: Array) -> Array:
    """Stan's integer division rounds towards zero."""
    quotient = np.abs(a) // np.abs(b)
    return np.where((a < 0) != (b < 0), -quotient, quotient)


_UNARY: dict[str, Callable[[Array], Array]] = {
    "!": lambda x: (x == 0).astype(np.int64),
    "-": np.negative,
    "+": np.positive,
}
_ELEMENTWISE: dict[str, Callable[[Array, Array], Array]] = {
    "+": np.add,
    "-": np.subtract,
    ".*": np.multiply,
    "./": np.true_divide,
    "%/%": _truncated,
    "%": np.fmod,
    "==": lambda a, b: (a == b).astype(np.int64),
    "!=": lambda a, b: (a != b).astype(np.int64),
    "<": lambda a, b: (a < b).astype(np.int64),
    "<=": lambda a, b: (a <= b).astype(np.int64),
    ">": lambda a, b: (a > b).astype(np.int64),
    ">=": lambda a, b: (a >= b).astype(np.int64),
    "&&": lambda a, b: ((a != 0) & (b != 0)).astype(np.int64),
    "||": lambda a, b: ((a != 0) | (b != 0)).astype(np.int64),
}


def _binary(e: n.Binary, a: Array, b: Array) -> Array:
    left, right = e.left.type, e.right.type
    scalars = left.rank == 0 or right.rank == 0
    if e.op in _ELEMENTWISE:
        return _elementwise(_ELEMENTWISE[e.op])(a, b)
    if e.op in ("^", ".^") and (scalars or e.op == ".^"):
        return _elementwise(np.power)(np.asarray(a, dtype=float), b)
    if e.op == "/" and right.rank == 0:
        both_int = left.base == "int" and right.base == "int" and left.rank == 0
        return _elementwise(_truncated if both_int else np.true_divide)(a, b)
    if e.op == "*":
        if scalars:
            return _elementwise(np.multiply)(a, b)
        product = _as_matrix(left, a) @ _as_matrix(right, b)
        if e.type.base == "matrix":
            return product
        return product[:, 0, 0] if e.type.rank == 0 else product.reshape(len(product), -1)
    raise _refusal(e)


def _as_matrix(kind: n.Type, value: Array) -> Array:
    """Vectors as matrices of one column, row vectors as those of one row."""
    if kind.base == "vector":
        return value[..., None]
    return value[:, None] if kind.base == "row_vector" else value


# --- functions ---------------------------------------------------------------------------


def _extent(name: str, kind: n.Type, shape: tuple[int, ...]) -> int:
    """size, rows and cols of a container; a matrix has as many elements as its size."""
    if name == "size":
        return shape[0] if kind.array or len(shape) == 1 else prod(shape)
    if kind.base == "matrix":
        return shape[0 if name == "rows" else 1]
    return shape[0] if (name == "rows") == (kind.base == "vector") else 1


def _reduce(function: Callable[..., Any]) -> Callable[[Array], Array]:
    def apply(x: Array) -> Array:
        return np.asarray(function(x.reshape(len(x), -1), axis=1))

    return apply


def _extreme(
    pairwise: Callable[[Array, Array], Array], whole: Callable[..., Any]
) -> Callable[..., Array]:
    def apply(*args: Array) -> Array:
        return _elementwise(pairwise)(*args) if len(args) == 2 else _reduce(whole)(*args)

    return apply


def _repeat(x: Array, *sizes: Array) -> Array:
    """rep_vector, rep_array, …: new dimensions go in front of the element's own."""
    new = tuple(int(s.reshape(())) for s in sizes)
    spread = x.reshape(len(x), *(1,) * len(new), *x.shape[1:])
    return np.broadcast_to(spread, (len(x), *new, *x.shape[1:]))


def _repeat_matrix(x: Array, *sizes: Array) -> Array:
    if x.ndim == 2:  # a vector becomes columns, a row vector rows: not told apart by shape
        raise ValueError("rep_matrix of a vector is not supported here")
    return _repeat(x, *sizes)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: getattr(np, name)
    for name in ("exp", "log", "sqrt", "square", "floor", "ceil", "log1p", "expm1", "log10",
                 "sin", "cos", "tan", "tanh", "sinh", "cosh", "trunc", "exp2", "cbrt")
}  # fmt: skip
_FUNCTIONS |= {
    "abs": np.abs,
    "round": np.round,
    "inv": lambda x: 1.0 / x,
    "inv_sqrt": lambda x: 1.0 / np.sqrt(x),
    "inv_square": lambda x: 1.0 / np.square(x),
    "inv_logit": special.expit,
    "logit": special.logit,
    "Phi": special.ndtr,
    "lgamma": special.gammaln,
    "log1p_exp": lambda x: np.logaddexp(0.0, x),
    "to_int": lambda x: np.trunc(x).astype(np.int64),
    "pow": _elementwise(lambda a, b: np.power(np.asarray(a, dtype=float), b)),
    "fmin": _elementwise(np.fmin),
    "fmax": _elementwise(np.fmax),
    "fma": lambda a, b, c: _elementwise(np.add)(_elementwise(np.multiply)(a, b), c),
    "choose": _elementwise(lambda a, b: np.rint(special.comb(a, b)).astype(np.int64)),
    "max": _extreme(np.maximum, np.max),
    "min": _extreme(np.minimum, np.min),
    "sum": _reduce(np.sum),
    "prod": _reduce(np.prod),
    "mean": _reduce(np.mean),
    "sd": lambda x: _reduce(np.std)(x) * np.sqrt((k := prod(x.shape[1:])) / (k - 1)),
    "variance": lambda x: _reduce(np.var)(x) * (k := prod(x.shape[1:])) / (k - 1),
    "cumulative_sum": lambda x: np.cumsum(x, axis=1),
    "num_elements": lambda x: np.array([prod(x.shape[1:])]),
    "dims": lambda x: np.array([x.shape[1:]]),
    **dict.fromkeys(
        ("to_vector", "to_row_vector"),
        lambda x: x if x.ndim < 3 else np.swapaxes(x, 1, 2).reshape(len(x), -1),
    ),
    **dict.fromkeys(("rep_vector", "rep_row_vector", "rep_array"), _repeat),
    "rep_matrix": _repeat_matrix,
    **dict.fromkeys(("zeros_vector", "zeros_row_vector"), lambda k: _repeat(np.zeros(1), k)),
    **dict.fromkeys(("ones_vector", "ones_row_vector"), lambda k: _repeat(np.ones(1), k)),
    "pi": lambda: np.array([np.pi]),
    "e": lambda: np.array([np.e]),
    "sqrt2": lambda: np.array([np.sqrt(2.0)]),
    # in Stan a constant without an argument, and a function with one
    "log2": lambda *x: np.log2(x[0]) if x else np.array([np.log(2.0)]),
    "positive_infinity": lambda: np.array([np.inf]),
    "negative_infinity": lambda: np.array([-np.inf]),
    "not_a_number": lambda: np.array([np.nan]),
    "machine_precision": lambda: np.array([np.finfo(float).eps]),
}
