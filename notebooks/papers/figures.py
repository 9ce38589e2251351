"""The picture of an experiment: median and band, one panel per data set and metric.

Bands are percentiles over trials, which a few trials cannot tell: with fewer than `BAND_TRIALS`
the picture shows the median alone, and says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from papers.base import FLOOR, Metric, Outcome
from stancoreset.posterior.plots import tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["BAND_TRIALS", "FLOOR", "STYLES", "add_legend", "draw", "shade"]

#: Least number of trials whose percentiles are drawn as a band.
BAND_TRIALS = 5

#: Colour and line of each algorithm, the same in all pictures: random ones grey, greedy ones warm,
#: thresholding ones blue, fully corrective ones green and black, the one in the loop yellow (Okabe
#: and Ito's palette). Of the variational ones, proximal steps are green on all rows and blue on
#: batches, gradients warm.
STYLES = {
    "uniform": ("#999999", ":"),
    "importance": ("#999999", "--"),
    "frank_wolfe": ("#E69F00", "--"),
    "giga": ("#D55E00", "-"),
    "iht": ("#56B4E9", ":"),
    "aiht": ("#56B4E9", "-"),
    "aiht2": ("#0072B2", "-"),
    "orthogonal_pursuit": ("#009E73", "--"),
    "pursuit": ("#000000", "-"),
    "sparse_vi": ("#E0C000", "-."),
    "lasso": ("#CC79A7", ":"),
    "lasso, refitted": ("#CC79A7", "-"),
    "quasi_newton": ("#009E73", "-"),
    "Coreset MCMC, Hot DoG": ("#0072B2", "-"),
    "Coreset MCMC, ADAM 0.01": ("#CC79A7", ":"),
    "Coreset MCMC, ADAM 0.1": ("#CC79A7", "-"),
    "Coreset MCMC, ADAM 1": ("#CC79A7", "--"),
    "A-IHT": ("#56B4E9", "-"),
    "theorem 1": ("#000000", "--"),
    "theorem 1, as printed": ("#D55E00", ":"),
    "theorem 3.1": ("#000000", "--"),
    "aiht2, Σw = N": ("#0072B2", "--"),
    "aiht2, groups of 5": ("#0072B2", ":"),
    "pursuit, Σw = N": ("#000000", "--"),
    "pursuit, groups of 5": ("#000000", ":"),
    "aiht batch": ("#CC79A7", "-"),
    "aiht batch, as printed": ("#CC79A7", "--"),
    "PG 0.1": ("#009E73", ":"),
    "PG 1": ("#009E73", "-"),
    "PG 5": ("#009E73", "--"),
    "PG-MC 1": ("#009E73", "-."),
    "PG-SVI 0.2": ("#0072B2", ":"),
    "PG-SVI 2": ("#0072B2", "-"),
    "PG-SVI 10": ("#0072B2", "--"),
    "GD": ("#E69F00", "-"),
    "GD whitened": ("#E69F00", "--"),
    "ADAM": ("#D55E00", "-"),
    "ADAM whitened": ("#D55E00", "--"),
    "ADAGRAD": ("#CC79A7", "-."),
    "RMSprop": ("#CC79A7", ":"),
    "optimum": ("#000000", ":"),
    "PG": ("#009E73", "-"),
    "PG-MF": ("#009E73", "--"),
    "PG-SVI": ("#0072B2", "-"),
    "PG-SVI-MF": ("#0072B2", "--"),
    "Laplace": ("#D55E00", "-"),
    "Laplace, batches": ("#D55E00", ":"),
    "Laplace, summed": ("#E0C000", "-."),
    "delta": ("#CC79A7", "--"),
    "MF": ("#E69F00", "-"),
    "exact": ("#000000", ":"),
    "class 1": ("#56B4E9", "-"),
    "hybrid (class 2)": ("#0072B2", "--"),
    "mean, Laplace": ("#009E73", "-"),
    "mean, Student t": ("#000000", "-"),
    "MAP, Laplace": ("#009E73", ":"),
    "ARD": ("#E69F00", "--"),
    "Lanczos": ("#D55E00", "-"),
    "Lanczos, no Gram–Schmidt": ("#D55E00", ":"),
    "probing": ("#CC79A7", "-"),
}

#: Inches that the title and the legend need.
LEAST_WIDTH = 8.8


def draw(outcome: Outcome) -> Figure:
    """Draw medians and bands of an experiment against size or iteration.

    >>> from papers import EXPERIMENTS, Settings, run
    >>> outcome = run(EXPERIMENTS["gaussian"], Settings(1, (2, 4), 20, methods=("giga",)))
    >>> len(draw(outcome).axes)
    3
    """
    import matplotlib.pyplot as plt

    experiment = outcome.experiment
    if experiment.picture is not None:
        return experiment.picture(outcome)
    datasets = list(outcome.records["dataset"].unique())
    metrics = outcome.metrics
    # One metric on many data sets is laid out in rows of three, or two if that fills the grid.
    if len(metrics) == 1:
        panels = [(d, metrics[0]) for d in datasets]
        columns = 2 if len(panels) == 4 else min(3, len(panels))
    elif len(datasets) > 3:
        panels = [(d, m) for m in metrics for d in datasets]
        columns = 3
    else:
        panels = [(d, m) for d in datasets for m in metrics]
        columns = len(metrics)
    rows = -(-len(panels) // columns)
    size = (max(3.6 * columns, LEAST_WIDTH), 2.7 * rows + 1.0)
    figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    for ax, (dataset, metric) in zip(axes.flat, panels, strict=False):
        _panel(ax, outcome, dataset, metric)
        ax.set_ylabel(metric.label)
        ax.set_title(dataset, fontsize=10)
    for ax in axes.flat[len(panels) :]:
        ax.set_visible(False)
    for place, (ax, (dataset, _)) in enumerate(zip(axes.flat, panels, strict=False)):
        if dataset in experiment.x_labels:
            ax.set_xlabel(experiment.x_labels[dataset])
        elif place >= len(panels) - columns:  # the lowest of each column
            ax.set_xlabel("rows, k" if experiment.x == "size" else experiment.x)
    add_legend(figure, axes.flat[: len(panels)], outcome)
    figure.suptitle(experiment.title, fontsize=12)
    return figure


def add_legend(figure: Figure, axes: Iterable[Axes], outcome: Outcome) -> None:
    """Add what lines and bands are below the panels, which may show different algorithms."""
    lines = {str(line.get_label()): line for ax in axes for line in ax.lines}
    figure.legend(
        list(lines.values()),
        list(lines),
        loc="outside lower center",
        ncols=min(5, len(lines)),
        frameon=False,
        title=_shown(outcome),
    )


def shade(ax: Axes, outcome: Outcome, x: Any, low: Any, high: Any, color: str) -> None:
    """Draw a band, if there are trials enough for one."""
    if outcome.settings.trials >= BAND_TRIALS:
        ax.fill_between(x, low, high, color=color, alpha=0.18, linewidth=0)


def _shown(outcome: Outcome) -> str:
    """What lines and bands are, and where they are cut off, for the legend."""
    floor = outcome.experiment.floor
    cut = bool((outcome.summary()["median"] < floor).any())
    return _lines(outcome) + f"; below {floor:g} is {outcome.experiment.below}, drawn there" * cut


def _lines(outcome: Outcome) -> str:
    trials, (low, high) = outcome.settings.trials, outcome.experiment.band
    if trials == 1:
        return "one trial"
    if trials < BAND_TRIALS:
        return f"median of {trials} trials, too few for a band"
    if (low, high) == (0.0, 100.0):
        return f"median and range of {trials} trials"
    return f"median and {low:.0f}–{high:.0f} % band of {trials} trials"


def _panel(ax: Axes, outcome: Outcome, dataset: str, metric: Metric) -> None:
    x, column = outcome.experiment.x, metric.column
    shown = outcome.summary()
    shown = shown[(shown["dataset"] == dataset) & (shown["metric"] == column)]
    for method, curve in shown.groupby("method", sort=False):
        color, line = STYLES.get(str(method), ("#555555", "-."))
        values = {
            q: curve[q].clip(lower=outcome.experiment.floor) for q in ("median", "low", "high")
        }
        # The widest line is the lowest, so that others that coincide with it are seen.
        width, order = (2.6, 1.9) if method == "pursuit" else (1.3, 2.0)
        ax.plot(
            curve[x],
            values["median"],
            line,
            color=color,
            linewidth=width,
            zorder=order,
            label=str(method),
        )
        shade(ax, outcome, curve[x], values["low"], values["high"], color)
    if metric.orders:
        ax.set_yscale("log")
    if x in ("iteration", "pass"):
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    tidy(ax)
    ax.grid(axis="y", color="0.92", linewidth=0.8)
    ax.set_axisbelow(True)
