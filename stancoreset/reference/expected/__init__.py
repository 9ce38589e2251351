"""Expectations of rows' log likelihoods and their derivatives under a Gaussian.

May import reference's Gaussian, rows and engines. Hands out row functions of generalised linear
models, their Hermite coefficients, and sums over rows.
"""

from __future__ import annotations

from stancoreset.reference.expected.coefficients import (
    one_predictor,
    pairs_of_orders,
    two_predictors,
)
from stancoreset.reference.expected.functions import (
    BERNOULLI_LOGIT,
    AnyFunction,
    RowFunction,
    SharedFunction,
    function_of_family,
    marginal_of_coefficients,
    row_function,
    why_not,
)
from stancoreset.reference.expected.placed import Placed, blocks, in_threads
from stancoreset.reference.expected.sums import Expected, expected_rows, no_sums

__all__ = [
    "BERNOULLI_LOGIT",
    "AnyFunction",
    "Expected",
    "Placed",
    "RowFunction",
    "SharedFunction",
    "blocks",
    "expected_rows",
    "function_of_family",
    "in_threads",
    "marginal_of_coefficients",
    "no_sums",
    "one_predictor",
    "pairs_of_orders",
    "row_function",
    "two_predictors",
    "why_not",
]
