"""Sparse linear models: Gaussian approximations by the double loop of Seeger & Nickisch (2008).

Hands out potentials, the model, the double loop and the mode. For Stan programs with Laplace or
Student-t priors, ``reference="double_loop"`` of the package climbs the bound in its own way.
"""

from __future__ import annotations

from papers.double_loop.likelihoods import Likelihood
from papers.double_loop.loop import (
    DoubleLoop,
    SparseModel,
    double_loop,
    sparse_mode,
)
from papers.double_loop.potentials import Horseshoe, Laplace, Potential, Power, ard, student_t
from papers.double_loop.variances import Precision, lanczos, probing

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
