"""QR decompositions, which stanli lacks, against LAPACK's."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

pytest.importorskip("stanli")

from stancoreset.engines.stanli import StanliEngine
from stancoreset.engines.stanli_functions import with_functions

DECOMPOSED = """
data { int N; int K; matrix[N, K] x; }
transformed data {
  matrix[N, K] half = 0.5 * qr_thin_Q(x);
  matrix[K, K] r = qr_thin_R(x);
}
parameters { real m; }
model { m ~ normal(0, 1); }
generated quantities { matrix[N, K] q = 2 * half; matrix[K, K] found_r = r; }
"""


@pytest.mark.parametrize(("rows", "columns"), [(40, 5), (7, 1), (6, 6)])
@pytest.mark.parametrize("apart", [1.0, 1e-5])
def test_thin_qr_is_that_of_lapack(rows, columns, apart):
    """Also where two columns are nearly the same."""
    x = np.random.default_rng(columns).normal(size=(rows, columns))
    x[:, -1] = x[:, 0] + apart * x[:, -1]
    with StanliEngine().compile(DECOMPOSED).bind({"N": rows, "K": columns, "x": x}) as bound:
        found = {k: v[0] for k, v in bound.generated(np.zeros((1, 1)), None).items()}
    q, r = scipy.linalg.qr(x, mode="economic")
    signs = np.sign(np.diag(r))  # Stan's are positive
    np.testing.assert_allclose(found["found_r"], signs[:, None] * r, atol=1e-9)
    np.testing.assert_allclose(found["q"], q * signs, atol=1e-14 / apart**1.5)
    np.testing.assert_allclose(found["q"].T @ found["q"], np.eye(columns), atol=1e-13)


def test_other_programs_are_left_alone():
    code = "data { int qr_thin_N; } parameters { real m; } model { m ~ normal(0, 1); }"
    assert with_functions(code) is code
