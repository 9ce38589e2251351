"""Sparse linear models: Gaussian approximations by the double loop of Seeger & Nickisch (2008).

May import reference's Gaussian and expectations, rows and engines. Hands out potentials, the
model, the double loop and the mode.
"""

from __future__ import annotations

from stancoreset.reference.double_loop.likelihoods import Likelihood
from stancoreset.reference.double_loop.loop import (
    DoubleLoop,
    SparseModel,
    double_loop,
    sparse_mode,
)
from stancoreset.reference.double_loop.potentials import (
    Horseshoe,
    Laplace,
    Potential,
    Power,
    ard,
    student_t,
)
from stancoreset.reference.double_loop.variances import Precision, lanczos, probing

__all__ = [
    "DoubleLoop",
    "Horseshoe",
    "Laplace",
    "Likelihood",
    "Potential",
    "Power",
    "Precision",
    "SparseModel",
    "ard",
    "double_loop",
    "lanczos",
    "probing",
    "sparse_mode",
    "student_t",
]
