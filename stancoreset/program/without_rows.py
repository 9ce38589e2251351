"""The prior, and what the rows see as a function of the parameters: no row is bound."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines import BoundModel, Float, StanData
from stancoreset.program.session import Session


@dataclass(frozen=True)
class Psi:
    """ψ as a function of unconstrained draws, (S, P) → (S, p), or some of its coordinates.

    `name` is that of the generated quantity; it is empty if the rows see the parameters themselves.
    """

    bound: BoundModel
    name: str
    columns: NDArray[np.intp] | None = None

    def __call__(self, draws: Float) -> Float:
        psi = self.bound.generated(draws, (self.name,))[self.name] if self.name else draws
        return psi if self.columns is None else psi[:, self.columns]


@contextmanager
def without_rows(session: Session, checked: StanData) -> Iterator[tuple[BoundModel, Psi]]:
    """The prior, and ψ as a function of unconstrained draws.

    They are bound for one thread: a gradient takes less time than to start one.
    """
    own = session.likelihood is session
    data = session.no_rows(checked) if own else session.no_rows_with_psi(checked)
    with session.density().bind(data, threads=1) as bound:
        yield bound, Psi(bound, "" if own else session.controlled.names["values"])
