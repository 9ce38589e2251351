"""The reference distribution: a Gaussian, Pathfinder, ADVI, a pilot run, or given draws.

May import posterior, rows, engines and stan. Hands out `Reference` and `fit_reference`, and the
climb of a lower bound on the evidence, `ascend_bound`.
"""

from __future__ import annotations

from stancoreset.reference.ascent import ascend
from stancoreset.reference.base import (
    BY_HMC,
    BY_IMPORTANCE,
    BY_UNIT,
    INTEGRATED,
    ITERATED,
    GaussianFit,
    Reference,
    extended,
    finite_log_likelihood,
    in_use,
    reference_from_evaluated,
    require_finite,
    require_usable,
)
from stancoreset.reference.collapsed import (
    MOST_HYPERPARAMETERS,
    CollapsedDraws,
    Conditional,
    EstimatedMarginal,
    PriorTimesQuadratic,
    UnitDraws,
    UnitProposals,
    UnitSampler,
    WeightedDraws,
    find_bending,
    find_conditionally_gaussian,
    sample_collapsed,
)
from stancoreset.reference.draws import from_rows
from stancoreset.reference.gaussian_vi import Expectation, ascend_bound
from stancoreset.reference.hamiltonian import advance, warm_up
from stancoreset.reference.integrated import (
    AdaptiveQuadrature,
    CommonQuadrature,
    Conditionals,
    DistinctOfUnits,
    IntegratedLikelihood,
    Units,
    find_distinct,
    find_units,
)
from stancoreset.reference.laplace import (
    at_draws,
    at_own_width,
    curvature_width,
    gaussian_at,
    hessian_width,
)
from stancoreset.reference.methods import METHODS, ReferenceName, check_reference, fit_reference
from stancoreset.reference.pathfinder import pathfinder_draws
from stancoreset.reference.small_copy import small_size
from stancoreset.reference.summits import in_dimensions, prior_mode, start_seed
from stancoreset.reference.thinned import ThinnedDraws
from stancoreset.reference.third_order import ThirdOrder

__all__ = [
    "BY_HMC",
    "BY_IMPORTANCE",
    "BY_UNIT",
    "INTEGRATED",
    "ITERATED",
    "METHODS",
    "MOST_HYPERPARAMETERS",
    "AdaptiveQuadrature",
    "CollapsedDraws",
    "CommonQuadrature",
    "Conditional",
    "Conditionals",
    "DistinctOfUnits",
    "EstimatedMarginal",
    "Expectation",
    "GaussianFit",
    "IntegratedLikelihood",
    "PriorTimesQuadratic",
    "Reference",
    "ReferenceName",
    "ThinnedDraws",
    "ThirdOrder",
    "UnitDraws",
    "UnitProposals",
    "UnitSampler",
    "Units",
    "WeightedDraws",
    "advance",
    "ascend",
    "ascend_bound",
    "at_draws",
    "at_own_width",
    "check_reference",
    "curvature_width",
    "extended",
    "find_bending",
    "find_conditionally_gaussian",
    "find_distinct",
    "find_units",
    "finite_log_likelihood",
    "fit_reference",
    "from_rows",
    "gaussian_at",
    "hessian_width",
    "in_dimensions",
    "in_use",
    "pathfinder_draws",
    "prior_mode",
    "reference_from_evaluated",
    "require_finite",
    "require_usable",
    "sample_collapsed",
    "small_size",
    "start_seed",
    "warm_up",
]
