"""Raw effects that a program scales by a factor of parameters, r = s z, and how NUTS may move them.

In c = s^λ z there is no ridge z = r / s where the rows know r well. This is a change of variables,
and no other model. Factors are scales, vectors of scales, and Cholesky factors of covariances, with
which brms writes correlated effects: these have no powers, and λ is 0 or 1. They scale all effects
at once, and where one of their scales may be near zero, centring all of them makes a funnel: λ is 1
only if the whole diagonal is known well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stancoreset.stan.shifts import Shifted, indexed, where_asked
from stancoreset.stan.syntax import bare, name_of, printer, substituted
from stancoreset.stan.syntax import nodes as n

Float = NDArray[np.float64]

# Types of effects that a factor of a type may scale, so that a quotient undoes the product.
_SCALED_BY = {
    "real": ("vector", "row_vector", "matrix"),
    "vector": ("vector",),
    "matrix": ("vector", "matrix"),
}


@dataclass(frozen=True)
class Effects:
    """Raw effects and their factor."""

    name: str  # the parameter z
    part: tuple[int, ...]  # which element of an array, from 1; empty for the whole parameter
    factor: n.Expr  # s: a positive number or vector, or a lower triangular matrix
    base: str  # Stan's type of the effects: ``"vector"``, ``"row_vector"`` or ``"matrix"``
    # Whether a vector scales the ``"rows"`` or the ``"columns"`` of a matrix; empty otherwise.
    along: str = ""

    @property
    def has_powers(self) -> bool:
        """Whether λ may lie between 0 and 1."""
        return _base(self.factor) != "matrix"

    def exponents(self, values: Mapping[str, Float]) -> tuple[float, ...]:
        """Exponents λ that the effects allow, given draws near the posterior, (S, *shape).

        Those of a Cholesky factor move if all of its diagonal is known.
        """
        if self.has_powers:
            return (0.0, 0.5, 1.0)
        return (0.0, 1.0) if self.know_scales(values) else (0.0,)

    def know_scales(self, values: Mapping[str, Float], known: float = 0.3) -> bool:
        """Whether the log of each scale has a standard deviation below `known` in draws.

        Effects are then less than twice as wide in one draw as in most others.
        """
        scales = value_of(self.factor, values)
        if scales.ndim == 3:
            scales = np.diagonal(scales, axis1=1, axis2=2)
        with np.errstate(divide="ignore", invalid="ignore"):
            return bool((np.log(np.abs(scales)).std(axis=0) < known).all())

    def raw(self, values: Mapping[str, Float]) -> Float:
        """Raw effects z at values (S, *shape) by name."""
        return values[self.name][place_of(self.part)]

    @property
    def shifted(self) -> Shifted:
        """The effects as a `Shifted`, which describes them for shifts."""
        columns: int | None = None if self.has_powers else 1
        kinds = {"rows": 1, "columns": 2}.get(self.along, columns)
        return Shifted(self.name, self.part, self.base, kinds)

    def moved(self, values: Mapping[str, Float], exponent: float) -> Float:
        """Moved effects c = s^λ z, without shifts, at values (S, *shape) by name."""
        raw, factor = self.raw(values), value_of(self.factor, values)
        if not exponent:
            return raw
        if factor.ndim == 3:
            return (factor @ (raw if raw.ndim == 3 else raw[..., None])).reshape(raw.shape)
        ahead = (1,) if self.along == "columns" else ()
        behind = (1,) * (raw.ndim - factor.ndim - len(ahead))
        return raw * factor.reshape(len(factor), *ahead, *factor.shape[1:], *behind) ** exponent

    @property
    def has_means(self) -> bool:
        """Whether effects of a kind have one scale, so that their mean is scaled as they are."""
        return bool(self.along) or _base(self.factor) == ("real" if self.has_powers else self.base)

    def times(self, means: n.Expr, exponent: n.Expr) -> n.Expr:
        """s^λ times a vector of means, one of each kind."""
        if not self.has_powers:
            return n.Binary(self.factor, "*", means)
        return n.Binary(n.call("pow", self.factor, exponent), ".*" if self.along else "*", means)

    def scaled_means(self, means: Float, values: Mapping[str, Float], exponent: float) -> Float:
        """s^λ times means (S, kinds), at values (S, *shape) by name; s itself of a matrix."""
        factor = value_of(self.factor, values)
        if factor.ndim == 3:
            return np.einsum("skl,sl->sk", factor, means) if exponent else means
        return means * factor.reshape(len(factor), -1) ** exponent

    @property
    def log_determinant(self) -> n.Expr:
        """log |s|, of all kinds."""
        match self.factor.type.base:
            case "matrix":
                return n.call("sum", n.call("log", n.call("diagonal", self.factor)))
            case "vector":
                return n.call("sum", n.call("log", self.factor))
        return n.call("log", self.factor)

    def statements(self, exponent: n.Expr) -> tuple[n.Stmt, n.Stmt]:
        """Statements that compute z from c (which has z's name), and add the log Jacobian."""
        z, factor = indexed(self.name, self.part), self.factor
        power, inverse = (n.call("pow", factor, e) for e in (exponent, n.Unary("-", exponent)))
        count: n.Expr = n.ONE
        match factor.type.base, self.along:
            case "matrix", _:
                value: n.Expr = n.call("mdivide_left_tri_low", factor, z)
                count = n.call("cols", z) if self.base == "matrix" else n.ONE
            case _, "rows":
                value, count = n.call("diag_pre_multiply", inverse, z), n.call("cols", z)
            case _, "columns":
                value, count = n.call("diag_post_multiply", z, inverse), n.call("rows", z)
            case "vector", _:
                value = n.Binary(z, "./", power)
            case _:
                value, count = n.Binary(z, "/", power), n.call("num_elements", z)
        product = n.Binary(n.Unary("-", exponent), "*", count)
        less = n.TargetAdd(n.Binary(product, "*", self.log_determinant))
        return where_asked(exponent, n.Assign(z, "=", value)), where_asked(exponent, less)


def scaled_effects(program: n.Program) -> Iterator[Effects]:
    """Products of a factor and a parameter that may take any value, one for each parameter's part.

    A factor is made of parameters alone: transformed parameters compute z before all else.
    """
    parameters = {d.name: d for d in program.parameters}
    found: set[tuple[str, tuple[int, ...]]] = set()
    for product in _products(program):
        for effects in _of_product(product, parameters):
            parts = {effects.part, ()} if effects.part else {p for _, p in found} | {()}
            if not any((effects.name, part) in found for part in parts):
                found.add((effects.name, effects.part))
                yield effects


def _of_product(product: n.Binary | n.Call, parameters: Mapping[str, n.Decl]) -> Iterator[Effects]:
    """The raw effects that a product scales: one factor or the other."""
    if isinstance(product, n.Call):
        one, other = (bare(e) for e in product.args)
        rows = product.name == "diag_pre_multiply"
        scaled, factor = (other, one) if rows else (one, other)
        along = _along(scaled, factor, "rows" if rows else "columns", parameters)
        yield from () if along is None else (along,)
        return
    for scaled, factor in ((product.right, product.left), (product.left, product.right)):
        each = _each(bare(scaled), bare(factor), parameters)
        effects = each or _scaled(bare(scaled), bare(factor), parameters)
        if effects is not None and not (scaled is product.left and _base(factor) == "matrix"):
            yield effects


def _products(program: n.Program) -> Iterator[n.Binary | n.Call]:
    """All products of parameters, also those in functions that return one expression."""
    returned = {}  # what a function returns at once, with the names of its arguments
    for function in program.functions:
        match function.body:
            case n.Block(body=(n.Return(value=n.Expression() as value),)):
                names = [p.name for p in function.parameters]
                returned[function.name, len(names)] = value, names
    for node in n.find_all((*program.transformed_parameters, *program.model), n.Call, n.Binary):
        here: Iterable[n.Node] = (node,)
        if isinstance(node, n.Call) and (node.name, len(node.args)) in returned:
            value, names = returned[node.name, len(node.args)]
            here = n.walk(substituted(value, dict(zip(names, node.args, strict=True))))
        for x in here:
            match x:
                case n.Binary(op="*" | ".*"):
                    yield x
                case n.Call(name="diag_pre_multiply" | "diag_post_multiply"):
                    yield x


def _scaled(scaled: n.Expr, factor: n.Expr, parameters: Mapping[str, n.Decl]) -> Effects | None:
    """A product's raw effects and factor, if they are such."""
    indices: tuple[n.Indexing, ...] = ()
    if isinstance(scaled, n.Index):
        indices, scaled = scaled.indices, scaled.base
    decl = parameters.get(name_of(scaled))
    if decl is None or decl.constraint.kind != "none" or not _is_factor(factor, parameters):
        return None
    depth, kind = len(decl.size.array), _base(factor)
    literal = (i.index for i in indices if isinstance(i, n.Single))
    part = tuple(int(i.text) for i in literal if isinstance(i, n.IntLit))
    # An index of rows or groups, z[g[n]], picks from effects that have one scale.
    whole = not depth and not part and len(indices) <= (kind == "real")
    fits = decl.size.base in _SCALED_BY[kind] and (whole or len(part) == len(indices) == depth)
    return Effects(decl.name, part, factor, decl.size.base) if fits else None


def _each(scaled: n.Expr, factor: n.Expr, parameters: Mapping[str, n.Decl]) -> Effects | None:
    """The effects of ``s[k] * z[, k]``, ``s[k] * z[j, k]`` or ``s[k] * col(z, k)``, or of rows."""
    match scaled:
        case n.Call(name="col", args=(whole, at)):
            scaled = n.Index(whole, (n.All(), n.Single(at)))
        case n.Call(name="row", args=(whole, at)):
            scaled = n.Index(whole, (n.Single(at),))
    match scaled, factor:
        case (
            n.Index(base=whole, indices=places),
            n.Index(base=scales, indices=(n.Single(index=n.Var()) as k,)),
        ) if k in places and len(places) <= 2:
            return _along(whole, scales, ("rows", "columns")[places.index(k)], parameters)
    return None


def _along(
    scaled: n.Expr, factor: n.Expr, along: str, parameters: Mapping[str, n.Decl]
) -> Effects | None:
    """The effects of a matrix whose rows or columns are scaled by a vector of as many numbers."""
    matrix, vector = (parameters.get(name_of(e)) for e in (scaled, factor))
    if matrix is None or vector is None:
        return None
    plain = not matrix.size.array and matrix.size.base == "matrix"
    if not plain or matrix.constraint.kind != "none" or vector.size.base != "vector":
        return None
    size = matrix.size.sizes[0 if along == "rows" else 1]
    if not _is_factor(factor, parameters) or vector.size.sizes != (size,):
        return None
    return Effects(matrix.name, (), factor, "matrix", along)


def _is_factor(e: n.Expr, parameters: Mapping[str, n.Decl]) -> bool:
    """Whether an expression is a positive parameter, or a Cholesky factor of parameters."""
    match e:
        case n.Var(name=name) if name in parameters:
            decl = parameters[name]
            if decl.constraint.kind == "cholesky_factor_cov":
                return not decl.size.array and len(set(decl.size.sizes)) == 1
            return _is_positive(decl) and decl.type.rank == (decl.size.base == "vector")
        case n.Index(base=n.Var(name=name), indices=(n.Single(index=n.IntLit()),)):
            return name in parameters and _is_positive(parameters[name]) and _base(e) == "real"
        case n.Call(name="diag_pre_multiply", args=(scales, n.Var(name=name))):
            corr = name in parameters and parameters[name].constraint.kind
            one = corr == "cholesky_factor_corr" and not parameters[name].size.array
            return one and _is_factor(bare(scales), parameters)
    return False


def _is_positive(decl: n.Decl) -> bool:
    """Whether a parameter is bounded by zero from below, and by nothing else."""
    constraint, lower = decl.constraint, decl.constraint.lower
    zero = isinstance(lower, n.IntLit | n.RealLit) and float(lower.text) == 0
    return constraint.kind == "bounds" and zero and constraint.upper is None


def _base(e: n.Expr) -> str:
    """An expression's type, if it is no array."""
    return "array" if e.type.array else e.type.base


def place_of(part: tuple[int, ...]) -> tuple[Any, ...]:
    """Index of a part within values (S, *shape)."""
    return (slice(None), *(i - 1 for i in part))


def value_of(e: n.Expr, values: Mapping[str, Float]) -> Float:
    """A factor at values (S, *shape) by name."""
    match e:
        case n.Var(name=name):
            return values[name]
        case n.Index(base=n.Var(name=name), indices=indices):
            part = tuple(int(i.index.text) for i in indices)  # type: ignore[union-attr]
            return values[name][place_of(part)]
        case n.Call(args=(scales, corr)):
            return value_of(bare(scales), values)[..., None] * value_of(corr, values)
    raise AssertionError(f"no factor: {printer.expression(e)}")
