"""Terms by stanli and by CmdStan: how far apart values and gradients are, term by term."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

import numpy as np

from stancoreset.engines import BoundModel, Compiled, resolve_engine
from stancoreset.errors import DataError, EngineError

from .terms import FUNCTIONS, SIZES, TERMS, code_of

__all__ = [
    "COUNTS", "REGIONS", "Apart", "compared", "from_differences", "names_in", "points", "terms_of",
]  # fmt: skip

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

    def line(self, stan: str) -> str:
        """A line for the table of known differences, without its decision."""
        where = ", ".join(f"{region} {off:.0e}" for region, off in self.by_region.items())
        said = f"{self.most:.1e} ({where})"
        return f"{stan}: {self.term!r} {self.refused or said}, {self.lax} points finite here alone"

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


#: Series and solutions with as many steps as their arguments make them: these are compared in the
#: interior alone.
IN_STEPS = re.compile("(beta_neg_binomial|yule_simon)_l?c*cdf|hypergeometric_.F|inv_inc_beta|ode_")
#: Functions with any number of arguments, which stanc lists without signatures.
VARIADIC = frozenset(
    ["ode_rk45", "ode_bdf", "ode_adams", "ode_ckrk", "solve_newton", "solve_powell", "reduce_sum"]
)


def names_in(term: str) -> set[str]:
    """Stan's functions that a term calls."""
    return set(re.findall(r"([a-zA-Z]\w*) *\(", term)) - {"for"}


def terms_of(known: set[str]) -> dict[str, str]:
    """Terms whose functions a stanc knows all."""
    known = known | VARIADIC | names_in(FUNCTIONS)
    return {name: term for name, term in TERMS.items() if names_in(term) <= known}


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
            except (EngineError, DataError) as error:
                yield Apart(name, {}, 0, refused=str(error))


def _apart(name: str, term: str, genuine: Compiled, k: int, ours: Compiled) -> Apart:
    regions = points()
    if IN_STEPS.search(name):
        regions = {"interior": regions["interior"]}
    at, starts = np.vstack([*regions.values()]), POINTS * np.arange(1, len(regions))
    worst, usable, lax = dict.fromkeys(regions, 0.0), 0, 0
    for n in COUNTS if re.search(r"\bn\b", term) else COUNTS[:1]:
        with genuine.bind({"k": k, "n": n}) as bound:
            theirs = np.column_stack(bound.log_density_gradient(at))
        with ours.bind({"k": 1, "n": n}) as bound:
            other = np.column_stack(bound.log_density_gradient(at))
        good = np.isfinite(theirs).all(axis=1)
        usable += int(good.sum())
        lax += int((np.isneginf(theirs[:, 0]) & np.isfinite(other[:, 0])).sum())
        apart = np.where(good, _relative(theirs, other), 0.0)
        for region, largest in zip(regions, np.split(apart, starts), strict=True):
            worst[region] = max(worst[region], float(largest.max()))
    return Apart(name, worst, usable, lax)


def from_differences(name: str, term: str) -> Apart:
    """How far stanli's gradients are from differences of its values, in interior and border.

    At points where values are finite; what halved steps leave open is taken off.
    """
    ours = resolve_engine("stanli", 1).compile(code_of([term]), name="term")
    regions = {region: at for region, at in points().items() if region != "extreme"}
    regions["interior"] = regions["interior"][1:]  # zeros, where functions of a distance have none
    worst, usable = dict.fromkeys(regions, 0.0), 0
    for n in COUNTS if re.search(r"\bn\b", term) else COUNTS[:1]:
        with ours.bind({"k": 1, "n": n}) as bound:
            for region, at in regions.items():
                value, slope = bound.log_density_gradient(at)
                wide, narrow = (_central(bound, at, h) for h in (1e-3, 5e-4))
                found, open_ = (4 * narrow - wide) / 3, 3 * abs(wide - narrow)
                good = np.isfinite(np.column_stack([value, found])).all(axis=1)
                off = abs(slope - found) - open_ - 1e-9 * np.maximum(1, abs(value))[:, None]
                off = (off / np.maximum(1, abs(found).max(axis=1, keepdims=True)))[good]
                largest = float(np.nan_to_num(off, nan=np.inf).max(initial=0))
                worst[region], usable = max(worst[region], largest), usable + int(good.sum())
    return Apart(name, worst, usable)


def _central(bound: BoundModel, at: np.ndarray, h: float) -> np.ndarray:
    steps = h * np.eye(at.shape[1])
    moved = np.vstack([at + sign * step for step in steps for sign in (1, -1)])
    value = bound.log_density_gradient(moved)[0].reshape(len(steps), 2, len(at))
    with np.errstate(invalid="ignore"):
        return ((value[:, 0] - value[:, 1]) / (2 * h)).T


def _relative(theirs: np.ndarray, ours: np.ndarray) -> np.ndarray:
    """Differences of values and of gradients at each point, the larger one."""
    with np.errstate(invalid="ignore", over="ignore"):
        off = abs(ours - theirs)
        value = off[:, 0] / np.maximum(1, abs(theirs[:, 0]))
        slope = off[:, 1:].max(axis=1) / np.maximum(1, abs(theirs[:, 1:]).max(axis=1))
        return np.nan_to_num(np.maximum(value, slope), nan=np.inf, posinf=np.inf)
