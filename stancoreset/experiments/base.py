"""What every experiment shares: settings, algorithms, trials, and the table of medians and bands.

An experiment yields records, one for each coreset that it built; everything else, the bands over
trials, the printed table, the files and the picture, follows from the records alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stancoreset.errors import OptionError
from stancoreset.selection.solvers import METHODS, SolverResult, single_threaded, solve

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "Algorithm",
    "Experiment",
    "Metric",
    "Outcome",
    "Settings",
    "Trial",
    "described",
    "run",
    "select",
    "solver_seed",
    "standard_algorithms",
]

Float = NDArray[np.float64]
Record = dict[str, Any]

#: Methods that grow their coreset row by row, so that one run passes through all sizes. The others
#: start anew for every size, and their time is the time for that size alone.
GROWING = ("uniform", "importance", "frank_wolfe", "giga", "orthogonal_pursuit")
ITERATIVE = ("iht", "aiht", "aiht2")
ORDER = (*GROWING[:-1], *ITERATIVE, GROWING[-1], "pursuit")


@dataclass(frozen=True)
class Algorithm:
    """A method of `stancoreset.solvers` with options, under its label in the results.

    Examples
    --------
    >>> Algorithm("aiht").label
    'aiht'
    """

    method: str
    options: dict[str, Any] = field(default_factory=dict)
    name: str = ""

    @property
    def label(self) -> str:
        """Name in tables and pictures."""
        return self.name or self.method


@dataclass(frozen=True)
class Settings:
    """How large an experiment is.

    Attributes
    ----------
    trials : int
        Number of repetitions.
    sizes : tuple of int
        Coreset sizes k; for ``vectors`` the iterations that are looked at.
    rows : int
        N. A real data set with fewer rows is used whole.
    draws : int
        S, draws of the weighting distribution; 0 where the projection is exact.
    iterations : int
        Limit of the IHT family.
    methods : tuple of str
        Labels to keep; empty: all.
    """

    trials: int
    sizes: tuple[int, ...]
    rows: int
    draws: int = 0
    iterations: int = 300
    methods: tuple[str, ...] = ()

    def checked(self) -> Settings:
        """Return it, or raise an `OptionError` that names what is wrong."""
        for name, least in (("trials", 1), ("rows", 2), ("iterations", 1)):
            if getattr(self, name) < least:
                raise OptionError(
                    f"{name} is {getattr(self, name)}; expected a whole number of at least {least}"
                )
        if not self.sizes or min(self.sizes) < 1:
            raise OptionError(f"sizes are {list(self.sizes)}; expected whole numbers of at least 1")
        return replace(self, sizes=tuple(sorted(set(self.sizes))))


@dataclass(frozen=True)
class Metric:
    """A column of the records that is summarised: its name, and the words for an axis."""

    column: str
    label: str


Trial = Callable[[Settings, "list[Algorithm]", np.random.Generator], Iterator[Record]]


@dataclass(frozen=True)
class Experiment:
    """An experiment of a paper.

    Attributes
    ----------
    name, title, source : str
        What it is called here and what it is, and where it is described.
    note : str
        How the data differ from the paper's, if they do.
    trial : callable
        ``trial(settings, algorithms, rng)`` yields the records of one repetition.
    paper, quick : Settings
        The paper's settings, and those of a minute's version.
    metrics : tuple of Metric
        What is shown.
    band : pair of float
        Percentiles over trials.
    x : str
        Column on the horizontal axis, ``size`` or ``iteration``.
    algorithms : callable
        ``algorithms(settings)`` gives what is compared; default: every method.
    """

    name: str
    title: str
    source: str
    trial: Trial = field(repr=False)
    paper: Settings
    quick: Settings
    metrics: tuple[Metric, ...]
    band: tuple[float, float]
    note: str = ""
    x: str = "size"
    algorithms: Callable[[Settings], list[Algorithm]] | None = None


@dataclass(frozen=True)
class Outcome:
    """The records of an experiment, one row for each coreset, and how they came about."""

    experiment: Experiment
    settings: Settings
    seed: int
    records: pd.DataFrame = field(repr=False)

    def summary(self) -> pd.DataFrame:
        """Median and band over trials: one row for each data set, method, size and metric."""
        import pandas as pd

        low, high = (q / 100 for q in self.experiment.band)
        keys = ["dataset", "method", self.experiment.x]
        parts = []
        for metric in self.experiment.metrics:
            grouped = self.records.groupby(keys, sort=False)[metric.column]
            part = pd.DataFrame(
                {
                    "median": grouped.median(),
                    "low": grouped.quantile(low),
                    "high": grouped.quantile(high),
                }
            ).reset_index()
            part.insert(3, "metric", metric.column)
            parts.append(part)
        return pd.concat(parts, ignore_index=True)

    def table(self, columns: int = 3) -> pd.DataFrame:
        """Medians at a few sizes: one row for each data set and method, to be read by people."""
        x = self.experiment.x
        present = sorted(self.records[x].unique())
        places = np.linspace(0, len(present) - 1, min(columns + 1, len(present))).round()
        chosen = [present[int(i)] for i in places][-columns:]
        shown = self.summary()
        shown = shown[shown[x].isin(chosen)]
        wide = shown.pivot(index=["dataset", "method"], columns=["metric", x], values="median")
        order = self.records[["dataset", "method"]].drop_duplicates()
        wide = wide.reindex(list(order.itertuples(index=False, name=None)))
        return wide[[(m.column, k) for m in self.experiment.metrics for k in chosen]]


def standard_algorithms(settings: Settings) -> list[Algorithm]:
    """Every method there is, the IHT family with the limit of `settings` on its iterations.

    Examples
    --------
    >>> [a.label for a in standard_algorithms(Settings(1, (5,), 10))][-1]
    'pursuit'
    """
    return [
        Algorithm(m, {"max_iter": settings.iterations} if m in ITERATIVE else {})
        for m in ORDER
        if m in METHODS
    ]


def select(
    phi: Float, target: Float, algorithm: Algorithm, sizes: Sequence[int], seed: int
) -> Iterator[tuple[int, SolverResult]]:
    """Yield (size, result) for each size; ``result.seconds`` is the time needed for that size.

    Parameters
    ----------
    phi : array, shape (S, M)
    target : array, shape (S,)
    algorithm : Algorithm
    sizes : sequence of int
        Increasing.
    seed : int

    Examples
    --------
    >>> phi = np.random.default_rng(0).standard_normal((5, 50))
    >>> chosen = select(phi, phi.sum(axis=1), Algorithm("giga"), [2, 4], seed=1)
    >>> [size for size, _ in chosen]
    [2, 4]
    """
    method, options = algorithm.method, algorithm.options
    if method in GROWING:
        path = solve(phi, target, sizes[-1], method, seed, path=sizes, **options).path
        yield from zip(sizes, path, strict=True)
        return
    for size in sizes:
        yield size, solve(phi, target, size, method, seed, **options)


def run(
    experiment: Experiment,
    settings: Settings,
    seed: int = 1,
    on_trial: Callable[[int, float], object] | None = None,
) -> Outcome:
    """Run all trials of an experiment.

    Trial t draws its data and everything else from ``default_rng([seed, t])``: equal seeds give
    equal records but for the seconds, and more trials leave the earlier ones as they are.

    Parameters
    ----------
    experiment : Experiment
    settings : Settings
    seed : int
    on_trial : callable, optional
        Called with (trials done, seconds of the last one).

    Raises
    ------
    OptionError
        Settings that make no sense, or a method that the experiment does not know.
    DataError
        A data set that is not installed.
    """
    import pandas as pd

    settings = settings.checked()
    if seed < 0:
        raise OptionError(f"seed is {seed}; expected a whole number of at least 0")
    if experiment.paper.draws and settings.draws < 2:
        raise OptionError(f"draws is {settings.draws}; expected a whole number of at least 2")
    if settings.draws and not experiment.paper.draws:
        raise OptionError(f"draws is {settings.draws}, but {experiment.name} needs no draws")
    known = (experiment.algorithms or standard_algorithms)(settings)
    labels = [algorithm.label for algorithm in known]
    unknown = [m for m in settings.methods if m not in labels]
    if unknown:
        raise OptionError(
            f"method {unknown[0]!r} is not part of {experiment.name}; there are {', '.join(labels)}"
        )
    algorithms = [a for a in known if not settings.methods or a.label in settings.methods]
    records: list[Record] = []
    for trial in range(settings.trials):
        started = perf_counter()
        rng = np.random.default_rng([seed, trial])
        for record in _records(experiment, settings, algorithms, rng):
            records.append({"trial": trial, **record})
        if on_trial is not None:
            on_trial(trial + 1, perf_counter() - started)
    return Outcome(experiment, settings, seed, pd.DataFrame(records))


@single_threaded  # so that the seconds of all algorithms mean the same
def _records(
    experiment: Experiment,
    settings: Settings,
    algorithms: list[Algorithm],
    rng: np.random.Generator,
) -> list[Record]:
    return list(experiment.trial(settings, algorithms, rng))


def described(dataset: str, algorithm: Algorithm, size: int, result: SolverResult) -> Record:
    """The part of a record that every experiment over sizes has."""
    return {
        "dataset": dataset,
        "method": algorithm.label,
        "size": size,
        "rows": len(result.indices),
        "iterations": result.n_iter,
        "relative_error": result.relative_error,
        "seconds": result.seconds,
    }


def solver_seed(rng: np.random.Generator) -> int:
    """A seed for the solvers, from a trial's generator."""
    return int(rng.integers(2**31))
