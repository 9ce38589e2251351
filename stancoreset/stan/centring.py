"""Effects of groups as NUTS may move them: centred where the program scales raw ones, or raw.

Effects are often written as r = s z with z ~ normal(0, 1). Where the rows know r well, s and z meet
on a narrow curved ridge z = r / s, along which NUTS goes in hundreds of steps. In c = s z it does
not exist; where the rows know little of r, s and c meet in a funnel, and something between the two
may be best. `centring` makes c = s^λ z a parameter in place of z, with exponents λ as data:

    parameters { vector[K] c; real<lower=0> s; }
    transformed parameters { vector[K] z = c; if (centred[1] > 0) z = c / s^centred[1]; … }
    model { … if (centred[1] > 0) target += -centred[1] * K * log(s); }

The program itself computes from z what it always did, so this is a change of variables and no
other model, whatever its prior of z; what it gains is for draws to say. Factors are scales, vectors
of scales, and Cholesky factors of covariances, with which brms writes correlated effects: these
have no powers, and λ is 0 or 1. They scale all effects at once, and where one of their scales may
be near zero, centring all of them makes a funnel: λ is 1 only if the whole diagonal is known well.

Effects that are parameters themselves, a ~ normal(m, s), are moved the other way, see
`stancoreset.stan.located`.

Effects of both kinds, and vectors of parameters that are neither, may also be shifted by other
parameters, see `stancoreset.stan.shifts`: c = s^λ z + Σ_q A_q φ_q, and c = a + Σ_q A_q φ_q.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stancoreset.stan.located import Located, located
from stancoreset.stan.shifts import (
    NOT_SHIFTED,
    Amount,
    Shift,
    Shifted,
    Shifts,
    Source,
    indexed,
    is_free,
    own_mean,
    regression,
    weights_of,
    where_asked,
)
from stancoreset.stan.syntax import Names, bare, name_of, printer, substituted
from stancoreset.stan.syntax import nodes as n

Float = NDArray[np.float64]

# Types of effects that a factor of a type may scale, so that a quotient undoes the product.
_SCALED_BY = {
    "real": ("vector", "row_vector", "matrix"),
    "vector": ("vector",),
    "matrix": ("vector", "matrix"),
}
# What the names of shifts and of their sizes begin with.
_NAMES = ("shift", "shift_rows", "shift_columns", "shift_weights", "shift_weighted")


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

    def exponents(self, values: Mapping[str, Float], known: float = 0.3) -> tuple[float, ...]:
        """Exponents λ that the effects allow, given draws near the posterior, (S, *shape).

        Those of a Cholesky factor move if the log of each element of its diagonal has a standard
        deviation below `known`: they are less than twice as wide in one draw as in most others.
        """
        if self.has_powers:
            return (0.0, 0.5, 1.0)
        scales = np.diagonal(_value(self.factor, values), axis1=1, axis2=2)
        with np.errstate(divide="ignore", invalid="ignore"):
            spread = np.log(np.abs(scales)).std(axis=0)
        return (0.0, 1.0) if (spread < known).all() else (0.0,)

    def raw(self, values: Mapping[str, Float]) -> Float:
        """Raw effects z at values (S, *shape) by name."""
        return values[self.name][_place(self.part)]

    @property
    def shifted(self) -> Shifted:
        """The effects as a `Shifted`, which describes them for shifts."""
        columns: int | None = None if self.has_powers else 1
        kinds = {"rows": 1, "columns": 2}.get(self.along, columns)
        return Shifted(self.name, self.part, self.base, kinds)

    def moved(self, values: Mapping[str, Float], exponent: float) -> Float:
        """Moved effects c = s^λ z, without shifts, at values (S, *shape) by name."""
        raw, factor = self.raw(values), _value(self.factor, values)
        if factor.ndim == 3:
            return (factor @ (raw if raw.ndim == 3 else raw[..., None])).reshape(raw.shape)
        ahead = (1,) if self.along == "columns" else ()
        behind = (1,) * (raw.ndim - factor.ndim - len(ahead))
        return raw * factor.reshape(len(factor), *ahead, *factor.shape[1:], *behind) ** exponent

    def statements(self, exponent: n.Expr) -> tuple[n.Stmt, n.Stmt]:
        """Statements that compute z from c (which has z's name), and add the log Jacobian."""
        z, factor = indexed(self.name, self.part), self.factor
        power, inverse = (n.call("pow", factor, e) for e in (exponent, n.Unary("-", exponent)))
        count: n.Expr = n.ONE
        logs = n.call("sum", n.call("log", factor))
        match factor.type.base, self.along:
            case "matrix", _:
                value: n.Expr = n.call("mdivide_left_tri_low", factor, z)
                count = n.call("cols", z) if self.base == "matrix" else n.ONE
                logs = n.call("sum", n.call("log", n.call("diagonal", factor)))
            case _, "rows":
                value, count = n.call("diag_pre_multiply", inverse, z), n.call("cols", z)
            case _, "columns":
                value, count = n.call("diag_post_multiply", z, inverse), n.call("rows", z)
            case "vector", _:
                value = n.Binary(z, "./", power)
            case _:
                value, count = n.Binary(z, "/", power), n.call("num_elements", z)
                logs = n.call("log", factor)
        less = n.TargetAdd(n.Binary(n.Binary(n.Unary("-", exponent), "*", count), "*", logs))
        return where_asked(exponent, n.Assign(z, "=", value)), where_asked(exponent, less)


Movable: TypeAlias = Effects | Located | Shifted


@dataclass(frozen=True)
class Centring:
    """A program that moves effects, by exponents in its data."""

    code: str = field(repr=False)
    # The program of the same data whose generated quantities are located effects as they are moved,
    # at its own parameters.
    there: str = field(repr=False)
    scaled: tuple[Effects, ...]
    located: tuple[Located, ...]
    # What can be moved: the last ones, vectors of parameters, by shifts alone.
    others: tuple[Shifted, ...]
    asked: str  # name of the exponents in the data, one for each of `effects`
    names: Mapping[str, str]  # the parameter that stands for each one whose effects can be moved
    # All that there are: of scaled effects as they are centred, of others as they are.
    shifts: tuple[Shift, ...] = ()

    @property
    def effects(self) -> tuple[Movable, ...]:
        """Effects that can be moved, in the order of their exponents."""
        return (*self.scaled, *self.located, *self.others)

    def data(
        self, exponents: Sequence[float], shifts: Shifts = MappingProxyType({})
    ) -> dict[str, Any]:
        """Data that move `effects`; those with exponent 0 stay."""
        found: dict[str, Any] = {self.asked: np.array(exponents, dtype=np.float64)}
        for one in self.shifts:
            found |= one.data(shifts.get((one.number, one.by.name), NOT_SHIFTED))
        return found

    def shift_of(
        self,
        number: int,
        values: Mapping[str, Float],
        exponents: Sequence[float],
        shifts: Shifts,
        there: Mapping[str, Float] = MappingProxyType({}),
    ) -> Shifts:
        """Shifts of some effects by a regression on all φ, of draws (S, *shape).

        Only scaled effects are shifted as they are centred, and no others; others have none where
        they are centred. For the other arguments see `moved`.
        """
        own = [one for one in self.shifts if one.number == number]
        if not own or (number < len(self.scaled)) != bool(exponents[number]):
            return {}
        earlier = {key: amount for key, amount in shifts.items() if key[0] < number}
        found = self.moved(values, exponents, earlier, there)
        here = self._centred(number, values, exponents[number])
        flat, kind = here.reshape(len(here), -1), own[0].effects.kind(here.shape[1:])
        others = [one.by for one in own if not one.by_own_mean]
        weights = {by.name: self._weights(by, found) for by in others}
        sources = {by.name: self._source(by, found, weights[by.name]) for by in others}
        slopes = regression(flat, kind, sources)
        amounts = {name: Amount(matrix, weights[name]) for name, matrix in slopes.items()}
        left = flat + sum(sources[name] @ matrix.T for name, matrix in slopes.items())
        for one in own:
            if one.by_own_mean and (by := own_mean(left, kind)) is not None:
                amounts[one.by.name] = by
        return {(number, name): amount for name, amount in amounts.items()}

    def moved(
        self,
        values: Mapping[str, Float],
        exponents: Sequence[float],
        shifts: Shifts = MappingProxyType({}),
        there: Mapping[str, Float] = MappingProxyType({}),
    ) -> dict[str, Float]:
        """Parameters (S, *shape) by name, with c of effects in place of z or a.

        Of located effects that are centred c is what the program `there` gives.
        """
        found = {**values, **there}
        for number, exponent in enumerate(exponents):
            own = [x for x in self.shifts if (number, x.by.name) in shifts and x.number == number]
            if own or (exponent and number < len(self.scaled)):
                place = self.effects[number].shifted
                assert place is not None
                if found[place.name] is values[place.name]:
                    found[place.name] = np.array(values[place.name])
                c = found[place.name][_place(place.part)]
                c[...] = self._centred(number, values, exponent)
                for one in reversed(own):  # the first of the program's statements is the last here
                    matrix, weights = shifts[number, one.by.name]
                    if one.by_own_mean:
                        matrix = matrix @ np.linalg.inv(np.eye(len(weights)) - weights @ matrix)
                    c += (self._source(one.by, found, weights) @ matrix.T).reshape(c.shape)
        return found

    def _source(self, by: Source, moved: Mapping[str, Float], weights: Float) -> Float:
        """Values of φ, (S, q), where effects that come before have moved."""
        if by.number is None:
            return moved[by.name].reshape(len(moved[by.name]), -1)
        return self._flat(by.number, moved)[0] @ weights.T

    def _weights(self, by: Source, moved: Mapping[str, Float]) -> Float:
        """The weights of effects in their means; of a parameter there are none."""
        if by.number is None:
            return np.empty((0, 0))
        return weights_of(*self._flat(by.number, moved))

    def _flat(self, number: int, moved: Mapping[str, Float]) -> tuple[Float, NDArray[np.intp]]:
        """Effects by their number, (S, d), and their kinds, (d,)."""
        effects = self.effects[number].shifted
        assert effects is not None
        value = moved[effects.name][_place(effects.part)]
        return value.reshape(len(value), -1), effects.kind(value.shape[1:])

    def _centred(self, number: int, values: Mapping[str, Float], exponent: float) -> Float:
        """Scaled effects without shifts; others as they are."""
        effects = self.effects[number]
        if not isinstance(effects, Effects):
            return values[effects.name]
        return effects.moved(values, exponent) if exponent else effects.raw(values)


def centring(program: n.Program) -> Centring | None:
    """The program that can move its effects; None if it has none.

    >>> from stancoreset.stan.syntax import parse
    >>> code = '''
    ... parameters { array[1] vector[3] z_1; vector<lower=0>[1] sd_1; }
    ... transformed parameters { vector[3] r = sd_1[1] * z_1[1]; }
    ... model { z_1[1] ~ std_normal(); }'''
    >>> [(e.name, e.part) for e in centring(parse(code)).effects]
    [('z_1', (1,))]
    """
    scaled = tuple(_effects(program))
    around = located(program, {e.name for e in scaled})
    centred = {e.name for e in scaled} | {e.name for e in around}
    free = [d for d in program.parameters if d.name not in centred and is_free(d)]
    vectors = [d for d in free if d.size.base == "vector" and d.constraint.kind == "none"]
    # Numbers shift all, and vectors that numbers shift all but one another; the mean of effects
    # shifts these and those that come after, except vectors, by which it is shifted itself.
    numbers = [d for d in free if d not in vectors]
    others = tuple(Shifted(d.name, (), "vector") for d in vectors if numbers)
    effects: tuple[Movable, ...] = (*scaled, *around, *others)
    if not effects:
        return None
    names = Names(program)
    asked = names.fresh("centred")
    exponents = [indexed(asked, (i + 1,)) for i in range(len(effects))]
    moved = {d.name: d for d in program.parameters if d.name in {e.name for e in effects}}
    new = {name: names.fresh(f"{name}_centred") for name in moved}
    declared = [
        replace(d, constraint=n.Constraint(), value=n.Var(new[name])) for name, d in moved.items()
    ]
    pairs = [e.statements(x) for e, x in zip(scaled, exponents, strict=False)]
    behind = list(zip(around, exponents[len(scaled) :], strict=False))

    def prior(node: n.Node) -> n.Node | None:
        return next((e.moved_prior(x, new[e.name]) for e, x in behind if node == e.prior), None)

    shifts = [
        Shift(i, what, by, *(names.fresh(f"{part}_{i + 1}_{by.name}") for part in _NAMES))
        for i, one in reversed(list(enumerate(effects)))
        if (what := one.shifted) is not None
        for by in (
            *(() if one in others else _means(effects[: i + 1])),
            *(Source.parameter(d) for d in (*numbers, *(() if one in others else vectors))),
        )
    ]
    bounds = n.Constraint("bounds", n.IntLit("0"), n.IntLit("1"))
    size = n.SizedType("real", (n.IntLit(str(len(effects))),))
    data = (*program.data, n.Decl(asked, size, bounds))
    changed = replace(
        program,
        data=(*data, *(d for shift in shifts for d in shift.declarations)),
        parameters=tuple(replace(d, name=new.get(d.name, d.name)) for d in program.parameters),
        transformed_parameters=(
            *declared,
            *(shift.back for shift in shifts),
            *(back for back, _ in pairs),
            *(e.back(x) for e, x in behind),
            *program.transformed_parameters,
        ),
        model=(
            *(n.transform(s, prior) for s in program.model),
            *(jacobian for _, jacobian in pairs),
        ),
    )
    there = replace(
        program,
        data=data,
        transformed_parameters=(),
        model=(),
        generated_quantities=(
            *(replace(moved[e.name], name=new[e.name], value=n.Var(e.name)) for e in around),
            *(e.there(x, new[e.name]) for e, x in behind),
        ),
    )
    return Centring(
        code=printer.program(changed),
        there=printer.program(there),
        scaled=scaled,
        located=around,
        others=others,
        asked=asked,
        names=new,
        shifts=tuple(shifts),
    )


def _means(effects: Sequence[Movable]) -> Iterator[Source]:
    """The means of each of some effects, the last ones' first; a vector of kinds has none."""
    for i, one in reversed(list(enumerate(effects))):
        if (what := one.shifted) is not None and (what.kinds is None or what.base == "matrix"):
            yield Source.mean(i, what)


def _effects(program: n.Program) -> Iterator[Effects]:
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
    """The effects of ``s[k] * z[, k]``, ``s[k] * z[j, k]`` or ``s[k] * col(z, k)``, any k.

    Rows in place of columns likewise.
    """
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


def _place(part: tuple[int, ...]) -> tuple[Any, ...]:
    """Index of a part within values (S, *shape)."""
    return (slice(None), *(i - 1 for i in part))


def _value(e: n.Expr, values: Mapping[str, Float]) -> Float:
    """A factor at values (S, *shape) by name."""
    match e:
        case n.Var(name=name):
            return values[name]
        case n.Index(base=n.Var(name=name), indices=indices):
            part = tuple(int(i.index.text) for i in indices)  # type: ignore[union-attr]
            return values[name][_place(part)]
        case n.Call(args=(scales, corr)):
            return _value(bare(scales), values)[..., None] * _value(corr, values)
    raise AssertionError(f"no factor: {printer.expression(e)}")
