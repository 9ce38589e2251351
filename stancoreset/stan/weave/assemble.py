"""One program woven along one axis of observations: the walk, and the program printed."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from stancoreset.errors import WeaveError
from stancoreset.stan.syntax import (
    Names,
    body_of,
    names_in,
    printer,
    stanc,
    substituted,
    target_vars,
)
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.accumulators import added, must_be_added, only_use
from stancoreset.stan.weave.advice import IN_A_LOOP
from stancoreset.stan.weave.counts import data_dependences, declared, growing_parameters
from stancoreset.stan.weave.domain import BY_COUNT, BY_DATA, FREE, Dep, coupled
from stancoreset.stan.weave.freeze import freezing_block, frozen_closure
from stancoreset.stan.weave.outcome_statistics import outcome_statistics
from stancoreset.stan.weave.selections import spread_selections
from stancoreset.stan.weave.separate import Entry, Flow
from stancoreset.stan.weave.slices import needed, unread, without
from stancoreset.stan.weave.switches import Dropped, by_switch, checks, refuse_lost_outcomes
from stancoreset.stan.weave.table import Table
from stancoreset.stan.weave.terms import because

__all__ = ["NoLikelihoodError", "Weaver", "Woven"]


_SOLVERS = ("ode_", "dae", "integrate_", "solve_", "algebra_solver")


@dataclass(frozen=True)
class Woven:
    """A weighted program and how its data are made.

    Attributes
    ----------
    code : str
        The weighted program, formatted by stanc: data declare `weights` and the frozen
        variables, generated quantities define `log_lik` and nothing else.
    obs : str
        The data integer that counts observations.
    rows : mapping of str to int
        Data variables that carry observations (frozen ones included), and on which axis;
        without the weights.
    explanation : tuple of Entry
        What became of each statement that adds to the log density, by line.
    frozen : mapping of str to str
        Variables that are computed once from the full data and handed over as data: name in
        the woven program's data block → name in the generated quantities of `frozen_code`.
    frozen_code : str
        A block of generated quantities for the original program that computes them; empty if
        there are none.
    weights, log_lik : str
        Names of the data vector of weights and of the pointwise log likelihood.
    tree : nodes.Program
        Syntax tree of `code`, before formatting.
    shared : frozenset of str
        Further data integers that count the same rows and must equal `obs`.
    numbered : bool
        Whether rows are picked by their numbers in the full data: some rows alone are then no
        data for the original program.
    outcome_statistics : tuple of str
        Frozen variables in `log_lik` that are computed from outcomes of all rows, other than
        outcomes themselves: then `log_lik` is no pointwise likelihood.
    written : mapping of str to int
        `obs` and its value, where the original program has a number instead
        (``vector[504] y``); empty otherwise.
    counted : mapping of str to tuple of str
        `obs` and the data integers whose product it is, where observations are the cells of a
        table; empty otherwise.
    table : Table or None
        How the rows of several counts are put into one table, where all are observations.
    """

    code: str
    obs: str
    rows: Mapping[str, int]
    explanation: tuple[Entry, ...] = ()
    frozen: Mapping[str, str] = field(default_factory=dict)
    frozen_code: str = field(default="", repr=False)
    weights: str = "weights"
    log_lik: str = "log_lik"
    tree: n.Program = field(default_factory=n.Program, repr=False, compare=False)
    shared: frozenset[str] = frozenset()
    numbered: bool = False
    outcome_statistics: tuple[str, ...] = ()
    written: Mapping[str, int] = field(default_factory=dict)
    counted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    table: Table | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", MappingProxyType(dict(self.rows)))
        object.__setattr__(self, "frozen", MappingProxyType(dict(self.frozen)))

    @property
    def uses_solver(self) -> bool:
        """Whether densities go through an iterative solver (ODE, DAE, algebra, quadrature).

        Its answers with and without derivatives differ by its tolerance, so the identities
        hold to about 1e-6 only.
        """
        return any(isinstance(e, n.Call) and e.name.startswith(_SOLVERS) for e in n.walk(self.tree))


class NoLikelihoodError(WeaveError):
    """No term of the log density depends on rows along this axis."""


class Weaver:
    """Weaves one program along one axis.

    `added` are statements of transformed data that the author's program has not; they number rows.
    `checks` are statements of transformed data that reject data for which rows depend on each
    other. With `switches`, branches that the data choose are left out where they cannot be
    weighted, and data that would choose them are rejected.
    """

    def __init__(
        self,
        program: n.Program,
        obs: str,
        merged: Iterable[str] = (),
        added: Sequence[n.Stmt] = (),
        *,
        checks: Sequence[n.Stmt] = (),
        switches: bool = False,
    ) -> None:
        self.checks = tuple(checks)
        self.switches = switches
        self.merged = tuple(sorted(merged))
        self.selections = spread_selections(program, obs)
        selected = self.selections.program.transformed_data[len(program.transformed_data) :]
        #: What transformed data have that the author's have not.
        self.added = (*added, *selected)
        self.numbering = {s.name for s in added if isinstance(s, n.Decl)}
        self.numbered = bool(self.selections.counts or added)
        self.program = program = self.selections.program
        self.obs = obs
        self.names = Names(program)
        self.data_deps = data_dependences(program, obs)
        self.frozen: dict[str, n.Decl] = {}
        self.row_data: dict[str, int] = {}
        self.weighted: set[n.Stmt] = set()  # the user's statements
        self.walked = False

    # ---- the walk -----------------------------------------------------------------------

    def walk(self) -> None:
        """Follow the dependences through all blocks; raises `WeaveError`."""
        if self.walked:
            return
        program = self.program
        env: dict[str, Dep] = dict(self.data_deps)
        self.transformed_data(env)
        counts = {name for name, dep in env.items() if dep.kind == "count"}
        growing = dict(self.growing(counts))
        flow = Flow(
            program, self.obs, env, set(env), self.names, density_block=True,
            drops=self.switches,
        )  # fmt: skip
        flow.dropped += growing.values()
        flow.rows.frozen = {name for name in self.frozen if env[name].kind == "free"}
        self.flow = flow
        self.parameters = [
            self.unused(d, growing[d.name]) if d.name in growing else self.parameter(d)
            for d in program.parameters
        ]
        self.transformed, before = flow.block(program.transformed_parameters)
        model, point = flow.block(program.model)
        outer = {s.name for s in program.transformed_parameters if isinstance(s, n.Decl)}
        self.point = [*needed(without(before, outer), {self.names.log_lik}), *point]
        self.model = unread(model, set(flow.terms.definitions))
        self.check_accumulators()
        self.weighted = flow.weighted
        if not self.weighted:
            raise NoLikelihoodError(
                0,
                f"no term of the log density is a sum over observations: nothing in the model "
                f"block depends on data sized by `{self.obs}`",
                advice=IN_A_LOOP,
            )
        for d in (*program.data, *self.frozen.values()):
            dep = env[d.name]
            if dep.kind == "rowwise":
                self.row_data[d.name] = dep.axis
        refuse_lost_outcomes(flow.dropped, flow.weighted, self.row_data)
        for d in (*program.data, *self.frozen.values()):
            dep = env[d.name]
            if dep.kind == "coupled":
                self.couples(d)
        self.walked = True

    def couples(self, d: n.Decl) -> None:
        """Refuse data that cannot be cut to rows, unless only frozen variables use them."""
        kept = (*self.transformed_kept, *self.transformed, *self.model)
        if d.name in self.frozen or any(d.name in names_in(s) for s in kept):
            if not any(d.name in names_in(s) for s in kept):
                return
            dep = self.flow.env[d.name]
            raise WeaveError(d.line, dep.why, d.name, advice=dep.advice)

    def transformed_data(self, env: dict[str, Dep]) -> None:
        """Freeze transformed data that depend on several rows; keep the others."""
        program = self.program
        flow = Flow(program, self.obs, env, set(env), Names(program))
        body = program.transformed_data
        globals_ = [s for s in body if isinstance(s, n.Decl)]
        flow.data |= {d.name for d in globals_}
        kept, _ = flow.block(body)
        frozen = {
            d.name
            for d in globals_
            if d.name in self.numbering
            or env[d.name].stat
            or env[d.name].kind in ("coupled", "sum", "row")
            or any(flow.rows.value(size).stat == BY_DATA for size in d.size.dims)
        } | self.selections.counts
        counts = {name for name, dep in env.items() if dep.kind == "count"}
        frozen = frozen_closure(globals_, frozen, counts)
        for d in globals_:
            if d.name not in frozen:
                if env[d.name].kind == "unset":
                    env[d.name] = FREE
                continue
            self.frozen[d.name] = d
            env[d.name] = declared(d, counts)
        # Names of blocks inside transformed data ended with them.
        for name in list(env):
            if name not in self.data_deps and name not in {d.name for d in globals_}:
                del env[name]
        self.counts = counts
        self.transformed_kept = needed(
            without(kept, frozen), {d.name for d in globals_} - frozen
        ) + [s for s in without(kept, frozen) if _is_check(s)]

    def growing(self, counts: set[str]) -> Iterator[tuple[str, Dropped]]:
        """Parameters with an element for each row, which the data may leave out; refuse others."""
        for d, error in growing_parameters(self.program, counts):
            condition = by_switch(d, counts) if self.switches else None
            if condition is None:
                raise error
            yield d.name, Dropped((condition,), error)

    def unused(self, d: n.Decl, dropped: Dropped) -> n.Decl:
        """A parameter of which there is none in data that are not rejected."""
        self.flow.env[d.name] = coupled(dropped.error.why, dropped.error.advice)
        return d

    def parameter(self, d: n.Decl) -> n.Decl:
        """The declaration with statistics in its sizes and bounds frozen."""
        self.flow.env[d.name] = FREE
        if any(self.flow.rows.value(size).stat == BY_COUNT for size in d.size.dims):
            why = f"the size of `{d.name}` grows with the number of observations"
            raise WeaveError(d.line, why, d.name, advice=IN_A_LOOP)
        d = self.flow.sized(d)
        bounds = d.constraint
        changed: dict[str, Any] = {}
        for key in ("lower", "upper", "offset", "multiplier"):
            e = getattr(bounds, key)
            if e is None:
                continue
            dep = self.flow.rows.value(e)
            if dep.looks_at_rows:
                what = f"the {key} of `{d.name}` depends on rows"
                raise WeaveError(d.line, because(what, dep.why), d.name, advice=dep.advice)
            changed[key] = self.flow.statistics.hoist(e)
        return replace(d, constraint=replace(bounds, **changed)) if changed else d

    def check_accumulators(self) -> None:
        """Refuse a variable that adds up rows but does not reach the target once and linearly."""
        for name in sorted(self.flow.accumulators):
            everywhere = (*self.program.transformed_parameters, *self.program.model)
            uses = [s for s in _statements(everywhere) if name in _reads(s, name)]
            use = only_use(name, self.program)
            if use is None or len(uses) != 1 or uses[0] is not use.statement:
                at = uses[0] if uses else self.program.model[0]
                raise WeaveError(at.line, must_be_added(name))

    # ---- the program ----------------------------------------------------------------------

    def woven(self) -> Woven:
        self.walk()
        flow = self.flow
        sized = [flow.sized(d) for d in self.frozen.values()]  # which may need more statistics
        statistics = list(flow.statistics.numbers.values())
        frozen = self.used_frozen([*statistics, *sized])
        names = {d.name for d in frozen}
        tree = self.tree(frozen)
        everything = (
            *tree.transformed_data, *tree.transformed_parameters, *tree.generated_quantities,
        )  # fmt: skip
        by_row = {d.name for d in frozen if flow.env.get(d.name, FREE).kind == "rowwise"}
        by_row |= self.row_data.keys()
        conditioned = outcome_statistics(self.program, frozen, everything, by_row)
        header = self.comment([d.name for d in frozen], conditioned)
        code = stanc.auto_format(header + printer.program(tree), filename="woven.stan")
        declared_so = [self.frozen.get(d.name, d) for d in frozen]
        added = (*self.added, *statistics)
        frozen_code, outputs = freezing_block(self.program, declared_so, added)
        rows = {k: v for k, v in self.row_data.items() if k not in self.frozen or k in names}
        return Woven(
            code=code.rstrip() + "\n",
            obs=self.obs,
            rows=rows,
            explanation=self.explanation(frozen),
            frozen=outputs,
            frozen_code=frozen_code,
            weights=self.names.weights,
            log_lik=self.names.log_lik,
            tree=tree,
            shared=frozenset(self.merged),
            numbered=self.numbered,
            outcome_statistics=conditioned,
        )

    def used_frozen(self, frozen: Sequence[n.Decl]) -> list[n.Decl]:
        """The frozen variables that the program still reads, and those in their sizes."""
        kept = (*self.parameters, *self.transformed, *self.model, *self.point)
        constants = self.flow.terms.locals.constants.values()
        sizes = (d.size for d in self.program.data)
        read = (*kept, *self.transformed_kept, *constants, *self.rejections, *sizes)
        used = set().union(*map(names_in, read))
        for d in reversed(frozen):
            if d.name in used:
                used |= names_in(d.size)
        return [d for d in frozen if d.name in used]

    @property
    def rejections(self) -> tuple[n.Stmt, ...]:
        """The statements of transformed data that reject data which cannot be weighted."""
        computed = {s.name for s in self.program.transformed_data if isinstance(s, n.Decl)}
        return (*self.checks, *checks(self.flow.dropped, computed))

    def tree(self, frozen: Sequence[n.Decl]) -> n.Program:
        """The weighted program."""
        transformed_data = (
            replace(s, size=self.sized_by_obs(s.size)) if isinstance(s, n.Decl) else s
            for s in self.transformed_kept
        )
        return n.Program(
            functions=self.program.functions,
            data=self.data_block(frozen),
            transformed_data=(
                *transformed_data,
                *self.flow.terms.locals.constants.values(),
                *self.rejections,
            ),
            parameters=tuple(self.parameters),
            transformed_parameters=tuple(self.transformed),
            model=tuple(self.model),
            generated_quantities=self.generated(),
        )

    def explanation(self, frozen: Sequence[n.Decl]) -> tuple[Entry, ...]:
        """What became of each statement, by line."""
        why = "computed once from the full data"
        entries = [Entry(d.line, printer.statement(d), "frozen", why) for d in frozen if d.line]
        return tuple(sorted((*self.flow.entries.values(), *entries), key=lambda e: e.line))

    def comment(self, frozen: Sequence[str], conditioned: Sequence[str]) -> str:
        """The comment at the head of the woven program: what weaving did."""
        lines = sorted({s.line for s in self.weighted})
        where = ", ".join(map(str, lines))
        rows = ", ".join(name for name in self.row_data if name not in self.frozen)
        text = [
            f"Woven by stancoreset. Each of the {self.obs} observations adds "
            f"{self.names.weights}[n] times its log likelihood to the log density; "
            f"{self.names.log_lik}[n] is that log likelihood without the weight.",
            f"Weighted: line{'s' if len(lines) > 1 else ''} {where} of the original program. "
            f"Data with one entry per observation: {rows or ', '.join(self.row_data)}.",
        ]
        if self.merged:
            text.append(
                f"{', '.join(self.merged)} must equal {self.obs}: a row is all that was observed "
                "on one unit. To weight the rows of one outcome alone, name its count with obs=."
            )
        if frozen:
            text.append(f"Computed once from the full data, now data: {', '.join(frozen)}.")
        if conditioned:
            text.append(
                f"{self.names.log_lik} is no pointwise likelihood, for outcomes of all rows are in "
                f"{', '.join(conditioned)}."
            )
        return "".join(f"// {line}\n" for t in text for line in textwrap.wrap(t, 75))

    def data_block(self, frozen: Sequence[n.Decl]) -> tuple[n.Decl, ...]:
        count = n.integer(self.obs)
        weights = n.Decl(
            self.names.weights,
            n.SizedType("vector", sizes=(count,)),
            n.Constraint("bounds", lower=n.ZERO),
        )
        block: list[n.Decl] = []
        for d in self.program.data:
            dep = self.data_deps[d.name]
            if dep.kind == "coupled":  # read or not, it would have to fit fewer rows
                raise WeaveError(
                    d.line,
                    f"{dep.why}: it would not fit fewer rows; give it a size of its own "
                    f"(`int n_{d.name};`), or leave it out",
                    d.name,
                )
            if d.name == self.obs:
                d = replace(d, constraint=n.Constraint("bounds", lower=n.ZERO))
            block.append(self.relaxed(d))
        numbers = {d.name for d in frozen}
        late = [d for d in block if names_in(d.size) & numbers]
        first = [d for d in block if d not in late]
        return (*first, weights, *(self.as_data(d) for d in frozen), *late)

    def relaxed(self, d: n.Decl) -> n.Decl:
        """The declaration without bounds that are computed from rows or their number."""
        changed: dict[str, Any] = {}
        for key in ("lower", "upper"):
            e = getattr(d.constraint, key)
            if e is None or d.name == self.obs:
                continue
            dep = self.flow.rows.of(e)
            if dep.kind in ("count", "sum", "coupled") or dep.stat:
                changed[key] = None
        if not changed:
            return d
        bounds = replace(d.constraint, **changed)
        if bounds.lower is None and bounds.upper is None:
            bounds = n.Constraint()
        return replace(d, constraint=bounds)

    def as_data(self, d: n.Decl) -> n.Decl:
        """A frozen variable as a declaration of the data block."""
        return n.Decl(d.name, self.sized_by_obs(d.size), line=d.line)

    def sized_by_obs(self, size: n.SizedType) -> n.SizedType:
        """Aliases of the number of observations replaced by its own name."""
        sized: n.SizedType = substituted(size, dict.fromkeys(self.counts, n.integer(self.obs)))
        return sized

    def generated(self) -> tuple[n.Stmt, ...]:
        """``log_lik``, and the local variables it needs."""
        log_lik = self.names.log_lik
        size = n.SizedType("vector", sizes=(n.Var(self.obs),))
        body = needed(self.point, {log_lik})
        while len(body) == 1 and isinstance(body[0], n.Block):
            body = list(body[0].body)
        writes = [s for b in body for s in n.walk(b) if _writes(s, log_lik)]
        zero = n.Decl(
            log_lik, size, value=n.call("rep_vector", n.ZERO, n.Var(self.obs), kind=n.VECTOR)
        )
        if len(writes) == 1:  # a single term: assigned, not added
            if body[-1] is writes[0] and isinstance(body[-1], n.Assign):
                last = body[-1]
                if len(body) == 1:
                    return (n.Decl(log_lik, size, value=last.value),)
                return (n.Decl(log_lik, size), n.Block((*body[:-1], replace(last, op="="))))
            loop = body[-1]
            skips = any(isinstance(s, n.Continue) for s in n.walk(loop))
            if isinstance(loop, n.For) and names_in(loop.upper) & self.counts and not skips:
                inner = body_of(loop.body)
                if inner and inner[-1] is writes[0] and isinstance(inner[-1], n.Assign):
                    done = (*inner[:-1], replace(inner[-1], op="="))
                    body = [*body[:-1], replace(loop, body=n.Block(done))]
                    zero = n.Decl(log_lik, size)
        if any(isinstance(s, n.Decl) for s in body):
            return (zero, n.Block(tuple(body)))
        return (zero, *body)


def _writes(s: n.Node, name: str) -> bool:
    return isinstance(s, n.Assign) and name in names_in(s.target)


def _is_check(s: n.Stmt) -> bool:
    """A statement that only tests and rejects."""
    inner = list(n.walk(s))
    return any(isinstance(x, n.Message) for x in inner) and not any(
        isinstance(x, n.Assign | n.Decl) for x in inner
    )


def _statements(body: Sequence[n.Stmt]) -> list[n.Stmt]:
    """All simple statements below, each once."""
    return [
        s
        for b in body
        for s in n.walk(b)
        if isinstance(s, n.Statement) and not isinstance(s, n.Block | n.Profile)
    ]


def _reads(s: n.Stmt, name: str) -> set[str]:
    """Names that a statement reads, its own accumulation of `name` aside."""
    match s:
        case n.Assign(target=target) if name in {v.name for v in target_vars(target)}:
            return set() if added(s) is not None or name not in names_in(s.value) else {name}
        case n.If(condition=e) | n.While(condition=e) | n.ForEach(sequence=e):
            return names_in(e)
        case n.For():
            return names_in(s.lower) | names_in(s.upper)
        case n.Decl():
            return names_in(s.value)
    return names_in(s)
