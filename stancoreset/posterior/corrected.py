"""The posterior corrected by its importance weights, for the verdict "corrected"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines import Float
from stancoreset.errors import CertificateError, DataError, OptionError
from stancoreset.posterior.arviz import Container, attrs_of, build, groups_of
from stancoreset.posterior.certificate import Certificate
from stancoreset.posterior.named import WEIGHT

if TYPE_CHECKING:
    import xarray as xr


def refuse_rejected(posterior: Any, so: str) -> None:
    """Raise a `CertificateError` if this is a fit whose verdict is ``"rejected"``.

    `so` says what its draws are no good for.
    """
    if getattr(getattr(posterior, "certificate", None), "verdict", None) == "rejected":
        raise CertificateError(
            f"the fit was rejected: its draws do not represent the full posterior, so {so}; use a "
            "larger size= or another reference= (fit.posterior can be passed, at your own risk)"
        )


def corrected_posterior(
    posterior: Container, certificate: Certificate, resample: bool | int = True
) -> Container:
    """Draws of the full posterior from the coreset's draws and their certificate.

    See `CoresetFit.corrected`. Copies of a draw are adjacent, so that ArviZ's effective sample size
    accounts for them. A `CertificateError` is raised if the verdict is ``"rejected"``, because the
    weights cannot be trusted; a `DataError` if the certificate belongs to other draws; and an
    `OptionError` if `resample` is not a positive number.
    """
    if certificate.verdict == "certified":
        return posterior
    if certificate.verdict != "corrected":
        raise CertificateError(
            f"the verdict is {certificate.verdict!r} (Pareto k̂ {certificate.khat:.2f}): the "
            "importance weights cannot be trusted to correct these draws; use a larger size= "
            "or another reference="
        )
    groups = groups_of(posterior)
    total = groups["posterior"].sizes["chain"] * groups["posterior"].sizes["draw"]
    if np.max(certificate.draw_index) >= total:
        raise DataError(
            f"the certificate uses draw {int(np.max(certificate.draw_index))}, but the "
            f"posterior has {total} draws: it is not the posterior that was certified"
        )
    index, weights = certificate.draw_index, certificate.weights
    if resample is not False:
        size = certificate.n_draws if resample is True else int(resample)
        if size < 1:
            raise OptionError(f"resample is {resample}, expected True, False or at least 1 draw")
        index = index[systematic_resample(weights, size)]
    about = {
        "corrected": "weighted" if resample is False else "resampled",
        "pareto_khat": certificate.khat,
        "importance_ess": certificate.ess,
    }
    return taken_draws(posterior, index, weights if resample is False else None, about)


def taken_draws(
    posterior: Container,
    index: NDArray[np.int64],
    weights: Float | None = None,
    about: Mapping[str, Any] | None = None,
) -> Container:
    """A container of some draws of the concatenated chains, as one chain.

    Weights become ``importance_weight`` in ``sample_stats``, and `about` attributes. Groups of
    other draws, such as those of the warm-up, stay as they are.
    """
    groups = groups_of(posterior)
    sizes = groups["posterior"].sizes
    taken = {
        name: _taken(dataset, index)
        if all(dataset.sizes.get(dim) == sizes[dim] for dim in ("chain", "draw"))
        and not name.startswith("warmup")
        else dataset
        for name, dataset in groups.items()
    }
    if weights is not None:
        import xarray as xr

        stats = taken.get("sample_stats", xr.Dataset())
        values = xr.DataArray(
            weights[None],
            dims=("chain", "draw"),
            coords={"chain": [0], "draw": np.arange(len(weights))},
        )
        taken["sample_stats"] = stats.assign({WEIGHT: values})
    return build(taken, {**attrs_of(posterior), **(about or {})})


def systematic_resample(weights: Float, size: int) -> NDArray[np.int64]:
    """Positions of `size` draws, ascending, in proportion to their weights (n,) up to rounding.

    The draws are those at the points (i + ½)/size of the weights' distribution function: draw j
    occurs ⌊size·w_j⌋ or ⌈size·w_j⌉ times. No random number is needed, since the draws are random.

    >>> systematic_resample(np.array([0.5, 0.25, 0.25]), 4).tolist()
    [0, 0, 1, 2]
    """
    points = (np.arange(size) + 0.5) / size
    found = np.searchsorted(np.cumsum(weights), points)
    return np.minimum(found, len(weights) - 1).astype(np.int64)


def _taken(dataset: xr.Dataset, index: NDArray[Any]) -> xr.Dataset:
    """Selected draws of the concatenated chains as one chain."""
    import xarray as xr

    sampled = {"chain", "draw"}
    coords: dict[Any, Any] = {
        name: values for name, values in dataset.coords.items() if not sampled & set(values.dims)
    }
    arrays: dict[Any, Any] = {}
    for name, values in dataset.data_vars.items():
        if not sampled <= set(values.dims):
            arrays[name] = values.drop_vars(sampled, errors="ignore")
            continue
        ordered = values.transpose("chain", "draw", ...)
        flat = ordered.to_numpy().reshape(-1, *ordered.shape[2:])
        arrays[name] = (ordered.dims, flat[index][None])
    coords |= {"chain": [0], "draw": np.arange(len(index))}
    return xr.Dataset(arrays, coords=coords, attrs=dataset.attrs)
