"""Plots of several posteriors: forests of intervals and marginal densities, by ArviZ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stancoreset.checks import check_number, check_whole
from stancoreset.errors import DataError, OptionError
from stancoreset.posterior.corrected import systematic_resample
from stancoreset.posterior.named import NamedPosterior, common_variables, read_posteriors, scalars
from stancoreset.posterior.plots.figures import (
    COLORS,
    LINES,
    LineStyle,
    Panels,
    check_axes,
    new_axes,
    tidy,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_density", "plot_forest"]

Float = NDArray[np.float64]


def plot_forest(
    posteriors: Mapping[str, Any],
    var_names: Sequence[str] | None = None,
    ax: Axes | None = None,
    *,
    prob: float = 0.94,
    max_parameters: int = 40,
    weights: Mapping[str, Any] | None = None,
) -> Axes:
    """Plot intervals of every parameter, one posterior below another.

    Parameters
    ----------
    posteriors : mapping of str to posterior
        See `stancoreset.compare`.
    var_names : sequence of str, optional
        Default: all parameters that the posteriors share.
    ax : matplotlib Axes, optional
    prob : float
        Mass of the outer interval.
    max_parameters : int
        Largest number of scalars drawn; the title says if there are more.
    weights : mapping of str to array, optional
        Importance weights of draws, as in `stancoreset.compare`.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    OptionError, DataError
        As `stancoreset.compare`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> ax = plot_forest({"full": {"b": rng.normal(size=(4, 100, 3))},
    ...                   "coreset": {"b": rng.normal(size=(4, 100, 3))}})
    >>> [text.get_text() for text in ax.get_yticklabels()]
    ['b[0]', 'b[1]', 'b[2]']
    """
    from stancoreset.posterior.arviz import draw_forest

    check_number("prob", prob)
    if not 0 < prob < 1:
        raise OptionError(f"prob must lie strictly between 0 and 1, got {prob}")
    check_axes(ax)
    check_whole("max_parameters", max_parameters, 1)
    names, samples, total = _samples(posteriors, var_names, max_parameters, weights)
    rows, colors = len(samples[0]), _colors(len(names))
    if ax is None:
        ax = new_axes(width=7.0, height=1.4 + rows * (0.24 + 0.13 * len(names)))
    draw_forest(ax, samples, colors, prob=prob)
    left, right = ax.get_xlim()
    if left < 0 < right:
        ax.axvline(0, color="0.8", linewidth=0.8, zorder=0)
    tidy(ax)
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel(f"{100 * prob:g} % highest-density intervals")
    if rows < total:
        ax.set_xlabel(f"{ax.get_xlabel()}; first {rows} of {total} parameters")
    if len(names) > 1:
        ax.legend(
            handles=_handles(names, colors, lines=("-",)),
            loc="lower center",
            bbox_to_anchor=(0.5, 1.0),
            ncols=4,
            frameon=False,
        )
    return ax


def plot_density(
    posteriors: Mapping[str, Any],
    var_names: Sequence[str] | None = None,
    ax: Axes | Panels | Sequence[Axes] | None = None,
    *,
    max_parameters: int = 12,
    weights: Mapping[str, Any] | None = None,
) -> Panels:
    """Plot overlaid marginal densities of several posteriors, one panel per parameter.

    Parameters
    ----------
    posteriors, var_names, weights
        As in `plot_forest`. The first posterior is filled.
    ax : Axes or array of Axes, optional
        At least one per parameter; further ones are left alone.
    max_parameters : int
        Largest number of scalars drawn; the figure says if there are more.

    Returns
    -------
    ndarray of matplotlib Axes, one per parameter

    Raises
    ------
    OptionError, DataError
        As `stancoreset.compare`, and if `ax` has too few axes.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> axes = plot_density({"full": {"b": rng.normal(size=(4, 100, 3))}})
    >>> [panel.get_title() for panel in axes]
    ['b[0]', 'b[1]', 'b[2]']
    """
    from stancoreset.posterior.arviz import draw_density

    check_axes(ax, several=True)
    check_whole("max_parameters", max_parameters, 1)
    names, samples, total = _samples(posteriors, var_names, max_parameters, weights)
    labels, colors = list(samples[0]), _colors(len(names))
    panels = _grid(len(labels)) if ax is None else _given_axes(ax, len(labels))
    for panel, label in zip(panels, labels, strict=True):
        for i, (sample, color) in enumerate(zip(samples, colors, strict=True)):
            draws = sample[label]
            if np.ptp(draws) <= 1e-12 * np.abs(draws).max():
                panel.axvline(draws[0], color=color, linestyle=LINES[i % 4], linewidth=1.6)
            else:
                fill = 0.3 if i == 0 else 0.0
                draw_density(panel, draws, color=color, linestyle=LINES[i % 4], fill=fill)
        tidy(panel)
        text, size = _fitted(label)
        panel.set_title(text, fontsize=size)
        panel.set_ylim(bottom=0)
        panel.set_yticks([])
        panel.spines["left"].set_visible(False)
        panel.tick_params(labelsize=9)
        panel.locator_params(axis="x", nbins=4)  # as many ticks as long numbers leave room for
    figure = panels[0].figure
    if ax is None:
        handles = _handles(names, colors)
        note = f"first {len(labels)} of {total} parameters" if len(labels) < total else None
        figure.legend(
            handles=handles, loc="outside upper center", ncols=4, frameon=False, title=note
        )
    elif len(names) > 1:
        panels[0].legend(handles=_handles(names, colors), frameon=False, fontsize=8)
    return panels


def _samples(
    posteriors: Mapping[str, Any],
    var_names: Sequence[str] | None,
    max_parameters: int,
    weights: Mapping[str, Any] | None,
) -> tuple[list[str], list[dict[str, Float]], int]:
    """Names, each posterior's draws by label, and the number of labels."""
    read = read_posteriors(posteriors, weights=weights)
    base = read[0]
    shared = [common_variables(base, posterior, var_names) for posterior in read[1:] or read]
    common = [name for name in shared[0] if all(name in names for names in shared)]
    if not common:
        raise DataError(
            "no parameter is in all of the posteriors " + ", ".join(repr(p.name) for p in read)
        )
    labels = list(scalars(base.dataset, common))
    kept = labels[:max_parameters]
    samples = []
    for posterior in read:
        columns = scalars(posterior.dataset, common, labels_of=base.dataset)
        index = _equally_weighted(posterior)
        samples.append({label: columns[label].ravel()[index] for label in kept})
    return [posterior.name for posterior in read], samples, len(labels)


def _equally_weighted(posterior: NamedPosterior) -> Any:
    """Resample a weighted posterior systematically to draws of equal weight."""
    if posterior.weights is None:
        return slice(None)
    weights = posterior.weights
    # the effective number: more would only repeat draws, and densities would ripple
    return systematic_resample(weights, max(1, round(1 / float(weights @ weights))))


def _grid(panels: int) -> Panels:
    """An array of axes, at most four per row; unused axes of the last row are removed."""
    import matplotlib.pyplot as plt

    columns = panels if panels <= 4 else (3 if panels in (5, 6, 9) else 4)
    rows = -(-panels // columns)
    width = max(5.0, 2.6 * columns)
    size = (width, 2.1 * rows + 0.6)
    _, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    flat = axes.ravel()
    for spare in flat[panels:]:
        spare.remove()
    return flat[:panels]


def _given_axes(ax: Axes | Panels | Sequence[Axes], panels: int) -> Panels:
    flat = np.ravel(np.asarray(ax, dtype=object))
    if flat.size < panels:
        raise OptionError(
            f"{panels} parameters need {panels} axes, ax holds {flat.size}; "
            "give more axes, or fewer parameters by var_names or max_parameters"
        )
    return flat[:panels]


def _fitted(label: str) -> tuple[str, float]:
    """A panel's title that fits its panel: smaller, and shortened if need be."""
    if len(label) > 42:
        label = f"{label[:24]}…{label[-17:]}"
    return label, float(np.clip(10 * 26 / len(label), 6.5, 10))


def _colors(count: int) -> list[str]:
    return [COLORS[i % len(COLORS)] for i in range(count)]


def _handles(
    names: Sequence[str], colors: Sequence[str], lines: Sequence[LineStyle] = LINES
) -> list[Any]:
    from matplotlib.lines import Line2D

    return [
        Line2D([], [], color=color, linestyle=lines[i % len(lines)], linewidth=2, label=name)
        for i, (name, color) in enumerate(zip(names, colors, strict=True))
    ]
