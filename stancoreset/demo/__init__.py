"""The demo's data and model: 327,346 flights, and the stored summary of NUTS on all of them.

May import reference, posterior and the rooms below them. Hands out the table of flights, the data
of two models of them, the program with crossed effects, and what it was compared with.
"""

from __future__ import annotations

from stancoreset.demo.departures import (
    DEPARTURES_PROGRAM,
    DEPARTURES_SHOWN,
    FULL_NUTS,
    Departures,
    FullRun,
    departures,
    laplace_posterior,
)
from stancoreset.demo.nycflights import FLIGHT_LABELS, FLIGHT_PREDICTORS, flights, flights_data

__all__ = [
    "DEPARTURES_PROGRAM",
    "DEPARTURES_SHOWN",
    "FLIGHT_LABELS",
    "FLIGHT_PREDICTORS",
    "FULL_NUTS",
    "Departures",
    "FullRun",
    "departures",
    "flights",
    "flights_data",
    "laplace_posterior",
]
