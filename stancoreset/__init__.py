"""Bayesian coresets for Stan: NUTS on a few hundred weighted rows, certified on the full data.

>>> import stancoreset as sc
>>> model = sc.CoresetModel(sc.stan_model_path("logistic"))      # doctest: +SKIP
>>> fit = model.fit("data.json", size=200, seed=1)               # doctest: +SKIP
>>> print(fit.certificate)                                       # doctest: +SKIP
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from stancoreset.version import __version__

# Public names and the rooms they live in. They are imported on first use, so that
# `import stancoreset` costs nothing.
_PUBLIC = {
    "Certificate": "certificate",
    "Coreset": "coreset",
    "CoresetFit": "fit",
    "CoresetModel": "workflow",
    "Distributed": "distributed",
    "StancoresetError": "errors",
    "Table": "sources",
    "certify": "certificate",
    "compare": "comparison",
    "load_fit": "fit",
    "merge": "merging",
    "run_batch": "batch.run",
    "select": "coreset",
    "stan_model_path": "stan.program",
    "stan_model_names": "stan.program",
    "summarise": "comparison",
}
_ROOMS = ("divergences", "engines", "errors", "in_the_loop", "plots", "solvers")

__all__ = sorted([*_PUBLIC, *_ROOMS, "__version__"])

if TYPE_CHECKING:
    from stancoreset import divergences, engines, errors, in_the_loop, plots, solvers
    from stancoreset.batch.run import run_batch
    from stancoreset.certificate import Certificate, certify
    from stancoreset.comparison import compare, summarise
    from stancoreset.coreset import Coreset, select
    from stancoreset.distributed import Distributed
    from stancoreset.errors import StancoresetError
    from stancoreset.fit import CoresetFit, load_fit
    from stancoreset.merging import merge
    from stancoreset.sources import Table
    from stancoreset.stan.program import stan_model_names, stan_model_path
    from stancoreset.workflow import CoresetModel


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        module = importlib.import_module(f"stancoreset.{_PUBLIC[name]}")
        return getattr(module, name)
    if name in _ROOMS:
        return importlib.import_module(f"stancoreset.{name}")
    raise AttributeError(f"module 'stancoreset' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
