"""One interface to the installed ArviZ, 0.23 or 1.x.

May import engines' types and the ground floor. Hands out containers and diagnostics with
the same results on both lines: ArviZ 0.23 keeps posteriors in ``InferenceData``, ArviZ 1.x in
xarray's ``DataTree``. A *container* is whichever of the two belongs to the installed ArviZ; a
*posterior* is anything `dataset_of` reads: a container, an xarray ``Dataset``, a cmdstanpy or
stanli fit, a table or a dict of draws, or an object whose attribute ``posterior`` is one of these.

ArviZ, xarray and pandas are imported on first use, without their banners.
"""

from __future__ import annotations

from stancoreset.posterior.arviz.containers import (
    add_group,
    from_result,
    load,
    posterior_container,
    save,
    with_variables,
)
from stancoreset.posterior.arviz.diagnostics import (
    HEAVY,
    PRECISE,
    UNRELIABLE,
    MonteCarlo,
    ess,
    kde,
    mcse,
    normal_scores,
    pareto_khat,
    psislw,
    psislw_rows,
    rhat,
    summary,
    with_normal_scores,
    worst_monte_carlo,
    worst_rhat,
)
from stancoreset.posterior.arviz.reading import (
    Posterior,
    attrs_of,
    dataset_of,
    finite_variables_of,
    group_of,
    groups_of,
    is_container,
    listing,
    sample_stats_of,
    variables_of,
)
from stancoreset.posterior.arviz.versions import Container, build, import_all

__all__ = [
    "HEAVY",
    "PRECISE",
    "UNRELIABLE",
    "Container",
    "MonteCarlo",
    "Posterior",
    "add_group",
    "attrs_of",
    "build",
    "dataset_of",
    "ess",
    "finite_variables_of",
    "from_result",
    "group_of",
    "groups_of",
    "import_all",
    "is_container",
    "kde",
    "listing",
    "load",
    "mcse",
    "normal_scores",
    "pareto_khat",
    "posterior_container",
    "psislw",
    "psislw_rows",
    "rhat",
    "sample_stats_of",
    "save",
    "summary",
    "variables_of",
    "with_normal_scores",
    "with_variables",
    "worst_monte_carlo",
    "worst_rhat",
]
