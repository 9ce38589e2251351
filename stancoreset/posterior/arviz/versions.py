"""The installed ArviZ: its line, its import without a banner, and its container type."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray as xr
    from arviz import InferenceData  # type: ignore[attr-defined]  # ArviZ 1.x: taken for Any

    class Container(InferenceData):  # type: ignore[misc]
        """A type, for type checkers, of ArviZ's containers: groups are attributes."""

        def __getattr__(self, name: str) -> Any: ...

else:
    #: ``arviz.InferenceData`` with ArviZ 0.23, ``xarray.DataTree`` with ArviZ 1.x.
    Container = Any

_LOGGERS = ("arviz", "arviz_base", "arviz_stats", "arviz_plots")


@contextmanager
def quiet() -> Iterator[None]:
    """Silence ArviZ's banner on import, and warnings about documented behaviour."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    # 0.23 also writes to its own logger, outside logging's tree
    module = sys.modules.get("arviz")
    own = getattr(module, "_log", None)
    if isinstance(own, logging.Logger):
        loggers.append(own)
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


def import_all() -> None:
    """Import ArviZ and all that a fit and its report need of it, which takes seconds, once."""
    import h5netcdf  # noqa: F401
    import markdown_it  # noqa: F401
    import matplotlib.figure  # noqa: F401
    import pandas as pd  # noqa: F401

    arviz()


@cache
def arviz() -> Any:
    """The ``arviz`` module, imported on first use without its banner."""
    with quiet():
        import arviz
    return arviz


@cache
def is_v1() -> bool:
    """Whether the installed ArviZ belongs to the 1.x line (DataTree)."""
    return int(arviz().__version__.split(".")[0]) >= 1


def build(groups: Mapping[str, xr.Dataset], attrs: Mapping[str, Any]) -> Container:
    """Build a container of the installed ArviZ from datasets by group name."""
    import xarray as xr

    if not is_v1():
        return arviz().InferenceData(attrs=dict(attrs), **groups)
    tree: Any = xr.DataTree.from_dict({f"/{name}": ds for name, ds in groups.items()})
    tree.attrs = dict(attrs)
    return tree
