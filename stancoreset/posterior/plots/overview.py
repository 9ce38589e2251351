"""A fit in one figure: its certificate, its weights, and marginals beside its reference's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from stancoreset.checks import check_whole, shown
from stancoreset.errors import OptionError
from stancoreset.posterior.plots.coresets import plot_certificate, plot_weights
from stancoreset.posterior.plots.figures import Panels
from stancoreset.posterior.plots.posteriors import (
    Drawn,
    draw_densities,
    draw_intervals,
    fitted,
    legend_lines,
    read_drawn,
    row_height,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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
        An empty figure, whose size and layout are then set by this function; default: a new one.
    var_names : sequence of str, optional
        Default: all parameters.
    max_parameters : int, optional
        Largest number of densities, which are then drawn even if there are more parameters than
        that; the figure says that some are missing.

    Returns
    -------
    ndarray of matplotlib Axes
        The axes of the certificate, of the weights (if the fit has a coreset), and of each density,
        or two axes of intervals.

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
    for attribute in ("posteriors", "certificate"):
        if not hasattr(fit, attribute):
            raise OptionError(f"fit is {shown(fit)}, expected what CoresetModel.fit returns")
    if figure is not None and not isinstance(figure, Figure):
        raise OptionError(f"figure is {shown(figure)}, expected a matplotlib Figure")
    drawn = read_drawn(fit, var_names, max_parameters or 100, None)
    count = len(drawn.labels)
    dense = max_parameters is not None or count <= 12
    rows = -(-count // _Sheet.COLUMNS) if dense else -(-count // 2)
    legend = 0.35 + (0.25 if drawn.note else 0.0)
    below = _Sheet.DENSITY * rows if dense else 1.25 + row_height(drawn) * rows
    if figure is None:
        import matplotlib.pyplot as plt

        figure = plt.figure()
    sheet = _Sheet(figure, _Sheet.ABOVE + legend + below)
    first = sheet.axes(0.75, below + legend + 0.6, 4.2, _Sheet.ABOVE - 1.4)
    above = [plot_certificate(fit, first)]
    if hasattr(fit, "coreset"):  # draws of a Gaussian have none
        second = sheet.axes(6.1, below + legend + 0.6, 4.2, _Sheet.ABOVE - 1.4)
        above.append(plot_weights(fit, ax=second))
    panels, handles = (_densities if dense else _intervals)(sheet, drawn, below)
    figure.legend(
        handles=handles,
        loc="upper center",
        bbox_to_anchor=(0.5, (below + legend) / sheet.height),
        ncols=4,
        frameon=False,
        title=drawn.note or None,
    )
    return np.array([*above, *panels], dtype=object)


@dataclass(frozen=True)
class _Sheet:
    """A figure of a height in inches, on which axes are placed in inches from below and left.

    Axes have places of their own: matplotlib's layout engines draw everything twice more to find
    them, and reports are written at every fit.
    """

    #: Panels beside each other, inches of the figure's width, of the upper panels and of a density.
    COLUMNS: ClassVar = 4
    WIDTH: ClassVar = 10.5
    ABOVE: ClassVar = 3.9
    DENSITY: ClassVar = 1.8

    figure: Figure
    height: float

    def __post_init__(self) -> None:
        self.figure.set_layout_engine("none")
        self.figure.set_size_inches(_Sheet.WIDTH, self.height)

    def axes(self, left: float, bottom: float, width: float, height: float) -> Axes:
        across, up = _Sheet.WIDTH, self.height
        return self.figure.add_axes((left / across, bottom / up, width / across, height / up))


def _densities(sheet: _Sheet, drawn: Drawn, top: float) -> tuple[Panels, list[Any]]:
    """Draw densities, at most four beside each other; return panels and a legend's lines."""
    wide, gap = (_Sheet.WIDTH - 0.3) / _Sheet.COLUMNS, 0.3
    panels = np.empty(len(drawn.labels), dtype=object)
    for i in range(len(panels)):
        row, column = divmod(i, _Sheet.COLUMNS)
        bottom = top - _Sheet.DENSITY * (row + 1) + 0.4
        panels[i] = sheet.axes(gap + wide * column, bottom, wide - gap, _Sheet.DENSITY - 0.7)
    return panels, draw_densities(panels, drawn)


def _intervals(
    sheet: _Sheet, drawn: Drawn, top: float, prob: float = 0.94
) -> tuple[Panels, list[Any]]:
    """Draw intervals, half of the parameters beside the other half."""
    half = -(-len(drawn.labels) // 2)
    standardised = drawn.standardised("auto", prob)
    names = {label: fitted(label, 26)[0] for label in drawn.labels}
    left = 0.2 + 0.085 * max(map(len, names.values()))
    right = 1.35 if standardised else 0.3
    panels = np.empty(2, dtype=object)
    for i, labels in enumerate((drawn.labels[:half], drawn.labels[half:])):
        wide = 0.5 * _Sheet.WIDTH
        panels[i] = sheet.axes(wide * i + left, 1.1, wide - left - right, top - 1.25)
        said = draw_intervals(panels[i], drawn.part(labels), prob=prob, standardised=standardised)
        panels[i].set_xlabel(said)
        panels[i].set_yticks(panels[i].get_yticks(), [names[label] for label in labels])
        missing = half - len(labels)  # rows have the same height in both panels
        panels[i].set_ylim(bottom=panels[i].get_ylim()[0] - missing)
    return panels, legend_lines(drawn, lines=("-",))
