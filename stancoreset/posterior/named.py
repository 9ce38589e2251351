"""Named posteriors, the input of comparisons and plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stancoreset.checks import as_numbers, check_is, check_names, understood
from stancoreset.engines import Float
from stancoreset.errors import DataError, OptionError
from stancoreset.posterior.arviz import (
    attrs_of,
    dataset_of,
    is_container,
    listing,
    sample_stats_of,
)

if TYPE_CHECKING:
    import xarray as xr


#: Where a container holds the weights of its draws, in ``sample_stats``.
WEIGHT = "importance_weight"


@dataclass(frozen=True)
class NamedPosterior:
    """One posterior among several.

    `dataset` holds draws of dimensions (chain, draw, ...), and `weights` (chains · draws,) the
    importance weights of the concatenated chains, which sum to one. `weighted_draws` is the number
    of draws for which weights were computed; without weights, of all draws. `divergent` are the
    positions, among the draws of the concatenated chains, of those that NUTS diverged at.
    """

    name: str
    dataset: xr.Dataset = field(repr=False)
    weights: Float | None = field(default=None, repr=False)
    weighted_draws: int = 0
    seconds: float | None = None
    divergent: NDArray[np.intp] = field(default_factory=lambda: np.empty(0, np.intp), repr=False)


def read_posteriors(
    posteriors: Mapping[str, Any],
    *,
    weights: Mapping[str, Any] | None = None,
    seconds: Mapping[str, float] | None = None,
) -> list[NamedPosterior]:
    """Read named posteriors with their weights and seconds.

    A stancoreset fit in their place stands for its own and its reference's.

    A stancoreset fit has its own importance weights (if its verdict is ``"corrected"``) and
    seconds, and a container may have weights as ``importance_weight`` in ``sample_stats``;
    `weights` and `seconds` by name replace them, and the value ``None`` removes them. An
    `OptionError` is raised if there are no posteriors, two have the same name, or `weights` or
    `seconds` names an unknown one; a `DataError` if a posterior cannot be read, or weights do not
    match its draws.
    """
    if not isinstance(posteriors, Mapping):
        posteriors = getattr(posteriors, "posteriors", posteriors)
    if not isinstance(posteriors, Mapping) or not posteriors:
        raise OptionError(
            'give at least one posterior by name, for example {"full": full, "coreset": fit}; '
            f"got {type(posteriors).__name__} without posteriors"
        )
    names = [str(name) for name in posteriors]
    for i, name in enumerate(names):
        if name in names[:i]:
            raise OptionError(f"two posteriors are called {name!r}; give each its own name")
    for option, given in (("weights", weights), ("seconds", seconds)):
        if given is not None:
            check_is(option, given, Mapping, "a dict by the posteriors' names")
        unknown = [str(name) for name in given or {} if str(name) not in names]
        if unknown:
            raise OptionError(f"{option} names {unknown}, but the posteriors are {names}")
    read = []
    for name, posterior in zip(names, posteriors.values(), strict=True):
        try:
            with understood("it", posterior, "draws by name, or a fit", DataError):
                dataset = dataset_of(posterior)
        except DataError as error:
            raise DataError(f"posterior {name!r}: {error}") from None
        size = dataset.sizes["chain"] * dataset.sizes["draw"]
        if weights is not None and name in weights:
            own, looked_at = _spread(weights[name], None, size, name)
        else:
            own, looked_at = _carried_weights(posterior, size, name)
        time = seconds[name] if seconds and name in seconds else _carried_seconds(posterior)
        read.append(
            NamedPosterior(name, dataset, own, looked_at, time, _divergent(posterior, size))
        )
    return read


def _divergent(posterior: Any, size: int) -> NDArray[np.intp]:
    """Positions of divergent draws; none if the posterior has no such statistic."""
    diverging = np.ravel(sample_stats_of(posterior).get("diverging", ()))
    return np.flatnonzero(diverging) if diverging.size == size else np.empty(0, np.intp)


def _carried_weights(posterior: Any, size: int, name: str) -> tuple[Float | None, int]:
    if is_container(posterior):
        return _spread(sample_stats_of(posterior).get(WEIGHT), None, size, name)
    if getattr(posterior, "posterior", None) is None:
        return None, size
    index = getattr(getattr(posterior, "certificate", None), "draw_index", None)
    return _spread(getattr(posterior, "weights", None), index, size, name)


def _spread(weights: Any, index: Any, size: int, name: str) -> tuple[Float | None, int]:
    """Weights over all draws, zero for draws without a weight."""
    if weights is None:
        return None, size
    given = as_numbers(f"weights of {name!r}", weights, "an array (draws,)", DataError).ravel()
    if given.size == size:
        spread = given
    elif index is not None and np.shape(index) == given.shape and np.max(index) < size:
        spread = np.zeros(size)
        spread[np.asarray(index)] = given
    else:
        raise DataError(f"posterior {name!r} has {size} draws, but {given.size} weights")
    if not np.isfinite(spread).all() or (spread < 0).any() or not spread.sum() > 0:
        raise DataError(
            f"the weights of posterior {name!r} must be finite, not negative, and not all zero"
        )
    return spread / spread.sum(), given.size


def _carried_seconds(posterior: Any) -> float | None:
    if is_container(posterior):
        return _positive(attrs_of(posterior).get("sampling_time")) or _positive(
            dataset_of(posterior).attrs.get("sampling_time")
        )
    if isinstance(posterior, Mapping) or getattr(posterior, "posterior", None) is None:
        return None
    own = _positive(getattr(posterior, "seconds", None))
    timings = getattr(posterior, "timings", None)
    if own is None and isinstance(timings, Mapping):
        own = _positive(timings.get("total", sum(timings.values())))
    return own if own is not None else _carried_seconds(posterior.posterior)


def _positive(value: Any) -> float | None:
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        return None
    return seconds if np.isfinite(seconds) and seconds > 0 else None


def common_variables(
    first: NamedPosterior, other: NamedPosterior, var_names: Sequence[str] | None = None
) -> list[str]:
    """Shared variables of two posteriors, in the order of the first, of equal shape and finite.

    A `DataError` is raised if none is shared, one of `var_names` is missing, shapes differ, or
    draws are NaN.
    """
    ours, theirs = [str(v) for v in first.dataset], [str(v) for v in other.dataset]
    if var_names is None:
        names = [name for name in ours if name in theirs]
        if not names:
            raise DataError(
                f"no parameters in common: {first.name!r} has {listing(ours)}; "
                f"{other.name!r} has {listing(theirs)}"
            )
    else:
        given = [var_names] if isinstance(var_names, str) else var_names
        check_names("var_names", given, "parameters")
        names = [str(name) for name in given]
        for posterior, available in ((first, ours), (other, theirs)):
            missing = [name for name in names if name not in available]
            if missing or not names:
                raise DataError(
                    f"posterior {posterior.name!r} has no parameter {listing(missing)}; "
                    f"it has {listing(available)}"
                )
    for name in names:
        shapes = [posterior.dataset[name].shape[2:] for posterior in (first, other)]
        if shapes[0] != shapes[1]:
            raise DataError(
                f"parameter {name!r} has shape {shapes[0]} in {first.name!r}, "
                f"but {shapes[1]} in {other.name!r}"
            )
        for posterior in (first, other):
            values = posterior.dataset[name].to_numpy()
            if values.dtype.kind not in "biuf":
                raise DataError(
                    f"posterior {posterior.name!r}: {name!r} is of type {values.dtype}, expected "
                    "numbers"
                )
            bad = int(np.sum(~np.isfinite(values)))
            if bad:
                raise DataError(
                    f"posterior {posterior.name!r}: {bad} of {values.size} draws of {name!r} "
                    "are NaN or infinite"
                )
    return names


def scalars(
    dataset: xr.Dataset, names: Sequence[str], labels_of: xr.Dataset | None = None
) -> dict[str, Float]:
    """Draws of each scalar, (chains, draws), labelled as ArviZ does: ``beta[0]``.

    The labels of coordinates are those of `labels_of`, by default of the data set itself.

    >>> import numpy as np
    >>> data = dataset_of({"mu": np.zeros((1, 9)), "beta": np.zeros((1, 9, 2))})
    >>> list(scalars(data, ["mu", "beta"]))
    ['mu', 'beta[0]', 'beta[1]']
    """
    columns: dict[str, Float] = {}
    for name in names:
        values = dataset[name].to_numpy().astype(float)
        source = (dataset if labels_of is None else labels_of)[name]
        axes = [
            source[dim].to_numpy() if dim in source.coords else np.arange(source.sizes[dim])
            for dim in source.dims[2:]
        ]
        cells = product(*(range(size) for size in values.shape[2:]))
        for cell in cells:
            shown = ", ".join(str(axis[i]) for axis, i in zip(axes, cell, strict=True))
            label = f"{name}[{shown}]" if cell else name
            if label in columns:
                raise DataError(
                    f"two parameters are both labelled {label!r}; give their dimensions different "
                    "labels, or rename one"
                )
            position: tuple[Any, ...] = (..., *cell)
            columns[label] = values[position]
    return columns
