"""The choice of the count of observations among several data integers."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import NoReturn

from stancoreset.errors import WeaveError
from stancoreset.stan.syntax import bare, increments, names_in, outside_indices
from stancoreset.stan.syntax import expression as text
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.syntax import statement as statement_text
from stancoreset.stan.weave.cells import in_long_form, sizes_of_cells
from stancoreset.stan.weave.counts import data_dependences
from stancoreset.stan.weave.draft import Draft
from stancoreset.stan.weave.library import density, density_of
from stancoreset.stan.weave.outcome_statistics import outcomes
from stancoreset.stan.weave.separate import NoLikelihoodError


def choose(
    program: n.Program, found: Mapping[str, Draft], refused: Mapping[str, WeaveError]
) -> Draft:
    """The count, of those `found`, along which most statements are weighted, then most data.

    Refuses if none dominates, or if another is meant, one of those that are `refused`.
    """
    if not found:
        raise _most_telling(program, refused)
    found = {
        name: inner
        for name, inner in found.items()
        if not any(_within(program, inner, outer) for outer in found.values())
    }
    with_values = {k: w for k, w in found.items() if not _only_indexes(program, w)}
    found = with_values or found  # the edges of a graph that a prior smooths over are no rows
    best = max(found, key=lambda k: (len(found[k].weighted), len(found[k].rows)))
    rivals = {}
    for name, other in found.items():
        if name == best:
            continue
        covered = other.weighted <= found[best].weighted
        same = len(other.weighted) == len(found[best].weighted)
        fewer = len(other.rows) < len(found[best].rows)
        if covered and (not same or fewer) and not _across(program, found[best], other):
            continue
        rivals[name] = other
    if rivals:
        _refuse_rivals(program, found[best], rivals)
    _refuse_if_another_is_meant(program, found[best], refused)
    return found[best]


class CountsError(WeaveError):
    """Several data integers count observations, each of densities of their own."""

    def __init__(self, line: int, reason: str, counts: tuple[str, ...]) -> None:
        super().__init__(line, reason)
        self.counts = counts


def _refuse_rivals(program: n.Program, best: Draft, rivals: Mapping[str, Draft]) -> NoReturn:
    """Refuse to choose one of several counts."""
    drafts = {best.obs: best, **rivals}
    found = [d for d in program.data if d.name in drafts]
    names = [d.name for d in found]
    sizes = sizes_of_cells(program, "cells")
    cells = {*sizes} == {*names} and in_long_form(Draft(program, counts=sizes)).counts != sizes
    options = " or ".join(f'obs="{name}"' for name in (*names, *(["cells"] if cells else [])))
    reason = (
        f"each of `{'` and `'.join(names)}` can count the observations; say which with {options} "
        "(the others are kept as they are)"
    )
    if any(map(share_terms, *zip(*combinations(drafts.values(), 2), strict=True))):
        raise WeaveError(found[1].line, reason)
    reason += (
        "; to weight all, as of observed and censored times, put them in one table with a column "
        "that says which density a row has, and branch on it in a loop over all rows"
    )
    raise CountsError(found[1].line, reason, tuple(names))


def share_terms(one: Draft, other: Draft) -> bool:
    """Whether a term is weighted along both counts, as those of a table with rows and columns."""
    for s in one.weighted & other.weighted:
        terms = [_terms(draft, s) for draft in (one, other)]
        if not all(terms) or terms[0] & terms[1]:
            return True
    return False


def _terms(draft: Draft, s: n.Stmt) -> set[str]:
    """The terms of a user's statement that are sums over rows; none where it is one as a whole."""
    found = (p for x in (*draft.proven_parameters, *draft.proven_model) for p in x.all)
    own = [p for p in found if p.statement == s and p.kind == "rows" and len(p.pieces) > 1]
    return {text(x.value) for p in own for x in p.pieces if x.kind == "rows"}


def _across(program: n.Program, columns: Draft, rows: Draft) -> bool:
    """Whether an outcome has `rows` as an earlier dimension than `columns`.

    ``matrix[N, T] y`` with times ``vector[T] x``, the same for all rows, has more data along T,
    and yet its rows are meant; users who mean the columns say so with ``obs``.
    """
    shared = columns.rows.keys() & rows.rows.keys()
    modelled = outcomes(increments(program.model))
    return any(rows.rows[y] < columns.rows[y] for y in shared & modelled)


def _within(program: n.Program, inner: Draft, outer: Draft) -> bool:
    """Whether rows of `inner` are only summed within the terms of single rows of `outer`.

    So are the nodes of a quadrature in the integral that is one patient's term, and the items in
    the score of one person. They are not observations, unless their data are outcomes that the
    rows of `outer` lack.
    """
    adding = {s.as_written for s in increments(program.model)}
    entries = inner.entries.items()
    touched = adding & {s for s, e in entries if e.role in ("likelihood", "mixed")}
    modelled = outcomes(program.model)
    return (
        bool(touched)
        and not inner.weighted & adding
        and touched <= outer.weighted
        and modelled & inner.rows.keys() <= outer.rows.keys()
    )


def _refuse_if_another_is_meant(
    program: n.Program, chosen: Draft, refused: Mapping[str, WeaveError]
) -> None:
    """Refuse when the outcome that is left unweighted looks more like the observations.

    The edges of a graph can be weighted while the areas' counts cannot; but the counts are the
    observations, so the user must read why those cannot be weighted.
    """
    for name, error in refused.items():
        if isinstance(error, NoLikelihoodError):
            continue
        axes = {
            k: d.axis for k, d in data_dependences(program, name).items() if d.kind == "rowwise"
        }
        sized = set(axes)
        _refuse_columns(program, chosen, name, axes, error)
        modelled = {s for s in increments(program.model) if outcomes(s) & sized}
        left = {s.as_written for s in modelled} - chosen.weighted
        # ``Y[which] ~ normal(latent[which], noise[which])`` has a parameter for each row of Y
        latent = modelled and any(name in names_in(d.size) for d in program.parameters)
        only_indexes = _only_indexes(program, chosen)
        fewer = len(chosen.rows) <= len(sized)
        if (left and (fewer or only_indexes)) or (latent and only_indexes):
            raise WeaveError(
                error.line,
                f"{error.why} (to weight the rows counted by `{chosen.obs}` instead and keep "
                f'the others as they are, pass obs="{chosen.obs}")',
                error.statement,
            )


def _refuse_columns(
    program: n.Program, chosen: Draft, rows: str, axes: Mapping[str, int], error: WeaveError
) -> None:
    """Refuse to weight the columns of a wide outcome whose rows were meant but cannot be.

    In ``matrix[N, T] y`` with a parameter for each of the N rows, the T columns could be
    weighted; but an observation is a row, or a single entry, and never silently a column.
    """
    for s in increments(program.model):
        if s.as_written not in chosen.weighted or _of_vectors(s.as_written):
            continue
        of = outcomes(s) or names_in(s)  # as `y` in ``target += log(p[y[n, t]])``
        for y in sorted(of & axes.keys() & chosen.rows.keys()):
            if axes[y] < chosen.rows[y]:
                raise WeaveError(
                    error.line,
                    f"`{y}` has observations in rows and columns, and those along `{rows}` cannot "
                    f"be weighted: {error.why}. Alternatively, declare the data in long form, "
                    f"one observation per entry of `{y}` with the numbers of its row and column, "
                    "so that parameters belong to groups of observations (to weight the columns "
                    f'as they are, pass obs="{chosen.obs}")',
                    error.statement,
                )


def _of_vectors(s: n.Stmt) -> bool:
    """Whether the density is of whole vectors, as ``Y[, n] ~ multi_normal(mu, S)``."""
    names = {density_of(x)[0] for x in n.walk(s)}
    return any(known.rank(0) > 0 for name in names if (known := density(name)) is not None)


def _only_indexes(program: n.Program, chosen: Draft) -> bool:
    """Whether all row data only pick elements of something else."""
    body = (*program.transformed_parameters, *program.model)
    return not any(outside_indices(s) & chosen.rows.keys() for s in body)


def _most_telling(program: n.Program, refused: Mapping[str, WeaveError]) -> WeaveError:
    """The refusal along the integer that sizes an outcome and most data, or that none sizes one."""
    modelled: set[str] = set()
    for s in increments(program.model):
        modelled |= outcomes(s) - names_in(i for e in n.find_all(s, n.Index) for i in e.indices)
    grown = {statement_text(d): d.name for d in program.parameters}

    def weight(name: str) -> tuple[int, ...]:
        deps = data_dependences(program, name)
        sized = {k: d.axis for k, d in deps.items() if d.kind in ("rowwise", "coupled")}
        error = refused[name]
        return (
            any(sized[y] == 0 for y in sized.keys() & modelled),  # before columns of a table
            bool(sized.keys() & modelled),
            not isinstance(error, NoLikelihoodError),
            error.statement not in grown,
            len(sized),
        )

    best = max(refused, key=weight)
    found = [d for d in program.data if d.name in modelled and d.size.dims]
    unsized = [d for d in found if text(bare(d.size.dims[0])) not in refused]
    if not weight(best)[0] and unsized:
        d = unsized[0]
        size = text(d.size.dims[0])
        return WeaveError(
            d.line,
            f"the outcome `{d.name}` has the size {size}, and rows must be counted by a data "
            f"integer; declare one, `int N;`, and use it as the size of all that has an entry for "
            "each row",
            statement_text(d),
        )
    error = refused[best]
    tables = [
        d.name
        for d in program.data
        if d.name in modelled and len(d.size.dims) > 1 and best in names_in(d.size)
    ]
    if tables and error.statement in grown:
        advice = (
            f"or, if the entries of `{tables[0]}` do not depend on each other, declare them in "
            "long form, one row for each, with the number of its group: "
            f"`{tables[0]}[n] ~ …{grown[error.statement]}[g[n]]…`"
        )
        return WeaveError(error.line, error.why, error.statement, advice=advice)
    return error
