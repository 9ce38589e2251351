"""Several points in one run of CmdStan's ``log_prob``, in the order in which it reads them.

CmdStan's file of points holds a matrix ``params_r``, one point per row. Most versions read it
column by column and assign the numbers point by point (stan-dev/cmdstan, issue 1336), so that
the results belong to other points; later versions read it row by row. The version number does not
determine which, so each executable is tested once: its results for two points together must equal
those for each alone.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from itertools import chain
from pathlib import Path

import numpy as np

from stancoreset.engines.base import Float
from stancoreset.errors import OutputError
from stancoreset.files import atomic_path

#: ``evaluate(points, order)``: log density and gradient at points sent in one run.
Evaluate = Callable[[Float, "Order"], Float]


class Order(StrEnum):
    """The order in which an executable reads a matrix of points."""

    ROWS = "rows"
    COLUMNS = "columns"
    #: Neither, or undetermined: each point gets a separate run.
    ALONE = "alone"


def arranged(points: Float, order: Order) -> Float:
    """Arrange the matrix to send, shape (S, P), so that CmdStan reads `points`.

    >>> arranged(np.array([[1, 2, 3], [4, 5, 6]]), Order.COLUMNS)
    array([[1, 3, 5],
           [2, 4, 6]])
    """
    if order is Order.COLUMNS:
        return points.reshape(-1).reshape(points.shape, order="F")
    return points


def order_of(executable: Path, points: Float, evaluate: Evaluate) -> Order:
    """Determine how an executable reads several points; run it only if that is unknown.

    The result is cached in this process, and beside the executable for others. The `points` of
    interest are tried first; ``evaluate(points, order)`` is −∞ where the density cannot be
    evaluated.
    """
    if len(points) == 1 or points.shape[1] <= 1:
        return Order.ROWS
    with _LOCK:  # one thread tests for all
        identity = _identity(executable)
        found = _KNOWN.get(identity) or _noted(executable, identity)
        if found is None:
            found = _asked(points, evaluate)
            if found is Order.ALONE:  # other data may determine it
                return found
            _note(executable, identity, found)
        _KNOWN[identity] = found
        return found


_LOCK = threading.Lock()
_KNOWN: dict[str, Order] = {}


def _asked(points: Float, evaluate: Evaluate) -> Order:
    rng = np.random.default_rng(0)
    # After the points of interest, such as Stan might start a chain at, increasingly near to zero.
    random = (rng.uniform(-r, r, (2, points.shape[1])) for r in (2.0, 1.0, 0.5, 0.1, 0.01))
    for pair in chain([points[:2]], random):
        alone = np.concatenate([evaluate(point[None], Order.ROWS) for point in pair])
        if not np.isfinite(alone).all():
            continue
        right = [
            order for order in (Order.ROWS, Order.COLUMNS) if _same(evaluate(pair, order), alone)
        ]
        if len(right) == 1:
            return right[0]
        if not right:
            break
    return Order.ALONE


def _same(values: Float, others: Float, apart: float = 1e-8) -> bool:
    """Whether values are equal but for rounding, of an executable that adds in threads."""
    difference = np.linalg.norm(values - others, axis=1)
    return bool(np.all(difference <= apart * np.linalg.norm(others, axis=1)))


# The cached result beside the executable ----------------------------------------------------


def _identity(executable: Path) -> str:
    """Identity of the present executable; a replacement must be tested again."""
    try:
        status = executable.stat()
    except OSError:  # running it reports the fault
        return str(executable)
    return f"{executable} {status.st_size} {status.st_mtime_ns}"


def _note_file(executable: Path) -> Path:
    return executable.with_name(f"{executable.name}.points.json")


def _noted(executable: Path, identity: str) -> Order | None:
    with suppress(OSError, ValueError, KeyError, TypeError):
        note = json.loads(_note_file(executable).read_text(encoding="utf-8"))
        if note["executable"] == identity:
            return Order(note["order"])
    return None


def _note(executable: Path, identity: str, order: Order) -> None:
    # If the folder is not writable, the next process tests again.
    if os.access(executable.parent, os.W_OK):
        with suppress(OutputError), atomic_path(_note_file(executable)) as path:
            path.write_text(json.dumps({"executable": identity, "order": order.value}))
