"""QR decompositions against LAPACK's, sparse products and normal densities against SciPy's."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import scipy.stats
from scipy import sparse

pytest.importorskip("stanli")

import stancoreset as sc
from stancoreset.engines.stanli import StanliEngine
from stancoreset.engines.stanli_programs import for_stanli

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
    assert for_stanli(code)[0] is code


REGRESSION = """
data { int N; int K; vector[N] y; matrix[N, K] x; }
transformed data {
  matrix[N, K] q = qr_thin_Q(x) * sqrt(N - 1);
  matrix[K, K] to_b = inverse(qr_thin_R(x) / sqrt(N - 1));
}
parameters { vector[K] b_q; real<lower=0> sigma; }
model { y ~ normal_id_glm(q, 0, b_q, sigma); }
generated quantities { vector[K] b = to_b * b_q; }
"""


def test_a_decomposition_of_all_rows_stays_as_it_is_for_some():
    """As brms writes it, ``decomp = "QR"``; the coefficients are those of least squares."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3))
    y = x @ [1.0, 0.5, -1.0] + 1e-3 * rng.normal(size=60)
    data = {"N": 60, "K": 3, "x": x, "y": y}
    with sc.CoresetModel(stan_code=REGRESSION, engine="stanli") as model:
        assert model.identities(data).passed.all()
        gaussian = model.reference(data, "laplace", draws=100).gaussian
        b_q = gaussian.mean[:3]
    r = scipy.linalg.qr(x, mode="r")[0][:3]
    signs = np.sign(np.diag(r))
    b = np.linalg.solve(signs[:, None] * r / np.sqrt(59), b_q)
    np.testing.assert_allclose(b, np.linalg.lstsq(x, y, rcond=None)[0], atol=1e-5)


SPARSE = """
data { int N; int q; int n_entries; vector[n_entries] w; array[n_entries] int v;
       array[N + 1] int u; vector[N] c; }
parameters { vector[q] b; }
model { target += dot_product(c, sin(csr_matrix_times_vector(N, q, w, v, u, b))); }
"""


@pytest.mark.parametrize("entries", ["some", "one", "none"])
def test_sparse_products_are_those_of_scipy(entries):
    """With rows of no entry, and with gradients."""
    rng = np.random.default_rng(3)
    each = {"some": rng.integers(0, 4, 30), "one": np.ones(30, int), "none": np.zeros(30, int)}
    starts = np.concatenate([[0], np.cumsum(each[entries])])
    w, v, c = rng.normal(size=starts[-1]), rng.integers(0, 5, starts[-1]), rng.normal(size=30)
    matrix = sparse.csr_array((w, v, starts), shape=(30, 5))
    data = {"N": 30, "q": 5, "n_entries": len(w), "w": w, "v": v + 1, "u": starts + 1, "c": c}
    b = rng.normal(size=(4, 5))
    eta = (matrix @ b.T).T
    with StanliEngine().compile(SPARSE).bind(data) as bound:
        values, gradients = bound.log_density_gradient(b)
        np.testing.assert_allclose(bound.log_density(b), np.sin(eta) @ c, atol=1e-12)
    np.testing.assert_allclose(values, np.sin(eta) @ c, atol=1e-12)
    np.testing.assert_allclose(gradients, (matrix.T @ (np.cos(eta) * c).T).T, atol=1e-12)


def test_sparse_products_take_no_dense_matrix():
    """A dense one would fill 16 GB."""
    n, q = 100_000, 20_000
    v, c = np.arange(n) % q + 1, np.ones(n)
    data = {"N": n, "q": q, "n_entries": n, "w": c, "v": v, "u": np.arange(1, n + 2), "c": c}
    with StanliEngine().compile(SPARSE).bind(data) as bound:
        _, gradient = bound.log_density_gradient(np.zeros((1, q)))
    np.testing.assert_array_equal(gradient, n / q)


NORMALS = """
data { int J; int K; matrix[K, K] S; vector[K] c; }
parameters { array[J] vector[K] y; vector[K] mu; real<lower=0> s; }
model {
  matrix[K, K] scaled = square(s) * S;
  %s
}
"""


def normals(statement: str, draws: np.ndarray, spread: np.ndarray, count: int):
    """Log densities and gradients of vectors around one mean, by Stan's coordinates."""
    size = len(spread)
    data = {"J": count, "K": size, "S": spread, "c": np.zeros(size)}
    with StanliEngine().compile(NORMALS % statement).bind(data) as bound:
        assert bound.n_params == draws.shape[1]
        values, gradients = bound.log_density_gradient(draws)
        np.testing.assert_allclose(bound.log_density(draws), values, rtol=1e-12, atol=1e-12)
    return values, gradients


@pytest.mark.parametrize(
    "statement",
    [
        "target += multi_normal_lpdf(y | mu, scaled);",
        "target += multi_normal_cholesky_lpdf(y | mu, cholesky_decompose(scaled));",
        "y ~ multi_normal(mu, scaled);",
        "for (pass in 1:1) y ~ multi_normal_cholesky(mu, cholesky_decompose(scaled));",
    ],
)
@pytest.mark.parametrize(("count", "size"), [(6, 3), (1, 2), (5, 1), (0, 2)])
def test_normal_vectors_are_those_of_scipy(statement, count, size):
    """Constants too, which a sampling statement drops; gradients against closed forms."""
    rng = np.random.default_rng(size)
    spread = np.cov(rng.normal(size=(size, 50))).reshape(size, size)
    draws = rng.normal(size=(4, count * size + size + 1))
    values, gradients = normals(statement, draws, spread, count)
    assert "stanli_multi_normal" in for_stanli(NORMALS % statement)[0]
    for value, gradient, draw in zip(values, gradients, draws, strict=True):
        y, mu = draw[: count * size].reshape(count, size), draw[count * size : -1]
        scaled = np.exp(2 * draw[-1]) * spread
        expected = scipy.stats.multivariate_normal(mu, scaled).logpdf(y).sum() + draw[-1]
        if "~" in statement:
            expected += 0.5 * count * size * np.log(2 * np.pi)
        np.testing.assert_allclose(value, expected, rtol=1e-11)
        force = np.linalg.solve(scaled, (mu - y).T).T
        along_s = np.sum(force * (mu - y)) - count * size + 1
        closed = np.concatenate([force.ravel(), -force.sum(axis=0), [along_s]])
        np.testing.assert_allclose(gradient, closed, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    "statement",
    ["for (j in 1:J) y[j] ~ multi_normal(mu, scaled);", "y ~ multi_normal(y, scaled);"],
)
def test_other_normal_vectors_are_left_alone(statement):
    """One vector, and means of their own."""
    code = NORMALS % f"{statement} target += sum(c);"  # for data that are not read are left out
    assert for_stanli(code)[0] is code


def test_normal_vectors_of_a_negative_spread_are_rejected():
    draws = np.zeros((1, 9))
    values, _ = normals("y ~ multi_normal(mu, scaled);", draws, -np.eye(2), 3)
    assert values[0] == -np.inf


def test_normal_vectors_of_an_ill_conditioned_spread_are_right_to_its_condition():
    """Stan's other factor differs from ours by as much: both round the spread itself."""
    rng = np.random.default_rng(6)
    for small in (1e-1, 1e-3, 1e-5):
        factor = np.array([[1.0, 0, 0], [3.0, small, 0], [-2.0, 1.0, small]])
        spread, draws = factor @ factor.T, rng.normal(size=(3, 13))
        draws[:, -1] = 0
        values, _ = normals("target += multi_normal_lpdf(y | mu, scaled);", draws, spread, 3)
        for value, draw in zip(values, draws, strict=True):
            away = scipy.linalg.solve_triangular(
                factor, (draw[:9].reshape(3, 3) - draw[9:12]).T, lower=True
            )
            exact = -0.5 * np.sum(away**2) - 3 * np.log(np.diag(factor)).sum()
            exact -= 4.5 * np.log(2 * np.pi)
            bound = 10 * np.finfo(float).eps * np.linalg.cond(factor) ** 2
            np.testing.assert_allclose(value, exact, rtol=max(bound, 1e-12))


def test_a_recursion_that_parameters_stop_is_no_fault_of_the_data():
    code = """
    functions { real f(real x); real f(real x) { return x > 5 ? x : 0.5 * f(x + 1); } }
    data { int N; vector[N] y; } parameters { real m; } model { y ~ normal(f(m), 1); }
    """
    compiled = StanliEngine(threads=1).compile(code, name="again")
    for bind in (compiled.bind, compiled.bind_density):
        with pytest.raises(sc.errors.EngineError, match=r"'again': functions .* use CmdStan"):
            bind({"N": 1, "y": np.zeros(1)})
