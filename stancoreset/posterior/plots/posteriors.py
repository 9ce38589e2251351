"""Plots of several posteriors: forests of intervals, and marginal densities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from textwrap import fill
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from stancoreset.checks import check_choice, check_number, check_whole
from stancoreset.engines import Float
from stancoreset.errors import DataError, OptionError
from stancoreset.limits import ROUNDING
from stancoreset.posterior.arviz import kde
from stancoreset.posterior.corrected import systematic_resample
from stancoreset.posterior.digits import with_spread
from stancoreset.posterior.named import common_variables, read_posteriors, scalars
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

#: Scales of a forest's axis.
Scale: TypeAlias = Literal["auto", "values", "standardised"]
_SCALES: tuple[Scale, ...] = ("auto", "values", "standardised")


@dataclass(frozen=True)
class Drawn:
    """Draws of several posteriors, ready to be drawn.

    `samples` are equally weighted draws by label, and `divergent` the divergent draws by label, one
    mapping for each of the `names`; `total` is the number of labels before the cut.
    """

    names: list[str]
    samples: list[dict[str, Float]]
    divergent: list[dict[str, Float]]
    total: int

    @property
    def labels(self) -> list[str]:
        return list(self.samples[0])

    @property
    def colors(self) -> list[str]:
        return [COLORS[i % len(COLORS)] for i in range(len(self.names))]

    @property
    def note(self) -> str:
        """A note on parameters that are not drawn; empty if all are drawn."""
        if len(self.labels) == self.total:
            return ""
        return f"first {len(self.labels)} of {self.total} parameters, choose with var_names"

    def standardised(self, scale: Scale, prob: float) -> bool:
        """Whether a forest's axis holds standardised values."""
        hidden = scale == "auto" and _hides(self.samples[0], prob)
        return hidden or scale == "standardised"

    def part(self, labels: Sequence[str]) -> Drawn:
        """The draws of some parameters only."""
        samples, divergent = (
            [{label: draws[label] for label in labels} for draws in each]
            for each in (self.samples, self.divergent)
        )
        return replace(self, samples=samples, divergent=divergent)


def plot_forest(
    posteriors: Mapping[str, Any],
    var_names: Sequence[str] | None = None,
    ax: Axes | None = None,
    *,
    prob: float = 0.94,
    scale: Scale = "auto",
    max_parameters: int = 100,
    weights: Mapping[str, Any] | None = None,
) -> Axes:
    """Plot intervals of every parameter, one posterior below another.

    A thin line is the highest-density interval, a thick one runs between the quartiles, and a dot
    is the median.

    Parameters
    ----------
    posteriors : mapping of str to posterior
        See `stancoreset.compare`.
    var_names : sequence of str, optional
        Default: all parameters that the posteriors share.
    ax : matplotlib Axes, optional
    prob : float
        Mass of the outer interval.
    scale : {"auto", "values", "standardised"}
        ``"values"``: the parameters' own, all on one axis. ``"standardised"``: the distance to the
        mean of the first posterior in its standard deviations, with mean and standard deviation
        beside each parameter. ``"auto"``: values if every interval is wide enough to be seen on
        their axis, else standardised.
    max_parameters : int
        Largest number of scalars drawn; the axis says if there are more.
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
    check_number("prob", prob)
    if not 0 < prob < 1:
        raise OptionError(f"prob must lie strictly between 0 and 1, got {prob}")
    check_axes(ax)
    check_choice("scale", scale, _SCALES)
    check_whole("max_parameters", max_parameters, 1)
    drawn = read_drawn(posteriors, var_names, max_parameters, weights)
    if ax is None:
        ax = new_axes(width=7.0, height=1.4 + len(drawn.labels) * row_height(drawn))
    said = draw_intervals(ax, drawn, prob=prob, standardised=drawn.standardised(scale, prob))
    ax.set_xlabel("\n".join(line for line in (said, drawn.note) if line))
    if len(drawn.names) > 1:
        ax.legend(
            handles=legend_lines(drawn, lines=("-",)),
            loc="lower center",
            bbox_to_anchor=(0.5, 1.0),
            ncols=4,
            frameon=False,
        )
    return ax


def row_height(drawn: Drawn) -> float:
    """Inches that a parameter's intervals take: fewer if there are many."""
    each, between = (0.13, 0.24) if len(drawn.labels) <= 20 else (0.1, 0.14)
    return between + each * len(drawn.names)


def draw_intervals(ax: Axes, drawn: Drawn, *, prob: float, standardised: bool) -> str:
    """Draw the intervals of all parameters; return what the axis shows."""
    samples = _standardised(drawn.samples) if standardised else drawn.samples
    rows = np.arange(len(drawn.labels))[::-1]
    shifts = np.linspace(0.25, -0.25, len(samples)) if len(samples) > 1 else np.zeros(1)
    for sample, color, shift in zip(samples, drawn.colors, shifts, strict=True):
        columns = list(sample.values())
        quartiles = np.array([np.quantile(draws, (0.25, 0.5, 0.75)) for draws in columns])
        widest = np.array([_narrowest(draws, prob) for draws in columns])
        ax.hlines(rows + shift, *widest.T, color=color, linewidth=1.3)
        ax.hlines(rows + shift, *quartiles[:, ::2].T, color=color, linewidth=3.2)
        marks: dict[str, Any] = {"markerfacecolor": "white", "markersize": 4.5, "linestyle": "none"}
        ax.plot(quartiles[:, 1], rows + shift, "o", color=color, **marks)
    ax.set_yticks(rows, drawn.labels)
    ax.set_ylim(-0.6, len(rows) - 0.4)
    left, right = ax.get_xlim()
    if left < 0 < right:
        ax.axvline(0, color="0.8", linewidth=0.8, zorder=0)
    tidy(ax)
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    shown = f"{100 * prob:g} % highest-density intervals,\nquartiles and medians"
    if not standardised:
        return shown
    _write_moments(ax, drawn)
    unit = f"distance to the mean of {drawn.names[0]}, in its standard deviations"
    return f"{fill(unit, 44)};\n{shown}"


def _narrowest(draws: Float, prob: float) -> tuple[float, float]:
    """The narrowest interval that holds a share of the draws: that of highest density.

    >>> _narrowest(np.array([0.0, 4.0, 5.0, 6.0, 9.0]), 0.5)
    (4.0, 6.0)
    """
    ordered = np.sort(draws)
    inside = min(int(np.floor(prob * ordered.size)), ordered.size - 1)
    first = int(np.argmin(ordered[inside:] - ordered[: ordered.size - inside]))
    return float(ordered[first]), float(ordered[first + inside])


def _hides(sample: Mapping[str, Float], prob: float, visible: float = 0.03) -> bool:
    """Whether intervals on a common axis would be too short to be seen.

    They are seen if they cover this share of it: with less, the mark of the centre hides them.
    """
    tails = (0.5 * (1 - prob), 0.5 * (1 + prob))
    ends = np.array([np.quantile(draws, tails) for draws in sample.values()])
    widths = ends[:, 1] - ends[:, 0]
    across = ends[:, 1].max() - ends[:, 0].min()
    return bool(np.any((widths > 0) & (widths < visible * across)))


def _standardised(samples: Sequence[Mapping[str, Float]]) -> list[dict[str, Float]]:
    """(x − m) / s of all posteriors, m and s of the first one; constants keep their unit."""
    moments = {label: (draws.mean(), draws.std() or 1.0) for label, draws in samples[0].items()}
    return [
        {label: (draws - moments[label][0]) / moments[label][1] for label, draws in sample.items()}
        for sample in samples
    ]


def _write_moments(ax: Axes, drawn: Drawn) -> None:
    """Write the first posterior's mean ± sd, of a constant its value, beside each parameter."""
    across = ax.get_yaxis_transform()
    for y, draws in zip(ax.get_yticks(), drawn.samples[0].values(), strict=True):
        mean, sd = float(draws.mean()), float(draws.std())
        text = with_spread(mean, sd).replace("-", "\N{MINUS SIGN}") if sd > 0 else f"{mean:.4g}"
        ax.text(1.02, y, text, transform=across, va="center", fontsize=9, color="0.35")
    ax.text(1.02, 1.0, "mean ± sd", transform=ax.transAxes, va="bottom", fontsize=9, color="0.35")


def plot_density(
    posteriors: Mapping[str, Any],
    var_names: Sequence[str] | None = None,
    ax: Axes | Panels | Sequence[Axes] | None = None,
    *,
    max_parameters: int = 60,
    weights: Mapping[str, Any] | None = None,
) -> Panels:
    """Plot overlaid marginal densities of several posteriors, one panel per parameter.

    Strokes below a curve are divergent draws, if the posterior has NUTS' statistics.

    Parameters
    ----------
    posteriors, var_names, weights
        As in `plot_forest`. The first posterior is filled.
    ax : Axes or array of Axes, optional
        At least one per parameter; others are not changed.
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
    check_axes(ax, several=True)
    check_whole("max_parameters", max_parameters, 1)
    drawn = read_drawn(posteriors, var_names, max_parameters, weights)
    count = len(drawn.labels)
    panels = _grid(count) if ax is None else _given_axes(ax, count)
    handles = draw_densities(panels, drawn)
    if ax is None:
        panels[0].figure.legend(
            handles=handles,
            loc="outside upper center",
            ncols=4,
            frameon=False,
            title=drawn.note or None,
        )
    elif len(handles) > 1:
        panels[0].legend(handles=handles, frameon=False, fontsize=8)
    return panels


def draw_densities(panels: Panels, drawn: Drawn) -> list[Any]:
    """Draw one parameter on each panel; return a legend's lines."""
    for panel, label in zip(panels, drawn.labels, strict=True):
        for i, (sample, color) in enumerate(zip(drawn.samples, drawn.colors, strict=True)):
            draws = sample[label]
            if np.ptp(draws) <= ROUNDING * np.abs(draws).max():
                panel.axvline(draws[0], color=color, linestyle=LINES[i % 4], linewidth=1.6)
            else:
                x, density = kde(draws)
                panel.plot(x, density, color=color, linestyle=LINES[i % 4], linewidth=1.6)
                if i == 0:
                    panel.fill_between(x, density, color=color, alpha=0.3, linewidth=0)
        tidy(panel)
        text, size = fitted(label)
        panel.set_title(text, fontsize=size)
        panel.set_ylim(bottom=0)
        panel.set_yticks([])
        panel.spines["left"].set_visible(False)
        panel.tick_params(labelsize=9)
        panel.locator_params(axis="x", nbins=4)  # as many ticks as long numbers leave room for
    return [*legend_lines(drawn), *_mark_divergent(panels, drawn)]


def _mark_divergent(panels: Panels, drawn: Drawn) -> list[Any]:
    """Draw a stroke at every divergent draw; return a legend's marks, one for each posterior.

    Strokes are black, as in ArviZ's trace plots; those of further posteriors have its colour.
    """
    from matplotlib.lines import Line2D

    handles: list[Any] = []
    height = 0.05
    for name, color, values in zip(drawn.names, drawn.colors, drawn.divergent, strict=True):
        count = len(values[drawn.labels[0]])
        if not count:
            continue
        style: dict[str, Any] = {
            "color": color if handles else "black",
            "marker": "|",
            "linestyle": "none",
            "markersize": 9,
            "label": f"{count:,} divergent draw{'s' if count > 1 else ''} of {name}",
        }
        for panel, label in zip(panels, drawn.labels, strict=True):
            panel.plot(
                values[label],
                np.full(count, height),
                transform=panel.get_xaxis_transform(),
                **style,
            )
        handles.append(Line2D([], [], **style))
        height += 0.1
    return handles


def read_drawn(
    posteriors: Mapping[str, Any],
    var_names: Sequence[str] | None,
    max_parameters: int,
    weights: Mapping[str, Any] | None,
) -> Drawn:
    """The draws of all posteriors by label, resampled to equal weights where they have weights."""
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
    samples, divergent = [], []
    for posterior in read:
        columns = scalars(posterior.dataset, common, labels_of=base.dataset)
        index: Any = slice(None)
        if posterior.weights is not None:
            # the effective number: more would only repeat draws, and densities would ripple
            effective = round(1 / float(posterior.weights @ posterior.weights))
            index = systematic_resample(posterior.weights, max(1, effective))
        flat = {label: columns[label].ravel() for label in kept}
        samples.append({label: draws[index] for label, draws in flat.items()})
        divergent.append({label: draws[posterior.divergent] for label, draws in flat.items()})
    return Drawn([posterior.name for posterior in read], samples, divergent, len(labels))


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


def fitted(label: str, longest: int = 42) -> tuple[str, float]:
    """A panel's title that fits its panel: smaller, and shortened if need be."""
    if len(label) > longest:
        tail = round(0.4 * longest)
        label = f"{label[: longest - tail - 1]}…{label[-tail:]}"
    return label, float(np.clip(10 * 26 / len(label), 6.5, 10))


def legend_lines(drawn: Drawn, lines: Sequence[LineStyle] = LINES) -> list[Any]:
    from matplotlib.lines import Line2D

    return [
        Line2D([], [], color=color, linestyle=lines[i % len(lines)], linewidth=2, label=name)
        for i, (name, color) in enumerate(zip(drawn.names, drawn.colors, strict=True))
    ]
