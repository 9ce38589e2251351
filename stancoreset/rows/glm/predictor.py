"""The linear predictor η = Z c: its terms, its coefficients, and the matrix Z.

The columns of Z are row variables (dense) and indicators of groups, multiplied by a row
variable if slopes vary by group (sparse: one number per row). The coefficients c are parameters,
or, in non-centred programs, parameters z times a positive parameter τ:

    c = τ z,    ∂c/∂z = τ,    ∂c/∂log τ = c
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from stancoreset.engines import Float
from stancoreset.errors import DataError
from stancoreset.rows.blocks import MANY, AnyMatrix, Matrix, is_sparse

# Rows by a slice, by flags, or by their numbers.
Selected: TypeAlias = slice | NDArray[np.bool_] | NDArray[np.intp]


@dataclass(frozen=True)
class Term:
    """One summand of the linear predictor: a row `variable`, or one, times coefficients.

    `columns` are the coefficients' positions among the unconstrained parameters; without them it
    is an offset, whose coefficient is one. `group` is the row variable with the number of each
    row's coefficient, from 1, and `scale` the position of the logarithm of a factor of all
    coefficients. Of a matrix that is multiplied by a vector of each group, `column` is the one that
    this term multiplies.
    """

    variable: str | None
    columns: tuple[int, ...]
    group: str | None = None
    scale: int | None = None
    column: int | None = None


@dataclass(frozen=True)
class Coefficients:
    """The map from draws to coefficients, and from derivatives along these to parameters'.

    `scale` is, for the normal, the position of log σ among the parameters (int), or σ itself
    (float); for the negative binomial that of log φ, or φ.
    """

    terms: tuple[Term, ...]
    scale: int | float | None = None

    @cached_property
    def ordered(self) -> tuple[Term, ...]:
        """Terms with coefficients in the order of Z's columns: dense ones, then groups."""
        own = [term for term in self.terms if term.columns]
        return tuple(sorted(own, key=lambda term: term.group is not None))

    @cached_property
    def columns(self) -> NDArray[np.int64]:
        """Position of each column's unconstrained parameter, (C,)."""
        return np.array([c for term in self.ordered for c in term.columns], dtype=np.int64)

    @cached_property
    def parameters(self) -> frozenset[int]:
        """Positions of the unconstrained parameters that η or σ depends on."""
        scales = [term.scale for term in self.ordered]
        factors = [s for s in (*scales, self.scale) if isinstance(s, int)]
        return frozenset((*self.columns.tolist(), *factors))

    @cached_property
    def _scaled(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Columns of Z whose coefficients have a factor, and the factor's parameter."""
        scales = [-1 if t.scale is None else t.scale for t in self.ordered for _ in t.columns]
        which = np.flatnonzero(np.array(scales, dtype=np.int64) >= 0)
        return which, np.array(scales, dtype=np.int64)[which]

    def evaluate(self, draws: Float) -> Float:
        """Coefficients c: (S, P) → (S, C)."""
        c = draws[:, self.columns]
        which, scale = self._scaled
        if which.size:
            c[:, which] *= np.exp(draws[:, scale])
        return c

    def gradient(self, draws: Float, along: Float) -> Float:
        """Derivatives along parameters from those along coefficients: (S, C) → (S, P)."""
        which, scale = self._scaled
        along_own = along.copy()
        along_own[:, which] *= np.exp(draws[:, scale])
        out = np.zeros_like(draws)
        # A parameter may be the coefficient of several columns.
        np.add.at(out.T, self.columns, along_own.T)
        np.add.at(out.T, scale, (along[:, which] * self.evaluate(draws)[:, which]).T)
        return out

    def hessian(self, theta: Float, along: Float, curvature: AnyMatrix) -> AnyMatrix:
        """Jᵀ H J + Σ_j ∂L/∂c_j ∂²c_j/∂θ²: derivatives (C,) and (C, C) → (P, P)."""
        which, scale = self._scaled
        c, own, size = self.evaluate(theta[None])[0], self.columns, len(theta)
        factor = np.ones(len(own))
        factor[which] = np.exp(theta[scale])
        every = np.arange(len(own))
        values = np.concatenate([factor, c[which]])
        places = np.concatenate([every, which]), np.concatenate([own, scale])
        jacobian: AnyMatrix = Matrix((values, places), shape=(len(own), size))
        mixed, twice = along[which] * factor[which], along[which] * c[which]
        first = np.concatenate([own[which], scale, scale])
        second = np.concatenate([scale, own[which], scale])
        bends = Matrix((np.concatenate([mixed, mixed, twice]), (first, second)), shape=(size, size))
        if is_sparse(curvature):
            return Matrix(jacobian.T @ curvature @ jacobian + bends)
        jacobian = jacobian.toarray()
        return np.asarray(jacobian.T @ curvature @ jacobian + bends.toarray())

    def design(self, rows: dict[str, Any]) -> tuple[Design, Float | None]:
        """Build Z and the sum of the offsets (n,)."""
        length = len(next(iter(rows.values())))
        offset: Float | None = None
        for term in self.terms:
            if not term.columns:
                value = np.asarray(rows[str(term.variable)], dtype=np.float64)
                offset = value if offset is None else offset + value
        plain = [term for term in self.ordered if term.group is None]
        dense = np.empty((length, sum(len(term.columns) for term in plain)))
        start = 0
        for term in plain:
            stop = start + len(term.columns)
            value = np.ones(length) if term.variable is None else rows[term.variable]
            dense[:, start:stop] = value[:, None] if np.ndim(value) == 1 else value
            start = stop
        groups = [_indicators(t, rows, length) for t in self.ordered if t.group is not None]
        return Design(dense, sparse.hstack(groups, format="csr") if groups else None), offset


def _indicators(term: Term, rows: dict[str, Any], length: int) -> sparse.csr_array:
    """A sparse matrix with one number per row, in the column of its group."""
    require_between(str(term.group), rows[str(term.group)], 1, len(term.columns))
    code = np.asarray(rows[str(term.group)], dtype=np.int32) - 1
    value = np.ones(length) if term.variable is None else np.asarray(rows[term.variable], float)
    if term.column is not None:
        value = np.ascontiguousarray(value[:, term.column])
    starts = np.arange(length + 1, dtype=np.int32)
    return sparse.csr_array((value, code, starts), shape=(length, len(term.columns)))


def require_between(name: str, values: Any, lowest: float, highest: float) -> None:
    """Check a row variable's bounds as Stan would, which has not seen all of these rows."""
    array = np.asarray(values)
    wrong = ~((array >= lowest) & (array <= highest))
    if np.any(wrong):
        expected = f"{lowest:g} to {highest:g}"
        if np.inf in (-lowest, highest):
            expected = f"at least {lowest:g}" if highest == np.inf else f"at most {highest:g}"
        raise DataError(
            f"data variable {name!r} has {array[np.argmax(wrong)]} in one of the rows; "
            f"expected {expected}: correct these rows, or leave them out"
        )


def _is_all(rows: Selected, size: int) -> bool:
    """Whether `rows` cut nothing off, so that nothing need be copied."""
    return isinstance(rows, slice) and rows.indices(size) == (0, size, 1)


@dataclass(frozen=True)
class Design:
    """The matrix Z of a chunk of rows, (n, C): dense columns, then sparse ones of groups."""

    dense: Float
    groups: sparse.csr_array | None = None

    def __len__(self) -> int:
        return len(self.dense)

    @cached_property
    def _across(self) -> sparse.csc_array:
        """The transposed columns of groups: made once, for thousands of products."""
        assert self.groups is not None
        return self.groups.T

    def __getitem__(self, rows: Selected) -> Design:
        if _is_all(rows, len(self)):
            return self
        return Design(self.dense[rows], None if self.groups is None else self.groups[rows])

    def astype(self, dtype: Any) -> Design:
        """Convert to another precision."""
        groups = None if self.groups is None else self.groups.astype(dtype)
        return Design(self.dense.astype(dtype), groups)

    def sparse(self) -> Matrix:
        """All columns as one sparse matrix."""
        own = Matrix(self.dense)
        return own if self.groups is None else sparse.hstack([own, self.groups], format="csr")

    def times(self, c: Any, out: Any = None) -> Any:
        """Z c: (C, S) → (n, S), or (C,) → (n,)."""
        width = self.dense.shape[1]
        eta = np.matmul(self.dense, c[:width], out=out)
        if self.groups is not None:
            eta += self.groups @ c[width:]
        return eta

    def transposed_times(self, residual: Float) -> Float:
        """Zᵀ r: (n,) → (C,), or (n, S) → (C, S)."""
        with np.errstate(invalid="ignore"):  # residuals of absurd predictors are infinite
            own = self.dense.T @ residual
        return own if self.groups is None else np.concatenate([own, self._across @ residual])

    def gram(self, weights: Float) -> AnyMatrix:
        """Zᵀ diag(w) Z, (C, C), sparse if there are many columns."""
        weighted = self.dense * weights[:, None]
        own = self.dense.T @ weighted
        if self.groups is None:
            return own
        across = self.groups.T @ weighted
        spread = self._across @ (self.groups * weights[:, None])
        if len(own) + len(across) >= MANY:
            parts: Any = [[own, across.T], [across, spread]]
            return sparse.block_array(parts, format="csr")
        return np.block([[own, across.T], [across, spread.toarray()]])


@dataclass(frozen=True)
class GlmRows:
    """A chunk of rows in a GLM's variables: Z, outcomes and weights.

    The `offset` (n,) is the part of η that is not Z c, if there is one.
    """

    z: Design
    offset: Float | None
    y: Float
    weights: Float

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, rows: Selected) -> GlmRows:
        if _is_all(rows, len(self)):
            return self
        offset = None if self.offset is None else self.offset[rows]
        return GlmRows(self.z[rows], offset, self.y[rows], self.weights[rows])

    def predictor(self, c: Float, out: Float | None = None) -> Float:
        """η: (C, S) → (n, S), or (C,) → (n,)."""
        eta = np.asarray(self.z.times(c, out=out))
        if self.offset is not None:
            eta += self.offset if eta.ndim == 1 else self.offset[:, None]
        return eta
