"""What every picture must do."""

from __future__ import annotations

import matplotlib as mpl
from matplotlib.figure import Figure

__all__ = ["assert_nothing_clipped"]


def assert_nothing_clipped(figure: Figure) -> None:
    """Fail if a text that is shown reaches beyond the figure."""
    figure.draw_without_rendering()  # what follows asks for places alone
    frame = figure.bbox
    beyond = set()  # labels of ticks outside the axes, which matplotlib does not draw
    for axis in figure.findobj(mpl.axis.Axis):
        low, high = sorted(axis.get_view_interval())
        for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
            if not low <= tick.get_loc() <= high:
                beyond |= {tick.label1, tick.label2}
    texts = [text for text in figure.findobj(mpl.text.Text) if text.get_visible()]
    shown = [text for text in texts if text.get_text().strip() and text not in beyond]
    assert shown
    for text in shown:
        box = text.get_window_extent()
        if box.width == 0:
            continue
        assert box.x0 >= frame.x0 - 2, text
        assert box.x1 <= frame.x1 + 2, text
        assert box.y0 >= frame.y0 - 2, text
        assert box.y1 <= frame.y1 + 2, text
