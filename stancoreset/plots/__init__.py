"""Pictures of posteriors, weights, certificates and errors, as matplotlib axes.

Every function draws on ``ax`` if it is given and on a new figure otherwise, returns the
axes, and changes no global setting. Forests and densities are ArviZ's own. Posteriors are
given by name, as to `stancoreset.compare`; importance weights are honoured.
"""

from __future__ import annotations

from stancoreset.plots.coresets import plot_certificate, plot_path, plot_weights
from stancoreset.plots.posteriors import plot_density, plot_forest
from stancoreset.plots.refinement import plot_refinement

__all__ = [
    "plot_certificate",
    "plot_density",
    "plot_forest",
    "plot_path",
    "plot_refinement",
    "plot_weights",
]
