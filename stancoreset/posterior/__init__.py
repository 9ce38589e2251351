"""Checks of posterior draws: the certificate, comparisons, distances. Knows no Stan program.

May import rows, engines' types and the ground floor. Hands out `Certificate`, `certify`,
`compare` and `summarise`; ArviZ and plots are rooms inside it.
"""

from __future__ import annotations

from stancoreset.posterior import divergences
from stancoreset.posterior.cards import card, picture
from stancoreset.posterior.certificate import (
    ESS_CORRECTED,
    HELDOUT_CERTIFIED,
    RHAT_MIXED,
    VERDICT_COLORS,
    Certificate,
    Verdict,
    certify,
    leaves_no_doubt,
    too_many_divergences,
    too_short,
)
from stancoreset.posterior.comparison import compare, summarise, weighted_quantiles
from stancoreset.posterior.corrected import (
    corrected_posterior,
    refuse_rejected,
    systematic_resample,
    taken_draws,
)
from stancoreset.posterior.digits import percent
from stancoreset.posterior.disagreement import why_chains_disagree
from stancoreset.posterior.divergences import gaussian_kl
from stancoreset.posterior.evidence import Evidence, estimate_evidence
from stancoreset.posterior.importance import (
    KHAT_USABLE,
    LEAST_DRAWS,
    moved_by,
    smoothed_weights,
    unseen_mass,
    unvisited_mass,
)
from stancoreset.posterior.leave_one_out import Loo, leave_one_out, loo_compare
from stancoreset.posterior.marginals import Marginals, enough_draws, marginals_of
from stancoreset.posterior.moment_matching import moment_match
from stancoreset.posterior.named import NamedPosterior, common_variables, read_posteriors, scalars

__all__ = [
    "ESS_CORRECTED",
    "HELDOUT_CERTIFIED",
    "KHAT_USABLE",
    "LEAST_DRAWS",
    "RHAT_MIXED",
    "VERDICT_COLORS",
    "Certificate",
    "Evidence",
    "Loo",
    "Marginals",
    "NamedPosterior",
    "Verdict",
    "card",
    "certify",
    "common_variables",
    "compare",
    "corrected_posterior",
    "divergences",
    "enough_draws",
    "estimate_evidence",
    "gaussian_kl",
    "leave_one_out",
    "leaves_no_doubt",
    "loo_compare",
    "marginals_of",
    "moment_match",
    "moved_by",
    "percent",
    "picture",
    "read_posteriors",
    "refuse_rejected",
    "scalars",
    "smoothed_weights",
    "summarise",
    "systematic_resample",
    "taken_draws",
    "too_many_divergences",
    "too_short",
    "unseen_mass",
    "unvisited_mass",
    "weighted_quantiles",
    "why_chains_disagree",
]
