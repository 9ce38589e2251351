"""The correlated topic model: Gaussian approximations of each document's posterior, and EM.

A document's words are drawn independently, with K topics whose shares depend on latent z:

    z ~ N(μ, Σ),   π = softmax(z),   P(word n | z) = Σ_k β_nk π_k

With counts y_n of distinct words, W words in all, and r_nk = β_nk π_k / Σ_j β_nj π_j, the chance
that word n is of topic k, the log likelihood and its derivatives are

    ℓ(z) = Σ_n y_n log Σ_k β_nk e^{z_k} − W log Σ_k e^{z_k}
    −ℓ′ = W π − t,   −ℓ″ = W (diag π − π πᵀ) − Σ_n y_n (diag r_n − r_n r_nᵀ),   t = Σ_n y_n r_n

All approximations q = N(m, V) are fixed points of one step, `proximal_step`, with different
expectations α of −ℓ′ and Γ of −ℓ″ (`Expectations`):

* `by_draws`: averages over draws of q. The step is that of Khan et al. (2016), and its fixed point
  has the highest lower bound on log p(y); with a diagonal V, the highest of those.
* `laplace`: at the mean. m is the mode. Wang & Blei (2013) separate the words' topics from z: −ℓ″
  is then W (diag π − π πᵀ) alone. ``summed=True`` has all of it, as the topics are summed out.
* `delta`: the same, with the term in α by which the curvature changes with m.
* `mean_field`: the bound of Blei & Lafferty (2007), E log Σ e^z ≤ log Σ e^{m + v/2}, diagonal.

The bound printed in eq. 38 has KL(q ‖ N(0, I)); it is KL(q ‖ N(μ, Σ)).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from scipy.stats import multivariate_t

__all__ = [
    "Corpus",
    "Expectations",
    "Posteriors",
    "Topics",
    "by_draws",
    "delta",
    "fitted",
    "laplace",
    "learned",
    "log_likelihood",
    "log_predictive",
    "mean_field",
    "proximal_step",
    "sampled",
    "weighted_draws",
]

Float = NDArray[np.float64]

#: A step moves no coordinate of a mean by more than this, so that odds change at most e²-fold.
LONGEST = 2.0
#: A step leaves at least this share of the precision, in every direction.
LEAST = 0.1
#: Words added to each topic's expected counts, so that words that are not in the training
#: documents have a probability.
SMOOTHING = 0.01
#: Degrees of freedom of the draws of `weighted_draws`, and steps that find the mode.
FREEDOM, MODE_STEPS = 5, 40
#: Numbers that arrays of one block of documents may hold.
_BLOCK = 2_000_000


@dataclass(frozen=True)
class Corpus:
    """Distinct words of documents, (D, U), with their counts, zero beyond a document's last."""

    words: NDArray[np.intp] = field(repr=False)
    counts: Float = field(repr=False)

    def __len__(self) -> int:
        return len(self.counts)

    @classmethod
    def of(cls, table: NDArray[np.integer]) -> Corpus:
        """From the counts of all words of the vocabulary, (D, N).

        >>> Corpus.of(np.array([[0, 2, 1], [3, 0, 0]])).counts.tolist()
        [[2.0, 1.0], [3.0, 0.0]]
        """
        document, word = np.nonzero(table)
        distinct = np.bincount(document, minlength=len(table))
        place = np.arange(len(word)) - np.repeat(np.cumsum(distinct) - distinct, distinct)
        words = np.zeros((len(table), distinct.max(initial=0)), dtype=np.intp)
        counts = np.zeros(words.shape)
        words[document, place], counts[document, place] = word, table[document, word]
        return cls(words, counts)

    @cached_property
    def lengths(self) -> Float:
        """Numbers of words, W, (D,)."""
        return np.asarray(self.counts.sum(axis=1))

    def of_rows(self, rows: NDArray[np.intp]) -> Corpus:
        """Some of the documents."""
        counts = self.counts[rows]
        most = int(np.count_nonzero(counts, axis=1).max(initial=0))
        return Corpus(self.words[rows, :most], counts[:, :most])

    def blocks(self, numbers: int) -> Iterator[NDArray[np.intp]]:
        """Rows of blocks of documents, so many numbers a word of which fit into memory."""
        most = max(1, _BLOCK // max(1, numbers * self.words.shape[1]))
        yield from (np.arange(i, min(i + most, len(self))) for i in range(0, len(self), most))


@dataclass(frozen=True)
class Topics:
    """Word probabilities β of topics, (N, K), mean μ (K,) and covariance Σ (K, K) of z."""

    words: Float = field(repr=False)
    mean: Float = field(repr=False)
    cov: Float = field(repr=False)

    @cached_property
    def precision(self) -> Float:
        """Σ⁻¹, (K, K)."""
        return np.asarray(np.linalg.inv(self.cov))


@dataclass(frozen=True)
class Posteriors:
    """q of documents: means (D, K), and precisions (D, K, K), or (D, K) if they are diagonal."""

    mean: Float = field(repr=False)
    precision: Float = field(repr=False)

    @classmethod
    def prior(cls, topics: Topics, count: int, diagonal: bool = False) -> Posteriors:
        """The prior of so many documents, or the nearest q of independent coordinates."""
        precision = np.diag(topics.precision) if diagonal else topics.precision
        return cls(
            np.tile(topics.mean, (count, 1)), np.tile(precision, (count, *[1] * precision.ndim))
        )

    @property
    def diagonal(self) -> bool:
        """Whether coordinates are independent."""
        return self.precision.ndim == 2

    @cached_property
    def chol(self) -> Float:
        """C with V = C Cᵀ: upper triangular, (D, K, K), or standard deviations, (D, K)."""
        if self.diagonal:
            return 1.0 / np.sqrt(self.precision)
        return np.swapaxes(np.linalg.inv(np.linalg.cholesky(self.precision)), 1, 2)

    @property
    def cov(self) -> Float:
        """V, (D, K, K)."""
        if self.diagonal:
            return _diagonals(1.0 / self.precision)
        return np.asarray(self.chol @ np.swapaxes(self.chol, 1, 2))

    def at(self, noise: Float) -> Float:
        """z = m + C ε for standard normal ε, (D, S, K)."""
        if self.diagonal:
            return self.mean[:, None] + noise * self.chol[:, None]
        return self.mean[:, None] + noise @ np.swapaxes(self.chol, 1, 2)

    def log_density(self, z: Float) -> Float:
        """log q of points of each document, (D, S, K) → (D, S)."""
        off = z - self.mean[:, None]
        if self.diagonal:
            squares = np.sum(off**2 * self.precision[:, None], axis=2)
            log_det = np.sum(np.log(self.precision), axis=1)
        else:
            squares = np.sum((off @ self.precision) * off, axis=2)
            log_det = np.linalg.slogdet(self.precision)[1]
        return 0.5 * (log_det[:, None] - squares - z.shape[2] * np.log(2 * np.pi))

    def of_rows(self, rows: NDArray[np.intp]) -> Posteriors:
        """Those of some of the documents."""
        return Posteriors(self.mean[rows], self.precision[rows])


def _diagonals(values: Float) -> Float:
    """Diagonal matrices, (D, K) → (D, K, K)."""
    return values[:, :, None] * np.eye(values.shape[1])


# Expectations of derivatives ----------------------------------------------------------------

#: Maps documents, topics and q to α (D, K), Γ (D, K, K), or its diagonal if q is diagonal, and
#: expected counts y_n r_nk (D, U, K).
Expectations: TypeAlias = Callable[[Corpus, Topics, Posteriors], tuple[Float, Float, Float]]


def by_draws(draws: int, rng: np.random.Generator) -> Expectations:
    """Averages over draws of q, in pairs m ± C ε: `draws` is rounded up to an even number."""

    def average(corpus: Corpus, topics: Topics, q: Posteriors) -> tuple[Float, Float, Float]:
        half = rng.standard_normal((len(corpus), -(-draws // 2), q.mean.shape[1]))
        z = q.at(np.concatenate([half, -half], axis=1))
        return _at_points(corpus, topics, z, q.diagonal)

    return average


def laplace(summed: bool = False) -> Expectations:
    """The derivatives at the mean, with words' topics fixed at their chances, or summed out."""

    def at_mean(corpus: Corpus, topics: Topics, q: Posteriors) -> tuple[Float, Float, Float]:
        if summed:
            return _at_points(corpus, topics, q.mean[:, None], q.diagonal)
        return _of_words(corpus, topics, q.mean, softmax(q.mean, axis=1), q.diagonal)

    return at_mean


def delta(corpus: Corpus, topics: Topics, q: Posteriors) -> tuple[Float, Float, Float]:
    """Derivatives of W [log Σ e^m + ½ tr(H V)] − Σ_n y_n log Σ_k β_nk e^{m_k}, H = diag π − π πᵀ.

    The derivative of tr(H V) in m_k is π_k [V_kk − πᵀdiag(V) − 2 (V π)_k + 2 πᵀV π].
    """
    share = softmax(q.mean, axis=1)
    alpha, gamma, counts = _of_words(corpus, topics, q.mean, share, q.diagonal)
    cov = q.cov
    own, across = np.einsum("dkk->dk", cov), np.einsum("dkj,dj->dk", cov, share)
    change = own - 2 * across
    change -= np.sum(share * change, axis=1, keepdims=True)
    return alpha + 0.5 * corpus.lengths[:, None] * share * change, gamma, counts


def mean_field(corpus: Corpus, topics: Topics, q: Posteriors) -> tuple[Float, Float, Float]:
    """Derivatives of W log Σ e^{m + v/2} − Σ_n y_n log Σ_k β_nk e^{m_k}, for a diagonal q.

    The second is twice that in v.
    """
    share = softmax(q.mean + 0.5 / q.precision, axis=1)
    alpha, _, counts = _of_words(corpus, topics, q.mean, share, True)
    return alpha, corpus.lengths[:, None] * share, counts


def _of_words(
    corpus: Corpus, topics: Topics, z: Float, share: Float, diagonal: bool
) -> tuple[Float, Float, Float]:
    """W π − t, W (diag π − π πᵀ), and y_n r_nk at z, (D, K)."""
    table = topics.words[corpus.words]
    e = np.exp(z - z.max(axis=1, keepdims=True))
    counts = table * e[:, None]
    counts *= (corpus.counts / np.sum(counts, axis=2))[:, :, None]
    length = corpus.lengths[:, None]
    gamma = length * share * (1 - share) if diagonal else _spread(share, corpus.lengths)
    return length * share - counts.sum(axis=1), gamma, counts


def _spread(share: Float, weight: Float) -> Float:
    """w (diag π − π πᵀ), (D, K, K)."""
    return weight[:, None, None] * (_diagonals(share) - share[:, :, None] * share[:, None])


def _at_points(
    corpus: Corpus, topics: Topics, z: Float, diagonal: bool
) -> tuple[Float, Float, Float]:
    """Averages of −ℓ′, −ℓ″ and y_n r_nk over points z, (D, S, K)."""
    points, size = z.shape[1:]
    table = topics.words[corpus.words]
    e = np.exp(z - z.max(axis=2, keepdims=True))
    share = e / e.sum(axis=2, keepdims=True)
    inverse = 1.0 / (table @ np.swapaxes(e, 1, 2))  # 1/Σ_k β_nk e^{z_k}: (D, U, S)
    weight = corpus.counts[:, :, None] * inverse
    counts = table * (weight @ e) / points
    of_topic = counts.sum(axis=1)
    length = corpus.lengths[:, None]
    alpha = length * share.mean(axis=1) - of_topic
    # Σ_n y_n r_nk r_nj, for each pair of topics, or of a topic with itself
    one, two = (np.arange(size),) * 2 if diagonal else np.triu_indices(size)
    pairs = np.swapaxes(table[:, :, one] * table[:, :, two], 1, 2) @ (weight * inverse)
    e = np.swapaxes(e, 1, 2)
    found = np.mean(pairs * e[:, one] * e[:, two], axis=2)
    if diagonal:
        return alpha, length * np.mean(share * (1 - share), axis=1) - of_topic + found, counts
    products = np.empty((len(z), size, size))
    products[:, one, two] = products[:, two, one] = found
    share_products = np.swapaxes(share, 1, 2) @ share / points
    own = length * share.mean(axis=1) - of_topic
    return alpha, _diagonals(own) - length[:, :, None] * share_products + products, counts


# Steps --------------------------------------------------------------------------------------


def proximal_step(
    corpus: Corpus, topics: Topics, q: Posteriors, length: float, expectations: Expectations
) -> Posteriors:
    """The step of a length β of each document's q.

    With Λ = Σ⁻¹ and r = 1/(1 + β) it is, as in eq. 19 with the new precision,

        P ← r P + (1 − r)(Λ + Γ),      m ← m − [Λ + Γ + P_old/β]⁻¹ (α + Λ (m − μ))

    with the diagonal of Λ in the first if q is diagonal. Γ need not be positive definite: a
    document's β is halved until at least `LEAST` of its precision is left. The move of m is at most
    `LONGEST`.

    >>> topics = Topics(np.array([[0.9, 0.1], [0.1, 0.9]]), np.zeros(2), np.eye(2))
    >>> corpus, q = Corpus.of(np.array([[8, 1]])), Posteriors.prior(topics, 1)
    >>> for _ in range(40):
    ...     q = proximal_step(corpus, topics, q, 1.0, laplace())
    >>> q.mean.round(3).tolist()
    [[0.761, -0.761]]
    """
    alpha, gamma, _ = expectations(corpus, topics, q)
    prior = topics.precision
    down = alpha + (q.mean - topics.mean) @ prior
    share = np.full(len(corpus), length / (1.0 + length))
    curvature = prior + (_diagonals(gamma) if q.diagonal else gamma)
    old = _diagonals(q.precision) if q.diagonal else q.precision
    while True:
        of = share[:, None, None]
        metric = of * curvature + (1.0 - of) * old
        bad = np.linalg.eigvalsh(metric - LEAST * old)[:, 0] <= 0
        if not bad.any():
            break
        share = np.where(bad, share / 2, share)
    move = share[:, None] * np.linalg.solve(metric, down[:, :, None])[:, :, 0]
    farthest = np.abs(move).max(axis=1, keepdims=True)
    move *= np.minimum(1.0, LONGEST / np.maximum(farthest, LONGEST))
    precision = np.einsum("dkk->dk", metric).copy() if q.diagonal else metric
    return Posteriors(q.mean - move, precision)


def fitted(
    corpus: Corpus, topics: Topics, q: Posteriors, length: float, expectations: Expectations
) -> Iterator[Posteriors]:
    """Yield q of all documents after each step."""
    blocks = [(rows, corpus.of_rows(rows)) for rows in corpus.blocks(topics.words.shape[1] ** 2)]
    while True:
        parts = [
            proximal_step(part, topics, q.of_rows(rows), length, expectations)
            for rows, part in blocks
        ]
        q = Posteriors(
            np.concatenate([p.mean for p in parts]), np.concatenate([p.precision for p in parts])
        )
        yield q


# Learning topics ----------------------------------------------------------------------------


def learned(
    corpus: Corpus,
    topics: Topics,
    expectations: Expectations,
    diagonal: bool,
    batches: Iterator[list[NDArray[np.intp]]],
    steps: int = 5,
    length: float = 1.0,
) -> Iterator[Topics]:
    """Yield the topics after each pass of EM over the documents, which its batches make up.

    A batch's q take some steps, and its part of the expected counts and moments is replaced
    (Neal & Hinton 1998); then β, μ and Σ have the highest expected log density:

        β_nk ∝ Σ_d E[y_dn r_dnk],   μ = mean of m_d,   Σ = mean of V_d + (m_d − μ)(m_d − μ)ᵀ

    Before the first pass every document has the prior of the first topics.
    """
    size, width = topics.words.shape
    q = Posteriors.prior(topics, len(corpus), diagonal)
    mean, precision, cov = q.mean.copy(), q.precision.copy(), q.cov
    shares = laplace()(corpus, topics, q)[2]
    counts = _by_word(corpus, shares, size)
    for batched in batches:
        for batch in batched:
            part, q = corpus.of_rows(batch), Posteriors(mean[batch], precision[batch])
            for rows in part.blocks(width**2):
                here, inside = part.of_rows(rows), q.of_rows(rows)
                for _ in range(steps):
                    inside = proximal_step(here, topics, inside, length, expectations)
                new = expectations(here, topics, inside)[2]
                place, used = batch[rows], new.shape[1]
                counts += _by_word(here, new - shares[place, :used], size)
                mean[place], precision[place] = inside.mean, inside.precision
                cov[place], shares[place, :used] = inside.cov, new
            smooth = np.maximum(counts, 0.0) + SMOOTHING
            middle = mean.mean(axis=0)
            off = mean - middle
            topics = Topics(
                smooth / smooth.sum(axis=0), middle, cov.mean(axis=0) + off.T @ off / len(corpus)
            )
        yield topics


def _by_word(corpus: Corpus, shares: Float, size: int) -> Float:
    """Sums of (D, U, K) over the documents' words, (N, K)."""
    words = corpus.words.ravel()
    columns = shares.reshape(len(words), -1).T
    return np.stack([np.bincount(words, column, size) for column in columns], axis=1)


# Held-out words -----------------------------------------------------------------------------


def _log_words(corpus: Corpus, topics: Topics, z: Float) -> Float:
    """log P(word n | z), (D, U, S); places beyond a document's last word hold word 0."""
    share = np.swapaxes(softmax(z, axis=2), 1, 2)
    return np.asarray(np.log(topics.words[corpus.words] @ share))


def log_likelihood(corpus: Corpus, topics: Topics, z: Float) -> Float:
    """ℓ of points of each document, (D, S, K) → (D, S)."""
    return np.asarray((corpus.counts[:, None] @ _log_words(corpus, topics, z))[:, 0])


def log_predictive(
    corpus: Corpus, topics: Topics, z: Float, log_weight: Float | None = None
) -> tuple[Float, Float]:
    """Σ_n y_n log E[P(word n | z)] of each document, and Σ_n log E[P(word n | z)^y_n], both (D,).

    Expectations are averages over draws z, (D, S, K), weighted if their log weights are given. The
    second is eq. 20 as printed. It is no log probability: by Jensen's inequality it is above the
    first, the more so the wider q is.
    """
    if log_weight is None:
        log_weight = np.zeros(z.shape[:2])
    weight = softmax(log_weight, axis=1)[:, :, None]
    log_words = _log_words(corpus, topics, z)
    own = np.sum(corpus.counts * np.log((np.exp(log_words) @ weight)[:, :, 0]), axis=1)
    log_words *= corpus.counts[:, :, None]
    top = log_words.max(axis=2, keepdims=True)
    log_words -= top
    powers = np.log((np.exp(log_words, out=log_words) @ weight)[:, :, 0]) + top[:, :, 0]
    return own, powers.sum(axis=1)


def weighted_draws(
    corpus: Corpus, topics: Topics, draws: int, rng: np.random.Generator
) -> tuple[Float, Float]:
    """Draws (D, S, K) and log weights (D, S) of the documents' posteriors.

    They are drawn from Student's t with `FREEDOM` degrees of freedom around the mode, with the
    curvature there. A document's mean weight is an estimate of p(y).
    """
    size = len(topics.mean)
    start = Posteriors.prior(topics, len(corpus))
    steps = fitted(corpus, topics, start, 1.0, laplace(summed=True))
    q = next(islice(steps, MODE_STEPS - 1, None))
    noise = rng.standard_normal((len(corpus), draws, size))
    noise *= np.sqrt(FREEDOM / rng.chisquare(FREEDOM, (len(corpus), draws)))[:, :, None]
    z = q.at(noise)
    log_det = 0.5 * np.linalg.slogdet(q.precision)[1]
    density = multivariate_t(df=FREEDOM, shape=np.eye(size)).logpdf(noise) + log_det[:, None]
    prior = Posteriors.prior(topics, len(corpus)).log_density(z)
    return z, log_likelihood(corpus, topics, z) + prior - density


def sampled(
    topics: Topics, documents: int, length: float, copies: int, rng: np.random.Generator
) -> list[Corpus]:
    """Documents with Poisson numbers of words, each in so many parts with the same z.

    >>> topics = Topics(np.full((5, 2), 0.2), np.zeros(2), np.eye(2))
    >>> [len(part) for part in sampled(topics, 3, 20.0, 2, np.random.default_rng(0))]
    [3, 3]
    """
    z = rng.multivariate_normal(topics.mean, topics.cov, documents)
    chances = softmax(z, axis=1) @ topics.words.T
    chances /= chances.sum(axis=1, keepdims=True)
    lengths = np.maximum(rng.poisson(length, (copies, documents)), 1)
    return [Corpus.of(rng.multinomial(part, chances)) for part in lengths]
