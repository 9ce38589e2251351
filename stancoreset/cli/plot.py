"""``stancoreset plot``: pictures of finished runs, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stancoreset.checks import check_choice, check_path
from stancoreset.cli.pictures import save_picture
from stancoreset.cli.posteriors import posteriors_at
from stancoreset.errors import DataError, OptionError
from stancoreset.posterior import arviz, plots
from stancoreset.runs import CoresetFit, load_fit, results_in
from stancoreset.selection import row_columns
from stancoreset.stan.data import read_data

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Request:
    """A request for one picture.

    `posteriors` are the fit's, its reference's, and others to draw; `data` are the full data, for
    weights over covariates, and `columns` two of their columns.
    """

    fit: CoresetFit
    posteriors: Mapping[str, Any]
    var_names: Sequence[str] | None = None
    scale: plots.Scale = "auto"
    data: str | Path | None = None
    columns: tuple[str, str] | None = None


def _weights(request: Request) -> Any:
    if request.data is None:
        if request.columns is not None:
            raise OptionError("--columns needs the full data: add --data DATA")
        return plots.plot_weights(request.fit)
    table = covariates(read_data(request.data), request.fit.coreset.n_obs)
    if request.columns is None:
        if len(table.columns) < 2:
            raise OptionError(
                f"{request.data} has {len(table.columns)} column(s) of "
                f"{request.fit.coreset.n_obs} rows, expected at least two, the axes of the "
                "picture: give the data that were fitted"
            )
        return plots.plot_weights(request.fit, table)
    return plots.plot_weights(request.fit, table, columns=request.columns)


def _refinement(request: Request) -> Any:
    rounds = getattr(request.fit, "rounds", ())
    if not rounds:
        raise DataError(
            "the run has no record of rounds, so that there is nothing to draw; draw another kind "
            "of picture, such as certificate"
        )
    return plots.plot_refinement(rounds)


#: Pictures by name.
KINDS: dict[str, Callable[[Request], Any]] = {
    "certificate": lambda request: plots.plot_certificate(request.fit),
    "density": lambda request: plots.plot_density(request.posteriors, request.var_names),
    "forest": lambda request: plots.plot_forest(
        request.posteriors, request.var_names, scale=request.scale
    ),
    "overview": lambda request: plots.plot_fit(request.fit, var_names=request.var_names),
    "path": lambda request: plots.plot_path(request.fit.coreset),
    "refinement": _refinement,
    "weights": _weights,
}


def plot_run(
    run: str | Path,
    kind: str,
    output: str | Path,
    *,
    also: Sequence[str | Path] = (),
    var_names: Sequence[str] | None = None,
    scale: plots.Scale = "auto",
    data: str | Path | None = None,
    columns: tuple[str, str] | None = None,
) -> Path:
    """Draw the picture `kind` of a finished run, and write it to `output`, which is returned.

    ``density`` and ``forest`` show the run's posterior, its reference, a ``full.nc`` in the run's
    folder and `also`, folders of other fits or ArviZ ``.nc`` files; `scale` is that of a forest's
    axis, see `stancoreset.plots.plot_forest`. `data` and `columns` are for
    ``weights``: the full data, and two of its columns (``age``, ``X[2]``).
    """
    check_choice("kind", kind, KINDS)
    output = check_path("output", output)
    _require_format(output)
    fit = load_fit(run)
    posteriors: dict[str, Any] = {}
    full = results_in(check_path("run", run)) / "full.nc"
    if full.exists():
        posteriors["full"] = arviz.load(full)
    posteriors |= fit.posteriors
    posteriors |= posteriors_at(also, taken=posteriors)
    axes = KINDS[kind](Request(fit, posteriors, var_names, scale, data, columns))
    save_picture(axes, output)
    return output


def _require_format(output: Path) -> None:
    from matplotlib.backend_bases import FigureCanvasBase

    known = FigureCanvasBase.get_supported_filetypes()
    if output.suffix.lstrip(".").lower() not in known:
        raise OptionError(
            f"output is {output}: its name must end in a picture format, such as .png, .pdf or .svg"
        )


def covariates(data: Mapping[str, Any], n_obs: int) -> pd.DataFrame:
    """Tabulate the numbers of every row, one column each, with Stan's names.

    >>> data = {"N": 3, "y": [0, 1, 1], "X": np.eye(3)[:, :2]}
    >>> list(covariates(data, 3).columns)
    ['y', 'X[1]', 'X[2]']
    """
    import pandas as pd

    arrays = {name: np.asarray(value) for name, value in data.items()}
    rows = {name: 0 for name, value in arrays.items() if value.ndim and len(value) == n_obs}
    return pd.DataFrame(row_columns(arrays, rows))
