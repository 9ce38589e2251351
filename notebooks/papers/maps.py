"""Maps of coresets beside the posteriors that they give: Zhang et al. (2021), figures 2, 6 and 7.

`RBF_MAP` draws the mean log price over the map, Σ_d E[α_d] b_d(x), under the posterior of all
houses and of the coresets of A-IHT II, pursuit and SparseVI, which figure 2 shows at k = 220, 260,
300 and figure 7 at k = 300 in four trials (``--trials 4 --sizes 300``). `GAUSSIAN_MAP` draws the
posteriors' ellipses of two standard deviations, in two of the dimensions (figure 6). Dots are the
coreset's rows, larger with their weights.

A record is a point: of a coreset's row, of the surface, or of the ellipse, with its value (weight
or log price) and the coreset's divergences.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from papers.base import (
    Algorithm,
    Experiment,
    Metric,
    Outcome,
    Record,
    Settings,
    select,
    solver_seed,
)
from papers.closed_forms import (
    Gaussian,
    LinearRegression,
    LocationModel,
    dense_weights,
    exact_projection,
)
from papers.in_the_loop import (
    all_algorithms,
    exact_covariances,
    gaussian_draws,
    select_in_the_loop,
)
from papers.linear import DIMENSION, bases, houses, observations, regression_on
from stancoreset.selection.in_the_loop import CoresetPosterior

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.contour import ContourSet
    from matplotlib.figure import Figure

__all__ = ["GAUSSIAN_MAP", "RBF_MAP", "draw_maps"]

Float = NDArray[np.float64]

ALL = "all rows"
SHOWN = ("aiht2", "pursuit", "sparse_vi")
ROW, SURFACE, ELLIPSE, TRUTH = "row", "surface", "ellipse", "true ellipse"
#: Points along each side of the surface, and around an ellipse.
GRID, AROUND = 40, 60
LEVELS = 9


def _algorithms(settings: Settings) -> list[Algorithm]:
    return [a for a in all_algorithms(settings) if a.label in SHOWN]


def _with_all_rows(settings: Settings) -> list[Algorithm]:
    return [Algorithm("uniform", name=ALL), *_algorithms(settings)]


def _weights(
    rows: int,
    projection: tuple[Float, Float],
    posterior: CoresetPosterior,
    settings: Settings,
    algorithms: list[Algorithm],
    seed: int,
) -> Iterator[tuple[str, int, Float]]:
    """Yield the label, the size and the weights of all rows of every coreset."""
    for algorithm in algorithms:
        if algorithm.label == ALL:
            yield from ((ALL, size, np.ones(rows)) for size in settings.sizes)
            continue
        if algorithm.method == "sparse_vi":
            found = select_in_the_loop(posterior, algorithm, settings.sizes, seed)
        else:
            found = select(*projection, algorithm, settings.sizes, seed)
        for size, result in found:
            yield algorithm.label, size, dense_weights(result, rows)


def _points(what: str, places: Float, values: Float) -> Iterator[Record]:
    for (x, y), value in zip(places.tolist(), values.tolist(), strict=True):
        yield {"what": what, "x": x, "y": y, "value": value}


def _trial(
    dataset: str,
    model: LocationModel | LinearRegression,
    posterior: CoresetPosterior,
    place: Float,
    shape: tuple[str, Float, NDArray[np.float64]] | None,
    settings: Settings,
    algorithms: list[Algorithm],
    seed: int,
) -> Iterator[Record]:
    """The points of every coreset; `shape` holds the surface's places (G, 2) and their bases."""
    rows = len(model.x)
    full = model.posterior(np.ones(rows))
    projection = exact_projection(model.gram(full))
    for label, size, weights in _weights(rows, projection, posterior, settings, algorithms, seed):
        coreset = model.posterior(weights)
        kl = model.divergences(full, coreset)
        about: Record = {"dataset": dataset, "method": label, "size": size, **kl}
        if label != ALL:
            chosen = np.flatnonzero(weights)
            for point in _points(ROW, place[chosen], weights[chosen]):
                yield {**about, **point}
        if shape is None:
            outlines = ((TRUTH, _ellipse(full)), (ELLIPSE, _ellipse(coreset)))
            points: Iterable[Record] = chain.from_iterable(
                _points(which, outline, np.zeros(AROUND)) for which, outline in outlines
            )
        else:
            what, grid, design = shape
            points = _points(what, grid, design @ coreset.mean)
        yield from ({**about, **point} for point in points)


def _ellipse(posterior: Gaussian) -> Float:
    """Two standard deviations around the mean in the first two dimensions, (AROUND, 2)."""
    angle = np.linspace(0.0, 2.0 * np.pi, AROUND)
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    lower = np.linalg.cholesky(posterior.cov[:2, :2])
    return np.asarray(posterior.mean[:2] + 2.0 * circle @ lower.T)


def _gaussian_trial(
    settings: Settings, algorithms: list[Algorithm], rng: np.random.Generator
) -> Iterator[Record]:
    model = observations(settings, rng)
    label = f"Gaussian, D = {DIMENSION}"
    loop, seed = exact_covariances(model), solver_seed(rng)
    return _trial(label, model, loop, model.x[:, :2], None, settings, algorithms, seed)


def _rbf_trial(
    settings: Settings, algorithms: list[Algorithm], rng: np.random.Generator
) -> Iterator[Record]:
    name, place, log_price, centres = houses(settings, rng)
    model = regression_on(place, log_price, centres)
    loop, seed = gaussian_draws(model, len(place), model.posterior), solver_seed(rng)
    sides = [
        np.linspace(low, high, GRID) for low, high in zip(place.min(0), place.max(0), strict=True)
    ]
    grid = np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, 2)
    shape = (SURFACE, grid, bases(grid, centres))
    return _trial(name, model, loop, place, shape, settings, algorithms, seed)


# Pictures -----------------------------------------------------------------------------------


def draw_maps(outcome: Outcome) -> Figure:
    """Draw one panel for each trial, size and method."""
    import matplotlib.pyplot as plt
    from matplotlib.contour import ContourSet

    records = outcome.records
    methods = list(records["method"].unique())
    cases = list(records[["trial", "size"]].drop_duplicates().itertuples(index=False, name=None))
    figure, axes = plt.subplots(
        len(cases),
        len(methods),
        figsize=(3.1 * len(methods), 2.9 * len(cases) + 0.7),
        squeeze=False,
        layout="constrained",
        sharex=True,
        sharey=True,
    )
    for line, (trial, size) in zip(axes, cases, strict=True):
        case = records[(records["trial"] == trial) & (records["size"] == size)]
        truth = case[case["method"] == (ALL if ALL in methods else methods[0])]
        for ax, method in zip(line, methods, strict=True):
            own = case[case["method"] == method]
            drawn = _map(ax, own, truth)
            kl = own.iloc[0]
            ax.set_title(
                ALL
                if method == ALL
                else f"{method}, k = {size}\nforward KL {kl['forward_kl']:.2g}, "
                f"reverse KL {kl['reverse_kl']:.2g}",
                fontsize=9,
            )
        if outcome.settings.trials > 1:
            line[0].set_ylabel(f"trial {trial + 1}")
    if isinstance(drawn, ContourSet):
        figure.colorbar(drawn, ax=axes, label="log₁₀ price", shrink=0.8)
    named = {str(a.get_label()): a for ax in axes.flat for a in (*ax.collections, *ax.lines)}
    named = {label: artist for label, artist in named.items() if not label.startswith("_")}
    figure.legend(
        list(named.values()),
        list(named),
        loc="outside lower center",
        ncols=len(named),
        frameon=False,
    )
    figure.suptitle(outcome.experiment.title, fontsize=12)
    return figure


def _map(ax: Axes, own: pd.DataFrame, truth: pd.DataFrame) -> ContourSet | None:
    """A coreset posterior's surface, in the levels of the true one, or its ellipse, and rows.

    Ellipses are small among the rows, and are enlarged in the corner. Return the surface's lines.
    """
    contours = None
    surface, level = own[own["what"] == SURFACE], truth[truth["what"] == SURFACE]["value"]
    if len(surface):
        heights = surface.pivot(index="y", columns="x", values="value")
        levels = np.unique(np.quantile(level, np.linspace(0.05, 0.95, LEVELS)))
        contours = ax.contour(heights.columns, heights.index, heights, levels=levels)
    else:
        corner = ax.inset_axes((0.66, 0.66, 0.33, 0.33))
        corner.set(xticks=[], yticks=[], aspect="equal")
        for what, style, color, label in (
            (TRUTH, "-", "#0072B2", "posterior of all rows, 2 sd"),
            (ELLIPSE, "--", "#D55E00", "the coreset's, enlarged in the corner"),
        ):
            outline = own[own["what"] == what]
            for place in (ax, corner):
                place.plot(outline["x"], outline["y"], style, color=color, label=label)
    rows = own[own["what"] == ROW]
    if len(rows):
        area = 3.0 + 30.0 * rows["value"] / rows["value"].max()
        ax.scatter(
            *(rows["x"], rows["y"]),
            s=area,
            color="black",
            alpha=0.6,
            linewidths=0,
            zorder=3,
            label="rows, larger with weight",
        )
    ax.set(xticks=[], yticks=[], aspect="equal")
    return contours


METRICS = (Metric("reverse_kl", "reverse KL"), Metric("forward_kl", "forward KL"))

GAUSSIAN_MAP = Experiment(
    name="gaussian-map",
    title="Coresets of a Gaussian model in two of its dimensions",
    source="Zhang et al. 2021, appendix E, figure 6",
    trial=_gaussian_trial,
    algorithms=_algorithms,
    picture=draw_maps,
    paper=Settings(trials=1, sizes=(100, 150, 200, 300), rows=600),
    quick=Settings(trials=1, sizes=(100, 200), rows=600, updates=5),
    metrics=METRICS,
    band=(25.0, 75.0),
)

RBF_MAP = Experiment(
    name="rbf-map",
    title="Log prices over the map, and the houses of coresets",
    source="Zhang et al. 2021, section 5.2, figures 2 and 7",
    note="2,930 house sales in Ames, Iowa, replace the UK's",
    trial=_rbf_trial,
    algorithms=_with_all_rows,
    picture=draw_maps,
    paper=Settings(trials=1, sizes=(220, 260, 300), rows=1000),
    quick=Settings(trials=1, sizes=(300,), rows=1000, updates=2),
    metrics=METRICS,
    band=(25.0, 75.0),
)
