"""The experiments by name."""

from __future__ import annotations

from papers import (
    constrained,
    coreset_mcmc,
    distributions,
    fisher,
    giga,
    isometry,
    linear,
    maps,
    pg_svi,
    pg_svi_topics,
    prototypes,
    regression,
    sparse_linear,
    subsampling,
    vectors,
)
from papers.base import Experiment

__all__ = ["EXPERIMENTS"]

#: The experiments by name, in the order of the command line's help.
EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        linear.GAUSSIAN,
        linear.RBF,
        regression.LOGISTIC_REGRESSION,
        regression.POISSON_REGRESSION,
        vectors.EXPERIMENT,
        regression.LARGE,
        regression.STOCHASTIC,
        regression.MAP,
        distributions.SPARSE_DISTRIBUTIONS,
        distributions.COMPRESSION,
        prototypes.EXPERIMENT,
        pg_svi.GP,
        pg_svi_topics.CTM,
        constrained.CONSTRAINED,
        isometry.ISOMETRY,
        linear.CONVERGENCE,
        maps.GAUSSIAN_MAP,
        maps.RBF_MAP,
        fisher.FISHER,
        giga.VARIANCE,
        giga.GIGA_BOUND,
        sparse_linear.SPARSE_LINEAR,
        coreset_mcmc.IN_THE_LOOP,
        subsampling.SUBSAMPLING,
    )
}
