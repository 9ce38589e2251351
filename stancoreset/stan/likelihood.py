"""The likelihood as a program of its own, in what the rows see of the parameters.

Rows see the parameters only through some variables ψ(θ) that are free of row data: `Intercept`,
`b`, and group effects ``r_1_1 = sd_1[1] * z_1[1]``, but not `sd_1` and `z_1`:

    log p(θ, y) = log prior(θ) + Σ_n w_n L_n(ψ(θ))

As a function of ψ the log likelihood is nearly quadratic where as a function of θ it is a curved
ridge, and centred and non-centred programs have the same ψ. `likelihood_of` cuts the weighted
program where row data enter: what lies before the cut becomes the parameters of a program that
has no prior, and what lies behind it stays as it is.

Products of parameters that the rows compute themselves, ``tau * z[g[n]]``, are made variables
first, and so are arguments with them: ``m + s * z`` of ``slope = exp(m + s * z)``, for `slope`
itself is always positive and no coordinate (`stancoreset.stan.lifting`). Data decide whether a
variable is too large (`too_large`).

Such a program is a weighted program like any other. Stan adds the Jacobians of its constrained
parameters, and they cancel wherever a log density without rows is subtracted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any

from stancoreset.stan.data import Scope, evaluate_int
from stancoreset.stan.lifting import Lift, Lifting
from stancoreset.stan.syntax import (
    Names,
    StanProgram,
    assigned_names,
    assignments,
    bare,
    derived,
    names_in,
    own_nodes,
    part_of,
    printer,
    sources,
)
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave import filtered, needed, suffix
from stancoreset.stan.weighted import WeightedProgram

# Functions whose values are no free coordinates: a bounded range, or entries that are always zero.
_CURVED = {
    "exp", "expm1", "pow", "sqrt", "square", "inv", "inv_sqrt", "inv_square", "abs", "fabs",
    "inv_logit", "inv_cloglog", "Phi", "Phi_approx", "softmax", "log1p_exp",
    "cholesky_decompose", "quad_form_diag", "diag_pre_multiply",
}  # fmt: skip
# Functions that are infinite or undefined somewhere, or everywhere.
_WITH_POLES = {
    "negative_infinity", "positive_infinity", "not_a_number", "inv", "inv_square",
    "log", "log1p", "log1m", "log2", "log10", "logit", "lgamma", "digamma", "inv_Phi",
}  # fmt: skip
# Functions of a symmetric or triangular matrix, which is the first or the last argument.
_FIRST_IS_COVARIANCE = {
    "cholesky_decompose", "inverse_spd", "log_determinant_spd", "eigenvalues_sym",
    "eigenvectors_sym", "quad_form_sym", "mdivide_left_spd", "mdivide_left_tri_low",
}  # fmt: skip
_LAST_IS_COVARIANCE = {
    "multi_normal", "multi_normal_prec", "multi_normal_cholesky", "mdivide_right_spd",
    "multi_student_t", "multi_student_t_cholesky", "mdivide_right_tri_low",
    "wishart", "wishart_cholesky", "inv_wishart", "inv_wishart_cholesky",
}  # fmt: skip
# Densities whose last argument has the sum one.
_OF_SIMPLEX = {"categorical", "multinomial"}
_REALS = ("real", "vector", "row_vector", "matrix")


@dataclass(frozen=True)
class Likelihood:
    """The functions of the parameters that the rows see, ψ, and their likelihood as a program."""

    seen: tuple[n.Decl, ...]  # the variables of ψ, declared like the parameters of `weighted`
    # The program whose parameters are `seen`: it has the rows' terms and no prior.
    weighted: WeightedProgram = field(repr=False)
    # Statements of the model block that compute those of `seen` that are declared there, and those
    # that compute `lifted`.
    local: tuple[n.Stmt, ...] = field(default=(), repr=False)
    # Those of `seen` that are products or arguments, and have no name in the program.
    lifted: tuple[Lift, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the variables of ψ."""
        return tuple(decl.name for decl in self.seen)


def likelihood_of(
    weighted: WeightedProgram, behind: frozenset[str] = frozenset()
) -> Likelihood | None:
    """Cut a program where row data enter.

    Variables `behind` the cut are free of row data and still belong there: it then lies further
    inwards, and the variables that define them are seen in their place. None if the rows see the
    parameters themselves, or a variable that no parameter of a program can stand for.

    >>> from stancoreset.stan import StanProgram, weighted_program
    >>> code = '''
    ... data { int<lower=0> N; array[N] int<lower=1, upper=3> g; vector[N] y;
    ...        vector<lower=0>[N] weights; }
    ... parameters { vector[3] z; real<lower=0> tau; real<lower=0> sigma; }
    ... transformed parameters { vector[3] a = tau * z; }
    ... model {
    ...   z ~ std_normal();
    ...   for (n in 1:N) target += weights[n] * normal_lpdf(y[n] | a[g[n]], sigma);
    ... }
    ... generated quantities {
    ...   vector[N] log_lik;
    ...   for (n in 1:N) log_lik[n] = normal_lpdf(y[n] | a[g[n]], sigma);
    ... }'''
    >>> likelihood_of(weighted_program(StanProgram.from_code(code))).names
    ('sigma', 'a')
    >>> bent = code.replace("a = tau * z", "a = exp(1 + tau * z)")
    >>> likelihood_of(weighted_program(StanProgram.from_code(bent))).lifted[0].name
    'tau_z'
    """
    cut = _Cut(weighted, weighted.program.tree).lifted(behind)[0]
    found = cut.found(behind)
    return None if found is None else cut.likelihood(*found)


def too_large(
    weighted: WeightedProgram, data: Mapping[str, Any], times: float = 2.0
) -> frozenset[str]:
    """Variables that belong behind the cut because of their size: ψ has other coordinates then.

    ψ may have so many `times` the coordinates of the parameters. While it has more, the cut is
    moved inwards from its largest variable, such as the predictor of every cell of a table. Sizes
    that the `data` do not tell by simple expressions are left as they are.

    >>> from stancoreset.stan import StanProgram, weighted_program
    >>> code = '''
    ... data { int<lower=0> N; int C; int K; array[N] int cell; matrix[C, K] X; vector[N] y;
    ...        vector<lower=0>[N] weights; }
    ... parameters { vector[K] b; }
    ... transformed parameters { vector[C] eta = X * b; }
    ... model { target += dot_product(weights, square(y - eta[cell])); }
    ... generated quantities { vector[N] log_lik = square(y - eta[cell]); }'''
    >>> weighted = weighted_program(StanProgram.from_code(code))
    >>> too_large(weighted, {"C": 5, "K": 3}), too_large(weighted, {"C": 50, "K": 3})
    (frozenset(), frozenset({'eta'}))
    """
    tree = weighted.program.tree
    scope = Scope(data, tree.transformed_data)
    parameters = {d.name for d in tree.parameters}
    most = times * parameter_count(weighted, data)
    behind: frozenset[str] = frozenset()
    while True:
        found = _Cut(weighted, tree).lifted(behind)[0].found(behind)
        if found is None:
            return behind
        sizes = {d.name: _elements(d, scope) for d in found[0]}
        computed = sizes.keys() - parameters
        if sum(sizes.values()) <= most or not computed:
            return behind
        behind |= {max(sorted(computed), key=sizes.__getitem__)}


def parameter_count(weighted: WeightedProgram, data: Mapping[str, Any]) -> int:
    """Number of the parameters' elements, as far as the `data` tell it by simple expressions.

    >>> from stancoreset.stan import StanProgram, stan_model_path, weighted_program
    >>> logistic = weighted_program(StanProgram.from_file(stan_model_path("logistic")))
    >>> parameter_count(logistic, {"D": 5})
    6
    """
    tree = weighted.program.tree
    scope = Scope(data, tree.transformed_data)
    return sum(_elements(decl, scope) for decl in tree.parameters)


def _elements(decl: n.Decl, scope: Scope) -> int:
    """Number of a variable's elements; 0 if it is not known."""
    return prod(evaluate_int(scope, size) or 0 for size in decl.size.dims)


def parameters_read(weighted: WeightedProgram) -> frozenset[str]:
    """The parameters that the rows' terms are computed from, and not the prior's alone.

    >>> from stancoreset.stan import StanProgram, weighted_program
    >>> code = '''
    ... data { int<lower=0> N; vector[N] y; vector<lower=0>[N] weights; }
    ... parameters { real a; real<lower=0> tau; }
    ... model { a ~ normal(0, tau); target += dot_product(weights, square(y - a)); }
    ... generated quantities { vector[N] log_lik = square(y - a); }'''
    >>> sorted(parameters_read(weighted_program(StanProgram.from_code(code))))
    ['a']
    """
    return frozenset(_Cut(weighted, weighted.program.tree).read)


def may_be_infinite(weighted: WeightedProgram, likelihood: Likelihood) -> bool:
    """Whether what is seen is computed by functions that may be infinite, whatever the parameters.

    They are logarithms and their like, divisions, and infinities as they are written.
    """
    tree = weighted.program.tree
    names = {d.name for d in likelihood.seen} - {d.name for d in tree.parameters}
    body = (*tree.transformed_data, *tree.transformed_parameters, *likelihood.local)
    found = n.find_all(needed(body, names), n.Call, n.Binary)
    return any(
        x.name in _WITH_POLES if isinstance(x, n.Call) else x.op in ("/", "./") for x in found
    )


def not_lifted(weighted: WeightedProgram, behind: frozenset[str] = frozenset()) -> dict[str, str]:
    """Products of parameters that the rows compute and that are not lifted, with the reason."""
    return _Cut(weighted, weighted.program.tree).lifted(behind)[1]


@dataclass(frozen=True)
class _Cut:
    """The search for the cut through one program, in the tree of which products may be lifted."""

    weighted: WeightedProgram
    tree: n.Program
    lifts: tuple[Lift, ...] = ()

    @cached_property
    def parameters(self) -> dict[str, n.Decl]:
        """Declarations of the program's parameters by name."""
        return {d.name: d for d in self.tree.parameters}

    def found(self, behind: frozenset[str]) -> tuple[tuple[n.Decl, ...], set[str]] | None:
        """Declarations of ψ at the outermost cut that can be declared, and the names behind it."""
        rows, seen = self._outermost(behind)
        if not seen or all(self.parameters.get(name) == decl for name, decl in seen.items()):
            return None
        return tuple(seen.values()), rows

    def _outermost(self, behind: frozenset[str]) -> tuple[set[str], dict[str, n.Decl]]:
        """Names behind the outermost cut that can be declared, and ψ there; empty without one."""
        candidates = {**self.parameters, **self._computed}
        while True:
            rows = self._behind(behind)
            border = self._border(rows)
            seen = {d.name: _as_parameter(d) for d in candidates.values() if d.name in border}
            # A parameter is real, of a size and bounds known from data.
            declared = {
                name
                for name, d in seen.items()
                if d.size.base in _REALS and names_in((d.size, d.constraint)) <= self._known
            }
            lost = border - declared
            if lost & self.parameters.keys():
                return rows, {}
            others = border - self.parameters.keys() - lost
            lost |= {name for name in others if self._adds_nothing(name, border)}
            if not lost:
                return rows, seen
            behind |= lost

    def lifted(self, behind: frozenset[str]) -> tuple[_Cut, dict[str, str]]:
        """The cut through the program with lifted products, and why others are not lifted."""
        refused: dict[str, str] = {}
        while True:
            lifting, tree = self._search(behind, refused), self.tree
            tree = replace(
                tree,
                transformed_parameters=lifting.statements(tree.transformed_parameters),
                model=lifting.statements(tree.model),
                generated_quantities=lifting.statements(self._log_lik),
            )
            lifts = tuple(lifting.found.values())
            if not lifts:
                return self, lifting.left
            # They stand behind all that they are computed from.
            computed = tuple(s for lift in lifts for s in lift.statements)
            cut = _Cut(self.weighted, replace(tree, model=tree.model + computed), lifts)
            found = cut.found(behind)
            names = {d.name for d in found[0]} if found else set()
            bad = [
                (x, why) for x in lifts if (why := _refusal(x, lifts, names, lifting.front.keys()))
            ]
            if not bad:
                return cut, lifting.left
            # Without a sum, a product in it may be good: sums go first.
            sums = [(x, why) for x, why in bad if x.is_sum]
            refused |= {x.key: why for x, why in sums or bad}

    def _search(self, behind: frozenset[str], refused: Mapping[str, str]) -> Lifting:
        """A search for products of variables that keep their values in the model block.

        It goes through all that stands behind the cut, of which rows are but a part: a variable
        that is no coordinate, ``slope = exp(m + s * z)``, is computed there, too.
        """
        tree, rows = self.tree, self._behind(behind)
        changed = assigned_names(tree.model)
        front = dict(self.parameters)
        computed = derived(self._steps, set(front)) - rows - changed
        front |= {name: d for name, d in self._computed.items() if name in computed}
        names = Names(replace(tree, model=(*tree.model, *tree.generated_quantities)))
        anchors = {k for k, d in front.items() if d.constraint.kind in ("none", "affine")}
        data = {d.name: d for d in tree.known if d.name in self._known - rows}
        counts = {self.weighted.obs, *self.weighted.shared}
        anchors -= self._curved(anchors)
        all_behind = self._outermost(behind)[0]
        return Lifting(names, all_behind, front, data, counts, anchors, refused)

    @cached_property
    def _restricted(self) -> frozenset[str]:
        """Variables that a function requires to be symmetric, triangular or of the sum one."""
        users: dict[str, set[int]] = {}
        for function in self.tree.functions:
            inside = set(_restricted([function.body], users))
            places = {k for k, p in enumerate(function.parameters) if p.name in inside}
            users.setdefault(suffix(function.name)[0], set()).update(places)
        return frozenset(_restricted(self._steps, users))

    def _curved(self, names: set[str]) -> set[str]:
        """Names among `names` whose values come from a function with a bounded range."""
        parameters = set(self.parameters)
        moving = parameters | derived(self._steps, parameters)
        values = ((v, e) for v in names for s in self._steps for e in _values_of(s, v))
        return {v for v, e in values if _is_curved(e, moving)}

    @property
    def _log_lik(self) -> list[n.Stmt]:
        """The generated quantities that the rows' log likelihoods need."""
        return needed(self.tree.generated_quantities, {self.weighted.log_lik})

    @property
    def _steps(self) -> tuple[n.Stmt, ...]:
        tree = self.tree
        return (*tree.transformed_parameters, *tree.model, *self._log_lik)

    @property
    def _computed(self) -> dict[str, n.Decl]:
        """Variables in scope at the end of the model block, without parameters."""
        steps = (*self.tree.transformed_parameters, *self.tree.model)
        return {s.name: s for s in steps if isinstance(s, n.Decl)}

    def _behind(self, behind: frozenset[str]) -> set[str]:
        """Names behind the cut: row data, and all that is computed from them."""
        weighted = self.weighted
        data = {*weighted.rows, weighted.weights, weighted.obs, *weighted.shared}
        data |= derived(self.tree.transformed_data, data)
        return data | behind | derived(self._steps, data | behind)

    def _border(self, rows: set[str]) -> set[str]:
        """Names in front of the cut that depend on parameters and are read behind it."""
        parameters = set(self.parameters)
        front = (parameters | derived(self._steps, parameters)) - rows
        read = set().union(*(used for name, used in self._pairs if name in rows))
        return (read | _about(self.tree.model, rows)) & front

    @property
    def read(self) -> set[str]:
        """Parameters that statements about rows depend on."""
        wanted = _about(self.tree.model, self._behind(frozenset()))
        return sources(self._pairs, wanted) & self.parameters.keys()

    @property
    def _pairs(self) -> list[tuple[str, set[str]]]:
        """Variables that are given values, and names that these depend on, sizes included."""
        return [pair for s in self._steps for pair in assignments(s, names_in)]

    @property
    def _known(self) -> set[str]:
        """Names of data without rows."""
        weighted, tree = self.weighted, self.tree
        known = {d.name for d in tree.known}
        return known - {*weighted.rows, weighted.weights, weighted.obs, *weighted.shared}

    def _adds_nothing(self, name: str, border: set[str]) -> bool:
        """Whether a variable is a function of the others, or one that cannot have all values.

        Two variables that determine each other have a singular covariance. A variable that is
        declared without bounds, and always positive or symmetric, would be given values that it
        cannot have.
        """
        free = self._computed[name].constraint.kind == "none"
        if free and (name in self._restricted or self._curved({name})):
            return True
        others = border - {name}
        pairs = [pair for pair in self._pairs if pair[0] not in others]
        return not sources(pairs, {name}) & (self.parameters.keys() - others)

    def likelihood(self, seen: tuple[n.Decl, ...], rows: set[str]) -> Likelihood:
        """The program whose parameters are those of ψ."""
        tree, names = self.tree, {d.name for d in seen}
        wanted = _about(tree.model, rows)
        pairs = [pair for pair in self._pairs if pair[0] not in names]
        live = sources(pairs, wanted | {self.weighted.log_lik}) - names
        program = replace(
            tree,
            parameters=seen,
            transformed_parameters=tuple(_kept(tree.transformed_parameters, live, rows)),
            model=tuple(_kept(tree.model, live, rows)),
            generated_quantities=tuple(_kept(self._log_lik, live, rows)),
        )
        code = printer.program(program)
        name = f"{self.weighted.program.name}_likelihood"
        own = replace(self.weighted, program=StanProgram.from_code(code, name=name))
        local = {s.name for s in tree.model if isinstance(s, n.Decl)} & names
        before = tuple(needed(tree.model, local)) if local else ()
        return Likelihood(seen, own, before, self.lifts)


def _refusal(lift: Lift, lifts: Iterable[Lift], seen: set[str], front: Set[str]) -> str:
    """Why a lift does not make ψ simpler; empty if it does."""
    if lift.name not in seen:
        return "it is a function of what the rows see by itself"
    if lift.anchor in seen:
        return f"the rows see {lift.anchor} by itself, too"
    if any(lift.overlaps(other) for other in lifts):
        return f"{lift.anchor} is a factor of several products"
    others = (names_in(lift.element) - {lift.anchor}) & front
    if lift.is_sum and others <= seen:
        return "the rows see its other parts by themselves, too"
    return ""


def _values_of(statement: n.Stmt, name: str) -> Iterator[n.Expr]:
    """Expressions that are assigned to a variable or its elements."""
    for s in n.walk(statement):
        match s:
            case n.Decl(name=declared, value=value) if declared == name and value is not None:
                yield value
            case n.Assign(value=value) if name in assigned_names(s):
                yield value


def _is_curved(value: n.Expr, moving: Set[str]) -> bool:
    """Whether a value has a bounded range, maybe times or plus what does not depend on `moving`."""
    match bare(value):
        case n.Call(name=name):
            return name in _CURVED
        case n.Unary(arg=arg) | n.Transpose(arg=arg):
            return _is_curved(arg, moving)
        case n.Binary(op=op, left=left, right=right):
            if op in ("^", ".^"):
                return True
            free = [e for e in (left, right) if names_in(e) & moving]
            return len(free) == 1 and _is_curved(free[0], moving)
    return False


def _restricted(body: Iterable[n.Stmt | None], users: Mapping[str, Iterable[int]]) -> Iterator[str]:
    """Names in arguments, of `users` too, that must be symmetric, triangular or of the sum one."""
    for node in n.walk(body):
        match node:
            case n.Call(name=called, args=args):
                name = suffix(called)[0]
            case n.Tilde(distribution=name):
                args = (node.arg, *node.args)
            case _:
                continue
        if name in _FIRST_IS_COVARIANCE:
            yield from names_in(args[0])
        elif name in _LAST_IS_COVARIANCE:
            yield from names_in(args[-1])
        elif name in _OF_SIMPLEX:
            yield part_of(args[-1])
        for place in users.get(name, ()):
            yield from names_in(args[place])


def _as_parameter(decl: n.Decl) -> n.Decl:
    """The declaration of a parameter that stands for a variable; rows see no offset."""
    constraint = n.Constraint() if decl.constraint.kind == "affine" else decl.constraint
    return replace(decl, constraint=constraint, value=None)


def _about(
    body: Iterable[n.Stmt], rows: set[str], context: frozenset[str] = frozenset()
) -> set[str]:
    """All names on which statements about rows depend that act by themselves."""
    found: set[str] = set()
    for s in body:
        if isinstance(s, n.Tilde | n.TargetAdd | n.VoidCall | n.Message):
            names = names_in(s) | context
            found |= names if names & rows else set()
        else:
            found |= _about(n.parts(s), rows, context | names_in(own_nodes(s)))
    return found


def _kept(body: Iterable[n.Stmt], live: set[str], rows: set[str]) -> list[n.Stmt]:
    """The statements that compute `live` variables or are about rows."""

    def keep(s: n.Stmt, context: frozenset[str]) -> bool:
        match s:
            case n.Decl(name=name):
                return name in live
            case n.Assign():
                return bool(assigned_names(s) & live)
            case n.Tilde() | n.TargetAdd() | n.VoidCall() | n.Message():
                return bool((names_in(s) | context) & rows)
        return True

    return filtered(body, keep)
