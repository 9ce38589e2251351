"""For one release: what the demo's room was called, and where the papers' experiments are."""

from __future__ import annotations

import warnings
from typing import Any

from stancoreset import demo


def __getattr__(name: str) -> Any:
    if name in demo.__all__:
        warnings.warn(
            f"stancoreset.experiments is gone; import {name} from stancoreset.demo",
            FutureWarning,
            stacklevel=2,
        )
        return getattr(demo, name)
    if name.startswith("__"):  # of Python's own questions
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    raise ImportError(
        f"stancoreset.experiments.{name} is no longer in the package; if it is of the papers' "
        f"experiments, it is in notebooks/papers of its sources: from papers import {name}, with "
        "notebooks/ on Python's path"
    )
