"""Newer words of Stan: woven where a stanc that knows them is there, explained where none is."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import numpy as np
import pytest
from scipy import special

pytest.importorskip("stanli")
pytest.importorskip("bridgestan")

from weave_checks import generated, identities, model
from weave_data import make_data

import stancoreset as sc
from stancoreset.engines import resolve_engine
from stancoreset.engines.stanli import StanliEngine
from stancoreset.errors import CompileError, DataError, EngineError, ProgramError, WeaveError
from stancoreset.stan.syntax import stanc
from stancoreset.stan.weave import weave

SUM_TO_ZERO = """// data: {"N": 9, "J": 3}
data { int N; int J; array[N] int<lower=1, upper=J> g; vector[N] y; }
parameters { sum_to_zero_vector[J] a; real<lower=0> s; }
model { a ~ normal(0, 1); y ~ normal(a[g], s); }"""
BETA_NEG_BINOMIAL = """// data: {"N": 6}
data { int N; array[N] int<lower=0> y; }
parameters { real<lower=0> r; real<lower=0> a; real<lower=0> b; }
model { y ~ beta_neg_binomial(r, a, b); r ~ exponential(1); }"""
JACOBIAN = """functions { real up_jacobian(real x) { jacobian += x; return exp(x); } }
data { int N; vector[N] y; vector[N] x; }
parameters { real m; real l; real k; }
transformed parameters { real s = up_jacobian(l); real t; jacobian += k; t = exp(k); }
model { y ~ normal(m, s + t); }"""
TUPLES = """functions { tuple(real, real) both(real m) { return (m, exp(m)); } }
data { int N; vector[N] y; tuple(real, int) prior; }
parameters { real m; }
model { tuple(real, real) t = both(m); m ~ normal(prior.1, prior.2); y ~ normal(t.1, t.2); }"""
MATRICES = """data { int N; array[N] int g; array[N] int h; vector[N] y; }
parameters { sum_to_zero_matrix[2, 3] a; row_stochastic_matrix[2, 3] P; }
model { for (n in 1:N) { y[n] ~ normal(a[g[n], h[n]], 1); target += log(P[g[n], h[n]]); } }"""

STOCHASTIC = """data {{ int N; array[N] int<lower=1, upper=2> g;
  array[N] int<lower=1, upper=3> y; }}
parameters {{ {kind}_stochastic_matrix[{size}] P; }}
model {{ for (n in 1:N) y[n] ~ categorical({row}); }}"""
ROW_STOCHASTIC = STOCHASTIC.format(kind="row", size="2, 3", row="P[g[n]]'")
COLUMN_STOCHASTIC = STOCHASTIC.format(kind="column", size="3, 2", row="P[:, g[n]]")
CELLS = """data { int N; array[N] int<lower=1, upper=2> g;
  array[N] int<lower=1, upper=3> h; vector[N] y; }
parameters { sum_to_zero_matrix[2, 3] a; }
model { to_vector(a) ~ normal(0, 1); for (n in 1:N) y[n] ~ normal(a[g[n], h[n]], 1); }"""
TUPLE = """data { int N; vector[N] y; }
parameters { tuple(real, real<lower=0>) t; }
model { t.1 ~ normal(0, 1); t.2 ~ exponential(1); y ~ normal(t.1, t.2); }"""
LAPLACE = """functions {
  real ll(vector th, array[] int y) { return poisson_log_lpmf(y | th); }
  matrix K(real s, int J) { return diag_matrix(rep_vector(s^2, J)); }
}
data { int G; int N; array[G, N] int<lower=0> y; array[N] int<lower=1, upper=N> g; }
parameters { real<lower=0> s; }
model {
  s ~ exponential(1);
  for (i in 1:G)
    y[i] ~ laplace_marginal_poisson_log(g, rep_vector(0, N), 1, K, (s, N));
}"""

NEW = {
    "sum_to_zero_vector": (SUM_TO_ZERO, (2, 36)),
    "beta_neg_binomial": (BETA_NEG_BINOMIAL, (2, 36)),
    "jacobian": (JACOBIAN, (2, 36)),
    "sum_to_zero_matrix": (MATRICES, (2, 37)),
}


@pytest.fixture
def newer(monkeypatch):
    """A stanc of 2.37 or newer: the one in use, or CmdStan's, which the package prophet brings."""
    if stanc.version()[:2] >= (2, 37):
        return
    try:
        found = importlib.metadata.distribution("prophet")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("no CmdStan of the package prophet")
    home = Path(str(found.locate_file("prophet"))) / "stan_model" / "cmdstan-2.37.0"
    if not (home / "bin" / "stanc").is_file():
        pytest.skip("prophet has no stanc here")
    monkeypatch.setenv("CMDSTAN", str(home))
    assert stanc.version()[:2] == (2, 37)


@pytest.fixture
def older(monkeypatch):
    """The oldest stanc that a package brings: on Python 3.11 httpstan's, 2.35."""
    oldest = min(stanc._of_packages(), key=stanc._version)
    monkeypatch.setattr(stanc, "find_stanc", lambda: oldest)


@pytest.mark.parametrize("word", NEW)
def test_an_old_stanc_says_what_it_lacks(word, older):
    code, since = NEW[word]
    mine = stanc.version()
    if mine[:2] >= since:
        pytest.skip(f"stanc {mine} knows it")
    with pytest.raises(CompileError) as caught:
        weave(code)
    told = str(caught.value)
    assert f"`{word}` came with Stan {since[0]}.{since[1]}" in told
    assert f"is {mine[0]}.{mine[1]}: install a newer CmdStan" in told


def test_a_mistake_is_no_matter_of_versions():
    for code in ("parameters { real a; } model { a ~ norml(0, 1); }", "model { // jacobian\n x; }"):
        with pytest.raises(CompileError) as caught:
            weave(code)
        assert "came with" not in str(caught.value)


@pytest.mark.parametrize("code", [SUM_TO_ZERO, BETA_NEG_BINOMIAL])
def test_a_newer_stanc_weaves_it(code, newer):
    woven = weave(code)
    errors = identities(code, make_data(code), woven=woven)
    assert max(errors.values()) < 1e-9, errors


def test_beta_negative_binomial_rows_against_their_formula(newer):
    """B(r + a, y + b) Γ(y + r) / (B(a, b) Γ(y + 1) Γ(r)), at r = a = b = 1 and elsewhere."""
    y, theta = np.array([0, 1, 4, 9]), np.log([1.5, 2.0, 0.7])
    woven = model(weave(BETA_NEG_BINOMIAL).code, {"N": 4, "y": y, "weights": np.ones(4)})
    for point in (np.zeros(3), theta):
        r, a, b = np.exp(point)
        exact = special.betaln(r + a, y + b) - special.betaln(a, b)
        exact += special.gammaln(y + r) - special.gammaln(y + 1) - special.gammaln(r)
        np.testing.assert_allclose(generated(woven, point)["log_lik"], exact, rtol=1e-10)


@pytest.mark.parametrize("code", [JACOBIAN, TUPLES, MATRICES])
def test_what_is_no_row_stays_as_it_is(code, newer):
    woven = weave(code)
    assert {e.role for e in woven.explanation} <= {"likelihood", "prior", "jacobian"}
    assert {"y"} <= woven.rows.keys()
    stanc.check(woven.code)
    if code is JACOBIAN:
        assert "jacobian += k;" in woven.code
        assert "up_jacobian(l)" in woven.code


def test_a_jacobian_of_rows_is_refused(newer):
    """Whether its value is read or not."""
    code = JACOBIAN.replace("real up_jacobian(real x)", "real up_jacobian(vector v, real x)")
    code = code.replace("jacobian += x;", "jacobian += sum(v) * x;").replace("(l)", "(x, l)")
    for given in (code, code.replace("s + t", "1")):
        with pytest.raises(WeaveError, match="`up_jacobian` changes the target and is given data"):
            weave(given)


# What pip brings without CmdStan, on every Python -----------------------------------------


@pytest.mark.parametrize("code", [SUM_TO_ZERO, CELLS, BETA_NEG_BINOMIAL])
def test_what_pip_brings_weaves_and_runs_it(code):
    data = make_data(code)
    woven = weave(code)
    errors = identities(code, data, woven=woven)
    assert max(errors.values()) < 1e-9, errors


def bound(code, data):
    woven = weave(code).code
    rows = {"N": 4, "weights": np.ones(4), **data}
    return StanliEngine().compile(woven, name="new").bind(rows)


def test_numbers_that_sum_to_zero_have_names_and_one_coordinate_less_each_way():
    data = {"g": [1, 2, 1, 2], "h": [1, 2, 3, 1], "y": np.arange(4.0)}
    with bound(CELLS, data) as cells:
        assert cells.n_params == 2
        assert sorted(cells.param_names) == ["a.1.1", "a.1.2"]
        table = cells.constrain(np.array([[0.3, -0.7], [2.0, 1.0]]))["a"]
    assert table.shape == (2, 2, 3)
    np.testing.assert_allclose(table.sum(axis=1), 0, atol=1e-12)
    np.testing.assert_allclose(table.sum(axis=2), 0, atol=1e-12)
    assert abs(table).max() > 0.1


LOCAL_TUPLES = TUPLES.replace(" tuple(real, int) prior;", "").replace("prior.1, prior.2", "0, 1")


@pytest.mark.parametrize(
    ("code", "data", "word"),
    [
        (ROW_STOCHASTIC, {"g": [1, 2, 1, 2], "y": [1, 2, 3, 1]}, "row_stochastic_matrix"),
        (COLUMN_STOCHASTIC, {"g": [1, 2, 1, 2], "y": [1, 2, 3, 1]}, "column_stochastic_matrix"),
        (JACOBIAN, {"y": [1.0] * 4, "x": [1.0] * 4}, "`jacobian \\+=`"),
        (LOCAL_TUPLES, {"y": [1.0] * 4}, "tuples"),
    ],
)
def test_what_the_engine_lacks_is_named_once_woven(code, data, word):
    assert {"y"} <= weave(code).rows.keys()
    with pytest.raises(EngineError, match=rf"stanli \S+ has no {word}; use CmdStan"):
        bound(code, data)


def test_tuples_of_parameters_and_of_data_are_refused_by_name_on_every_engine():
    with pytest.raises(ProgramError, match=r"parameter 't' \(line 2\) is a tuple.*its parts"):
        sc.CoresetModel(stan_code=TUPLE)
    model = sc.CoresetModel(stan_code=TUPLES, engine="stanli")
    with pytest.raises(DataError, match=r"'prior' is declared as a tuple.*declare its parts"):
        model.fit({"N": 2, "y": [1.0, 2.0], "prior": (0.0, 1)})


# What only Stan itself runs ---------------------------------------------------------------


COORDINATES = """data { int on; matrix[2, 3] A; matrix[3, 2] B; matrix[2, 3] C; vector[4] d; }
parameters { row_stochastic_matrix[2, 3] P; column_stochastic_matrix[3, 2] Q;
  sum_to_zero_matrix[2, 3] Z; sum_to_zero_vector[4] z; }
model { target += on * (sum(A .* P) + sum(B .* Q) + sum(C .* Z) + dot_product(d, z)); }"""


def is_known(engine, code, since=(2, 37)):
    """Whether CmdStan is new enough; an older one must refuse the program and quote its line."""
    if engine.stan_version >= since:
        return True
    with pytest.raises(CompileError, match=r"(Syntax|Semantic) error in 'model.stan', line"):
        engine.compile(code, name="new")
    return False


@pytest.mark.cmdstan
@pytest.mark.usefixtures("cmdstan")
def test_new_types_have_stans_coordinates():
    """A sum of all their numbers with weights, less the Jacobian, at the same coordinates."""
    newer_cmdstan = resolve_engine("cmdstan", 1)
    if not is_known(newer_cmdstan, COORDINATES):
        return
    rng = np.random.default_rng(4)
    shapes = {"A": (2, 3), "B": (3, 2), "C": (2, 3), "d": 4}
    data = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    compiled = newer_cmdstan.compile(COORDINATES, name="new")
    with compiled.bind({**data, "on": 1}) as with_sum, compiled.bind({**data, "on": 0}) as without:
        u = rng.normal(size=(3, with_sum.n_params))
        found = with_sum.log_density(u) - without.log_density(u)
        values = with_sum.constrain(u)
        names = with_sum.param_names
    assert names[:4] == ("P.1.1", "P.2.1", "P.1.2", "P.2.2")
    assert names[4:8] == ("Q.1.1", "Q.2.1", "Q.1.2", "Q.2.2")
    assert names[8:] == ("Z.1.1", "Z.1.2", "z.1", "z.2", "z.3")
    pairs = zip("ABCd", "PQZz", strict=True)
    expected = sum((data[c] * values[v]).reshape(3, -1).sum(axis=1) for c, v in pairs)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.cmdstan
@pytest.mark.slow
@pytest.mark.usefixtures("cmdstan")
@pytest.mark.parametrize(
    ("code", "since"),
    [(JACOBIAN, (2, 39)), (LOCAL_TUPLES, (2, 35)), (ROW_STOCHASTIC, (2, 37)), (LAPLACE, (2, 39))],
)
def test_stan_itself_fits_what_the_engine_lacks(code, since):
    """The identities on all rows, and a certified fit, by the public interface."""
    if not is_known(resolve_engine("cmdstan", 1), code, since):
        return
    rng = np.random.default_rng(0)
    data = {
        JACOBIAN: {"N": 60, "y": rng.normal(size=60), "x": rng.normal(size=60)},
        LOCAL_TUPLES: {"N": 60, "y": rng.normal(1, 2, size=60)},
        ROW_STOCHASTIC: {"N": 60, "g": np.arange(60) % 2 + 1, "y": rng.integers(1, 4, 60)},
        LAPLACE: {
            "G": 60,
            "N": 3,
            "g": [1, 2, 3],
            "y": rng.poisson(np.exp(rng.normal(size=(60, 3)))),
        },
    }[code]
    code = code.replace("real l; real k; }", "real<upper=3> l; real<upper=3> k; }")
    with sc.CoresetModel(stan_code=code, engine="cmdstan") as model:
        assert model.identities(data).passed.all()
        fit = model.fit(data, seed=1)
    assert fit.certificate.verdict in ("certified", "corrected")


def test_arrays_of_tuples_are_no_mistake_of_the_data():
    code = TUPLE.replace("tuple(real, real<lower=0>) t", "array[1] tuple(real, real<lower=0>) t")
    with pytest.raises(EngineError, match="stanli cannot run 'new'"):
        bound(code.replace("t.", "t[1]."), {"y": [1.0] * 4})


def test_groups_integrated_out_are_rows_if_they_are_a_loop():
    if stanc.version() < (2, 39):
        with pytest.raises(CompileError, match=r"`laplace_marginal` came with Stan 2\.39"):
            weave(LAPLACE)
        return
    by_group = LAPLACE.replace(
        "y[i] ~ laplace_marginal_poisson_log(g, rep_vector(0, N), 1,",
        "target += laplace_marginal(ll, (y[i],), 1,",
    )
    for code in (LAPLACE, by_group):
        assert weave(code).rows.keys() == {"y"}
    whole = (
        LAPLACE.replace("  for (i in 1:G)\n  ", "").replace("y[i]", "y").replace("[G, N]", "[N]")
    )
    own = whole.replace(
        "y ~ laplace_marginal_poisson_log(g, rep_vector(0, N), 1,",
        "target += laplace_marginal(ll, (y,), 1,",
    )
    for code in (whole, own):
        with pytest.raises(WeaveError, match=r"integrates the effects.*a row is a whole group"):
            weave(code)
