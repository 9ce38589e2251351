"""What the pictures share: colours, a figure of one's own, plain axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["COLORS", "LINES", "VERDICTS", "new_axes", "tidy"]

#: Okabe and Ito's palette, told apart with any colour vision; the reference comes first.
COLORS = ("#56B4E9", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#0072B2", "#555555")
LINES = ("-", "--", "-.", ":")
#: What a verdict looks like.
VERDICTS = {"certified": "#009E73", "corrected": "#E69F00", "rejected": "#D55E00"}


def new_axes(width: float, height: float) -> Axes:
    import matplotlib.pyplot as plt

    _, ax = plt.subplots(figsize=(width, height), layout="constrained")
    return ax


def tidy(ax: Axes) -> None:
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
