"""A program with its data: woven, checked, cut at what the rows see, and bound to an engine.

May import selection and what lies below it. Hands out `Session`, which holds program, engine and
data, and what runs NUTS on it, reads draws and makes containers of them; `adopt` and the identities
that every woven program must meet; `LikelihoodView`, the likelihood in what its rows see; and
`Certifier`, which certifies draws against the author's own program.
"""

from __future__ import annotations

from stancoreset.program.adopt import Adopted, adopt
from stancoreset.program.by_unit import remainders_by_unit
from stancoreset.program.certify import (
    CERTIFIED_DRAWS,
    Certifier,
    PreviousChains,
    certificate_of_gaussian,
)
from stancoreset.program.containers import (
    draws_container,
    labels_of_draws,
    make_provenance,
    reference_container,
    result_container,
)
from stancoreset.program.draws import take_spaced_draws, unconstrain_all
from stancoreset.program.identities import (
    TOLERANCE,
    Identity,
    check_adopted,
    check_identities,
    identity_table,
    require_identities,
)
from stancoreset.program.impossible import impossible_rows
from stancoreset.program.improper import require_known
from stancoreset.program.integrated import (
    REFINED_AT,
    IntegratedPosterior,
    integrated_density,
    integrated_posterior,
)
from stancoreset.program.likelihood_view import (
    LikelihoodView,
    held_once,
    in_likelihood_coordinates,
    reference_in_psi,
)
from stancoreset.program.passes import PASSES, PassesName
from stancoreset.program.quantities import (
    bind_original,
    few_quantities,
    known_quantities,
    read_whole,
    shapes_at,
    unconstrained_draws,
    with_quantities,
)
from stancoreset.program.row_blocks import iter_log_lik_blocks
from stancoreset.program.row_free import RowFreeProgram, seconds_of_gradient
from stancoreset.program.row_weights import (
    WeightKind,
    check_kind,
    quantities_of_weighted_rows,
    read_row_weights,
    require_repeatable,
    without_weighted_rows,
)
from stancoreset.program.sampling import (
    as_sampled,
    draw_gaussian,
    find_inits,
    require_one_to_one,
    require_room_for_draws,
    run_nuts,
)
from stancoreset.program.second_engine import SECOND, SecondEngine
from stancoreset.program.session import (
    Data,
    Session,
)
from stancoreset.program.without_rows import Psi, without_rows
from stancoreset.program.words import describe_observation, describe_seen

__all__ = [
    "CERTIFIED_DRAWS",
    "PASSES",
    "REFINED_AT",
    "SECOND",
    "TOLERANCE",
    "Adopted",
    "Certifier",
    "Data",
    "Identity",
    "IntegratedPosterior",
    "LikelihoodView",
    "PassesName",
    "PreviousChains",
    "Psi",
    "RowFreeProgram",
    "SecondEngine",
    "Session",
    "WeightKind",
    "adopt",
    "as_sampled",
    "bind_original",
    "certificate_of_gaussian",
    "check_adopted",
    "check_identities",
    "check_kind",
    "describe_observation",
    "describe_seen",
    "draw_gaussian",
    "draws_container",
    "few_quantities",
    "find_inits",
    "held_once",
    "identity_table",
    "impossible_rows",
    "in_likelihood_coordinates",
    "integrated_density",
    "integrated_posterior",
    "iter_log_lik_blocks",
    "known_quantities",
    "labels_of_draws",
    "make_provenance",
    "quantities_of_weighted_rows",
    "read_row_weights",
    "read_whole",
    "reference_container",
    "reference_in_psi",
    "remainders_by_unit",
    "require_identities",
    "require_known",
    "require_one_to_one",
    "require_repeatable",
    "require_room_for_draws",
    "result_container",
    "run_nuts",
    "seconds_of_gradient",
    "shapes_at",
    "take_spaced_draws",
    "unconstrain_all",
    "unconstrained_draws",
    "with_quantities",
    "without_rows",
    "without_weighted_rows",
]
