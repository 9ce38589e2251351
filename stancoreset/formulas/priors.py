"""Priors: the defaults of brms 2.18, and those that a user writes in Stan's syntax.

    b           flat
    Intercept   student_t(3, m, s),  m = median of g(y) less the mean offset
    sd, sigma   student_t(3, 0, s), restricted to positive values
    L           lkj_corr_cholesky(1)
    nu          gamma(2, 0.1), restricted to values above one
    shape, phi  gamma(0.01, 0.01)
    zi, hu      beta(1, 1)

The intercept is that of centred predictors. Under the identity and the log link g, the scale is
s = max(2.5, mad g(y)), where the median absolute deviation is 1.4826 times the median of
|g(y) - median g(y)| and zeros of y count as 0.1; m and mad are rounded to one decimal. Under the
logit link m = 0 and s = 2.5. Of the log-normal family g is the logarithm.

References
----------
Bürkner (2017), "brms: An R Package for Bayesian Multilevel Models Using Stan", Journal of
Statistical Software 80(1); the function ``default_prior``, ``get_prior`` up to brms 2.20.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stancoreset.checks import near_misses, shown
from stancoreset.errors import OptionError
from stancoreset.formulas.design import Design
from stancoreset.formulas.families import PARAMETERS, Family

#: The prior of a coefficient without one.
FLAT = "flat"
_DISTRIBUTION = re.compile(r"[a-z]\w*\([^;{}~]*\)")


def default_priors(
    family: Family, design: Design, y: NDArray[Any], groups: Mapping[str, bool]
) -> dict[str, str]:
    """Default priors by parameter; `groups` are names, and whether their effects correlate."""
    location, scale = _of_intercept(family, design, y)
    spread = f"student_t(3, 0, {scale:g})"
    found: dict[str, str] = {}
    if design.labels:
        found["b"] = FLAT
    if design.intercept:
        found["Intercept"] = f"student_t(3, {location:.15g}, {scale:g})"
    for name in family.parameters:
        found[name] = PARAMETERS[name].prior.format(scale=f"{scale:g}")
    for group, correlated in groups.items():
        found[f"sd_{group}"] = spread
        if correlated:
            found[f"L_{group}"] = "lkj_corr_cholesky(1)"
    return found


def _of_intercept(family: Family, design: Design, y: NDArray[Any]) -> tuple[float, float]:
    """Location and scale of the intercept's prior."""
    if family.link == "logit":
        return 0.0, 2.5
    is_log = family.link == "log" or family.logarithmic
    linked = np.log(np.where(y == 0, 0.1, y)) if is_log else y
    median = float(np.median(linked))
    spread = 1.4826 * float(np.median(np.abs(linked - median)))
    offset = 0.0 if design.offset is None else float(np.mean(design.offset))
    return round(median, 1) - offset, max(2.5, round(spread, 1))


def with_given(
    defaults: Mapping[str, str], given: Mapping[str, str] | None, labels: tuple[str, ...]
) -> dict[str, str]:
    """Replace defaults by a user's priors.

    A key is a parameter; ``sd`` or ``L``, for those of all groups; or ``b[label]``, for one
    coefficient, which follows the others.
    """
    found = dict(defaults)
    asked = _checked(given)
    # Keys that stand for several parameters come before those of one.
    for name, text in sorted(asked.items(), key=lambda entry: entry[0] not in ("sd", "L", "b")):
        known = _parameters(name, defaults, labels)
        if not known:
            choices = [*defaults, *(c for c in ("sd", "L") if _parameters(c, defaults, ()))]
            choices += [f"b[{label}]" for label in labels]
            meant = near_misses(name, choices)
            hint = f"did you mean {meant[0]!r}?" if meant else f"it has {', '.join(choices[:20])}"
            raise OptionError(f"priors: the regression has no parameter {name!r}; {hint}")
        if text == FLAT and not name.startswith("b"):
            raise OptionError(
                f"priors[{name!r}] is 'flat', which is allowed for coefficients b only; give a "
                "distribution in Stan's syntax, such as 'normal(0, 1)'"
            )
        found |= dict.fromkeys(known, text)
    return found


def _parameters(name: str, defaults: Mapping[str, str], labels: tuple[str, ...]) -> tuple[str, ...]:
    """The parameters that a key stands for."""
    if name in ("sd", "L"):
        return tuple(own for own in defaults if own.startswith(f"{name}_"))
    if name in defaults or name in (f"b[{label}]" for label in labels):
        return (name,)
    return ()


def _checked(given: Mapping[str, str] | None) -> dict[str, str]:
    example = "such as {'b': 'normal(0, 1)', 'sigma': 'exponential(1)'}"
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise OptionError(f"priors are {shown(given)}, expected a dict {example}")
    for name, text in given.items():
        whole = isinstance(text, str) and (
            text == FLAT or _DISTRIBUTION.fullmatch(text.strip()) is not None
        )
        if not whole:
            raise OptionError(
                f"priors[{name!r}] is {shown(text)}, expected a distribution in Stan's syntax, "
                "'normal(0, 1)', or 'flat'"
            )
    return {name: text.strip() for name, text in given.items()}
