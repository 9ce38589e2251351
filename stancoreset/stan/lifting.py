"""Products of parameters behind the cut, and sums with them, as variables that the rows can see.

A program by hand often computes a group effect where a row needs it: the rows of

    y[n] ~ normal(mu + tau * z[g[n]], sigma)

see `tau` and `z` by their product alone, and pick from it by an index. `Lifting` makes it a
variable, ``vector[J] tau_z`` with ``tau_z[j] = tau * z[j]``, of which the rows read
``tau_z[g[n]]``: they then see what they would if the author had declared the effects.

A product takes the place of one of its factors, the anchor: a variable with all indices by which
rows and loops enter the product, and with the shape of its elements. So ψ never grows by lifting;
``a[g[n]] * b[h[n]]`` would be a matrix, and stays. The product is linear in its anchor, whose
elements may be any real numbers: so may those of the product, and they need no transform. A
product of positive factors stays; in their coordinates, which are logarithms, it is a sum.

A function such as `exp` bends what it is given, but has no ridge of its own: where its argument is
a sum with such products, free of row data, the sum takes the anchor's place as a whole. Of
``exp(m + s * z[g[n]])`` the rows see ``m_s_z[j] = m + s * z[j]``, and neither `m` nor ``s * z``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from itertools import accumulate
from operator import or_

from stancoreset.stan.syntax import (
    Names,
    assigned_names,
    bare,
    counted_to,
    name_of,
    names_in,
    outside_indices,
    picks_one,
    rewritten,
    single,
    sizes_of,
    unchained,
)
from stancoreset.stan.syntax import expression as text
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave import UNARY, DoesNotApplyError, entry_of

# Functions of entries: finite at every number, and at every positive number.
_FINITE = {
    "exp", "expm1", "inv_logit", "tanh", "square", "abs", "fabs", "sin", "cos", "atan",
    "erf", "Phi", "Phi_approx", "log1p_exp", "to_vector", "to_row_vector",
}  # fmt: skip
_FINITE_ABOVE_ZERO = {"sqrt", "log", "inv", "inv_sqrt", "inv_square"}
_ABOVE_ZERO = {
    "exp", "square", "inv_logit", "Phi", "log1p_exp", "sqrt", "inv", "inv_sqrt", "inv_square",
}  # fmt: skip
# Functions of whole containers, and the argument whose shape their value has.
_SHAPED = {"diag_pre_multiply": 1, "diag_post_multiply": 0, "cumulative_sum": 0, "softmax": 0}
_PRODUCTS = ("*", ".*", "/", "./")
_SUMS = ("+", "-")
_POWERS = ("^", ".^")
_OPERATORS = (*_PRODUCTS, *_SUMS, *_POWERS)
# Functions that bend their first argument: its sums are what they see.
_BENDING = UNARY | {"pow", "softmax"}


@dataclass(frozen=True)
class Lift:
    """One product, or a sum with products, as a variable."""

    decl: n.Decl
    element: n.Expr  # the value at the indices of `loops`; the whole variable if there are none
    loops: tuple[tuple[str, n.Expr], ...]  # index variables and their largest values
    anchor: str  # the factor, or the variable in a sum, whose place it takes
    part: tuple[str, ...]  # which part of the anchor: one expression an index, ``""`` for all
    key: str  # what tells it from other lifts: an entry, the sizes, and the anchor

    @property
    def name(self) -> str:
        """The variable's name."""
        return self.decl.name

    @property
    def is_sum(self) -> bool:
        """Whether it is an argument that is a sum."""
        e = bare(self.element)
        return isinstance(e, n.Binary) and e.op in _SUMS

    @property
    def statements(self) -> tuple[n.Stmt, ...]:
        """The declaration, and what computes the value."""
        if not self.loops:
            return (replace(self.decl, value=self.element),)
        indices = tuple(n.Single(n.Var(name)) for name, _ in self.loops)
        out: n.Stmt = n.Assign(n.Index(n.Var(self.name), indices), "=", self.element)
        for name, size in reversed(self.loops):
            out = n.loop(name, size, out)
        return (self.decl, out)

    def overlaps(self, other: Lift) -> bool:
        """Whether another lift takes the place of the same elements."""
        if self.anchor != other.anchor or self.name == other.name:
            return False
        pairs = zip(self.part, other.part, strict=False)
        return not any(a != b and a.isdigit() and b.isdigit() for a, b in pairs)

    def __str__(self) -> str:
        indices = ", ".join(name for name, _ in self.loops)
        return f"{self.name}{f'[{indices}]' if indices else ''} = {text(self.element)}"


# An index, and its largest value.
_Pick = tuple[n.Expr, n.Expr]
# A factor of a product, and whether it divides.
_Factor = tuple[n.Expr, bool]


@dataclass(frozen=True)
class _Chain:
    """A variable with its indices."""

    name: str
    part: tuple[str, ...]
    picks: tuple[_Pick, ...]  # the indices of rows and loops
    shape: tuple[n.Expr, ...]  # sizes of the dimensions without an index
    many: bool  # whether the last of `picks` is an array of indices


@dataclass(frozen=True)
class _Place:
    """The place of an expression."""

    outer: frozenset[str]  # variables of the loops around it
    changing: frozenset[str]  # variables with other values there than at the end
    certain: bool = True  # whether it is computed for sure, if the sizes `ends` are not zero
    ends: frozenset[str] = frozenset()
    bent: bool = False  # whether it is in a function that bends its argument

    def within(self, *names: str, certain: bool = False, end: str = "") -> _Place:
        """A place in a loop with these variables, or in a condition."""
        outer, certain = self.outer | set(names), self.certain and certain
        ends = self.ends | {end} if end else self.ends
        return replace(self, outer=outer, certain=certain, ends=ends)


@dataclass(frozen=True)
class Lifting:
    """The search for products of parameters, and arguments with them, behind the cut."""

    names: Names  # those in use
    # Names behind the cut: row data, what is computed from them, and what is no coordinate.
    rows: set[str]
    front: Mapping[str, n.Decl]  # variables that depend on parameters and on no row
    data: Mapping[str, n.Decl]  # data without rows
    counts: set[str]  # numbers of rows: a loop that ends there runs at least once
    anchors: set[str]  # those of `front` whose elements may be any real numbers
    refused: Mapping[str, str] = field(default_factory=dict)  # what is not to be lifted, and why
    # The lifts so far, by what they compute and the anchor.
    found: dict[str, Lift] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)  # products that stay, and why
    _indices: list[str] = field(default_factory=list)

    def statements(self, body: Iterable[n.Stmt]) -> tuple[n.Stmt, ...]:
        """The statements with products of parameters lifted in those behind the cut."""
        body, rows = tuple(body), frozenset(self.rows)
        changing = [*accumulate((frozenset(assigned_names(s)) for s in reversed(body)), or_)]
        pairs = zip(body, reversed(changing), strict=True)
        return tuple(self._statement(s, _Place(rows, later)) for s, later in pairs)

    def _statement(self, s: n.Stmt, place: _Place) -> n.Stmt:
        if not n.parts(s):
            named = names_in(s) | ({s.name} if isinstance(s, n.Decl) else set())
            return rewritten(s, lambda x: self._replaced(x, place)) if named & self.rows else s
        match s:
            case n.For(name=name, upper=upper):
                end = "" if name_of(upper) in self.counts else counted_to(s)
                certain = bool(end) or name_of(upper) in self.counts
                place = place.within(name, certain=certain, end=end)
            case n.ForEach(name=name):
                place = place.within(name)
            case n.While() | n.If():
                place = place.within()
        return n.with_parts(s, lambda body: [self._statement(x, place) for x in body])

    def _inside(self, e: n.Expr, place: _Place) -> n.Expr:
        """An expression with the products in it lifted."""
        return n.transform(e, lambda node: self._replaced(node, place))

    def _replaced(self, node: n.Node, place: _Place) -> n.Expr | None:
        """Lift a product or an argument into a variable; None for any other expression."""
        match node:
            case n.Ternary(yes=yes, no=no):
                yes, no = (self._inside(e, place.within()) for e in (yes, no))
                return replace(node, yes=yes, no=no)
            case n.Call(name=name, args=(arg, *others), user=False) if name in _BENDING:
                args = (self._argument(arg, place), *(self._inside(e, place) for e in others))
                return replace(node, args=args)
            case n.Binary(op=op, left=left, right=right) if op in _POWERS:
                left, right = self._argument(left, place), self._inside(right, place)
                return replace(node, left=left, right=right)
            case n.Binary(op=op) if op in _SUMS:
                return self._sum(node, place) if place.bent else None
            case n.Binary(op=op) if op in _PRODUCTS:
                return self._product(node, place)
        return None

    def _argument(self, e: n.Expr, place: _Place) -> n.Expr:
        """What a function bends, with sums in it lifted if row data enter by indices alone."""
        known = self.front.keys() | self.data.keys() | place.outer - self.rows
        return self._inside(e, replace(place, bent=outside_indices(e) <= known))

    def _sum(self, node: n.Binary, place: _Place) -> n.Expr:
        """A sum as a variable, if it has a product or the like; else with products lifted."""
        if self._is_bent(node):
            for chain in self._chains(node, place.outer):
                group, out = self._lifted([(node, False)], chain, place, [])
                if group:
                    return out
        place = replace(place, bent=False)
        left, right = (self._inside(e, place) for e in (node.left, node.right))
        return replace(node, left=left, right=right)

    def _product(self, node: n.Binary, place: _Place) -> n.Expr | None:
        """The largest part of a product as a variable; None if there is none."""
        if len(names_in(node) & self.front.keys()) < 2:
            return None
        factors = _factors(node)
        best: tuple[set[int], n.Expr] = set(), node
        why: list[str] = []
        for chain in self._chains(node, place.outer):
            group, lifted = self._lifted(factors, chain, place, why)
            if len(group) > len(best[0]):
                best = group, lifted
        group, out = best
        if not group:
            if why:
                self.left.setdefault(text(node), why[0])
            return self._regrouped(factors, place)
        for i, (factor, over) in enumerate(factors):
            if i not in group:
                out = _times(out, self._inside(factor, place), over=over)
        return out

    def _lifted(
        self, factors: list[_Factor], chain: _Chain, place: _Place, why: list[str]
    ) -> tuple[set[int], n.Expr]:
        """Which factors become a variable in a chain's place, and what reads it, or no factors."""
        index = {text(bare(e)): self._index(i) for i, (e, _) in enumerate(chain.picks)}
        many = text(bare(chain.picks[-1][0])) if chain.many else ""
        parts: dict[int, n.Expr] = {}
        for i, (factor, _) in enumerate(factors):
            entry = _entry(factor, many) if many else factor
            entry = None if entry is None else _with_indices(entry, index)
            if entry is not None and self._is_parameter(entry, place):
                parts[i] = entry
        none: tuple[set[int], n.Expr] = set(), factors[0][0]
        used = names_in(parts.values()) & self.front.keys()
        if chain.name not in used or len(used) < 2 or len(parts) < min(2, len(factors)):
            with_parameters = [f for f, _ in factors if names_in(f) & self.front.keys()]
            by_index = not any(outside_indices(f) & place.outer for f in with_parameters)
            if chain.picks and by_index and len(with_parameters) > 1:
                why.append("its factors have no index in common, or are not finite everywhere")
            return none
        if chain.name not in self.anchors or all(factors[i][1] for i in parts):
            why.append(f"{chain.name} does not have all real numbers as values")
            return none
        largest = max((factors[i][0] for i in parts), key=lambda e: e.type.rank)
        kind = n.REAL if many else largest.type
        shape = self._shape(_with_indices(largest, index)) if kind.rank else ()
        if shape is None or sorted(map(text, shape)) != sorted(map(text, chain.shape)):
            why.append("it has other dimensions than its factors")
            return none
        ordered = sorted(parts, key=lambda i: (factors[i][1], text(parts[i])))
        element = parts[ordered[0]]
        for i in ordered[1:]:
            element = _times(element, parts[i], over=factors[i][1])
        if not _is_linear(element, chain.name):
            why.append(f"it is not linear in {chain.name}")
            return none
        # Containers of equal size in rows that are read may differ in size in others.
        certain = place.certain and place.ends <= {text(size) for _, size in chain.picks}
        safe = certain or not kind.rank
        if not safe or not self._in_range(element, chain, certain):
            why.append("it may not exist for other rows")
            return none
        lift = self._lift(element, kind, shape, chain, why)
        if lift is None:
            return none
        reader: n.Expr = n.Var(lift.name, type=lift.decl.type)
        if chain.picks:
            picked = tuple(n.Single(e) for e, _ in chain.picks)
            reader = n.Index(reader, picked, type=n.VECTOR if many else kind)
        if many and any(factors[i][0].type.base == "row_vector" for i in parts):
            reader = n.Transpose(reader, type=n.ROW_VECTOR)
        return set(parts), reader

    def _lift(
        self,
        element: n.Expr,
        kind: n.Type,
        shape: tuple[n.Expr, ...],
        chain: _Chain,
        why: list[str],
    ) -> Lift | None:
        """The variable with these elements, the same one for the same elements; None if refused."""
        sizes = tuple(size for _, size in chain.picks)
        if kind.rank or not sizes:
            declared = n.SizedType(kind.base, sizes, shape)
        else:
            declared = n.SizedType("vector", sizes[:-1], sizes[-1:])
        parts = (chain.name, declared.base, *map(text, declared.dims))
        key = ", ".join((self._entries(element, sizes), *parts))
        if key in self.refused:
            why.append(self.refused[key])
            return None
        if key not in self.found:
            used = (v.name for v in n.find_all(element, n.Var) if v.name in self.front)
            stem = "_".join(dict.fromkeys(used))
            decl = n.Decl(self.names.fresh(stem), declared)
            loops = tuple((self._index(i), size) for i, size in enumerate(sizes))
            self.found[key] = Lift(decl, element, loops, chain.name, chain.part, key)
        return self.found[key]

    def _entries(self, element: n.Expr, sizes: tuple[n.Expr, ...]) -> str:
        """The text of an entry of a vector, which is the same where loops compute the entries."""

        def leaf(e: n.Expr) -> n.Expr | None:
            if isinstance(e, n.Var | n.Index) and e.type in (n.VECTOR, n.ROW_VECTOR):
                return unchained(n.entry(e, n.integer(self._index(len(sizes)))))
            return None if e.type.rank else e

        try:
            return text(entry_of(element, leaf))
        except DoesNotApplyError:
            return text(element)

    def _regrouped(self, factors: list[_Factor], place: _Place) -> n.Expr | None:
        """``(X * z) * tau`` as ``X * (z * tau)``, whose second factor may be lifted."""
        for i, (factor, over) in enumerate(factors):
            product = bare(factor)
            if over or not isinstance(product, n.Binary) or not _is_matrix_product(product):
                continue
            numbers = [
                j
                for j, (f, under) in enumerate(factors)
                if not (under or f.type.rank) and self._is_parameter(f, place)
            ]
            right = product.right
            if not numbers or self._is_free(product) or not self._is_parameter(right, place):
                continue
            for j in numbers:
                right = _times(right, factors[j][0], over=False)
            out: n.Expr = replace(product, right=right)
            for j, (other, under) in enumerate(factors):
                if j != i and j not in numbers:
                    out = _times(out, other, over=under)
            return self._inside(out, place)
        return None

    def _is_parameter(self, e: n.Expr, place: _Place) -> bool:
        """Whether a value depends on parameters and on no row, and is what it is at the end."""
        used = names_in(e)
        return bool(used & self.front.keys()) and not used & place.changing and self._is_free(e)

    def _is_bent(self, e: n.Node) -> bool:
        """Whether a value is no linear function of the parameters taken together."""
        below = [x for x in n.children(e) if names_in(x) & self.front.keys()]
        match e:
            case n.Call(name=name):
                bent = not name.startswith("to_")
            case n.Binary(op="*" | ".*"):
                bent = len(below) > 1
            case n.Binary(op="/" | "./", right=right):
                bent = right in below
            case n.Binary(op=op):
                bent = op not in _SUMS
            case _:
                bent = False
        return bool(below) and (bent or any(map(self._is_bent, below)))

    def _index(self, i: int) -> str:
        """The i-th index variable, the same one in all lifts."""
        while len(self._indices) <= i:
            self._indices.append(self.names.fresh("jklm"[i] if i < 4 else "index"))
        return self._indices[i]

    # ---- questions about expressions ----------------------------------------------------

    def _chains(self, e: n.Node, outer: Set[str]) -> Iterator[_Chain]:
        """The variables in an expression that depend on parameters, with their indices."""
        if isinstance(e, n.Var | n.Index):
            chain = self._chain(e, outer)
            if chain is not None:
                yield chain
            if isinstance(e, n.Var) or chain is not None:
                return
        for below in n.children(e):
            yield from self._chains(below, outer)

    def _chain(self, e: n.Expr, outer: Set[str]) -> _Chain | None:
        indices: list[n.Indexing] = []
        while isinstance(e, n.Index):
            indices[:0] = e.indices
            e = bare(e.base)
            if isinstance(e, n.Index) and not all(map(picks_one, e.indices)):
                return None
        if not isinstance(e, n.Var) or e.name not in self.front:
            return None
        dims = self.front[e.name].size.dims
        picks: list[_Pick] = []
        many: list[_Pick] = []
        part: list[str] = []
        shape: list[n.Expr] = []
        for size, index in zip(dims, indices, strict=False):
            match index:
                case n.All():
                    shape.append(size)
                    part.append("")
                case n.Single(index=i) if names_in(i) & outer:
                    (many if i.type.array else picks).append((i, size))
                    part.append("")
                case n.Single(index=i) if not i.type.array:
                    part.append(text(i))
                case _:
                    return None
        if len(many) > 1:
            return None
        shape += dims[len(indices) :]
        return _Chain(e.name, tuple(part), (*picks, *many), tuple(shape), bool(many))

    def _is_free(self, e: n.Node) -> bool:
        """Whether a value is finite, and computed from parameters and data without rows."""
        match e:
            case n.IntLit() | n.RealLit():
                return True
            case n.Var(name=name):
                return name in self.front or name in self.data or name in self._indices
            case n.Paren(arg=arg) | n.Transpose(arg=arg) | n.Unary(op="-" | "+", arg=arg):
                return self._is_free(arg)
            case n.Binary(op=op, left=left, right=right) if op in _OPERATORS:
                return self._is_free(left) and self._is_free(right)
            case n.Index(base=base, indices=indices):
                known = self.data.keys() | set(self._indices)
                return self._is_free(base) and all(names_in(i) <= known for i in indices)
            case n.Call(name=name, args=args, user=False):
                fine = name in _FINITE or name in _SHAPED
                fine |= name in _FINITE_ABOVE_ZERO and all(map(self._is_positive, args))
                return fine and all(map(self._is_free, args))
        return False

    def _in_range(self, e: n.Node, chain: _Chain, certain: bool) -> bool:
        """Whether all indices in an element exist, for all values of its index variables.

        An index that is the same for all rows exists if every row reads it: if that is `certain`.
        """
        sizes = {self._index(i): text(size) for i, (_, size) in enumerate(chain.picks)}
        for x in n.find_all(e, n.Index):
            dims = sizes_of(x.base, {**self.data, **self.front})
            for i, index in enumerate(x.indices):
                known = text(dims[i]) if i < len(dims) else ""
                if not (isinstance(index, n.All) or self._exists(index, known, sizes, certain)):
                    return False
        return True

    def _exists(
        self, index: n.Indexing, size: str, sizes: Mapping[str, str], certain: bool
    ) -> bool:
        if not names_in(index) & sizes.keys():
            return certain
        match single(index):
            case n.Var(name=name):
                return sizes[name] == size
            case n.Index(base=n.Var(name=name)):  # the level of a group, as declared
                declared = self.data[name].constraint
                lower, upper = declared.lower, declared.upper
                return lower is not None and upper is not None and text(upper) == size
        return False

    def _is_positive(self, e: n.Expr) -> bool:
        """Whether a value is above zero by its declaration or by the functions in it."""
        match bare(e):
            case n.IntLit() | n.RealLit():
                return True
            case n.Var(name=name):
                found = self.front.get(name)
                lower = None if found is None else found.constraint.lower
                simplex = found is not None and found.constraint.kind == "simplex"
                return simplex or isinstance(lower, n.IntLit | n.RealLit)
            case n.Index(base=base):
                return self._is_positive(base)
            case n.Binary(op=op, left=left, right=right) if op != "-" and op in _OPERATORS:
                return self._is_positive(left) and ("^" in op or self._is_positive(right))
            case n.Call(name=name, user=False):
                return name in _ABOVE_ZERO
        return False

    def _shape(self, e: n.Expr) -> tuple[n.Expr, ...] | None:
        """The sizes of a value that is free of rows; None if they are not known."""
        e = bare(e)
        match e:
            case _ if not e.type.rank:
                return ()
            case n.Var() | n.Index():
                chain = self._chain(e, set())
                return None if chain is None or chain.picks else chain.shape
            case n.Unary(arg=arg):
                return self._shape(arg)
            case n.Transpose(arg=arg):
                shape = self._shape(arg)
                return None if shape is None else shape[::-1]
            case n.Binary(left=left, right=right) if _is_matrix_product(e):
                first, second = self._shape(left), self._shape(right)
                if first is None or second is None:
                    return None
                column = left.type.base == "vector"  # times a row: all pairs
                return (*(first if column else first[:-1]), *(second if column else second[1:]))
            case n.Binary(left=left, right=right):
                shapes = (self._shape(x) for x in (left, right) if x.type.rank)
                return next((shape for shape in shapes if shape is not None), None)
            case n.Call(name=name, args=args) if name in _SHAPED:
                return self._shape(args[_SHAPED[name]])
            case n.Call(args=(arg,)) if arg.type.rank == e.type.rank:
                return self._shape(arg)
        return None


def _factors(e: n.Expr, over: bool = False) -> list[_Factor]:
    """Factors of a product of numbers or entries; a matrix product is one factor."""
    inner = bare(e)
    match inner:
        case n.Binary(op=op, left=left, right=right) if op in _PRODUCTS:
            whole = _is_matrix_product(inner) or inner.type.base == "int"
            if not whole and not (op == "/" and right.type.rank):
                return _factors(left, over) + _factors(right, over ^ (op in ("/", "./")))
    return [(e, over)]


def _is_matrix_product(e: n.Expr) -> bool:
    return isinstance(e, n.Binary) and e.op == "*" and min(e.left.type.rank, e.right.type.rank) > 0


def _times(left: n.Expr, right: n.Expr, *, over: bool) -> n.Expr:
    """Product or quotient, of entries where both are containers."""
    ranks = left.type.rank, right.type.rank
    op = ("./" if ranks[1] else "/") if over else (".*" if min(ranks) else "*")
    return n.Binary(left, op, right, type=left.type if ranks[0] >= ranks[1] else right.type)


def _is_linear(e: n.Node, name: str) -> bool:
    """Whether a value is linear in a variable that it is computed from, or has an additive part."""
    match e:
        case n.Var() | n.Index():
            return name in names_in(e)
        case n.Paren(arg=arg) | n.Unary(arg=arg) | n.Transpose(arg=arg):
            return _is_linear(arg, name)
        case n.Call(name="to_vector" | "to_row_vector", args=(arg,)):
            return _is_linear(arg, name)
        case n.Binary(op="+" | "-", left=left, right=right):
            parts = [x for x in (left, right) if name in names_in(x)]
            return bool(parts) and all(_is_linear(x, name) for x in parts)
        case n.Binary(op="*" | ".*", left=left, right=right):
            both = name in names_in(left) & names_in(right)
            return not both and (_is_linear(left, name) or _is_linear(right, name))
        case n.Binary(op="/" | "./", left=left, right=right):
            return name not in names_in(right) and _is_linear(left, name)
    return False


def _with_indices(e: n.Expr, index: Mapping[str, str]) -> n.Expr:
    """An expression with index variables in the place of indices."""

    def change(x: n.Node) -> n.Node | None:
        name = index.get(text(bare(x.index))) if isinstance(x, n.Single) else None
        return n.Single(n.integer(name)) if name else None

    return n.transform(e, change)


def _entry(e: n.Expr, many: str) -> n.Expr | None:
    """The entry of a vector that is computed from those at indices `many`, which stay; or None."""

    def leaf(e: n.Expr) -> n.Expr | None:
        at_many = many in {text(bare(x.index)) for x in n.find_all(e, n.Single)}
        match e:
            case _ if not e.type.rank and not at_many:
                return e
            case n.Paren(arg=arg):
                return entry_of(arg, leaf)
            case n.Index() if e.type.rank == 1 and at_many:
                return replace(e, type=n.REAL)
            case n.Unary() | n.Transpose() | n.Binary() if e.type.rank:
                return None
            case n.Call(name=name) if e.type.rank and name in _FINITE | _FINITE_ABOVE_ZERO:
                return None
        raise DoesNotApplyError

    try:
        return entry_of(e, leaf)
    except DoesNotApplyError:
        return None
