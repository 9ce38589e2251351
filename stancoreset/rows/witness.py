"""The witness: the author's unmodified program on all rows, to check its replacements.

Weaving, chunks, equal rows, frozen statistics and matrix products (`stancoreset.rows.glm`) all
evaluate one density, log p(θ | y). Here the author's own program evaluates it, with nothing of ours
between the program and the rows; the two results may differ only by a constant and by rounding.

The certificate uses this witness (`WitnessedDensity`). If its evaluations cost no more than our
own, it decides: importance weights are ratios of its densities, and a mistake of ours shows up in
them. If ours are much cheaper (matrix products, equal rows evaluated once, statements about all
rows in place of loops), rows stay on disk, or
it must see all of very many rows at once, it evaluates a few draws, and a disagreement is an error.

Rows are cut into blocks only if the data are large. Each of B blocks contains the prior once,

    log p(θ | y) = Σ_b log p(θ | y_b) − (B − 1) log p(θ).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines import BoundModel, Closing, Compiled, Density, Float, StanData
from stancoreset.errors import IdentityError
from stancoreset.limits import BLOCK, NOISE
from stancoreset.rows.sums import MAX_ROWS_PER_CHUNK, BoundChunks, slices, without_priors
from stancoreset.rows.tables import Kernel, StoredRows, Sums, row_count, stan_rows

if TYPE_CHECKING:
    from stancoreset.rows.full_data import FullData
    from stancoreset.stan import StanProgram, WeightedProgram

#: Largest difference between two log densities, relative to their magnitude, due to rounding.
TOLERANCE = 10 * NOISE
# Draws at which the two are compared for rows on disk: enough that equal rows are looked for.
_FEW_STORED = 10
# Numbers in a block of rows, of which Stan needs some 300 bytes for each while it reads their text.
_NUMBERS = BLOCK // 16
#: Rows in memory that the author's program evaluates where it must see all rows at once: loops over
#: rows, which stanli reads one by one, take 0.05 ms for each of 20,000 rows and 0.1 ms for each of
#: 200,000.
SHOWN = 100_000


@dataclass(frozen=True)
class Comparison:
    """A comparison of the author's program with our evaluation of it.

    `error` is the largest difference of the two log densities up to a constant, relative to their
    magnitude. `decides` says whether the author's program evaluated every draw of the certificate.
    """

    error: float
    draws: int
    rows: int
    n_obs: int
    decides: bool = False

    def __str__(self) -> str:
        some = "" if self.rows >= self.n_obs else f"{self.rows:,} of "
        among = f"{some or 'all '}{self.n_obs:,}"
        every = "every draw" if self.decides else f"{self.draws} draws"
        return (
            f"the program as written, on {among} rows at {every}; "
            f"equal to our evaluation within {self.error:.0e}"
        )


class Witness:
    """The author's program, with the declarations of `original`, bound to all rows in memory.

    `data` are those of the weighted program, and `prior` is that program without rows. The author's
    program must see all rows at once (`whole`) if it computes statistics of them or selects rows by
    number; otherwise it sees at least `blocks` blocks of them, `threads` at the same time.
    """

    def __init__(
        self,
        compiled: Compiled,
        original: StanProgram,
        weighted: WeightedProgram,
        data: StanData,
        prior: BoundModel,
        *,
        whole: bool,
        threads: int,
        blocks: int = 1,
    ) -> None:
        self._compiled = compiled
        self._names = [declared.name for declared in original.data]
        self._weighted = weighted
        weights = weighted.weights
        if weights not in self._names and not np.all(np.asarray(data[weights]) == 1):
            data = weighted.with_weights(data, np.ones(weighted.n_obs(data)))
        #: The rows as the author's program weights them: by one, unless it has weights itself.
        self.data = data
        self.prior = prior
        self.n_obs = weighted.n_obs(data)
        numbers = sum(np.size(data[name]) for name in weighted.rows)
        few = max(-(-numbers // _NUMBERS), -(-self.n_obs // MAX_ROWS_PER_CHUNK))
        wanted = 1 if whole else max(blocks, few)
        self._cuts = slices(self.n_obs, min(wanted, self.n_obs))
        share = max(1, threads // len(self._cuts))
        self._few = BoundChunks(self._bind_density, self._cuts, threads, 1)
        self._many = BoundChunks(partial(self._bind, threads=share), self._cuts, threads, share)

    def log_density(self, draws: Float) -> Float:
        """Log posterior density of the author's program, up to a constant: (S, P) → (S,).

        The data are read again for every few draws: Stan's copies of ten million numbers fill a
        gigabyte, or twenty where it reads rows in a loop, and a fit asks only twice.
        """
        if len(draws) > _FEW_STORED:
            total, count = self._many.sums("log_density", draws)
        else:
            total, count = self._few.briefly(draws)
        return _without_priors(total, count - 1, self.prior, draws)

    def compare(self, draws: Float, ours: Callable[[StanData], Float]) -> Comparison:
        """Compare log densities at draws (S, P) with those of the author's program.

        `ours` gives our log densities (S,) of the rows in some data, as weighted there.
        """
        error = _disagreement(self.log_density(draws), ours(self.data))
        return Comparison(error, len(draws), self.n_obs, self.n_obs)

    def _bind(self, cut: slice, threads: int) -> BoundModel:
        return self._compiled.bind(self._rows(cut), threads=threads)

    def _bind_density(self, cut: slice) -> Density:
        return self._compiled.bind_density(self._rows(cut))

    def _rows(self, cut: slice) -> dict[str, Any]:
        data = self.data
        if len(self._cuts) > 1:
            data = self._weighted.subset(data, cut, data[self._weighted.weights][cut])
        return {name: data[name] for name in self._names if name in data}

    def close(self) -> None:
        """Release the engine's copies of the data."""
        for part in (self._many, self.prior):
            part.close()


@dataclass(frozen=True)
class ShownWitness(Closing):
    """The author's program on blocks of rows, some `of` as many, each as data of its own.

    It computes statistics of the rows that it sees at once, and so do we of the same rows.
    """

    blocks: Sequence[Witness]
    of: int

    @property
    def prior(self) -> BoundModel:
        """The program without rows."""
        return self.blocks[0].prior

    def compare(self, draws: Float, ours: Callable[[StanData], Float]) -> Comparison:
        """See `Witness.compare`; the error is the largest of any block."""
        found = [block.compare(draws, ours) for block in self.blocks]
        rows = sum(one.rows for one in found)
        return Comparison(float(np.max([one.error for one in found])), len(draws), rows, self.of)

    def close(self) -> None:
        """Release the engine's copies of the data."""
        for block in self.blocks:
            block.close()


@dataclass(frozen=True)
class StoredWitness:
    """The author's program, compiled, on rows that stay on disk, chunk by chunk."""

    compiled: Compiled
    original: StanProgram
    weighted: WeightedProgram
    stored: StoredRows = field(repr=False)
    prior: BoundModel = field(repr=False)

    def compare(self, kernel: Kernel, draws: Float, rows: int = 250_000) -> Comparison:
        """Compare the author's program with our kernel on the same rows of every chunk.

        About `rows` are compared in all, besides some of each pattern; see `_patterns`.
        """
        names = tuple(declared.name for declared in self.original.data)
        share = min(1.0, rows / self.stored.n_obs)
        values = self.stored.row_values
        pair = _Pair(self.compiled, self.weighted, values, names, kernel, share)
        theirs, ours, shown, priors = self.stored.sums(pair, "log_density", draws)
        ours = _without_priors(ours, -priors, self.prior, draws)
        return Comparison(_disagreement(theirs, ours), len(draws), shown, self.stored.n_obs)

    def close(self) -> None:
        """Release the engine's memory, which holds no rows."""
        self.prior.close()


@dataclass(frozen=True)
class _Pair:
    """The author's program and our kernel on the same rows of a chunk; see `Kernel`.

    These are some of each pattern and a share of the rest. `names` are the author's data.
    """

    compiled: Compiled
    weighted: WeightedProgram = field(repr=False)
    values: StanData = field(repr=False)
    names: tuple[str, ...]
    kernel: Kernel
    share: float

    def evaluate(self, method: str, chunk: dict[str, Any], draws: Float) -> Sums:
        """Log densities by author and kernel, number of rows, and priors that the kernel lacks."""
        if self.weighted.weights not in self.names:  # which the author's program does not use
            chunk = {name: value for name, value in chunk.items() if name != self.weighted.weights}
        if self.share < 1:
            rows = shown_rows(chunk, int(self.share * row_count(chunk)))
            chunk = {name: value[rows] for name, value in chunk.items()}
        numbers = sum(np.size(value) for value in chunk.values())
        cuts = slices(row_count(chunk), max(1, -(-numbers // _NUMBERS)))
        theirs = [self._theirs({k: v[cut] for k, v in chunk.items()}, draws) for cut in cuts]
        ours, contained = self.kernel.evaluate(method, chunk, draws)
        return sum(theirs[1:], theirs[0]), ours, row_count(chunk), len(cuts) - contained

    def _theirs(self, rows: dict[str, Any], draws: Float) -> Float:
        """Log density of a few rows by the author's program."""
        data = stan_rows(self.weighted, self.values, rows)
        bound = self.compiled.bind_density({n: data[n] for n in self.names if n in data})
        with closing(bound):
            return bound.log_density(draws)


def shown_rows(chunk: Mapping[str, Any], count: int) -> NDArray[np.int64]:
    """Numbers of `count` of the rows, evenly spread, the extreme ones, and some of each pattern."""
    some = np.linspace(0, row_count(chunk) - 1, count).astype(np.int64)
    columns = [np.reshape(value, (len(value), -1)) for value in chunk.values() if len(value)]
    extreme = [end(column, axis=0) for column in columns for end in (np.argmin, np.argmax)]
    return np.unique(np.concatenate([some, _patterns(chunk), *extreme]))


def _patterns(chunk: Mapping[str, Any], most: int = 1_000) -> NDArray[np.int64]:
    """The first row of each pattern of zeros and signs, and of each level of an integer.

    A part of a predictor that vanishes on most rows, such as an interaction of two rare
    indicators, does not vanish on the rows of some pattern. Of many patterns, and of many levels,
    those that occur last are shown, for rare ones are among these.

    >>> _patterns({"x": np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 0.0]])}).tolist()
    [0, 2]
    """
    rng = np.random.default_rng(0)
    pattern: Float = np.zeros(row_count(chunk))
    firsts = []
    for value in chunk.values():
        columns = np.reshape(value, (len(value), -1))
        # Sums of whole numbers below 2^53 are exact: equal patterns have one number.
        pattern += np.sign(columns) @ rng.integers(2**40, size=columns.shape[1]).astype(np.float64)
        if columns.shape[1] == 1 and np.issubdtype(columns.dtype, np.integer):
            firsts.append(_first_of_each(columns[:, 0])[-most:])
    return np.unique(np.concatenate([*firsts, _first_of_each(pattern)[-most:]]))


def _first_of_each(values: NDArray[Any]) -> NDArray[np.int64]:
    """Ascending position of the first of each distinct value, without sorting them."""
    import pandas as pd

    return np.flatnonzero(~pd.Index(values).duplicated())


class FullDensity(Protocol):
    """The full log density that a certificate uses."""

    @property
    def told(self) -> str:
        """The comparison with the author's program in words; empty without a witness."""
        ...

    def __call__(self, draws: Float, tick: Callable[[int], object] | None = None) -> Float:
        """Log posterior density of the full data, (S, P) → (S,), up to a constant."""
        ...

    def check(self, draws: Float) -> None:
        """Compare with the author's program at some of these draws, unless it decides."""
        ...


@dataclass(eq=False)
class WitnessedDensity:
    """The full log density at a certificate's draws, by the author's program or checked by it.

    `full` is our evaluation, on all rows; without a `witness`, because not all rows are available,
    it is used unchecked. If the data have weights, which the author's program does not use, or it
    sees some of the rows only, `unit` gives our evaluation of what it sees. The `tolerance` is
    larger if the program solves equations numerically.
    """

    full: FullData
    witness: Witness | ShownWitness | StoredWitness | None = None
    unit: Callable[[StanData], FullData] | None = None
    name: str = "model"
    tolerance: float = TOLERANCE
    #: Compares engines at a few draws, and says what it found; raises if they differ.
    second: Callable[[Float], str] | None = None
    #: The comparison; None before the first draws, or without a witness.
    comparison: Comparison | None = field(default=None, init=False)
    _constant: float = field(default=0.0, init=False)
    _of_engines: str = field(default="", init=False)

    @property
    def told(self) -> str:
        """See `FullDensity.told`."""
        told = "" if self.comparison is None else str(self.comparison)
        return "; ".join(filter(None, (told, self._of_engines)))

    @property
    def decides(self) -> bool:
        """Whether the author's program evaluates every draw, ours not being much cheaper."""
        return isinstance(self.witness, Witness) and self.unit is None and not self.full.fast

    def __call__(self, draws: Float, tick: Callable[[int], object] | None = None) -> Float:
        """Log posterior density of the full data, (S, P) → (S,), up to a constant.

        The constant is that of `FullData.log_density`, whichever program evaluates. An
        IdentityError is raised if our much cheaper evaluation differs from the author's program.
        """
        if self.comparison is None and self.second is not None:
            self._of_engines = self.second(draws[_spread(len(draws))])
        if not self.decides:
            ours = self.full.log_likelihood(draws, tick) + self.full.log_prior(draws)
            if self.comparison is None:
                self._check(draws, ours)
            return ours
        assert isinstance(self.witness, Witness)
        theirs = self.witness.log_density(draws)
        self.full.passes.add(densities=len(draws))
        if tick is not None:
            tick(len(draws))
        if self.comparison is None:
            at = _spread(len(draws))
            ours = self.full.log_density(draws[at])
            self._constant = _constant(ours, theirs[at])
            n_obs = self.witness.n_obs
            error = _disagreement(theirs[at], ours)
            self.comparison = Comparison(error, len(draws), n_obs, n_obs, decides=True)
        return theirs + self._constant

    def check(self, draws: Float) -> None:
        """See `FullDensity.check`."""
        if not self.decides:
            self._check(draws, self.full.log_density(draws))

    def _check(self, draws: Float, ours: Float) -> None:
        """Compare our log densities with the author's at a few of these draws."""
        if self.witness is None:
            return
        if isinstance(self.witness, StoredWitness):
            few = draws[_spread(len(draws), _FEW_STORED)]
            assert self.full.kernel is not None  # rows on disk have one
            found = self.witness.compare(self.full.kernel, few)
        else:
            at = _spread(len(draws))
            few = draws[at]
            found = self.witness.compare(few, lambda data: self._on(data, few, ours[at]))
        self.comparison = found
        self.full.passes.add(densities=found.draws, share=found.rows / found.n_obs)
        if not found.error <= self.tolerance:
            by = self.full.passes.likelihood or (
                "Stan, on the distinct rows" if self.full.passes.distinct else "Stan, without loops"
            )
            raise IdentityError(
                f"the log density of '{self.name}' as it is written and as stancoreset evaluates "
                f"it ({by}) differ by a relative {found.error:.1e} at {found.draws} draws on "
                f"{found.rows:,} rows; expected at most {self.tolerance:.0e}: no result of this "
                "fit can be trusted. Fit with CoresetModel(..., glm=False), which leaves more to "
                "Stan, and report the program"
            )

    def _on(self, data: StanData, draws: Float, ours: Float) -> Float:
        """Our log densities of the rows that the author's program sees; `ours` are of all rows."""
        if self.unit is None:
            return ours
        with self.unit(data) as own:
            return own.briefly(draws) + own.log_prior(draws)


def _spread(length: int, count: int = 5) -> NDArray[np.int64]:
    """Positions of `count` draws, from the first to the last."""
    return np.unique(np.linspace(0, length - 1, min(count, length)).astype(np.int64))


def _without_priors(values: Float, priors: int, prior: BoundModel, draws: Float) -> Float:
    """Subtract the log prior `priors` times, if at all."""
    return without_priors((values, priors), prior.log_density(draws)) if priors else values


def _constant(ours: Float, theirs: Float) -> float:
    """Constant difference of our and their log densities, where both are finite."""
    finite = np.isfinite(ours) & np.isfinite(theirs)
    return float(np.median(ours[finite] - theirs[finite])) if np.any(finite) else 0.0


def _disagreement(theirs: Float, ours: Float) -> float:
    """Largest difference up to a constant, relative to the magnitude of the log densities."""
    finite = np.isfinite(theirs)
    if not np.array_equal(finite, np.isfinite(ours)):
        return float("inf")
    if not np.any(finite):
        return float("nan")
    difference = (ours - theirs)[finite]
    size = 1.0 + float(np.max(np.abs(ours[finite])))
    return float(np.max(np.abs(difference - np.median(difference)))) / size
