"""A likelihood with one parameter of each unit integrated out: a person's ability, say.

Units are independent given all other parameters h, and each has one parameter u_j, so that

    ℓ(h) = log ∫ π(u) p(y | h, u) du = Σ_j log ∫ π(u_j) p(y_j | h, u_j) du_j

is a sum of integrals over a line, by one of two quadratures: places that all units share, where
rows have few distinct values, or places of every unit's own.

May import rows, stan and engines. Hands out `Units`, `find_units`, `IntegratedLikelihood`, and its
two kinds, `AdaptiveQuadrature` and `CommonQuadrature` with `find_distinct`.
"""

from __future__ import annotations

from stancoreset.reference.integrated.adaptive import AdaptiveQuadrature
from stancoreset.reference.integrated.common import CommonQuadrature
from stancoreset.reference.integrated.conditionals import Conditionals
from stancoreset.reference.integrated.distinct import DistinctOfUnits, find_distinct
from stancoreset.reference.integrated.likelihood import IntegratedLikelihood
from stancoreset.reference.integrated.units import Units, find_units

__all__ = [
    "AdaptiveQuadrature",
    "CommonQuadrature",
    "Conditionals",
    "DistinctOfUnits",
    "IntegratedLikelihood",
    "Units",
    "find_distinct",
    "find_units",
]
