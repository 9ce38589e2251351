"""A Hessian of many groups that is not positive definite, with Lanczos' method and without."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse.linalg import ArpackNoConvergence

from stancoreset.errors import ReferenceFitError
from stancoreset.reference import laplace
from stancoreset.reference.collapsed.conditional import DenseFactor
from stancoreset.rows import Matrix


@pytest.mark.parametrize("converges", [True, False])
def test_the_flat_direction_is_named_though_lanczos_fails(monkeypatch, converges):
    count = 400
    precision = np.eye(count)
    precision[0, 1:] = precision[1:, 0] = 0.01
    precision[7, 7] = -3.0

    def failing(*_, **__):
        raise ArpackNoConvergence("no convergence", np.zeros(0), np.zeros((count, 0)))

    if not converges:
        monkeypatch.setattr(laplace, "eigsh", failing)
    names = tuple(f"r.{j + 1}" for j in range(count))
    with pytest.raises(ReferenceFitError, match=r"eigenvalue -3.* r\.8"):
        laplace._of_groups(np.zeros(count), Matrix(precision), names)


@pytest.mark.filterwarnings("error")  # as of numpy's roots
@pytest.mark.parametrize("entry", [-1.0, 0.0, np.nan])
def test_a_diagonal_that_is_not_positive_is_refused_without_a_warning(entry):
    with pytest.raises(np.linalg.LinAlgError, match="diagonal entry"):
        DenseFactor.of(np.diag([1.0, entry]))
