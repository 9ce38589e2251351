"""Correlated topic models: Khan et al. (2016), section 7.2 and figure 3, with ten topics.

NIPS and AP are not at hand; with their counts of words (``--data DIR``, see
`papers.datasets`) topics are learned alone. Otherwise the documents are drawn from
the model, with as many words each, and as many words of the vocabulary for each document, as these
have. Half of them are for training, and the rest are halved: q is fitted to the first half of their
words, and the second half is predicted.

* ``topics known``: q alone differs between methods, and one step for all documents is a pass.
  ``exact`` is the posterior, by importance sampling.
* ``topics learned``: β, μ and Σ are learned by EM from the same random start, with five steps for
  each document in a pass. The paper does not say how it learns them.

``PG`` has averages over draws and a full covariance, ``PG-MF`` a diagonal one. They see all
documents before β, μ and Σ change; ``PG-SVI`` and ``PG-SVI-MF`` see two, as in the paper. Laplace,
delta and MF are those that the paper compares with (`papers.correlated_topics`),
but with the same steps and the same EM; ``Laplace, batches`` sees two documents as well, and
``Laplace, summed`` is the Laplace approximation with the topics of words summed out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import count, islice
from time import process_time
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from papers.base import (
    Algorithm,
    Experiment,
    Metric,
    Outcome,
    Record,
    Settings,
    solver_seed,
)
from papers.correlated_topics import (
    Corpus,
    Expectations,
    Posteriors,
    Topics,
    by_draws,
    delta,
    fitted,
    laplace,
    learned,
    log_likelihood,
    log_predictive,
    mean_field,
    sampled,
    weighted_draws,
)
from papers.datasets import counts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["CORPORA", "CTM", "random_start", "truth"]

Float = NDArray[np.float64]
T = TypeVar("T")

#: Words of a document, and words of the vocabulary for each document: 436,000/2,246 and
#: 10,473/2,246 in AP, 1.9 million/1,500 and 12,419/1,500 in NIPS.
CORPORA = {"AP": (194.0, 4.66), "NIPS": (1267.0, 8.28)}
KNOWN, LEARNED = "topics known", "topics learned"
#: Left out of learning, where its Σ grows beyond all bounds.
SUMMED = "Laplace, summed"

TOPICS = 10
#: Documents of a batch.
BATCH = 2
#: Steps of every q that predicts, with learned topics.
TEST_STEPS = 30
#: Draws of every q that predicts, and of the posterior.
TEST_DRAWS = 200


def truth(vocabulary: int, rng: np.random.Generator) -> Topics:
    """Draw ten topics that share their frequent words, and correlations between them.

    Word n has the share 1/n of all words; a topic is from a Dirichlet distribution of that mean,
    with a tenth of the vocabulary as its concentration. Standard deviations of z are about 1.4.
    """
    frequency = 1.0 / np.arange(1, vocabulary + 1)
    frequency /= frequency.sum()
    words = rng.gamma(0.1 * vocabulary * np.tile(frequency[:, None], TOPICS)) + 1e-12
    spread = rng.standard_normal((TOPICS, TOPICS))
    cov = 1.5 * (spread @ spread.T / TOPICS + 0.3 * np.eye(TOPICS))
    return Topics(words / words.sum(axis=0), 0.5 * rng.standard_normal(TOPICS), cov)


def divided(table: Float, documents: int, rng: np.random.Generator) -> tuple[Corpus, list[Corpus]]:
    """Random documents of a table of counts: half of them, and the others' words in two halves.

    >>> train, halves = divided(np.full((9, 5), 6.0), 8, np.random.default_rng(0))
    >>> len(train), [len(half) for half in halves]
    (4, [4, 4])
    """
    long = np.flatnonzero(table.sum(axis=1) > 1)
    chosen = rng.permutation(long)[:documents]
    words = table[chosen].astype(np.int64)
    rest = words[len(words) // 2 :]
    first = rng.binomial(rest, 0.5)
    return Corpus.of(words[: len(words) // 2]), [Corpus.of(first), Corpus.of(rest - first)]


def random_start(corpus: Corpus, vocabulary: int, rng: np.random.Generator) -> Topics:
    """Topics with the words of a twentieth of the documents each, and one of each word."""
    words = np.ones((vocabulary, TOPICS))
    for topic in range(TOPICS):
        some = rng.choice(len(corpus), max(1, len(corpus) // 20), replace=False)
        np.add.at(words[:, topic], corpus.words[some], corpus.counts[some])
    return Topics(words / words.sum(axis=0), np.zeros(TOPICS), np.eye(TOPICS))


def _algorithms(_settings: Settings) -> list[Algorithm]:
    return [
        Algorithm("PG"),
        Algorithm("PG", {"diagonal": True}, "PG-MF"),
        Algorithm("PG", {"batch": BATCH}, "PG-SVI"),
        Algorithm("PG", {"batch": BATCH, "diagonal": True}, "PG-SVI-MF"),
        Algorithm("Laplace"),
        Algorithm("Laplace", {"batch": BATCH}, "Laplace, batches"),
        Algorithm("Laplace", {"summed": True}, SUMMED),
        Algorithm("delta"),
        Algorithm("MF", {"diagonal": True}),
        Algorithm("exact"),
    ]


def _expectations(algorithm: Algorithm, draws: int, seed: int) -> Expectations:
    if algorithm.method == "PG":
        return by_draws(draws, np.random.default_rng([seed, 1]))
    if algorithm.method == "Laplace":
        return laplace(algorithm.options.get("summed", False))
    return delta if algorithm.method == "delta" else mean_field


def _batches(documents: int, batch: int, seed: int) -> Iterator[list[NDArray[np.intp]]]:
    """The batches of each pass: all documents, or so many at a time in random order."""
    if not batch:
        return ([np.arange(documents)] for _ in count())
    rng = np.random.default_rng([seed, 2])
    parts = -(-documents // batch)
    return (np.array_split(rng.permutation(documents), parts) for _ in count())


def _trial(
    settings: Settings, algorithms: list[Algorithm], rng: np.random.Generator
) -> Iterator[Record]:
    documents = max(1, settings.rows // 2)
    for name, (length, ratio) in CORPORA.items():
        seed = solver_seed(rng)
        data = np.random.default_rng(seed)
        table, topics = counts(name, settings.data, 2), None
        if table is None:
            vocabulary = max(2 * TOPICS, round(ratio * settings.rows))
            topics = truth(vocabulary, data)
            (train,) = sampled(topics, documents, length, 1, data)
            halves = sampled(topics, documents, length / 2, 2, data)
        else:
            vocabulary = table.shape[1]
            train, halves = divided(table, settings.rows, data)
        start = random_start(train, vocabulary, data)
        for algorithm in algorithms:
            numbers, draws = settings.sizes, settings.draws
            parts: list[tuple[str, Iterable[tuple[int, Record, float]]]] = []
            # The topics of real documents are not known.
            if topics is not None and algorithm.method == "exact":
                exact = _exact(halves, topics, seed)
                parts += [(KNOWN, ((number, exact, 0.0) for number in numbers))]
            elif topics is not None and "batch" not in algorithm.options:
                parts += [(KNOWN, _known(algorithm, halves, topics, numbers, draws, seed))]
            if algorithm.label not in ("exact", SUMMED):
                learning = _learned(algorithm, train, halves, start, numbers, draws, seed)
                parts += [(LEARNED, learning)]
            for part, reached in parts:
                for number, measured, seconds in reached:
                    yield {
                        "dataset": f"{name}, {part}",
                        "method": algorithm.label,
                        "pass": number,
                        **measured,
                        "seconds": seconds,
                    }


def _known(
    algorithm: Algorithm,
    halves: list[Corpus],
    topics: Topics,
    numbers: tuple[int, ...],
    draws: int,
    seed: int,
) -> Iterator[tuple[int, Record, float]]:
    """Recorded passes, what q predicts after them, and the seconds of the steps so far."""
    expectations = _expectations(algorithm, draws, seed)
    start = _start(algorithm, topics, len(halves[0]))
    steps = fitted(halves[0], topics, start, 1.0, expectations)
    for number, q, seconds in _timed(steps, numbers):
        yield number, _predicted(halves, topics, q, seed), seconds


def _learned(
    algorithm: Algorithm,
    train: Corpus,
    halves: list[Corpus],
    start: Topics,
    numbers: tuple[int, ...],
    draws: int,
    seed: int,
) -> Iterator[tuple[int, Record, float]]:
    """The same with the topics after these passes, of which every q takes as many steps."""
    diagonal = algorithm.options.get("diagonal", False)
    expectations = _expectations(algorithm, draws, seed)
    batches = _batches(len(train), algorithm.options.get("batch", 0), seed)
    passes = learned(train, start, expectations, diagonal, batches)
    for number, topics, seconds in _timed(passes, numbers):
        predicting = _expectations(algorithm, draws, seed)
        prior = _start(algorithm, topics, len(halves[0]))
        steps = fitted(halves[0], topics, prior, 1.0, predicting)
        q = next(islice(steps, TEST_STEPS - 1, None))
        yield number, _predicted(halves, topics, q, seed), seconds


def _start(algorithm: Algorithm, topics: Topics, documents: int) -> Posteriors:
    return Posteriors.prior(topics, documents, algorithm.options.get("diagonal", False))


def _timed(states: Iterable[T], numbers: tuple[int, ...]) -> Iterator[tuple[int, T, float]]:
    """The recorded passes, the state after them, and their seconds of processor time so far."""
    seconds, began = 0.0, process_time()
    for number, state in enumerate(islice(states, numbers[-1]), start=1):
        seconds += process_time() - began
        if number in numbers:
            yield number, state, seconds
        began = process_time()


def _predicted(halves: list[Corpus], topics: Topics, q: Posteriors, seed: int) -> Record:
    """Losses for each word of the second halves, and minus the bound for each first half."""

    def drawn(rows: NDArray[np.intp], rng: np.random.Generator) -> tuple[Float, Float, None]:
        here = q.of_rows(rows)
        z = here.at(rng.standard_normal((len(rows), TEST_DRAWS, TOPICS)))
        prior = Posteriors.prior(topics, len(rows)).log_density(z)
        log_joint = prior + log_likelihood(halves[0].of_rows(rows), topics, z)
        return z, np.mean(log_joint - here.log_density(z), axis=1), None

    return _measured(halves, topics, seed, drawn)


def _exact(halves: list[Corpus], topics: Topics, seed: int) -> Record:
    """The same of the posterior, whose bound is the log evidence."""

    def drawn(rows: NDArray[np.intp], rng: np.random.Generator) -> tuple[Float, Float, Float]:
        first = halves[0].of_rows(rows)
        z, log_weight = weighted_draws(first, topics, 4 * TEST_DRAWS, rng)
        return z, logsumexp(log_weight, axis=1) - np.log(4 * TEST_DRAWS), log_weight

    return _measured(halves, topics, seed, drawn)


def _measured(
    halves: list[Corpus],
    topics: Topics,
    seed: int,
    drawn: Callable[[NDArray[np.intp], np.random.Generator], tuple[Float, Float, Float | None]],
) -> Record:
    rng = np.random.default_rng([seed, 3])
    sums = np.zeros(3)
    for rows in halves[1].blocks(TEST_DRAWS):
        second = halves[1].of_rows(rows)
        z, bound, log_weight = drawn(rows, rng)
        own, printed = log_predictive(second, topics, z, log_weight)
        sums -= [own.sum(), printed.sum(), bound.sum()]
    words = halves[1].lengths.sum()
    loss, eq_20, bound_ = sums / [words, words, len(halves[0])]
    return {"loss": float(loss), "eq_20": float(eq_20), "bound": float(bound_)}


def _picture(outcome: Outcome) -> Figure:
    """Held-out losses against passes and, with learned topics, against processor time."""
    import matplotlib.pyplot as plt
    from matplotlib.ticker import NullFormatter

    from papers.figures import STYLES
    from stancoreset.posterior.plots import tidy

    medians = outcome.records.groupby(["dataset", "method", "pass"], sort=False).median(
        numeric_only=True
    )
    columns = ((KNOWN, "pass"), (LEARNED, "pass"), (LEARNED, "seconds"))
    figure, axes = plt.subplots(
        len(CORPORA),
        3,
        figsize=(11.0, 3.1 * len(CORPORA) + 0.8),
        squeeze=False,
        layout="constrained",
    )
    lines = {}
    for row, name in zip(axes, CORPORA, strict=True):
        for ax, (part, x) in zip(row, columns, strict=True):
            if f"{name}, {part}" not in medians.index:
                ax.set_axis_off()
                continue
            shown = medians.loc[f"{name}, {part}"].reset_index()
            for method, curve in shown.groupby("method", sort=False):
                color, line = STYLES[str(method)]
                (lines[str(method)],) = ax.plot(
                    curve[x], curve["loss"], line, color=color, linewidth=1.3, label=str(method)
                )
            ax.set_xscale("log")
            if x == "pass":
                ax.set_xticks(outcome.settings.sizes, outcome.settings.sizes)
            ax.xaxis.set_minor_formatter(NullFormatter())
            ax.set_title(f"{name}, {part}", fontsize=10)
            ax.set_xlabel("pass" if x == "pass" else "processor time, s")
            tidy(ax)
            ax.grid(axis="y", color="0.92", linewidth=0.8)
        row[0].set_ylabel("held-out −log p for each word, nats")
    trials = outcome.settings.trials
    figure.legend(
        list(lines.values()),
        list(lines),
        loc="outside lower center",
        ncols=5,
        frameon=False,
        title="one trial" if trials == 1 else f"median of {trials} trials",
    )
    figure.suptitle(outcome.experiment.title, fontsize=12)
    return figure


CTM = Experiment(
    name="pg-svi-ctm",
    title="Correlated topic models: Gaussian posteriors of documents, ten topics",
    source="Khan et al. 2016, section 7.2, figure 3",
    note="drawn from the model, with documents as long as those of AP and NIPS; sizes are passes, "
    "rows documents, half of them for training, and draws those of a gradient",
    trial=_trial,
    x="pass",
    algorithms=_algorithms,
    paper=Settings(trials=3, sizes=(1, 2, 3, 5, 10, 20), rows=500, draws=20),
    quick=Settings(trials=1, sizes=(1, 3, 10), rows=40, draws=20),
    metrics=(
        Metric("loss", "held-out −log p for each word, nats", orders=False),
        Metric("eq_20", "the same by eq. 20, nats", orders=False),
        Metric("bound", "minus the bound, nats for each document", orders=False),
    ),
    band=(25.0, 75.0),
    picture=_picture,
)
