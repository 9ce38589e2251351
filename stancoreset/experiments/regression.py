"""One trial of a regression: data, Laplace reference, projection, coresets and distances.

Zhang et al. (2021), section 5.3 and appendix G: N = 500 rows of each data set, projected on S = 500
draws of the Laplace fit; forward and reverse KL between the Laplace fits of the full and the
coreset posterior; the distance of their modes; 20 trials, bands from the 35th to the 65th
percentile. Covariates of more than 10 dimensions are reduced to 10 principal components, as the
paper does with its phishing data. S is not in the paper: 500 is what its published code uses.

Here each trial draws new rows, as it draws everything else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from stancoreset.experiments.base import (
    Algorithm,
    Record,
    Settings,
    Trial,
    described,
    select,
    solver_seed,
)
from stancoreset.experiments.closed_forms import dense_weights, divergences
from stancoreset.experiments.datasets import regression
from stancoreset.experiments.glm import laplace, projection

__all__ = ["BAND", "DRAWS", "ROWS", "SIZES", "regression_trial"]

ROWS, DRAWS = 500, 500
SIZES = (1, 2, 5, *range(10, 101, 10))
BAND = (35.0, 65.0)


def regression_trial(datasets: Sequence[str], max_dimension: int | None = 10) -> Trial:
    """Create the trial function of an experiment on these data sets.

    Parameters
    ----------
    datasets : sequence of str
        Names for `stancoreset.experiments.datasets.regression`.
    max_dimension : int, optional
        Number of principal components to which more covariates are reduced; None reduces none.
    """

    def trial(
        settings: Settings, algorithms: list[Algorithm], rng: np.random.Generator
    ) -> Iterator[Record]:
        for dataset in datasets:
            model = regression(dataset, settings.rows, rng, max_dimension)
            rows = len(model.y)
            full = laplace(model, np.ones(rows))
            phi, target = projection(model, full, settings.draws, rng)
            seed = solver_seed(rng)
            for algorithm in algorithms:
                for size, result in select(phi, target, algorithm, settings.sizes, seed):
                    coreset = laplace(model, dense_weights(result, rows))
                    yield {
                        **described(dataset, algorithm, size, result),
                        **divergences(full, coreset),
                        "map_distance": float(np.linalg.norm(coreset.mean - full.mean)),
                    }

    return trial
