"""``stancoreset plot``: pictures of finished runs, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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


#: Pictures by name.
KINDS = ("certificate", "density", "forest", "overview", "path", "refinement", "weights")


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
    drawn: dict[str, Callable[[], Any]] = {
        "certificate": lambda: plots.plot_certificate(fit.certificate),
        "density": lambda: plots.plot_density(posteriors, var_names),
        "forest": lambda: plots.plot_forest(posteriors, var_names, scale=scale),
        "overview": lambda: plots.plot_fit(fit, var_names=var_names),
        "path": lambda: plots.plot_path(fit.coreset),
        "refinement": lambda: _refinement(fit),
        "weights": lambda: _weights(fit, data, columns),
    }
    save_picture(drawn[kind](), output)
    return output


def _refinement(fit: CoresetFit) -> Any:
    if not fit.rounds:
        raise DataError(
            "the run has no record of rounds, so that there is nothing to draw; draw another kind "
            "of picture, such as certificate"
        )
    return plots.plot_refinement(fit.rounds)


def _weights(fit: CoresetFit, data: str | Path | None, columns: tuple[str, str] | None) -> Any:
    """The weights in order, or over two columns of the full data."""
    if data is None:
        if columns is not None:
            raise OptionError("--columns needs the full data: add --data DATA")
        return plots.plot_weights(fit)
    table = covariates(read_data(data), fit.coreset.n_obs)
    if columns is None and len(table.columns) < 2:
        raise OptionError(
            f"{data} has {len(table.columns)} column(s) of {fit.coreset.n_obs} rows, expected at "
            "least two, the axes of the picture: give the data that were fitted"
        )
    return plots.plot_weights(fit, table, columns=columns or (0, 1))


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
