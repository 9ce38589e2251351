"""Weaving: the author's program becomes one with a weight for every row.

May import stan.syntax, stan.data and the ground floor. Hands out `weave`, and the
analyses that other rooms need.
"""

from __future__ import annotations

from stancoreset.stan.weave.assemble import Woven
from stancoreset.stan.weave.constants import with_constants
from stancoreset.stan.weave.counts import optional, with_sizes_as_data
from stancoreset.stan.weave.draft import DoesNotApplyError
from stancoreset.stan.weave.elements import entry_of
from stancoreset.stan.weave.freeze import frozen_values
from stancoreset.stan.weave.levels import levels
from stancoreset.stan.weave.library import UNARY, suffix
from stancoreset.stan.weave.segments import segmented
from stancoreset.stan.weave.slices import filtered, needed
from stancoreset.stan.weave.table import Table
from stancoreset.stan.weave.weaving import weave
from stancoreset.stan.weave.whole_loops import with_whole_loops

__all__ = [
    "UNARY",
    "DoesNotApplyError",
    "Table",
    "Woven",
    "entry_of",
    "filtered",
    "frozen_values",
    "levels",
    "needed",
    "optional",
    "segmented",
    "suffix",
    "weave",
    "with_constants",
    "with_sizes_as_data",
    "with_whole_loops",
]
