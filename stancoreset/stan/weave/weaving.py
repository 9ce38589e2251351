"""The weighted version of any Stan program, or a refusal with line and reason.

The log density of a program is a sum of terms. `weave` finds those that belong to single
observations (rows), multiplies each by the row's weight, and defines their values without
weights as ``vector[N] log_lik`` in generated quantities:

    log p_w(θ, y) = log p(θ) + Σ_n w_n log p(y_n | θ)

Everything else stays as it is, and what cannot be taken apart into rows is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NoReturn

from stancoreset.errors import WeaveError
from stancoreset.stan.syntax import expression, increments, names_in, parse
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.assemble import NoLikelihoodError, Weaver, Woven
from stancoreset.stan.weave.cells import in_long_form
from stancoreset.stan.weave.count_elements import with_counts_of_their_own, with_lengths
from stancoreset.stan.weave.counts import (
    candidates,
    data_dependences,
    merged,
    shared_counts,
    with_count,
)
from stancoreset.stan.weave.hoisted import with_values_hoisted
from stancoreset.stan.weave.inlining import without_densities, without_partial_sums
from stancoreset.stan.weave.left_selections import without_left_selections
from stancoreset.stan.weave.library import density, suffix
from stancoreset.stan.weave.one_table import in_one_table
from stancoreset.stan.weave.outcome_statistics import outcomes
from stancoreset.stan.weave.own_scratch import with_own_scratch
from stancoreset.stan.weave.products import with_products_by_row
from stancoreset.stan.weave.segments import without_segments
from stancoreset.stan.weave.separate import Entry
from stancoreset.stan.weave.sparse import without_sparse_products
from stancoreset.stan.weave.spelling import in_one_spelling

__all__ = ["Entry", "Woven", "weave"]


def weave(
    program: str | n.Program,
    obs: str | None = None,
    *,
    include_paths: Sequence[str | Path] = (),
    filename: str = "model.stan",
) -> Woven:
    """Weight every observation's contribution to the log density of a Stan program.

    Parameters
    ----------
    program : str or nodes.Program
        Stan source, or its syntax tree.
    obs : str, optional
        The data integer that counts observations; found by itself where only one can be meant.
        Several (``"N_y1, N_y2"``) count blocks of rows that all are weighted, in one table.
    include_paths : sequence of path, optional
        Folders in which ``#include`` looks.
    filename : str, optional
        Name used in Stan's messages.

    Returns
    -------
    Woven

    Raises
    ------
    CompileError
        The program itself has an error.
    WeaveError
        Its observations cannot be weighted one by one; `line` and `reason` say why.

    Examples
    --------
    >>> woven = weave('''
    ... data { int N; vector[N] y; }
    ... parameters { real mu; }
    ... model { mu ~ normal(0, 10); y ~ normal(mu, 1); }''')
    >>> woven.obs, dict(woven.rows)
    ('N', {'y': 0})
    >>> [(e.line, e.role) for e in woven.explanation]
    [(4, 'prior'), (4, 'likelihood')]
    """
    if isinstance(program, str):
        program = parse(program, include_paths=include_paths, filename=filename)
    plain = with_values_hoisted(without_partial_sums(in_one_spelling(program)))
    program, written = with_count(with_products_by_row(plain))
    if obs is not None and "," in obs:
        return replace(_by_counts(program, obs), written=written)
    whole = without_densities(program, in_loops=False)
    if whole is not program:  # written out, a density of all rows stays one expression
        with suppress(WeaveError):
            return replace(_weave(whole, obs), written=written)
    try:
        return replace(_weave(program, obs), written=written)
    except CountsError as error:
        with suppress(WeaveError):
            return in_one_table(program, error.counts, _counted)
        raise
    except WeaveError:  # the reason against the program as it was written is told
        plain = without_densities(program)
        for other in (_rewritten, _by_cells, _with_own_scratch, _by_elements, _by_switches):
            with suppress(WeaveError):
                woven = other(plain, obs)
                if woven is not None:
                    return replace(woven, written=written)
        raise


def _counted(program: n.Program, count: str) -> Woven:
    return Weaver(program, count).woven()


def _by_counts(program: n.Program, obs: str) -> Woven:
    """The program woven along several counts that the user names."""
    names = tuple(name.strip() for name in obs.split(","))
    possible = candidates(program)
    if len({*names}) < len(names) or not {*names} <= {*possible}:
        raise WeaveError(
            0,
            f"obs={obs!r} is no list of different integers that size data; those are "
            f"{', '.join(possible) or 'none'}",
        )
    return in_one_table(program, names, _counted)


def _rewritten(program: n.Program, obs: str | None) -> Woven | None:
    """The program woven with its segments and selected rows written out; None if it has none."""
    plain = without_left_selections(without_segments(program))
    added = plain.transformed_data[len(program.transformed_data) :]
    return None if plain is program else _weave(plain, obs, added)


def _by_cells(program: n.Program, obs: str | None) -> Woven | None:
    """The program woven by the cells of its tables; None if it models none.

    Tables without a parameter for each row or column may have rows or columns as observations.
    """
    long = in_long_form(program)
    if long is None or obs not in (None, long.obs):
        return None
    sizes = set().union(*(names_in(d.size) for d in program.parameters))
    if obs is None and not sizes & {*long.sizes}:
        return None
    woven = Weaver(long.program, long.obs, added=long.added).woven()
    return replace(woven, counted={long.obs: long.sizes})


def _with_own_scratch(program: n.Program, obs: str | None) -> Woven | None:
    """The program woven with scratch containers for each row; None if it has none for all rows."""
    owned = with_own_scratch(program)
    return None if owned is None else _weave(owned.program, obs, checks=owned.checks)


def _by_elements(program: n.Program, obs: str | None) -> Woven | None:
    """The program woven along both counts that are elements of an array; None if it has none."""
    separated = with_counts_of_their_own(program)
    if separated is None or obs is not None:
        return None
    for counts in separated.pairs:
        original, lengths = with_lengths(separated.program, counts)
        padded = without_sparse_products(original)
        plain = original if padded is None else padded.program
        original = replace(original, transformed_data=plain.transformed_data)
        with suppress(WeaveError):
            woven = in_one_table(plain, counts, _with_switches, original)
            assert woven.table is not None
            table = replace(
                woven.table, data=program.data, elements=separated.elements, lengths=lengths
            )
            return replace(woven, table=table, numbered=padded is not None)
    return None


def _with_switches(program: n.Program, count: str) -> Woven:
    return Weaver(program, count, switches=True).woven()


def _by_switches(program: n.Program, obs: str | None) -> Woven | None:
    """The program woven for data that choose what can be weighted, its sparse designs by row."""
    padded = without_sparse_products(program)
    if padded is None:
        return _weave(program, obs, switches=True)
    return _weave(padded.program, obs, padded.added, switches=True)


def _weave(
    program: n.Program,
    obs: str | None,
    added: Sequence[n.Stmt] = (),
    *,
    checks: Sequence[n.Stmt] = (),
    switches: bool = False,
) -> Woven:
    """The program woven along one count, or along several that are the same.

    `added` are statements of its transformed data that the author's program has not; `checks` and
    `switches` are those of `Weaver`.
    """
    weaver = partial(Weaver, added=added, checks=checks, switches=switches)
    try:
        return _along(program, obs, weaver)
    except WeaveError as error:
        telling = error
        for count, others in shared_counts(program).items():
            if obs not in (None, count):
                continue
            try:
                return weaver(merged(program, count, others), count, others).woven()
            except WeaveError as other:  # of the program as it is meant
                telling = other
        raise telling from None


def _along(program: n.Program, obs: str | None, make: Callable[..., Weaver]) -> Woven:
    """The program woven along `obs`, or along the only axis that can be meant."""
    possible = candidates(program)
    if obs is not None:
        if obs not in program.integers:
            integers = ", ".join(d.name for d in program.data if d.name in program.integers)
            raise WeaveError(
                0,
                f"obs={obs!r} is not an integer of the data block; those are {integers or 'none'}",
            )
        return make(program, obs).woven()
    if not possible:
        raise WeaveError(
            0,
            "no data variable has a dimension that a data integer counts, so there are no "
            "observations to choose from; declare for example `int N; vector[N] y;`",
        )
    found: dict[str, Weaver] = {}
    refused: dict[str, WeaveError] = {}
    for name in possible:
        try:
            weaver = make(program, name)
            weaver.walk()
            found[name] = weaver
        except WeaveError as error:
            refused[name] = error
    if not found:
        raise _most_telling(program, refused)
    return _choose(program, found, refused).woven()


def _choose(
    program: n.Program, found: Mapping[str, Weaver], refused: Mapping[str, WeaveError]
) -> Weaver:
    """The weaver that weights most statements, then most data; refuse if none dominates."""
    found = {
        name: inner
        for name, inner in found.items()
        if not any(_within(program, inner, outer) for outer in found.values())
    }
    with_values = {k: w for k, w in found.items() if not _only_indexes(program, w)}
    found = with_values or found  # the edges of a graph that a prior smooths over are no rows
    best = max(found, key=lambda k: (len(found[k].weighted), len(found[k].row_data)))
    rivals = {}
    for name, other in found.items():
        if name == best:
            continue
        covered = other.weighted <= found[best].weighted
        same = len(other.weighted) == len(found[best].weighted)
        fewer = len(other.row_data) < len(found[best].row_data)
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


def _refuse_rivals(program: n.Program, best: Weaver, rivals: Mapping[str, Weaver]) -> NoReturn:
    """Refuse to choose one of several counts."""
    weavers = {best.obs: best, **rivals}
    found = [d for d in program.data if d.name in weavers]
    names = [d.name for d in found]
    options = " or ".join(f'obs="{name}"' for name in names)
    reason = (
        f"each of `{'` and `'.join(names)}` can count the observations; say which with {options} "
        "(the others are kept as they are)"
    )
    weighted = [s for name in names for s in weavers[name].weighted]
    if len({*weighted}) < len(weighted):
        raise WeaveError(found[1].line, reason)
    reason += (
        "; to weight all, as of observed and censored times, put them in one table with a column "
        "that says which density a row has, and branch on it in a loop over all rows"
    )
    raise CountsError(found[1].line, reason, tuple(names))


def _across(program: n.Program, columns: Weaver, rows: Weaver) -> bool:
    """Whether an outcome has `rows` as an earlier dimension than `columns`.

    ``matrix[N, T] y`` with times ``vector[T] x``, the same for all rows, has more data along T,
    and yet its rows are meant; users who mean the columns say so with ``obs``.
    """
    shared = columns.row_data.keys() & rows.row_data.keys()
    modelled = set().union(*map(outcomes, _increments(program)))
    return any(rows.row_data[y] < columns.row_data[y] for y in shared & modelled)


def _within(program: n.Program, inner: Weaver, outer: Weaver) -> bool:
    """Whether rows of `inner` are only summed within the terms of single rows of `outer`.

    So are the nodes of a quadrature in the integral that is one patient's term, and the items in
    the score of one person. They are not observations, unless their data are outcomes that the
    rows of `outer` lack.
    """
    adding = set(_increments(program))
    entries = inner.flow.entries.items()
    touched = adding & {s for s, e in entries if e.role in ("likelihood", "mixed")}
    modelled = set().union(*map(outcomes, program.model))
    return (
        bool(touched)
        and not inner.weighted & adding
        and touched <= outer.weighted
        and modelled & inner.row_data.keys() <= outer.row_data.keys()
    )


def _refuse_if_another_is_meant(
    program: n.Program, chosen: Weaver, refused: Mapping[str, WeaveError]
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
        modelled = {s for s in _increments(program) if outcomes(s) & sized}
        left = modelled - chosen.weighted
        # ``Y[which] ~ normal(latent[which], noise[which])`` has a parameter for each row of Y
        latent = modelled and any(name in names_in(d.size) for d in program.parameters)
        only_indexes = _only_indexes(program, chosen)
        fewer = len(chosen.row_data) <= len(sized)
        if (left and (fewer or only_indexes)) or (latent and only_indexes):
            raise WeaveError(
                error.line,
                f"{error.why} (to weight the rows counted by `{chosen.obs}` instead and keep "
                f'the others as they are, pass obs="{chosen.obs}")',
                error.statement,
            )


def _refuse_columns(
    program: n.Program, chosen: Weaver, rows: str, axes: Mapping[str, int], error: WeaveError
) -> None:
    """Refuse to weight the columns of a wide outcome whose rows were meant but cannot be.

    In ``matrix[N, T] y`` with a parameter for each of the N rows, the T columns could be
    weighted; but an observation is a row, or a single entry, and never silently a column.
    """
    for s in _increments(program):
        if s not in chosen.weighted or _of_vectors(s):
            continue
        for y in sorted(outcomes(s) & axes.keys() & chosen.row_data.keys()):
            if axes[y] < chosen.row_data[y]:
                raise WeaveError(
                    error.line,
                    f"`{y}` has observations in rows and columns, and those along `{rows}` cannot "
                    f"be weighted: {error.why}. Alternatively, declare the data in long form, "
                    f"one observation per entry of `{y}` with the numbers of its row and column, "
                    "so that parameters belong to groups of observations (to weight the columns "
                    f'as they are, pass obs="{chosen.obs}")',
                    error.statement,
                )


def _increments(program: n.Program) -> list[n.Tilde | n.TargetAdd]:
    return [s for b in program.model for s in increments(b)]


def _of_vectors(s: n.Tilde | n.TargetAdd) -> bool:
    """Whether the density is of whole vectors, as ``Y[, n] ~ multi_normal(mu, S)``."""
    if isinstance(s, n.Tilde):
        names = [s.distribution]
    else:
        names = [suffix(e.name)[0] for e in n.walk(s) if isinstance(e, n.Call)]
    return any(known.rank(0) > 0 for name in names if (known := density(name)) is not None)


def _indices(s: n.Stmt) -> set[str]:
    """Names in indices."""
    return set().union(
        *(names_in(i) for e in n.walk(s) if isinstance(e, n.Index) for i in e.indices)
    )


def _only_indexes(program: n.Program, chosen: Weaver) -> bool:
    """Whether all row data only pick elements of something else."""
    body = (*program.transformed_parameters, *program.model)
    return not any(_outside_indices(s) & chosen.row_data.keys() for s in body)


def _outside_indices(node: n.Node) -> set[str]:
    """Names that stand anywhere but in an index."""
    if isinstance(node, n.Var):
        return {node.name}
    below = (node.base,) if isinstance(node, n.Index) else n.children(node)
    return set().union(*map(_outside_indices, below))


def _most_telling(program: n.Program, refused: Mapping[str, WeaveError]) -> WeaveError:
    """The refusal along the integer that sizes an outcome, and most data variables.

    Where none sizes an outcome, the outcome's own size is the reason.
    """
    modelled = set().union(*(outcomes(s) - _indices(s) for s in _increments(program)))

    def weight(name: str) -> tuple[bool, bool, int]:
        deps = data_dependences(program, name)
        sized = {k for k, d in deps.items() if d.kind in ("rowwise", "coupled")}
        error = refused[name]
        return (not isinstance(error, NoLikelihoodError), bool(sized & modelled), len(sized))

    best = max(refused, key=weight)
    unsized = [d for d in program.data if d.name in modelled and d.size.dims]
    if not weight(best)[1] and unsized:
        d = unsized[0]
        size = expression(d.size.dims[0])
        return WeaveError(
            d.line,
            f"the outcome `{d.name}` has the size {size}, and rows must be counted by a data "
            f"integer; declare one, `int N;`, and use it as the size of all that has an entry for "
            "each row",
            d.name,
        )
    return refused[best]
