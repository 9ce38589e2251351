"""Named posteriors from folders of fits and ArviZ files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from stancoreset.checks import check_path
from stancoreset.errors import OptionError
from stancoreset.posterior import arviz
from stancoreset.runs import load_fit


def posteriors_at(places: Iterable[str | Path], taken: Iterable[str] = ()) -> dict[str, Any]:
    """Load folders of fits and ArviZ ``.nc`` files, each named after its folder or file.

    No name may occur twice, or be one of those `taken`.
    """
    found: dict[str, Any] = {}
    names = set(taken)
    for place in (check_path("posterior", place) for place in places):
        if place.is_file() and place.suffix.lower() == ".csv":
            raise OptionError(
                f"{place} is a CSV file; expected the folder of a fit, or an ArviZ .nc file; in "
                f"Python, sc.thin and sc.compare take cmdstanpy.from_csv({str(place)!r})"
            )
        name = place.stem if place.is_file() else place.resolve().name
        if name in names:
            raise OptionError(f"two posteriors are called {name!r}; rename a folder or file")
        names.add(name)
        found[name] = arviz.load(place) if place.is_file() else load_fit(place)
    return found
