"""A Stan program as text, tree and data; nothing is run here.

May import the ground floor. Hands out `WeightedProgram`, the observation contract and
the control variate's term; syntax, data, transforms and weaving are rooms within.
"""

from __future__ import annotations

from stancoreset.stan.centring import Centring, centring
from stancoreset.stan.contract import LOG_LIK, WEIGHTS, has_size, uses_weights
from stancoreset.stan.control import NOT_ONE_TO_ONE, Controlled, add_control
from stancoreset.stan.labels import (
    Labels,
    NamedData,
    Names,
    labels_of,
    names_of,
    require_fitting,
    variable_of,
)
from stancoreset.stan.likelihood import (
    likelihood_of,
    may_be_infinite,
    not_lifted,
    parameter_count,
    too_large,
)
from stancoreset.stan.moved import parameter_as_data, weights_as_parameters
from stancoreset.stan.shifts import Shifts
from stancoreset.stan.sweeping import Sweeps
from stancoreset.stan.syntax import StanProgram, stan_model_names, stan_model_path
from stancoreset.stan.tails import advice_on_tails
from stancoreset.stan.weighted import WeightedProgram, weighted_program

__all__ = [
    "LOG_LIK",
    "NOT_ONE_TO_ONE",
    "WEIGHTS",
    "Centring",
    "Controlled",
    "Labels",
    "NamedData",
    "Names",
    "Shifts",
    "StanProgram",
    "Sweeps",
    "WeightedProgram",
    "add_control",
    "advice_on_tails",
    "centring",
    "has_size",
    "labels_of",
    "likelihood_of",
    "may_be_infinite",
    "names_of",
    "not_lifted",
    "parameter_as_data",
    "parameter_count",
    "require_fitting",
    "stan_model_names",
    "stan_model_path",
    "too_large",
    "uses_weights",
    "variable_of",
    "weighted_program",
    "weights_as_parameters",
]
