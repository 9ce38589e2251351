"""What NUTS may be asked for: checked before it is run, the same for every engine.

Engines differ in what they do with a number out of range, from taking it to crashing.
"""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

from stancoreset.checks import check_seed, check_whole
from stancoreset.errors import OptionError
from stancoreset.spelling import near_misses

__all__ = ["check_nuts", "check_seed", "check_whole"]

_LEAST = {"chains": 1, "iter_warmup": 0, "iter_sampling": 1, "max_treedepth": 1}
_UNCHECKED = ("inits", "metric", "show_progress", "output_dir")
_KNOWN = (*_LEAST, "adapt_delta", "parallel_chains", "seed", *_UNCHECKED)


def check_nuts(options: Mapping[str, Any]) -> None:
    """Raise unless these are options of `BoundModel.sample` with values that NUTS can use.

    Parameters
    ----------
    options : mapping of str to object
        Any of them.

    Raises
    ------
    OptionError
        Names the option, its value and what is expected.

    Examples
    --------
    >>> check_nuts({"chains": 4, "adapt_delta": 0.95})
    >>> check_nuts({"chains": 0})
    Traceback (most recent call last):
    stancoreset.errors.OptionError: chains is 0, expected a whole number of at least 1
    """
    for name, value in options.items():
        if name not in _KNOWN:
            meant = near_misses(name, _KNOWN)
            raise OptionError(
                f"option {name!r} is not known to NUTS; "
                + (f"did you mean {' or '.join(meant)}? " if meant else "")
                + f"it takes {', '.join(_KNOWN)}"
            )
        if name in _LEAST:
            check_whole(name, value, _LEAST[name])
    if options.get("parallel_chains") is not None:
        check_whole("parallel_chains", options["parallel_chains"], 1)
    if "seed" in options:
        check_seed(options["seed"])
    delta = options.get("adapt_delta", 0.8)
    if isinstance(delta, bool) or not isinstance(delta, Real) or not 0 < float(delta) < 1:
        raise OptionError(f"adapt_delta is {delta!r}, expected a number between 0 and 1")
