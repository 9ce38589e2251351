"""stanli's notes on a program go to the log ``stancoreset.engines.stanli_notes``, at level INFO.

They say that a part of it, such as generated quantities that sum integers, is interpreted, which is
slower. Each begins with the program's name and says which block is interpreted, and why; stanli
(0.24) tells no line. Of the weaver's test programs no log density is interpreted: stanli compiles
it or refuses it. stanli prints notes through BridgeStan's callback, as it does what the user's
program prints, and as warnings.
"""

from __future__ import annotations

import ctypes
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

__all__ = ["hear_notes", "notes_of", "without_notes"]

_log = logging.getLogger(__name__)
_Callback = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_char), ctypes.c_int)
_NOTE = "stanli: "
_program: ContextVar[str] = ContextVar("program", default="")


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
        _log.info("%s: %s", _program.get() or "a program", said.strip())
    else:  # by a print statement of the user's program
        print(said, end="")


@contextmanager
def notes_of(program: str) -> Iterator[None]:
    """Name the program in the notes that stanli makes in this block."""
    token = _program.set(program)
    try:
        yield
    finally:
        _program.reset(token)


@contextmanager
def without_notes() -> Iterator[None]:
    """Leave out warnings that repeat a note."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=_NOTE, category=RuntimeWarning)
        yield
