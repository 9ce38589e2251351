"""Further rows for a fitted program: read, completed, and perhaps without outcomes.

What rows share (sizes, constants of priors, codes of levels) is taken from the fit where the rows
do not say it. Outcomes that nobody has seen yet get values in their place, which nothing reads but
checks of the data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from stancoreset.analysis.pointwise import outcomes
from stancoreset.checks import is_whole, shown
from stancoreset.engines import Float, StanData
from stancoreset.errors import DataError, OptionError
from stancoreset.limits import NOISE
from stancoreset.program import Data, Session
from stancoreset.rows.glm import rows_of
from stancoreset.rows.tables import Source, StoredRows, Table, in_memory
from stancoreset.runs import CoresetFit
from stancoreset.stan import StanProgram, WeightedProgram
from stancoreset.stan.data import Scope, evaluate_int, raw_data

# Rows for each number of an affine function.
_ROWS_EACH = 2


@dataclass(frozen=True)
class NewRows:
    """Rows as data of the weighted program; `unknown` names the outcomes that they lack.

    `outcomes` are those that the author's program names; where it names none, because it writes a
    density out, a variable that is missing may be one. `tables` are the declarations of tables
    whose cells are unknown outcomes, by the cells' name.
    """

    program: WeightedProgram = field(repr=False)
    data: StanData = field(repr=False)
    unknown: tuple[str, ...] = ()
    outcomes: tuple[str, ...] = ()
    tables: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def count(self) -> int:
        """The number of rows."""
        return self.program.n_obs(self.data)

    @property
    def shared(self) -> StanData:
        """The data except the rows and their number."""
        if isinstance(self.data, StoredRows):
            return self.data.row_values
        rows = {*self.program.rows, self.program.weights, self.program.obs}
        return {name: value for name, value in self.data.items() if name not in rows}

    @property
    def some(self) -> StanData:
        """The rows in memory: all, or a random sample."""
        return in_memory(self.data)

    def require_outcomes(self, outcome: str | None) -> None:
        """Raise unless what the rows lack are outcomes; one is `outcome`, if that is known."""
        known = self.outcomes or (outcome,)
        lacking = [name for name in self.unknown if name not in known]
        if lacking:
            raise _lacking(self.program, lacking, [name for name in known if name])

    def chunks(self, size: int) -> Iterator[dict[str, Any]]:
        """All rows in order, at most `size` at a time, with the row as first axis."""
        data = self.data
        stored = data.chunks() if isinstance(data, StoredRows) else [rows_of(self.program, data)]
        for rows in stored:
            length = len(next(iter(rows.values())))
            for start in range(0, length, size):
                yield {name: value[start : start + size] for name, value in rows.items()}


def read_new_rows(
    session: Session,
    original: StanProgram,
    rows: Data,
    fit: CoresetFit | None,
    named: Iterable[str],
) -> NewRows:
    """Read rows for the program of a session; `original` is the author's, which names outcomes.

    Others that are `named` are outcomes, too. A `DataError` is raised if predictors are missing, or
    data have the wrong type or shape.
    """
    program = session.program
    known = {} if fit is None else _coreset_rows(program, fit)
    unseen = tuple(dict.fromkeys((*outcomes(original, program.rows), *named)))
    data: StanData
    if isinstance(rows, type) or not isinstance(rows, Source):
        try:
            raw = raw_data(rows)
        except (DataError, OptionError) as error:
            raise type(error)(f"rows: {error}") from error
        if program.counted or program.table is not None:  # what the user gives becomes a table
            tables = _unknown_cells(program, original, raw)
            stand_ins = {table.name: _filled(table, raw) for table in tables.values()}
            checked = program.check({**raw, **stand_ins})
            data = session.adopted.complete(checked, session.engine)
            session.choose_coordinates(data)
            return NewRows(program, data, tuple(tables), (*unseen, *tables), tables)
        data, unknown = _completed(program, raw, known, unseen)
    else:
        data, unknown = _opened(session, rows, known, unseen, fit)
    if program.frozen:
        data = {**data, **_frozen(program, data, known, unseen)}
    session.choose_coordinates(data)
    return NewRows(program, data, unknown, unseen)


def _coreset_rows(program: WeightedProgram, fit: CoresetFit) -> dict[str, Any]:
    """The data of a fit's coreset that the program declares; empty if the fit has kept none."""
    found = fit.data or {}
    declared = {d.name for d in program.program.data}
    return {name: value for name, value in found.items() if name in declared}


def _shared(program: WeightedProgram, known: StanData) -> dict[str, Any]:
    """The data of a coreset that hold for all rows: not rows, weights or counts of rows."""
    rows = {*program.rows, program.weights, program.obs, *program.shared, *program.counted}
    return {name: value for name, value in known.items() if name not in rows}


def _completed(
    program: WeightedProgram, raw: dict[str, Any], known: StanData, unseen: tuple[str, ...]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Rows in memory, checked, and the outcomes that they lack."""
    carried = [name for name in program.rows if name not in program.frozen]
    absent = {n for n in program.optional & known.keys() if not np.size(known[n])}
    lacking = [name for name in carried if name not in raw and name not in absent]
    predictors = [name for name in lacking if name not in unseen]
    if predictors and (unseen or len(lacking) > 1 or not _is_single(program, lacking[0])):
        raise _lacking(program, predictors, unseen, raw)
    raw = {**_shared(program, known), **{n: known[n] for n in absent}, **raw}
    if program.obs not in raw:
        raw |= dict.fromkeys((program.obs, *program.shared), _length(program, raw, carried))
    count = raw[program.obs]
    if not is_whole(count) or count < 1:
        raise DataError(
            f"rows: {program.obs} is {shown(count)}, expected the number of rows, at least 1"
        )
    for name in lacking:
        raw[name] = _stand_in(program, name, int(count), known)
    return program.check(raw), tuple(lacking)


def _lacking(
    program: WeightedProgram,
    lacking: Sequence[str],
    unseen: Sequence[str],
    given: Iterable[str] = (),
) -> DataError:
    carried = [n for n in program.rows if n not in program.frozen and n not in unseen]
    said = f"outcomes ({', '.join(unseen)}) only if known"
    if not unseen:
        said = "its outcome, if that is known (replicated= names one that is not)"
    others = [name for name in given if name not in {d.name for d in program.program.data}]
    hint = ""
    if others:
        hint = (
            f"; {', '.join(others[:5])} are no data of the program: for columns of a table, "
            f"stancoreset.Table(table, columns={{{lacking[0]!r}: {others[:5]}}})"
        )
    return DataError(
        f"the rows lack {', '.join(lacking)}; expected every predictor of the program "
        f"({', '.join(carried)}), and {said}{hint}"
    )


def _length(program: WeightedProgram, raw: Mapping[str, Any], carried: list[str]) -> int:
    """The number of rows, by their first variable."""
    for name in carried:
        shape = np.shape(raw[name]) if name in raw else ()
        if len(shape) > program.rows[name]:
            return int(shape[program.rows[name]])
    raise DataError(
        f"the rows have no variable with one entry for each, so their number is unknown: give "
        f"{program.obs}"
    )


def _stand_in(program: WeightedProgram, name: str, count: int, known: StanData) -> Any:
    """Valid values of an unknown outcome: those of the coreset's rows, over and over."""
    axis = program.rows[name]
    if name in known:
        value = np.asarray(known[name])
        return value.take(np.arange(count) % value.shape[axis], axis=axis)
    declared = _declared(program, name)
    if not _is_single(program, name):
        raise DataError(
            f"the rows lack the outcome {name!r}, which is {declared.type.base} of "
            f"{len(declared.size.dims)} dimensions: give the fit itself, whose coreset shows what "
            "it is like, or the outcomes"
        )
    return np.full(count, _valid(declared, known))


def _declared(program: WeightedProgram, name: str) -> Any:
    """The declaration of a data variable."""
    return next(d for d in program.program.data if d.name == name)


def _is_single(program: WeightedProgram, name: str) -> bool:
    """Whether a variable is one number for each row."""
    declared = _declared(program, name)
    return len(declared.size.dims) == 1 and declared.type.base in ("int", "real", "vector")


def _valid(declared: Any, known: StanData) -> float:
    """A number within the declared bounds."""
    bounds = declared.constraint
    lower = None if bounds.lower is None else evaluate_int(Scope(known, ()), bounds.lower)
    upper = None if bounds.upper is None else evaluate_int(Scope(known, ()), bounds.upper)
    whole = declared.type.base == "int"
    if lower is not None and upper is not None:
        return lower if whole else 0.5 * (lower + upper)
    return lower + 1 if lower is not None else upper - 1 if upper is not None else 0


def _unknown_cells(
    program: WeightedProgram, original: StanProgram, raw: Mapping[str, Any]
) -> dict[str, Any]:
    """Declarations of tables that the data lack and that are outcomes, by their cells' names."""
    sizes: set[str] = set().union(*program.counted.values())
    if not sizes <= raw.keys():
        return {}
    lacking = [d for d in original.data if len(d.size.dims) == 2 and d.name not in raw]
    known = outcomes(original, [d.name for d in lacking])
    return {
        cells: declared
        for declared in lacking
        for cells in program.rows
        if declared.name in known and cells.startswith(f"{declared.name}_cell")
    }


def _filled(table: Any, raw: Mapping[str, Any]) -> Any:
    """A table of values within the declared bounds."""
    shape = tuple(evaluate_int(Scope(raw, ()), size) for size in table.size.dims)
    return np.full(shape, _valid(table, raw), dtype=int if table.type.base == "int" else float)


def limits(new: NewRows, name: str) -> tuple[int, int] | None:
    """Smallest and largest value of an integer with one value a row, if both are declared."""
    program, data = new.program, new.some
    table = new.tables.get(name)
    declared, axes = (_declared(program, name), 1) if table is None else (table, 2)
    bounds, scope = declared.constraint, Scope(data, program.program.tree.transformed_data)
    bounded = bounds.kind == "bounds" and None not in (bounds.lower, bounds.upper)
    if declared.type.base != "int" or len(declared.size.dims) > axes or not bounded:
        return None
    lower, upper = evaluate_int(scope, bounds.lower), evaluate_int(scope, bounds.upper)
    return None if lower is None or upper is None else (lower, upper)


def _opened(
    session: Session,
    rows: Source,
    known: StanData,
    unseen: tuple[str, ...],
    fit: CoresetFit | None,
) -> tuple[StanData, tuple[str, ...]]:
    """Rows of a table, which may stay on disk."""
    program, unknown = session.program, frozenset[str]()
    if isinstance(rows, Table):
        levels = {} if fit is None else _levels(program, rows, fit)
        values = {**_shared(program, known), **rows.values}
        values = {name: value for name, value in values.items() if name not in rows.counts}
        table = replace(rows, values=values, levels={**levels, **rows.levels})
        single = [n for n in program.rows if n not in program.frozen and _is_single(program, n)]
        standing = {
            name: np.ravel(_stand_in(program, name, 1, known))[0].item()
            for name in single
            if name in unseen or not unseen
        }
        opened, unknown = table.open_without(program, standing, threads=session.threads)
    else:
        opened = rows.open_for(program, threads=session.threads)
    if isinstance(opened, StoredRows):
        if not opened.is_read_here:
            raise DataError(
                f"the {opened.n_obs} rows are read by other processes, and what a row is worth is "
                "computed in this one: give a Table of the same files"
            )
        return opened, tuple(sorted(unknown))
    given = {name: value for name, value in opened.items() if name not in program.frozen}
    return program.check(given), tuple(sorted(unknown))


def _levels(program: WeightedProgram, table: Table, fit: CoresetFit) -> dict[str, Any]:
    """Levels of the table's columns whose codes the fit knows: the same codes, in other rows."""
    found: dict[str, Any] = {}
    for name, levels in dict(fit.provenance.get("levels") or {}).items():
        column = table.columns.get(name, name)
        if name in program.rows and isinstance(column, str):
            found[column] = list(levels)
    return found


def _frozen(
    program: WeightedProgram,
    data: StanData,
    known: StanData,
    unseen: tuple[str, ...],
) -> dict[str, Any]:
    """Values that the program computed from all rows of the fit, evaluated for other rows.

    Values for each row, such as centred predictors, must be an affine function of the row's own: it
    is found in the coreset's rows.
    """
    by_row = [name for name in program.frozen if name in program.rows]
    names = ", ".join(sorted(program.frozen))
    if not known:
        raise DataError(
            f"the program computes {names} from all rows of the data that were fitted, which these "
            "draws do not show: give the fit itself"
        )
    own = [n for n in program.rows if n not in program.frozen and n not in unseen]
    here, there = _flat(program, data, own), _flat(program, known, own)
    found = {name: known[name] for name in program.frozen if name not in by_row}
    for name in by_row:
        axis = program.rows[name]
        value = np.moveaxis(np.asarray(known[name], dtype=np.float64), axis, 0)
        flat = value.reshape(len(value), -1)
        slopes = np.linalg.lstsq(there, flat, rcond=None)[0]
        off = np.abs(there @ slopes - flat).max(initial=0.0)
        if len(there) < _ROWS_EACH * there.shape[1] or off > NOISE * (1 + np.abs(flat).max()):
            raise DataError(
                f"the program computes {name} from all rows of the data that were fitted, and it "
                "is no affine function of a row's own values, so it is unknown for other rows: "
                "compute it before, as data"
            )
        made = (here @ slopes).reshape(-1, *value.shape[1:])
        found[name] = np.moveaxis(made, 0, axis)
    return found


def _flat(program: WeightedProgram, data: StanData, names: list[str]) -> Float:
    """Rows' values side by side, with a column of ones."""
    columns = [np.moveaxis(np.asarray(data[n], float), program.rows[n], 0) for n in names]
    count = program.n_obs(data)
    return np.column_stack([np.ones(count), *(c.reshape(count, -1) for c in columns if c.size)])
