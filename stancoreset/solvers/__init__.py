"""Selection algorithms: Φ, b and a size in, indices and weights out. NumPy alone, no Stan.

Examples
--------
>>> import numpy as np
>>> import stancoreset.solvers as solvers
>>> phi = np.random.default_rng(1).standard_normal((4, 100))
>>> result = solvers.solve(phi, phi.sum(axis=1), size=4, method="pursuit")
>>> bool((result.weights > 0).all())
True
"""

from __future__ import annotations

from .base import METHODS, SolverResult
from .checks import check_method
from .frank_wolfe import frank_wolfe
from .giga import giga
from .iht import aiht, aiht2, iht
from .orthogonal_pursuit import orthogonal_pursuit
from .pursuit import pursuit
from .solve import solve
from .subsampling import importance, uniform

__all__ = [
    "METHODS",
    "SolverResult",
    "aiht",
    "aiht2",
    "check_method",
    "frank_wolfe",
    "giga",
    "iht",
    "importance",
    "orthogonal_pursuit",
    "pursuit",
    "solve",
    "uniform",
]
