"""The weighted version of any Stan program: its own weights are recognised, others are woven in."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from stancoreset.engines import BoundModel, Engine, Float
from stancoreset.errors import DataError, EngineError, ProgramError
from stancoreset.stan import (
    LOG_LIK,
    WEIGHTS,
    StanProgram,
    WeightedProgram,
    uses_weights,
    weighted_program,
)
from stancoreset.stan.data import declared, index_words, not_finite
from stancoreset.stan.syntax import Names, assignments, parse, printer, renamed, sources
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave import Woven, frozen_values, weave, with_sizes_as_data

# Number of points to try for frozen variables, which do not depend on the parameters.
_POINTS = 8


@dataclass(frozen=True)
class Adopted:
    """The user's program and its weighted version.

    `original` has a literal number of observations replaced by data, and `source` is the text as
    the user wrote it; `woven` is None if the user wrote the weights. `asked` is the count of
    observations, or the two, that the user named.
    """

    original: StanProgram
    weighted: WeightedProgram
    woven: Woven | None = field(default=None, repr=False)
    source: str = field(default="", repr=False)
    asked: str | None = None

    @property
    def weaving(self) -> tuple[dict[str, Any], ...]:
        """Weighting of each statement that adds to the log density; empty if the user did it."""
        entries = () if self.woven is None else self.woven.explanation
        return tuple(
            {"line": e.line, "statement": e.text, "role": e.role, "why": e.why} for e in entries
        )

    @cached_property
    def density(self) -> StanProgram:
        """The original up to its model block, with the frozen variables of weaving.

        One executable serves for the density, with which the weighted version is compared, and for
        the frozen variables.
        """
        frozen = "" if self.woven is None else self.woven.frozen_code
        code = self.original.density_code.rstrip() + "\n" + frozen
        return replace(self.original, code=_computed_before(code) if frozen else code)

    @cached_property
    def _without_density(self) -> str:
        """The original's data with the frozen variables of weaving: no parameter, no density."""
        assert self.woven is not None
        tree = replace(
            self.original.tree,
            parameters=(),
            transformed_parameters=(),
            model=(),
            generated_quantities=(),
        )
        return _computed_before(printer.program(tree).rstrip() + "\n" + self.woven.frozen_code)

    @property
    def uses_solver(self) -> bool:
        """Whether the program solves equations numerically, which limits its precision."""
        return self.woven is not None and self.woven.uses_solver

    def complete(self, data: Mapping[str, Any], engine: Engine) -> dict[str, Any]:
        """Add the frozen variables, computed from all given rows, to checked data.

        Transformed data that reduce over rows (centring, scaling) would change with a subset of
        rows; the woven program takes them as data instead.
        """
        if self.woven is None or not self.woven.frozen:
            return dict(data)
        woven = self.woven
        names = {d.name for d in self.original.data}
        given = {name: value for name, value in data.items() if name in names}
        # A second executable would have to be compiled. Where it is free, a model need not be read:
        # of 200,000 zero-inflated rows, in a loop, it takes ten times as long as the variables.
        at_once = engine.capabilities.compiles_at_once
        code = self._without_density if at_once else self.density.code
        compiled = engine.compile(code, name=self.original.name)
        with compiled.bind(given) as bound:
            found = {name: values[0] for name, values in _anywhere(bound).items()}
        types: dict[str, n.Type] = {d.name: d.type for d in self.weighted.program.data}
        for name, output in woven.frozen.items():  # the engines give none without an element
            shape = np.zeros(types[name].rank, dtype=int)
            if name in self.weighted.rows:
                shape[self.weighted.rows[name]] = self.weighted.n_obs(data)
            found.setdefault(output, np.zeros(shape))
        values = frozen_values(woven.frozen, found, types)
        self._require_computed(values)
        return {**data, **values}

    def _require_computed(self, values: Mapping[str, Any]) -> None:
        """Refuse transformed data that are not finite; what no statement fills is nan."""
        for decl in self.original.tree.transformed_data:
            if not isinstance(decl, n.Decl) or decl.name not in values:
                continue
            value = np.asarray(values[decl.name])
            first, count = not_finite(value)
            if count:
                seen = f"has {value[first]} at {index_words(first)}" if first else f"is {value}"
                raise DataError(
                    f"transformed data '{decl.name}' of '{self.original.name}' {seen}"
                    f", declared as {declared(decl)} (line {decl.line}): no statement gives it a "
                    "value with these data, or its computation failed; check the sizes and the "
                    "values that it is computed from"
                )


def _anywhere(bound: BoundModel) -> dict[str, Float]:
    """The generated quantities, which do not depend on the parameters, at the first valid point.

    They require transformed parameters, which may not exist everywhere.
    """
    rng = np.random.default_rng(0)
    points = rng.uniform(-1, 1, (_POINTS, bound.n_params)) * np.linspace(0, 1, _POINTS)[:, None]
    for point in points[:-1]:
        with suppress(EngineError):
            return bound.generated(point[None], None)
    return bound.generated(points[-1:], None)


def _weighs_its_rows(program: StanProgram) -> bool:
    """Whether data called ``weights`` are weights of the rows.

    They are if the model uses them, and ``log_lik`` has the same size and does not: survey weights
    in brms come without ``log_lik``, other weights (of a prior, of classes) have another size, and
    a ``log_lik`` that reads them shows a covariate, or factors of the author's own.
    """
    data = {d.name: d for d in program.data}
    log_lik = [d for d in program.generated_quantities if d.name == LOG_LIK]
    if not log_lik or WEIGHTS not in data or not uses_weights(program.tree):
        return False
    sizes = [tuple(map(printer.expression, d.size.dims)) for d in (data[WEIGHTS], *log_lik)]
    tree = program.tree
    body = (*tree.transformed_data, *tree.transformed_parameters, *tree.generated_quantities)
    pairs = (pair for statement in body for pair in assignments(statement))
    return sizes[0] == sizes[1] and WEIGHTS not in sources(pairs, {LOG_LIK})


def _computed_before(code: str) -> str:
    """A program whose generated quantities only copy what transformed data compute.

    Of N elements that a loop in generated quantities assigns, stanli copies the vector N times.
    """
    program = parse(code)
    block = program.generated_quantities
    if not any(isinstance(s, n.For) for s in block):
        return code
    names, outputs = Names(program), [s for s in block if isinstance(s, n.Decl)]
    names.used |= {d.name for d in outputs}
    held = {d.name: names.fresh(d.name) for d in outputs}
    moved = renamed(block, held)
    copies = (replace(d, value=n.Var(held[d.name], type=d.type)) for d in outputs)
    return printer.program(
        replace(
            program,
            transformed_data=(*program.transformed_data, *moved),
            generated_quantities=tuple(copies),
        )
    )


def _refuse_tuples(program: StanProgram) -> None:
    for decl in program.parameters:
        if decl.size.base == "tuple":
            raise ProgramError(
                f"parameter '{decl.name}' (line {decl.line}) is a tuple, which has no array of "
                "draws and no transform outside Stan; declare its parts as parameters of their own"
            )


def adopt(program: StanProgram, obs: str | None = None) -> Adopted:
    """Recognise a hand-weighted program, or weave an unweighted one.

    `obs` names the data integer that counts observations, if it is ambiguous. A `ProgramError` is
    raised if a hand-weighted program does not meet the contract; a `WeaveError` if an unweighted
    one cannot be weighted row by row, with line and reason.

    >>> program = StanProgram.from_code(
    ...     "data { int N; vector[N] y; } parameters { real m; } model { y ~ normal(m, 1); }"
    ... )
    >>> adopt(program).weighted.origin
    'woven'
    """
    _refuse_tuples(program)
    if _weighs_its_rows(program):
        weighted = weighted_program(program, obs=obs)
        return Adopted(program, weighted, source=program.code, asked=obs)
    source, woven = program, weave(program.tree, obs)
    if woven.written:  # sizes that are written as literals, or computed, become data
        counted = with_sizes_as_data(program.tree, woven.written)
        program = StanProgram.from_code(printer.program(counted), name=program.name)
    if woven.table is not None:  # two counts become one table
        program = StanProgram.from_code(printer.program(woven.table.program), name=program.name)
    weighted = WeightedProgram(
        _with_lines_of(source, StanProgram.from_code(woven.code, name=program.name)),
        woven.obs,
        woven.rows,
        weights=woven.weights,
        log_lik=woven.log_lik,
        origin="woven",
        frozen=frozenset(woven.frozen),
        shared=woven.shared,
        outcome_statistics=woven.outcome_statistics,
        written=woven.written,
        counted=woven.counted,
        table=woven.table,
    )
    return Adopted(program, weighted, woven, source.code, obs)


def _with_lines_of(author: StanProgram, woven: StanProgram) -> StanProgram:
    """The woven program whose data are at the lines of the author's, which messages name."""
    lines = {d.name: d.line for d in author.data}
    data = tuple(replace(d, line=lines.get(d.name, d.line)) for d in woven.tree.data)
    return replace(woven, tree=replace(woven.tree, data=data))
