"""Reading posterior draws from containers, fits, tables and mappings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stancoreset.engines import SAMPLER_STATS, Float
from stancoreset.errors import DataError, OptionError
from stancoreset.posterior.arviz.versions import Container

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


SAMPLE_DIMS = ("chain", "draw")


class _HasPosterior(Protocol):
    """A fit of ours, or whatever else holds a posterior."""

    @property
    def posterior(self) -> Any: ...


class _CmdStanPyFit(Protocol):
    @property
    def stan_variables(self) -> Callable[..., Any]: ...


class _StanliFit(Protocol):
    @property
    def sampler_stats(self) -> Any: ...


#: What `dataset_of` reads, for type checkers; containers and xarray's datasets are mappings.
Posterior: TypeAlias = (
    "Mapping[Any, Any] | pd.DataFrame | _HasPosterior | _CmdStanPyFit | _StanliFit"
)


def is_container(obj: Any) -> bool:
    """Whether `obj` is an ``InferenceData`` or a ``DataTree``."""
    import xarray as xr

    if isinstance(obj, xr.DataTree):
        return True
    return type(obj).__name__ == "InferenceData" and callable(getattr(obj, "groups", None))


def groups_of(container: Container | xr.DataTree) -> dict[str, xr.Dataset]:
    """The groups of a container by name, each an xarray ``Dataset``."""
    import xarray as xr

    if isinstance(container, xr.DataTree):
        return {name: node.to_dataset() for name, node in container.children.items()}
    if is_container(container):
        return {name: container[name] for name in container.groups()}
    raise DataError(
        f"expected an ArviZ container (InferenceData or DataTree), got {_kind(container)}"
    )


def group_of(container: Container, name: str) -> xr.Dataset:
    """One group of a container; if it is missing, a `DataError` lists the others."""
    groups = groups_of(container)
    if name not in groups:
        raise DataError(f"the container has no group {name!r}; it has {listing(groups)}")
    return groups[name]


def attrs_of(container: Container) -> dict[str, Any]:
    """The attributes of a whole container, as a new dict."""
    return dict(container.attrs)


def dataset_of(posterior: Any) -> xr.Dataset:
    """Draws as an xarray ``Dataset`` with leading dimensions ``chain`` and ``draw``.

    Parameters
    ----------
    posterior : object
        - an ArviZ container, or an xarray ``Dataset`` with dimension ``draw``;
        - a cmdstanpy fit with draws (MCMC, Laplace, Pathfinder, variational, generated
          quantities), or a stanli ``Fit``; chains are kept;
        - a mapping of names to arrays (chains, draws, *shape). If any of them is
          one-dimensional, all are read as (draws, *shape): a single chain;
        - a pandas ``DataFrame`` with one column per scalar, ``beta[1]`` as Stan names them;
          a column ``chain__`` splits the rows into chains;
        - any object whose attribute ``posterior`` is one of these.

    Raises
    ------
    DataError
        If `posterior` is none of these, has no variables, or its chains differ in length.

    Examples
    --------
    >>> import numpy as np
    >>> dict(dataset_of({"mu": np.zeros(50), "beta": np.zeros((50, 3))}).sizes)
    {'chain': 1, 'draw': 50, 'beta_dim_0': 3}
    """
    import pandas as pd
    import xarray as xr

    arrays: Mapping[str, ArrayLike] | None = None
    if is_container(posterior):
        dataset = group_of(posterior, "posterior")
    elif isinstance(posterior, xr.Dataset):
        dataset = posterior
    elif isinstance(posterior, pd.DataFrame):
        arrays = _table_arrays(posterior)
    elif isinstance(posterior, Mapping):
        arrays = _mapping_arrays(posterior)
    elif callable(getattr(posterior, "stan_variables", None)):
        arrays = _cmdstanpy_arrays(posterior)
    elif hasattr(posterior, "sampler_stats") and isinstance(
        getattr(posterior, "variables", None), Mapping
    ):
        arrays = {name: posterior.draws(name) for name in posterior.variables}
    elif getattr(posterior, "posterior", None) is not None:
        return dataset_of(posterior.posterior)
    else:
        raise DataError(
            f"cannot read posterior draws from {_kind(posterior)}; expected an ArviZ container, "
            "a fit, a cmdstanpy fit, or a dict of arrays (chains, draws, *shape)"
        )
    if arrays is not None:
        dataset = make_dataset(arrays, SAMPLE_DIMS, coords=None, dims=None, group="posterior")
    return _chains_first(dataset)


def _chains_first(dataset: xr.Dataset) -> xr.Dataset:
    if not dataset.data_vars:
        raise DataError("the posterior has no variables")
    if "draw" not in dataset.dims:
        raise DataError(
            "the posterior has no dimension 'draw'; its dimensions are "
            f"{listing(map(str, dataset.dims))}"
        )
    if "chain" not in dataset.dims:
        dataset = dataset.drop_vars("chain", errors="ignore").expand_dims("chain")
    sampled = [
        name for name, values in dataset.data_vars.items() if set(SAMPLE_DIMS) <= set(values.dims)
    ]
    return dataset[sampled].transpose("chain", "draw", ...)


def _mapping_arrays(draws: Mapping[Any, Any]) -> dict[str, NDArray[Any]]:
    arrays = {str(name): _array(str(name), values) for name, values in draws.items()}
    for name, array in arrays.items():
        if array.ndim == 0:
            raise DataError(f"posterior: {name!r} is a single number, not draws")
        if array.size == 0:
            raise DataError(f"posterior: {name!r} has shape {array.shape}: there are no draws")
    if any(array.ndim == 1 for array in arrays.values()):
        return {name: array[np.newaxis] for name, array in arrays.items()}
    for name, array in arrays.items():
        if array.shape[0] > array.shape[1]:
            raise DataError(
                f"posterior: {name!r} has shape {array.shape}, read as {array.shape[0]} chains of "
                f"{array.shape[1]} draws; for a single chain give shape (1, draws, *shape)"
            )
    return arrays


def _array(name: str, values: Any) -> NDArray[Any]:
    try:
        return np.asarray(values)
    except ValueError:
        lengths = [np.shape(chain) for chain in values]
        raise DataError(
            f"posterior: the chains of {name!r} have different lengths (shapes "
            f"{', '.join(map(str, lengths[:6]))}); cut them to the same length"
        ) from None


def _cmdstanpy_arrays(fit: Any) -> dict[str, NDArray[Any]]:
    kind = type(fit).__name__
    if kind == "CmdStanMLE":
        raise DataError("a CmdStanMLE holds a point, not draws; give a fit with draws")
    draws = fit.stan_variables(mean=False) if kind == "CmdStanVB" else fit.stan_variables()
    chains = int(getattr(fit, "chains", 1) or 1)
    # cmdstanpy concatenates chains one after the other along the first axis
    return {
        name: np.asarray(values).reshape(chains, -1, *np.shape(values)[1:])
        for name, values in draws.items()
    }


_COLUMN = re.compile(r"^(?P<name>[^\[\]]+)\[(?P<index>\d+(?:,\d+)*)\]$")


def _table_arrays(table: pd.DataFrame) -> dict[str, Float]:
    """Columns ``beta[1]``, ``beta[2]`` → one array; columns ending in ``__`` are not draws."""
    if "chain__" in table:
        parts = [part for _, part in table.groupby("chain__", sort=True)]
        if len({len(part) for part in parts}) > 1:
            raise DataError(
                f"chains of different lengths: {[len(part) for part in parts]} draws; "
                "cut them to the same length"
            )
    else:
        parts = [table]
    columns = [str(column) for column in table.columns]
    if len(set(columns)) < len(columns):
        raise DataError("the table of draws has two columns of the same name")
    scalars: dict[str, NDArray[Any]] = {}
    cells: dict[str, dict[tuple[int, ...], NDArray[Any]]] = {}
    for column, label in zip(columns, table.columns, strict=True):
        if column.endswith("__"):
            continue
        draws = np.stack([part[label].to_numpy(dtype=float) for part in parts])
        found = _COLUMN.match(column)
        if found is None:
            scalars[column] = draws
        else:
            index = tuple(int(i) - 1 for i in found["index"].split(","))
            cells.setdefault(found["name"], {})[index] = draws
    for name, cell in cells.items():
        lengths = {len(index) for index in cell}
        shape = tuple(max(i) + 1 for i in zip(*cell, strict=len(lengths) == 1))
        if len(lengths) > 1 or len(cell) != np.prod(shape) or name in scalars:
            raise DataError(
                f"the columns of {name!r} do not fill an array: {len(cell)} columns "
                f"for shape {shape}; indices count from 1"
            )
        array = np.empty((*next(iter(cell.values())).shape, *shape))
        for position, draws in cell.items():
            np.moveaxis(array, (0, 1), (-2, -1))[position] = draws
        scalars[name] = array
    return scalars


def variables_of(posterior: Any) -> dict[str, NDArray[Any]]:
    """Draws by name, each (chains, draws, *shape); accepts what `dataset_of` does.

    >>> import numpy as np
    >>> variables_of({"mu": np.zeros((4, 100))})["mu"].shape
    (4, 100)
    """
    return {str(name): values.to_numpy() for name, values in dataset_of(posterior).items()}


def finite_variables_of(posterior: Any, names: Iterable[str]) -> dict[str, NDArray[Any]]:
    """`variables_of`, restricted to `names` and checked to be finite.

    >>> import numpy as np
    >>> list(finite_variables_of({"mu": np.ones((1, 9)), "u": np.zeros((1, 9))}, ["mu"]))
    ['mu']
    """
    variables = variables_of(posterior)
    missing = [name for name in names if name not in variables]
    if missing:
        raise DataError(
            f"the posterior lacks the parameter {listing(missing)}; it has {listing(variables)}"
        )
    chosen = {name: variables[name] for name in names}
    for name, values in chosen.items():
        bad = ~np.isfinite(values)
        if bad.any():
            chain, draw, *cell = np.argwhere(bad)[0]
            element = f"{name}[{', '.join(map(str, cell))}]" if cell else name
            raise DataError(
                f"posterior: {element!r} is {values[bad][0]} in draw {draw} of chain {chain} "
                f"({np.count_nonzero(bad)} of {bad.size} values are not finite); remove such draws"
            )
    return chosen


def select(posterior: Any, var_names: Sequence[str] | None) -> xr.Dataset:
    """`dataset_of`, restricted to some variables; a `DataError` names the missing ones."""
    dataset = dataset_of(posterior)
    if var_names is None:
        return dataset
    names = [var_names] if isinstance(var_names, str) else list(var_names)
    missing = [name for name in names if name not in dataset]
    if missing or not names:
        raise DataError(
            f"no variable {listing(missing)}; the posterior has {listing(map(str, dataset))}"
        )
    return dataset[names]


def sample_stats_of(posterior: Any) -> dict[str, NDArray[Any]]:
    """Sampler statistics by ArviZ's names, each (chains, draws); empty if there are none.

    >>> import numpy as np
    >>> from stancoreset.posterior.arviz import posterior_container
    >>> post = posterior_container({"mu": np.zeros((2, 5))}, {"lp": np.ones((2, 5))})
    >>> list(sample_stats_of(post))
    ['lp']
    """
    if is_container(posterior):
        stats = groups_of(posterior).get("sample_stats")
        if stats is None:
            return {}
        return {
            str(name): values.transpose("chain", "draw", ...).to_numpy()
            for name, values in stats.items()
            if set(SAMPLE_DIMS) <= set(values.dims)
        }
    if type(posterior).__name__ == "CmdStanMCMC":
        # cmdstanpy keeps these as (draws, chains)
        columns = posterior.method_variables()
        found = {
            name: np.asarray(columns[key]).T
            for key, name in SAMPLER_STATS.items()
            if key in columns
        }
        if "diverging" in found:
            found["diverging"] = found["diverging"].astype(bool)
        return found
    if getattr(posterior, "posterior", None) is not None:
        return sample_stats_of(posterior.posterior)
    return {}


def make_dataset(
    variables: Mapping[str, ArrayLike],
    lead: tuple[str, ...],
    *,
    coords: Mapping[str, Any] | None,
    dims: Mapping[str, Sequence[str]] | None,
    group: str,
) -> xr.Dataset:
    """Arrays → Dataset; dimensions past `lead` are named as ArviZ names them."""
    import xarray as xr

    arrays: dict[str, tuple[list[str], NDArray[Any]]] = {}
    sizes: tuple[int, ...] | None = None
    first = ""
    for name, values in variables.items():
        try:
            array = np.asarray(values)
        except ValueError as error:
            raise DataError(f"{group}: {name!r} is not a rectangular array: {error}") from None
        if array.dtype == object:
            raise DataError(f"{group}: {name!r} is not an array of numbers")
        if array.ndim < len(lead):
            raise DataError(
                f"{group}: {name!r} has shape {array.shape}; its first axes must be "
                f"({', '.join(lead)})"
            )
        if sizes is None:
            sizes, first = array.shape[: len(lead)], name
        elif array.shape[: len(lead)] != sizes:
            raise DataError(
                f"{group}: {name!r} has {counts(array.shape[: len(lead)])}, "
                f"but {first!r} has {counts(sizes)}; all variables need the same"
            )
        given = list((dims or {}).get(name, ()))
        rest = array.ndim - len(lead)
        if len(given) > rest:
            raise OptionError(
                f"dims[{name!r}] names {len(given)} dimensions, but {name!r} has {rest}"
            )
        names = given + [f"{name}_dim_{i}" for i in range(len(given), rest)]
        arrays[name] = ([*lead, *names], array)
    used: dict[str, int] = {}
    for names, array in arrays.values():
        used.update(zip(names, array.shape, strict=True))
    labels: dict[str, Any] = {dim: np.arange(size) for dim, size in used.items()}
    for dim, label in (coords or {}).items():
        if dim in used:
            if len(label) != used[dim]:
                raise OptionError(
                    f"coords[{dim!r}] has {len(label)} labels, but the dimension has {used[dim]}"
                )
            labels[dim] = np.asarray(label)
    try:
        return xr.Dataset(arrays, coords=labels)
    except ValueError as error:
        raise DataError(f"{group}: {error}") from None


def counts(shape: tuple[int, ...]) -> str:
    return f"{shape[0]} chains of {shape[1]} draws" if len(shape) == 2 else str(shape)


def _kind(obj: Any) -> str:
    return f"an object of type {type(obj).__module__}.{type(obj).__name__}"


def listing(names: Any) -> str:
    found = [repr(str(name)) for name in names]
    shown = ", ".join(found[:12]) + (", ..." if len(found) > 12 else "")
    return shown or "none"
