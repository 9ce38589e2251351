"""Effects that are parameters, with a location and a scale by their prior: as NUTS may move them.

Where rows know little of effects a ~ normal(m, s), a and s meet in a funnel. In

    c = (a − m) / s^λ,      a = m + s^λ c,

it is wider, and for λ = 1, where c has the prior normal(0, 1), there is none. This is a change of
variables, and no other model:

    normal(a | m, s) |∂a/∂c| = s^-λ normal(c | 0, s^(1 − λ)) s^λ = normal(c | 0, s^(1 − λ)),

and likewise for other families of location and scale, for matrices and arrays, in the loops in
which the program gives them a prior. Correlated effects a ~ multi_normal(m, D Ω D), with D a
diagonal matrix of scales, are a = m + D^λ c with c ~ multi_normal(0, D^(1 − λ) Ω D^(1 − λ)).

Means and scales may be computed from data and from other parameters, moved ones too: effects of
schools lie around those of their districts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from stancoreset.stan.shifts import Shifted, where_asked
from stancoreset.stan.syntax import (
    Names,
    bare,
    constants,
    name_of,
    names_in,
    single,
    substituted,
    unchained,
    values_in,
)
from stancoreset.stan.syntax import nodes as n

# Priors whose last arguments are location and scale, and those with a covariance and its factor.
_FAMILIES = ("normal", "student_t", "cauchy", "double_exponential", "logistic")
_CORRELATED = {
    "multi_normal": "quad_form_diag",
    "multi_student_t": "quad_form_diag",
    "multi_normal_cholesky": "diag_pre_multiply",
}
# Functions that are positive where their arguments are.
_POSITIVE = ("sqrt", "square", "inv", "inv_sqrt", "inv_square", "pow", "rep_vector", "to_vector")


@dataclass(frozen=True)
class Located:
    """Effects with a location and a scale."""

    name: str  # the parameter a
    loops: tuple[n.For, ...]  # in which effects have their prior, from the outermost
    effects: n.Expr  # a, or the part of it that a prior within these loops is about
    # The location m and the scale s of this part.
    mean: n.Expr
    scale: n.Expr
    prior: n.Node  # where it stands in the program
    density: n.Call  # the same prior as a function

    def exponents(self, _: Mapping[str, object]) -> tuple[float, ...]:
        """Exponents λ of the scale that NUTS may choose from."""
        return (0.0, 0.5, 1.0)

    @property
    def shifted(self) -> Shifted | None:
        """A `Shifted` for effects that are one vector; None for all others."""
        kind = _variable(self.effects).type
        one = not kind.array and kind.base in ("vector", "row_vector")
        return Shifted(self.name, (), kind.base) if one else None

    @property
    def needs(self) -> set[str]:
        """Names in the expressions of the effects' mean and scale."""
        return names_in(self.mean) | names_in(self.scale)

    def back(self, exponent: n.Expr) -> n.Stmt:
        """Statement that computes a from c, which has a's name."""
        moved = n.Binary(self._mean, "+", self._scaled(self.effects, "*", exponent))
        return self._in_loops(exponent, n.Assign(self.effects, "=", moved))

    def there(self, exponent: n.Expr, c: str) -> n.Stmt:
        """Statement that computes c from a, under the name `c`."""
        here = self._named(self.effects, c)
        moved = self._scaled(n.Paren(n.Binary(here, "-", self._mean)), "/", exponent)
        return self._in_loops(exponent, n.Assign(here, "=", moved))

    def moved_prior(self, exponent: n.Expr, c: str) -> n.Node:
        """The prior of a, and where it is moved that of c."""
        a, *others, _, spread = self.density.args
        left = n.Binary(n.ONE, "-", exponent)
        centre: n.Expr = n.ZERO
        match bare(spread):
            case n.Call(name=name, args=(one, other)) if name in _CORRELATED.values():
                scale = one if name == "diag_pre_multiply" else other
                power = n.call("pow", scale, left)
                spread = n.Call(name, (power, other) if scale is one else (one, power))
                size = n.call("num_elements", scale)
                centre = n.call("rep_vector", n.ZERO, size)
            case _:
                spread = n.call("pow", spread, left)
        moved = n.Call(self.density.name, (self._named(a, c), *others, centre, spread))
        either = n.Paren(n.Ternary(n.Binary(exponent, ">", n.ZERO), moved, self.density))
        return n.TargetAdd(either) if isinstance(self.prior, n.Tilde) else either

    def _named(self, e: n.Expr, c: str) -> n.Expr:
        return substituted(e, {self.name: n.Var(c, type=_variable(self.effects).type)})

    @property
    def _mean(self) -> n.Expr:
        """m as a row where effects are one."""
        kinds = {self.effects.type.base, self.mean.type.base}
        return n.Transpose(self.mean) if kinds == {"vector", "row_vector"} else self.mean

    def _scaled(self, e: n.Expr, op: str, exponent: n.Expr) -> n.Expr:
        """Effects times or by s^λ."""
        power: n.Expr = n.call("pow", self.scale, exponent)
        if {self.effects.type.base, self.scale.type.base} == {"vector", "row_vector"}:
            power = n.Transpose(power)
        return n.Binary(e, f".{op}" if self.scale.type.rank else op, power)

    def _in_loops(self, exponent: n.Expr, s: n.Stmt) -> n.Stmt:
        for around in reversed(self.loops):
            s = replace(around, body=n.Block((s,)))
        return where_asked(exponent, s)


def located(program: n.Program, moved: set[str]) -> tuple[Located, ...]:
    """The effects of a program, other than `moved` ones, in an order in which a is computed.

    >>> from stancoreset.stan.syntax import parse
    >>> code = '''
    ... data { int J; vector[J] u; }
    ... parameters { vector[J] a; vector[2] g; real<lower=0> s; }
    ... model { for (j in 1:J) a[j] ~ normal(g[1] + g[2] * u[j], s); }'''
    >>> [one.name for one in located(parse(code), set())]
    ['a']
    """
    search = _Search(program, moved)
    found: dict[str, Located] = {}
    for one in search.statements(program.model, ()):
        found.setdefault(one.name, one)
    nodes = [*n.walk(program.model)]
    found = {name: one for name, one in found.items() if nodes.count(one.prior) == 1}
    order: list[Located] = []
    while True:
        done = {one.name for one in order}
        waiting = (one for one in found.values() if one.name not in done)
        ready = [one for one in waiting if not (one.needs & found.keys()) - done]
        if not ready:
            return tuple(order)
        order += ready


class _Search:
    """The priors of a program that have a location and a scale."""

    def __init__(self, program: n.Program, moved: set[str]) -> None:
        self.names = Names(program)
        kept = constants((*program.transformed_parameters, *program.model))
        self.defined = {name: decl.value for name, decl in kept.items()}
        self.parameters = {d.name: d for d in program.parameters}
        self.data = {d.name for d in program.known}
        self.free = {
            name
            for name, d in self.parameters.items()
            if d.constraint.kind == "none" and name not in moved
        }

    def statements(self, body: Iterable[n.Stmt], loops: tuple[n.For, ...]) -> Iterator[Located]:
        for s in body:
            match s:
                case n.Block() | n.Profile():
                    yield from self.statements(s.body, loops)
                case n.For() if not any(n.find_all(s.body, n.Break, n.Continue)):
                    yield from self.statements((s.body,), (*loops, s))
                case n.Tilde(arg=a, distribution=name, args=args, truncated=False):
                    density = n.Call(f"{name}_lupdf", (a, *args))
                    yield from self.prior(s, density, loops)
                case n.TargetAdd(value=value):
                    for density in _terms(value):
                        yield from self.prior(density, density, loops)

    def prior(self, node: n.Node, density: n.Call, loops: tuple[n.For, ...]) -> Iterator[Located]:
        """Yield the effects that a prior of a known form gives a location and a scale."""
        family = density.name.removesuffix("_lpdf").removesuffix("_lupdf")
        if len(density.args) < 3 or family not in (*_FAMILIES, *_CORRELATED):
            return
        a, *_, mean, spread = density.args
        mean, spread = self.inlined(bare(mean)), self.inlined(bare(spread))
        scale: n.Expr | None = spread
        if family in _CORRELATED:
            density = replace(density, args=(*density.args[:-1], spread))
            scale = _diagonal(spread, _CORRELATED[family])
        part = self.part(bare(a), loops)
        if part is None or scale is None:
            return
        loops, effects = part
        if effects.type.array:  # of vectors, or of numbers: element by element
            i = n.integer(self.names.fresh("i"))
            size = n.call("size", effects, kind=n.INT)
            loops, effects = (*loops, n.loop(i.name, size)), unchained(n.entry(effects, i))
            # One that all share is unchanged.
            rank = effects.type.rank
            mean, scale = (n.entry(e, i) if e.type.rank > rank else e for e in (mean, scale))
        one = Located(_variable(effects).name, loops, effects, mean, scale, node, density)
        if self.fits(one):
            yield one

    def inlined(self, e: n.Expr) -> n.Expr:
        """An expression with the definitions of what is computed from parameters."""
        names = names_in(e) & self.defined.keys()
        used = {k: n.Paren(v, type=v.type) for k in names if (v := self.defined[k]) is not None}
        return self.inlined(bare(substituted(e, used))) if used else e

    def part(self, a: n.Expr, loops: tuple[n.For, ...]) -> tuple[tuple[n.For, ...], n.Expr] | None:
        """The part of a parameter that a prior is about, every one once; None if it may not be."""
        match a:
            case n.Call(name="to_vector", args=(inner,)):
                a = bare(inner)
            case n.Call(name="col", args=(whole, k)):
                a = n.Index(whole, (n.All(), n.Single(k)), type=n.VECTOR)
            case n.Call(name="row", args=(whole, j)):
                a = n.Index(whole, (n.Single(j),), type=whole.type.element())
        picked = [single(i) for i in a.indices if i != n.All()] if isinstance(a, n.Index) else []
        whole = a.base if isinstance(a, n.Index) else a
        if not isinstance(whole, n.Var) or whole.name not in self.free:
            return None
        return (loops, a) if sorted(map(name_of, picked)) == sorted(s.name for s in loops) else None

    def fits(self, one: Located) -> bool:
        """Whether c may be computed from a, and a from c."""
        own = {s.name for s in one.loops}
        bounds = set().union(*(values_in(s.upper) | values_in(s.lower) for s in one.loops))
        known = self.data | own | self.parameters.keys()
        if one.needs - known or one.name in one.needs or bounds - self.data - own:
            return False
        # A scale that is known makes no funnel; one that may be negative is refused by the prior.
        if not names_in(one.scale) & self.parameters.keys() or not self.is_positive(one.scale):
            return False
        kind, shapes = one.effects.type, [e.type for e in (one.mean, one.scale)]
        calls = (x.name for e in (one.mean, one.scale) for x in n.find_all(e, n.Call))
        if kind.array or any(t.array for t in shapes) or any(c.endswith("_lp") for c in calls):
            return False
        if kind.base in ("vector", "row_vector"):
            return all(t.base != "matrix" for t in shapes)
        return not any(t.rank for t in shapes)

    def is_positive(self, e: n.Expr) -> bool:
        """Whether an expression is known to be positive, if the data in it are."""
        match e:
            case n.Call(name="exp"):
                return True
            case n.Var(name=name) if name in self.parameters:
                constraint = self.parameters[name].constraint
                lower = constraint.lower
                bounded = isinstance(lower, n.IntLit | n.RealLit) and float(lower.text) >= 0
                return bounded or constraint.kind in ("simplex", "positive_ordered")
            case n.Var() | n.IntLit() | n.RealLit():
                return True
            case n.Index(base=inner) | n.Paren(arg=inner) | n.Transpose(arg=inner):
                return self.is_positive(inner)
            case n.Binary(op=op, left=one, right=other):
                return op not in ("-", ".-") and self.is_positive(one) and self.is_positive(other)
            case n.Call(name=name, args=args) if name in _POSITIVE:
                return all(map(self.is_positive, args))
        return False


def _terms(e: n.Expr) -> Iterator[n.Call]:
    """The function calls of a sum."""
    match e:
        case n.Paren(arg=arg):
            yield from _terms(arg)
        case n.Binary(left=left, op="+", right=right):
            yield from _terms(left)
            yield from _terms(right)
        case n.Call():
            yield e


def _diagonal(spread: n.Expr, function: str) -> n.Expr | None:
    """The scales of a covariance, or of its Cholesky factor, in one of Stan's functions."""
    match spread:
        case n.Call(name=name, args=(one, other)) if name == function:
            scale = bare(other if name == "quad_form_diag" else one)
            return scale if scale.type.rank == 1 and not scale.type.array else None
    return None


def _variable(e: n.Expr) -> n.Var:
    """The variable of ``a`` or ``a[i]``."""
    e = e.base if isinstance(e, n.Index) else e
    assert isinstance(e, n.Var)
    return e
