"""Loops over rows as statements about all rows at once, for engines that interpret a program.

    for (i in 1:N) {                     vector[N] lp = rep_vector(0, N);
      real lp = 0;                       for (j in 1:J) {
      for (j in 1:J)              →        lp += seen[j] .* log_inv_logit(a + b * x_of[j]);
        if (y[i, j] > 0)                 }
          lp += log_inv_logit(           target += dot_product(w, lp);
                  a + b * x[i, j]);
      target += w[i] * lp;
    }

What depends on data alone is computed once, row by row, in transformed data, where the author's
loops and branches stand as they did: it fills containers with an entry for each row. What
depends on parameters is computed for all rows at once. A branch that the data choose becomes a
product with 0 or 1; only functions that are finite for all finite arguments may stand in it. A
loop that cannot be written so stays as it is.

An engine that interprets programs keeps a few numbers for each row in place of a piece of program:
30,000 sites of six visits take 0.2 GB in place of 1 GB, and gradients a fifth of the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from stancoreset.errors import StancoresetError
from stancoreset.stan.syntax import Names, bare, body_of, declarations, names_in, parse, printer
from stancoreset.stan.syntax import expression as text
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.closed import closed_form
from stancoreset.stan.weave.draft import DoesNotApplyError, need
from stancoreset.stan.weave.elements import DOTTED, as_vector, by_entry, upright
from stancoreset.stan.weave.library import UNARY, suffix

# Functions that are finite for all finite arguments, but for overflow, and for poles of lgamma
# that no density meets.
_TOTAL = (
    "abs atan cos erf erfc exp expm1 fabs inv_cloglog inv_logit lgamma log1m_inv_logit log1p_exp "
    "log_inv_logit log_sum_exp Phi sin square tanh"
)
_FINITE = frozenset(_TOTAL.split())
# Functions of two arguments in closed forms of densities.
_PAIRS = frozenset(("lbeta", "lchoose", "lmultiply"))
_ELEMENTWISE = UNARY - {"step", "to_int", "minus_abs"}
_SCALARS = (n.REAL, n.INT)


def with_whole_loops(code: str, obs: str) -> str:
    """The program with statements about all rows in place of loops over ``1:obs``.

    Loops of the model and of generated quantities are searched; the program is returned as it is if
    none can be written so.

    >>> code = (
    ...     "data { int N; vector[N] x; array[N] int y; } parameters { real a; } "
    ...     "model { for (i in 1:N) { if (y[i] > 0) target += log_inv_logit(a * x[i]); } }"
    ... )
    >>> print(with_whole_loops(code, "N").partition("transformed data")[2])
     {
      vector[N] chosen = rep_vector(0, N);
      for (i in 1 : N) {
        if (y[i] > 0) {
          chosen[i] = 1;
        }
      }
    }
    parameters {
      real a;
    }
    model {
      {
        target += dot_product(chosen, log_inv_logit(a * x));
      }
    }
    <BLANKLINE>
    """
    try:
        program = parse(code)
    except StancoresetError:  # which the engine says of the text as it is
        return code
    names, before, written = Names(program), list[n.Stmt](), list[n.Block]()
    names.used |= {d.name for d in declarations(program.generated_quantities)}

    def changed(node: n.Node) -> n.Node | None:
        if not isinstance(node, n.For) or not _is_over(node, obs):
            return None
        try:
            found = _Loop(program, node, names)
            whole = n.Block(tuple(found.whole(body_of(node.body))))
        except DoesNotApplyError:
            return node
        before.extend(found.transformed_data())
        written.append(whole)
        return whole

    model = n.transform(n.Block(program.model), changed)
    quantities = n.transform(n.Block(program.generated_quantities), changed)
    if not written:
        return code
    return printer.program(
        replace(
            program,
            transformed_data=(*program.transformed_data, *before),
            model=model.body,
            generated_quantities=quantities.body,
        )
    )


def _is_over(s: n.For, obs: str) -> bool:
    upper = bare(s.upper)
    return text(bare(s.lower)) == "1" and isinstance(upper, n.Var) and upper.name == obs


@dataclass(frozen=True)
class _Place:
    """Where a statement stands: in which loops within the row's, and in which branch."""

    loops: tuple[n.For, ...] = ()
    chosen: n.Expr | None = None  # 1 for rows whose data choose the branch, else 0


@dataclass
class _Loop:
    """A loop over rows, taken apart into what data determine and what parameters do."""

    program: n.Program
    loop: n.For
    names: Names
    containers: list[n.Decl] = field(default_factory=list)
    by_row: list[n.Stmt] = field(default_factory=list)  # of transformed data, filled in order
    held: dict[tuple[str, _Place], n.Expr] = field(default_factory=dict)

    def __post_init__(self) -> None:
        body = self.loop.body
        self.count = bare(self.loop.upper)
        self.own = {d.name: d for d in declarations((body,))}
        loops = {s.name for s in n.find_all(body, n.For)}
        outside = {d.name for d in self.program.known}
        # A name that means several things is not worth telling apart.
        seen = [d.name for d in declarations((body,))] + [*loops, self.loop.name]
        need(len({*seen}) == len(seen) and not {*seen} & outside)
        self.outside = outside
        self.known = outside | {self.loop.name} | loops | self._known_locals(loops)
        everywhere = [
            *(*self.program.known, *self.program.parameters),
            *declarations(self.program.transformed_parameters, self.program.model),
            *declarations(self.program.generated_quantities),
        ]
        self.sizes = {d.name: {x.size for x in everywhere if x.name == d.name} for d in everywhere}

    def _known_locals(self, loops: set[str]) -> set[str]:
        """Variables of the body that data determine."""
        known = {*self.own}
        given = self.outside | {self.loop.name} | loops

        def unknown(e: n.Nodes) -> bool:
            return not _is_computed(e) or not names_in(e) <= given | known

        def visit(s: n.Stmt, inside: bool) -> set[str]:
            match s:
                case n.Decl(name=name, value=value):
                    return {name} if inside or (value is not None and unknown(value)) else set()
                case n.Assign(target=target, value=value):
                    name = text(bare(target)).partition("[")[0]
                    return {name} if inside or unknown(value) or unknown(target) else set()
                case n.If(condition=condition):
                    inside = inside or unknown(condition)
                case n.For(lower=lower, upper=upper):
                    inside = inside or unknown(lower) or unknown(upper)
            return set().union(*(visit(x, inside) for x in n.parts(s)))

        while lost := known & visit(self.loop.body, False):
            known -= lost
        return known

    def transformed_data(self) -> list[n.Stmt]:
        """What data determine: containers, and the loop that fills them."""
        if not self.containers:
            return []
        return [*self.containers, replace(self.loop, body=n.Block(tuple(self.by_row)))]

    # ---- statements ---------------------------------------------------------------------

    def whole(self, body: Sequence[n.Stmt], place: _Place = _Place()) -> list[n.Stmt]:
        """Statements about all rows; what data determine goes to `by_row`."""
        return [new for s in body for new in self.statement(s, place)]

    def statement(self, s: n.Stmt, place: _Place) -> list[n.Stmt]:
        match s:
            case n.Block(body=body):
                return self.whole(body, place)
            case n.Decl(name=name) if name in self.known:
                self.by_row.append(s)
                return []
            case n.Decl(value=value, constraint=constraint):
                need(s.type == n.REAL and constraint.kind == "none")
                e = n.ZERO if value is None else self.entry(value, place)
                e = e if e.type.rank else n.call("rep_vector", e, self.count, kind=n.VECTOR)
                return [replace(s, size=n.SizedType("vector", sizes=(self.count,)), value=e)]
            case n.Assign():
                return self.assignment(s, place)
            case n.TargetAdd(value=value):
                return [replace(s, value=self.total(self.entry(value, place), place))]
            case n.If():
                return self.branches(s, place)
            case n.For():
                return self.inner_loop(s, place)
            case n.Skip():
                return []
        raise DoesNotApplyError

    def assignment(self, s: n.Assign, place: _Place) -> list[n.Stmt]:
        target = bare(s.target)
        name = text(target).partition("[")[0]
        if name in self.known:
            self.by_row.append(s)
            return []
        if not isinstance(target, n.Var) or target.type != n.REAL:
            raise DoesNotApplyError
        if name not in self.own:  # a sum over rows, unless a row reads it
            read = [v for v in n.find_all(self.loop, n.Var) if v.name == name]
            written = [a for a in n.find_all(self.loop, n.Assign) if text(bare(a.target)) == name]
            need(s.op == "+=" and len(read) <= len(written))
            return [replace(s, value=self.total(self.entry(s.value, place), place))]
        e, v = self.entry(s.value, place), n.Var(name, type=n.VECTOR)
        need(s.op in ("=", "+=", "-="))
        if place.chosen is not None:
            e = _times(place.chosen, e)
            if s.op == "=":
                others = by_entry(n.ONE, "-", place.chosen)
                e = by_entry(e, "+", _times(others, v))
        elif s.op == "=" and not e.type.rank:
            e = n.call("rep_vector", e, self.count, kind=n.VECTOR)
        return [replace(s, target=v, value=e)]

    def total(self, e: n.Expr, place: _Place) -> n.Expr:
        """The sum over all rows that choose a branch."""
        if place.chosen is None:
            return n.call("sum", e) if e.type.rank else n.times(self.count, e)
        if not e.type.rank:
            return n.times(n.call("sum", place.chosen), e)
        return n.call("dot_product", place.chosen, e)

    def branches(self, s: n.If, place: _Place) -> list[n.Stmt]:
        need(self.is_known(s.condition))
        found: list[n.Stmt] = []
        rows: list[n.Block | None] = []
        for branch in (s.yes, s.no):
            if branch is None:
                rows.append(None)
                continue
            kept, self.by_row = self.by_row, []
            chosen = self.recorded(n.ONE, place, "chosen")
            new = self.whole(body_of(branch), replace(place, chosen=chosen))
            mine, self.by_row = self.by_row, kept
            if not new:  # nothing that needs to know which rows are there
                self.containers.pop(self._place_of(chosen))
                del mine[0]
            found += new
            rows.append(n.Block(tuple(mine)))
        yes, no = rows
        if any(branch is not None and branch.body for branch in rows):
            no = no if no is None or no.body else None
            self.by_row.append(replace(s, yes=yes or n.Block(()), no=no))
        return [n.Block(tuple(found))] if any(isinstance(x, n.Decl) for x in found) else found

    def _place_of(self, e: n.Expr) -> int:
        name = text(e).partition("[")[0]
        return next(k for k, d in enumerate(self.containers) if d.name == name)

    def inner_loop(self, s: n.For, place: _Place) -> list[n.Stmt]:
        """A loop of each row, as many times for all rows."""
        need(text(bare(s.lower)) == "1" and names_in(s.upper) <= self.outside)
        need(_is_computed(s.upper) and s.name not in self.program.integers)
        kept, self.by_row = self.by_row, []
        new = self.whole(body_of(s.body), replace(place, loops=(*place.loops, s)))
        mine, self.by_row = self.by_row, kept
        if mine:
            self.by_row.append(replace(s, body=n.Block(tuple(mine))))
        return [replace(s, body=n.Block(tuple(new)))] if new else []

    # ---- expressions --------------------------------------------------------------------

    def is_known(self, e: n.Nodes) -> bool:
        return _is_computed(e) and names_in(e) <= self.known

    def is_shared(self, e: n.Expr) -> bool:
        """Whether all rows have the same value."""
        return self.loop.name not in names_in(e) and not names_in(e) & self.own.keys()

    def recorded(self, e: n.Expr, place: _Place, stem: str, other: n.Expr = n.ZERO) -> n.Expr:
        """A container with the value of `e` for each row, and `other` where a row has none."""
        whole = stem == "index"
        v = self.names.fresh(stem)
        size = tuple(s.upper for s in place.loops)
        at = tuple(n.Single(n.integer(s.name)) for s in place.loops)
        row = n.Single(n.integer(self.loop.name))
        if whole:
            kind = n.SizedType("int", array=(*size, self.count))
            filled = n.call(
                "rep_array", other, *size, self.count, kind=n.Type("int", len(size) + 1)
            )
            container: n.Expr = n.Var(v, type=n.Type("int", len(size) + 1))
            entry = n.INTS
        else:
            kind = n.SizedType("vector", array=size, sizes=(self.count,))
            filled = n.call("rep_vector", other, self.count, kind=n.VECTOR)
            if size:
                filled = n.call("rep_array", filled, *size, kind=n.Type("vector", len(size)))
            container = n.Var(v, type=n.Type("vector", len(size)))
            entry = n.VECTOR
        self.containers.append(n.Decl(v, kind, value=filled))
        element = n.Index(container, (*at, row), type=e.type if whole else n.REAL)
        self.by_row.append(n.Assign(element, "=", e))
        return n.Index(container, at, type=entry) if at else container

    def entry(self, e: n.Expr, place: _Place) -> n.Expr:
        """The vector of all rows of a scalar; what all rows share stays a scalar."""
        need(e.type in _SCALARS and _is_computed(e))
        if self.is_known(e) and not self.is_shared(e):
            return self.column(e, place)
        if self.is_shared(e):
            need(place.chosen is None or not _may_fail(e))
            return e
        match e:
            case n.Paren(arg=arg):
                inner = self.entry(arg, place)
                return n.Paren(inner, type=inner.type)
            case n.Var(name=name) if name in self.own:
                return n.Var(name, type=n.VECTOR)
            case n.Unary(op="-", arg=arg):
                return n.Unary("-", self.entry(arg, place), type=n.VECTOR)
            case n.Binary():
                return self.binary(e, place)
            case n.Call(user=False):
                return self.call(e, place)
            case n.Index():
                return self.element(e, place)
        raise DoesNotApplyError

    def column(self, e: n.Expr, place: _Place) -> n.Expr:
        """The vector of what data determine: v of ``v[i]`` itself, or a new one."""
        match bare(e):
            case n.Index(base=n.Var() as v, indices=(n.Single(index),)) if self.is_row(index):
                if v.type == n.VECTOR and self.has_rows(v.name):
                    return v
        if names_in(e) & self.own.keys():  # which change from statement to statement
            return self.recorded(e, place, _stem(e))
        key = text(bare(e)), place
        if key not in self.held:
            self.held[key] = self.recorded(e, place, _stem(e))
        return self.held[key]

    def is_row(self, e: n.Expr) -> bool:
        e = bare(e)
        return isinstance(e, n.Var) and e.name == self.loop.name

    def has_rows(self, name: str) -> bool:
        """Whether a container outside the loop has an entry for each row."""
        first = {text(size.dims[0]) for size in self.sizes.get(name, ()) if size.dims}
        return first == {text(self.count)}

    def binary(self, e: n.Binary, place: _Place) -> n.Expr:
        if e.op == "*" and e.left.type.rank and e.right.type.rank:
            return self.product(e.left, e.right)
        need(e.op in ("+", "-", *DOTTED))
        if place.chosen is not None and (
            e.op == "^" or (e.op == "/" and not self.is_shared(e.right))
        ):
            raise DoesNotApplyError
        return by_entry(self.entry(e.left, place), e.op, self.entry(e.right, place))

    def call(self, e: n.Call, place: _Place) -> n.Expr:
        name, kind = suffix(e.name)
        if kind in ("_lpdf", "_lpmf"):
            return self.density(name, e.args, place)
        need(place.chosen is None or e.name in _FINITE)
        match e:
            case n.Call(name="dot_product", args=(a, b)):
                return self.product(a, b)
            case n.Call(name="log_sum_exp", args=(a, b)):
                pair = self.entry(a, place), self.entry(b, place)
                whole = (x if x.type.rank else _repeated(x, self.count) for x in pair)
                return n.call("log_sum_exp", *whole, kind=n.VECTOR)
            case n.Call(name="log_mix", args=(p, a, b)) if self.is_shared(p):
                logs = n.call("log", p), n.call("log1m", p)
                pair = self.entry(a, place), self.entry(b, place)
                added = (
                    by_entry(x, "+", y if y.type.rank else _repeated(y, self.count))
                    for x, y in zip(logs, pair, strict=True)
                )
                return n.call("log_sum_exp", *added, kind=n.VECTOR)
            case n.Call(name=name, args=(a, b)) if name in _PAIRS:
                pair = self.entry(a, place), self.entry(b, place)
                return n.call(name, *pair, kind=n.VECTOR)
            case n.Call(name=name, args=(arg,)) if name in _ELEMENTWISE and not arg.type.rank:
                return n.call(name, self.entry(arg, place), kind=n.VECTOR)
        raise DoesNotApplyError

    def density(self, name: str, args: tuple[n.Expr, ...], place: _Place) -> n.Expr:
        """The log densities of all rows, term by term: those of data alone are known."""
        need(all(a.type in _SCALARS for a in args))
        found: n.Expr | None = None
        for part in closed_form(name, args):
            e = part.value if part.data is None else n.times(part.data, part.value)
            if part.factor != "1":
                factor = n.literal(part.factor) if isinstance(part.factor, str) else part.factor
                e = n.Unary("-", e, type=e.type) if part.factor == "-1" else n.times(factor, e)
            term = self.entry(e, place)
            found = term if found is None else by_entry(found, "+", term)
        if found is None:
            raise DoesNotApplyError
        return found

    def product(self, a: n.Expr, b: n.Expr) -> n.Expr:
        """``X[i] * b`` → ``X * b``"""
        a, b = upright(a), upright(b)
        if self.is_shared(a):
            a, b = b, a
        match a:
            case n.Index(base=n.Var(type=n.MATRIX) as x, indices=(n.Single(row), *rest)):
                whole = all(isinstance(i, n.All) for i in rest)
                ours = self.is_row(row) and self.has_rows(x.name) and x.name in self.outside
                if whole and ours and b.type == n.VECTOR and self.is_shared(b):
                    return n.Binary(x, "*", b, type=n.VECTOR)
        raise DoesNotApplyError

    def element(self, e: n.Index, place: _Place) -> n.Expr:
        """``b[g[i]]`` → ``b[g]``, of a container outside the loop that it does not change."""
        base, indices = e.base, e.indices
        if not isinstance(base, n.Var) or base.name in self.own or base.type.rank != 1:
            raise DoesNotApplyError
        if len(indices) != 1 or not isinstance(indices[0], n.Single):
            raise DoesNotApplyError
        index = indices[0].index
        if index.type != n.INT or not self.is_known(index):
            raise DoesNotApplyError
        if self.is_row(index) and self.has_rows(base.name):
            return as_vector(base)
        gathered = n.Index(base, (n.Single(self.numbers(index, place)),), type=base.type)
        return as_vector(gathered)

    def numbers(self, index: n.Expr, place: _Place) -> n.Expr:
        """The array of all rows' numbers of an element."""
        match bare(index):
            case n.Index(base=n.Var(type=n.INTS) as v, indices=(n.Single(row),)):
                if place.chosen is None and self.is_row(row) and self.has_rows(v.name):
                    return v
        return self.recorded(index, place, "index", n.ONE)


def _is_computed(where: n.Nodes) -> bool:
    """Whether an expression may stand in transformed data: it is no draw and reads no density."""
    return not any(
        isinstance(x, n.Target) or (isinstance(x, n.Call) and x.name.endswith(("_lp", "_rng")))
        for x in n.walk(where)
    )


def _may_fail(e: n.Expr) -> bool:
    """Whether an element may not exist where no row needs it."""
    indices = (i for x in n.find_all(e, n.Index) for i in x.indices)
    return any(not isinstance(bare(i.index), n.IntLit) for i in indices if isinstance(i, n.Single))


def _stem(e: n.Expr) -> str:
    """A name for the values of an expression."""
    e = bare(e)
    first = text(e).partition("[")[0]
    return f"{first}_of" if first.isidentifier() else "known"


def _repeated(e: n.Expr, count: n.Expr) -> n.Expr:
    return n.call("rep_vector", e, count, kind=n.VECTOR)


def _times(a: n.Expr, b: n.Expr) -> n.Expr:
    return by_entry(a, "*", b)
