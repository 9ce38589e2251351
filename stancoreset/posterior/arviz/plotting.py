"""ArviZ's forest and density plots on the caller's matplotlib axes.

ArviZ 0.23 takes axes; ArviZ 1.x takes a ``PlotCollection``, which is built here around the
axes. Draws are plain arrays by label, one per scalar parameter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stancoreset.posterior.arviz.versions import arviz, is_v1, quiet

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

__all__ = ["draw_density", "draw_forest"]

Float = NDArray[np.float64]


def draw_forest(
    ax: Axes, samples: Sequence[Mapping[str, Float]], colors: Sequence[str], *, prob: float
) -> None:
    """Draw centre, inner and outer interval, one line per posterior and parameter.

    `samples` are draws by label, one mapping per posterior, from top to bottom, all with the same
    labels. The outer interval is the highest-density one of mass `prob`. ArviZ 0.23 draws quartiles
    and median inside it, ArviZ 1.x a narrower highest-density interval and the mean.
    """
    draw = _forest_v1 if is_v1() else _forest_v0
    with quiet():
        rows, limits = draw(ax, [_dataset(list(s.values())) for s in samples], colors, prob)
    ax.set_title("")
    ax.set_yticks(rows, list(samples[0]))
    ax.set_ylim(*limits)


def _forest_v0(
    ax: Axes, data: Sequence[xr.Dataset], colors: Sequence[str], prob: float
) -> tuple[list[float], tuple[float, float]]:
    names = list(data[0].data_vars)
    arviz().plot_forest(
        list(data),
        var_names=names,
        model_names=[str(i) for i in range(len(data))],
        combined=True,
        hdi_prob=prob,
        colors=list(colors),
        linewidth=1.5,
        markersize=5,
        textsize=10,
        legend=False,
        labeller=arviz().labels.NoModelLabeller(),
        ax=ax,
        backend="matplotlib",
        show=False,
    )
    for band in list(ax.patches):
        band.remove()
    # ArviZ chose the heights; its labels say which row is which
    height = {
        text.get_text(): float(y)
        for text, y in zip(ax.get_yticklabels(), ax.get_yticks(), strict=True)
    }
    rows = [height[str(name)] for name in names]
    drawn = [float(y) for line in ax.lines for y in np.ravel(line.get_ydata())]
    margin = 0.25 * (max(drawn) - min(drawn) + 1.0) / len(names)
    return rows, (min(drawn) - margin, max(drawn) + margin)


def _forest_v1(
    ax: Axes, data: Sequence[xr.Dataset], colors: Sequence[str], prob: float
) -> tuple[list[float], tuple[float, float]]:
    import arviz_plots
    import xarray as xr

    names = list(data[0].data_vars)
    rows = [float(y) for y in reversed(range(len(names)))]
    shifts = np.linspace(0.25, -0.25, len(data)) if len(data) > 1 else np.zeros(1)
    target = np.empty(1, dtype=object)
    target[0] = ax
    for dataset, color, shift in zip(data, colors, shifts, strict=True):
        heights = xr.Dataset(
            {name: xr.DataArray(y + float(shift)) for name, y in zip(names, rows, strict=True)}
        )
        collection = arviz_plots.PlotCollection(
            dataset,
            xr.DataTree(xr.Dataset({"plot": ("column", target)}, coords={"column": ["forest"]})),
            aes_dt=xr.DataTree.from_dict({"/y": heights, "/overlay": heights}),
            backend="matplotlib",
        )
        arviz_plots.plot_forest(
            dataset,
            plot_collection=collection,
            combined=True,
            labels=[],
            point_estimate="mean",
            ci_kind="hdi",
            ci_probs=(min(0.5, 0.5 * prob), prob),
            visuals={
                "trunk": {"color": color, "width": 3.2},
                "twig": {"color": color, "width": 1.3},
                "point_estimate": {
                    "color": color,
                    "facecolor": "white",
                    "size": 22,
                    "width": 1.3,
                },
                "ticklabels": False,
                "remove_axis": False,
            },
        )
    return rows, (-0.6, len(names) - 0.4)


def draw_density(ax: Axes, draws: Float, *, color: str, linestyle: str, fill: float) -> None:
    """Draw a kernel density estimate of one marginal."""
    with quiet():
        if is_v1():
            _density_v1(ax, draws, color, linestyle, fill)
        else:
            arviz().plot_kde(
                draws,
                ax=ax,
                plot_kwargs={"color": color, "linestyle": linestyle, "linewidth": 1.6},
                fill_kwargs={"color": color, "alpha": fill},
                legend=False,
                backend="matplotlib",
                show=False,
            )


def _density_v1(ax: Axes, draws: Float, color: str, linestyle: str, fill: float) -> None:
    import arviz_plots
    import xarray as xr

    data = _dataset([draws])
    target = np.empty((), dtype=object)
    target[()] = ax
    collection = arviz_plots.PlotCollection(
        data,
        xr.DataTree(children={"plot": xr.DataTree(xr.Dataset({"v0": ((), target)}))}),
        aes_dt=xr.DataTree(),
        backend="matplotlib",
    )
    arviz_plots.plot_dist(
        data,
        plot_collection=collection,
        kind="kde",
        visuals={
            "dist": {"color": color, "linestyle": linestyle, "width": 1.6},
            "face": {"color": color, "alpha": fill} if fill else False,
            "credible_interval": False,
            "point_estimate": False,
            "point_estimate_text": False,
            "title": False,
            "remove_axis": False,
        },
    )


def _dataset(columns: Sequence[Float]) -> xr.Dataset:
    """One chain with neutral names, since labels may be invalid as names in a DataTree."""
    import xarray as xr

    return xr.Dataset(
        {f"v{i}": (("chain", "draw"), draws[np.newaxis]) for i, draws in enumerate(columns)}
    )
