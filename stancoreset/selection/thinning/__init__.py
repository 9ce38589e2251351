"""Thinning: a posterior in few weighted draws, whose expectations are those of all draws.

May import the solvers, posterior, engines (to write CmdStan's files) and the ground floor.
Hands out `thin`, its result `Thinned`, the feature map, and `kernel_rows`, which compresses rows of
data in the same way.

It stands here because it *selects*: draws take the place of rows, functions of the parameters that
of log likelihoods, and the solvers are the same. Posteriors of every kind are read by the room
`stancoreset.posterior`, which lies below.
"""

from __future__ import annotations

from stancoreset.selection.thinning.compression import kernel_rows
from stancoreset.selection.thinning.features import feature_map
from stancoreset.selection.thinning.thinned import Thinned, thin

__all__ = ["Thinned", "feature_map", "kernel_rows", "thin"]
