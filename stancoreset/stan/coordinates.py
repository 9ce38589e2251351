"""Stan statements that compute the unconstrained coordinates of a program's variables.

The inverse of Stan's constraining transforms, written in Stan itself: what a term that is a
function of the unconstrained coordinates needs. Formulas and order are those of
`stancoreset.stan.bijectors` (Stan Reference Manual, "Constraint transforms").
"""

from __future__ import annotations

from collections.abc import Callable

from stancoreset.stan import nodes as n
from stancoreset.stan.printer import expression

__all__ = ["statements"]

# Each writer gets the expression x of one constrained value, the vector `out` that receives
# the coordinates, and the integer `at` that counts how many it has.
_Writer = Callable[[str, str, str], str]


def statements(decl: n.Decl, out: str, at: str, *, ilr_simplex: bool) -> str | None:
    """Statements that append the coordinates of one variable to a vector.

    Parameters
    ----------
    decl : Decl
        A parameter, or a variable declared like one.
    out : str
        Name of the vector.
    at : str
        Name of the integer that counts the coordinates in it; it is moved on. Names of
        further variables begin with it.
    ilr_simplex : bool
        Whether a simplex is an isometric log-ratio (Stan 2.37 and later) or a broken stick.

    Returns
    -------
    str or None
        None for a type whose coordinates are not written here.

    Examples
    --------
    >>> from stancoreset.stan.program import StanProgram
    >>> code = "parameters { real<lower=0> s; } model { s ~ exponential(1); }"
    >>> (decl,) = StanProgram.from_code(code).parameters
    >>> statements(decl, "psi", "at", ilr_simplex=True)
    'psi[at + 1] = log((s) - (0)); at += 1;'
    """
    base, kind = decl.size.base, decl.constraint.kind
    if base not in ("real", "vector", "row_vector", "matrix"):
        return None
    loops = [f"{at}_{axis}" for axis in range(1, 1 + len(decl.size.array))]
    element = decl.name + (f"[{', '.join(loops)}]" if loops else "")
    if kind in ("none", "bounds", "affine"):
        body = _elementwise(decl, element, loops, out, at)
    else:
        simplex = _ilr if ilr_simplex else _broken_stick
        writer = simplex if kind == "simplex" else _STRUCTURED.get(kind)
        if writer is None or (kind == "sum_to_zero_vector" and base == "matrix"):
            return None
        body = writer(element, out, at)
    for depth in reversed(range(len(loops))):
        outer = decl.name + (f"[{', '.join(loops[:depth])}]" if depth else "")
        body = f"for ({loops[depth]} in 1:size({outer})) {{ {body} }}"
    return body


def _elementwise(decl: n.Decl, x: str, loops: list[str], out: str, at: str) -> str:
    """Bounds, offsets and multipliers act on each number by itself."""
    c = decl.constraint

    def side(e: n.Expr) -> str:
        # A bound of an array is either one for all elements or an array itself.
        text = expression(e)
        return f"({text})[{', '.join(loops)}]" if loops and e.type.array else f"({text})"

    value = x
    if c.kind == "bounds" and c.lower is not None and c.upper is not None:
        # logit((x − l) / (b − l)) without the division
        value = f"log(({x}) - {side(c.lower)}) - log({side(c.upper)} - ({x}))"
    elif c.kind == "bounds" and c.lower is not None:
        value = f"log(({x}) - {side(c.lower)})"
    elif c.kind == "bounds" and c.upper is not None:
        value = f"log({side(c.upper)} - ({x}))"
    elif c.kind == "affine":
        divide = "/" if decl.size.base == "real" else "./"
        value = f"(({x}) - {side(c.offset)})" if c.offset is not None else f"({x})"
        value = f"{value} {divide} {side(c.multiplier)}" if c.multiplier is not None else value
    if decl.size.base == "real":
        return f"{out}[{at} + 1] = {value}; {at} += 1;"
    return _append(f"to_vector({value})", f"num_elements({x})", out, at)


def _append(value: str, count: str, out: str, at: str) -> str:
    return f"{out}[({at} + 1) : ({at} + {count})] = {value}; {at} += {count};"


def _ordered(x: str, out: str, at: str) -> str:
    return _steps(x, f"{x}[1]", out, at)


def _positive_ordered(x: str, out: str, at: str) -> str:
    return _steps(x, f"log({x}[1])", out, at)


def _steps(x: str, first: str, out: str, at: str) -> str:
    k = f"num_elements({x})"
    rest = f"{out}[({at} + 2) : ({at} + {k})] = log({x}[2 : {k}] - {x}[1 : ({k} - 1)]);"
    return f"if ({k} > 0) {{ {out}[{at} + 1] = {first}; {rest} {at} += {k}; }}"


def _itself(x: str, out: str, at: str) -> str:
    return _append(x, f"num_elements({x})", out, at)


def _broken_stick(x: str, out: str, at: str) -> str:
    k, j = f"num_elements({x})", f"{at}_j"
    value = f"log({x}[{j}]) - log(sum({x}[({j} + 1) : {k}])) + log({k} - {j})"
    return f"for ({j} in 1:({k} - 1)) {{ {out}[{at} + {j}] = {value}; }} {at} += {k} - 1;"


def _ilr(x: str, out: str, at: str) -> str:
    return _zero_sum(f"log({x})", x, out, at)


def _sum_to_zero(x: str, out: str, at: str) -> str:
    return _zero_sum(x, x, out, at)


def _zero_sum(z: str, x: str, out: str, at: str) -> str:
    """u_j = (Σ_{i ≤ j} z_i − j z_{j+1}) / sqrt(j (j + 1)), the Helmert basis."""
    k, j, local = f"num_elements({x})", f"{at}_j", f"{at}_z"
    value = f"(sum({local}[1 : {j}]) - {j} * {local}[{j} + 1]) / sqrt({j} * ({j} + 1.0))"
    return (
        f"{{ vector[{k}] {local} = {z}; "
        f"for ({j} in 1:({k} - 1)) {{ {out}[{at} + {j}] = {value}; }} {at} += {k} - 1; }}"
    )


def _partial_correlations(factor: str, x: str, out: str, at: str, *, by_column: bool) -> str:
    """atanh of L_ij / sqrt(1 − Σ_{m<j} L_im²), below the diagonal; rows of L have length one."""
    i, j, local = f"{at}_i", f"{at}_j", f"{at}_L"
    one = (
        f"{at} += 1; {out}[{at}] = "
        f"atanh({local}[{i}, {j}] / sqrt(dot_self({local}[{i}, {j} : {i}])));"
    )
    loops = (
        f"for ({j} in 1:rows({local})) {{ for ({i} in ({j} + 1):rows({local})) {{ {one} }} }}"
        if by_column
        else f"for ({i} in 2:rows({local})) {{ for ({j} in 1:({i} - 1)) {{ {one} }} }}"
    )
    return f"{{ matrix[rows({x}), cols({x})] {local} = {factor}; {loops} }}"


def _cholesky_corr(x: str, out: str, at: str) -> str:
    return _partial_correlations(x, x, out, at, by_column=False)


def _corr_matrix(x: str, out: str, at: str) -> str:
    return _partial_correlations(f"cholesky_decompose({x})", x, out, at, by_column=True)


def _trapezoid(factor: str, x: str, out: str, at: str) -> str:
    """The lower triangle row by row, the diagonal's logarithm."""
    i, j, local = f"{at}_i", f"{at}_j", f"{at}_L"
    value = f"{i} == {j} ? log({local}[{i}, {j}]) : {local}[{i}, {j}]"
    return (
        f"{{ matrix[rows({x}), cols({x})] {local} = {factor}; "
        f"for ({i} in 1:rows({local})) {{ for ({j} in 1:min({i}, cols({local}))) {{ "
        f"{at} += 1; {out}[{at}] = {value}; }} }} }}"
    )


def _cholesky_cov(x: str, out: str, at: str) -> str:
    return _trapezoid(x, x, out, at)


def _cov_matrix(x: str, out: str, at: str) -> str:
    return _trapezoid(f"cholesky_decompose({x})", x, out, at)


_STRUCTURED: dict[str, _Writer] = {
    "ordered": _ordered,
    "positive_ordered": _positive_ordered,
    "unit_vector": _itself,
    "sum_to_zero_vector": _sum_to_zero,
    "cholesky_factor_corr": _cholesky_corr,
    "corr_matrix": _corr_matrix,
    "cholesky_factor_cov": _cholesky_cov,
    "cov_matrix": _cov_matrix,
}
