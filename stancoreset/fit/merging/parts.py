"""Parts of the data: the available rows of each, and their concatenation."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stancoreset.checks import shown
from stancoreset.engines import StanData
from stancoreset.errors import DataError, OptionError
from stancoreset.posterior.arviz import Container, dataset_of
from stancoreset.program import Session, labels_of_draws
from stancoreset.rows.tables import StoredRows, content_hash
from stancoreset.runs import CoresetFit
from stancoreset.selection import Coreset
from stancoreset.stan import Labels, WeightedProgram


@dataclass(frozen=True)
class Part:
    """One part, with checked data of all its rows or only of its coreset's rows.

    `labels` name the dimensions of its parameters.
    """

    coreset: Coreset
    data: StanData = field(repr=False)
    full: bool
    labels: Labels = field(default_factory=Labels, repr=False)


def read_part(session: Session, part: Any, number: int) -> Part:
    """Read and check a part, as given to `CoresetModel.merge`; errors give its number."""
    data, coreset = part if isinstance(part, tuple) and len(part) == 2 else (None, part)
    labels = Labels()
    if isinstance(coreset, CoresetFit):
        data = coreset.data if data is None else data
        labels = _labels_in(coreset.posterior)
        coreset = coreset.coreset
    if not isinstance(coreset, Coreset) or data is None:
        raise OptionError(
            f"part {number} is {_kind(part)}; expected (data, coreset), (data, fit), or a fit that "
            "has kept its rows: model.keep(data, fit)"
        )
    try:
        checked = session.read(data)
    except DataError as error:
        raise DataError(f"part {number}: {error}") from None
    count = session.program.n_obs(checked)
    if count not in (coreset.n_obs, coreset.size):
        raise DataError(
            f"part {number} has {count} rows of data, but its coreset was selected from "
            f"{coreset.n_obs} rows and has {coreset.size}: expected the data of either"
        )
    full = count == coreset.n_obs
    frozen = sorted(session.program.frozen)
    if frozen and not full:
        raise DataError(
            f"part {number} has kept only the {coreset.size} rows of its coreset, but the program "
            f"computes {', '.join(frozen[:3])} from all rows of the data: give the full data of "
            "every part, or compute it once for all parts and pass it as data"
        )
    return Part(coreset, checked, full, labels_of_draws(session, checked, Labels()).over(labels))


def _labels_in(posterior: Container) -> Labels:
    """Names for dimensions that a posterior has, besides ArviZ's own ``a_dim_0``, …"""
    dims, coords = {}, {}
    for name, values in dataset_of(posterior).items():
        axes = [str(dim) for dim in values.dims[2:]]
        named = [dim for axis, dim in enumerate(axes) if dim != f"{name}_dim_{axis}"]
        if named:
            dims[str(name)] = axes
            coords.update({dim: values[dim].to_numpy().tolist() for dim in named})
    return Labels(coords, dims)


def labels_of_parts(parts: Sequence[Part]) -> Labels:
    """Names for dimensions; an error if parts differ, since codes stand for other levels then."""
    all_of_them = Labels()
    first: dict[str, tuple[int, list[Any]]] = {}
    for number, part in enumerate(parts, 1):
        for dim, labels in part.labels.coords.items():
            before, known = first.setdefault(dim, (number, list(labels)))
            if known != list(labels):
                raise DataError(
                    f"{dim} is {shown(known)} in part {before} and {shown(list(labels))} in part "
                    f"{number}: the same codes stand for different levels; give every part the "
                    "same levels, Table(levels=…), and fit it again"
                )
        all_of_them = all_of_them.over(part.labels)
    return all_of_them


def require_same_data(coreset: Coreset, data: StanData) -> None:
    """Raise if a coreset was selected from other data, such as those of another day.

    Once only the rows are kept, no certificate would show it.
    """
    about = coreset.provenance
    # Rows in files have another hash, and a union has one of all its parts.
    if isinstance(data, StoredRows) or {"data", "parts"} & set(about):
        return
    if about.get("data_hash") not in (None, content_hash(data)):
        raise DataError(
            f"the coreset was not selected from these data, though they have as many rows "
            f"({coreset.n_obs}): expected the unchanged data of the fit"
        )


def _kind(part: Any) -> str:
    if isinstance(part, CoresetFit):
        return "a fit without its rows"
    return f"a {type(part).__name__}"


def union_rows(program: WeightedProgram, parts: Sequence[Part]) -> dict[str, Any]:
    """Join the rows of all coresets into one weighted data set."""
    cuts = [
        program.subset(
            part.data,
            part.coreset.indices if part.full else slice(None),
            part.coreset.weights,
        )
        for part in parts
    ]
    return laid_end_to_end(program, [d.name for d in program.program.data], cuts)


def laid_end_to_end(
    program: WeightedProgram, names: Collection[str], pieces: Sequence[StanData]
) -> dict[str, Any]:
    """Concatenate the rows of data sets; raise a DataError if they differ in any other data."""
    row_wise = {**program.rows, program.weights: 0}
    whole: dict[str, Any] = {}
    for name in names:
        values = [np.asarray(piece[name]) for piece in pieces]
        if name == program.obs or name in program.shared:
            whole[name] = sum(int(value) for value in values)
        elif name in row_wise and values[0].size:
            whole[name] = np.concatenate(values, axis=row_wise[name])
        else:
            for number, value in enumerate(values[1:], 2):
                if not np.array_equal(value, values[0]):
                    raise DataError(
                        f"'{name}' is {_shown(values[0])} in part 1 and {_shown(value)} in part "
                        f"{number}: data other than rows must be the same in all parts"
                    )
            whole[name] = pieces[0][name]
    return whole


def _shown(value: np.ndarray) -> str:
    return str(value.item()) if value.size == 1 else f"an array of shape {value.shape}"
