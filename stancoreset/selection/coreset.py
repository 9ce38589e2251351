"""The coreset: its rows, their weights, and how they were selected."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stancoreset.checks import check_is, check_number, check_path, check_text, check_whole
from stancoreset.engines import Float, StanData
from stancoreset.errors import DataError, OptionError, SolverError
from stancoreset.files import atomic_path, read_numbers, reading, write_text
from stancoreset.posterior import card, percent
from stancoreset.selection.control_variates import ControlVariate
from stancoreset.selection.hermite import HermiteProjection
from stancoreset.selection.in_the_loop import METHODS as IN_THE_LOOP
from stancoreset.selection.projection import Projection, heldout_error
from stancoreset.selection.solvers import SolverName, solve
from stancoreset.selection.taylor import TaylorProjection

if TYPE_CHECKING:
    import pandas as pd

#: Method of a coreset whose rows replace no others: the quadratic stands for all of the rest.
QUADRATIC_ONLY = "quadratic only"

#: Projections of what a control variate leaves to the rows; ``penalised`` makes a regression.
Remainder: TypeAlias = TaylorProjection | HermiteProjection

# Columns of every table of a coreset.
_ROW, _WEIGHT = "row", "weight"
# Column of tables for rows whose information is known.
_INFORMATION = "information"


@dataclass(frozen=True)
class Coreset:
    """A few weighted rows that represent all rows of the data.

    Attributes
    ----------
    indices : ndarray of int, shape (k,)
        Row numbers in the full data, from 0, ascending.
    weights : ndarray, shape (k,)
        Positive weights.
    n_obs : int
        N, rows of the full data.
    method : str
        Selection algorithm. ``"quadratic only"``: no row was selected, because the quadratic is
        accurate enough, or because no row would make it more accurate; the rows are then random
        ones, with the weights that they have in the data. ``"all rows"``: the data are their own
        coreset.
    relative_error : float
        ‖b − Φw‖ / ‖b‖ on the draws used for selection.
    heldout_error : float
        ‖b − Φw‖ / ‖b‖ on draws not used for selection: trust this error.
    trace : tuple of float
        Relative error after each round of the algorithm.
    sizes : tuple of int
        Number of rows after each of these rounds; empty if unknown.
    rows : dict of str to int
        Data variables that hold observations, each with the axis that counts them.
    obs : str
        Name of the data integer that counts observations.
    weights_name : str
        Name of the data vector of weights.
    provenance : dict
        Seeds, hashes of program and data, versions.
    norm : float or None
        ‖b‖, the standard deviation of the full log likelihood over the reference, to which errors
        are relative.
    control : ControlVariate or None
        The quadratic added to the rows' log likelihood; errors include it.
    columns : dict of str to ndarray
        The rows' data, (k,) each, by Stan's names (``y``, ``x[1]``), as `row_columns` makes them;
        empty if unknown.
    information : ndarray, shape (k,), or None
        Information of each row: the decrease of the posterior's entropy, in nats, that is expected
        if the row is observed again, as often as its weight says, for the reference by which rows
        were selected; see `stancoreset.CoresetModel.information`. None if it was not computed.
    """

    indices: NDArray[np.int64] = field(repr=False)
    weights: Float = field(repr=False)
    n_obs: int
    method: str
    relative_error: float
    heldout_error: float
    trace: tuple[float, ...] = field(default=(), repr=False)
    rows: Mapping[str, int] = field(default_factory=dict, repr=False)
    obs: str = "N"
    weights_name: str = "weights"
    provenance: Mapping[str, Any] = field(default_factory=dict, repr=False)
    norm: float | None = field(default=None, repr=False)
    control: ControlVariate | None = None
    sizes: tuple[int, ...] = field(default=(), repr=False)
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict, repr=False, compare=False)
    information: Float | None = field(default=None, repr=False, compare=False)

    def __repr__(self) -> str:
        error = f"held-out error {self.heldout_error:.2g}"
        if self.method == QUADRATIC_ONLY:
            return f"Coreset({self.made_of}, {error})"
        rows = self.provenance.get("observations", f"{self.n_obs:,} rows")  # cells, segments, …
        completed = "" if self.control is None else ", completed by a quadratic"
        return f"Coreset({self.size:,} of {rows} by {self.method}{completed}, {error})"

    @property
    def made_of(self) -> str:
        """Its rows in words, for headlines: ``"25 weighted rows of 30,000"``."""
        named = self.provenance.get("observations")
        rows = f"of {named}" if named else f"rows of {self.n_obs:,}"
        if self.method == QUADRATIC_ONLY:
            return f"{QUADRATIC_ONLY}, beside {self.size:,} {rows} chosen at random"
        return f"{self.size:,} weighted {rows}"

    def _repr_html_(self) -> str:
        """A card for notebooks."""
        control, predicted = self.control, self.predicted_ess
        coordinates = 0 if control is None else len(control.columns)
        facts = [
            ("method", self.method),
            ("sum of weights", f"{self.weights.sum():,.0f}"),
            ("relative error, held out", f"{self.relative_error:.2g}, {self.heldout_error:.2g}"),
            ("completed by", f"a quadratic in {coordinates:,} coordinates" if coordinates else ""),
            (
                "efficiency predicted before NUTS",
                "" if predicted is None else percent(predicted),
            ),
        ]
        return card(f"Coreset: {self.made_of}", facts)

    @property
    def size(self) -> int:
        """k, the number of rows."""
        return len(self.indices)

    @property
    def predicted_ess(self) -> float | None:
        """Importance efficiency of the coreset's draws, predicted before NUTS.

        The log weights of the coreset's draws have the variance σ², σ = heldout_error · norm, and
        ESS / n = (E W)² / E W² = exp(−σ²) for log-normal weights W. With a `HermiteProjection` σ²
        is exact under its Gaussian, with others it is an average over draws. None if the coreset
        has no norm.
        """
        if self.norm is None:
            return None
        return float(np.exp(-((self.heldout_error * self.norm) ** 2)))

    def __len__(self) -> int:
        return len(self.indices)

    def to_frame(self) -> pd.DataFrame:
        """A table with one line per row: ``row`` (from 0), ``weight``, and the row's data.

        The column ``information``, if it is known, comes before the data. A data variable that is
        itself called ``row`` becomes the column ``data.row``; likewise ``weight`` and
        ``information``.
        """
        import pandas as pd

        own = {_ROW: self.indices, _WEIGHT: self.weights}
        if self.information is not None:
            own[_INFORMATION] = self.information
        taken = (_ROW, _WEIGHT, _INFORMATION)
        data = {f"data.{n}" if n in taken else n: value for n, value in self.columns.items()}
        return pd.DataFrame({**own, **data})

    def subset(self, data: StanData) -> dict[str, Any]:
        """Data for the weighted Stan program, cut down to the coreset's rows.

        Parameters
        ----------
        data : mapping
            The full data, N rows.

        Returns
        -------
        dict
            Row variables cut down to the coreset's rows, ``weights`` filled in, the number
            of observations replaced by k, everything else unchanged. A woven program may
            need variables computed from all rows: pass ``model.read(data)``.

        Raises
        ------
        DataError
            If a row variable is missing or does not have N rows.
        """
        check_is("data", data, Mapping, "a dict of the full data")
        out = dict(data)
        for name, axis in self.rows.items():
            if name not in data:
                raise DataError(
                    f"the data lack '{name}', which has an entry for each observation: give the "
                    "data from which the coreset was selected"
                )
            value = np.asarray(data[name])
            if not value.size:
                continue  # declared with N entries or none, as `vector[has_offset ? N : 0]`
            if value.ndim <= axis or value.shape[axis] != self.n_obs:
                raise DataError(
                    f"'{name}' has shape {value.shape}, expected {self.n_obs} rows on axis {axis}: "
                    "these are not the data that the coreset was selected from"
                )
            out[name] = np.take(value, self.indices, axis=axis)
        out[self.obs] = self.size
        out[self.weights_name] = self.weights.copy()
        return out

    def save(self, path: str | Path) -> None:
        """Save the rows, their weights and their data as CSV, and everything else beside it.

        `path` names the CSV file; ``<path stem>.json`` holds method, errors and provenance, and
        ``<path stem>.npz`` the control variate, if there is one.
        """
        path = check_path("path", path)
        with atomic_path(path) as temporary:
            self.to_frame().to_csv(temporary, index=False)
        if self.control is not None:
            self.control.save(path.with_suffix(".npz"))
        write_text(path.with_suffix(".json"), json.dumps(self.describe(), indent=2) + "\n")

    def describe(self) -> dict[str, Any]:
        """Everything except rows and weights, as plain values for JSON."""
        apart = ("indices", "weights", "columns", "information")
        return {
            "size": self.size,
            **{name: value for name, value in vars(self).items() if name not in apart},
            "trace": list(self.trace),
            "sizes": list(self.sizes),
            "rows": dict(self.rows),
            "provenance": dict(self.provenance),
            "predicted_ess": self.predicted_ess,
            "control": None if self.control is None else self.control.describe(),
        }

    @classmethod
    def load(cls, path: str | Path) -> Coreset:
        """Read a coreset written by `save`.

        Raises
        ------
        DataError
            If a file is missing or does not hold a coreset.
        """
        path = check_path("path", path)
        beside = path.with_suffix(".json")
        try:
            with reading(path, DataError):
                table = read_numbers(path)
                indices, weights = table[_ROW].to_numpy(), table[_WEIGHT].to_numpy(np.float64)
                told = table[_INFORMATION].to_numpy(np.float64) if _INFORMATION in table else None
                data = table.drop(columns=[_ROW, _WEIGHT, _INFORMATION], errors="ignore")
                columns = {str(name).removeprefix("data."): data[name].to_numpy() for name in data}
            with reading(beside, DataError):
                about = json.loads(beside.read_text(encoding="utf-8"))
                size, control = about.pop("size"), about.pop("control", None)
                about.pop("predicted_ess", None)
                about |= {"trace": tuple(about["trace"]), "sizes": tuple(about.get("sizes", ()))}
                if control is not None:
                    about["control"] = ControlVariate.load(path.with_suffix(".npz"))
                about |= {"columns": columns, "information": told}
                coreset = cls(indices=indices, weights=weights, **about)
                _require_about(coreset)
            with reading(path, DataError):
                _require_rows(coreset, size)
        except FileNotFoundError as error:
            raise DataError(f"no coreset at {path}: {error.filename} does not exist") from None
        return replace(coreset, indices=indices.astype(np.int64))


def row_columns(data: Mapping[str, Any], rows: Mapping[str, int]) -> dict[str, NDArray[Any]]:
    """Row variables as columns, one for each of a row's numbers, by Stan's names.

    `rows` are the names of the variables, each with the axis that counts rows; those that the data
    lack, or have nothing of, are left out.

    >>> data = {"y": np.zeros(3), "X": np.eye(3)[:, :2], "prior": np.ones(2)}
    >>> list(row_columns(data, {"y": 0, "X": 0}))
    ['y', 'X[1]', 'X[2]']
    """
    columns: dict[str, NDArray[Any]] = {}
    for name, axis in rows.items():
        value = np.asarray(data.get(name, ()))
        if value.size:
            value = np.moveaxis(value, axis, 0)
            for cell in np.ndindex(value.shape[1:]):
                at = f"[{','.join(str(i + 1) for i in cell)}]" if cell else ""
                columns[name + at] = value[(slice(None), *cell)]
    return columns


def _require_about(coreset: Coreset) -> None:
    """Refuse values that no coreset has."""
    check_whole("n_obs", coreset.n_obs, 1)
    for name in ("method", "obs", "weights_name"):
        check_text(name, getattr(coreset, name))
    for name in ("relative_error", "heldout_error"):
        check_is(name, getattr(coreset, name), (int, float), "a number")
    if coreset.norm is not None:
        check_is("norm", coreset.norm, (int, float), "a number")
    for name in ("rows", "provenance"):
        check_is(name, getattr(coreset, name), dict, "a table")


def _require_rows(coreset: Coreset, size: object) -> None:
    """Refuse rows and weights that cannot belong to a coreset of this size."""
    rows, weights = coreset.indices, coreset.weights
    if len(rows) != size:
        raise DataError(f"it has {len(rows)} rows, but the coreset had {size}")
    if rows.dtype.kind != "i" or (np.diff(rows) <= 0).any():
        raise DataError("its rows are not ascending whole numbers")
    if len(rows) and not 0 <= rows[0] <= rows[-1] < coreset.n_obs:
        raise DataError(f"its rows are {rows[0]} to {rows[-1]} of {coreset.n_obs}")
    if not (np.isfinite(weights) & (weights >= 0)).all():
        at = int(np.argmin(np.isfinite(weights) & (weights >= 0)))
        raise DataError(f"the weight of row {rows[at]} is {weights[at]}, expected at least 0")


def select(
    projection: Projection | Remainder,
    size: int,
    method: SolverName = "pursuit",
    *,
    seed: int = 0,
    penalty: float | None = None,
    **options: Any,
) -> Coreset:
    """Select rows and weights on a projection.

    Parameters
    ----------
    projection : Projection, TaylorProjection or HermiteProjection
    size : int
        k, the largest number of rows.
    method : str
        One of ``stancoreset.selection.solvers.METHODS``.
    seed : int
    penalty : float, optional
        For a `TaylorProjection` or a `HermiteProjection`: the weight of the second-order part in
        the regression. With zero, that part is left to the control variate. Default: the first of
        the projection's ``penalties``.
    **options
        Passed to the algorithm; see `stancoreset.selection.solvers.solve`.

    Returns
    -------
    Coreset

    Raises
    ------
    OptionError
        If `size` is below 1 or above the number of rows.
    SolverError
        If the algorithm cannot use its arguments.
    """
    kinds = (Projection, TaylorProjection, HermiteProjection)
    check_is("projection", projection, kinds, "what model.project returns")
    check_whole("size", size, 1)
    check_text("method", method, "the name of a selection algorithm")
    check_whole("seed", seed, 0)
    if penalty is not None:
        check_number("penalty", penalty, 0)
    if not isinstance(projection, Projection):
        first = projection.penalties[0]
        projection = projection.penalised(first if penalty is None else penalty)
    if not 1 <= size <= projection.n_obs:
        raise OptionError(
            f"size is {size}, expected a number from 1 to {projection.n_obs}, the rows of the data"
        )
    if method in IN_THE_LOOP:
        raise OptionError(
            f"method {method!r} draws from the coreset's own posterior and needs the model, not a "
            f"projection: use CoresetModel.fit(data, size={size}, method={method!r})"
        )
    phi, came = projection.phi, None
    if method in ("uniform", "importance"):
        # These methods sample the candidates as given; their weights represent all rows.
        came = projection.came
        total = projection.n_obs * (1.0 if came is None else float(np.mean(came)))
        total = options.setdefault("weights_sum", total)
        phi = phi if came is None else phi * came
    result = solve(phi, projection.target, size, method=method, seed=seed, **options)
    weights = result.weights
    if came is not None:
        weights = weights * came[result.indices]
        weights *= total / weights.sum()
    if len(result.indices) == 0:
        candidates = projection.phi.shape[1]
        remedy = (
            f"select from more than {candidates} candidates, or choose rows by chance, "
            "method='uniform'"
            if candidates < projection.n_obs
            else "all rows are candidates already: choose rows by chance, method='uniform', or, of "
            f"so few, take all, size={candidates}"
        )
        raise SolverError(
            f"method {method!r} selected no row: no non-negative combination of the "
            f"{candidates} candidates is nearer to the target than zero; {remedy}"
        )
    # The algorithm's errors are relative to its target, which may be a part of the log likelihood.
    trace = result.trace * (np.linalg.norm(projection.target) / projection.selection_size)
    return Coreset(
        indices=projection.candidates[result.indices],
        weights=weights,
        n_obs=projection.n_obs,
        method=method,
        relative_error=projection.error(result.indices, weights),
        heldout_error=heldout_error(projection, result.indices, weights),
        trace=tuple(float(e) for e in trace),
        sizes=tuple(int(k) for k in result.sizes),
        norm=projection.heldout_size,
    )
