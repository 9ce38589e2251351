"""A fit in one figure: its certificate, its weights, and marginals beside its reference's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stancoreset.checks import check_whole, shown
from stancoreset.errors import OptionError
from stancoreset.posterior.named import read_posteriors, scalars
from stancoreset.posterior.plots.coresets import plot_certificate, plot_weights
from stancoreset.posterior.plots.figures import Panels
from stancoreset.posterior.plots.posteriors import plot_density

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["plot_fit"]

_COLUMNS = 4


def plot_fit(fit: Any, figure: Figure | None = None, *, max_parameters: int = 8) -> Panels:
    """Plot a fit's certificate and weights, and the first parameters' marginal densities.

    Parameters
    ----------
    fit : CoresetFit
    figure : matplotlib Figure, optional
        An empty one, which takes the size of what is drawn; a new one by default.
    max_parameters : int
        Largest number of densities.

    Returns
    -------
    ndarray of matplotlib Axes
        The certificate's, the weights', and one for each parameter.

    Raises
    ------
    OptionError
        If `fit` is no fit.
    """
    from matplotlib.figure import Figure

    check_whole("max_parameters", max_parameters, 1)
    for attribute in ("posteriors", "certificate", "coreset"):
        if not hasattr(fit, attribute):
            raise OptionError(f"fit is {shown(fit)}, expected what CoresetModel.fit returns")
    if figure is not None and not isinstance(figure, Figure):
        raise OptionError(f"figure is {shown(figure)}, expected a matplotlib Figure")
    own = read_posteriors(fit)[0].dataset
    count = len(scalars(own, list(map(str, own))))
    drawn = min(count, max_parameters)
    rows = -(-drawn // _COLUMNS)
    if figure is None:
        import matplotlib.pyplot as plt

        figure = plt.figure(layout="constrained")
    figure.set_size_inches(10.5, 4.0 + 2.0 * rows)
    above, below = figure.subfigures(2, 1, squeeze=False, height_ratios=(1.6, max(1, rows)))[:, 0]
    first, second = np.ravel(above.subplots(1, 2))
    plot_certificate(fit, first)
    plot_weights(fit, ax=second)
    grid = np.ravel(below.subplots(rows, _COLUMNS, squeeze=False))
    for spare in grid[drawn:]:
        spare.remove()
    panels = plot_density(fit, ax=grid[:drawn], max_parameters=drawn)
    below.suptitle(
        f"first {drawn} of {count} parameters" if drawn < count else "parameters", fontsize=11
    )
    return np.array([first, second, *panels], dtype=object)
