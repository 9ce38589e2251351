"""Stan statements that compute the unconstrained coordinates of a program's variables.

The inverse of Stan's constraining transforms, written in Stan itself: what a term that is a
function of the unconstrained coordinates needs. Formulas and order are those of
`stancoreset.stan.transforms.bijectors` (Stan Reference Manual, "Constraint transforms").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stancoreset.stan.syntax import expression
from stancoreset.stan.syntax import nodes as n


@dataclass(frozen=True)
class _Place:
    """One constrained value x, and where its coordinates go: behind `start` others in `out`.

    All are expressions; positions are computed from sizes and loop variables alone, which
    leaves them known before any parameter is.
    """

    x: str
    out: str
    start: str
    prefix: str  # of names that may be introduced

    @property
    def size(self) -> str:
        return f"num_elements({self.x})"

    def put(self, value: str, position: str) -> str:
        return f"{self.out}[{self.start} + {position}] = {value};"

    def put_all(self, value: str, first: str, last: str) -> str:
        return f"{self.out}[({self.start} + {first}) : ({self.start} + {last})] = {value};"


def statements(decl: n.Decl, out: str, start: str, prefix: str, *, ilr_simplex: bool) -> str | None:
    """Statements that write the coordinates of one variable into the vector `out`.

    The variable is a parameter, or declared like one. `start` is the expression of the number of
    coordinates that stand before its own, and `prefix` begins the names of further variables. With
    `ilr_simplex` a simplex is an isometric log-ratio (Stan 2.37 and later), else a broken stick.
    None for a type whose coordinates are not written here.

    >>> from stancoreset.stan import StanProgram
    >>> code = "parameters { real<lower=0> s; } model { s ~ exponential(1); }"
    >>> (decl,) = StanProgram.from_code(code).parameters
    >>> statements(decl, "psi", "0", "psi", ilr_simplex=True)
    'psi[0 + 1] = log(s - (0));'
    """
    base, kind = decl.size.base, decl.constraint.kind
    if base not in ("real", "vector", "row_vector", "matrix"):
        return None
    if kind == "sum_to_zero_vector" and base == "matrix":
        return None
    loops = [f"{prefix}_{axis}" for axis in range(1, 1 + len(decl.size.array))]
    x = _at(decl.name, loops)
    if kind == "none" and len(loops) == 1 and base in _ARRAYS:
        return _ARRAYS[base](_Place(decl.name, out, start, prefix))
    if kind in ("none", "bounds", "affine"):
        count = "1" if base == "real" else _SIZE
        write = _elementwise(decl, loops)
    elif kind == "simplex":
        count, write = _STRUCTURED["ilr simplex" if ilr_simplex else "simplex"]
    elif kind in _STRUCTURED:
        count, write = _STRUCTURED[kind]
    else:
        return None
    # Arrays in row-major order: the element's number is ((i − 1)·size + j − 1)·size + …
    number = ""
    for depth, loop in enumerate(loops):
        size = f"size({_at(decl.name, ['1'] * depth)})"
        number = f"({number}) * {size} + {loop} - 1" if number else f"{loop} - 1"
    begin = f"{start} + ({number}) * {count.format(x=x)}" if loops else start
    text = write(_Place(x, out, begin, prefix))
    for depth in reversed(range(len(loops))):
        text = f"for ({loops[depth]} in 1:size({_at(decl.name, loops[:depth])})) {{ {text} }}"
    return text


def _at(name: str, indices: list[str]) -> str:
    return f"{name}[{', '.join(indices)}]" if indices else name


def _vectors(place: _Place) -> str:
    """Statements that store the coordinates of an array's vectors, all at once."""
    x, k, local = place.x, f"{place.prefix}_k", f"{place.prefix}_x"
    # An array without elements does not tell the size of its vectors.
    return (
        f"{{ matrix[size({x}) == 0 ? 0 : num_elements({x}[1]), size({x})] {local}; "
        f"for ({k} in 1:rows({local})) {{ {local}[{k}] = to_row_vector({x}[ : , {k}]); }} "
        f"{place.put_all(f'to_vector({local})', '1', f'num_elements({local})')} }}"
    )


def _elementwise(decl: n.Decl, loops: list[str]) -> Callable[[_Place], str]:
    """Bounds, offsets and multipliers act on each number by itself."""
    c = decl.constraint
    scalar = decl.size.base == "real"

    def side(e: n.Expr) -> str:
        # A bound of an array is either one for all elements or an array itself.
        text = f"({expression(e)})"
        return _at(text, loops) if loops and e.type.array else text

    def finite(bound: n.Expr, bounded: str, otherwise: str) -> str:
        # Functions may give an infinite bound, which is none: `link == 1 ? -inf : 0`.
        computed = any(n.find_all(bound, n.Call)) and not bound.type.rank
        return f"(is_inf({side(bound)}) ? {otherwise} : {bounded})" if computed else bounded

    def value(x: str) -> str:
        above = below = ""
        if c.lower is not None:
            above = f"log({x} - {side(c.lower)})"
        if c.upper is not None:
            below = f"log({side(c.upper)} - {x})"
        if c.lower is not None and c.upper is not None:
            # logit((x − l) / (b − l)) without the division
            both = finite(c.upper, f"{above} - {below}", above)
            return finite(c.lower, both, finite(c.upper, below, x))
        if c.lower is not None:
            return finite(c.lower, above, x)
        if c.upper is not None:
            return finite(c.upper, below, x)
        moved = x if c.offset is None else f"({x} - {side(c.offset)})"
        divide = "/" if scalar else "./"
        return moved if c.multiplier is None else f"{moved} {divide} {side(c.multiplier)}"

    def write(place: _Place) -> str:
        if scalar:
            return place.put(value(place.x), "1")
        vector = f"to_vector({value(place.x)})"
        if not loops:
            return place.put_all(vector, "1", place.size)
        local, k = f"{place.prefix}_x", f"{place.prefix}_k"
        return (
            f"{{ vector[{place.size}] {local} = {vector}; "
            f"for ({k} in 1:{place.size}) {{ {place.put(f'{local}[{k}]', k)} }} }}"
        )

    return write


def _steps(place: _Place, first: str) -> str:
    x, k = place.x, place.size
    steps = f"log({x}[2 : {k}] - {x}[1 : ({k} - 1)])"
    return (
        f"if ({k} > 0) {{ {place.put(first, '1')} }} "
        f"if ({k} > 1) {{ {place.put_all(steps, '2', k)} }}"
    )


def _broken_stick(place: _Place) -> str:
    x, k, j = place.x, place.size, f"{place.prefix}_j"
    value = f"log({x}[{j}]) - log(sum({x}[({j} + 1) : {k}])) + log({k} - {j})"
    return f"for ({j} in 1:({k} - 1)) {{ {place.put(value, j)} }}"


def _zero_sum(place: _Place, z: str) -> str:
    """u_j = (Σ_{i ≤ j} z_i − j z_{j+1}) / sqrt(j (j + 1)), the Helmert basis."""
    k, j, local = place.size, f"{place.prefix}_j", f"{place.prefix}_z"
    value = f"(sum({local}[1 : {j}]) - {j} * {local}[{j} + 1]) / sqrt({j} * ({j} + 1.0))"
    return f"{{ vector[{k}] {local} = {z}; for ({j} in 1:({k} - 1)) {{ {place.put(value, j)} }} }}"


def _cholesky_corr(place: _Place) -> str:
    i, j = _matrix_loops(place)
    position = f"({i} - 1) * ({i} - 2) / 2 + {j}"
    return _partial_correlations(place, place.x, position)


def _corr_matrix(place: _Place) -> str:
    i, j = _matrix_loops(place)
    position = f"({j} - 1) * rows({place.x}) - {j} * ({j} + 1) / 2 + {i}"
    return _partial_correlations(place, f"cholesky_decompose({place.x})", position)


def _partial_correlations(place: _Place, factor: str, position: str) -> str:
    """atanh of L_ij / sqrt(1 − Σ_{m<j} L_im²), below the diagonal; rows of L have length one.

    What is left of a row's length from column j on is summed from the end, for accuracy.
    """
    (i, j), local, left = _matrix_loops(place), f"{place.prefix}_L", f"{place.prefix}_left"
    value = f"atanh({local}[{i}, {j}] / sqrt({left}))"
    return (
        f"{{ matrix[rows({place.x}), cols({place.x})] {local} = {factor}; "
        f"for ({i} in 2:rows({place.x})) {{ real {left} = square({local}[{i}, {i}]); "
        f"for ({j}_back in 1:({i} - 1)) {{ int {j} = {i} - {j}_back; "
        f"{left} += square({local}[{i}, {j}]); {place.put(value, position)} }} }} }}"
    )


def _trapezoid(place: _Place, factor: str) -> str:
    """The lower triangle row by row, the diagonal's logarithm."""
    (i, j), local = _matrix_loops(place), f"{place.prefix}_L"
    rows, cols = f"rows({place.x})", f"cols({place.x})"
    inside = place.put(f"{local}[{i}, {j}]", f"{i} * ({i} - 1) / 2 + {j}")
    diagonal = place.put(f"log({local}[{i}, {i}])", f"{i} * ({i} + 1) / 2")
    below = place.put(
        f"{local}[{i}, {j}]", f"{cols} * ({cols} + 1) / 2 + ({i} - {cols} - 1) * {cols} + {j}"
    )
    return (
        f"{{ matrix[{rows}, {cols}] {local} = {factor}; "
        f"for ({i} in 1:{cols}) {{ for ({j} in 1:({i} - 1)) {{ {inside} }} {diagonal} }} "
        f"for ({i} in ({cols} + 1):{rows}) {{ for ({j} in 1:{cols}) {{ {below} }} }} }}"
    )


def _matrix_loops(place: _Place) -> tuple[str, str]:
    return f"{place.prefix}_i", f"{place.prefix}_j"


# Of arrays all at once; one of row vectors is a matrix.
_ARRAYS: dict[str, Callable[[_Place], str]] = {
    "vector": _vectors,
    "row_vector": lambda p: p.put_all(f"to_vector(to_matrix({p.x})')", "1", p.size),
}
_SIZE = "num_elements({x})"
_PAIRS = "(rows({x}) * (rows({x}) - 1) / 2)"
_TRIANGLE = "(cols({x}) * (cols({x}) + 1) / 2 + (rows({x}) - cols({x})) * cols({x}))"
#: Number of coordinates, and what writes them.
_STRUCTURED: dict[str, tuple[str, Callable[[_Place], str]]] = {
    "ordered": (_SIZE, lambda p: _steps(p, f"{p.x}[1]")),
    "positive_ordered": (_SIZE, lambda p: _steps(p, f"log({p.x}[1])")),
    "unit_vector": (_SIZE, lambda p: p.put_all(p.x, "1", p.size)),
    "sum_to_zero_vector": (f"({_SIZE} - 1)", lambda p: _zero_sum(p, p.x)),
    "simplex": (f"({_SIZE} - 1)", _broken_stick),
    "ilr simplex": (f"({_SIZE} - 1)", lambda p: _zero_sum(p, f"log({p.x})")),
    "cholesky_factor_corr": (_PAIRS, _cholesky_corr),
    "corr_matrix": (_PAIRS, _corr_matrix),
    "cholesky_factor_cov": (_TRIANGLE, lambda p: _trapezoid(p, p.x)),
    "cov_matrix": (_TRIANGLE, lambda p: _trapezoid(p, f"cholesky_decompose({p.x})")),
}
