"""Comparison of posteriors: differences of their means, spreads and marginals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from stancoreset.checks import check_choice, check_is, shown, understood
from stancoreset.engines import Float
from stancoreset.errors import DataError, OptionError
from stancoreset.limits import ROUNDING
from stancoreset.posterior.arviz import ess, rhat
from stancoreset.posterior.divergences import wasserstein
from stancoreset.posterior.named import NamedPosterior, common_variables, read_posteriors, scalars

if TYPE_CHECKING:
    import pandas as pd


def compare(
    posteriors: Mapping[str, Any],
    *,
    reference: str | None = None,
    var_names: Sequence[str] | None = None,
    quantiles: Sequence[float] = (0.05, 0.5, 0.95),
    weights: Mapping[str, Any] | None = None,
    seconds: Mapping[str, float] | None = None,
) -> pd.DataFrame:
    """Compare posteriors with one of them, parameter by parameter.

    Parameters
    ----------
    posteriors : mapping of str to posterior
        ArviZ containers, stancoreset's fits, cmdstanpy fits, dicts of arrays
        (chains, draws, *shape), ...: anything `stancoreset.posterior.arviz.dataset_of` reads.
    reference : str, optional
        Name of the posterior that the others are compared with; default: the first.
    var_names : sequence of str, optional
        Parameters to compare; default: those that each shares with the reference.
    quantiles : sequence of float
    weights : mapping of str to array, shape (chains · draws,), optional
        Importance weights of draws. A fit whose verdict is ``"corrected"`` has its own, and so
        have containers with ``importance_weight`` in ``sample_stats`` (`sc.thin`).
    seconds : mapping of str to float, optional
        Wall-clock seconds that draws took. Fits and containers made by stancoreset or ArviZ
        (attribute ``sampling_time``) have their own; a fit counts all its stages.

    Returns
    -------
    pandas.DataFrame
        One row per posterior and scalar parameter (index ``posterior``, ``parameter``):

        ``mean``, ``sd``, ``q5``, ...
            Statistics of the posterior itself.
        ``delta_mean``
            |mean − mean of the reference| in sds of the reference.
        ``mcse_delta``
            Monte-Carlo standard error of that difference, in the same unit, for draws that
            are independent of the reference's. A `delta_mean` up to twice this is noise.
        ``sd_ratio``
            Sd divided by the reference's sd.
        ``wasserstein``
            Wasserstein-1 distance of the marginals, in sds of the reference. Two perfect
            samples of effective size n each have about 0.8 · √(2/n).
        ``ess_bulk``, ``r_hat``, ``ess_per_second``
            Computed by ArviZ; ``r_hat`` needs two chains, ``ess_per_second`` needs the seconds.

        ``table.attrs["reference"]`` holds the name of the reference.

    Raises
    ------
    OptionError
        If there are no posteriors, two have the same name, `reference` is unknown, or a quantile
        is outside (0, 1).
    DataError
        If posteriors share no parameters, shapes differ, or draws are NaN.

    Notes
    -----
    With weights w (summing to one) every statistic is weighted. The effective sample size
    of draws from a Markov chain is then that of the chain times 1 / (n Σw²), and the error
    of the mean is √(Σ w²(x − mean)²) over the square root of the chain's relative
    efficiency (Vehtari et al. 2024, JMLR 25, section 2.4).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> full = {"mu": rng.normal(size=(4, 1000))}
    >>> shifted = {"mu": rng.normal(0.5, 1.0, size=(4, 1000))}
    >>> table = compare({"full": full, "shifted": shifted})
    >>> round(float(table.loc[("shifted", "mu"), "delta_mean"]), 1)
    0.5
    """
    import pandas as pd

    with understood("quantiles", quantiles, "a list of numbers between 0 and 1"):
        if not isinstance(quantiles, Sequence | np.ndarray) or isinstance(quantiles, str | bytes):
            raise TypeError
        levels = [float(q) for q in quantiles]
    if not all(0 < q < 1 for q in levels):
        raise OptionError(f"quantiles must lie strictly between 0 and 1, got {shown(quantiles)}")
    read = read_posteriors(posteriors, weights=weights, seconds=seconds)
    base = read[0]
    if reference is not None:
        check_choice("reference", reference, [posterior.name for posterior in read])
        base = next(posterior for posterior in read if posterior.name == reference)
    rows: dict[tuple[str, str], dict[str, float]] = {}
    own: dict[str, dict[str, float]] = {}  # statistics of the reference's own parameters
    others = [posterior for posterior in read if posterior is not base]
    shared = {other.name: common_variables(base, other, var_names) for other in others}
    # parameters of the reference alone are omitted, unless there is no other posterior
    alone = common_variables(base, base, var_names) if not others else None
    shared[base.name] = alone or [
        str(name) for name in base.dataset if any(name in names for names in shared.values())
    ]
    for posterior in [base, *others]:
        names = shared[posterior.name]
        ours = scalars(base.dataset, names)
        theirs = scalars(posterior.dataset, names, labels_of=base.dataset)
        for label, draws in theirs.items():
            stats = _statistics(draws, posterior, levels)
            if posterior is base:
                own[label] = stats
            rows[posterior.name, label] = stats | _distance(
                draws, ours[label], stats, own[label], posterior, base
            )
    columns = [
        "mean", "sd", *(f"q{100 * q:.4g}" for q in levels),
        "delta_mean", "mcse_delta", "sd_ratio", "wasserstein",
        "ess_bulk", "r_hat", "ess_per_second",
    ]  # fmt: skip
    order = [posterior.name for posterior in read]
    keys = sorted(rows, key=lambda key: order.index(key[0]))
    index = pd.MultiIndex.from_tuples(keys, names=["posterior", "parameter"])
    table = pd.DataFrame([rows[key] for key in keys], index=index, columns=columns)
    table.attrs["reference"] = base.name
    return table


def summarise(table: pd.DataFrame) -> pd.DataFrame:
    """Summarise a table of `compare` by the worst value of each statistic, one row per posterior.

    Returns
    -------
    pandas.DataFrame
        ``max_delta_mean``, ``max_log_sd_ratio`` (|log sd ratio|), ``max_wasserstein``,
        ``min_ess_bulk``, ``min_ess_per_second``; index ``posterior``.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(4, 500))
    >>> table = compare({"a": {"mu": x}, "b": {"mu": 2 * x}})
    >>> round(float(summarise(table).loc["b", "max_log_sd_ratio"]), 4)
    0.6931
    """
    import pandas as pd

    needed = {"delta_mean", "sd_ratio", "wasserstein", "ess_bulk", "ess_per_second"}
    check_is("table", table, pd.DataFrame, "a table made by compare")
    if not needed <= set(table.columns) or "posterior" not in table.index.names:
        raise DataError("summarise cannot use this table: expected a table made by compare")
    with np.errstate(divide="ignore"):
        log_ratio = np.abs(np.log(table["sd_ratio"]))
    worst = pd.DataFrame(
        {
            "max_delta_mean": table["delta_mean"],
            "max_log_sd_ratio": log_ratio,
            "max_wasserstein": table["wasserstein"],
            "min_ess_bulk": -table["ess_bulk"],
            "min_ess_per_second": -table["ess_per_second"],
        }
    )
    worst = worst.groupby(level="posterior", sort=False).max()
    smallest = ["min_ess_bulk", "min_ess_per_second"]
    worst[smallest] = -worst[smallest]
    worst.attrs.update(table.attrs)
    return worst


def _statistics(draws: Float, posterior: NamedPosterior, levels: list[float]) -> dict[str, float]:
    """Statistics of one marginal; draws (chains, draws)."""
    x, n = draws.ravel(), draws.size
    chain = {method: float(ess(draws, method)) for method in ("bulk", "mean")}
    if posterior.weights is None:
        weights = np.full(n, 1 / n)
        bulk, efficiency = chain["bulk"], chain["mean"] / n
    else:
        weights, looked_at = posterior.weights, posterior.weighted_draws
        # a thinned chain has the chain's effective size, but at most its own length
        bulk = min(looked_at, chain["bulk"]) / looked_at / float(weights @ weights)
        efficiency = min(1.0, chain["mean"] / looked_at)
    mean = float(weights @ x)
    squares = (x - mean) ** 2
    spare = 1 - float(weights @ weights)
    sd = float(np.sqrt(weights @ squares / spare)) if spare > 0 else 0.0
    if sd <= ROUNDING * np.abs(x).max():
        sd = 0.0
    error = float(np.sqrt(weights**2 @ squares / efficiency)) if efficiency > 0 else np.nan
    quantiles = weighted_quantiles(x, weights, levels).tolist()
    time = posterior.seconds
    return {
        "mean": mean,
        "sd": sd,
        **{f"q{100 * q:.4g}": value for q, value in zip(levels, quantiles, strict=True)},
        "mcse_mean": error,
        "ess_bulk": bulk,
        "r_hat": float(rhat(draws)),
        "ess_per_second": bulk / time if time else np.nan,
    }


def weighted_quantiles(x: Float, weights: Float, levels: Sequence[float]) -> Float:
    """Weighted quantiles; with equal weights, numpy's linear interpolation.

    >>> weighted_quantiles(np.array([3.0, 1.0, 2.0]), np.full(3, 1 / 3), [0.5, 1.0]).tolist()
    [2.0, 3.0]
    """
    keep = weights > 0
    order = np.argsort(x[keep])
    x, w = x[keep][order], weights[keep][order]
    if x.size == 1:
        return np.full(len(levels), x[0])
    # p_i = (W_{i−1} + w_i/2 − w_1/2) / (1 − w_1/2 − w_n/2) runs from 0 to 1
    middle = np.cumsum(w) - w / 2
    position = (middle - middle[0]) / (middle[-1] - middle[0])
    return np.interp(levels, position, x)


def _distance(
    draws: Float,
    base_draws: Float,
    stats: dict[str, float],
    base_stats: dict[str, float],
    posterior: NamedPosterior,
    base: NamedPosterior,
) -> dict[str, float]:
    """Distances of one marginal from the reference's, in sds of the reference."""
    if posterior is base:
        return {"delta_mean": 0.0, "mcse_delta": 0.0, "sd_ratio": 1.0, "wasserstein": 0.0}
    unit, sd = base_stats["sd"], stats["sd"]
    distances = {
        "delta_mean": abs(stats["mean"] - base_stats["mean"]),
        "mcse_delta": float(np.hypot(stats["mcse_mean"], base_stats["mcse_mean"])),
        "wasserstein": wasserstein(
            draws.ravel(), base_draws.ravel(), posterior.weights, base.weights
        ),
    }
    if unit > 0:
        return {name: value / unit for name, value in distances.items()} | {"sd_ratio": sd / unit}
    # a parameter held fixed (a correlation of 1, ...): equal or infinitely far
    close = ROUNDING * abs(base_stats["mean"])
    return {name: 0.0 if value <= close else np.inf for name, value in distances.items()} | {
        "sd_ratio": 1.0 if sd == 0 else np.inf
    }
