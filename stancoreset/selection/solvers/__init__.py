"""Selection algorithms in NumPy: from Φ, b and a size to indices and weights.

May import the top-level modules. Hands out the algorithms, and `solve`, which calls one by name.

Examples
--------
>>> import numpy as np
>>> import stancoreset as sc
>>> phi = np.random.default_rng(1).standard_normal((4, 100))
>>> result = sc.solvers.solve(phi, phi.sum(axis=1), size=4, method="pursuit")
>>> bool((result.weights > 0).all())
True
"""

from __future__ import annotations

from stancoreset.parallel import single_threaded
from stancoreset.selection.solvers.base import METHODS, SolverName, SolverResult
from stancoreset.selection.solvers.checks import (
    check_count,
    check_method,
    check_sizes,
    is_finite,
)
from stancoreset.selection.solvers.hilbert import frank_wolfe, giga
from stancoreset.selection.solvers.iht import aiht, aiht2, iht, printed_iterates
from stancoreset.selection.solvers.pursuit import orthogonal_pursuit, pursuit
from stancoreset.selection.solvers.solve import solve
from stancoreset.selection.solvers.sparse_projections import project
from stancoreset.selection.solvers.subsampling import importance, uniform

__all__ = [
    "METHODS",
    "SolverName",
    "SolverResult",
    "aiht",
    "aiht2",
    "check_count",
    "check_method",
    "check_sizes",
    "frank_wolfe",
    "giga",
    "iht",
    "importance",
    "is_finite",
    "orthogonal_pursuit",
    "printed_iterates",
    "project",
    "pursuit",
    "single_threaded",
    "solve",
    "uniform",
]
