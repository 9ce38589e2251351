"""Parts of the data: what is at hand of each, and their coresets' rows as one data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from stancoreset.coreset import Coreset
from stancoreset.engines.base import StanData
from stancoreset.errors import DataError, OptionError
from stancoreset.fit import CoresetFit
from stancoreset.stan.program import WeightedProgram

if TYPE_CHECKING:
    from stancoreset.workflow import CoresetModel

__all__ = ["Part", "read_part", "union_rows"]


@dataclass(frozen=True)
class Part:
    """One part: checked data of all its rows, or of the coreset's rows only."""

    coreset: Coreset
    data: StanData = field(repr=False)
    full: bool


def read_part(model: CoresetModel, part: Any, number: int) -> Part:
    """A part as it is given to `CoresetModel.merge`, read and checked.

    Raises
    ------
    OptionError, DataError
        Nothing that can be merged; the message says which part.
    """
    data, coreset = part if isinstance(part, tuple) and len(part) == 2 else (None, part)
    if isinstance(coreset, CoresetFit):
        data = coreset.data if data is None else data
        coreset = coreset.coreset
    if not isinstance(coreset, Coreset) or data is None:
        raise OptionError(
            f"part {number} is {_kind(part)}; expected (data, coreset), (data, fit), or a fit that "
            "has kept its rows: model.keep(data, fit)"
        )
    try:
        checked = model.read(data)
    except DataError as error:
        raise DataError(f"part {number}: {error}") from None
    count = model.program.n_obs(checked)
    if count not in (coreset.n_obs, coreset.size):
        raise DataError(
            f"part {number} has {count} rows of data, but its coreset was selected from "
            f"{coreset.n_obs} rows and has {coreset.size}: expected the data of either"
        )
    frozen = sorted(model.program.frozen)
    if frozen:
        raise DataError(
            f"the program computes {', '.join(frozen[:3])} from all rows of the data it is given, "
            "so that the rows of one part mean something else in another: compute it once for all "
            "parts and pass it as data"
        )
    return Part(coreset, checked, count == coreset.n_obs)


def _kind(part: Any) -> str:
    if isinstance(part, CoresetFit):
        return "a fit without its rows"
    return f"a {type(part).__name__}"


def union_rows(program: WeightedProgram, parts: Sequence[Part]) -> dict[str, Any]:
    """The rows of all coresets as one weighted data set.

    Raises
    ------
    DataError
        Something that is not a row differs between parts.
    """
    cuts = [
        program.subset(
            part.data,
            part.coreset.indices if part.full else slice(None),
            part.coreset.weights,
        )
        for part in parts
    ]
    row_wise = {**program.rows, program.weights: 0}
    rows: dict[str, Any] = {}
    for decl in program.program.data:
        name = decl.name
        values = [np.asarray(cut[name]) for cut in cuts]
        if name == program.obs:
            rows[name] = sum(int(value) for value in values)
        elif name in row_wise and values[0].size:
            rows[name] = np.concatenate(values, axis=row_wise[name])
        else:
            for number, value in enumerate(values[1:], 2):
                if not np.array_equal(value, values[0]):
                    raise DataError(
                        f"'{name}' is {_shown(values[0])} in part 1 and {_shown(value)} in part "
                        f"{number}: what is not a row must be the same in all parts"
                    )
            rows[name] = cuts[0][name]
    return rows


def _shown(value: np.ndarray) -> str:
    return str(value.item()) if value.size == 1 else f"an array of shape {value.shape}"
