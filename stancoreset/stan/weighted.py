"""Weighted Stan programs: the observation contract, and data cut to rows.

A weighted program declares the number of observations and ``vector<lower=0>[N] weights``,
adds ``weights[n]`` times each row's log density in the model block, and defines
``vector[N] log_lik`` without weights. `weighted_program` recognises such a program from its
declarations alone; `stancoreset.program.identities` checks by numbers that it behaves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stancoreset.errors import DataError
from stancoreset.stan.contract import (
    LOG_LIK,
    WEIGHTS,
    check_contract,
    has_size,
    observation_axes,
    observation_count,
)
from stancoreset.stan.data import DataSource, Scope, Value, check_data, evaluate_int, raw_data
from stancoreset.stan.syntax import StanProgram, names_in, substituted
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave import Table, levels, optional, segmented

Rows = slice | ArrayLike


@runtime_checkable
class RowStore(Protocol):
    """Data whose rows are not in memory: a mapping of all else, which fetches rows on demand."""

    def take(self, rows: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Row variables at these row numbers."""
        ...


@dataclass(frozen=True)
class WeightedProgram:
    """A program whose rows can be weighted, and its data variables with rows.

    >>> from stancoreset.stan import stan_model_path
    >>> weighted = weighted_program(StanProgram.from_file(stan_model_path("logistic")))
    >>> weighted.obs, dict(weighted.rows)
    ('N', {'X': 0, 'y': 0})
    """

    program: StanProgram
    obs: str  # the data integer that counts observations
    # Data variables that carry observations, and on which axis; without the weights.
    rows: Mapping[str, int]
    weights: str = WEIGHTS
    log_lik: str = LOG_LIK
    origin: Literal["hand-written", "woven"] = "hand-written"
    # Data variables that are computed from the full data once, not given by the user.
    frozen: frozenset[str] = frozenset()
    # Further data integers that must equal the count of observations.
    shared: frozenset[str] = frozenset()
    # Numbers in `log_lik` that are computed from outcomes of all rows: it is then no pointwise
    # likelihood.
    outcome_statistics: tuple[str, ...] = ()
    # `obs` and the number or the expression that the user's program has in its place.
    written: Mapping[str, int | n.Expr] = field(default_factory=dict)
    # `obs` and the data integers whose product it is, where observations are cells of a table.
    counted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # How the user's data become a table, where two counts of them count observations.
    table: Table | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", dict(self.rows))

    @property
    def code(self) -> str:
        """The complete program, with ``log_lik``."""
        return self.program.code

    @property
    def density_code(self) -> str:
        """The program without generated quantities, for fitting and sampling."""
        return self.program.density_code

    @cached_property
    def row_parameters(self) -> frozenset[str]:
        """Transformed parameters with one element per observation: no part of a posterior."""
        return frozenset(
            decl.name
            for decl in self.program.transformed_parameters
            if any(has_size(size, self.obs) for size in decl.size.dims)
        )

    @cached_property
    def optional(self) -> frozenset[str]:
        """Data that have one entry per observation, or none (``vector[has_offset ? N : 0]``)."""
        return optional(self.program.tree)

    @cached_property
    def levels(self) -> dict[str, str]:
        """The groups of rows that pick parameters, and the data integers that count them."""
        return levels(self.program.tree, self.rows.keys() - self.frozen)

    @cached_property
    def looked_at(self) -> frozenset[str]:
        """Variables in conditions, which may say where another is not read."""
        tree = self.program.tree
        body = (*tree.transformed_parameters, *tree.model)
        conditions = (x.condition for x in n.find_all(body, n.If, n.Ternary))
        return frozenset(names_in(conditions))

    # Data ------------------------------------------------------------------------------

    def check(self, data: DataSource) -> dict[str, Value]:
        """The complete data, checked for types and shapes; weights default to one.

        A DataError is raised if a variable is missing, of the wrong type or shape, if there are no
        observations, or if a weight is negative.
        """
        raw = dict(raw_data(data))
        asked = [d for d in self.program.data if d.name not in {self.weights, *self.frozen}]
        for name, size in self.written.items():
            if name not in raw:  # what is wrong is said of the sizes that the user has
                e = n.literal(str(size)) if isinstance(size, int) else size
                asked = [substituted(d, {name: e}) for d in asked if d.name != name]
                value = evaluate_int(Scope({k: raw[k] for k in names_in(e) if k in raw}), e)
                raw |= {} if value is None else {name: value}
        if self.table is not None and self.obs not in raw:
            raw |= self.table.joined(check_data(self.table, raw))
        for name, sizes in self.counted.items():
            if all(isinstance(raw.get(size), int | np.integer) for size in sizes):
                raw.setdefault(name, math.prod(int(raw[size]) for size in sizes))
        self._require_one_count(raw)
        given = check_data(n.Program(data=tuple(asked)), raw)
        given |= {name: raw[name] for name in self.written if name in raw}
        n_obs = self.n_obs(given)
        if n_obs < 1:
            raise DataError(f"the data have no observations: {self.obs} = {n_obs}, expected >= 1")
        weights = raw.get(self.weights)
        return self.with_weights(given, np.ones(n_obs) if weights is None else weights)

    def _require_one_count(self, raw: Mapping[str, Any]) -> None:
        """Refuse outcomes of different rows, which were read as parts of the same ones."""
        for name in sorted(self.shared & raw.keys()):
            if self.obs in raw and raw[name] != raw[self.obs]:
                both = sorted(self.shared)[:2] if len(self.shared) > 1 else [self.obs, name]
                raise DataError(
                    f"{name} is {raw[name]}, but {self.obs} is {raw[self.obs]}: the outcomes were "
                    f"not observed on the same rows; expected {name} = {self.obs}, or "
                    f'obs="{", ".join(both)}" to weight the rows of both, each by itself, or '
                    f'obs="{name}" to weight those counted by {name} and keep the others as they '
                    "are"
                )

    def require_groups(
        self, data: Mapping[str, Any], few: int = 5, lonely: float = 0.9, most: float = 2.0
    ) -> None:
        """Refuse groups that do not exist, and those of one row each, or nearly so.

        A DataError names the groups. Where every row has a group of its own, it has a parameter of
        its own; so it is if a share of more than `lonely` has. Rows with weights are not all of the
        data, nor are those with `most` groups for each; a `few` may be alone by chance.
        """
        self.require_known_groups(data)
        n_obs = self.n_obs(data)
        if np.any(np.asarray(data[self.weights]) != 1):
            return
        sizes = names_in(d.size for d in self.program.tree.parameters)
        for name, count in self.levels.items():
            if count not in sizes or n_obs <= few:
                continue
            if not lonely * n_obs < data[count] <= most * n_obs:
                continue
            alone = int(np.sum(np.unique(data[name], return_counts=True)[1] == 1))
            if alone > lonely * n_obs:
                rows = "each of the" if alone == n_obs else f"{alone} of the"
                raise DataError(
                    f"{name} gives {rows} {n_obs} rows a group of its own ({count} = "
                    f"{data[count]}): there is a parameter for every row, which leaving out the "
                    "row would leave without data; integrate the effect out of the density of its "
                    "row (a normal effect of a normal outcome adds its variance; counts become "
                    "negative binomial or beta binomial), or group several rows"
                )

    def told_little(self, data: Mapping[str, Any]) -> tuple[str, ...]:
        """Sentences on groups without rows, and on factors of one group, in checked data."""
        words = []
        for name, count in self.levels.items():
            most, there = int(data[count]), len(np.unique(data[name]))
            if most == 1:
                words.append(f"{name} has one group: how much groups differ is known by its prior")
            elif there < most:
                words.append(
                    f"{most - there:,} of {count} = {most:,} groups have no rows in {name}: their "
                    "effects follow the prior"
                )
        return tuple(words)

    def require_known_groups(self, data: Mapping[str, Any]) -> None:
        """Refuse numbers of groups outside 1, …, J, unless the program looks at them first."""
        for name, count in self.levels.items():
            given, most = np.asarray(data[name]), int(data[count])
            if most < 1 <= len(given) and name not in self.looked_at:
                raise DataError(
                    f"{count} is {most}, but {name} picks one of so many groups; expected at least "
                    f"{max(1, int(np.max(given)))}, the largest number in {name}"
                )
            wrong = np.flatnonzero((given < 1) | (given > most))
            if len(wrong) and name not in self.looked_at:
                low, high = int(np.min(given)), int(np.max(given))
                larger = f", or make {count} {high}" if low > 0 else ""
                from_0 = f"add 1 to all of {name}: Stan counts from 1"
                raise DataError(
                    f"{name} has {given[wrong[0]]} at [{wrong[0]}] (counting from 0), but picks "
                    f"one of {count} = {most} groups; expected whole numbers from 1 to {most}: "
                    + (from_0 if low == 0 and high < most else f"correct {name}{larger}")
                )

    def n_obs(self, data: Mapping[str, Any]) -> int:
        """N, the number of observations in `data`."""
        if self.obs not in data:
            raise DataError(f"the data lack '{self.obs}', which counts the observations")
        return int(data[self.obs])

    def with_weights(self, data: Mapping[str, Any], weights: ArrayLike) -> dict[str, Any]:
        """Replace the rows' weights, one finite number >= 0 each; nothing is copied."""
        return {**data, self.weights: self._valid_weights(weights, self.n_obs(data))}

    def subset(
        self, data: Mapping[str, Any], indices: Rows, weights: ArrayLike | None = None
    ) -> dict[str, Any]:
        """Some rows of checked data, in the order given; an index may come more than once.

        `indices` are a slice, numbers from 0, or booleans; with a slice the result shares memory
        with `data`. The rows' weights are one by default. Row variables are cut to k rows, the
        count of observations is k, all else is as it was.
        """
        n_obs = self.n_obs(data)
        take, size = _selector(indices, n_obs)
        cut = {**data, **self._taken(data, take, n_obs)}
        cut |= dict.fromkeys((self.obs, *(self.shared & data.keys())), size)
        cut[self.weights] = self._valid_weights(np.ones(size) if weights is None else weights, size)
        return cut

    def _taken(
        self, data: Mapping[str, Any], take: slice | NDArray[np.intp], n_obs: int
    ) -> Mapping[str, Any]:
        """The row variables of some rows."""
        if isinstance(data, RowStore):
            return data.take(np.arange(n_obs)[take] if isinstance(take, slice) else take)
        cut = {}
        for name, axis in self.rows.items():
            if name not in data:
                raise DataError(f"the data lack '{name}', which carries observations")
            value = np.asarray(data[name])
            if not value.size and n_obs and name in self.optional:
                continue  # the data have none of it
            if value.ndim <= axis or value.shape[axis] != n_obs:
                raise DataError(
                    f"data variable '{name}' has shape {value.shape}; expected {n_obs} rows "
                    f"({self.obs}) on axis {axis}"
                )
            cut[name] = (
                value[(slice(None),) * axis + (take,)]
                if isinstance(take, slice)
                else value.take(take, axis=axis)
            )
        return cut

    @property
    def observation(self) -> str:
        """Name one observation: a cell, a segment, or a row of one or several counts."""
        if self.counted:
            sizes = " × ".join(*self.counted.values())
            return f"one cell of {sizes}"
        if self.table is not None:
            return ", or ".join(f"one of {count}" for count in self.table.counts)
        if self.segments:
            return f"one of {self.obs} segments of {', '.join(self.segments)}"
        return f"one of {self.obs}"

    @cached_property
    def segments(self) -> tuple[str, ...]:
        """The data that stand in segments, where each segment is an observation."""
        return tuple(segmented(self.program.tree).get(self.obs, ()))

    @property
    def given_rows(self) -> tuple[str, ...]:
        """The user's names of the data with one entry per observation."""
        if self.table is not None:
            return tuple(column.given for column in self.table.columns)
        if self.counted:
            return tuple(self.values_of_cells)
        return tuple(name for name in self.rows if name not in self.frozen)

    @property
    def values_of_cells(self) -> dict[str, str]:
        """Tables of the user's, each with the data of their cells, where these are observations."""
        cells = {_of_cell(name): name for name in self.rows} if self.counted else {}
        return {table: name for table, name in cells.items() if table in self._tables}

    def numbers_of_cells(
        self, data: Mapping[str, Any], indices: NDArray[np.integer]
    ) -> dict[str, NDArray[np.integer]]:
        """The row and the column of each cell, counted from 1, by what counts rows and columns."""
        if not self.counted:
            return {}
        (sizes,) = self.counted.values()
        names = list(sizes)
        if len({*names}) < len(names):
            names = [f"{size}[{k}]" for k, size in enumerate(sizes, 1)]
        numbers = np.unravel_index(indices, [int(data[size]) for size in sizes])
        return {name: number + 1 for name, number in zip(names, numbers, strict=True)}

    def carried(self, written: Set[str]) -> tuple[str, ...]:
        """Data that weaving has found for each observation, and the user has not `written`."""
        cell = {"i", "j", *self._tables} if self.counted else set()
        found = (name for name in self.rows if name in self.frozen - written)
        return () if self.table is not None else tuple(k for k in found if _of_cell(k) not in cell)

    @property
    def _tables(self) -> set[str]:
        """Data that may be tables of cells."""
        return {d.name for d in self.program.tree.data if len(d.size.dims) > 1}

    def observations(self, data: Mapping[str, Any]) -> str:
        """The number of observations and what they are: ``4,000 cells of 200 I × 20 J``."""
        total = self.n_obs(data)
        if self.counted:
            (sizes,) = self.counted.values()
            return f"{total:,} cells of " + " × ".join(f"{int(data[s]):,} {s}" for s in sizes)
        if self.table is not None:
            counts = self.table.counts
            rows = np.bincount(data[self.table.block], minlength=len(counts) + 1)[1:]
            named = zip(rows, counts, strict=True)
            *some, last = (f"{size:,} of {count}" for size, count in named)
            return f"{total:,} rows, {', '.join(some)} and {last}"
        if self.segments:
            return f"{total:,} segments of {', '.join(self.segments)}"
        return f"{total:,}"

    def prior_data(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """One row of weight zero: with these data the program is its prior."""
        return self.subset(data, slice(0, 1), np.zeros(1))

    def _valid_weights(self, weights: ArrayLike, size: int) -> NDArray[np.float64]:
        try:
            array = np.array(weights, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(f"{self.weights} are not numbers: {error}") from error
        if array.shape == () and size == 1:
            array = array.reshape(1)
        if array.shape != (size,):
            raise DataError(
                f"{self.weights} have shape {array.shape}; expected one for each of {size} rows"
            )
        bad = ~(np.isfinite(array) & (array >= 0))
        if bad.any():
            first = int(np.argmax(bad))
            raise DataError(
                f"{self.weights}[{first}] (counting from 0) is {array[first]}; "
                "expected a finite number >= 0"
            )
        return array


def _of_cell(name: str) -> str:
    """The table of ``y_cell``; empty for other names."""
    return name.rpartition("_cell")[0]


def _selector(indices: Rows, n_obs: int) -> tuple[slice | NDArray[np.intp], int]:
    """Rows as a numpy index, and their number."""
    if isinstance(indices, slice):
        size = len(range(*indices.indices(n_obs)))
        if size < 1:
            raise DataError(f"rows {indices} of {n_obs} select no row; expected at least one")
        return indices, size
    chosen = np.asarray(indices)
    if chosen.dtype == bool and chosen.shape == (n_obs,):
        chosen = np.flatnonzero(chosen)
    if chosen.ndim != 1 or chosen.dtype.kind not in "iu" or not chosen.size:
        raise DataError(
            f"row indices of shape {chosen.shape} and type {chosen.dtype}; expected a list of at "
            f"least one whole number from 0 to {n_obs - 1}"
        )
    if chosen.min() < 0 or chosen.max() >= n_obs:
        worst = chosen.min() if chosen.min() < 0 else chosen.max()
        raise DataError(f"row {worst} does not exist; expected 0 to {n_obs - 1}")
    return chosen.astype(np.intp, copy=False), len(chosen)


def weighted_program(program: StanProgram, obs: str | None = None) -> WeightedProgram:
    """Recognise a program that weights its rows, and find which data carry observations.

    `obs` names the data integer that counts observations; by default it is the size of ``weights``.
    If the program does not meet the contract, a ProgramError names the variable and its line and
    says what to write.

    >>> from stancoreset.stan import stan_model_path
    >>> weighted_program(StanProgram.from_file(stan_model_path("gaussian_mean"))).obs
    'N'
    """
    count = observation_count(program.tree, program.name, obs)
    rows = observation_axes(program.data, count)
    check_contract(program.tree, count, rows)
    return WeightedProgram(program, count, {k: v for k, v in rows.items() if k != WEIGHTS})
