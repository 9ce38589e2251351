"""The weighted version of any Stan program, or a refusal with line and reason.

The log density of a program is a sum of terms. `weave` finds those that belong to single
observations (rows), multiplies each by the row's weight, and defines their values without
weights as ``vector[N] log_lik`` in generated quantities:

    log p_w(θ, y) = log p(θ) + Σ_n w_n log p(y_n | θ)

Everything else stays as it is, and what cannot be taken apart into rows is refused.

A program goes through `STAGES`, from draft to draft: passes that write in one way what can be
written in several; a search among readings, of which the program as it stands is the first; and,
for each reading and along each data integer that may count its rows, the passes that prove it to be
a sum over rows and weight it. The first reading that they prove is taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import reduce
from itertools import combinations
from time import thread_time
from typing import TypeAlias

from stancoreset.errors import StancoresetError, WeaveError
from stancoreset.stan.syntax import declarations, expression, parse
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.accumulators import with_entries_summed
from stancoreset.stan.weave.advice import ALL_ROWS, AS_DATA
from stancoreset.stan.weave.assemble import Woven, woven
from stancoreset.stan.weave.axis import CountsError, choose, share_terms
from stancoreset.stan.weave.by_group import with_groups_filled_by_group
from stancoreset.stan.weave.cells import in_long_form, sizes_of_cells
from stancoreset.stan.weave.count_elements import with_counts_of_their_own
from stancoreset.stan.weave.counts import (
    candidates,
    merged,
    shared_counts,
    with_computed_count,
    with_count,
)
from stancoreset.stan.weave.draft import Draft, OutOfTimeError, Pass, through
from stancoreset.stan.weave.freeze import freeze
from stancoreset.stan.weave.gathered import with_selected_data_in_place
from stancoreset.stan.weave.hoisted import with_values_hoisted
from stancoreset.stan.weave.inlining import without_densities, without_partial_sums
from stancoreset.stan.weave.left_selections import without_left_selections
from stancoreset.stan.weave.local_numbers import without_local_numbers
from stancoreset.stan.weave.numbers import with_numbers_as_data
from stancoreset.stan.weave.one_row import one_row
from stancoreset.stan.weave.one_table import in_one_table
from stancoreset.stan.weave.own_states import with_own_scratch, with_positions_found
from stancoreset.stan.weave.places import with_values_at_their_places
from stancoreset.stan.weave.products import with_products_by_row
from stancoreset.stan.weave.reach import reach
from stancoreset.stan.weave.row_counts import with_row_counts_summed
from stancoreset.stan.weave.segments import segmented, without_segments
from stancoreset.stan.weave.selections import spread
from stancoreset.stan.weave.separate import separate
from stancoreset.stan.weave.slices import without_unread
from stancoreset.stan.weave.slices_as_loops import with_slices_as_loops
from stancoreset.stan.weave.sparse import without_sparse_products
from stancoreset.stan.weave.spelling import in_one_spelling
from stancoreset.stan.weave.vectorise import vectorise


def with_switches(draft: Draft) -> Draft:
    """Branches that the data choose may be left out; sparse designs become dense."""
    return replace(without_sparse_products(draft), switches=True)


def with_densities_written_out(draft: Draft, *, in_loops: bool = True) -> Draft:
    """Functions that add to the target are written out, without values that nothing reads."""
    out = without_densities(draft, in_loops=in_loops)
    return draft if out is draft else without_unread(out)


def with_whole_densities_written_out(draft: Draft) -> Draft:
    """Functions that add a density of all rows are written out, so that it stays one expression."""
    return with_densities_written_out(draft, in_loops=False)


#: Passes that every draft goes through, one after the other.
Chain: TypeAlias = tuple[Pass, ...]


@dataclass(frozen=True)
class Search:
    """Readings of a draft, in the order in which they are tried.

    The draft changed by `first`, and the draft as it stands; then, for each of the `spellings`,
    which build on each other, what it makes of the draft, and that read in one way more, by the
    passes of each of the `readings`. What these leave as it was is not tried again.
    """

    first: Pass
    spellings: tuple[Pass, ...]
    readings: tuple[Chain, ...]

    def drafts(self, draft: Draft) -> Iterator[Draft]:
        """Give the readings to try."""
        changed = self.first(draft)
        if changed is not draft:
            yield changed
        yield draft
        for spelled in self.spelled(draft):
            if spelled is not draft:
                yield spelled
            for read in self.readings:
                reading = reduce(lambda d, step: step(d), read, spelled)
                if reading is not spelled:
                    yield reading

    def spelled(self, draft: Draft) -> Iterator[Draft]:
        """Give what each spelling makes of the draft, of the first in any case."""
        for number, spell in enumerate(self.spellings):
            given, draft = draft, spell(draft)
            if not number or draft is not given:
                yield draft


#: The stages of weaving in order: a chain, the search, and a chain for each reading and each count
#: of rows. Nothing else rewrites a program.
STAGES: tuple[Chain, Search, Chain] = (
    (
        in_one_spelling,
        without_partial_sums,
        without_unread,
        with_values_hoisted,
        with_products_by_row,
        with_entries_summed,
        with_count,
    ),
    Search(
        first=with_whole_densities_written_out,
        spellings=(
            with_densities_written_out,
            without_local_numbers,
            with_selected_data_in_place,
            with_groups_filled_by_group,
            with_row_counts_summed,
            with_slices_as_loops,
            with_values_at_their_places,
            with_computed_count,
        ),
        readings=(
            (without_segments, without_left_selections, with_numbers_as_data),
            (in_long_form,),
            (in_long_form, with_positions_found, with_own_scratch),
            (with_counts_of_their_own, with_switches),
        ),
    ),
    (spread, freeze, vectorise, separate, one_row, reach),
)


def weave(program: str | n.Program, obs: str | None = None, *, seconds: float = 12.0) -> Woven:
    """Weight every observation's contribution to the log density of a Stan program.

    Parameters
    ----------
    program : str or nodes.Program
        Stan source, or its syntax tree.
    obs : str, optional
        The data integer that counts observations; found by itself where only one can be meant.
        Several (``"N_y1, N_y2"``) count blocks of rows that all are weighted, in one table. A
        variable of the data, as the outcome, means its entries; ``"cells"`` or ``"I × J"`` means
        the cells of a table, and ``"segments"`` the parts that a loop cuts an outcome into.
    seconds : float, optional
        Processor time for which readings are tried.

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
        program = parse(program)
    draft = Draft(program, until=thread_time() + seconds)
    try:
        return _found(draft, obs)
    except StancoresetError:
        raise
    except Exception as error:  # a fault of ours is no reason to lose the program's name and line
        raise WeaveError(
            0,
            f"the weaver failed on this program with {type(error).__name__}: {error}",
            advice="this is a fault of stancoreset, please report it with the program; a "
            "likelihood in one loop over all rows, `for (n in 1:N) target += …;`, needs the least "
            "rewriting",
        ) from error


def _found(draft: Draft, obs: str | None) -> Woven:
    """The first reading of a program that can be woven; else why it cannot as it was written."""
    written, search, proof = STAGES
    draft = _named(through(written, draft), obs, search)
    telling: WeaveError | None = None
    for reading in search.drafts(draft):
        try:
            return _woven(reading, proof)
        except OutOfTimeError as error:
            raise telling or error from None
        except CountsError as error:
            with suppress(WeaveError):
                return _woven(replace(reading, counts=error.counts), proof)
            if reading is draft:
                raise
        except WeaveError as error:  # the reason against the program as it was written is told
            if reading is draft:
                telling = error
            elif _tells_more(error, telling, reading):
                why = re.sub(r"row_number\w*\[(\w+)\]", r"\1", error.why)  # as users number rows
                telling = WeaveError(error.line, why, error.statement, advice=error.advice)
    assert telling is not None
    raise telling


def _tells_more(error: WeaveError, told: WeaveError | None, reading: Draft) -> bool:
    """Whether rows depend on each other where only their numbers, or a position, had been told."""
    if told is None or not reading.added or error.advice in (AS_DATA, ALL_ROWS):
        return False
    positions = (d.name for d in declarations(reading.program.model) if d.type == n.INT)
    carried = any(
        told.why.startswith(f"`{p}` keeps a value") and p not in error.why for p in positions
    )
    return told.advice in (AS_DATA, ALL_ROWS) or carried


def _named(draft: Draft, obs: str | None, search: Search) -> Draft:
    """The program with the counts that the user names, or with the cells of a table."""
    program = draft.program
    if obs is None:
        return draft
    sizes = sizes_of_cells(program, obs)
    if sizes:
        spelled = (replace(d, counts=sizes) for d in search.spelled(draft))
        cells = next((d for d in map(in_long_form, spelled) if d.counts != sizes), None)
        if cells is None:
            raise WeaveError(
                0,
                f"obs={obs!r} means the cells of {' × '.join(sizes)}, but no term of the log "
                "density is of single cells, in loops over rows and columns; name the integer that "
                "counts the observations",
            )
        return cells
    if obs in ("segment", "segments") and obs not in {d.name for d in program.data}:
        parts = segmented(with_densities_written_out(draft).program)
        if len(parts) != 1:
            raise WeaveError(
                0,
                f"obs={obs!r} means the parts that a loop cuts the data into, `segment(y, pos, "
                "s[j])` or `y[first[j]:last[j]]`; the integers that count such parts are "
                f"{', '.join(parts) or 'none'}; name the one that counts the observations",
            )
        return replace(draft, counts=tuple(parts))
    outcome = next((d for d in program.data if d.name == obs and len(d.size.dims) == 1), None)
    if outcome is not None:  # its entries
        obs = expression(outcome.size.dims[0])
        if not obs.isidentifier():  # their number is computed, and found by itself
            return draft
    if "," not in obs:
        return replace(draft, counts=(obs,))
    names = tuple(name.strip() for name in obs.split(","))
    possible = candidates(program)
    if len({*names}) < len(names) or not {*names} <= {*possible}:
        raise WeaveError(
            0,
            f"obs={obs!r} is no list of different integers that size data; those are "
            f"{', '.join(possible) or 'none'}",
        )
    return replace(draft, counts=names)


def _woven(draft: Draft, proof: Chain) -> Woven:
    """The program woven along one count, along several that are the same, or in one table."""
    if len(draft.counts) > 1:
        return _in_one_table(draft, proof)
    try:
        return woven(_proven(draft, proof))
    except WeaveError as error:
        telling = error
        for count, others in shared_counts(draft.program).items():
            if draft.counts not in ((), (count,)):
                continue
            try:
                return woven(through(proof, merged(draft, count, others)))
            except OutOfTimeError:
                break
            except WeaveError as other:  # of the program as it is meant
                telling = other
        raise telling from None


def _in_one_table(draft: Draft, proof: Chain) -> Woven:
    """The program woven along several counts, none of whose rows share a term."""
    alone: dict[str, Draft] = {}

    def along(one: Draft) -> Woven:
        found = through(proof, one)
        alone.setdefault(one.obs, found)
        return woven(found)

    made = in_one_table(draft, along)
    for (a, one), (b, other) in combinations(alone.items(), 2):
        if share_terms(one, other):
            raise WeaveError(
                0,
                f"a term of the log density is of rows of `{a}` and of `{b}`, so that they cannot "
                f"be rows of one table; name one of them with obs=, or, if each pair of them is an "
                "observation, declare the data in long form, one observation for each pair",
            )
    return made


def _proven(draft: Draft, proof: Chain) -> Draft:
    """The program proven along the count that is named, or along the only one that can be meant."""
    program = draft.program
    if draft.counts:
        if draft.obs not in program.integers:
            integers = ", ".join(d.name for d in program.data if d.name in program.integers)
            raise WeaveError(
                0,
                f"obs={draft.obs!r} is not an integer of the data block; those are "
                f"{integers or 'none'}",
            )
        return through(proof, draft)
    possible = candidates(program)
    if not possible:
        none = (
            "no data variable has a dimension that a data integer counts"
            if program.data
            else "the program declares no data"
        )
        raise WeaveError(
            0,
            f"{none}, so there are no observations to choose from; declare for example "
            "`int N; vector[N] y;`",
        )
    found: dict[str, Draft] = {}
    refused: dict[str, WeaveError] = {}
    for name in possible:
        try:
            found[name] = through(proof, replace(draft, counts=(name,)))
        except OutOfTimeError:
            if found or not refused:
                raise
            break
        except WeaveError as error:
            refused[name] = error
    return choose(program, found, refused)
