"""Terms by stanli and by CmdStan: how far apart values and gradients are, term by term."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

import numpy as np

from stancoreset.engines import Compiled, resolve_engine
from stancoreset.errors import EngineError

from .terms import FUNCTIONS, SIZES, TERMS, code_of

__all__ = ["COUNTS", "REGIONS", "Apart", "compared", "names_in", "points", "terms_of"]

#: Terms in one program: C++ compilers take a minute for as many.
A_PROGRAM = 75
#: Values of n, the integer of the data.
COUNTS = (0, 3, 500)
#: Standard deviations of parameters by kind: R as it is, P by its logarithm, U by its logit.
REGIONS: Mapping[str, Mapping[str, float]] = {
    "interior": {"R": 1.0, "P": 0.7, "U": 1.0},
    "border": {"R": 5.0, "P": 3.0, "U": 8.0},
    "extreme": {"R": 2000.0, "P": 6.0, "U": 20.0},
}
POINTS = 8


@dataclass(frozen=True)
class Apart:
    """The largest relative difference of values and gradients of one term, by region.

    `refused` is what stanli says instead; `lax` counts points that Stan alone refuses.
    """

    term: str
    by_region: Mapping[str, float]
    usable: int
    lax: int = 0
    refused: str = ""

    @property
    def most(self) -> float:
        """The largest difference of all regions; infinite if stanli refuses the term."""
        return np.inf if self.refused else max(self.by_region.values())


def points() -> dict[str, np.ndarray]:
    """Points of each region; those of the interior begin with zeros."""
    rng = np.random.default_rng(1)
    sizes = [*SIZES.values()]
    found = {}
    for region, spread in REGIONS.items():
        drawn = rng.normal(size=(POINTS, sum(sizes))).clip(-2, 2)
        found[region] = drawn * np.repeat([spread[kind] for kind in SIZES], sizes)
    found["interior"][0] = 0
    return found


def names_in(term: str) -> set[str]:
    """Stan's functions that a term calls."""
    return set(re.findall(r"([a-zA-Z]\w*) *\(", term)) - {"for"}


def terms_of(known: set[str]) -> dict[str, str]:
    """Terms whose functions a stanc knows all."""
    own = names_in(FUNCTIONS)
    return {name: term for name, term in TERMS.items() if names_in(term) <= known | own}


def compared(terms: Mapping[str, str]) -> Iterator[Apart]:
    """Compare terms, one after the other."""
    left = iter(terms.items())
    cmdstan, stanli = resolve_engine("cmdstan", 1), resolve_engine("stanli", 1)
    while together := [*islice(left, A_PROGRAM)]:
        genuine = cmdstan.compile(code_of([term for _, term in together]), name="terms")
        for k, (name, term) in enumerate(together, 1):
            try:
                ours = stanli.compile(code_of([term]), name="term")
                yield _apart(name, term, genuine, k, ours)
            except EngineError as error:
                if "unsupported" not in str(error):
                    raise
                yield Apart(name, {}, 0, refused=str(error))


def _apart(name: str, term: str, genuine: Compiled, k: int, ours: Compiled) -> Apart:
    counts = COUNTS if re.search(r"\bn\b", term) else COUNTS[:1]
    by_region, usable, lax = {}, 0, 0
    for region, at in points().items():
        worst = 0.0
        for n in counts:
            with genuine.bind({"k": k, "n": n}) as bound:
                value, slope = bound.log_density_gradient(at)
            with ours.bind({"k": 1, "n": n}) as bound:
                other, steep = bound.log_density_gradient(at)
            good = np.isfinite(value) & np.isfinite(slope).all(axis=1)
            usable += int(good.sum())
            lax += int((np.isneginf(value) & np.isfinite(other)).sum())
            if good.any():
                worst = max(worst, _relative(value[good, None], other[good, None]))
                worst = max(worst, _relative(slope[good], steep[good]))
        by_region[region] = worst
    return Apart(name, by_region, usable, lax)


def _relative(theirs: np.ndarray, ours: np.ndarray) -> float:
    scale = np.maximum(1, abs(theirs).max(axis=1, keepdims=True))
    with np.errstate(invalid="ignore"):
        return float(np.nan_to_num(abs(ours - theirs) / scale, nan=np.inf).max())
