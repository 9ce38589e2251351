"""Shared parts of the plots: colours, new figures, plain axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from stancoreset.checks import understood

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["COLORS", "LINES", "LineStyle", "Panels", "check_axes", "new_axes", "tidy"]

#: Okabe and Ito's palette, distinguishable with any colour vision; the reference comes first.
COLORS = ("#56B4E9", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#0072B2", "#555555")
LineStyle: TypeAlias = Literal["-", "--", "-.", ":"]
LINES: tuple[LineStyle, ...] = get_args(LineStyle)
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
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
