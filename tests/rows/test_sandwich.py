"""Jᵀ A J less another matrix, against dense linear algebra."""

from __future__ import annotations

import numpy as np
import pytest

from stancoreset.rows import DenseSandwich, Matrix, SparseSandwich


def sparse_matrix(rng, rows, columns, share=0.3):
    return Matrix(
        np.where(rng.random((rows, columns)) < share, rng.normal(size=(rows, columns)), 0)
    )


@pytest.mark.parametrize(("rows", "columns"), [(12, 7), (5, 9), (1, 1), (4, 0), (0, 5)])
def test_numbers_change_and_patterns_do_not(rows, columns):
    rng = np.random.default_rng(rows)
    middle = sparse_matrix(rng, rows, rows)
    middle = Matrix(middle + middle.T)
    jacobian, matrix = sparse_matrix(rng, rows, columns), sparse_matrix(rng, columns, columns)
    dense, known = DenseSandwich(middle.toarray()), SparseSandwich.of(jacobian, middle, matrix)
    for _ in range(3):
        jacobian.data = rng.normal(size=jacobian.nnz)
        matrix.data = rng.normal(size=matrix.nnz)
        wanted = jacobian.toarray().T @ middle.toarray() @ jacobian.toarray() - matrix.toarray()
        found = known.less(known.value(jacobian), matrix).toarray()
        np.testing.assert_allclose(found, wanted, atol=1e-12)
        np.testing.assert_allclose(dense.less(dense.value(jacobian), matrix), wanted, atol=1e-12)
