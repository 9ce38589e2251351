"""Constrained parameters and their unconstrained coordinates, in NumPy and in Stan.

May import stan.syntax, stan.data and the ground floor. Hands out `Transforms`.
"""

from __future__ import annotations

from stancoreset.stan.transforms.bijectors import has_ilr_simplex
from stancoreset.stan.transforms.coordinates import statements
from stancoreset.stan.transforms.transforms import Transforms

__all__ = ["Transforms", "has_ilr_simplex", "statements"]
