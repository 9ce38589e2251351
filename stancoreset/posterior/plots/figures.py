"""Shared parts of the plots: colours, new figures, plain axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from stancoreset.checks import understood

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Okabe and Ito's palette, distinguishable with any colour vision; the reference comes first.
COLORS = ("#56B4E9", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#0072B2", "#555555")
LineStyle: TypeAlias = Literal["-", "--", "-.", ":"]
LINES: tuple[LineStyle, ...] = get_args(LineStyle)
#: Colour of limits.
LIMIT = "0.55"
#: An array of axes, as ``plt.subplots`` returns it.
Panels: TypeAlias = NDArray[np.object_]


def new_axes(width: float, height: float) -> Axes:
    import matplotlib.pyplot as plt

    _, ax = plt.subplots(figsize=(width, height), layout="constrained")
    return ax


def check_axes(ax: object, *, several: bool = False) -> None:
    """Raise unless `ax` is None, matplotlib axes or, if `several`, an array of them."""
    from matplotlib.axes import Axes

    with understood("ax", ax, "matplotlib Axes"):
        flat = np.ravel(np.asarray(ax, dtype=object)) if several else [ax]
        if ax is not None and not (len(flat) and all(isinstance(a, Axes) for a in flat)):
            raise TypeError


def tidy(ax: Axes) -> None:
    """Hide the upper and the right edge of the frame."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def log_scale(ax: Axes) -> None:
    """Make y logarithmic; on an axis of less than two decades label more than powers of ten.

    Without labels between the powers of ten a reader could not tell such an axis' values.
    """
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

    ax.set_yscale("log")
    low, high = ax.get_ylim()
    if high < 100 * low:
        few = high < 8 * low
        ax.yaxis.set_major_locator(MaxNLocator(6) if few else LogLocator(subs=(1, 2, 5)))
        ax.yaxis.set_major_formatter("{x:,g}")
        ax.yaxis.set_minor_formatter(NullFormatter())


def whole_numbers(ax: Axes) -> None:
    """Put the ticks of x, which counts, on whole numbers."""
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
