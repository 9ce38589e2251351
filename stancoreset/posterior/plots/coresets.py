"""Plots of a coreset's weights, certificate and error path."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from textwrap import fill, shorten
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stancoreset.checks import as_numbers, coreset_of, understood
from stancoreset.engines import Float
from stancoreset.errors import DataError
from stancoreset.posterior.certificate import HELDOUT_CERTIFIED, VERDICT_COLORS
from stancoreset.posterior.digits import percent
from stancoreset.posterior.plots.figures import (
    COLORS,
    check_axes,
    log_scale,
    new_axes,
    tidy,
    whole_numbers,
)
from stancoreset.posterior.rule import RULE

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# Legend of the errors after rows were removed again.
_REMOVED = "rows removed again"


def plot_weights(
    coreset: Any,
    projection_or_data: Any = None,
    ax: Axes | None = None,
    *,
    columns: tuple[Any, Any] = (0, 1),
) -> Axes:
    """Plot the weights of a coreset, in descending order or as dots on their rows.

    Parameters
    ----------
    coreset : Coreset
        Anything with ``indices`` and ``weights``, or a fit that has one.
    projection_or_data : optional
        If omitted, the weights are plotted in descending order. A `Projection` places the candidate
        rows on the first two principal components of φ. A table or array (N, D) of
        covariates, all rows of the full data, places them on two of its columns. The area
        of a dot is proportional to the weight; grey dots are rows without a weight.
    ax : matplotlib Axes, optional
    columns : pair
        Positions of the two columns; for a ``DataFrame``, their names.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    DataError
        If a row of the coreset is not among the data, or a column does not exist.

    References
    ----------
    Huggins, Campbell & Broderick (2016), NeurIPS, figure 1; Campbell & Broderick (2018),
    ICML, figure 2: dots whose size is the weight.

    Examples
    --------
    >>> import numpy as np
    >>> from types import SimpleNamespace
    >>> core = SimpleNamespace(indices=np.array([3, 8]), weights=np.array([4.0, 6.0]), n_obs=10)
    >>> plot_weights(core).get_title()
    '2 of 10 rows\\nΣw = 10'
    """
    with understood("coreset", coreset, "a coreset, or a fit that has one"):
        coreset = coreset_of(coreset)
        rows, weights = np.asarray(coreset.indices), np.asarray(coreset.weights, dtype=float)
    with understood("columns", columns, "a pair of columns"):
        _, _ = columns
    check_axes(ax)
    if not rows.size:
        raise DataError("the coreset has no rows to draw")
    if ax is None:
        ax = new_axes(width=6.4, height=4.4)
    if projection_or_data is None:
        rank = np.arange(1, rows.size + 1)
        ordered = np.sort(weights)[::-1]
        varied = ordered.max() > 10 * ordered.min()
        ax.vlines(rank, ordered.min() / 2 if varied else 0, ordered, color="0.8", linewidth=0.8)
        ax.plot(rank, ordered, "o", color=COLORS[5], markersize=4)
        if varied:
            log_scale(ax)
        else:
            ax.set_ylim(bottom=0)
        whole_numbers(ax)
        ax.set_xlabel("row, by weight")
        ax.set_ylabel("weight")
    else:
        with understood(
            "projection_or_data", projection_or_data, "a projection, or a table (rows, D)"
        ):
            points, candidates, labels = _coordinates(projection_or_data, columns)
        _draw_dots(ax, points, _positions(rows, candidates, len(points)), weights)
        ax.set_xlabel(labels[0])
        ax.set_ylabel(labels[1])
    tidy(ax)
    n_obs = getattr(coreset, "n_obs", None)
    total = weights.sum()
    summed = f"{total:,.0f}" if total >= 100 else f"{total:.3g}"
    of = f" of {n_obs:,}" if n_obs is not None else ""
    made_of = getattr(coreset, "made_of", f"{rows.size:,}{of} rows")
    _set_title(ax, [made_of, f"Σw = {summed}"])
    return ax


def _draw_dots(
    ax: Axes, points: Float, chosen: NDArray[np.int64], weights: Float, shown: int = 5_000
) -> None:
    step = max(1, -(-len(points) // shown))
    ax.scatter(
        points[::step, 0],
        points[::step, 1],
        s=3,
        color="0.82",
        linewidths=0,
        rasterized=True,
        zorder=1,
    )
    order = np.argsort(-weights)
    ax.scatter(
        points[chosen[order], 0],
        points[chosen[order], 1],
        s=400 * weights[order] / weights.max() + 4,
        color=COLORS[5],
        alpha=0.45,
        edgecolors="white",
        linewidths=0.6,
        zorder=2,
    )
    ax.margins(0.08)


def _coordinates(
    source: Any, columns: tuple[Any, Any]
) -> tuple[Float, NDArray[np.int64] | None, list[str]]:
    """Points (rows, 2), their row numbers (None: all in order), and axis labels."""
    if hasattr(source, "phi") and hasattr(source, "candidates"):
        phi = np.asarray(source.phi, dtype=float)
        # eigenvectors of the small matrix ΦΦᵀ (S × S); a point is uᵀφ_n
        values, vectors = np.linalg.eigh(phi @ phi.T)
        points = (vectors[:, :-3:-1].T @ phi).T
        share = 100 * values[:-3:-1] / values.sum()
        labels = [f"principal component {i + 1} of φ ({s:.0f} %)" for i, s in enumerate(share)]
        return points, np.asarray(source.candidates), labels
    import pandas as pd

    if isinstance(source, pd.DataFrame):
        names = [source.columns[c] if _is_number(c, source) else c for c in columns]
        missing = [name for name in names if name not in source]
        if missing:
            raise DataError(f"no column {missing[0]!r}; the table has {list(source.columns)[:12]}")
        table = source[names].to_numpy(dtype=float)
        labels = [str(name) for name in names]
    else:
        array = np.asarray(source, dtype=float)
        if array.ndim != 2 or not all(-array.shape[1] <= int(c) < array.shape[1] for c in columns):
            raise DataError(
                f"covariates have shape {array.shape}; expected (rows, D) with columns {columns}"
            )
        table, labels = array[:, list(columns)], [f"column {c}" for c in columns]
    return table, None, labels


def _is_number(column: Any, table: Any) -> bool:
    return isinstance(column, int) and column not in table and abs(column) < table.shape[1]


def _positions(
    rows: NDArray[Any], candidates: NDArray[np.int64] | None, size: int
) -> NDArray[np.int64]:
    """Positions of the coreset's rows among the points."""
    if candidates is None:
        if rows.max() >= size:
            raise DataError(
                f"row {rows.max()} of the coreset is not among {size} rows of data; "
                "give all rows of the full data"
            )
        return rows
    order = np.argsort(candidates)
    place = np.minimum(np.searchsorted(candidates, rows, sorter=order), len(candidates) - 1)
    if np.any(candidates[order[place]] != rows):
        raise DataError("the coreset's rows are not all candidates of this projection")
    return order[place]


def plot_certificate(certificate: Any, ax: Axes | None = None) -> Axes:
    """Plot the log importance weights of the coreset's draws; the title gives the verdict.

    A narrow peak at 0 means that the coreset posterior equals the full one.

    Parameters
    ----------
    certificate : Certificate
        Or a fit that has one.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import numpy as np
    >>> from stancoreset.posterior.certificate import certify
    >>> cert = certify(np.random.default_rng(0).normal(0, 0.01, 1000), heldout_error=0.01)
    >>> plot_certificate(cert).get_title().split(":")[0]
    'certified'
    """
    with understood("certificate", certificate, "a certificate, or a fit that has one"):
        certificate = getattr(certificate, "certificate", certificate)
        raw = np.asarray(certificate.log_weights, dtype=float)
        finite = raw[np.isfinite(raw)]
    check_axes(ax)
    if ax is None:
        ax = new_axes(width=6.4, height=4.2)
    # 0 is the weight that every draw would have if the posteriors were the same
    top = finite.max()
    shifted = finite - (top + np.log(np.exp(finite - top).sum() / raw.size))
    color = VERDICT_COLORS.get(certificate.verdict, COLORS[5])
    if np.ptp(shifted) > 1e-9:
        ax.hist(shifted, bins=40, color=color, alpha=0.75)
    else:  # equal weights: do not bin rounding errors
        ax.hist(shifted, bins=[-0.02, 0.02], color=color, alpha=0.75)
        ax.set_xlim(-1, 1)
    ax.axvline(0, color="0.25", linewidth=1.0, linestyle="--")
    ax.locator_params(axis="x", nbins=5)
    ax.xaxis.set_major_formatter("{x:g}")  # no power of ten in a corner, which others overlap
    ax.set_xlabel("log importance weight (0: the posteriors agree)")
    ax.set_ylabel("draws")
    tidy(ax)
    _set_title(ax, _said(certificate, raw.size - finite.size))
    return ax


def _set_title(ax: Axes, lines: Sequence[str]) -> None:
    """Set a title of several lines, in letters that are smaller if that saves a break."""
    # Of 11 points, in an inch: matplotlib 3.8 draws 12; a title may reach beyond its axes a little.
    letters = 14 * ax.bbox.width / ax.figure.dpi
    size = float(np.clip(11 * letters / max(map(len, lines)), 8, 11))
    fitting = round(11 / size * max(30, letters))
    ax.set_title("\n".join(fill(line, fitting) for line in lines), fontsize=size)


def _said(certificate: Any, weightless: int) -> list[str]:
    """Lines of the title: the verdict, the numbers with their limits, and the first reason."""
    khat, heldout = certificate.khat, getattr(certificate, "heldout_error", np.nan)
    needed = RULE.least_efficiency(khat, certificate.n_draws)
    needs = "" if np.isnan(khat) else f" (requires {percent(needed)})"
    judged = " by marginals" if getattr(certificate, "by_marginals", False) else ""
    verdict = (
        f"{certificate.verdict}{judged}: importance efficiency "
        f"{percent(certificate.efficiency)} ({certificate.n_draws:,} draws)"
    )
    numbers = [f"Pareto k̂ {f'{khat:.2f}' if np.isfinite(khat) else khat}{needs}"]
    if np.isfinite(heldout):
        numbers.append(f"held-out error {heldout:.2g} (limit {HELDOUT_CERTIFIED:g})")
    lines = [verdict, "; ".join(numbers)]
    reasons = tuple(getattr(certificate, "reasons", ()))
    if reasons:
        others = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
        lines.append(shorten(re.split("[:;]", reasons[0])[0], 60, placeholder=" …") + others)
    if weightless:
        lines.append(f"{weightless:,} draws of weight zero not shown")
    return lines


def plot_path(trace_or_results: Any, ax: Axes | None = None) -> Axes:
    """Plot error against size, from left to right, or against rounds if sizes are unknown.

    Parameters
    ----------
    trace_or_results : object
        A fit, `SolverResult` or `Coreset`, whose ``trace`` is drawn; a second line shows the errors
        after an algorithm that had grown beyond a size removed rows again. Or a sequence of errors;
        a sequence of results or coresets of different sizes, whose relative and held-out errors are
        drawn; a pair (sizes, errors); or a mapping of names to any of these, one line each.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    DataError
        If there is nothing to draw.

    Examples
    --------
    >>> ax = plot_path({"pursuit": ([10, 20, 40], [0.5, 0.1, 0.01]), "uniform": [30.0, 21.0, 15.0]})
    >>> [line.get_label() for line in ax.lines]
    ['pursuit', 'uniform']
    """
    trace_or_results = coreset_of(trace_or_results)
    named = trace_or_results if isinstance(trace_or_results, Mapping) else {"": trace_or_results}
    check_axes(ax)
    with understood(
        "trace_or_results", trace_or_results, "errors, a result or coreset, or several by name"
    ):
        curves = [
            (i, str(name), *curve)
            for i, (name, source) in enumerate(named.items())
            for curve in _curves(source)
        ]
    if not any(len(errors) for *_, errors in curves):
        raise DataError("no errors to draw: the trace is empty")
    if ax is None:
        ax = new_axes(width=6.4, height=4.2)
    for i, name, kind, sizes, errors in curves:
        ax.plot(
            np.arange(1, len(errors) + 1) if sizes is None else sizes,
            errors,
            color=COLORS[(i + 1) % len(COLORS)],
            linestyle="--" if kind in ("held-out", _REMOVED) else "-",
            marker="o",
            markersize=3.5 if len(errors) <= 60 else 0,
            label=" ".join(part for part in (name, kind) if part) or "_",
        )
    log_scale(ax)
    ax.set_xlabel("rows" if all(curve[3] is not None for curve in curves) else "round")
    whole_numbers(ax)
    ax.set_ylabel("relative error  ‖b − Φw‖ / ‖b‖")
    tidy(ax)
    chosen = getattr(trace_or_results, "indices", None)
    if chosen is not None:
        _mark_end(ax, trace_or_results, len(chosen))
    ax.grid(axis="y", color="0.92", linewidth=0.8)
    ax.set_axisbelow(True)
    if len(curves) > 1:
        ax.legend(frameon=False)
    return ax


def _mark_end(ax: Axes, coreset: Any, size: int) -> None:
    """Mark the coreset, where the path ended, with a ring, and describe it in the title."""
    line = ax.lines[-1]
    x = size if ax.get_xlabel() == "rows" else len(coreset.trace)
    ax.plot(
        x,
        coreset.trace[-1],
        marker="o",
        markersize=9,
        markerfacecolor="none",
        markeredgecolor=line.get_color(),
        linestyle="none",
        label="_",
    )
    n_obs, heldout = getattr(coreset, "n_obs", None), getattr(coreset, "heldout_error", np.nan)
    title = f"{size:,}{f' of {n_obs:,}' if n_obs is not None else ''} rows (ring)"
    ax.set_title(
        f"{title}; held-out error {heldout:.2g}" if np.isfinite(heldout) else title, fontsize=11
    )


def _curves(source: Any) -> list[tuple[str, Float | None, Float]]:
    """(kind, sizes or None, errors) of one object with errors."""
    if hasattr(source, "trace") and not callable(source.trace):
        errors = as_numbers("trace", source.trace, "errors") if len(source.trace) else np.empty(0)
        sizes = np.asarray(getattr(source, "sizes", ()), dtype=float)
        # An algorithm whose size never changes has rounds, but no path of sizes.
        grew = sizes.size == errors.size and np.unique(sizes).size > 1
        return _added_and_removed(sizes, errors) if grew else [("", None, errors)]
    if isinstance(source, tuple) and len(source) == 2 and np.ndim(source[0]) == 1:
        return [("", *_ascending(*_pair(*source)))]
    items = [coreset_of(item) for item in source]
    if items and all(hasattr(item, "indices") for item in items):
        items.sort(key=lambda item: len(item.indices))
        sizes = np.array([len(item.indices) for item in items], dtype=float)
        curves: list[tuple[str, Float | None, Float]] = []
        for kind, name in (("relative", "relative_error"), ("held-out", "heldout_error")):
            errors = np.array([getattr(item, name, np.nan) for item in items], dtype=float)
            if np.isfinite(errors).any():
                curves.append((kind, sizes, errors))
        return curves
    errors = as_numbers("errors", items, "a list") if items else np.empty(0)
    if errors.ndim != 1:
        raise DataError(f"the errors have shape {errors.shape}, expected one for each size")
    return [("", None, errors)]


def _added_and_removed(sizes: Float, errors: Float) -> list[tuple[str, Float | None, Float]]:
    """The sizes that an algorithm grew to, and those below its largest one that it came back to."""
    back = sizes < np.maximum.accumulate(sizes)
    added = _ascending(sizes[~back], errors[~back])
    if not back.any():
        return [("", *added)]
    return [("rows added", *added), (_REMOVED, *_ascending(sizes[back], errors[back]))]


def _ascending(sizes: Float, errors: Float) -> tuple[Float, Float]:
    """Ascending sizes, each with the smallest of its errors."""
    found, place = np.unique(sizes, return_inverse=True)
    smallest = np.full(found.size, np.inf)
    np.fmin.at(smallest, place, errors)
    return found, np.where(np.isfinite(smallest), smallest, np.nan)


def _pair(sizes: ArrayLike, errors: ArrayLike) -> tuple[Float, Float]:
    x, y = as_numbers("sizes", sizes, "a list"), as_numbers("errors", errors, "a list")
    if x.shape != y.shape:
        raise DataError(f"{x.size} sizes but {y.size} errors; give one error for each size")
    return x, y
