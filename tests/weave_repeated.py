"""Rows of the author's data repeated by hand, for fixtures in which that takes more than a cut.

Each function makes the data of one fixture and gives them again with row n standing as often as
``times[n]`` says. The weaver is not asked: the author's program with the repeated data must have
the density of the woven program with these weights.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from weave_data import make_data

from stancoreset.stan.syntax import parse, printer

__all__ = ["REPEATED", "Repeated", "repeated", "rows_by_declaration"]

FOLDER = Path(__file__).parent / "stan" / "weave_programs"
Data = dict[str, Any]
Rows = NDArray[np.int_]


@dataclass(frozen=True)
class Repeated:
    """A fixture's data, and the same with rows repeated by hand.

    Attributes
    ----------
    code : str
        The author's program.
    data, many : dict
        What it is given, and the same with row n standing ``times[n]`` times.
    times : ndarray
        As often as each observation stands in `many`.
    same : str
        The author's program for `many`, where a prior or a summary would change with the rows.
    """

    code: str
    data: Data
    times: Rows
    many: Data
    same: str


def repeated(name: str) -> Repeated:
    """The fixture `name` with some of its rows repeated and others left out."""
    return REPEATED[name](name)


def read(name: str) -> str:
    return (FOLDER / f"{name}.stan").read_text()


def rows_by_declaration(code: str, data: Data, counts: set[str], rows: np.ndarray) -> Data:
    """The data with these rows: every dimension that is declared with a count is cut."""
    many = {**data, **dict.fromkeys(counts, len(rows))}
    given = "|".join(map(re.escape, sorted(counts)))
    own = re.compile(rf"({given})|.* \? ({given}) : 0|.* \? 0 : ({given})")
    for d in parse(code).data:
        for axis, size in enumerate(d.size.dims):
            value = np.asarray(data[d.name])
            if own.fullmatch(printer.expression(size).strip("()")) and value.shape[axis]:
                many[d.name] = np.take(value, rows, axis=axis)
    return many


def by_rows(count: str) -> Callable[[str], Repeated]:
    """Fixtures whose data have `count` as the first size of all that has rows."""

    def make(name: str) -> Repeated:
        code = read(name)
        data = make_data(code)
        size = data[count]
        times = np.resize([0, 2, 1, 1, 3], size)
        rows = np.repeat(np.arange(size), times)
        many = {
            k: v[rows] if np.shape(v)[:1] == (size,) and k in _rows_of(name) else v
            for k, v in data.items()
        }
        return Repeated(code, data, times, {**many, count: len(rows)}, code)

    return make


def _rows_of(name: str) -> tuple[str, ...]:
    return {
        "cjs_capture_recapture": ("y",),
        "hmm_of_lengths": ("L", "y"),
        "scratch_read_in_a_ternary": ("L", "y"),
        "reduce_sum": ("y", "x"),
    }[name]


# ---- sparse designs -----------------------------------------------------------------------


def repeated_csr(w: np.ndarray, v: np.ndarray, u: np.ndarray, rows: np.ndarray) -> list[np.ndarray]:
    """A sparse design with these rows, by hand: w, v and u."""
    parts = [np.arange(u[n] - 1, u[n + 1] - 1) for n in rows]
    entries = np.concatenate([*parts, np.zeros(0, int)])
    starts = 1 + np.concatenate([[0], np.cumsum([len(part) for part in parts])])
    return [w[entries], v[entries], starts]


def sparse(name: str) -> Repeated:
    code = read(name)
    data, times = make_data(code), np.array([0, 2, 1, 1, 3, 0, 1, 1, 1, 2, 1])
    rows = np.repeat(np.arange(11), times)
    many = {**data, "N": len(rows), "y": data["y"][rows]}
    design = ("w", "v", "u") if data["t"] else ("w_X", "v_X", "u_X")
    many |= dict(zip(design, repeated_csr(*(data[k] for k in design), rows), strict=True))
    many |= {"num_non_zero": len(many["w"]), "nnz_X": len(many["w_X"])}
    many["X"] = data["X"][:, rows]
    many["weights"] = data["weights"][rows] if data["has_weights"] else data["weights"]
    return Repeated(code, data, times, many, code)


# ---- two counts ---------------------------------------------------------------------------


def two_counts(name: str) -> Repeated:
    """Rows of both blocks; means of all rows are numbers."""
    code = read(name).replace("Xc[,k] = X[,k] - m[k]", "Xc[,k] = X[,k] - 0.5")
    code = code.replace("m[k] = mean(X[,k]);", "m[k] = 0.5;")
    data = make_data(code)
    times = np.array([0, 2, 1, 1, 3, 0, 1, 1, 2, 2, 0, 1, 1, 3, 1])
    first, second = np.repeat(np.arange(9), times[:9]), np.repeat(np.arange(6), times[9:])
    many = {**data, "N": len(first), "C": len(second)}
    many |= {name: data[name][first] for name in ("t", "X")}
    many |= {name: data[name][second] for name in ("cens", "X_cens", "off")}
    return Repeated(code, data, times, many, code)


def three_counts(name: str) -> Repeated:
    code = read(name)
    data = make_data(code)
    times = np.array([0, 2, 1, 1, 3, 0, 1, 1, 2, 0, 0, 0, 1, 4, 2])
    parts = np.split(times, [7, 10])
    blocks = [np.repeat(np.arange(len(part)), part) for part in parts]
    many = {f"y{k}": data[f"y{k}"][rows] for k, rows in enumerate(blocks, 1)}
    many |= {f"N{k}": len(rows) for k, rows in enumerate(blocks, 1)}
    return Repeated(code, data, times, many, code)


def subsets(name: str) -> Repeated:
    """Two outcomes on rows of their own; means of all rows are numbers."""
    code = read(name)
    for y in ("y1", "y2"):
        code = code.replace(f"= mean(X_{y}[, i]);", "= 0.5;")
    data = make_data(code)
    times = np.array([0, 2, 1, 1, 3, 0, 1, 1, 2, 2, 0, 1, 1, 3, 1])
    many = dict(data)
    for y, part in (("y1", times[:9]), ("y2", times[9:])):
        rows = np.repeat(np.arange(len(part)), part)
        many |= {
            f"N_{y}": len(rows),
            f"Y_{y}": data[f"Y_{y}"][rows],
            f"X_{y}": data[f"X_{y}"][rows],
        }
    return Repeated(code, data, times, many, code)


def two_sparse_blocks(name: str) -> Repeated:
    """The prior's scale is computed from the number of rows, and stays as it was."""
    code = read(name)
    data = make_data(code)
    times = np.array([0, 2, 1, 1, 3, 1, 1, 0, 2, 1, 1, 2, 1])
    many = dict(data)
    for k, part in enumerate((times[:7], times[7:])):
        rows = np.repeat(np.arange(len(part)), part)
        design = [f"{name}{k}" for name in "wvu"]
        many |= dict(zip(design, repeated_csr(*(data[d] for d in design), rows), strict=True))
        many |= {f"X{k}": data[f"X{k}"][:, rows], f"offset{k}": data[f"offset{k}"][rows]}
    many["N"] = np.array([times[:7].sum(), times[7:].sum()])
    many["num_non_zero"] = np.array([len(many["w0"]), len(many["w1"])])
    return Repeated(code, data, times, many, code.replace("0.1 * NN", "0.1 * 13"))


# ---- rows in parts of their own -----------------------------------------------------------


def selected_on_the_left(name: str) -> Repeated:
    code = read(name)
    data = make_data(code)
    times = np.array([2, 0, 1, 3, 1, 1, 2, 1, 0, 2, 1])
    rows = np.repeat(np.arange(1, 12), times)
    many = {**data, "N": len(rows), "Y": data["Y"][rows - 1]}
    for k in ("1", "2"):
        pairs = [
            (i + 1, p) for i, r in enumerate(rows) for p in np.flatnonzero(data[f"I_{k}"] == r)
        ]
        many[f"I_{k}"], place = np.array(pairs).T
        many |= {f"n_{k}": len(pairs), f"J_{k}": data[f"J_{k}"][place]}
        if k == "1":
            many["C_1"] = data["C_1"][place]
    return Repeated(code, data, times, many, code)


def segments(name: str) -> Repeated:
    """Rows stand in segments one after the other, whose sizes grow with them."""
    code = read(name)
    data = make_data(code)
    times = np.resize([0, 2, 1, 1, 3], data["N"])
    rows = np.repeat(np.arange(data["N"]), times)
    segment = np.repeat(np.arange(data["J"]), data["s"])
    sizes = np.bincount(segment[rows], minlength=data["J"])
    many = {**data, "N": len(rows), "s": sizes}
    many |= {name: data[name][rows] for name in ("y", "x", "z")}
    return Repeated(code, data, times, many, code)


def whole_segments(sizes: str, **lengths: str) -> Callable[[str], Repeated]:
    """Segments with all their rows; `lengths` are the data in segments, by what says their lengths.

    `sizes` are the counts of the rows of these data.
    """

    def made(name: str) -> Repeated:
        code = read(name)
        data = make_data(code)
        times = np.resize([2, 0, 3, 1], data["K"])
        kept = np.repeat(np.arange(data["K"]), times)
        many = rows_by_declaration(code, data, {"K"}, kept)
        for (length, inside), size in zip(lengths.items(), sizes, strict=True):
            segment = np.repeat(np.arange(data["K"]), data[length])
            own = [np.flatnonzero(segment == k) for k in kept]
            many |= {y: data[y][np.concatenate(own)] for y in inside}
            many[size] = len(many[inside[0]])
        return Repeated(code, data, times, many, code)

    return made


# ---- rows that read others, or their numbers ---------------------------------------------


def whole_persons(name: str) -> Repeated:
    """Persons with all their rows, so that each row still follows its own."""
    code = read(name)
    data = make_data(code)
    persons = np.array([2, 0, 3])
    own = [np.flatnonzero(data["id"] == j) for j in np.repeat([1, 2, 3], persons)]
    rows = np.concatenate(own)
    many = rows_by_declaration(code, data, {"N"}, rows)
    many["before"] = np.where(many["first"] == 1, 0, np.arange(len(rows)))
    # copies of a person stand side by side, and must not be taken for one
    same = code.replace("id[n] == id[n - 1]", "!first[n]")
    return Repeated(code, data, persons[data["id"] - 1], many, same)


def last_rows(kept: int) -> Callable[[str], Repeated]:
    """The first rows as they are, the others left out."""

    def made(name: str) -> Repeated:
        code = read(name)
        data = make_data(code)
        times = (np.arange(data["N"]) < kept).astype(int)
        many = rows_by_declaration(code, data, {"N"}, np.arange(kept))
        return Repeated(code, data, times, many, code)

    return made


def rows_behind(first: int) -> Callable[[str], Repeated]:
    """The `first` rows as they are, the others repeated: their numbers decide nothing."""

    def made(name: str) -> Repeated:
        code = read(name)
        data = make_data(code)
        times = np.ones(data["N"], dtype=int)
        times[first:] = np.resize([2, 0, 3], data["N"] - first)
        rows = np.repeat(np.arange(data["N"]), times)
        return Repeated(code, data, times, rows_by_declaration(code, data, {"N"}, rows), code)

    return made


# ---- cells --------------------------------------------------------------------------------


def cells_left_out(name: str) -> Repeated:
    """A cell without an outcome, which the author's program passes over, stands nowhere."""
    code = read(name)
    data = make_data(code)
    times = np.resize([1, 0, 1, 1, 1, 0, 1], (data["I"], data["J"]))
    many = {**data, "y": np.where(times == 1, data["y"], -1)}
    return Repeated(code, data, times.ravel(), many, code)


def cells_of_columns(name: str) -> Repeated:
    """Columns have no parameters of their own: a column twice is each of its cells twice."""
    code = read(name)
    data = make_data(code)
    columns = np.resize([2, 0, 3, 1], data["J"])
    kept = np.repeat(np.arange(data["J"]), columns)
    many = {**data, "J": len(kept), "time": data["time"][kept]}
    many |= {name: data[name][:, kept] for name in ("y", "z")}
    return Repeated(code, data, np.tile(columns, data["I"]), many, code)


def cells_of_ragged_rows(name: str) -> Repeated:
    """Rows that end earlier, by the data that say where."""
    code = read(name)
    data = make_data(code)
    last = np.minimum(data["last"], [4, 2, 0, 3, 1])
    left = np.arange(1, data["J"] + 1) <= last[:, None]
    return Repeated(code, data, left.ravel().astype(int), {**data, "last": last}, code)


def cells_of_a_triangle(name: str) -> Repeated:
    """The first rows and columns alone."""
    code = read(name)
    data = make_data(code)
    left = np.arange(data["upto"]) < 3
    many = {**data, "upto": 3}
    return Repeated(code, data, np.outer(left, left).ravel().astype(int), many, code)


def cells_of_first_columns(name: str) -> Repeated:
    """The first columns alone, by the number up to which the author's program reads."""
    code = read(name)
    data = make_data(code)
    left = np.tile(np.arange(data["J"]) < 3, data["I"])
    return Repeated(code, data, left.astype(int), {**data, "upto": 3}, code)


def beginnings_of_segments(name: str) -> Repeated:
    """The first rows of each segment, whose numbers in it count."""
    code = read(name)
    data = make_data(code)
    sizes = np.array([2, 3, 1])
    starts = np.cumsum(data["s"]) - data["s"]
    rows = np.concatenate([start + np.arange(k) for start, k in zip(starts, sizes, strict=True)])
    many = {k: v[rows] if np.shape(v)[:1] == (data["N"],) else v for k, v in data.items()}
    last = np.cumsum(sizes)
    many |= {"N": len(rows), "s": sizes, "first": last - sizes + 1, "last": last}
    return Repeated(code, data, np.isin(np.arange(data["N"]), rows).astype(int), many, code)


#: The newest ways to weave, each by a fixture.
REPEATED: dict[str, Callable[[str], Repeated]] = {
    "rstanarm_sparse_design": sparse,
    "rstanarm_sparse_effects": sparse,
    "two_counts_censored": two_counts,
    "three_counts": three_counts,
    "brms_subset": subsets,
    "rstanarm_two_blocks": two_sparse_blocks,
    "brms_gp_by_levels": selected_on_the_left,
    "segments": segments,
    "segments_row_by_row": beginnings_of_segments,
    "segments_with_numbers_of_their_own": beginnings_of_segments,
    "segments_correlated": whole_segments("N", s="yt"),
    "segments_series": whole_segments("NM", s="y", m="z"),
    "wide_items": cells_left_out,
    "wide_growth": cells_of_columns,
    "wide_autoregression": cells_of_ragged_rows,
    "wide_lagged_slices": cells_of_first_columns,
    "wide_triangle": cells_of_a_triangle,
    "wide_pairs_both_ways": cells_of_a_triangle,
    "cjs_capture_recapture": by_rows("I"),
    "hmm_of_lengths": by_rows("N"),
    "scratch_read_in_a_ternary": by_rows("N"),
    "reduce_sum": by_rows("N"),
    "autoregression": last_rows(7),
    "autoregression_by_slices": last_rows(7),
    "autoregression_of_means": last_rows(6),
    "autoregression_of_residuals": last_rows(6),
    "autoregression_of_shifted_means": last_rows(6),
    "autoregression_of_order": last_rows(7),
    "block_of_some_rows": last_rows(4),
    "autoregression_guarded": last_rows(5),
    "trend_by_row_number": last_rows(4),
    "first_row_of_its_own": rows_behind(1),
    "filled_before_the_loop": last_rows(6),
    "autoregression_by_person": whole_persons,
    "rows_by_their_numbers": rows_behind(5),
}
