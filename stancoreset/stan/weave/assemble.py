"""The weighted program, printed, and how its data are made."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from stancoreset.errors import WeaveError
from stancoreset.stan.syntax import body_of, names_in, printer, stanc, substituted
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.counts import data_dependences
from stancoreset.stan.weave.domain import FREE
from stancoreset.stan.weave.draft import Draft, Entry
from stancoreset.stan.weave.freeze import freezing_block
from stancoreset.stan.weave.outcome_statistics import outcome_statistics
from stancoreset.stan.weave.switches import checks
from stancoreset.stan.weave.table import Table

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
    written : mapping of str to int or Expr
        `obs` and what the original program has in its place: a number (``vector[504] y``), or an
        expression of other data (``vector[sum(n)] y``); empty otherwise.
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
    written: Mapping[str, int | n.Expr] = field(default_factory=dict)
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
        return any(e.name.startswith(_SOLVERS) for e in n.find_all(self.tree, n.Call))


def woven(draft: Draft) -> Woven:
    """The weighted program of a draft that has gone through all passes."""
    computed = {s.name for s in draft.program.transformed_data if isinstance(s, n.Decl)}
    rejections = (*draft.checks, *checks(draft.dropped, computed))
    frozen = _used(draft, rejections)
    names = [d.name for d in frozen]
    tree = _tree(draft, frozen, rejections)
    everything = (
        *tree.transformed_data, *tree.transformed_parameters, *tree.generated_quantities,
    )  # fmt: skip
    by_row = {name for name in names if draft.deps.get(name, FREE).kind == "rowwise"}
    conditioned = outcome_statistics(draft.program, frozen, everything, by_row | draft.rows.keys())
    numbers = [d for d in draft.computed if d.name not in draft.frozen]
    declared = [draft.frozen.get(d.name, d) for d in frozen]
    frozen_code, outputs = freezing_block(draft.program, declared, (*draft.added, *numbers))
    return Woven(
        code=formatted(_comment(draft, names, conditioned), tree),
        obs=draft.obs,
        rows={k: v for k, v in draft.rows.items() if k not in draft.frozen or k in names},
        explanation=_explanation(draft, frozen),
        frozen=outputs,
        frozen_code=frozen_code,
        weights=draft.names.weights,
        log_lik=draft.names.log_lik,
        tree=tree,
        shared=frozenset(draft.merged),
        numbered=draft.numbered or bool(draft.added),
        outcome_statistics=conditioned,
        written=draft.written,
        counted=draft.counted,
    )


def formatted(comment: Iterable[str], tree: n.Program) -> str:
    """The program as stanc formats it, with paragraphs of a comment at its head."""
    header = "".join(f"// {line}\n" for text in comment for line in textwrap.wrap(text, 75))
    code = stanc.auto_format(header + printer.program(tree), filename="woven.stan")
    return code.rstrip() + "\n"


def _used(draft: Draft, rejections: Sequence[n.Stmt]) -> list[n.Decl]:
    """The frozen variables that the program still reads, and those in their sizes."""
    kept = (
        *draft.parameters, *draft.transformed_parameters, *draft.model, *draft.log_lik,
        *draft.transformed_data, *draft.constants, *rejections,
    )  # fmt: skip
    used = names_in((*kept, *(d.size for d in draft.program.data)))
    for d in reversed(draft.computed):
        if d.name in used:
            used |= names_in(d.size)
    return [d for d in draft.computed if d.name in used]


def _tree(draft: Draft, frozen: Sequence[n.Decl], rejections: Sequence[n.Stmt]) -> n.Program:
    transformed_data = (
        replace(s, size=_sized_by_obs(s.size, draft)) if isinstance(s, n.Decl) else s
        for s in draft.transformed_data
    )
    return n.Program(
        functions=draft.program.functions,
        data=_data_block(draft, frozen),
        transformed_data=(*transformed_data, *draft.constants, *rejections),
        parameters=draft.parameters,
        transformed_parameters=draft.transformed_parameters,
        model=draft.model,
        generated_quantities=_generated(draft),
    )


def _explanation(draft: Draft, frozen: Sequence[n.Decl]) -> tuple[Entry, ...]:
    """The role of each of the author's statements, by line."""
    why = "computed once from the full data"
    added = {s.name for s in draft.added if isinstance(s, n.Decl)}
    own = [d for d in frozen if d.line and d.name not in added]
    entries = [Entry(d.line, printer.statement(d), "frozen", why) for d in own]
    entries += draft.entries.values()
    if draft.counted:  # whose count is ours
        entries = [
            replace(e, why=e.why.replace(f"over {draft.obs}", "over cells")) for e in entries
        ]
    return tuple(sorted(entries, key=lambda e: e.line))


def _comment(draft: Draft, frozen: Sequence[str], conditioned: Sequence[str]) -> list[str]:
    """The comment at the head of the woven program: what weaving did."""
    lines = sorted({s.line for s in draft.weighted})
    rows = ", ".join(name for name in draft.rows if name not in draft.frozen)
    weights, log_lik = draft.names.weights, draft.names.log_lik
    text = [
        f"Woven by stancoreset. Each of the {draft.obs} observations adds {weights}[n] times its "
        f"log likelihood to the log density; {log_lik}[n] is that log likelihood without the "
        "weight.",
        f"Weighted: line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines))} of the "
        f"original program. Data with one entry per observation: {rows or ', '.join(draft.rows)}.",
    ]
    if draft.merged:
        text.append(
            f"{', '.join(draft.merged)} must equal {draft.obs}: a row is all that was observed "
            "on one unit. To weight the rows of one outcome alone, name its count with obs=."
        )
    if frozen:
        text.append(f"Computed once from the full data, now data: {', '.join(frozen)}.")
    if conditioned:
        text.append(
            f"{log_lik} is no pointwise likelihood, for outcomes of all rows are in "
            f"{', '.join(conditioned)}."
        )
    return text


def _data_block(draft: Draft, frozen: Sequence[n.Decl]) -> tuple[n.Decl, ...]:
    weights = n.Decl(
        draft.names.weights,
        n.SizedType("vector", sizes=(n.integer(draft.obs),)),
        n.Constraint("bounds", lower=n.ZERO),
    )
    given = data_dependences(draft.program, draft.obs)
    block: list[n.Decl] = []
    for d in draft.data:
        dep = given[d.name]
        if dep.kind == "coupled":  # read or not, it would have to fit fewer rows
            raise WeaveError(
                d.line,
                f"{dep.why}: it would not fit fewer rows; give it a size of its own "
                f"(`int n_{d.name};`), or leave it out",
                d.name,
            )
        if d.name == draft.obs:
            d = replace(d, constraint=weights.constraint)
        block.append(d)
    numbers = {d.name for d in frozen}
    late = [d for d in block if names_in(d.size) & numbers]
    first = [d for d in block if d not in late]
    handed = (n.Decl(d.name, _sized_by_obs(d.size, draft), line=d.line) for d in frozen)
    return (*first, weights, *handed, *late)


def _sized_by_obs(size: n.SizedType, draft: Draft) -> n.SizedType:
    """Aliases of the number of observations replaced by its own name."""
    return substituted(size, dict.fromkeys(draft.aliases, n.integer(draft.obs)))


def _generated(draft: Draft) -> tuple[n.Stmt, ...]:
    """``log_lik``, and the local variables it needs."""
    log_lik, obs = draft.names.log_lik, n.Var(draft.obs)
    size = n.SizedType("vector", sizes=(obs,))
    body = list(draft.log_lik)
    while len(body) == 1 and isinstance(body[0], n.Block):
        body = list(body[0].body)
    writes = [s for s in n.find_all(body, n.Assign) if log_lik in names_in(s.target)]
    zero = n.Decl(log_lik, size, value=n.call("rep_vector", n.ZERO, obs, kind=n.VECTOR))
    if len(writes) == 1:  # a single term: assigned, not added
        if body[-1] is writes[0] and isinstance(body[-1], n.Assign):
            last = body[-1]
            if len(body) == 1:
                return (n.Decl(log_lik, size, value=last.value),)
            return (n.Decl(log_lik, size), n.Block((*body[:-1], replace(last, op="="))))
        loop = body[-1]
        skips = any(n.find_all(loop, n.Continue))
        if isinstance(loop, n.For) and names_in(loop.upper) & draft.aliases and not skips:
            inner = body_of(loop.body)
            if inner and inner[-1] is writes[0] and isinstance(inner[-1], n.Assign):
                done = (*inner[:-1], replace(inner[-1], op="="))
                body = [*body[:-1], replace(loop, body=n.Block(done))]
                zero = n.Decl(log_lik, size)
    if any(isinstance(s, n.Decl) for s in body):
        return (zero, n.Block(tuple(body)))
    return (zero, *body)
