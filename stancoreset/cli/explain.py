"""Text of the terminal's width on the weighting of each statement of a program."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from textwrap import wrap

from stancoreset.model import CoresetModel


def explained(model: CoresetModel, width: int | None = None) -> str:
    """Explain in words the observation, the weighting of each statement, and ψ.

    Parameters
    ----------
    model : CoresetModel
    width : int, optional
        Columns; by default those of the terminal.
    """
    width = max(40, width or shutil.get_terminal_size().columns)
    lines = wrap(model.explain_observation(), width)
    lines += ["", *_statements(model, width), ""]
    for sentence in model.explain_seen().splitlines():
        lines += wrap(sentence, width)
    return "\n".join(lines)


def _statements(model: CoresetModel, width: int) -> Iterator[str]:
    """Line, role and statement, and below it the reason."""
    table = model.explain()
    entries = list(zip(*(table[c] for c in table.columns), strict=True))
    numbers = max((len(str(line)) for line, *_ in entries), default=0)
    roles = max((len(role) for _, _, role, _ in entries), default=0)
    indent = " " * (numbers + roles + 4)
    for line, statement, role, why in entries:
        head = f"{line:>{numbers}}  {role:<{roles}}  "
        yield from wrap(statement, width, initial_indent=head, subsequent_indent=indent)
        yield from wrap(f"({why})", width, initial_indent=indent, subsequent_indent=indent)
