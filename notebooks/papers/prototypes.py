"""Prototypes of handwritten digits: Zhang et al. (2019), section 5, figure 3b.

Few of n images stand for all of them: weights w on the simplex minimise the squared maximum mean
discrepancy of a Gaussian kernel,

    MMD² = ‖Φw − b‖²,   ΦᵀΦ = K,   b = Φ1/n,

either with one kernel for all images, or with one for each class, K_ij = 0 between two classes
(Kim, Khanna & Koyejo 2016). The prototypes are judged by that distance, and by the share of test
images whose nearest prototype shows another digit. ``MMD-critic`` is the greedy choice of
prototypes of equal weight by Kim et al., the paper's strongest baseline.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.spatial.distance import cdist, pdist

from papers.base import (
    Algorithm,
    Experiment,
    Metric,
    Record,
    Settings,
    select,
    solver_seed,
)
from papers.datasets import digits

__all__ = ["EXPERIMENT", "gaussian_kernel", "mmd_critic", "root"]

Float = NDArray[np.float64]
Whole = NDArray[np.int64]

_CRITIC = "MMD-critic"
#: The kernel's length as a share of the median distance of two images.
LENGTH = 0.5
#: Eigenvalues of the kernel, as a share of the largest, that are rounding errors.
_RANK = 1e-13


def gaussian_kernel(images: Float, labels: Whole | None = None) -> Float:
    """K (n, n) of the images, zero between different labels.

    >>> gaussian_kernel(np.array([[0.0], [1.0], [3.0]]))[0].round(3).tolist()
    [1.0, 0.607, 0.011]
    """
    length = LENGTH * np.median(pdist(images))
    kernel: Float = np.exp(-0.5 * cdist(images, images, "sqeuclidean") / length**2)
    if labels is not None:
        kernel *= labels[:, np.newaxis] == labels
    return kernel


def root(kernel: Float) -> Float:
    """Φ (d, n) with ΦᵀΦ = K.

    >>> root(np.array([[4.0, 4.0], [4.0, 4.0]])).shape
    (1, 2)
    """
    values, vectors = eigh(kernel)
    kept = values > _RANK * values[-1]
    return np.ascontiguousarray((vectors[:, kept] * np.sqrt(values[kept])).T)


def mmd_critic(kernel: Float, size: int) -> Whole:
    """Columns in the order in which greedy growth takes them, at equal weights.

    After m columns, of sum s, the next makes ‖(s + φ_j)/(m + 1) − b‖ least, that is
    K_jj + 2 (Σ_chosen K_ij − (m + 1) mean_i K_ij).

    >>> mmd_critic(np.outer([0.0, 1.0, 5.0], [0.0, 1.0, 5.0]), 1).tolist()  # 1 is nearest to 2
    [1]
    """
    mean, norms, total = kernel.mean(axis=1), np.diag(kernel), np.zeros(len(kernel))
    chosen: list[int] = []
    for count in range(1, min(size, len(kernel)) + 1):
        distance = norms + 2.0 * (total - count * mean)
        distance[chosen] = np.inf
        chosen.append(int(np.argmin(distance)))
        total += kernel[chosen[-1]]
    return np.array(chosen)


def _algorithms(settings: Settings) -> list[Algorithm]:
    total = {"weights_sum": 1.0}
    limit = {"max_iter": settings.iterations}
    return [
        Algorithm("uniform", total),
        Algorithm("orthogonal_pursuit", name=_CRITIC),
        Algorithm("giga", {**total, "reweight": True}),
        Algorithm("iht", {**total, **limit}),
        Algorithm("aiht2", {**total, **limit}),
        Algorithm("orthogonal_pursuit", total),
        Algorithm("pursuit", total),
    ]


def _trial(
    settings: Settings, algorithms: list[Algorithm], rng: np.random.Generator
) -> Iterator[Record]:
    images, labels = digits(settings.data)
    order = rng.permutation(len(labels))
    count = min(settings.rows, 3 * len(labels) // 4)
    train, test = order[:count], order[count:]
    distances, seed = cdist(images[test], images[train]), solver_seed(rng)
    for name, classes in (("one kernel", None), ("a kernel for each digit", labels[train])):
        kernel = gaussian_kernel(images[train], classes)
        phi = root(kernel)
        target = phi.mean(axis=1)
        for algorithm in algorithms:
            if algorithm.label == _CRITIC:
                found = _greedy(kernel, settings.sizes)
            else:
                solved = select(phi, target, algorithm, settings.sizes, seed)
                found = ((k, one.indices, one.weights, one.seconds) for k, one in solved)
            for size, chosen, weights, seconds in found:
                nearest = chosen[distances[:, chosen].argmin(axis=1)]
                yield {
                    "dataset": name,
                    "method": algorithm.label,
                    "size": size,
                    "rows": len(chosen),
                    "mmd": float(np.linalg.norm(phi[:, chosen] @ weights - target)),
                    "error": float(np.mean(labels[train][nearest] != labels[test])),
                    "seconds": seconds,
                }


def _greedy(kernel: Float, sizes: tuple[int, ...]) -> Iterator[tuple[int, Whole, Float, float]]:
    """Yield size, columns, equal weights, and the seconds of the largest size."""
    began = perf_counter()
    order = mmd_critic(kernel, sizes[-1])
    seconds = perf_counter() - began
    for size in sizes:
        chosen = order[:size]
        yield size, chosen, np.full(len(chosen), 1.0 / len(chosen)), seconds


EXPERIMENT = Experiment(
    name="prototypes",
    title="Prototypes of handwritten digits",
    source="Zhang et al. 2019, section 5, figure 3b",
    note="1,797 digits of 8 × 8 pixels from scikit-learn replace the 9,298 of the US Postal "
    "Service; three quarters are for training",
    trial=_trial,
    algorithms=_algorithms,
    paper=Settings(trials=10, sizes=(25, 50, 100, 200, 450, 800), rows=1347),
    quick=Settings(trials=2, sizes=(25, 50, 100, 200), rows=1000),
    metrics=(
        Metric("mmd", "MMD"),
        Metric("error", "error of the nearest prototype"),
        Metric("seconds", "seconds"),
    ),
    band=(25.0, 75.0),
)
