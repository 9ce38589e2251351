"""Plots of posteriors, weights, certificates and errors on matplotlib axes.

May import the files of posterior, and posterior.arviz. Hands out one function per plot.

Every function draws on ``ax`` if it is given and on a new figure otherwise, returns the axes, and
changes no global setting. Densities are ArviZ's estimates. Posteriors are given by name, as in
`stancoreset.compare`; a fit in place of posteriors means its own posterior and that of its
reference. Importance weights are applied.
"""

from __future__ import annotations

from stancoreset.posterior.plots.coresets import plot_certificate, plot_path, plot_weights
from stancoreset.posterior.plots.figures import tidy
from stancoreset.posterior.plots.overview import plot_fit
from stancoreset.posterior.plots.posteriors import Scale, plot_density, plot_forest
from stancoreset.posterior.plots.refinement import plot_refinement

__all__ = [
    "Scale",
    "plot_certificate",
    "plot_density",
    "plot_fit",
    "plot_forest",
    "plot_path",
    "plot_refinement",
    "plot_weights",
    "tidy",
]
