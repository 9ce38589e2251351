"""The length of chains: as much longer as their Monte-Carlo errors require, within bounds.

All draws that a user asks for are kept. Where chains become longer than that, and draws of
thousands of parameters would fill memory, every k-th draw is kept, but no fewer than were asked
for. That loses next to nothing of what they became longer for: of a parameter whose draws have the
autocorrelation ρ^t, as an AR(1) process, n draws are worth n (1 − ρ)/(1 + ρ), and every k-th

    n/k · (1 − ρ^k)/(1 + ρ^k)

which for 4,000 draws worth 150 is 1 % less with k = 5. Of 500 groups' slopes with a binary outcome,
20,000 draws of the slowest scale are worth 1,166, and every fifth 1,151. Group effects, whose draws
alternate, lose more than the rest: 4,000 are worth 3,100 at least, as many as were asked for.

All are in CSV files where a user asks for these (``engine_output_dir``); what is computed from the
draws of every parameter, such as R̂, would read them again and again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from stancoreset.engines import NUTS
from stancoreset.posterior import arviz

__all__ = ["MARGIN", "MOST_LONGER", "factor", "grown", "kept", "lengthened", "room"]

#: Largest factor by which chains grow at once, and what they get beyond their need: short chains
#: estimate their own error badly.
MOST_LONGER, MARGIN = 10.0, 1.25
# Chains stay as they are if they need more than this multiple of their largest length.
_HOPELESS = 3.0
# Largest factor by which warm-up grows with longer chains.
_WARMER = 3
# Largest number of transitions of all chains; of values in their draws (160 MB, but up to twice the
# first ones'); and draws that are kept however many values they have, ten times those needed.
_MOST_DRAWS, _MOST_NUMBERS, _KEPT = 100_000, 20_000_000, 4_000


def room(transitions: float) -> float:
    """The largest factor by which chains of so many transitions, all together, may grow."""
    return _MOST_DRAWS / max(1, transitions)


def factor(needed: float, room: float = MOST_LONGER) -> float:
    """The growth of chains that need to be so many times as long.

    It is 1 if they are long enough, or if that is hopeless.

    >>> factor(1.6), factor(20.0), factor(2.0, room=1.5), factor(2.0, room=0.5), factor(0.9)
    (2.0, 10.0, 1.5, 1.0, 1.0)
    """
    if not 1 < needed <= _HOPELESS * room:
        return 1.0
    return max(1.0, min(MARGIN * needed, MOST_LONGER, room))


def lengthened(nuts: NUTS, longer: float, posterior: Any, *, warmer: bool) -> NUTS:
    """The options of chains that are so many times as long, with draws like a posterior's.

    In memory longer chains of thousands of parameters keep every second draw, or fewer, but no
    fewer draws than the shorter ones. If `warmer`, their warm-up is longer too.
    """
    if warmer and longer > 1:
        nuts = replace(nuts, iter_warmup=math.ceil(min(longer, _WARMER) * nuts.warmup))
    bounded = math.ceil(longer / kept(posterior, nuts.chains * nuts.draws))
    every = nuts.keep_every * max(1, min(bounded, math.floor(longer)))
    return replace(nuts, iter_sampling=math.ceil(longer * nuts.iter_sampling), keep_every=every)


def kept(posterior: Any, draws: int | None = None) -> float:
    """The largest factor by which the number of draws may grow.

    It is that of a posterior's own draws, or of so many like them.
    """
    variables = arviz.variables_of(posterior).values()
    own = next((v.shape[0] * v.shape[1] for v in variables), _MOST_DRAWS)
    draws = own if draws is None else draws
    numbers = max(1.0, sum(v.size for v in variables) * draws / own)
    return max(1.0, min(_MOST_DRAWS / draws, max(_MOST_NUMBERS / numbers, _KEPT / draws)))


def grown(settings: Mapping[str, Any], nuts: NUTS) -> float:
    """How many times as long chains with these settings are as those of `nuts`."""
    return float(settings.get("iter_sampling", nuts.iter_sampling)) / nuts.iter_sampling
