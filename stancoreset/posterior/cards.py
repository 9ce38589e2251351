"""Cards: what a notebook shows of a value in place of its ``repr``.

`card` is the HTML of one card, and `picture` a matplotlib figure as an image inside a page. A style
that a notebook may strip is never needed to read a card: the verdict is a word beside its colour.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

_FRAME = (
    "border:1px solid #bbb;border-left:6px solid {color};border-radius:4px;padding:0.6em 1em;"
    "margin:0.3em 0;max-width:62em;display:flex;flex-wrap:wrap;gap:0.5em 2em"
)

# Notebooks align cells to the right.
_LEFT = "text-align:left;vertical-align:top"


def card(
    title: str,
    facts: Iterable[tuple[str, str]],
    *,
    verdict: str = "",
    color: str = "#888",
    notes: Sequence[str] = (),
    image: str = "",
) -> str:
    """The HTML of a card: a title, facts as pairs of name and value, and notes below the title.

    `verdict` is a word before the title, in `color`, which is also the frame's; `image` is made by
    `picture`.

    >>> ">25 of 1,000</td>" in card("Coreset", [("rows", "25 of 1,000")])
    True
    """
    word = f'<b style="color:{color}">{escape(verdict)}</b> · ' if verdict else ""
    lines = [f'<div style="flex:1 1 22em">{word}<b>{escape(title)}</b>']
    if notes:
        lines += ["<ul>", *(f"<li>{escape(note)}</li>" for note in notes), "</ul>"]
    lines.append('<table style="margin:0.5em 0 0 0">')
    lines += [
        f'<tr><th style="{_LEFT};white-space:nowrap;padding-right:1em">{escape(name)}</th>'
        f'<td style="{_LEFT}">{escape(value)}</td></tr>'
        for name, value in facts
        if value
    ]
    lines.append("</table></div>")
    body = "".join(lines) + (f"<div>{image}</div>" if image else "")
    return f'<div style="{_FRAME.format(color=color)}">{body}</div>'


def picture(figure: Any, text: str, *, dpi: int = 80) -> str:
    """An HTML image that holds a matplotlib figure; `text` describes it to those who do not see it.

    >>> from matplotlib.figure import Figure
    >>> picture(Figure(figsize=(1, 1)), "nothing")[:31]
    '<img src="data:image/png;base64'
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    stream = io.BytesIO()
    figure.set_dpi(dpi)
    canvas: Any = FigureCanvasAgg(figure)
    canvas.print_png(stream)  # `savefig` draws everything twice
    data = base64.b64encode(stream.getvalue()).decode("ascii")
    return f'<img src="data:image/png;base64,{data}" alt="{escape(text)}" style="max-width:100%">'
