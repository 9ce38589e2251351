"""A likelihood with one parameter of each unit integrated out: a person's ability, say.

Units are independent given all other parameters h, and each has one parameter u_j, so that

    ℓ(h) = log ∫ π(u) p(y | h, u) du = Σ_j log ∫ π(u_j) p(y_j | h, u_j) du_j

is a sum of integrals over a line. The program's gradient along all u_j, at a dozen places of all
units at once, gives every integrand (Bock & Aitkin 1981 integrate over abilities likewise, at fixed
places).

May import rows and engines. Hands out `Units`, `find_units` and `IntegratedLikelihood`.
"""

from __future__ import annotations

from stancoreset.reference.integrated.likelihood import Given, IntegratedLikelihood
from stancoreset.reference.integrated.units import Units, find_units

__all__ = ["Given", "IntegratedLikelihood", "Units", "find_units"]
