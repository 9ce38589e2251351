"""The cases: a program, the data it is fitted to, and what its fit is to reach."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import stancoreset as sc
from pairs import simulated, tables

__all__ = ["CASES", "GROUPS", "HERE", "PAIRS", "Case"]

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Case:
    """One program with its data.

    Attributes
    ----------
    program : path
    data : callable
        Makes the data.
    options : mapping
        Of `CoresetModel.fit`, where they are not the defaults.
    share : float
        Effective draws to reach in the first round, as a share of all; 0: none is asked for.
    seconds : float
        The time that a fit in one round may take on idle cores.
    """

    program: Path
    data: Callable[[], dict[str, Any]]
    options: Mapping[str, Any] = field(default_factory=dict)
    share: float = 0.0
    seconds: float = 60.0


def _ready(name: str) -> Path:
    return Path(sc.stan_model_path(name))


def _of(program: str, data: Callable[[], dict[str, Any]], share: float, seconds: float) -> Case:
    return Case(HERE / f"{program}.stan", data, share=share, seconds=seconds)


#: Programs as statisticians write them, each with the real table of the same name.
PAIRS: Mapping[str, Case] = {
    name: Case(HERE / f"{name}.stan", getattr(tables, name))
    for name in tables.__all__
    if name != "flights_airports"
}
#: A table of flights, and data simulated from the programs of pairs or for programs by hand.
_OTHERS: Mapping[str, Case] = {
    "sim_crossed_logistic": _of("stops_crossed", simulated.crossed_logistic, 0.99, 60),
    "sim_ordinal_groups": _of("chem97_ordinal", simulated.ordinal_groups, 0.97, 60),
    "sim_gaussian_slopes": _of("star_slopes", simulated.gaussian_slopes, 0.98, 60),
    "sim_weibull_groups": _of("prostate_weibull", simulated.weibull_groups, 0.97, 60),
    "sim_negative_binomial": _of("murders_states", simulated.negative_binomial, 0.0, 30),
    "sim_zero_inflated": _of("rwm_hospital", simulated.zero_inflated, 0.0, 30),
    "sim_beta_precision": _of("budget_beta", simulated.beta_precision, 0.0, 30),
    "sim_student_spline": _of("nlswork_student", simulated.student_spline, 0.0, 30),
    "flights_airports": _of("flights_airports", tables.flights_airports, 0.0, 10),
    "hand_logistic_100": Case(
        _ready("logistic"),
        partial(simulated.logistic, 20_000, 100, 0.2),
        {"size": 50},
        share=0.99,
    ),
    "hand_logistic_300": Case(_ready("logistic"), partial(simulated.logistic, 50_000, 300, 0.1)),
    "hand_hierarchical_105": Case(
        HERE / "grouped_logistic.stan",
        partial(simulated.hierarchical, 100_000, 100),
        {"size": 100},
        share=0.995,
    ),
    "hand_median": _of("hand_median", simulated.medians, 0.95, 30),
    "hand_rasch": _of("hand_rasch", simulated.rasch, 0.9, 60),
    "hand_schools": _of("hand_schools", simulated.schools, 0.99, 30),
    "hand_shops": _of("hand_shops", simulated.shops, 0.0, 30),
    "hand_shops_raw": _of("hand_shops_raw", simulated.shops, 0.0, 30),
}
_HAND = HERE.parent / "stan" / "weave_programs"
_CENTRED = HERE.parent / "calibration" / "programs" / "hierarchical_centred.stan"
#: Programs of 500 groups and 12,500 rows: for each the program's path and what makes its data.
GROUPS: Mapping[str, Case] = {
    f"groups_{name}": Case(program, partial(data, 12_500, 17, 500))
    for name, program, data in (
        ("negative_binomial", HERE / "murders_states.stan", simulated.negative_binomial),
        ("student", HERE / "storms_student.stan", simulated.student_groups),
        ("ordered", HERE / "chem97_ordinal.stan", simulated.ordinal_groups),
        ("normal_slopes", HERE / "star_slopes.stan", simulated.gaussian_slopes),
        ("logistic_slopes", HERE / "trump_slopes.stan", simulated.logistic_slopes),
        ("crossed", HERE / "stops_crossed.stan", partial(simulated.crossed_logistic, others=50)),
        ("rstanarm", _HAND / "rstanarm_sparse_effects.stan", simulated.poisson_by_rstanarm),
        ("centred", _CENTRED, simulated.centred_logistic),
        ("centred_slopes", _HAND / "varying_slopes_multi_normal.stan", simulated.centred_slopes),
        (
            "centred_logistic_slopes",
            _HAND / "varying_slopes_logistic.stan",
            simulated.centred_logistic_slopes,
        ),
    )
}
CASES: Mapping[str, Case] = {**PAIRS, **_OTHERS, **GROUPS}
