"""The full log likelihood as a quadratic around a centre of the posterior: expanded or projected.

The best quadratic under a Gaussian q = N(m, V) near the posterior is the projection of L in L²(q).
By Bonnet's and Price's theorems its gradient and Hessian at m are averages:

    g = E_q[∇L],      H = E_q[∇²L]

What it leaves is orthogonal to every quadratic. Nearly all of its gain over Taylor's expansion is
in the gradient, which antithetic pairs ½ (∇L(m + δ) + ∇L(m − δ)) estimate without the error of
first order; the Hessian is taken at m. Of a GLM both are known exactly, by one-dimensional
quadrature.

The curvature of Student-t outcomes with outliers changes sign from place to place, so that the
Hessian at m leaves much. Differences of the same pairs give the averaged Hessian, by Stein's
identity:

    H = E_q[∇L δᵀ] V⁻¹,      ½ (∇L(m + δ) − ∇L(m − δ)) ≈ H δ   by least squares,

if there are enough pairs. With many groups few suffice, because a row of H has entries only for its
group and for what groups share.

Absolute values, as in regressions of medians, have no second derivative but at the points where
they bend, and derivatives say nothing of their average. If few coordinates leave much, the
projection is made of the log likelihood at draws, by least squares on 1, ψ and ψ ψᵀ.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import eigh

from stancoreset.checks import listed
from stancoreset.engines import BoundModel, Float
from stancoreset.errors import ControlError, ReferenceFitError
from stancoreset.limits import NOISE
from stancoreset.reference import GaussianFit, Reference
from stancoreset.reference.expected import Expected, no_sums
from stancoreset.rows import AnyMatrix, Blocks, FullData, Hessians, Matrix, is_sparse
from stancoreset.rows.glm import GlmRows

#: Antithetic pairs over which gradients are averaged.
PAIRS = 32

# Draws for each number of a regression on the remainder that all groups share.
_DRAWS_EACH = 10


@dataclass(frozen=True)
class Expansion:
    """The full log likelihood L to second order around ψ₀.

    `centre` (P,) are all unconstrained coordinates at ψ₀, with `param_names`, and `columns` (p,)
    those in ψ. `value` is L(ψ₀), up to a constant, and `tangent` (p,) the gradient there, of which
    `gradient` may be an average over the antithetic `points` (2 K, P). `hessian` (p, p) is that of
    L, and `prior_hessian` (P, P) ∇² log prior(ψ₀), which every posterior's Hessian contains; both
    may be sparse. `scale` (P,) are posterior standard deviations, which scale the steps of finite
    differences, and `factor` (p, p) is F with F Fᵀ the posterior covariance of ψ.

    With `expected`, gradient and Hessian are exact expectations. If `is_fitted`, they are least
    squares at draws, which no derivatives of rows match. Where a gradient jumps, differences have
    `steps` of a scale (P,) of their own; `rows_bend` if that of the rows jumps.
    """

    centre: Float = field(repr=False)
    columns: NDArray[np.intp] = field(repr=False)
    value: float
    gradient: Float = field(repr=False)
    tangent: Float = field(repr=False)
    hessian: AnyMatrix = field(repr=False)
    scale: Float = field(repr=False)
    factor: AnyMatrix = field(repr=False)
    prior_hessian: AnyMatrix = field(repr=False)
    param_names: tuple[str, ...] = field(repr=False)
    points: Float | None = field(default=None, repr=False)
    expected: Expected | None = field(default=None, repr=False)
    is_fitted: bool = False
    steps: Float | None = field(default=None, repr=False)
    rows_bend: bool = False

    def towards(self, other: Expansion, share: float) -> Expansion:
        """(1 − t) Q + t Q′ for t = `share`, around the centre of Q′, the other quadratic."""
        if share == 1.0:
            return other
        step = (other.centre - self.centre)[self.columns]
        here = self.gradient + np.asarray(self.hessian @ step)
        return replace(
            other,
            gradient=here + share * (other.gradient - here),
            hessian=self.hessian + share * (other.hessian - self.hessian),
        )

    def mended(self, left: Float, draws: Float, blocks: Blocks) -> Expansion:
        """Add the common remainder of all groups to the quadratic, by regression on Σ z and Σ z².

        What rows and quadratic leave of one group is little, but what they leave of all groups
        alike adds up along the mean and the spread of effects, and moves the parameters of these.
        With z in posterior standard deviations, the values that are `left` at draws, (S,), are
        regressed on Σ z and Σ z² over the first coordinates of all groups, over their second ones,
        and so on. Without draws enough for that many numbers nothing is changed.
        """
        place = np.where(blocks.group < 0, -1, blocks.place)[self.columns]
        kinds = (place[:, None] == np.arange(blocks.widest)).astype(float)
        if len(left) < _DRAWS_EACH * 2 * blocks.widest or not np.isfinite(left).all():
            return self
        scale = self.scale[self.columns]
        z = self.delta(draws) / scale
        sums = np.hstack([z @ kinds, z**2 @ kinds])
        sums -= sums.mean(axis=0)
        along, bent = np.split(np.linalg.lstsq(sums, left - left.mean())[0], 2)
        added: AnyMatrix = sparse.diags_array(2.0 * (kinds @ bent) / scale**2)
        return replace(
            self,
            gradient=self.gradient + (kinds @ along) / scale,
            hessian=self.hessian + (added if is_sparse(self.hessian) else added.toarray()),
        )

    def fitted(self, reference: Reference, goal: float) -> Expansion:
        """The quadratic by least squares at draws, if it leaves more than a `goal` in nats there.

        Where log likelihoods bend at points, as absolute values do, second derivatives say nothing.
        With few draws, or where least squares leave as much, nothing is changed.
        """
        draws, p = reference.draws, len(self.columns)
        first, second = np.triu_indices(p)
        many = is_sparse(self.hessian) or len(draws) < _DRAWS_EACH * (1 + p + len(first))
        if many or self.expected is not None or self.gap(reference) <= goal:
            return self
        scale = self.scale[self.columns]
        z = self.delta(draws) / scale
        functions = np.hstack([np.ones((len(z), 1)), z, z[:, first] * z[:, second]])
        found = np.linalg.lstsq(functions, reference.log_likelihood)[0]
        slope, bends = np.split(found[1:], [p])
        bent = np.zeros((p, p))
        bent[first, second] += bends
        bent[second, first] += bends
        by_draws = replace(
            self,
            gradient=slope / scale,
            hessian=bent / np.outer(scale, scale),
            points=None,
            is_fitted=True,
        )
        return by_draws if by_draws.gap(reference) < goal else self

    def of_rows(
        self, bound: BoundModel, prior: BoundModel, rows: GlmRows | None
    ) -> tuple[Float, AnyMatrix]:
        """Gradient (p,) and Hessian (p, p) of some rows, averaged as those of the full data are.

        `bound` and `prior` are the weighted program bound to the rows, and to none; `rows` are
        these with their weights, for exact expectations. A `ReferenceFitError` is raised if a
        derivative is not finite.
        """
        columns = self.columns
        if self.expected is not None and rows is not None:
            expected = self.expected.sum_rows([rows])
            return expected.gradient[columns], _part(expected.hessian, columns)
        where = self.where
        gradient = bound.log_density_gradient(where)[1] - prior.log_density_gradient(where)[1]
        steps = self.scale if self.steps is None else self.steps
        found = Hessians(self.param_names).at(bound.log_density_gradient, self.centre, steps)
        hessian = _part(found - self.prior_hessian, columns)
        return gradient.mean(axis=0)[columns], hessian

    @property
    def where(self) -> Float:
        """The points over which gradients are averaged, (K, P)."""
        return self.centre[None] if self.points is None else self.points

    def delta(self, draws: Float) -> Float:
        """ψ − ψ₀ at draws: (S, P) → (S, p)."""
        return draws[:, self.columns] - self.centre[self.columns]

    def terms(self, draws: Float) -> tuple[Float, Float]:
        """First- and second-order terms of L at each draw, (S,) each."""
        delta = self.delta(draws)
        bent = np.asarray(delta @ self.hessian)
        return delta @ self.gradient, 0.5 * np.sum(bent * delta, axis=1)

    def left(self, reference: Reference) -> Float:
        """Remainder L − quadratic at the reference's draws, up to a constant, (S,).

        For draws from prior times quadratic these are log importance weights.
        """
        first, second = self.terms(reference.draws)
        return np.asarray(reference.log_likelihood - first - second)

    def gap(self, reference: Reference) -> float:
        """Standard deviation of what the quadratic leaves of L at the reference's draws."""
        with np.errstate(over="ignore", invalid="ignore"):  # of draws far from the quadratic
            return float(np.std(self.left(reference)))


def expand(
    full: FullData,
    reference: Reference,
    columns: NDArray[np.intp],
    pairs: int = 0,
    *,
    exact: bool = False,
    bent: bool = False,
) -> Expansion:
    """Expand the full log likelihood around the reference's centre, or project it.

    The centre is the mode of a Laplace fit, whose Hessian is known, and otherwise the mean of
    the draws; `columns` are the unconstrained coordinates in ψ. A `ControlError` is raised if the
    log likelihood or a derivative is not finite at the centre.

    With `pairs`, the gradient is averaged over so many antithetic pairs under the reference's
    Gaussian, if that is better at its draws; if `bent` the Hessian as well. Rows that complete such
    a quadratic are projected by their derivatives at the centre, so that `bent` is for a quadratic
    that stands alone. `exact` takes exact expectations of gradient and Hessian instead, whatever is
    better at the draws; `no_expectation` says where there are none.
    """
    gaussian = reference.gaussian
    centre = gaussian.mean
    value, gradient = full.log_density_gradient(centre[None])
    prior_value, prior_gradient = full.prior.log_density_gradient(centre[None])
    if not np.isfinite(value[0]):
        raise ControlError(
            f"the log density of the full data is {value[0]} at the control variate's centre, "
            f"{_point(full.param_names, centre)}: it lies outside the support; give a reference "
            "whose mean lies inside, or control_variate=False"
        )
    try:
        known = reference.method == "laplace" and gaussian.blocks is None
        scale = gaussian.sd
        steps = full.steps(centre, scale)
        if known and not steps.jumps:
            # A Laplace fit's precision is the posterior's negative Hessian.
            inverse = np.linalg.inv(gaussian.chol)
            posterior = -inverse.T @ inverse
        else:
            posterior = full.hessian(centre, steps.scale)
        of_prior = Hessians(full.param_names)
        prior = of_prior.at(full.prior.log_density_gradient, centre, steps.scale)
        hessian = posterior - prior
    except ReferenceFitError as error:
        raise ControlError(f"{error}; or leave the quadratic out: control_variate=False") from None
    likelihood_gradient = (gradient - prior_gradient)[0][columns]
    hessian = _part(hessian, columns)
    seconds = hessian.data if is_sparse(hessian) else hessian
    if not (np.all(np.isfinite(likelihood_gradient)) and np.all(np.isfinite(seconds))):
        raise ControlError(
            "a derivative of the log likelihood is not finite at the control variate's centre, "
            f"{_point(full.param_names, centre)}; give another reference, or control_variate=False"
        )
    expansion = Expansion(
        centre=centre,
        columns=columns,
        value=float(value[0] - prior_value[0]),
        gradient=likelihood_gradient,
        tangent=likelihood_gradient,
        hessian=hessian,
        scale=scale,
        steps=steps.scale,
        rows_bend=steps.jumps and full.rows_bend(centre, scale),
        factor=_factor(gaussian, columns),
        prior_hessian=prior,
        param_names=full.param_names,
    )
    if exact:
        return _expected(full, reference, expansion)
    return _projected(full, reference, expansion, pairs, bent) if pairs else expansion


def no_expectation(full: FullData, columns: NDArray[np.intp]) -> str:
    """The reason why exact expectations are unknown for ψ of these coordinates; empty if known."""
    reason = no_sums(full)
    if not reason and full.glm is not None:
        left_out = full.glm.coefficients.parameters.difference(columns.tolist())
        if left_out:
            name = full.param_names[min(left_out)]
            reason = f"'{name}', on which the rows depend, is no coordinate of the quadratic"
    return reason


def _expected(full: FullData, reference: Reference, expansion: Expansion) -> Expansion:
    """The expansion with exact expectations in place of derivatives at ψ₀."""
    assert full.glm is not None
    expected, columns = Expected(full.glm, reference.gaussian), expansion.columns
    found = expected.sum_rows(full.glm_rows())
    full.count_hessian(found.hessian)
    return replace(
        expansion,
        gradient=found.gradient[columns],
        hessian=_part(found.hessian, columns),
        expected=expected,
    )


def _projected(
    full: FullData, reference: Reference, expansion: Expansion, pairs: int, bent: bool
) -> Expansion:
    """The expansion with its gradient averaged under q, and its Hessian if it may be `bent`.

    Each only if that is better at the draws.
    """
    points = antithetic(expansion, pairs, np.random.default_rng([reference.seed, 23]))
    gradient = full.log_density_gradient(points)[1] - full.prior.log_density_gradient(points)[1]
    columns = expansion.columns
    averaged = replace(expansion, gradient=gradient.mean(axis=0)[columns], points=points)
    # Where q reaches outside the support there is no average.
    if not np.all(np.isfinite(averaged.gradient)):
        return expansion
    found = [expansion, averaged]
    bend = _bend(expansion, np.asarray(gradient[:, columns]), points) if bent else None
    if bend is not None:
        # Between the Hessian at the centre and the averaged one the noise of the latter is less.
        found += [replace(averaged, hessian=expansion.hessian + t * bend) for t in (0.5, 1.0)]
    return min(found, key=lambda one: one.gap(reference))


def _bend(expansion: Expansion, gradient: Float, points: Float) -> AnyMatrix | None:
    """The averaged Hessian less that at the centre; None if the pairs of points are too few.

    `gradient`, (2 K, p), is that of L at points ψ₀ ± δ, (2 K, P).
    """
    pairs, hessian = len(points) // 2, expansion.hessian
    delta = (points[:pairs] - expansion.centre)[:, expansion.columns]
    left = 0.5 * (gradient[:pairs] - gradient[pairs:]) - np.asarray(delta @ hessian)
    blocks = Blocks.of(hessian) if is_sparse(hessian) else None
    shared = np.arange(delta.shape[1]) if blocks is None else blocks.shared
    widest = 0 if blocks is None else blocks.widest
    if pairs < 2 * (len(shared) + widest):  # two for each entry of a row
        return None
    pieces = []
    for block in () if blocks is None else blocks.members:
        common = np.broadcast_to(delta[:, shared], (len(block), pairs, len(shared)))
        along = np.concatenate([common, delta[:, block].swapaxes(0, 1)], axis=2)
        slopes = np.linalg.pinv(along) @ left[:, block].swapaxes(0, 1)
        across, own = np.split(slopes, [len(shared)], axis=1)
        pieces.append((0.5 * (own + own.swapaxes(1, 2)), block[:, :, None], block[:, None, :]))
        pieces.append((across, shared[:, None], block[:, None, :]))
        pieces.append((across.swapaxes(1, 2), block[:, :, None], shared))
        left[:, shared] -= np.einsum("kja,jga->kg", delta[:, block], across)
    corner = np.linalg.lstsq(delta[:, shared], left[:, shared])[0]
    corner = 0.5 * (corner + corner.T)
    if blocks is None:
        return corner
    return blocks.placed([*pieces, (corner, shared[:, None], shared)])


def antithetic(expansion: Expansion, pairs: int, rng: np.random.Generator) -> Float:
    """Points ψ₀ ± F z with z standard normal, (2 K, P)."""
    delta = np.zeros((pairs, len(expansion.centre)))
    noise = rng.standard_normal((pairs, len(expansion.columns)))
    delta[:, expansion.columns] = noise @ expansion.factor.T
    return np.concatenate([expansion.centre + delta, expansion.centre - delta])


def _point(names: tuple[str, ...], theta: Float) -> str:
    shown = listed((f"{n} = {x:.4g}" for n, x in zip(names, theta, strict=True)), most=4)
    return f"{shown} (unconstrained)"


def _part(matrix: AnyMatrix, columns: NDArray[np.intp]) -> AnyMatrix:
    """Rows and columns of a matrix."""
    if isinstance(matrix, Matrix):
        return matrix if len(columns) == matrix.shape[0] else matrix[columns][:, columns]
    return matrix[np.ix_(columns, columns)]


def _factor(gaussian: GaussianFit, columns: NDArray[np.intp]) -> AnyMatrix:
    """F of the Gaussian's distribution of some coordinates."""
    if gaussian.blocks is not None and len(columns) == len(gaussian.mean):
        return cast("Matrix", gaussian.chol)
    return _square_root(gaussian.cov[np.ix_(columns, columns)])


def _square_root(cov: Float) -> Float:
    """F with F Fᵀ the covariance, or its diagonal if the draws are too few for correlations."""
    sd = np.sqrt(np.diag(cov))
    values, vectors = eigh(cov / np.outer(sd, sd))
    if values[0] < NOISE * values[-1]:
        return np.diag(sd)
    return np.asarray(sd[:, None] * vectors * np.sqrt(values))
