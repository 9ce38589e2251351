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

__all__ = [
    "NUTS",
    "Certificate",
    "Coreset",
    "CoresetFit",
    "CoresetModel",
    "Design",
    "Distributed",
    "Evidence",
    "Information",
    "Loo",
    "Policy",
    "Regression",
    "Selection",
    "StancoresetError",
    "Table",
    "Thinned",
    "__version__",
    "certify",
    "compare",
    "divergences",
    "engines",
    "errors",
    "in_the_loop",
    "load_fit",
    "loo_compare",
    "merge",
    "plots",
    "regression",
    "run_batch",
    "select",
    "solvers",
    "stan_model_names",
    "stan_model_path",
    "summarise",
    "thin",
]

if TYPE_CHECKING:
    from stancoreset import engines, errors
    from stancoreset.analysis import Design, Information
    from stancoreset.batch import run_batch
    from stancoreset.engines import NUTS
    from stancoreset.errors import StancoresetError
    from stancoreset.fit import Selection
    from stancoreset.formulas import Regression, regression
    from stancoreset.model import CoresetModel
    from stancoreset.policy import Policy
    from stancoreset.posterior import (
        Certificate,
        Evidence,
        Loo,
        certify,
        compare,
        divergences,
        loo_compare,
        plots,
        summarise,
    )
    from stancoreset.rows import Distributed
    from stancoreset.rows.tables import Table
    from stancoreset.runs import CoresetFit, load_fit
    from stancoreset.selection import Coreset, Thinned, in_the_loop, merge, select, solvers, thin
    from stancoreset.stan import stan_model_names, stan_model_path

# The room of each public name, imported on first use, so that `import stancoreset` is fast.
_ROOMS = {
    "analysis": ("Design", "Information"),
    "batch": ("run_batch",),
    "engines": ("NUTS",),
    "errors": ("StancoresetError",),
    "fit": ("Selection",),
    "formulas": ("Regression", "regression"),
    "model": ("CoresetModel",),
    "policy": ("Policy",),
    "posterior": (
        "Certificate",
        "Evidence",
        "Loo",
        "certify",
        "compare",
        "divergences",
        "loo_compare",
        "plots",
        "summarise",
    ),
    "rows": ("Distributed",),
    "rows.tables": ("Table",),
    "runs": ("CoresetFit", "load_fit"),
    "selection": ("Coreset", "Thinned", "in_the_loop", "merge", "select", "solvers", "thin"),
    "stan": ("stan_model_names", "stan_model_path"),
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}


def _entered(name: str) -> Any:
    if name in ("engines", "errors"):
        return importlib.import_module(f"stancoreset.{name}")
    if name not in _ROOM_OF:
        raise AttributeError(f"module 'stancoreset' has no attribute {name!r}")
    room = importlib.import_module(f"stancoreset.{_ROOM_OF[name]}")
    try:
        return getattr(room, name)
    except AttributeError:  # a room
        return importlib.import_module(f"{room.__name__}.{name}")


if not TYPE_CHECKING:  # by which a type checker would take any name for one of ours
    __getattr__ = _entered


def __dir__() -> list[str]:
    return __all__
