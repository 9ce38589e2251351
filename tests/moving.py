"""What moves a program's effects, on stanli."""

from __future__ import annotations

from stancoreset.engines import Moving
from stancoreset.engines.stanli import StanliEngine
from stancoreset.stan import StanProgram, centring

__all__ = ["ENGINE", "moving_of"]

ENGINE = StanliEngine()


def moving_of(code, data):
    found = centring(StanProgram.from_code(code).tree)
    return Moving(found, lambda text, further: ENGINE.compile(text).bind({**data, **further}))
