"""What no subsample can do: Campbell (2024), General bounds on the quality of Bayesian coresets.

With KL(w) the smaller one of KL(π_w ‖ π) and KL(π ‖ π_w), lemma 3.1 says, for any model, with the
whole space as its B,

    KL(w) ≥ f(J(w)),   J(w) = ∫ √(π π_w),   f(J) = −log J + J − 1,

and from it follow, for N → ∞ in models whose posterior concentrates in d dimensions,

- corollary 4.1: M rows drawn at random (M → ∞, M/N → 0), with weights that make the log likelihood
  unbiased, have KL(w) = Ω_p(N/M);
- corollary 4.2: with all weights multiplied by the best common factor, Ω_p(log(N/M));
- corollary 4.3: any M < d rows with any weights have Ω_p(log N).

So a subsample of a share of the data, however it is reweighted as a whole, has errors that more
data make no smaller. `SUBSAMPLING` shows it on θ ~ N(0, I), x_n ~ N(θ, I), where everything is
known. M rows without replacement and of weight N/M have the posterior's covariance I/(1 + N), and
with the sample covariance S of the data

    KL(w) = ½ (1 + N) ‖Δ‖²,   J(w) = exp(−(1 + N) ‖Δ‖²/8),   Δ = N (x̄_M − x̄)/(1 + N),
    E KL(w) = ½ N²/(1 + N) (1/M − 1/N) tr S ≈ ½ d (N/M − 1),

the line "expected". The best weights of the same rows, each of its own, show that corollaries 4.1
and 4.2 limit the weights, not the rows: from some M > d rows on they are nearly exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from papers.base import Algorithm, Experiment, Metric, Outcome, Record, Settings
from papers.closed_forms import Gaussian, LocationModel
from stancoreset.posterior.plots import tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["SUBSAMPLING", "affinity", "best_scale", "best_weights", "expected_kl", "least_kl"]

Float = NDArray[np.float64]

#: d, the number of parameters.
DIMENSION = 10
#: Divergences below this are rounding.
FLOOR = 1e-10
#: Sums of weights that are tried before the search for the best.
_TRIED = 40
_UNIFORM, _SCALED, _TRAINED = "uniform", "uniform, best scale", "uniform rows, best weights"
_EXPECTED, _LEMMA = "expected", "lemma 3.1"
_LINES = {
    _UNIFORM: ("#999999", "-"),
    _EXPECTED: ("#000000", "--"),
    _LEMMA: ("#D55E00", "--"),
    _SCALED: ("#E69F00", "-"),
    _TRAINED: ("#0072B2", "-"),
}


def affinity(p: Gaussian, q: Gaussian) -> float:
    """log J = log ∫ √(p q) of two Gaussians with covariances s_p I and s_q I.

    >>> same = Gaussian(np.zeros(2), np.eye(2))
    >>> affinity(same, same)
    0.0
    """
    one, two = float(p.cov[0, 0]), float(q.cov[0, 0])
    middle, shift = 0.5 * (one + two), p.mean - q.mean
    overlap = 0.25 * len(shift) * (np.log(one) + np.log(two) - 2 * np.log(middle))
    return float(overlap - shift @ shift / (8 * middle))


def least_kl(log_j: float) -> float:
    """f(J) = −log J + J − 1, the least KL divergence of any p and q with ∫√(pq) = J."""
    return float(-log_j + np.expm1(log_j))


def expected_kl(x: Float, size: int) -> float:
    """E KL(w) over uniform subsets of `size` rows of x (N, d), with weights N/size."""
    rows = len(x)
    total = float(np.sum(np.var(x, axis=0, ddof=1)))
    return 0.5 * rows**2 / (1 + rows) * (1 / size - 1 / rows) * total


def best_scale(model: LocationModel, weights: Float) -> float:
    """KL(α w) at the best α ≥ 0, for weights w (N,)."""
    full = model.posterior(np.ones(len(model.x)))

    def smaller(log_scale: float) -> float:
        return _smaller(model, full, np.exp(log_scale) * weights)

    return smaller(_lowest(smaller, np.log(len(model.x)) * np.linspace(-1.0, 0.5, _TRIED)))


def best_weights(model: LocationModel, rows: NDArray[np.int64]) -> Float:
    """The weights (N,) of these rows with the least KL(w).

    For a fixed sum W of the weights, both divergences rise with ‖μ_w − μ‖² alone, which
    non-negative least squares minimise; W is found by search.
    """
    from scipy.optimize import nnls

    x, full = model.x[rows], model.posterior(np.ones(len(model.x)))
    count = len(model.x)
    heavy = 1e4 * np.sqrt(np.mean(x**2))  # holds the sum where it is asked to be

    def of_sum(total: float) -> Float:
        left = np.vstack([x.T / (1 + total), np.full(len(rows), heavy / total)])
        dense = np.zeros(count)
        dense[rows] = nnls(left, np.append(full.mean, heavy))[0]
        return dense

    whole = of_sum(count)
    if _smaller(model, full, whole) < FLOOR:
        return whole
    logs = np.log(count) * np.linspace(-0.2, 1.1, _TRIED)
    return of_sum(float(np.exp(_lowest(lambda t: _smaller(model, full, of_sum(np.exp(t))), logs))))


def _lowest(function: Callable[[float], float], tried: Float) -> float:
    """Where a function of one number is lowest: the best of those tried, and a search around it.

    KL(w) is the smaller one of two divergences, and may have two minima.
    """
    from scipy.optimize import minimize_scalar

    best = int(np.argmin([function(t) for t in tried]))
    around = tried[max(0, best - 1)], tried[min(len(tried) - 1, best + 1)]
    return float(minimize_scalar(function, bounds=around, method="bounded").x)


def _smaller(model: LocationModel, full: Gaussian, weights: Float) -> float:
    both = model.divergences(full, model.posterior(weights))
    return min(both["forward_kl"], both["reverse_kl"])


def _algorithms(_settings: Settings) -> list[Algorithm]:
    return [Algorithm("uniform", {}, name) for name in _LINES]


def _trial(
    settings: Settings, algorithms: list[Algorithm], rng: np.random.Generator
) -> Iterator[Record]:
    rows = settings.rows
    model = LocationModel(1.0 + rng.standard_normal((rows, DIMENSION)))
    full = model.posterior(np.ones(rows))
    asked = [algorithm.label for algorithm in algorithms]
    order = rng.permutation(rows)
    for size in settings.sizes:
        size = min(size, rows)
        chosen, weights = np.sort(order[:size]), np.zeros(rows)
        weights[chosen] = rows / size
        for name in asked:
            yield {
                "dataset": f"Gaussian location, N = {rows:,}, d = {DIMENSION}",
                "method": name,
                "size": size,
                "kl": _value(name, model, full, chosen, weights),
            }


def _value(
    name: str, model: LocationModel, full: Gaussian, chosen: NDArray[np.int64], weights: Float
) -> float:
    if name == _EXPECTED:
        return expected_kl(model.x, len(chosen))
    if name == _LEMMA:
        return least_kl(affinity(full, model.posterior(weights)))
    if name == _SCALED:
        return best_scale(model, weights)
    if name == _TRAINED:
        weights = best_weights(model, chosen)
    return _smaller(model, full, weights)


def _picture(outcome: Outcome) -> Figure:
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(7.2, 4.6), layout="constrained")
    summary = outcome.summary()
    for method, curve in summary.groupby("method", sort=False):
        color, line = _LINES[str(method)]
        shown = {name: curve[name].clip(lower=FLOOR) for name in ("median", "low", "high")}
        ax.plot(curve["size"], shown["median"], line, color=color, label=str(method))
        ax.fill_between(
            curve["size"], shown["low"], shown["high"], color=color, alpha=0.18, linewidth=0
        )
    ax.axvline(DIMENSION, color="0.6", linewidth=0.8)
    ax.annotate("M = d", (DIMENSION, 1.0), xycoords=("data", "axes fraction"), fontsize=9)
    ax.set(xscale="log", yscale="log", xlabel="rows, M", ylabel="min of KL either way, nats")
    ax.set_title(str(outcome.records["dataset"].iloc[0]), fontsize=10, pad=14)
    tidy(ax)
    ax.grid(axis="y", color="0.92", linewidth=0.8)
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return figure


SUBSAMPLING = Experiment(
    name="subsampling",
    title="Lower bounds for subsamples",
    source="Campbell 2024, lemma 3.1 and corollaries 4.1 to 4.3",
    trial=_trial,
    algorithms=_algorithms,
    paper=Settings(
        trials=20, sizes=(2, 5, 9, 11, 15, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000), rows=10_000
    ),
    quick=Settings(trials=5, sizes=(2, 5, 11, 20, 50, 100, 200, 500), rows=1_000),
    metrics=(Metric("kl", "min of KL either way"),),
    band=(5.0, 95.0),
    picture=_picture,
)
