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
from stancoreset.policy import Policy
from stancoreset.posterior import arviz

# Draws that are kept however many values they have: as many as chains have by default.
_KEPT = NUTS().chains * NUTS().draws


def max_lengthening(transitions: float, policy: Policy) -> float:
    """The largest factor by which chains of so many transitions, all together, may grow."""
    return policy.most_transitions / max(1, transitions)


def lengthening(needed: float, room: float, policy: Policy) -> float:
    """The growth of chains that need to be so many times as long.

    It is 1 if they are long enough, or if that is hopeless: if even three times as much as there
    is room for would not be enough.

    >>> [lengthening(needed, 10.0, Policy()) for needed in (0.9, 1.6, 20.0, 40.0)]
    [1.0, 2.0, 10.0, 1.0]
    >>> lengthening(2.0, 1.5, Policy()), lengthening(2.0, 0.5, Policy())
    (1.5, 1.0)
    """
    if not 1 < needed <= policy.unmixed_longer * room:
        return 1.0
    return max(1.0, min(policy.longer_margin * needed, policy.most_longer, room))


def lengthened(nuts: NUTS, longer: float, posterior: Any, policy: Policy, *, warmer: bool) -> NUTS:
    """The options of chains that are so many times as long, with draws like a posterior's.

    In memory longer chains of thousands of parameters keep every second draw, or fewer, but no
    fewer draws than the shorter ones. If `warmer`, their warm-up is longer too.
    """
    if warmer and longer > 1:
        warm = min(longer, policy.unmixed_longer)
        nuts = replace(nuts, iter_warmup=math.ceil(warm * nuts.warmup))
    bounded = math.ceil(longer / max_kept_ratio(posterior, policy, nuts.chains * nuts.draws))
    every = nuts.keep_every * max(1, min(bounded, math.floor(longer)))
    return replace(nuts, iter_sampling=math.ceil(longer * nuts.iter_sampling), keep_every=every)


def max_kept_ratio(posterior: Any, policy: Policy, draws: int | None = None) -> float:
    """The largest factor by which the number of draws may grow.

    It is that of a posterior's own draws, or of so many like them.
    """
    variables = arviz.variables_of(posterior).values()
    own = next((v.shape[0] * v.shape[1] for v in variables), policy.most_transitions)
    draws = own if draws is None else draws
    numbers = max(1.0, sum(v.size for v in variables) * draws / own)
    most = max(policy.most_numbers / numbers, _KEPT / draws)
    return max(1.0, min(policy.most_transitions / draws, most))


def length_ratio(settings: Mapping[str, Any], nuts: NUTS) -> float:
    """How many times as long chains with these settings are as those of `nuts`."""
    return float(settings.get("iter_sampling", nuts.iter_sampling)) / nuts.iter_sampling
