"""The experiments by name."""

from __future__ import annotations

from stancoreset.experiments import (
    gaussian,
    large,
    logistic,
    map_distance,
    poisson,
    rbf,
    stochastic,
    vectors,
)
from stancoreset.experiments.base import Experiment

__all__ = ["EXPERIMENTS"]

#: The experiments by name, in the order of the command line's help.
EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (gaussian, rbf, logistic, poisson, vectors, large, stochastic, map_distance)
}
