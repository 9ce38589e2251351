"""The arrays of a regression: outcome, design matrix, offsets, and effects of groups.

formulae codes the predictors, left of a bar too. Groups are index vectors and one number for each
row and effect: formulae's matrix of all groups is never made.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stancoreset.errors import DataError, OptionError
from stancoreset.formulas.additions import Additions, read_additions
from stancoreset.formulas.syntax import (
    FUNCTIONS,
    Argument,
    Bar,
    Formula,
    evaluating,
    formulae_module,
)

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Outcome:
    """The left side of a formula."""

    name: str
    values: NDArray[Any]  # (N,): numbers, or the number of each row's level, counted from zero
    levels: tuple[Any, ...] = ()  # of a categorical outcome, in order
    # Weights, trials and censoring; trials also of ``prop(successes, trials)``.
    beside: Additions = field(default_factory=Additions)


@dataclass(frozen=True, eq=False)
class Groups:
    """Effects that differ between the levels of a factor: one bar of a formula."""

    factor: str  # as it is written: ``carrier``, ``carrier:month``
    levels: list[Any]
    index: NDArray[np.int64]  # (N,): each row's level, counted from one
    effects: tuple[str, ...]  # names of the M effects
    # What each effect is multiplied by, (N,); None means one.
    values: tuple[NDArray[np.float64] | None, ...]
    correlated: bool
    # The effects as formulae's terms, which remember how they were coded.
    terms: tuple[Any, ...] = field(default=(), repr=False)


@dataclass(frozen=True, eq=False)
class Design:
    """The arrays that a formula makes of a table of N rows."""

    rows: int
    outcome: Outcome
    intercept: bool
    matrix: NDArray[np.float64]  # the predictors, without the intercept, (N, K)
    # Their names, by formulae: ``distance``, ``carrier[AS]``, ``bs(hour, df=4)[0]``.
    labels: tuple[str, ...]
    offset: NDArray[np.float64] | None  # (N,)
    groups: tuple[Groups, ...]
    # The predictors as formulae's terms, which remember how they were coded.
    terms: tuple[Any, ...] = field(default=(), repr=False)


def design_of(formula: Formula, frame: pd.DataFrame) -> Design:
    """Evaluate a formula on a table without missing values."""
    with evaluating(formula.text), np.errstate(all="ignore"):
        outcome = _outcome(formula, frame)
        terms = _terms(formula.common, frame)
        groups = tuple(_groups(bar, frame) for bar in formula.bars)
    return _design(outcome, terms, list(_columns(terms)), groups, frame)


def like_design(formula: Formula, design: Design, frame: pd.DataFrame) -> Design:
    """Evaluate the formula of a design on other rows, coded as the design's.

    Means of ``scale``, knots of ``bs`` and levels are those of the design. The outcome is that of
    the table, or empty if the table lacks it, or has it as levels; it is then not censored. A
    DataError is raised if a level is new.
    """
    with evaluating(formula.text), np.errstate(all="ignore"):
        try:
            columns = list(_columns(design.terms, frame))
            groups = tuple(map(partial(_like_groups, frame=frame), formula.bars, design.groups))
        except ValueError as error:
            words = " ".join(str(error).split())
            raise DataError(
                f"the rows cannot be coded as those that were fitted: {words}; leave these rows out"
            ) from error
        if formula.outcome.var_names <= set(frame.columns) and not design.outcome.levels:
            outcome = _outcome(formula, frame)
        else:
            nothing = np.zeros(len(frame))
            beside = _beside(formula, frame)
            if design.outcome.beside.censored is not None:
                beside = replace(beside, censored=nothing.astype(np.int64))
            if design.outcome.beside.upper is not None:
                beside = replace(beside, upper=nothing)
            outcome = replace(design.outcome, values=np.empty(0), beside=beside)
    return _design(outcome, design.terms, columns, groups, frame)


def _design(
    outcome: Outcome,
    terms: tuple[Any, ...],
    columns: list[tuple[str, list[str], Any]],
    groups: tuple[Groups, ...],
    frame: pd.DataFrame,
) -> Design:
    matrix, labels = _stacked([c for c in columns if c[0] not in ("intercept", "offset")], frame)
    offsets = [np.broadcast_to(np.ravel(c[2]), len(frame)) for c in columns if c[0] == "offset"]
    return Design(
        rows=len(frame),
        outcome=outcome,
        intercept=any(kind == "intercept" for kind, _, _ in columns),
        matrix=matrix,
        labels=labels,
        offset=_finite("the offset", sum(np.asarray(o, float) for o in offsets))
        if offsets
        else None,
        groups=groups,
        terms=terms,
    )


def _environment() -> Any:
    return formulae_module("environment").Environment([dict(FUNCTIONS)])


def _terms(terms: Iterable[Any], frame: pd.DataFrame) -> tuple[Any, ...]:
    """The terms, coded so that their columns have full rank, main effects first.

    formulae 0.9.0 shares one factor between both terms of ``f/x``, so that the second changes the
    names of the first, and cannot code ``f:g + f``, where an interaction stands first.
    """
    written = [copy.deepcopy(term) for term in terms]
    coded = sorted(written, key=lambda term: len(getattr(term, "components", ())))
    formulae_module("terms.terms").Model(*coded).eval(frame, _environment())
    return tuple(written)


def _columns(
    terms: Iterable[Any], other: pd.DataFrame | None = None
) -> Iterable[tuple[str, list[str], Any]]:
    """Kind, names and values of each term, or its values in other rows."""
    for term in terms:
        values = term.data if other is None else term.eval_new_data(other)
        yield term.kind, list(term.labels), values


def _stacked(
    columns: list[tuple[str, list[str], Any]], frame: pd.DataFrame
) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Columns as one matrix (N, K), with their names."""
    names = tuple(name for _, labels, _ in columns for name in labels)
    matrix = np.empty((len(frame), len(names)))
    start = 0
    for _, labels, values in columns:
        if not labels:  # which term is not said by a term without columns
            one = [str(c) for c in frame if frame[c].nunique() == 1]
            raise DataError(
                f"a predictor of the formula has a single level, so that no coefficient can be "
                f"estimated; columns with one value are {', '.join(map(repr, one))}: leave it out"
            )
        stop = start + len(labels)
        block = np.asarray(values, dtype=np.float64).reshape(len(frame), len(labels))
        matrix[:, start:stop] = _finite(f"the predictor {labels[0]!r}", block)
        start = stop
    return matrix, names


def _finite(what: str, values: Any) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64)
    wrong = ~np.isfinite(array)
    if wrong.any():
        raise DataError(
            f"{what} is {array[wrong][0]:g} in {int(wrong.sum()):,} of its values; expected finite "
            "numbers: leave these rows out, or write another formula"
        )
    return array


# Outcome ---------------------------------------------------------------------------------


def _outcome(formula: Formula, frame: pd.DataFrame) -> Outcome:
    found, beside = _left_side(formula, frame), _beside(formula, frame)
    if found.beside.trials is None:
        return replace(found, beside=beside)
    if beside.trials is not None:
        raise OptionError(
            f"formula {formula.text!r} gives the number of trials twice, by prop and by trials; "
            "write y | trials(n), without prop"
        )
    return replace(found, beside=replace(beside, trials=found.beside.trials))


def _beside(formula: Formula, frame: pd.DataFrame) -> Additions:
    """Values of the additions whose columns the table has."""
    there = set(frame.columns)
    values = {
        argument.text: _argument(argument, frame)
        for argument in formula.arguments
        if set(argument.variables) <= there
    }
    return read_additions(formula.additions, values)


def _argument(argument: Argument, frame: pd.DataFrame) -> Any:
    """A column, a number in every row, or an expression of columns."""
    if argument.number is not None:
        return np.full(len(frame), argument.number)
    if argument.terms is None:
        return frame[argument.variables[0]].to_numpy()
    ((_, _, values),) = _columns(_terms(argument.terms, frame))
    return np.ravel(values)


def _left_side(formula: Formula, frame: pd.DataFrame) -> Outcome:
    (component,) = formula.outcome.components
    level = getattr(component, "reference", None)
    if component.name not in frame.columns:
        return _computed(formula, component, frame)
    column = frame[component.name]
    if level is not None:
        known = column.cat.categories if hasattr(column, "cat") else column.unique()
        if level not in (texts := [str(value) for value in known]):
            raise DataError(
                f"the outcome {component.name!r} has no level {level!r}; it has "
                f"{', '.join(texts[:20])}"
            )
        return Outcome(component.name, (column.astype(str) == level).to_numpy(np.int64))
    if hasattr(column, "cat"):
        return Outcome(
            component.name, column.cat.codes.to_numpy(np.int64), tuple(column.cat.categories)
        )
    return Outcome(component.name, column.to_numpy())


def _computed(formula: Formula, component: Any, frame: pd.DataFrame) -> Outcome:
    """An outcome that is a call: ``log(y)``, ``prop(y, n)``."""
    formula.outcome.set_type(frame, _environment())
    formula.outcome.set_data(spans_intercept=True)
    values = component.value
    if component.kind == "proportion":
        return Outcome(component.name, values[:, 0], beside=Additions(trials=values[:, 1]))
    if component.kind == "categoric":
        return Outcome(component.name, values.argmax(axis=1), tuple(component.levels))
    return Outcome(component.name, np.asarray(values))


# Groups ----------------------------------------------------------------------------------


def _groups(bar: Bar, frame: pd.DataFrame) -> Groups:
    name = bar.factor.name
    index, levels = _levels(bar.factor, frame)
    if len(levels) < 2:
        raise DataError(
            f"the grouping factor {name!r} has one level, {levels[0]!r}, so that nothing differs "
            "between its levels; leave it out of the formula"
        )
    if len(levels) == len(frame):
        raise DataError(
            f"the grouping factor {name!r} has a level for every row, {len(frame):,}; expected "
            "levels of several rows, because leaving out a row of a coreset would leave out its "
            "effect: leave the factor out of the formula"
        )
    terms = _terms(bar.effects, frame)
    columns = list(_columns(terms))
    if any(kind == "offset" for kind, _, _ in columns):
        raise OptionError(
            f"the effects of the grouping factor {name!r} contain an offset, which has no "
            f"coefficient that could differ between groups; write it outside of (… | {name})"
        )
    labels, values = _effects(columns, frame)
    return Groups(
        factor=name,
        levels=levels,
        index=index + 1,
        effects=labels,
        values=values,
        correlated=bar.correlated and len(labels) > 1,
        terms=terms,
    )


def _like_groups(bar: Bar, groups: Groups, *, frame: pd.DataFrame) -> Groups:
    """The groups of other rows, whose levels must be known."""
    index, levels = _levels(bar.factor, frame)
    place = {level: number for number, level in enumerate(groups.levels, 1)}
    new = [level for level in levels if level not in place]
    if new:
        raise DataError(
            f"the grouping factor {groups.factor!r} has the level {new[0]!r}, which is none of the "
            f"{len(place):,} of the rows that were fitted: leave these rows out"
        )
    numbers = np.array([place[level] for level in levels], dtype=np.int64)
    _, values = _effects(list(_columns(groups.terms, frame)), frame)
    return replace(groups, index=numbers[index], values=values)


def _effects(
    columns: list[tuple[str, list[str], Any]], frame: pd.DataFrame
) -> tuple[tuple[str, ...], tuple[NDArray[np.float64] | None, ...]]:
    """Names of effects, and what each is multiplied by; None means one."""
    matrix, labels = _stacked(columns, frame)
    constant = [kind == "intercept" for kind, names, _ in columns for _ in names]
    return labels, tuple(None if one else matrix[:, j] for j, one in enumerate(constant))


def _levels(factor: Any, frame: pd.DataFrame) -> tuple[NDArray[np.int64], list[Any]]:
    """Each row's level, counted from zero, and the levels that occur, in order."""
    codes, levels = zip(*(_coded(part, frame) for part in factor.components), strict=True)
    if len(codes) == 1:
        return codes[0], levels[0]
    shape = tuple(len(own) for own in levels)
    used, index = np.unique(np.ravel_multi_index(codes, shape), return_inverse=True)
    parts = np.unravel_index(used, shape)
    texts = [np.array([str(v) for v in own])[at] for own, at in zip(levels, parts, strict=True)]
    return index.astype(np.int64), [":".join(cell) for cell in zip(*texts, strict=True)]


def _coded(component: Any, frame: pd.DataFrame) -> tuple[NDArray[np.int64], list[Any]]:
    """Codes and levels of one column, or of what a call makes of columns."""
    import pandas as pd

    if component.name in frame.columns:
        values = frame[component.name]
    else:
        component.set_type(frame, _environment())
        values = component.call.eval(frame, component.env)
        if not isinstance(values, pd.Series | np.ndarray):  # formulae's box of a category
            values = values.data
    if isinstance(values, pd.Series) and isinstance(values.dtype, pd.CategoricalDtype):
        kept = values.cat.remove_unused_categories().cat
        return np.asarray(kept.codes, dtype=np.int64), [_plain(v) for v in kept.categories]
    codes, levels = pd.factorize(np.asarray(values), sort=True)
    return np.asarray(codes, dtype=np.int64), [_plain(v) for v in levels]


def _plain(level: Any) -> Any:
    """A level as a label: a whole number, or text."""
    number = isinstance(level, Real) and not isinstance(level, bool | np.bool_)
    return int(level) if number and float(level).is_integer() else str(level)
