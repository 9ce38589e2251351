"""The reference (weighting) distribution π̂, where the log likelihood must be matched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import LinAlgError
from scipy.sparse.linalg import splu

from stancoreset.checks import listed
from stancoreset.engines import FARTHEST, Float
from stancoreset.errors import ReferenceFitError
from stancoreset.rows import AnyMatrix, Blocks, FullData, Hessians, Matrix, dense, is_sparse

#: Draws (S, P) → log densities (S,) and gradients (S, P).
Gradient = Callable[[Float], tuple[Float, Float]]
#: Called with the number of draws evaluated since the last call.
Progress = Callable[[int], object]


@dataclass(frozen=True)
class GaussianFit:
    """A Gaussian in unconstrained coordinates: N(mean, chol cholᵀ).

    Attributes
    ----------
    mean : ndarray, shape (P,)
    chol : ndarray or sparse matrix, shape (P, P)
        Lower-triangular (or any square) factor of the covariance; sparse if the coordinates are
        those of many groups.
    blocks : Blocks, optional
        The groups, which are independent given the coordinates that they share.
    """

    mean: Float
    chol: AnyMatrix
    blocks: Blocks | None = None

    @property
    def cov(self) -> Float:
        """Covariance matrix, (P, P)."""
        return np.asarray(dense(self.chol @ self.chol.T))

    @property
    def sd(self) -> Float:
        """Standard deviations, (P,)."""
        return np.sqrt(np.asarray((self.chol**2).sum(axis=1)).ravel())

    def dense(self) -> GaussianFit:
        """This Gaussian with a dense factor of its covariance."""
        return GaussianFit(self.mean, dense(self.chol)) if is_sparse(self.chol) else self

    def covariances(self, which: int) -> Float:
        """Covariances of one coordinate with all, (P,)."""
        return np.asarray(dense(self.chol @ self.chol[[which]].T)[:, 0])

    def standardised(self, points: Float) -> Float:
        """z with θ = mean + chol z of every point: (S, P) → (P, S)."""
        if is_sparse(self.chol):
            return np.asarray(splu(sparse.csc_array(self.chol)).solve((points - self.mean).T))
        return np.asarray(np.linalg.solve(self.chol, (points - self.mean).T))

    def draw(self, count: int, rng: np.random.Generator) -> Float:
        """Independent draws, (count, P)."""
        noise = rng.standard_normal((count, len(self.mean)))
        return np.ascontiguousarray(self.mean + noise @ self.chol.T)

    def whitened(self, gradient: Gradient) -> Callable[[Float], tuple[float, Float]]:
        """A log density as a function of z with θ = mean + chol z, for an optimiser."""

        def density(z: Float) -> tuple[float, Float]:
            value, slope = gradient((self.mean + self.chol @ z)[None])
            with np.errstate(invalid="ignore"):  # outside the support, where no step ends
                return float(value[0]), self.chol.T @ slope[0]

        return density

    def log_density(self, draws: Float) -> Float:
        """log N(draws | mean, cov), (S,)."""
        z = self.standardised(draws)
        log_det = _log_det(self.chol)
        return np.asarray(
            -0.5 * np.sum(z**2, axis=0) - log_det - 0.5 * len(self.mean) * np.log(2 * np.pi)
        )


def _log_det(factor: AnyMatrix) -> float:
    """log |det F|."""
    if not is_sparse(factor):
        return float(np.linalg.slogdet(factor)[1])
    return float(np.sum(np.log(np.abs(splu(sparse.csc_array(factor)).U.diagonal()))))


#: The method of references that consist of draws of prior times quadratic.
ITERATED = "settled"  # the word of folders and reports
#: The method of draws of the posterior, with one parameter of each unit integrated out.
INTEGRATED = "integrated"
#: The method of draws of the posterior by chains, with one parameter of each unit integrated out.
BY_HMC = "integrated, HMC"
#: The method of draws of the posterior, with weights for each unit by itself.
BY_UNIT = "by unit"
#: The method of draws of the posterior, with weights for all parameters together.
BY_IMPORTANCE = "by importance"
# Names of references' draws in legends.
_LABELS = {
    "laplace": "Laplace fit",
    "gaussian_vi": "Gaussian variational fit",
    "double_loop": "double-loop fit",
    ITERATED: "prior × quadratic approximation",
    INTEGRATED: "posterior integrated over units",
    BY_HMC: "posterior integrated over units",
    BY_UNIT: "posterior drawn unit by unit",
    BY_IMPORTANCE: "posterior drawn by importance",
    "draws": "reference draws",
    "pathfinder": "Pathfinder",
    "advi": "ADVI",
    "pilot": "pilot run",
}
# What was done with parameters, where draws are the posterior's.
_OF_UNITS = {
    INTEGRATED: "one parameter of each unit integrated out",
    BY_HMC: "one parameter of each unit integrated out, the others by HMC",
    BY_UNIT: "the parameters of each unit weighted by themselves",
    BY_IMPORTANCE: "all parameters weighted together",
}
# Names in tables of references whose `method` no user knows.
_NAMES = {ITERATED: "quadratic approximation", "draws": "reference"}


@dataclass(frozen=True)
class Reference:
    """Draws from the reference distribution, in unconstrained coordinates.

    Attributes
    ----------
    method : str
        A key of ``stancoreset.reference.methods.METHODS``, ``"draws"``, ``"settled"`` for draws
        from prior times quadratic (`stancoreset.fit.iterating`), ``"integrated"`` for draws of the
        posterior with one parameter of each unit integrated out (`stancoreset.fit.integrating`), or
        ``"by unit"`` for draws of the posterior with weights for each unit
        (`stancoreset.fit.by_unit`).
    draws : ndarray, shape (S, P)
        Draws on which the projection is built.
    param_names : tuple of str
        Names of the unconstrained parameters.
    seed : int
        Seed of the draws; additional draws use streams derived from it.
    gaussian : GaussianFit or None
        The fitted Gaussian of ``"laplace"``, ``"gaussian_vi"`` and ``"double_loop"``, whose draws
        have a `log_q`; of other references, the Gaussian with the draws' mean and covariance.
    log_prior, log_likelihood : ndarray, shape (S,)
        Values of the full data at the draws, each up to a constant; they also give the target
        of the projection.
    log_q : ndarray, shape (S,), or None
        Log density under the reference, up to a constant if it is no Gaussian; None if unknown.
    spare : ndarray, shape (R, P), or None
        Available draws that are not in `draws`; None if the reference is a Gaussian, which makes
        new ones.
    elsewhere : ndarray, shape (E, P), or None
        Draws at other modes found by the search for a Gaussian's mode, in proportion to
        their mass; see `stancoreset.reference.summits`.
    unsettled : str
        Why draws of prior times quadratic do not take its place, in one clause; empty if they
        do, or need not.
    by_chains : str
        Why NUTS, and not the collapsed sampler, made draws of prior times quadratic, in one clause;
        empty if they are independent, or of another kind.
    rhat : float
        Largest R̂ of the chains of a pilot run that made the draws; NaN of other draws.
    diverged : bool
        Whether many transitions diverged in the chains of prior times quadratic that made the
        draws: those of the posterior will meet the same funnels.
    step_size : float
        Mean step size of these chains at Stan's target acceptance rate, in units of the metric of
        draws near by; NaN if there were no such chains, or they learned their metric.

    References
    ----------
    The weighting distribution of Campbell & Broderick (2018), section 4.3; Zhang et al.
    (2021), section 2.
    """

    method: str
    draws: Float = field(repr=False)
    param_names: tuple[str, ...]
    seed: int
    gaussian: GaussianFit
    log_prior: Float = field(repr=False)
    log_likelihood: Float = field(repr=False)
    log_q: Float | None = field(default=None, repr=False)
    spare: Float | None = field(default=None, repr=False)
    elsewhere: Float | None = field(default=None, repr=False)
    unsettled: str = ""
    by_chains: str = ""
    rhat: float = float("nan")
    diverged: bool = False
    step_size: float = float("nan")

    @property
    def is_collapsed(self) -> bool:
        """Whether the draws are independent ones of prior times quadratic."""
        return self.method == ITERATED and not self.by_chains

    @property
    def is_integrated(self) -> bool:
        """Whether the draws are the posterior's, by integrals over units or importance weights."""
        return self.method in _OF_UNITS

    @property
    def of_units(self) -> str:
        """What was done with the parameters, where draws are the posterior's; or empty."""
        return _OF_UNITS.get(self.method, "")

    @property
    def label(self) -> str:
        """A name of the draws for legends and tables."""
        return _LABELS.get(self.method, self.method)

    @property
    def name(self) -> str:
        """A name for the reference's posterior beside the coreset's, in tables and legends."""
        return _NAMES.get(self.method, self.method)

    @property
    def of_draws(self) -> bool:
        """Whether it consists of draws, and is no Gaussian that makes new ones."""
        return self.spare is not None

    @property
    def log_p(self) -> Float:
        """Log posterior density on the full data at the draws, up to a constant, (S,)."""
        return self.log_prior + self.log_likelihood

    @property
    def norm(self) -> float:
        """Standard deviation of the log likelihood over the evaluated draws, in nats."""
        return float(np.std(self.log_likelihood))

    def more(self, count: int, stream: int) -> Float:
        """Return `count` further draws, (count, P), which are not in `draws`.

        A Gaussian reference generates new ones; others take them from the spare draws, and may
        return fewer than requested (never fewer than two).

        Parameters
        ----------
        count : int
        stream : int
            0 for draws that measure errors; for draws to add, the number present already.
            Different numbers give different draws.

        Raises
        ------
        ReferenceFitError
            If the draws are used up.
        """
        if self.spare is None:
            return self.gaussian.draw(count, np.random.default_rng([self.seed, 1 + stream]))
        # Held-out draws come from one end, draws to add from the other.
        start = max(0, stream - len(self.draws))
        found = self.spare[:count] if stream == 0 else self.spare[::-1][start : start + count]
        if len(found) < 2:
            raise ReferenceFitError(
                f"the reference has too few draws: {len(self.draws)} are used to select rows, and "
                "at least 2 more are needed to measure the held-out error; pass more draws, or a "
                "smaller draws="
            )
        return found


def finite_log_likelihood(full: FullData, draws: Float, progress: Progress | None = None) -> Float:
    """Log likelihood of the full data at reference draws, (S,), which must be finite."""
    return require_finite(full.log_likelihood(draws, progress))


def require_finite(log_likelihood: Float) -> Float:
    """Return the log likelihoods of the full data at reference draws, (S,), if they are finite."""
    finite = np.isfinite(log_likelihood)
    if not np.all(finite):
        bad = int(np.argmin(finite))
        raise ReferenceFitError(
            f"the log likelihood of the full data is {log_likelihood[bad]} at reference draw {bad} "
            f"({np.count_nonzero(~finite)} of {len(finite)} draws), expected finite: some draws "
            "of the reference lie outside the model's support; use a narrower reference, for "
            "example posterior draws of your own"
        )
    return log_likelihood


def in_use(asked: int, available: int) -> int:
    """The number of available draws that are used where so many are asked for.

    A held-out share is always kept: an in-sample error is meaningless (design fact 3).
    """
    return min(asked, available - max(2, available // 5))


def extended(full: FullData, reference: Reference, count: int) -> Reference:
    """Extend a reference to `count` evaluated draws, or to as many as it has.

    The first of its spare draws, at which errors are measured, stay where they are. A Gaussian
    makes new ones. A single draw is not added.
    """
    have = len(reference.draws)
    if count < have + 2:
        return reference
    added = reference.more(count - have, stream=have)
    spare, log_q = reference.spare, reference.log_q
    log_likelihood = finite_log_likelihood(full, added)
    return replace(
        reference,
        draws=np.concatenate([reference.draws, added]),
        log_prior=np.concatenate([reference.log_prior, full.log_prior(added)]),
        log_likelihood=np.concatenate([reference.log_likelihood, log_likelihood]),
        log_q=None
        if log_q is None
        else np.concatenate([log_q, reference.gaussian.log_density(added)]),
        spare=None if spare is None else spare[: len(spare) - len(added)],
    )


def reference_from_evaluated(
    full: FullData, rows: Float, log_likelihood: Float, method: str, seed: int
) -> Reference:
    """A reference of draws (R, P) in random order, the first of which are evaluated, (S,)."""
    count = len(log_likelihood)
    return Reference(
        method=method,
        draws=rows[:count],
        param_names=full.param_names,
        seed=seed,
        gaussian=fit_gaussian(rows, full),
        log_prior=full.log_prior(rows[:count]),
        log_likelihood=log_likelihood,
        spare=rows[count:],
    )


def require_usable(rows: Float, names: tuple[str, ...], what: str = "reference draws") -> None:
    """Refuse draws (S, P) of the named parameters on which no projection can be built.

    A `ReferenceFitError` is raised if the number of columns is not P, there are fewer than four
    draws, values are not finite or beyond 1e100, or a coordinate does not vary; it says `what` the
    draws are.
    """
    if rows.ndim != 2 or rows.shape[1] != len(names):
        raise ReferenceFitError(
            f"{what}: an array of shape {rows.shape} was given, expected "
            f"(draws, {len(names)}), one column for each unconstrained parameter "
            f"({listed(names, most=6)})"
        )
    if len(rows) < 4:
        raise ReferenceFitError(
            f"{what}: {len(rows)} given, at least 4 are needed (half of them are set "
            "aside to measure the held-out error)"
        )
    if not np.all(np.isfinite(rows)):
        row, column = np.argwhere(~np.isfinite(rows))[0]
        raise ReferenceFitError(
            f"{what}: {names[column]} is {rows[row, column]} in draw {row}; "
            "remove draws that are not finite"
        )
    farthest = np.abs(rows).max(axis=0)
    if np.max(farthest, initial=0.0) > FARTHEST:
        column = int(np.argmax(farthest))
        raise ReferenceFitError(
            f"{what}: {names[column]} reaches {farthest[column]:.3g}, so that its variance is "
            "beyond double precision: chains run away where the posterior is improper; give this "
            "parameter, and those that multiply it, proper priors"
        )
    still = np.ptp(rows, axis=0) == 0
    if np.any(still):
        raise ReferenceFitError(
            f"{what}: {names[int(np.argmax(still))]} has the same value in every draw"
        )


def fit_gaussian(rows: Float, full: FullData) -> GaussianFit:
    """The Gaussian of draws (S, P) of the full data's coordinates.

    Draws are too few for regressions on all levels of a crossed factor. Then it is the Gaussian of
    greatest likelihood among those with the precision −∇²L + Σ_v d_v I_v, with a number d_v > 0 for
    every variable v, which stands for its prior: the draws need only tell each variable's total
    variance, and the log likelihood L tells who meets whom.
    """
    blocks = full.blocks
    if blocks is None or blocks.hubs is None:
        return moments(rows, blocks)
    mean, sd = rows.mean(axis=0), rows.std(axis=0, ddof=1)
    sd = np.where(sd > 0, sd, 1.0)
    try:
        steps = full.steps(mean, sd)
        prior = Hessians(full.param_names).at(full.prior.log_density_gradient, mean, steps.scale)
        precision = Matrix(prior - full.hessian(mean, steps.scale))
        return GaussianFit(
            mean, _fitted(blocks, precision, sd**2, _kinds(full.param_names)), blocks
        )
    except (LinAlgError, ReferenceFitError):  # not bent as a Gaussian's: levels as if independent
        return moments(rows, blocks.star)


def _kinds(names: tuple[str, ...]) -> NDArray[np.intp]:
    """The number of every coordinate's variable, (P,)."""
    return np.unique([name.partition(".")[0] for name in names], return_inverse=True)[1]


def _fitted(
    blocks: Blocks,
    precision: Matrix,
    variance: Float,
    kind: NDArray[np.intp],
    steps: int = 5,
    least_share: float = 0.01,
    close: float = 0.01,
    told: float = 0.05,
) -> Matrix:
    """F of (precision + diag(d_v))⁻¹ whose variances have the given sum for every variable.

    Newton's method in log d_v, as if coordinates were independent: then ∂ log Σ V_j / ∂ log d is
    −d Σ V_j² / Σ V_j. Where the prior tells almost nothing d_v stays what it is.
    """
    wanted, count = np.bincount(kind, weights=variance), np.bincount(kind)
    least, added = least_share * count / wanted, count / wanted

    def whole() -> Matrix:
        return Matrix(precision + sparse.diags_array(added[kind]))

    for _ in range(steps):
        own = blocks.variances(whole())
        total = np.bincount(kind, weights=own)
        share = added * np.bincount(kind, weights=own**2) / total
        off = np.log(total / wanted)
        if np.all((np.abs(off) < close) | (share < told)):
            break
        change = np.clip(off / np.maximum(share, least_share), -2.0, 2.0)
        added = np.maximum(added * np.exp(change), least)
    return blocks.root(whole())


def moments(rows: Float, blocks: Blocks | None = None) -> GaussianFit:
    """Mean and covariance of draws, the covariance as a square root, which always exists.

    With `blocks` groups of coordinates are independent given those that they share, if there are
    enough draws for these.
    """
    mean = rows.mean(axis=0)
    root = None if blocks is None else blocks.root_of_draws(rows - mean)
    if root is not None:
        return GaussianFit(mean, root, blocks)
    centred = (rows - mean) / np.sqrt(max(len(rows) - 1, 1))
    _, singular, right = np.linalg.svd(centred, full_matrices=False)
    chol = np.zeros((rows.shape[1], rows.shape[1]))
    chol[:, : len(singular)] = right.T * singular
    return GaussianFit(mean, chol)
