"""A fit in one figure: its certificate, its weights, and marginals beside its reference's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from stancoreset.checks import check_whole, shown
from stancoreset.errors import OptionError
from stancoreset.posterior.plots.coresets import plot_certificate, plot_weights
from stancoreset.posterior.plots.figures import Panels
from stancoreset.posterior.plots.posteriors import (
    Drawn,
    draw_densities,
    draw_intervals,
    legend_lines,
    read_drawn,
    row_height,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

__all__ = ["plot_fit"]

# Panels beside each other; the largest number of densities, and of intervals in their place.
_COLUMNS = 4
_DENSITIES, _INTERVALS = 12, 100
_PROB = 0.94


def plot_fit(
    fit: Any,
    figure: Figure | None = None,
    *,
    var_names: Sequence[str] | None = None,
    max_parameters: int | None = None,
) -> Panels:
    """Plot a fit's certificate and weights, and the parameters beside the reference's.

    Up to twelve parameters are drawn as densities, more as intervals.

    Parameters
    ----------
    fit : CoresetFit
    figure : matplotlib Figure, optional
        An empty one, which takes the size of what is drawn; a new one by default.
    var_names : sequence of str, optional
        Default: all parameters.
    max_parameters : int, optional
        Largest number of densities, drawn also if there are more parameters; the figure says so.

    Returns
    -------
    ndarray of matplotlib Axes
        The certificate's, the weights', and one for each density, or two of intervals.

    Raises
    ------
    OptionError
        If `fit` is no fit.
    DataError
        If one of `var_names` does not exist.
    """
    from matplotlib.figure import Figure

    if max_parameters is not None:
        check_whole("max_parameters", max_parameters, 1)
    for attribute in ("posteriors", "certificate", "coreset"):
        if not hasattr(fit, attribute):
            raise OptionError(f"fit is {shown(fit)}, expected what CoresetModel.fit returns")
    if figure is not None and not isinstance(figure, Figure):
        raise OptionError(f"figure is {shown(figure)}, expected a matplotlib Figure")
    drawn = read_drawn(fit, var_names, max_parameters or _INTERVALS, None)
    count = len(drawn.labels)
    dense = max_parameters is not None or count <= _DENSITIES
    below = 2.0 * -(-count // _COLUMNS) if dense else 0.5 + row_height(drawn) * -(-count // 2)
    if figure is None:
        import matplotlib.pyplot as plt

        figure = plt.figure(layout="constrained")
    figure.set_size_inches(10.5, 4.0 + 0.6 + below)
    parts = figure.subfigures(2, 1, squeeze=False, height_ratios=(4.0, 0.6 + below))[:, 0]
    first, second = np.ravel(parts[0].subplots(1, 2))
    plot_certificate(fit, first)
    plot_weights(fit, ax=second)
    panels = (_densities if dense else _intervals)(parts[1], drawn)
    return np.array([first, second, *panels], dtype=object)


def _densities(figure: SubFigure, drawn: Drawn) -> Panels:
    """Draw densities, at most four beside each other."""
    rows = -(-len(drawn.labels) // _COLUMNS)
    grid = np.ravel(figure.subplots(rows, _COLUMNS, squeeze=False))
    for spare in grid[len(drawn.labels) :]:
        spare.remove()
    panels = grid[: len(drawn.labels)]
    _legend(figure, drawn, draw_densities(panels, drawn))
    return panels


def _intervals(figure: SubFigure, drawn: Drawn) -> Panels:
    """Draw intervals, half of the parameters beside the other half."""
    half = -(-len(drawn.labels) // 2)
    standardised = drawn.standardised("auto", _PROB)
    panels = np.ravel(figure.subplots(1, 2))
    for panel, labels in zip(panels, (drawn.labels[:half], drawn.labels[half:]), strict=True):
        said = draw_intervals(panel, drawn.part(labels), prob=_PROB, standardised=standardised)
        panel.set_xlabel(said)
        missing = half - len(labels)  # rows of the same height in both panels
        panel.set_ylim(bottom=panel.get_ylim()[0] - missing)
    _legend(figure, drawn, legend_lines(drawn, lines=("-",)))
    return panels


def _legend(figure: SubFigure, drawn: Drawn, handles: Sequence[Any]) -> None:
    figure.legend(
        handles=handles,
        loc="outside upper center",
        ncols=4,
        frameon=False,
        title=drawn.note or None,
    )
