"""The one place that knows which ArviZ is installed.

ArviZ 0.23 keeps posteriors in ``InferenceData``, ArviZ 1.x in xarray's ``DataTree``; their
diagnostics and plots moved too. Everything here gives the same answer on both lines. A
*container* is whichever of the two belongs to the installed ArviZ; a *posterior* is anything
`dataset_of` reads: a container, an xarray ``Dataset``, a cmdstanpy or stanli fit, a table or
a dict of draws, or an object whose attribute ``posterior`` is one of these.

ArviZ, xarray and pandas are imported on first use, quietly.
"""

from __future__ import annotations

from stancoreset.arviz_compat.containers import (
    add_group,
    from_result,
    load,
    posterior_container,
    save,
)
from stancoreset.arviz_compat.diagnostics import (
    MonteCarlo,
    ess,
    mcse,
    psislw,
    relative_efficiency,
    rhat,
    summary,
    worst_monte_carlo,
    worst_rhat,
)
from stancoreset.arviz_compat.line import Container
from stancoreset.arviz_compat.reading import (
    attrs_of,
    dataset_of,
    finite_variables_of,
    group_of,
    groups_of,
    is_container,
    sample_stats_of,
    variables_of,
)

__all__ = [
    "Container",
    "MonteCarlo",
    "add_group",
    "attrs_of",
    "dataset_of",
    "ess",
    "finite_variables_of",
    "from_result",
    "group_of",
    "groups_of",
    "is_container",
    "load",
    "mcse",
    "posterior_container",
    "psislw",
    "relative_efficiency",
    "rhat",
    "sample_stats_of",
    "save",
    "summary",
    "variables_of",
    "worst_monte_carlo",
    "worst_rhat",
]
