"""The control variate: a quadratic that supplies the terms up to second order that rows lack.

    log p̃(θ) = log prior(θ) + Σ_n w_n L_n(θ) + gᵀ(ψ − ψ₀) − ½ (ψ − ψ₀)ᵀ R (ψ − ψ₀)
    g = ∇(L − L_w)(ψ₀),      R = −∇²(L − L_w)(ψ₀)

or, projected, with the gradient averaged around ψ₀ (`stancoreset.selection.expansion`). ψ are
unconstrained coordinates of the parameters, or of what the rows see of them; ψ₀ is a centre of the
posterior. Along the axes a_j in which
R is diagonal the quadratic is −½ Σ_j r_j t_j², with t_j = a_jᵀ (ψ − ψ₀). Where r_j < 0 it
would grow without bound, and far from ψ₀ it would exceed the rows' log likelihood; there t²
is replaced by h² (1 − exp(−u − u²/2 − u³/3)) with u = t²/h². It is bounded by h², and equals t² to
seventh order, for the exponent is the beginning of log(1 − u): a sum over a hundred directions
shows terms of fourth order.

With many groups R is a block arrow (`stancoreset.selection.arrows`), complete in O(p) numbers, and
what is negative of it lies along the coordinates that groups share: rows of a group are selected
so that they curve its log likelihood less than all of its data do. Rows that were selected in
another way may curve a group more, and then an arrow has no room for R: what it leaves of a group,
two intercepts' sum for one, may have no other bound. Up to a thousand coordinates R is complete
along its axes, as it is without groups. With more than a thousand
coordinates of any other kind R is a diagonal and the few axes that matter most, found by Lanczos'
method: p² numbers would cost NUTS more than the rows do. The omitted part is reported, and the
certificate sees its effect.

Only the likelihood is expanded; the prior stays exact in Stan. Gradient and Hessian of a
likelihood are those of the posterior minus those of the prior, and the prior is common to
L + log prior and L_w + log prior: R and g need no program of their own.

References
----------
Control variates in subsampling MCMC: Quiroz, Kohn, Villani & Tran (2019), JASA 114; Baker,
Fearnhead, Fox & Nemeth (2019), Statistics and Computing 29. Combining them with an optimised
coreset is ours.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import eigh, eigvalsh
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from stancoreset.engines import BoundModel, Float
from stancoreset.errors import ControlError, OutputError, ReferenceFitError
from stancoreset.files import atomic_path, reading
from stancoreset.limits import NOISE
from stancoreset.rows import (
    MAX_DENSE,
    AnyMatrix,
    Blocks,
    Matrix,
    dense,
    is_sparse,
    quadratic_terms,
)
from stancoreset.rows.glm import GlmRows
from stancoreset.selection.arrows import Arrow
from stancoreset.selection.expansion import Expansion

#: Least eigenvalue of R, in units of the posterior's precision, at which the corrected density
#: keeps its mass: far from ψ₀ the rows' curvature fades, R's does not.
LEAST_CURVATURE = -1.0
#: Width at which a direction is quadratic to machine precision.
UNBOUNDED = float(round(1 / NOISE))
_NAMES = ("param_names", "left_out")
# Names of an arrow's parts in files.
_ARROW, _PARTS = "arrow_", ("shared", "cross", "pairs", "values")
_SCALARS = ("least_eigenvalue", "share", "penalty", "left_over")


@dataclass(frozen=True)
class ControlVariate:
    """The quadratic that complements a coreset's rows.

    Attributes
    ----------
    centre : ndarray, shape (P,)
        ψ₀, in all unconstrained coordinates.
    columns : ndarray of int, shape (p,)
        The coordinates in ψ.
    param_names : tuple of str
        Names of all unconstrained coordinates.
    gradient : ndarray, shape (p,)
        g.
    scale : ndarray, shape (p,)
        Posterior standard deviations of ψ.
    axes : ndarray, shape (r, p)
        a_j, scaled so that t_j has posterior standard deviation one.
    curvature : ndarray, shape (r,)
        r_j: R = Σ_j r_j a_j a_jᵀ.
    width : ndarray, shape (r,)
        h_j; so large where r_j ≥ 0 that it has no effect.
    offset : ndarray, shape (r,)
        o_j: zero, except in negative directions of merged coresets.
    diagonal : ndarray, shape (p,)
        d in R = diag(d) + Σ_j r_j a_j a_jᵀ; zero unless there are many coordinates.
    arrow : Arrow, optional
        What is to be added to diag(d) for many groups, in place of axes.
    least_eigenvalue : float
        Smallest eigenvalue of R in units of the posterior's precision; negative if the
        rows curve the log likelihood more than all data do.
    share : float
        ρ, the factor applied to the row weights: one unless the rows were too few.
    left_out : tuple of str
        Parameters whose coordinates are not in ψ.
    penalty : float
        Weight of the second-order part in the selection of the rows.
    left_over : float
        Largest part of R outside diagonal and axes, in units of marginal posterior
        precision; zero unless there are many coordinates.
    """

    centre: Float = field(repr=False)
    columns: NDArray[np.intp] = field(repr=False)
    param_names: tuple[str, ...] = field(repr=False)
    gradient: Float = field(repr=False)
    scale: Float = field(repr=False)
    axes: Float = field(repr=False)
    curvature: Float = field(repr=False)
    width: Float = field(repr=False)
    offset: Float = field(repr=False)
    diagonal: Float = field(repr=False)
    least_eigenvalue: float
    share: float = 1.0
    left_out: tuple[str, ...] = ()
    penalty: float = 0.0
    left_over: float = 0.0
    arrow: Arrow | None = field(default=None, repr=False)

    def value(self, draws: Float) -> Float:
        """The quadratic at unconstrained draws: (S, P) → (S,)."""
        delta = np.atleast_2d(draws)[:, self.columns] - self.centre[self.columns]
        u = ((delta @ self.axes.T - self.offset) / self.width) ** 2
        bent = -(self.width**2) * np.expm1(-u * (1 + u * (0.5 + u / 3)))
        beside = 0.0 if self.arrow is None else self.arrow.value(delta)
        squares = bent @ self.curvature + delta**2 @ self.diagonal
        return np.asarray(delta @ self.gradient - 0.5 * squares - beside)

    def terms(self, draws: Float, shared: NDArray[np.bool_]) -> Float:
        """The quadratic's terms at draws, see `quadratic_terms`, (S, p)."""
        delta = draws[:, self.columns] - self.centre[self.columns]
        return quadratic_terms(delta, self.gradient, self.matrix, shared)

    @property
    def matrix(self) -> AnyMatrix:
        """R, (p, p), sparse for many groups."""
        if self.arrow is not None:
            beside = sparse.diags_array(self.diagonal) + Matrix(
                self.axes.T * self.curvature
            ) @ Matrix(self.axes)
            return Matrix(self.arrow.matrix + beside)
        return np.asarray((self.axes.T * self.curvature) @ self.axes) + np.diag(self.diagonal)

    def describe(self) -> dict[str, Any]:
        """Values for the report."""
        return {
            "coordinates": len(self.columns),
            "seen": list(dict.fromkeys(re.split(r"[.\[]", name)[0] for name in self.param_names)),
            "least_eigenvalue": self.least_eigenvalue,
            "share": self.share,
            "penalty": self.penalty,
            "rank": len(self.curvature),
            "left_over": self.left_over,
            "left_out": list(self.left_out),
            "arrow": 0 if self.arrow is None else self.arrow.size,
        }

    def save(self, path: Path) -> None:
        """Save to an ``.npz`` file."""
        with atomic_path(path) as temporary, temporary.open("wb") as stream:
            names = {key: np.array(getattr(self, key), dtype=str) for key in _NAMES}
            parts = {} if self.arrow is None else vars(self.arrow)
            arrow = {f"{_ARROW}{key}": value for key, value in parts.items()}
            own = {key: value for key, value in vars(self).items() if key != "arrow"}
            np.savez(stream, **{**own, **names, **arrow})

    @classmethod
    def load(cls, path: Path) -> ControlVariate:
        """Read what `save` wrote; an OutputError is raised if the file is damaged."""
        with reading(path):
            with np.load(path, allow_pickle=False) as stored:
                values: dict[str, Any] = {name: stored[name] for name in stored.files}
            scalars = {key: float(values[key]) for key in _SCALARS}
            names = {key: tuple(str(name) for name in values[key]) for key in _NAMES}
            parts = {key: values.pop(f"{_ARROW}{key}", None) for key in _PARTS}
            arrow = None if parts["shared"] is None else Arrow(**parts)
            control = cls(**{**values, **scalars, **names}, arrow=arrow)
            control._require_shapes()
        return control

    def _require_shapes(self) -> None:
        """Refuse arrays with inconsistent shapes or values that are not finite."""
        p, r = len(self.gradient), len(self.curvature)
        expected = {
            "centre": (len(self.param_names),),
            "columns": (p,),
            "gradient": (p,),
            "scale": (p,),
            "axes": (r, p),
            "curvature": (r,),
            "width": (r,),
            "offset": (r,),
            "diagonal": (p,),
        }
        held = dict(vars(self))
        if self.arrow is not None:
            held |= vars(self.arrow)
            expected |= {"cross": (p, len(self.arrow.shared))}
            expected |= {"pairs": (len(self.arrow.values), 2)}
        for name, shape in expected.items():
            array = held[name]
            if array.shape != shape or not np.isfinite(array).all():
                raise OutputError(
                    f"{name} has shape {array.shape}, expected finite numbers of shape {shape}"
                )


def control_variate(
    coreset: BoundModel,
    prior: BoundModel,
    expansion: Expansion,
    *,
    rows: GlmRows | None = None,
    left_out: tuple[str, ...],
    width: float = 8.0,
) -> ControlVariate:
    """Compute g and R of a coreset.

    `coreset` is the weighted program bound to the coreset's rows without a quadratic, `prior` the
    same bound to no rows, and `expansion` that of the full log likelihood. `rows` are the coreset's
    with their weights, if the expansion has exact expectations. A `ControlError` is raised if the
    coreset's derivatives are not finite.
    """
    centre, columns = expansion.centre, expansion.columns
    try:
        gradient, hessian = expansion.of_rows(coreset, prior, rows)
    except ReferenceFitError as error:
        raise ControlError(f"of the coreset's rows: {error}") from None
    curvature = hessian - expansion.hessian
    curvature = 0.5 * (curvature + curvature.T)
    scale = expansion.scale[columns]
    whole = _along_axes if len(columns) <= MAX_DENSE else _beside_a_diagonal
    parts = _along_groups(curvature, expansion, scale) or whole(curvature, expansion, scale)
    values = parts["curvature"]
    return ControlVariate(
        centre=centre,
        columns=columns,
        param_names=expansion.param_names,
        gradient=expansion.gradient - gradient,
        scale=scale,
        width=np.where(values < 0, width, UNBOUNDED),
        offset=np.zeros(len(values)),
        left_out=left_out,
        **parts,
    )


def _along_groups(
    curvature: AnyMatrix, expansion: Expansion, scale: Float, most_beside: float = 0.01
) -> dict[str, Any]:
    """R as an arrow; nothing if it has no such form, or omits too much where R may be dense.

    `most_beside` is in units of the posterior's precision.
    """
    blocks = Blocks.of(curvature) if is_sparse(curvature) else None
    if blocks is None:
        return {}
    curvature, units = Matrix(curvature), sparse.diags_array(scale)
    positive, axes, values = _positive_arrow(curvature, blocks, expansion, scale)
    beside = curvature - positive - Matrix(axes.T * values) @ Matrix(axes)
    left_over = float(abs(units @ beside @ units).max())
    if left_over > most_beside and len(scale) <= MAX_DENSE:
        return {}
    return {
        "axes": axes,
        "curvature": values,
        "diagonal": positive.diagonal(),
        "arrow": Arrow.of(positive, blocks),
        "left_over": left_over,
        "least_eigenvalue": _lowest_under(curvature, expansion.factor),
    }


def _along_axes(curvature: AnyMatrix, expansion: Expansion, scale: Float) -> dict[str, Any]:
    """R by all its eigenvectors."""
    try:
        axes, values, least = _diagonal(dense(curvature), expansion.factor)
    except np.linalg.LinAlgError:
        narrow = expansion.param_names[expansion.columns[np.argmin(scale)]]
        raise ControlError(
            f"the reference's Gaussian has hardly any spread along {narrow} (sd "
            f"{scale.min():.2g}); expected a proper posterior: where effects can pass through "
            "all outcomes, the density may have a pole. Group more rows together, or give "
            "another reference="
        ) from None
    none = np.zeros(len(scale))
    return {"axes": axes, "curvature": values, "diagonal": none, "least_eigenvalue": least}


def _beside_a_diagonal(curvature: AnyMatrix, expansion: Expansion, scale: Float) -> dict[str, Any]:
    """R as a diagonal and the axes that matter most."""
    curvature = dense(curvature)
    diagonal, axes, values, left_over = _diagonal_and_axes(curvature, scale)
    return {
        "axes": axes,
        "curvature": values,
        "diagonal": diagonal,
        "left_over": left_over,
        "least_eigenvalue": _lowest_under(curvature, expansion.factor),
    }


def _positive_arrow(
    curvature: Matrix, blocks: Blocks, expansion: Expansion, scale: Float
) -> tuple[Matrix, Float, Float]:
    """R as an arrow without negative eigenvalues, and negative axes of the shared coordinates."""
    units, back = sparse.diags_array(scale), sparse.diags_array(1 / scale)
    positive, vectors, values = blocks.semidefinite(Matrix(units @ curvature @ units))
    axes = np.zeros((len(values), len(scale)))
    axes[:, blocks.shared] = vectors.T / scale[blocks.shared]
    spread = np.linalg.norm(np.asarray(expansion.factor.T @ axes.T), axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    return Matrix(back @ positive @ back), axes / spread[:, None], -values * spread**2


def _lowest_under(matrix: AnyMatrix, factor: AnyMatrix) -> float:
    """Compute the smallest eigenvalue of FᵀMF without forming it."""
    size = len(factor.diagonal())

    def times(z: Float) -> Float:
        return np.asarray(factor.T @ (matrix @ (factor @ z)))

    return _lowest(LinearOperator((size, size), matvec=times, dtype=np.float64))


def _diagonal(curvature: Float, factor: AnyMatrix) -> tuple[Float, Float, float]:
    """Axes and eigenvalues of R in units of F, and the smallest eigenvalue."""
    factor = dense(factor)  # that of groups is sparse, though what rows see may have none
    values, vectors = eigh(factor.T @ curvature @ factor)
    # No draw can tell a smaller eigenvalue, in units of posterior precision, from zero.
    kept = np.abs(values) > NOISE * max(1.0, float(np.abs(values).max()))
    axes = np.asarray(np.linalg.solve(factor.T, vectors[:, kept]).T, dtype=np.float64)
    return axes, values[kept], float(values[0])


def _lowest(matrix: Any) -> float:
    """Compute the smallest eigenvalue by Lanczos' method."""
    start = np.random.default_rng(matrix.shape).standard_normal(matrix.shape[0])
    try:
        found = eigsh(matrix, k=1, which="SA", tol=1e-3, v0=start, return_eigenvectors=False)
    except ArpackError:  # eigenvalues crowd near zero, to which the tolerance is relative, or are
        return float(eigvalsh(_finite(matrix @ np.eye(len(start))), subset_by_index=(0, 0))[0])
    return float(found[0])


def _finite(matrix: Float) -> Float:
    """A matrix whose eigenvalues exist."""
    if not np.isfinite(matrix).all():
        raise ControlError(
            "second derivatives of the log likelihood overflow in units of the reference, so that "
            "there is no control variate; use control_variate=False, or bring the data to units of "
            "about 1"
        )
    return matrix


def _diagonal_and_axes(
    curvature: Float, scale: Float, most: int = 100
) -> tuple[Float, Float, Float, float]:
    """R ≈ diag(d) + Σ_j r_j a_j a_jᵀ in units of marginal posterior standard deviations.

    The axes are the eigenvectors of R without its diagonal that have the largest absolute
    eigenvalues. Negative entries of the diagonal, where the rows curve the log likelihood more
    than all data do, are set to zero.
    """
    scaled = curvature * np.outer(scale, scale)
    diagonal = np.diag(scaled).copy()
    off = scaled - np.diag(diagonal)
    start = np.ones(len(off)) / np.sqrt(len(off))  # the same axes whenever R is the same
    try:
        values, vectors = eigsh(off, k=most + 1, which="LM", v0=start, tol=1e-3)
    except ArpackError:  # as of independent coordinates, where all of it is zero
        values, vectors = eigh(_finite(off))
    order = np.argsort(-np.abs(values))
    kept, left_over = order[:most], float(np.abs(values[order[most]]))
    axes = np.asarray((vectors[:, kept] / scale[:, None]).T, dtype=np.float64)
    return np.maximum(diagonal, 0.0) / scale**2, axes, values[kept], left_over


def sum_of_controls(controls: Sequence[ControlVariate], centre: Float) -> ControlVariate:
    """Add up quadratics q_i of the same parameters around a new centre, exactly up to a constant.

    gᵀ(ψ − c) − ½ (ψ − c)ᵀ R (ψ − c) around c′ has g′ = g − R (c′ − c) and the same R; each
    negative direction is kept, with an offset.
    """
    first = controls[0]
    gradient = np.zeros_like(first.gradient)
    curvature = np.zeros((len(gradient), len(gradient)))
    bent: list[tuple[Float, Float, Float, Float]] = []
    for control in controls:
        shift = (centre - control.centre)[control.columns]
        rising = control.curvature < 0
        falling = (control.axes[~rising].T * control.curvature[~rising]) @ control.axes[~rising]
        falling += np.diag(control.diagonal)
        if control.arrow is not None:
            falling += control.arrow.matrix.toarray()
        gradient += control.gradient - falling @ shift
        curvature += falling
        axes, width = control.axes[rising], control.width[rising]
        bent.append((axes, control.curvature[rising], width, control.offset[rising] - axes @ shift))
    # Precisions add: the posterior of all parts is narrower than each part's.
    scale = np.sum([control.scale**-2 for control in controls], axis=0) ** -0.5
    diagonal, arrow = np.zeros(len(gradient)), None
    many = all(control.arrow is not None for control in controls)
    blocks = Blocks.of(curvature) if many else None
    if blocks is not None:
        diagonal, arrow = np.diag(curvature).copy(), Arrow.of(Matrix(curvature), blocks)
        axes, values = np.zeros((0, len(gradient))), np.zeros(0)
    elif len(gradient) <= MAX_DENSE:
        axes, values, *_ = _diagonal(curvature, np.diag(scale))
    else:
        diagonal, axes, values, *_ = _diagonal_and_axes(curvature, scale)
    parts = [(axes, values, np.full_like(values, UNBOUNDED), np.zeros_like(values)), *bent]
    axes, values, width, offset = (np.concatenate(list(part)) for part in zip(*parts, strict=True))
    return replace(
        first,
        centre=centre,
        gradient=gradient,
        scale=scale,
        axes=axes,
        curvature=values,
        width=width,
        offset=offset,
        diagonal=diagonal,
        least_eigenvalue=min(control.least_eigenvalue for control in controls),
        share=min(control.share for control in controls),
        arrow=arrow,
    )


def stable_share(control: ControlVariate, expansion: Expansion) -> float:
    """Largest ρ ≤ 1 at which R keeps every eigenvalue above `LEAST_CURVATURE`.

    R(ρ) = A − ρ B with A and B the curvatures of L and of the coreset with ρ = 1.
    """
    factor = expansion.factor
    full = -factor.T @ expansion.hessian @ factor
    rows = full - factor.T @ control.matrix @ factor
    low, high = 0.0, 1.0
    few = full.shape[0] <= MAX_DENSE and not is_sparse(full)
    for _ in range(30 if few else 8):
        middle = 0.5 * (low + high)
        rest = full - middle * rows
        least = eigh(rest, eigvals_only=True, subset_by_index=[0, 0])[0] if few else _lowest(rest)
        if least >= LEAST_CURVATURE:
            low = middle
        else:
            high = middle
    return low
