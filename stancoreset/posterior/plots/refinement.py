"""Plot of a refinement: k̂ and held-out error, round by round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from stancoreset.checks import understood
from stancoreset.errors import DataError, OptionError
from stancoreset.limits import ROUNDING
from stancoreset.posterior.certificate import HELDOUT_CERTIFIED, VERDICT_COLORS
from stancoreset.posterior.digits import percent
from stancoreset.posterior.importance import reliable_khat
from stancoreset.posterior.plots.figures import COLORS, LIMIT, LINES, Panels, check_axes, tidy
from stancoreset.posterior.rule import RULE

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_refinement(records: Any, ax: Panels | Sequence[Axes] | None = None) -> Panels:
    """Plot Pareto k̂ and held-out error of every round, labelled with its action.

    The legends name the verdicts' colours and the certificate's limits.

    Parameters
    ----------
    records : sequence
        One per round, with the attributes (or keys) ``round``, ``action``, ``size``,
        ``heldout_error``, ``khat``, ``ess``, ``n_draws``, ``seconds`` and ``verdict``; or a fit
        with ``rounds``.
    ax : pair of matplotlib Axes, optional
        For k̂ and for the held-out error.

    Returns
    -------
    ndarray of two matplotlib Axes

    Raises
    ------
    DataError
        If there are no rounds, or one lacks a required field.
    OptionError
        If there are fewer than two axes.

    Examples
    --------
    >>> first = dict(round=0, action="first pass", size=100, heldout_error=0.3, khat=0.9,
    ...              ess=40.0, n_draws=1000, seconds=2.0, verdict="rejected")
    >>> second = dict(first, round=1, action="larger size", size=200, heldout_error=0.02,
    ...               khat=0.2, ess=990.0, verdict="certified")
    >>> top, bottom = plot_refinement([first, second])
    >>> top.get_title()
    'rejected after 2 s → certified after 4 s'
    """
    with understood("records", records, "the rounds of a fit, or a fit"):
        tried: Any = getattr(records, "rounds", records)
        rows = [_fields(record) for record in tried]
    check_axes(ax, several=True)
    if not rows:
        raise DataError("the fit has no record of rounds, expected at least one to draw")
    if ax is None:
        import matplotlib.pyplot as plt

        width = max(8.4, 4.0 + 1.35 * len(rows))
        _, panels = plt.subplots(2, 1, sharex=True, figsize=(width, 5.2), layout="constrained")
    else:
        panels = np.ravel(np.asarray(ax, dtype=object))
        if panels.size < 2:
            raise OptionError(f"the trace of a refinement needs 2 axes, ax holds {panels.size}")
        panels = panels[:2]
    top, bottom = panels
    colors = [VERDICT_COLORS.get(row["verdict"], COLORS[6]) for row in rows]
    _draw_khat(top, rows, colors)
    _draw_error(bottom, rows, colors)
    bottom.set_xticks(np.arange(len(rows)), [_label(row) for row in rows], fontsize=8)
    bottom.set_xlim(-0.6, len(rows) - 0.4)
    bottom.set_xlabel("round")
    for panel in panels:
        tidy(panel)
        panel.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=8)
    seconds = np.cumsum([float(row["seconds"]) for row in rows])
    parts = [f"{rows[0]['verdict']} after {seconds[0]:,.0f} s"]
    if len(rows) > 1:
        parts.append(f"{rows[-1]['verdict']} after {seconds[-1]:,.0f} s")
    top.set_title(" → ".join(parts), fontsize=11)
    return panels


def _draw_khat(
    top: Axes, rows: Sequence[Mapping[str, Any]], colors: Sequence[str], most: float = 1.5
) -> None:
    """Draw Pareto k̂ and its limit; values beyond the panel appear at its edge."""
    x = np.arange(len(rows))
    for verdict, color in VERDICT_COLORS.items():  # of the legend alone
        top.plot([], [], "o", color=color, markersize=7, label=verdict)
    limits = [reliable_khat(int(row["n_draws"])) for row in rows]
    label = f"k̂ below: certified from\nan efficiency of {percent(RULE.efficiency)}"
    top.hlines(limits, x - 0.5, x + 0.5, LIMIT, LINES[1], linewidth=1.0, zorder=0, label=label)
    label = f"k̂ above: certified from\nan efficiency of {percent(RULE.efficiency_even)}"
    top.plot([], [], linestyle="none", label=label)
    khat = np.array([float(row["khat"]) for row in rows])
    shown = np.where(np.isfinite(khat), np.minimum(khat, most), most)
    top.plot(x, shown, color="0.6", linewidth=1.0, zorder=1)
    top.scatter(x, shown, c=colors, s=55, zorder=2)
    for i, row in enumerate(rows):
        number = f"{khat[i]:.2f}" if np.isfinite(khat[i]) else "∞"
        top.annotate(
            f"{number}\nefficiency {percent(row['ess'] / row['n_draws'])}",
            (i, shown[i]),
            xytext=(0, 8),
            textcoords="offset points",
            ha="center",
            fontsize=8,
            color="0.3",
        )
    top.set_ylabel("Pareto k̂")
    low, high = min(0.0, shown.min()), max(0.75, shown.max())
    top.set_ylim(low - 0.08 * (high - low), high + 0.3 * (high - low))


def _draw_error(bottom: Axes, rows: Sequence[Mapping[str, Any]], colors: Sequence[str]) -> None:
    """Draw the held-out error and the certificate's limit."""
    x = np.arange(len(rows))
    error = np.array([float(row["heldout_error"]) for row in rows])
    drawn = np.where(np.isfinite(error), np.maximum(error, ROUNDING), np.nan)
    bottom.axhline(
        HELDOUT_CERTIFIED,
        color=LIMIT,
        linewidth=1.0,
        linestyle="--",
        zorder=0,
        label=f"certified up to {HELDOUT_CERTIFIED:g}",
    )
    bottom.plot(x, drawn, color="0.6", linewidth=1.0, zorder=1)
    bottom.scatter(x, drawn, c=colors, s=55, zorder=2)
    bottom.set_yscale("log")
    # Whole decades, so that ticks are few, and the certificate's bound.
    known = np.concatenate([drawn[np.isfinite(drawn)], [0.05, 0.15]])
    low, high = np.log10(known.min()), np.log10(known.max())
    bottom.set_ylim(10 ** np.floor(low - 0.2), 10 ** np.ceil(high))
    bottom.minorticks_off()
    bottom.set_ylabel("held-out error")


def _label(row: Mapping[str, Any]) -> str:
    action, size = str(row["action"]), int(row["size"])
    text = fill(action, 18)
    return text if f"{size} rows" in action else f"{text}\n{size:,} rows"


_FIELDS = (
    "round", "action", "size", "heldout_error", "khat", "ess", "n_draws", "seconds", "verdict"
)  # fmt: skip


def _fields(record: Any) -> dict[str, Any]:
    if isinstance(record, Mapping):
        missing = [name for name in _FIELDS if name not in record]
        # Reports hold None for a number that is not finite.
        values = {k: float("nan") if v is None else v for k, v in record.items()}
    else:
        missing = [name for name in _FIELDS if not hasattr(record, name)]
        values = {name: getattr(record, name, None) for name in _FIELDS}
    if missing:
        raise DataError(
            f"a round of the refinement has no {missing[0]!r}; it needs {', '.join(_FIELDS)}"
        )
    return values
