"""ArviZ containers: building them from draws, saving them as NetCDF, loading them."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from stancoreset.errors import DataError, OptionError
from stancoreset.files import atomic_path
from stancoreset.posterior.arviz.reading import (
    SAMPLE_DIMS,
    attrs_of,
    counts,
    groups_of,
    listing,
    make_dataset,
)
from stancoreset.posterior.arviz.versions import Container, build

if TYPE_CHECKING:
    import xarray as xr

    from stancoreset.engines import SampleResult


def posterior_container(
    variables: Mapping[str, ArrayLike],
    sample_stats: Mapping[str, ArrayLike] | None = None,
    *,
    observed_data: Mapping[str, ArrayLike] | None = None,
    constant_data: Mapping[str, ArrayLike] | None = None,
    log_likelihood: Mapping[str, ArrayLike] | ArrayLike | None = None,
    attrs: Mapping[str, Any] | None = None,
    coords: Mapping[str, Any] | None = None,
    dims: Mapping[str, Sequence[str]] | None = None,
) -> Container:
    """Put draws, arrays (chains, draws, *shape), into the container of the installed ArviZ.

    `sample_stats` (chains, draws) are under ArviZ's names; `observed_data` and `constant_data` are
    without chains and draws; a bare array of log likelihoods (chains, draws, n) is called
    ``log_lik``. `attrs` other than text and numbers are stored as JSON text. `coords` and `dims`
    name dimensions as in ArviZ.

    >>> import numpy as np
    >>> draws = np.random.default_rng(0).normal(size=(4, 100, 2))
    >>> from stancoreset.posterior.arviz import variables_of
    >>> post = posterior_container({"beta": draws}, attrs={"seed": 0})
    >>> variables_of(post)["beta"].shape
    (4, 100, 2)
    """
    if not variables:
        raise DataError("a posterior needs at least one variable, got none")
    if log_likelihood is not None and not isinstance(log_likelihood, Mapping):
        log_likelihood = {"log_lik": log_likelihood}
    sampled = {
        "posterior": variables,
        "sample_stats": sample_stats,
        "log_likelihood": log_likelihood,
    }
    fixed = {"observed_data": observed_data, "constant_data": constant_data}
    groups = {
        name: make_dataset(content, lead, coords=coords, dims=dims, group=name)
        for contents, lead in ((sampled, SAMPLE_DIMS), (fixed, ()))
        for name, content in contents.items()
        if content
    }
    sizes = {n: (g.sizes["chain"], g.sizes["draw"]) for n, g in groups.items() if n in sampled}
    for name, size in sizes.items():
        if size != sizes["posterior"]:
            raise DataError(
                f"{name} has {counts(size)}, but posterior has {counts(sizes['posterior'])}"
            )
    return build(groups, _plain_attrs(attrs))


def from_result(
    result: SampleResult,
    *,
    constant_data: Mapping[str, ArrayLike] | None = None,
    attrs: Mapping[str, Any] | None = None,
    coords: Mapping[str, Any] | None = None,
    dims: Mapping[str, Sequence[str]] | None = None,
) -> Container:
    """Put an engine's `SampleResult` into a container.

    The sampler's settings and wall-clock seconds (attribute ``sampling_time``, as ArviZ
    calls it) become attributes. Warm-up draws, if kept, go into the groups
    ``warmup_posterior`` and ``warmup_sample_stats``, and unconstrained draws into the group
    ``unconstrained_posterior``, variable ``unconstrained``; the inverse metric of each chain into
    ``adaptation_data``, variable ``inv_metric``.

    >>> import numpy as np
    >>> from stancoreset.engines.base import SampleResult
    >>> z = np.random.default_rng(0).normal(size=(4, 100, 1))
    >>> result = SampleResult({"mu": z[..., 0]}, {"lp": -z[..., 0] ** 2}, z, 1.5, {"seed": 1})
    >>> attrs_of(from_result(result))["sampling_time"]
    1.5
    """
    provenance = {**result.settings, "sampling_time": float(result.seconds), **(attrs or {})}
    container = posterior_container(
        result.variables,
        result.stats,
        constant_data=constant_data,
        attrs=provenance,
        coords=coords,
        dims=dims,
    )
    if result.warmup_variables:
        warmup = result.warmup_variables
        container = add_group(container, "warmup_posterior", warmup, coords=coords, dims=dims)
        container = add_group(container, "warmup_sample_stats", result.warmup_stats)
    if result.unconstrained.shape[-1] == 0:
        return container
    if result.inv_metric is not None:
        sides = ["unconstrained_dim", "unconstrained_dim_1"][: result.inv_metric.ndim - 1]
        container = add_group(
            container,
            "adaptation_data",
            {"inv_metric": result.inv_metric},
            dims={"inv_metric": ["chain", *sides]},
        )
    return add_group(
        container,
        "unconstrained_posterior",
        {"unconstrained": result.unconstrained},
        dims={"unconstrained": ["unconstrained_dim"]},
    )


def add_group(
    container: Container,
    name: str,
    variables: Mapping[str, ArrayLike] | xr.Dataset,
    *,
    coords: Mapping[str, Any] | None = None,
    dims: Mapping[str, Sequence[str]] | None = None,
    overwrite: bool = False,
) -> Container:
    """Return a new container with one more group; the given one is unchanged.

    Arrays start with (chains, draws), except in groups whose name contains ``data``.

    >>> import numpy as np
    >>> post = posterior_container({"mu": np.zeros((2, 5))})
    >>> post = add_group(post, "constant_data", {"weights": [3.0, 4.0]})
    >>> sorted(groups_of(post))
    ['constant_data', 'posterior']
    """
    import xarray as xr

    groups = groups_of(container)
    if name in groups and not overwrite:
        raise OptionError(f"the container already has a group {name!r}; pass overwrite=True")
    if not isinstance(variables, xr.Dataset):
        lead = () if "data" in name else SAMPLE_DIMS
        variables = make_dataset(variables, lead, coords=coords, dims=dims, group=name)
    return build({**groups, name: variables}, attrs_of(container))


def with_variables(
    container: Container,
    variables: Mapping[str, ArrayLike],
    *,
    coords: Mapping[str, Any] | None = None,
    dims: Mapping[str, Sequence[str]] | None = None,
) -> Container:
    """Return a new container with more variables (chains, draws, *shape) in its posterior.

    >>> import numpy as np
    >>> post = posterior_container({"mu": np.zeros((2, 5))})
    >>> list(groups_of(with_variables(post, {"tau": np.ones((2, 5))}))["posterior"])
    ['mu', 'tau']
    """
    groups = groups_of(container)
    more = make_dataset(variables, SAMPLE_DIMS, coords=coords, dims=dims, group="posterior")
    new = more.drop_vars(SAMPLE_DIMS).assign_coords(
        {dim: groups["posterior"][dim] for dim in SAMPLE_DIMS}
    )
    both = groups["posterior"].assign(dict(new.data_vars))
    return build({**groups, "posterior": both}, attrs_of(container))


def _plain_attrs(attrs: Mapping[str, Any] | None) -> dict[str, Any]:
    """Attributes that NetCDF can hold: text and numbers as they are, the rest as JSON."""
    plain: dict[str, Any] = {}
    for key, value in (attrs or {}).items():
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            value = json.dumps(value, default=_jsonable)
        if isinstance(value, str):  # names of files that the locale could not read
            value = value.encode(errors="surrogateescape").decode(errors="replace")
        plain[str(key)] = value
    return plain


def _jsonable(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)


def save(container: Container, path: str | os.PathLike[str]) -> Path:
    """Write a container atomically as NetCDF; both ArviZ lines read it.

    >>> import numpy as np, tempfile
    >>> from stancoreset.posterior.arviz import variables_of
    >>> post = posterior_container({"mu": np.zeros((2, 5))})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     variables_of(load(save(post, folder + "/posterior.nc")))["mu"].shape
    (2, 5)
    """
    path = Path(path)
    content = _netcdf(container)
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)
    return path


def _netcdf(container: Container) -> bytes:
    """Return a container as a NetCDF file in memory.

    The file is then written by a single plain write, whose errors can be caught; those
    of HDF5's own writing could not all be (h5py 3).
    """
    import h5netcdf
    import xarray as xr
    from xarray.backends import H5NetCDFStore

    buffer = io.BytesIO()
    with h5netcdf.File(buffer, "w") as file:
        root = xr.Dataset(attrs=_plain_attrs(attrs_of(container)))
        root.dump_to_store(H5NetCDFStore(file, mode="w"))
        for name, dataset in groups_of(container).items():
            dataset = dataset.assign_attrs(_plain_attrs(dataset.attrs))
            encoding = {
                key: {"zlib": True, "complevel": 1}
                for key, values in dataset.variables.items()
                if values.dtype.kind in "fiub" and values.ndim
            }
            store = H5NetCDFStore(file, group=name, mode="a")
            dataset.dump_to_store(store, encoding=encoding)
    return buffer.getvalue()  # a copy, which needs nothing else


def load(path: str | os.PathLike[str]) -> Container:
    """Read a container from NetCDF into memory and close the file."""
    import xarray as xr

    path = Path(path)
    if not path.is_file():
        raise DataError(f"no such file: {path}")
    try:
        with xr.open_datatree(path, engine="h5netcdf") as tree:
            tree.load()
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"{path} is not a readable NetCDF file: {error}") from error
    groups = groups_of(tree)
    if "posterior" not in groups:
        raise DataError(
            f"{path} holds no group 'posterior'; it has {listing(groups)}. "
            "Expected a file written by stancoreset or ArviZ"
        )
    attrs = {
        str(key): value.item() if isinstance(value, np.generic) else value
        for key, value in tree.attrs.items()
    }
    return build(groups, attrs)
