"""The thread in which stanli may evaluate a model itself.

stanli's own models compute some gradients on a stack of Stan's that only the thread which loaded
its library has, and end the process elsewhere (seen with 0.24.0). Its BridgeStan interface makes a
stack for every call, and its chains make one for every thread that they start themselves.
"""

from __future__ import annotations

import sys
import threading
import weakref

__all__ = ["in_loading_thread", "load"]

_loaded: list[weakref.ref[threading.Thread]] = []
_lock = threading.Lock()


def load() -> None:
    """Import stanli, and remember in which thread."""
    with _lock:
        if not _loaded:
            # What is imported already was so in the main thread, as far as anybody can know.
            known = "stanli" in sys.modules
            here = threading.main_thread() if known else threading.current_thread()
            import stanli  # noqa: F401

            _loaded.append(weakref.ref(here))


def in_loading_thread() -> bool:
    """Whether this thread has loaded stanli's library."""
    load()
    return _loaded[0]() is threading.current_thread()
