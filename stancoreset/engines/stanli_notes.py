"""stanli's notes on a program go to the log ``stancoreset.engines.stanli_notes``, at level INFO.

They say that a part of it, such as generated quantities that sum integers, is interpreted, which is
slower. Each begins with the program's name, and says which block is interpreted and why. stanli
(0.24) tells no line: the statement that is the cause is found by leaving out what follows it, where
the log is kept. It stands in transformed parameters or generated quantities, whose values are then
slow, and in no model that was tried: stanli compiles a log density or refuses it. stanli prints
notes through BridgeStan's callback, as it does what the user's program prints, and as warnings.
"""

from __future__ import annotations

import ctypes
import logging
import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import cache
from typing import Any

from stancoreset.stan.syntax import parse, printer

_log = logging.getLogger(__name__)
_Callback = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_char), ctypes.c_int)
_NOTE = "stanli: "
_heard: ContextVar[list[str] | None] = ContextVar("heard", default=None)


def hear_notes() -> None:
    """Have stanli's library say what it has to say to this module.

    Models must then be made with ``capture_stan_prints=False``. Others that a user makes by himself
    may take the library's only callback at any time: it is set for every model.
    """
    _setter()(_hear, None)


@cache
def _setter() -> Any:
    import stanli

    setter = ctypes.CDLL(stanli._runtime_lib_path()).bs_set_print_callback
    setter.restype, setter.argtypes = None, [_Callback, ctypes.POINTER(ctypes.c_char_p)]
    return setter


@_Callback  # type: ignore[untyped-decorator]  # kept here for as long as the library may call it
def _hear(text: Any, length: int) -> None:
    said = ctypes.string_at(text, length).decode(errors="replace")
    if said.startswith(_NOTE):
        notes = _heard.get()
        if notes is None:
            log_notes("a program", [said])
        else:
            notes.append(said)
    else:  # by a print statement of the user's program
        print(said, end="")


@contextmanager
def notes_of() -> Iterator[list[str]]:
    """Collect the notes that stanli makes in this block."""
    notes: list[str] = []
    token = _heard.set(notes)
    try:
        yield notes
    finally:
        _heard.reset(token)


def log_notes(program: str, notes: list[str], find: Callable[[], str] | None = None) -> None:
    """Log notes on a program, with the statement that `find` finds; see `interpreted_statement`."""
    if notes and _log.isEnabledFor(logging.INFO):
        where = find() if find else ""
        for note in notes:
            _log.info("%s: %s%s", program, where, note.strip())


def interpreted_statement(code: str, is_noted: Callable[[str], bool]) -> str:
    """The first statement with which stanli makes a note; empty if transformed data are the cause.

    ``is_noted(code)`` says whether stanli makes a note on a program.
    """
    program = parse(code)
    blocks = ("transformed_parameters", "model", "generated_quantities")
    statements = [(block, s) for block in blocks for s in getattr(program, block)]

    def noted(count: int) -> bool:
        some = statements[:count]
        kept: dict[str, Any] = {b: tuple(s for own, s in some if own == b) for b in blocks}
        return is_noted(printer.program(replace(program, **kept)))

    first = bisect_left(range(len(statements) + 1), True, key=noted)
    if not 0 < first <= len(statements):
        return ""
    _, cause = statements[first - 1]
    text = " ".join(printer.statement(cause).split())[:200]
    return f"line {cause.line}, `{text}`: "


@contextmanager
def without_notes() -> Iterator[None]:
    """Leave out warnings that repeat a note."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=_NOTE, category=RuntimeWarning)
        yield
