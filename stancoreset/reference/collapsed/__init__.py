"""The collapsed sampler: prior × quadratic with everything integrated out that is Gaussian.

With u the effects and coefficients, and h the few scales, correlations and shapes,

    f(h, u) = log π(h, u) + Q(ψ(h, u)),      Q(ψ) = gᵀ(ψ − ψ₀) − ½ (ψ − ψ₀)ᵀ A (ψ − ψ₀),

is quadratic in u for every h. Its marginal density of h is known in closed form, h is drawn by
adaptive importance sampling and u given h from its Gaussian: draws are independent, and no chain
is run (Rue, Martino & Chopin 2009; Cornuet, Marin, Mira & Robert 2012).

May import reference's Gaussian, rows, engines and posterior's importance weights. Hands out
`PriorTimesQuadratic`, `find_bending`, `find_conditionally_gaussian`, `sample_collapsed`, and
`UnitSampler`, which weights what the quadratic leaves of each unit, and
`EstimatedMarginal`, which weights h that no quadratic describes.
"""

from __future__ import annotations

from stancoreset.reference.collapsed.block import (
    MOST_HYPERPARAMETERS,
    find_bending,
    find_conditionally_gaussian,
)
from stancoreset.reference.collapsed.conditional import Conditional
from stancoreset.reference.collapsed.density import PriorTimesQuadratic
from stancoreset.reference.collapsed.estimated import EstimatedMarginal
from stancoreset.reference.collapsed.mixture import WeightedDraws
from stancoreset.reference.collapsed.sampler import CollapsedDraws, sample_collapsed
from stancoreset.reference.collapsed.units import UnitDraws, UnitProposals, UnitSampler

__all__ = [
    "MOST_HYPERPARAMETERS",
    "CollapsedDraws",
    "Conditional",
    "EstimatedMarginal",
    "PriorTimesQuadratic",
    "UnitDraws",
    "UnitProposals",
    "UnitSampler",
    "WeightedDraws",
    "find_bending",
    "find_conditionally_gaussian",
    "sample_collapsed",
]
