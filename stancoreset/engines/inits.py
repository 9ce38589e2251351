"""Starting points of chains (cmdstanpy's ``inits``) in unconstrained coordinates."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from stancoreset.checks import (
    check_number,
    check_path,
    explain_absence,
    is_number,
    near_misses,
    shown,
    understood,
)
from stancoreset.engines.base import BoundModel, Float, parameter_names
from stancoreset.engines.climbing import INIT_TRIES
from stancoreset.errors import DataError, OptionError
from stancoreset.stan.data import raw_data

_EXPECTED = (
    "expected a number, a dict of values by parameter or the path of a JSON file with them, a "
    "list of dicts or paths with one for each chain, or an array of unconstrained points"
)


def check_inits(inits: Any, chains: int) -> None:
    """Raise unless these may be starting points for this number of chains, before data are known.

    A list must have one entry per chain, numbers must be finite, a radius must not be negative, and
    files must exist.
    """
    if inits is None:
        return
    if is_number(inits):
        check_number("inits", inits, 0)
        return
    if isinstance(inits, np.ndarray):
        if inits.ndim not in (1, 2):
            raise OptionError(f"inits is {shown(inits)}, {_EXPECTED}")
        _numbers("inits", inits)
        return
    each = inits if isinstance(inits, list | tuple) else [inits]
    for one in each:
        if isinstance(one, Mapping):
            for name, value in one.items():
                if not isinstance(name, str):
                    raise OptionError(f"inits has {shown(name)}, expected the name of a parameter")
                _numbers(f"inits[{name!r}]", value)
        elif not isinstance(one, str | os.PathLike):
            raise OptionError(f"inits is {shown(inits)}, {_EXPECTED}")
        elif not (path := check_path("inits", one)).is_file():
            why = f"there is no such file; {explain_absence(path)}"
            raise OptionError(f"inits is {shown(str(one))}: {why}")
    if isinstance(inits, list | tuple) and len(inits) != chains:
        raise OptionError(
            f"inits has {len(inits)} entries, expected one for each of {chains} chains"
        )


def initial_points(
    bound: BoundModel, inits: Any, chains: int, seed: int, others: Collection[str] = ()
) -> Float | None:
    """A starting point for each chain, (chains, P); None leaves them to Stan.

    Values missing from a dict or file are drawn between −2 and 2 on the unconstrained scale,
    repeatedly until the density is not zero, as Stan does. `others` are names allowed besides
    parameters but ignored: transformed parameters. An `OptionError` is raised if a value does not
    belong to a parameter, or has another shape; a `DataError` if a value is outside the support, or
    a file cannot be read.
    """
    if inits is None:
        return None
    check_inits(inits, chains)
    if isinstance(inits, np.ndarray):
        if inits.shape not in ((bound.n_params,), (chains, bound.n_params)):
            raise OptionError(
                f"inits is an array of shape {inits.shape}, expected numbers of shape "
                f"({bound.n_params},) or ({chains}, {bound.n_params}): unconstrained points"
            )
        return np.array(np.broadcast_to(inits, (chains, bound.n_params)), dtype=np.float64)
    each = inits if isinstance(inits, list | tuple) else [inits] * chains
    streams = (np.random.default_rng([seed, chain, 17]) for chain in range(len(each)))
    starts = [_start(bound, *one, others) for one in zip(each, streams, strict=True)]
    return np.stack(starts)


def recorded_inits(inits: Any) -> Any:
    """Convert starting points to plain values, for the record."""
    if isinstance(inits, np.ndarray):
        return inits.tolist()
    if isinstance(inits, Mapping):
        return {str(name): np.asarray(value).tolist() for name, value in inits.items()}
    if isinstance(inits, list | tuple):
        return [recorded_inits(one) for one in inits]
    return inits if inits is None or is_number(inits) else str(inits)


def _numbers(name: str, value: Any) -> Float:
    """Convert to an array of starting points."""
    with understood(name, value, "finite numbers"):
        array = np.asarray(value)
        if array.dtype.kind not in "biuf" or not np.isfinite(array).all():
            raise TypeError
        return array.astype(np.float64)


def _start(bound: BoundModel, one: Any, rng: np.random.Generator, others: Collection[str]) -> Float:
    """Draw the starting point of one chain."""
    radius = float(one) if is_number(one) else 2.0  # as Stan draws missing values
    given = {} if is_number(one) else _given(bound, one, others)
    missing = bool(set(parameter_names(bound)) - set(given))
    for _ in range(INIT_TRIES):
        theta = rng.uniform(-radius, radius, (1, bound.n_params))
        if given:
            theta = _with(bound, bound.constrain(theta), given)
        if not (missing and radius) or np.isfinite(bound.log_density(theta)[0]):
            break
    return np.asarray(theta[0])


def _given(bound: BoundModel, one: Any, others: Collection[str]) -> dict[str, Any]:
    """Read values by parameter from a dict or a file."""
    values = one if isinstance(one, Mapping) else raw_data(one)
    names = parameter_names(bound)
    for name in values:
        if name not in names and name not in others:
            close = near_misses(str(name), names)
            raise OptionError(
                f"inits has {name!r}, which is not a parameter; "
                + (f"did you mean {close[0]!r}? " if close else "")
                + f"the parameters are {', '.join(names)}"
            )
    return {name: values[name] for name in names if name in values}


def _with(bound: BoundModel, filled: Mapping[str, Float], given: Mapping[str, Any]) -> Float:
    """Replace values of a random unconstrained point by the given ones."""
    values = dict(filled)
    for name, value in given.items():
        array = _numbers(f"inits[{name!r}]", value)[None]
        if array.shape != filled[name].shape:
            raise OptionError(
                f"inits has {name!r} of shape {array.shape[1:]}, expected {filled[name].shape[1:]}"
            )
        values[name] = array
    try:
        theta = bound.unconstrain(values)
    except DataError as error:
        raise DataError(f"inits cannot be used: {error}") from None
    if not np.isfinite(theta).all():
        at = ", ".join(given)
        raise DataError(f"inits cannot be used: {at} lies on or beyond the limits of its support")
    return theta
