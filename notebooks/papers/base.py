"""Settings, algorithms, trials, and the table of medians and bands of every experiment.

An experiment yields one record per coreset; the bands over trials, the printed table, the files
and the picture all follow from the records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from papers.store import Store
from stancoreset.errors import OptionError
from stancoreset.selection.solvers import METHODS, SolverName, SolverResult, single_threaded, solve

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = [
    "FLOOR",
    "Algorithm",
    "Experiment",
    "Metric",
    "Outcome",
    "Settings",
    "Trial",
    "coresets",
    "followed",
    "measured",
    "run",
    "select",
    "solver_seed",
    "standard_algorithms",
    "stored",
]

T = TypeVar("T")

Float = NDArray[np.float64]
Record = dict[str, Any]

#: Divergences and errors below this are rounding, and are drawn at this value.
FLOOR = 1e-13

#: Methods that grow their coreset row by row, so that one run covers all sizes. The others
#: restart for every size, and their time is the time for that size alone.
GROWING = ("uniform", "importance", "frank_wolfe", "giga", "orthogonal_pursuit")
ITERATIVE = ("iht", "aiht", "aiht2")
ORDER = (*GROWING[:-1], *ITERATIVE, GROWING[-1], "pursuit")


@dataclass(frozen=True)
class Algorithm:
    """A method of `stancoreset.solvers`, or of an experiment, with options and a label.

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
    """The size of an experiment.

    `sizes` are those of the coresets, k, or for ``vectors`` the recorded iterations. A real data
    set of fewer than `rows` is used whole. `draws` is the number S of draws of the weighting
    distribution, 0 if the projection is exact; `iterations` limits the IHT family; `updates` is the
    number of weight updates of SparseVI for each row; `methods` lists the labels to keep, all if it
    is empty; `data` is a folder with tables of the papers, see `papers.datasets`.
    """

    trials: int
    sizes: tuple[int, ...]
    rows: int
    draws: int = 0
    iterations: int = 300
    updates: int = 10
    methods: tuple[str, ...] = ()
    data: str | None = None

    def checked(self) -> Settings:
        """Return these settings, or raise an `OptionError` that names the invalid one."""
        for name, least in (("trials", 1), ("rows", 2), ("iterations", 1), ("updates", 1)):
            if getattr(self, name) < least:
                raise OptionError(
                    f"{name} is {getattr(self, name)}; expected a whole number of at least {least}"
                )
        if not self.sizes or min(self.sizes) < 1:
            raise OptionError(f"sizes are {list(self.sizes)}; expected whole numbers of at least 1")
        return replace(self, sizes=tuple(sorted(set(self.sizes))))


@dataclass(frozen=True)
class Metric:
    """A summarised column of the records, with its name and axis label.

    Its axis is logarithmic if its values differ by `orders` of magnitude.
    """

    column: str
    label: str
    orders: bool = True


Trial = Callable[[Settings, "list[Algorithm]", np.random.Generator], Iterator[Record]]


@dataclass(frozen=True)
class Experiment:
    """An experiment of a paper.

    `source` is the passage that describes it, and `note` says how its data differ from the paper's.
    ``trial(settings, algorithms, rng)`` yields the records of one repetition. `band` holds
    percentiles over trials, and `x` is the column on the horizontal axis, ``size`` or
    ``iteration``. ``algorithms(settings)`` gives the compared algorithms; default: every method.
    ``picture(outcome)`` draws another picture than medians and bands. `x_labels` name the
    horizontal axes of data sets, if one name does not suit all. Values below `floor` are drawn
    there, and the legend says what they are: `below`.
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
    picture: Callable[[Outcome], Figure] | None = field(default=None, repr=False)
    x_labels: Mapping[str, str] = field(default_factory=dict, repr=False)
    floor: float = FLOOR
    below: str = "rounding"


@dataclass(frozen=True)
class Outcome:
    """The records of an experiment, one row per coreset, with experiment and settings."""

    experiment: Experiment
    settings: Settings
    seed: int
    records: pd.DataFrame = field(repr=False)

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The experiment's metrics, but for those that need a package that is not installed."""
        return tuple(m for m in self.experiment.metrics if m.column in self.records)

    def summary(self) -> pd.DataFrame:
        """Median and band over trials, one row per data set, method, size and metric."""
        import pandas as pd

        low, high = (q / 100 for q in self.experiment.band)
        keys = ["dataset", "method", self.experiment.x]
        parts = []
        for metric in self.metrics:
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
        """Medians at a few sizes, one row per data set and method, for printing."""
        x = self.experiment.x
        present = sorted(self.records[x].unique())
        places = np.linspace(0, len(present) - 1, min(columns + 1, len(present))).round()
        chosen = [present[int(i)] for i in places][-columns:]
        shown = self.summary()
        shown = shown[shown[x].isin(chosen)]
        wide = shown.pivot(index=["dataset", "method"], columns=["metric", x], values="median")
        order = self.records[["dataset", "method"]].drop_duplicates()
        wide = wide.reindex(list(order.itertuples(index=False, name=None)))
        return wide[[(m.column, k) for m in self.metrics for k in chosen]]


def standard_algorithms(settings: Settings) -> list[Algorithm]:
    """List every method, with the iteration limit of `settings` for the IHT family.

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
    """Yield (size, result) for each of increasing sizes; ``result.seconds`` is that size's time.

    >>> phi = np.random.default_rng(0).standard_normal((5, 50))
    >>> chosen = select(phi, phi.sum(axis=1), Algorithm("giga"), [2, 4], seed=1)
    >>> [size for size, _ in chosen]
    [2, 4]
    """
    method, options = cast(SolverName, algorithm.method), algorithm.options
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
    budget: float | None = None,
    store: Store | None = None,
) -> Outcome:
    """Run all trials of an experiment, or as many as end within a budget of seconds.

    Trial t uses ``default_rng([seed, t])`` for its data and everything else: equal seeds give equal
    records except for the seconds, and more trials do not change the earlier ones. `on_trial` is
    called with (trials done, seconds of the last one). With a `budget`, no trial is begun that
    would exceed it if it took as long as the longest so far; the first is always run. Trials are
    kept in `store` as soon as they end; those that it takes up are not run again. An
    `OptionError` is raised if settings are invalid, or the experiment does not include a method; a
    `DataError` if a data set is not installed.
    """
    import pandas as pd

    settings = settings.checked()
    if seed < 0:
        raise OptionError(f"seed is {seed}; expected a whole number of at least 0")
    if budget is not None and not budget > 0:
        raise OptionError(f"budget is {budget}; expected seconds above 0")
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
    records = [] if store is None else store.earlier()
    records = [record for record in records if record["trial"] < settings.trials]
    done = len({record["trial"] for record in records})
    began, longest = perf_counter(), 0.0
    for trial in range(done, settings.trials):
        started = perf_counter()
        if budget is not None and trial and started - began + longest > budget:
            break
        rng = np.random.default_rng([seed, trial])
        for record in _records(experiment, settings, algorithms, rng):
            records.append({"trial": trial, **record})
        took, done = perf_counter() - started, trial + 1
        longest = max(longest, took)
        if store is not None:
            store.keep(records)
        if on_trial is not None:
            on_trial(done, took)
    return Outcome(experiment, replace(settings, trials=done), seed, pd.DataFrame(records))


def stored(experiment: Experiment, folder: str | Path) -> Outcome:
    """Read the trials that ``python notebooks/papers`` kept in a folder."""
    import json

    store = Store(Path(folder, f"{experiment.name}-trials.csv"))
    records = store.read()
    about = json.loads(store.settings.read_text(encoding="utf-8"))
    seed = about.pop("seed")
    about |= {name: tuple(about[name]) for name in ("sizes", "methods")}
    settings = Settings(trials=records["trial"].nunique(), **about)
    return Outcome(experiment, settings, seed, records)


@single_threaded  # so that the seconds of all algorithms mean the same
def _records(
    experiment: Experiment,
    settings: Settings,
    algorithms: list[Algorithm],
    rng: np.random.Generator,
) -> list[Record]:
    return list(experiment.trial(settings, algorithms, rng))


def coresets(
    dataset: str,
    projection: tuple[Float, Float],
    settings: Settings,
    algorithms: list[Algorithm],
    seed: int,
    distances: Callable[[SolverResult], Record],
) -> Iterator[Record]:
    """Yield a record of each solver's coreset of each size, with its `distances`."""
    for algorithm in algorithms:
        if algorithm.method in METHODS:
            for size, result in select(*projection, algorithm, settings.sizes, seed):
                yield {"dataset": dataset, **measured(algorithm, size, result, distances)}


def measured(
    algorithm: Algorithm,
    size: int,
    result: SolverResult,
    distances: Callable[[SolverResult], Record],
) -> Record:
    """One coreset's record, but for the data set."""
    return {
        "method": algorithm.label,
        "size": size,
        "rows": len(result.indices),
        "iterations": result.n_iter,
        "relative_error": result.relative_error,
        "seconds": result.seconds,
        **distances(result),
    }


def followed(path: Sequence[T], sizes: Iterable[int]) -> Iterator[tuple[int, T]]:
    """Yield iterations and the values of a path after them; it stays where it ends.

    >>> list(followed([3.0, 2.0], (1, 2, 10)))
    [(1, 3.0), (2, 2.0), (10, 2.0)]
    """
    for iteration in sizes:
        yield iteration, path[min(iteration, len(path)) - 1]


def solver_seed(rng: np.random.Generator) -> int:
    """Draw a seed for the solvers from a trial's generator."""
    return int(rng.integers(2**31))
