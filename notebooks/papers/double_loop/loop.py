"""The double loop: the Gaussian of the highest bound for a sparse linear model.

    log p(y) ≥ F = E_q[log p(y | X u)] + Σ_i log t_i(√E_q[s_i²]) + ½ log |2πe V|,    s = B u

for q = N(u, V), V⁻¹ = A = Xᵀ diag(w) X + Bᵀ diag(π) B. The inner loop moves the mean, and π with
it, at fixed variances; the outer loop replaces the variances. For a normal likelihood w = 1/σ² and
F = const − φ/2 with the paper's φ (10). For others the paper adds Bernoulli sites, whose Gaussian
is far too narrow: here w = −E_q[ℓ″], the stationary point of F, and a step is halved until F does
not fall.

References
----------
Seeger & Nickisch (2008), "Large scale variational inference and experimental design for sparse
generalized linear models", technical report TR-175, Max Planck Institute for Biological
Cybernetics.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from scipy import sparse
from scipy.linalg import LinAlgError

from papers.double_loop.inner import minimise
from papers.double_loop.likelihoods import Likelihood
from papers.double_loop.outer import Bounding, check_bounding, inner_sites
from papers.double_loop.potentials import Laplace, Potential, Power
from papers.double_loop.variances import Precision, lanczos, probing
from stancoreset.checks import (
    as_numbers,
    check_choice,
    check_is,
    check_number,
    check_seed,
    check_whole,
    shown,
)
from stancoreset.engines import Float
from stancoreset.errors import DataError, OptionError, ReferenceFitError
from stancoreset.reference import GaussianFit
from stancoreset.rows import AnyMatrix, is_sparse

__all__ = ["DoubleLoop", "SparseModel", "Variances", "double_loop", "sparse_mode"]

_log = logging.getLogger(__name__)

#: Ways to compute the variances.
Variances: TypeAlias = Literal["auto", "cholesky", "lanczos", "probing"]
# The largest number of coefficients for "cholesky".
_DENSE = 5_000
# Description of potentials for messages.
_POTENTIALS = (
    "a potential of the sites: Laplace(scale), student_t(scale, freedom), Horseshoe(scale) or "
    "ard(floor)"
)
# Rounding error of a bound, relative; a shorter step than the shortest is none.
_ROUNDING, _SHORTEST = 1e-9, 1e-4
# Loops of the mode, each with a hundredth of the smoothing of the one before, and the last.
_MODES, _SHARPER, _SHARPEST = 40, 1e-2, 1e-14


@dataclass(frozen=True)
class SparseModel:
    """Rows y_n given x_nᵀu, and potentials on s = B u.

    Attributes
    ----------
    x : ndarray or sparse matrix, shape (n, D)
    likelihood : Likelihood
    potential : Potential
        Of all sites; its parameters are numbers or arrays (q,).
    b : {"identity", "differences"}, ndarray or sparse matrix, shape (q, D)

    Examples
    --------
    >>> x = np.eye(3)
    >>> model = SparseModel(x, Likelihood("normal", [3.0, 0.1, 0.2], 0.1), Laplace(0.5))
    >>> double_loop(model).mean.round(1)
    array([3. , 0.1, 0.2])
    """

    x: AnyMatrix = field(repr=False)
    likelihood: Likelihood = field(repr=False)
    potential: Potential
    b: Any = field(default="identity", repr=False)

    def __post_init__(self) -> None:
        check_is(
            "likelihood", self.likelihood, Likelihood, 'a Likelihood, as Likelihood("normal", y)'
        )
        check_is("potential", self.potential, Potential, _POTENTIALS)
        if isinstance(self.potential, type):  # which has the names of its instances
            raise OptionError(f"potential is {shown(self.potential)}, expected {_POTENTIALS}")
        if not is_sparse(self.x):
            shape = "a matrix (rows, coefficients)"
            object.__setattr__(self, "x", as_numbers("x", self.x, shape, DataError))
        rows = len(self.likelihood.y)
        if self.x.ndim != 2 or self.x.shape[0] != rows:
            raise DataError(
                f"x has shape {self.x.shape}, expected ({rows}, D): a row for each of the "
                f"{rows} outcomes"
            )
        if not np.all(np.isfinite(self.x.data if is_sparse(self.x) else self.x)):
            raise DataError("x has entries that are not finite; remove these rows")
        object.__setattr__(self, "b", _sites(self.b, int(self.x.shape[1])))
        width, sites = np.shape(self.potential.width), int(self.b.shape[0])
        if width not in ((), (1,), (sites,)):
            raise OptionError(
                f"the potential has parameters of shape {width}, expected a number or "
                f"({sites},): one for each row of b"
            )

    @property
    def size(self) -> int:
        """Number of coefficients, D."""
        return int(self.x.shape[1])


def _sites(b: Any, size: int) -> AnyMatrix:
    """The matrix B, or an `OptionError`."""
    if isinstance(b, str):
        check_choice("b", b, ("identity", "differences"))
        one = sparse.eye_array(size, format="csr")
        return one if b == "identity" else one[1:] - one[:-1]
    matrix = b if is_sparse(b) else as_numbers("b", b, "a matrix (sites, coefficients)")
    if matrix.ndim != 2 or matrix.shape[1] != size:
        raise OptionError(
            f"b has shape {matrix.shape}, expected (sites, {size}): a column for each of the "
            f"{size} columns of x"
        )
    if not np.all(np.isfinite(matrix.data if is_sparse(matrix) else matrix)):
        raise OptionError(f"b is {shown(b)}, expected finite numbers")
    return matrix


@dataclass(frozen=True)
class DoubleLoop:
    """The end of the loops.

    Attributes
    ----------
    mean : ndarray, shape (D,)
    variances : ndarray, shape (q,)
        Of the sites; estimates unless they are computed by Cholesky.
    precision : Precision
        A = V⁻¹, with the weights of rows and the precisions of sites.
    bounds : tuple of float
        F after every outer loop, in nats; it never falls. None by Lanczos or probing, which do not
        know log |A|.
    steps : tuple of int
        Newton steps of every inner loop.
    """

    mean: Float = field(repr=False)
    variances: Float = field(repr=False)
    precision: Precision = field(repr=False)
    bounds: tuple[float, ...]
    steps: tuple[int, ...]

    @property
    def gaussian(self) -> GaussianFit:
        """N(mean, A⁻¹), of as many coefficients as Cholesky can do."""
        return GaussianFit(self.mean, replace(self.precision, dense=True).factor)


@dataclass(frozen=True)
class _State:
    """q by its mean and precision, and the variances of sites (q,) and predictors (n,)."""

    mean: Float
    a: Precision
    v: Float
    spread: Float
    bound: float


def double_loop(
    model: SparseModel,
    *,
    bounding: Bounding = "hybrid",
    variances: Variances = "auto",
    samples: int = 50,
    loops: int = 500,
    tolerance: float = 1e-9,
    seed: int = 1,
) -> DoubleLoop:
    """Fit the Gaussian of the highest bound.

    Parameters
    ----------
    model : SparseModel
    bounding : {"hybrid", "class_2", "class_1"}
        The outer update. ``"class_2"`` is the hybrid for log-concave potentials.
    variances : {"auto", "cholesky", "lanczos", "probing"}
        ``"auto"`` is Cholesky up to 5,000 coefficients and probing beyond.
    samples : int
        Steps of Lanczos, or probes.
    loops : int
        The largest number of outer loops; with Lanczos or probing, the number.
    tolerance : float
        Relative rise of the bound at which the outer loop ends.
    seed : int
        Of Lanczos' first direction, and of the probes.

    Raises
    ------
    OptionError
        If the model is none, an option is unknown, or the potential has no such update.
    ReferenceFitError
        If the inner loop does not converge, the bound falls, or the outer loop does not end.
    """
    check_is("model", model, SparseModel, "a SparseModel")
    check_bounding(bounding, model.potential)
    check_number("tolerance", tolerance, 0)
    check_seed(seed)
    check_choice("variances", variances, ("auto", "cholesky", "lanczos", "probing"))
    check_whole("samples", samples, 1)
    check_whole("loops", loops, 1)
    if variances == "auto":
        variances = "cholesky" if model.size <= _DENSE else "probing"
    evaluate = _Evaluation(model, bounding, variances, samples, seed)
    state = _start(model, evaluate)
    bounds, steps = [], []
    for loop in range(loops):
        sites = inner_sites(bounding, model.potential, model.b @ state.mean, state.v, state.a.pi)
        inner = minimise(model.likelihood, sites, state.a, state.spread, state.mean)
        s = model.b @ inner.mean
        first = bounding == "class_1"
        pi = sites.precision(s) if first else model.potential.precision(s**2 + state.v)
        new = _risen(evaluate, state, inner.mean, pi, loop + 1)
        bounds.append(new.bound)
        steps.append(inner.steps)
        _log.debug("outer loop %d: bound %.10g, %d steps", loop + 1, new.bound, inner.steps)
        rise, state = new.bound - state.bound, new
        if rise <= tolerance * (1.0 + abs(new.bound)):
            break
    else:
        if evaluate.exact:
            raise ReferenceFitError(
                f"the double loop did not settle in {loops} outer loops: the last one raised the "
                f"bound by {rise:.3g}; allow more loops, or a larger tolerance"
            )
    known = tuple(bounds) if evaluate.exact else ()
    return DoubleLoop(state.mean, state.v, state.a, known, tuple(steps))


def sparse_mode(model: SparseModel) -> Float:
    """The posterior mode u (D,): the same loops without log |A|, that is without variances.

    Potentials with a kink are smoothed, with less and less of it; those that are infinite at zero
    have modes wherever a coefficient is zero, and the one that is found depends on the start.
    """
    check_is("model", model, SparseModel, "a SparseModel")
    u, width = np.zeros(model.size), model.potential.width**2
    a = Precision(model.x, model.b, np.ones(model.x.shape[0]), np.ones(model.b.shape[0]))
    a = replace(a, dense=model.size <= _DENSE)
    smoothing, zero = 1.0, np.zeros(model.x.shape[0])
    for _ in range(_MODES):
        s = np.asarray(model.b @ u)
        v = smoothing * width + np.zeros_like(s)
        sites = inner_sites("hybrid", model.potential, s, v, v)
        before, u = u, minimise(model.likelihood, sites, a, zero, u).mean
        if smoothing <= _SHARPEST and np.allclose(u, before, rtol=1e-8, atol=1e-10):
            break
        smoothing = max(_SHARPEST, smoothing * _SHARPER)
    return u


@dataclass(frozen=True)
class _Evaluation:
    """The variances and the bound of a Gaussian."""

    model: SparseModel
    bounding: Bounding
    variances: Variances
    samples: int
    seed: int

    @property
    def exact(self) -> bool:
        """Whether variances and the bound are exact."""
        return self.variances == "cholesky"

    def of(self, mean: Float, w: Float, pi: Float) -> _State:
        """The state of a mean and a precision; a `LinAlgError` if this is not definite."""
        model = self.model
        a = Precision(model.x, model.b, w, pi, dense=self.exact)
        v = self._along(a, model.b)
        if self.exact:
            spread = a.variances(model.x)
            return _State(mean, a, v, spread, self._bound(mean, a, v, spread))
        # By theorem 1 no variance exceeds γ. A normal likelihood has no use for predictors'.
        normal = model.likelihood.family == "normal"
        spread = np.zeros_like(w) if normal else self._along(a, model.x)
        return _State(mean, a, np.minimum(v, 1.0 / pi), spread, np.inf)

    def _along(self, a: Precision, m: AnyMatrix) -> Float:
        if self.exact:
            return a.variances(m)
        estimate = lanczos if self.variances == "lanczos" else probing
        return estimate(a, m, self.samples, np.random.default_rng([self.seed, 41]))

    def _bound(self, mean: Float, a: Precision, v: Float, spread: Float) -> float:
        """F, or for class 1 the same with the sites' h at γ = 1/π, as the paper's φ has it."""
        model = self.model
        p = (model.b @ mean) ** 2 + v
        if self.bounding == "class_1":
            assert isinstance(model.potential, Laplace | Power)
            sites = -0.5 * (p * a.pi + model.potential.height(a.pi))
        else:
            sites = model.potential.log(p)
        rows = model.likelihood.expected(model.x @ mean, spread)[0]
        entropy = 0.5 * (model.size * np.log(2 * np.pi * np.e) - a.log_det)
        return float(rows.sum() + np.sum(sites)) + model.likelihood.constant + float(entropy)


def _start(model: SparseModel, evaluate: _Evaluation) -> _State:
    """Mean zero, and the precision there of sites as wide as their potentials."""
    rows, sites = model.x.shape[0], model.b.shape[0]
    w = -model.likelihood.expected(np.zeros(rows), np.zeros(rows))[2]
    pi = model.potential.precision(model.potential.width**2 + np.zeros(sites))
    try:
        return evaluate.of(np.zeros(model.size), w, pi)
    except LinAlgError as error:
        raise ReferenceFitError(
            f"the posterior of the sparse model is improper ({error}): rows and sites together "
            "do not determine every coefficient; add rows to b"
        ) from None


def _risen(evaluate: _Evaluation, state: _State, mean: Float, pi: Float, loop: int) -> _State:
    """The next state: new rows' weights too, moved back towards the old one until F rises."""
    bend = evaluate.model.likelihood.expected(evaluate.model.x @ mean, state.spread)[2]
    length, found = 1.0, None
    while length >= _SHORTEST:
        part = 1.0 - length
        try:
            found = evaluate.of(
                part * state.mean + length * mean,
                part * state.a.w - length * bend,
                part * state.a.pi + length * pi,
            )
        except (LinAlgError, ReferenceFitError):
            found = None
        lowest = state.bound - _ROUNDING * (1.0 + abs(state.bound))
        if found is not None and (not evaluate.exact or found.bound >= lowest):
            return found
        length /= 2.0
    reached = "undefined" if found is None else f"{found.bound:.10g}"
    raise ReferenceFitError(
        f"the bound fell from {state.bound:.10g} to {reached} in outer loop {loop}, which no exact "
        "update does: the potential is not super-Gaussian, or the predictors are too correlated "
        "for the arithmetic; scale them alike"
    )
