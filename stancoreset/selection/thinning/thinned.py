"""A posterior in few weighted draws (Zhang, Khanna, Kyrillidis & Koyejo 2019, on draws)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stancoreset.checks import (
    as_numbers,
    check_is,
    check_number,
    check_path,
    check_seed,
    check_whole,
    shown,
    understood,
)
from stancoreset.engines import Chain, Float, write_chain
from stancoreset.errors import DataError, OptionError
from stancoreset.posterior import (
    NamedPosterior,
    arviz,
    common_variables,
    read_posteriors,
    refuse_rejected,
    taken_draws,
)
from stancoreset.selection.solvers import check_method
from stancoreset.selection.thinning.choice import DISTRIBUTION_IHT, ThinningMethod, choose_draws
from stancoreset.selection.thinning.features import PARTS, feature_map
from stancoreset.selection.thinning.judgement import judged
from stancoreset.selection.thinning.kernels import Kernel, gram_of

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

#: What `thin` takes as functions, for type checkers.
Functions: TypeAlias = "str | ArrayLike | Sequence[Any]"

_DEFAULT = "moments+quantiles+kernel"
#: Name of the error messages for the posterior that is thinned.
_GIVEN = "given"


@dataclass(frozen=True)
class Thinned:
    """Few draws of a posterior and their weights, the result of `thin`.

    `sc.compare`, `sc.plots` and `thin` itself apply the weights, also those of a stored
    `posterior`; other tools need draws of equal weight, which ``resample=True`` gives.

    Attributes
    ----------
    posterior : arviz.InferenceData or xarray.DataTree
        The draws as one chain, in every group that has draws; the weights are
        ``importance_weight`` in ``sample_stats``.
    indices : (k,) array
        Positions of the draws among those of the concatenated chains, ascending; they repeat only
        if the draws have equal weight.
    weights : (k,) array
        Positive weights, which sum to one.
    error : float
        Distance of the functions' expectations from those of all draws, as a share of the distance
        of a single random draw; n independent draws have 1/√n on average.
    report : pandas.DataFrame
        Errors of these draws (``thinned``) beside plain thinning of the same size (``plain``), each
        the largest over parameters: ``mean``, ``sd`` and the quantiles ``q5``, ``q50``, ``q95``, in
        sds of all draws; and ``mmd``, the maximum mean discrepancy of a Gaussian kernel, with
        Fourier features that the selection did not use, or of the kernel that was given, exactly.
    method : str
    seconds : float
    """

    posterior: arviz.Container = field(repr=False)
    indices: NDArray[np.int64] = field(repr=False)
    weights: Float = field(repr=False)
    error: float
    report: pd.DataFrame = field(repr=False)
    method: str = "pursuit"
    seconds: float = 0.0

    @property
    def size(self) -> int:
        """Number of draws."""
        return len(self.indices)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write `posterior` as NetCDF, which ArviZ reads; return the path."""
        return arviz.save(self.posterior, check_path("path", path))

    def write_csv(self, path: str | os.PathLike[str], name: str = "thinned") -> Path:
        """Write the draws as CmdStan does, for R and other tools; return the path.

        ``cmdstanr::as_cmdstan_fit``, ``rstan::read_stan_csv`` and ``cmdstanpy.from_csv`` read it.
        `name` is that of the model in the file.

        Raises
        ------
        OptionError
            If the draws' weights differ, which the format cannot hold.
        """
        if np.ptp(self.weights) > 0:
            raise OptionError(
                "CmdStan's files hold no weights, and those of the draws differ; thin with "
                "resample=True"
            )
        file = check_path("path", path)
        draws = arviz.variables_of(self.posterior)
        stats = arviz.sample_stats_of(self.posterior)
        write_chain(
            file,
            Chain(model=name, engine="stancoreset", draws=self.size),
            {key: values[0] for key, values in stats.items() if values.ndim == 2},
            {key: values.shape[2:] for key, values in draws.items()},
            [{key: values[0] for key, values in draws.items()}],
        )
        return file

    def __repr__(self) -> str:
        off, plain = self.report["thinned"], self.report["plain"]
        return (
            f"Thinned({self.size} draws: means within {off['mean']:.2g} sd, MMD {off['mmd']:.2g}; "
            f"plain thinning {plain['mean']:.2g} sd, {plain['mmd']:.2g})"
        )


def thin(
    posterior: arviz.Posterior | ArrayLike,
    size: int | None = None,
    *,
    weights: ArrayLike | None = None,
    functions: Functions = _DEFAULT,
    kernel: Kernel | None = None,
    method: ThinningMethod = "pursuit",
    tol: float | None = None,
    resample: bool | int = False,
    var_names: Sequence[str] | None = None,
    seed: int = 0,
) -> Thinned:
    """Choose few draws of a posterior, with weights, that have the expectations of all draws.

    Every later step that costs time or space for each draw (predictive checks, simulations,
    decisions, storage) then works with `size` draws. Fifty of 4,000 reproduce means to a few
    thousandths of a standard deviation, where every 80th draw is 0.3 off.

    Parameters
    ----------
    posterior
        An ArviZ container, a fit of stancoreset or cmdstanpy, a dict of arrays
        (chains, draws, *shape), a DataFrame, or an array (draws, parameters), whose variable is
        called ``x``. The importance weights of a fit whose verdict is ``"corrected"`` are used, so
        that few weighted draws of the *full* posterior result.
    size
        Largest number of draws. If there are no more, all keep their weights.
    weights : (chains · draws,) array, optional
        Importance weights of the draws; they need not sum to one.
    functions
        What is matched: ``moments`` (first and second), ``quantiles`` (19 of every parameter) and
        ``kernel`` (1,000 random Fourier features of a Gaussian kernel on whitened draws), joined
        by ``+``; names of variables, such as generated quantities, whose means and second moments
        are matched besides; an array of values, (draws, …) or (chains, draws, …); or a list of
        these.
    kernel
        A kernel of your own in place of the Gaussian one: the Gram matrix of all draws, chain by
        chain, or a function that takes two arrays of draws, (n, D) and (m, D) in the order and
        units of the posterior's variables, and returns (n, m). It takes the place of ``kernel`` in
        `functions`; ``functions="kernel"`` matches it alone.
    method
        A selection algorithm of `stancoreset.solvers`, or ``"distribution_iht"``, the paper's own
        thresholding, whose errors are many times as large.
    tol
        Stop at the first size whose `error` is at most this: 0.05 is the error of 400 independent
        draws. The sizes tried are 25 % apart.
    resample
        True: `size` draws of equal weight, some possibly repeated, for tools that cannot use
        weights. A number: that many draws of equal weight, as similar as possible to the weighted
        ones.
    var_names
        Variables whose distribution is matched, default: all. The result holds every variable.
    seed
        Random seed of the Fourier features, and of candidates if there are very many draws.

    Returns
    -------
    Thinned

    Raises
    ------
    DataError
        If the posterior cannot be read, draws are not finite, no parameter varies, or weights or
        functions do not match the draws.
    CertificateError
        If the posterior is a fit whose verdict is ``"rejected"``.
    OptionError
        If neither size nor tol is given, or one of them cannot be met.

    Notes
    -----
    With Φ the functions at the draws, one column each, and b their expectations, the problem is

        minimise ‖Φw − b‖²  subject to  w ≥ 0, Σw = 1, at most `size` weights above zero,

    Zhang et al.'s sparse approximation of a distribution, for draws as atoms. Φ takes at most 200
    MB. If all draws would take more, b is still computed from all of them, and the candidates are a
    sample in proportion to the weights. If `size` draws can be chosen in at most 1,000 ways, all
    are tried. With ``resample``, draws are exchanged one by one while that lowers the error at
    equal weights.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(2000, 3))
    >>> thinned = thin(x, 40)
    >>> thinned.size, bool(thinned.report.loc["mean", "thinned"] < 0.01)
    (40, True)
    """
    began = perf_counter()
    _check_options(size, tol, resample, seed)
    if not (isinstance(method, str) and method == DISTRIBUTION_IHT):
        check_method(method, {}, others=[DISTRIBUTION_IHT])
    given, container = _read(posterior, weights)
    draws = _matrix(given.dataset, common_variables(given, given, var_names))
    w = np.full(len(draws), 1.0 / len(draws)) if given.weights is None else given.weights
    shape = given.dataset.sizes["chain"], given.dataset.sizes["draw"]
    parts, extra = _functions(functions, container, shape)
    if kernel is not None and "kernel" not in parts:
        raise OptionError(
            f"kernel is given, but functions is {shown(functions)}, without it; expected "
            "functions='kernel', or more joined to it by +"
        )
    gram = None if kernel is None else gram_of(kernel, draws, w)
    features = feature_map(draws, w, parts, extra, gram=gram, seed=seed)
    if len(features) == 1:
        raise DataError(
            "there is nothing to match: no parameter varies from draw to draw; look at the draws, "
            "or name others in var_names"
        )
    chosen, error = choose_draws(features, size, tol, method, resample, seed)
    return Thinned(
        taken_draws(container, *chosen, {"thinned_from": len(draws)}),
        *chosen,
        error,
        judged(features, chosen, seed, gram),
        method,
        perf_counter() - began,
    )


def _check_options(size: Any, tol: Any, resample: Any, seed: Any) -> None:
    if size is None and tol is None:
        raise OptionError(
            "size is None, expected the largest number of draws, or tol=, the error to be met "
            "(0.05: that of 400 independent draws)"
        )
    if size is not None:
        check_whole("size", size, 1)
    if tol is not None:
        check_number("tol", tol, 0, strict=True)
        if tol >= 1:
            raise OptionError(f"tol is {tol:g}, expected a number below 1, the error of one draw")
    if not isinstance(resample, bool):
        check_whole("resample", resample, 1)
    check_seed(seed)


def _read(posterior: Any, weights: Any) -> tuple[NamedPosterior, arviz.Container]:
    """The draws with their weights, and the container that they are taken from."""
    refuse_rejected(posterior, "few of them do not either")
    if isinstance(posterior, np.ndarray):
        posterior = {"x": _columns(posterior)}
    try:
        given = read_posteriors(
            {_GIVEN: posterior}, weights=None if weights is None else {_GIVEN: weights}
        )[0]
    except DataError as error:  # there is one posterior only
        raise DataError(str(error).replace(f"posterior {_GIVEN!r}", "the posterior")) from None
    return given, _container(posterior, given.dataset)


def _columns(values: NDArray[Any]) -> NDArray[Any]:
    if values.ndim not in (1, 2) or not values.size or values.dtype.kind not in "biuf":
        raise DataError(
            f"the posterior is an array of shape {values.shape} and type {values.dtype}, expected "
            "numbers (draws, parameters); give chains as a dict, {'x': array}"
        )
    return values[np.newaxis]


def _container(posterior: Any, dataset: xr.Dataset) -> arviz.Container:
    if not arviz.is_container(posterior) and not isinstance(posterior, dict):
        inner = getattr(posterior, "posterior", None)
        if inner is not None:
            return _container(inner, dataset)
    if arviz.is_container(posterior) and {"chain", "draw"} <= set(
        arviz.group_of(posterior, "posterior").dims
    ):
        groups = arviz.groups_of(posterior)
        kept = {name: group for name, group in groups.items() if not name.startswith("warmup")}
        return arviz.build(kept, arviz.attrs_of(posterior))
    stats = arviz.sample_stats_of(posterior)
    container = arviz.build({"posterior": dataset}, {})
    return arviz.add_group(container, "sample_stats", stats) if stats else container


def _matrix(dataset: xr.Dataset, names: Sequence[str]) -> Float:
    """Draws of the concatenated chains, (S, D)."""
    count = dataset.sizes["chain"] * dataset.sizes["draw"]
    parts = [dataset[name].to_numpy().reshape(count, -1) for name in names]
    if len(parts) == 1:
        return parts[0].astype(np.float64, copy=False)
    matrix = np.empty((count, sum(part.shape[1] for part in parts)))
    np.concatenate(parts, axis=1, out=matrix)
    return matrix


def _functions(
    functions: Any, container: arviz.Container, shape: tuple[int, int]
) -> tuple[list[str], Float | None]:
    """Names of blocks, and the values (S, n) of other functions."""
    given = [functions] if isinstance(functions, str | np.ndarray) else functions
    with understood("functions", functions, "names and arrays of values"):
        check_is("functions", given, Sequence, "names and arrays of values")
        items = list(given)
    parts: list[str] = []
    values: list[Float] = []
    for item in items:
        if not isinstance(item, str):
            values.append(_values("an array of functions", item, shape))
            continue
        for name in item.split("+"):
            if name.strip() in PARTS:
                parts.append(name.strip())
            else:
                own = _variable(container, name.strip())
                values.append(_values(f"functions names {name.strip()!r}, which", own, shape))
    if not parts and not values:
        raise OptionError(f"functions is {shown(functions)}, expected one of {', '.join(PARTS)}")
    return parts, np.hstack(values) if values else None


def _variable(container: arviz.Container, name: str) -> Any:
    """A variable of any group that has draws, (chains, draws, *shape)."""
    known: list[str] = []
    for group in arviz.groups_of(container).values():
        if {"chain", "draw"} <= set(group.dims):
            known += [str(other) for other in group if str(other) not in known]
            if name in group:
                values = group[name].transpose("chain", "draw", ...).to_numpy()
                return values.reshape(-1, *values.shape[2:])
    raise OptionError(
        f"functions names {name!r}, expected {', '.join(PARTS)}, or variables of the posterior: "
        f"{arviz.listing(known)}"
    )


def _values(what: str, given: Any, shape: tuple[int, int]) -> Float:
    """Values (S, n) of functions (S, …), or (chains, draws, …)."""
    values = as_numbers(what, given, "an array (draws, n)", DataError)
    chains, draws = shape
    if values.shape[:2] == shape and len(values) != chains * draws:
        values = values.reshape(chains * draws, *values.shape[2:])
    if values.shape[:1] != (chains * draws,):
        raise DataError(
            f"{what} has shape {values.shape}, but the posterior has {chains * draws:,} draws "
            f"({chains} × {draws:,}): expected one value, or one row of values, for each"
        )
    bad = int(np.sum(~np.isfinite(values)))
    if bad:
        raise DataError(
            f"{what} has {bad:,} values that are not finite of {values.size:,}: leave these draws "
            "out, or give other functions"
        )
    return values.reshape(chains * draws, -1)
