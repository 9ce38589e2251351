"""The averaged Hessian from differences of antithetic gradients, against quadrature."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from scipy import sparse
from seeds import reseeded

from stancoreset.rows import Matrix
from stancoreset.selection import PAIRS, Expansion
from stancoreset.selection.expansion import _bend, antithetic

SPREAD = 0.5


def rows_of(groups: int, shared: int, rng: np.random.Generator):
    """Rows that read some shared coordinates, and of many groups two of one group."""
    width = shared + 2 * groups
    number = 12 * max(groups, 10)
    rows = np.zeros((number, width))
    rows[:, :shared] = rng.normal(size=(number, shared))
    for n in range(number if groups else 0):
        own = shared + 2 * (n % groups)
        rows[n, own : own + 2] = 1.0, rng.normal()
    return rows


def averaged(rows, centre, factor):
    """E_q[∇²L] of L = −Σ log cosh(x_nᵀψ): −Σ E[1/cosh²(η_n)] x_n x_nᵀ by one-dimensional rules."""
    nodes, weights = hermegauss(60)
    mean, sd = rows @ centre, np.linalg.norm(rows @ factor, axis=1)
    curved = (np.cosh(mean[:, None] + sd[:, None] * nodes) ** -2) @ weights / weights.sum()
    return -(rows.T * curved) @ rows


@pytest.mark.parametrize(("groups", "shared"), [(0, 6), (100, 3)])
def test_the_averaged_hessian_is_that_of_quadrature(groups, shared):
    rng = np.random.default_rng(reseeded(1))
    rows = rows_of(groups, shared, rng)
    width = rows.shape[1]
    centre, factor = 0.3 * rng.normal(size=width), SPREAD * np.eye(width)
    wanted = averaged(rows, centre, factor)
    here = -(rows.T * np.cosh(rows @ centre) ** -2) @ rows
    made = Matrix(here) if groups else here
    expansion = Expansion(
        centre=centre,
        columns=np.arange(width),
        value=0.0,
        gradient=np.zeros(width),
        tangent=np.zeros(width),
        hessian=made,
        scale=np.full(width, SPREAD),
        factor=factor,
        prior_hessian=np.zeros((width, width)),
        param_names=tuple(f"b.{k}" for k in range(width)),
    )
    points = antithetic(expansion, PAIRS, rng)
    found = _bend(expansion, -np.tanh(points @ rows.T) @ rows, points)
    assert sparse.issparse(found) == bool(groups)
    found = found.toarray() if groups else found
    assert found == pytest.approx(found.T)
    size = np.linalg.norm(wanted - here)
    assert np.linalg.norm(here + found - wanted) < 0.4 * size
    # A group's coordinates do not meet another's.
    assert not np.any(found[wanted == 0])
    few = np.concatenate([points[:8], points[PAIRS : PAIRS + 8]])
    assert _bend(expansion, -np.tanh(few @ rows.T) @ rows, few) is None


def test_a_quadratic_has_the_hessian_at_its_centre():
    rng = np.random.default_rng(reseeded(2))
    rows = rng.normal(size=(50, 5))
    expansion = Expansion(
        centre=np.zeros(5),
        columns=np.arange(5),
        value=0.0,
        gradient=np.zeros(5),
        tangent=np.zeros(5),
        hessian=-rows.T @ rows,
        scale=np.ones(5),
        factor=np.eye(5),
        prior_hessian=np.zeros((5, 5)),
        param_names=tuple("abcde"),
    )
    points = antithetic(expansion, PAIRS, rng)
    gradient = 3.0 - points @ rows.T @ rows
    assert _bend(expansion, gradient, points) == pytest.approx(np.zeros((5, 5)), abs=1e-9)
