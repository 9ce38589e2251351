"""ArviZ's diagnostics, with the same results on both lines.

References
----------
Vehtari, Simpson, Gelman, Yao & Gabry (2024). Pareto smoothed importance sampling. JMLR 25.
Vehtari, Gelman, Simpson, Carpenter & Bürkner (2021). Rank-normalization, folding, and localization:
an improved R̂ for assessing convergence of MCMC. Bayesian Analysis 16(2), (14).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from stancoreset.engines import Float
from stancoreset.errors import DataError, OptionError
from stancoreset.limits import ROUNDING, cuts
from stancoreset.posterior.arviz.reading import dataset_of, is_container, select, variables_of
from stancoreset.posterior.arviz.versions import arviz, is_v1, quiet

if TYPE_CHECKING:
    import pandas as pd


# Smallest number of draws per chain that ArviZ accepts.
_LEAST = 4
#: Pareto k̂ of draws above which they have no variance; and above which its standard error, which
#: takes fourth moments, does not exist.
HEAVY, UNRELIABLE = 0.5, 0.25
#: Largest Monte-Carlo error of a mean, in standard deviations, and of a standard deviation,
#: relative, that a certificate allows.
PRECISE = 0.05
# Options of either line of ArviZ that choose the statistics of a summary.
_STATISTICS = {"stat_funcs", "stat_focus", "extend", "hdi_prob", "ci_prob", "ci_kind"}
_DIAGNOSTICS = ("mcse_mean", "mcse_sd", "ess_bulk", "ess_tail", "r_hat")


def ess(draws: Any, method: str = "bulk") -> Any:
    """Effective sample size, computed by ArviZ.

    `draws` are an array (chains, draws, *shape), or a posterior; the result is an array of `shape`
    (a float for a scalar), or a dict of these. `method` is ``"bulk"``, ``"tail"``, ``"mean"``,
    ``"sd"``, …

    >>> import numpy as np
    >>> float(ess(np.random.default_rng(0).normal(size=(4, 1000)))) > 3000
    True
    """
    # ArviZ 0.23 uses the 5 % and 95 % quantiles by default, 1.x must be told.
    quantiles = {"prob": (0.05, 0.95)} if method == "tail" else {}
    return _diagnose("ess", draws, method=method, **quantiles)


def rhat(draws: Any, method: str = "rank") -> Any:
    """Rank-normalised split R̂, computed by ArviZ; NaN for a single chain. Arguments as in `ess`."""
    return _diagnose("rhat", draws, method=method)


def worst_rhat(posterior: Any) -> float:
    """Largest R̂ of a posterior's scalars; NaN for a single chain.

    ArviZ computes it only for the scalars whose chains' halves differ most in mean or spread: one
    R̂ takes milliseconds, and there may be thousands of parameters.

    >>> import numpy as np
    >>> apart = np.random.default_rng(0).normal(size=(4, 100)) + np.arange(4)[:, None]
    >>> worst_rhat({"mu": apart}) > 1.3
    True
    """
    draws = list(_scalars(posterior).values())
    half = draws[0].shape[1] // 2 if draws else 0
    if half < 2:
        return float("nan")
    values = np.atleast_1d(rhat(_suspects(draws, lambda x: _between(x, half))))
    known = values[np.isfinite(values)]
    return float(known.max()) if known.size else float("nan")


class MonteCarlo(NamedTuple):
    """Largest Monte-Carlo errors of a posterior's draws; see `worst_monte_carlo`.

    The standard error of a mean is in standard deviations, that of a standard deviation relative;
    effective sample sizes are the smallest. `heavy` names the variables whose draws have no
    variance, and whose errors are those of their normal scores; empty if there are none.
    """

    mean: float = float("nan")
    sd: float = float("nan")
    ess_bulk: float = float("nan")
    ess_tail: float = float("nan")
    heavy: str = ""


def worst_monte_carlo(posterior: Any) -> MonteCarlo:
    """Largest Monte-Carlo errors of a posterior's scalars; NaN if there are no scalars.

    ArviZ computes them only for the scalars whose batch means vary most, for the same reason as in
    `worst_rhat`. The error of a standard deviation includes the fourth moment and the
    autocorrelation of squares, so that it reveals a slab visited only twice.

    Scalars whose tails are too heavy have no such errors at any length of the chains, or do not
    know them. They are replaced by their `normal_scores`, whose errors are those of their
    quantiles; and so are all elements of a variable if half of them are.

    >>> import numpy as np
    >>> draws = np.random.default_rng(0).normal(size=(4, 1_000))
    >>> worst = worst_monte_carlo({"mu": draws})
    >>> round(worst.mean, 2), round(worst.sd, 2)
    (0.02, 0.01)
    >>> worst = worst_monte_carlo({"ratio": draws / draws[::-1, ::-1]})  # of Cauchy's distribution
    >>> round(worst.mean, 2), round(worst.sd, 2), worst.heavy
    (0.02, 0.01, 'ratio')
    """
    found = _scalars(posterior)
    if not found or next(iter(found.values())).shape[1] < _LEAST:
        return MonteCarlo()
    every, heavy = _without_heavy_tails(found)
    batch = max(1, every[0].shape[1] // 10)
    draws = _suspects(every, lambda x: _batch_error(x, batch))
    sd = draws.std(axis=(0, 1), ddof=1)
    moving = sd > ROUNDING * np.max(np.abs(draws), axis=(0, 1))
    if not np.any(moving):
        return MonteCarlo()
    draws, sd = draws[:, :, moving], sd[moving]
    return MonteCarlo(
        mean=float(np.max(mcse(draws) / sd)),
        sd=float(np.max(mcse(draws, method="sd") / sd)),
        ess_bulk=float(np.min(ess(draws))),
        ess_tail=float(np.min(ess(draws, method="tail"))),
        heavy=heavy,
    )


def _without_heavy_tails(variables: Mapping[str, Float]) -> tuple[list[Float], str]:
    """Variables (C, S, P) with normal scores in place of heavy tails, and which have such."""
    scored: list[Float] = []
    told: list[str] = []
    for name, draws in variables.items():
        other, heavy = with_normal_scores(draws)
        count, size = int(np.count_nonzero(heavy)), len(heavy)
        if 2 * count >= size:  # k̂ is an estimate, and elements have one prior: all are heavy
            other, count = normal_scores(draws), size
        scored.append(other)
        if count:
            told.append(name if count == size else f"{name} ({count:,} of {size:,})")
    return scored, ", ".join(told)


def with_normal_scores(draws: Float) -> tuple[Float, NDArray[np.bool_]]:
    """Draws with normal scores in place of scalars with heavy tails, and which these are.

    Draws, (chains, draws, P), stay the same array if there are none. Tails are heavy if
    `pareto_khat` is above `HEAVY`, or above `UNRELIABLE` and the standard deviation's error, which
    depends on fourth powers, above `PRECISE`. Only scalars of a larger kurtosis than an
    exponential's are asked for it.

    >>> import numpy as np
    >>> t = np.random.default_rng(0).standard_t([30, 1, 30], size=(4, 1_000, 3))
    >>> with_normal_scores(t)[1]
    array([False,  True, False])
    """
    heavy = np.zeros(draws.shape[2], dtype=bool)
    for cut in cuts(draws.shape[2], draws[:, :, 0].size):
        block = draws[:, :, cut].astype(float)
        with np.errstate(invalid="ignore", over="ignore"):
            squares = (block - block.mean(axis=(0, 1))) ** 2
            # The kurtosis of an exponential, whose tail has k = 0: below, there is a variance.
            exponential = 9.0 * squares.mean(axis=(0, 1)) ** 2
            suspect = np.mean(squares**2, axis=(0, 1)) > exponential
        for j in np.flatnonzero(suspect):
            heavy[cut.start + j] = _is_heavy(block[:, :, j])
    if not np.any(heavy):
        return draws, heavy
    scored = draws.astype(float)
    scored[:, :, heavy] = normal_scores(draws[:, :, heavy])
    return scored, heavy


def _is_heavy(draws: Float) -> bool:
    """Whether a scalar's draws, (chains, draws), are judged by their normal scores."""
    khat = pareto_khat(draws)
    if not khat > UNRELIABLE:
        return False
    return khat > HEAVY or bool(mcse(draws, method="sd") / draws.std(ddof=1) > PRECISE)


def pareto_khat(draws: Float, least: float = 100.0) -> float:
    """Shape k of the heavier tail of a scalar's draws, (chains, draws).

    Moments of order 1/k and above do not exist: above 0.5 there is no variance. As
    `pareto_khat` of the R package posterior, ArviZ fits a generalised Pareto distribution to either
    tail, of 3 √(S/r) draws if S draws are worth r S independent ones there. NaN if r S is below
    100, or the draws of both tails are mostly tied.

    >>> import numpy as np
    >>> cauchy = np.random.default_rng(0).standard_t(1, size=(4, 1_000))
    >>> 0.7 < pareto_khat(cauchy) < 1.3
    True
    """
    flat = (draws - np.median(draws)).ravel()
    worth = float(ess(draws, method="tail"))
    if worth < least:  # a slab that is visited only twice looks like a heavy tail
        return float("nan")
    efficiency = min(1.0, float(np.nan_to_num(worth / flat.size, nan=1.0)))
    count = min(flat.size // 5, int(3 * np.sqrt(flat.size / efficiency)))
    shapes = [np.nan]
    for side in (flat, -flat):
        logs = np.log(np.maximum(side, np.finfo(float).tiny))
        logs = np.maximum(logs - logs.max(), -800.0)
        if _has_tail(logs, count):
            shapes.append(float(psislw_rows(logs, efficiency)[1]))
    return float(np.fmax.reduce(shapes))


def normal_scores(draws: Float) -> Float:
    """Normal quantiles of the ranks of a scalar's draws, all chains together, same shape.

    Blom's Φ⁻¹((r − 3/8)/(S + 1/4)) of the r-th of S draws, (chains, draws, …): the same for every
    increasing function of the draws, and standard normal whatever their distribution. R̂ and the
    effective sample sizes of Stan and ArviZ are those of normal scores.

    >>> import numpy as np
    >>> normal_scores(np.array([[1.0, 1e6, -5.0]])).round(2)
    array([[ 0.  ,  0.87, -0.87]])
    """
    from scipy.stats import rankdata

    flat = draws.reshape(-1, *draws.shape[2:])
    share = (rankdata(flat, axis=0) - 0.375) / (len(flat) + 0.25)
    return np.asarray(ndtri(share)).reshape(draws.shape)


def _scalars(posterior: Any) -> dict[str, Float]:
    """All scalars of a posterior, or of arrays (chains, draws, …): (chains, draws, P) by name.

    Arrays may have more chains than draws, unlike in `variables_of`. Variables without a draw are
    left out. Nothing is copied: draws may fill half of the memory.
    """
    arrays = isinstance(posterior, Mapping) and posterior
    if arrays and all(np.ndim(v) > 1 for v in posterior.values()):
        variables = {name: np.asarray(values) for name, values in posterior.items()}
    else:
        variables = variables_of(posterior)
    return {name: v.reshape(*v.shape[:2], -1) for name, v in variables.items() if v.size}


def _suspects(
    variables: Sequence[Float], error: Callable[[Float], Float], judged: int = 10
) -> Float:
    """Scalars with the largest errors of their means and of the means of their squares: (C, S, K).

    `variables` are (C, S, P) each.
    """
    errors: list[list[Float]] = []
    scalars: list[tuple[Float, int]] = []
    for draws in variables:
        for cut in cuts(draws.shape[2], draws[:, :, 0].size):
            block = draws[:, :, cut].astype(float)
            with np.errstate(invalid="ignore"):  # of infinite draws, whose errors are unknown
                sd = block.std(axis=(0, 1))
                standard = (block - block.mean(axis=(0, 1))) / np.where(sd > 0, sd, 1.0)
                errors.append([error(standard), error(standard**2)])
        scalars.extend((draws, j) for j in range(draws.shape[2]))
    most = np.argsort(-np.concatenate(errors, axis=1), axis=1)[:, :judged]
    chosen = [scalars[number] for number in np.unique(most)]
    return np.stack([draws[:, :, j] for draws, j in chosen], axis=2).astype(float)


def _between(x: Float, half: int) -> Float:
    """Ratio of the variance between chains' halves to that within them: (C, S, P) → (P,)."""
    halves = np.concatenate([x[:, :half], x[:, half : 2 * half]])
    between, within = halves.mean(axis=1).var(axis=0), halves.var(axis=1).mean(axis=0)
    return np.divide(between, within, out=np.zeros_like(within), where=within > 0)


def _batch_error(x: Float, batch: int) -> Float:
    """Variance between batch means: (C, S, P) → (P,)."""
    chains, draws = x.shape[0], x.shape[1] // batch * batch
    batches = x[:, :draws].reshape(chains, -1, batch, x.shape[2])
    return batches.mean(axis=2).var(axis=(0, 1))  # type: ignore[no-any-return]


def mcse(draws: Any, method: str = "mean") -> Any:
    """Monte-Carlo standard error of ``mean`` or ``sd`` by ArviZ. Arguments as in `ess`."""
    return _diagnose("mcse", draws, method=method)


def _diagnose(kind: str, draws: Any, **options: Any) -> Any:
    if not isinstance(draws, np.ndarray):
        return {
            name: _diagnose(kind, values, **options) for name, values in variables_of(draws).items()
        }
    if draws.ndim < 2:
        raise DataError(f"{kind} needs an array (chains, draws, *shape), got shape {draws.shape}")
    shape = draws.shape[2:]
    if draws.shape[1] < _LEAST or (kind == "rhat" and draws.shape[0] < 2) or 0 in shape:
        return np.full(shape, np.nan)[()]
    flat = draws.reshape(*draws.shape[:2], -1).astype(float)
    function = getattr(arviz(), kind)
    with quiet():
        values = [float(function(flat[..., j], **options)) for j in range(flat.shape[2])]
    return np.asarray(values).reshape(shape)[()]


def psislw(log_weights: ArrayLike) -> tuple[Float, float]:
    """Pareto-smoothed importance weights and their Pareto shape k̂, computed by ArviZ.

    Log importance ratios are given up to a constant; −∞ is a weight of zero. The smoothed ones are
    normalised (their exponentials sum to 1). Equal weights (to 1e-8) have no tail and give k̂ = 0.
    If a tail cannot be fitted (fewer than 25 draws, or the largest weights all tied), the weights
    are normalised but not smoothed, and k̂ is infinite.

    >>> import numpy as np
    >>> lw, khat = psislw(np.random.default_rng(0).normal(0, 0.1, size=1000))
    >>> round(float(np.exp(lw).sum()), 10), khat < 0.5
    (1.0, True)
    """
    raw = np.asarray(log_weights, dtype=float)
    flat = raw.ravel()
    bad = np.isnan(flat) | (flat == np.inf)
    if bad.any():
        raise DataError(f"{int(bad.sum())} of {flat.size} log weights are NaN or +inf")
    if not flat.size or not np.isfinite(flat).any():
        raise DataError("no log weight is finite: every draw has weight zero")
    # a weight of e^-800 is practically zero and keeps ArviZ's arithmetic finite
    flat = np.maximum(flat - flat.max(), -800.0)
    weights, khat = flat - np.log(np.exp(flat).sum()), np.inf
    if np.ptp(flat) < 1e-8:
        khat = 0.0
    elif _has_tail(flat, min(flat.size // 5, int(3 * np.sqrt(flat.size)))):
        smoothed, shape = psislw_rows(flat)
        if not np.isnan(shape):
            weights, khat = smoothed, float(shape)
    return weights.reshape(raw.shape), khat


def _has_tail(values: Float, count: int) -> bool:
    """Whether a Pareto law may fit the largest `count` values: five, not mostly tied."""
    if count < 5:
        return False
    tail = np.sort(values)[-count:]
    return bool(tail[int(count / 4 + 0.5) - 1] > tail[0])


def psislw_rows(log_weights: Float, relative_efficiency: float = 1.0) -> tuple[Float, Float]:
    """Pareto-smoothed weights of each row of draws, and their shapes, computed by ArviZ.

    `log_weights` are (rows, draws); `relative_efficiency` is the ESS of the draws as a share of
    their number. See `psislw`.
    """
    with quiet():
        if is_v1():
            from arviz_stats.base import array_stats

            # ArviZ 1.x takes minus the log weights (log likelihoods, as LOO has them)
            smoothed, khat = array_stats.psislw(-log_weights, r_eff=relative_efficiency)
        else:
            smoothed, khat = arviz().psislw(log_weights, reff=relative_efficiency)
    return np.asarray(smoothed, dtype=float), np.asarray(khat, dtype=float)


def kde(draws: Float) -> tuple[Float, Float]:
    """A grid over the range of draws (n,), and ArviZ's kernel density estimate there."""
    with quiet():
        if is_v1():
            from arviz_stats.base import array_stats

            grid, density, *_ = array_stats.kde(draws)
        else:
            grid, density = arviz().kde(draws)
    return np.asarray(grid, float), np.asarray(density, float)


def summary(
    posterior: Any,
    var_names: Sequence[str] | None = None,
    *,
    prob: float = 0.9,
    **options: Any,
) -> pd.DataFrame:
    """ArviZ's summary, by default unrounded and with the same columns on both lines.

    ``mean, sd, q5, q95, mcse_mean, mcse_sd, ess_bulk, ess_tail, r_hat``, one row per scalar,
    labelled as ArviZ labels them. `prob` is the mass of the central interval; 0.9 gives the columns
    ``q5`` and ``q95``. The `options` are those of the installed ``arviz.summary``; if they choose
    the statistics or another interval, these columns are ArviZ's own.

    >>> import numpy as np
    >>> draws = np.random.default_rng(0).normal(size=(4, 500, 2))
    >>> list(summary({"beta": draws}).index)
    ['beta[0]', 'beta[1]']
    >>> list(summary({"beta": draws}, kind="stats", round_to=2).columns)
    ['mean', 'sd', 'q5', 'q95']
    """
    import pandas as pd

    if not 0 < prob < 1:
        raise OptionError(f"prob must lie strictly between 0 and 1, got {prob}")
    names = {q: f"q{100 * q:.4g}" for q in ((1 - prob) / 2, (1 + prob) / 2)}
    ours = options.get("kind") != "diagnostics" and not _STATISTICS & options.keys()
    interval = _interval(prob, names) if ours else {}
    # These choose among variables by themselves, in other groups or by patterns.
    itself = {"group", "filter_vars"} & options.keys()
    chosen = posterior if itself and is_container(posterior) else None
    dataset = dataset_of(posterior) if itself else select(posterior, var_names)
    try:
        with quiet():
            table = arviz().summary(
                dataset if chosen is None else chosen,
                **({"var_names": var_names} if itself else {}),
                **{"round_to": "none", **interval, **options},
            )
    except (TypeError, ValueError, KeyError) as error:
        raise OptionError(f"arviz.summary refuses these options: {error}") from None
    if not isinstance(table, pd.DataFrame) or options.get("fmt", "wide") != "wide":
        return table
    if "r_hat" in table and dataset.sizes["chain"] == 1:
        table["r_hat"] = np.nan
    if interval:
        bounds = [column for column in table.columns if column.startswith("eti")]
        table = table.rename(columns=dict(zip(bounds, names.values(), strict=False)))
        table = table[[c for c in ("mean", "sd", *names.values(), *_DIAGNOSTICS) if c in table]]
    return table if "round_to" in options else table.astype(float)


def _interval(prob: float, names: Mapping[float, str]) -> dict[str, Any]:
    """Options of ArviZ for a central interval, whose bounds have these names on line 0.23."""
    if is_v1():
        return {"ci_prob": prob, "ci_kind": "eti"}
    return {"stat_funcs": {name: partial(np.quantile, q=q) for q, name in names.items()}}
