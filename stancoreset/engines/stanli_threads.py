"""The thread in which stanli may evaluate a model itself.

Elsewhere its models were seen to end the process (0.24.0). Its BridgeStan interface serves every
thread, and so do chains that stanli starts in threads of its own.
"""

from __future__ import annotations

import sys
import threading
import weakref

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
