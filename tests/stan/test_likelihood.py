"""What the rows see, and the likelihood as a program in it, against the author's own program.

The author's program is the witness, on data in which rows stand several times: with ψ(θ) the
values that the woven program generates,

    log p_repeated(θ) − log p_once(θ) = L_repeated(ψ(θ)) − L_once(ψ(θ)),

where prior and Jacobians cancel on both sides, and L is the likelihood's own program.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("stanli")
from weave_data import make_data, obs_of

import stancoreset as sc
from stancoreset.model.adopt import adopt
from stancoreset.stan import StanProgram, likelihood_of

PROGRAMS = Path(__file__).parent / "weave_programs"
NONCENTRED = """
data { int<lower=1> N; int<lower=1> J; array[N] int<lower=1, upper=J> g; vector[N] y; }
parameters { real mu; real<lower=0> tau; vector[J] z; real<lower=0> sigma; }
{where}
model {
  {local}
  mu ~ normal(0, 5); tau ~ exponential(1); z ~ std_normal(); sigma ~ exponential(1);
  y ~ normal({mean}, {scale});
}"""


def seen(code: str, **options: frozenset[str]) -> tuple[str, ...] | None:
    found = likelihood_of(adopt(StanProgram.from_code(code)).weighted, **options)
    return None if found is None else found.names


def noncentred(mean: str, where: str = "", local: str = "", scale: str = "sigma") -> str:
    where = f"transformed parameters {{ {where} }}" if where else ""
    parts = {"where": where, "local": local, "mean": mean, "scale": scale}
    code = NONCENTRED
    for name, text in parts.items():
        code = code.replace(f"{{{name}}}", text)
    return code


def test_group_effects_are_seen_and_not_their_scale():
    assert seen(noncentred("a[g]", "vector[J] a = mu + tau * z;")) == ("sigma", "a")


def test_effects_that_the_model_block_declares_are_seen():
    assert seen(noncentred("a[g]", local="vector[J] a = mu + tau * z;")) == ("sigma", "a")


def test_a_multiplier_makes_the_effects_themselves_seen():
    code = noncentred("z[g]").replace("vector[J] z", "vector<offset=mu, multiplier=tau>[J] z")
    assert seen(code) == ("z", "sigma")


def test_parameters_that_rows_see_need_no_other_coordinates():
    assert seen(noncentred("mu + z[g]")) is None


@pytest.mark.parametrize(
    ("where", "names"),
    [
        # Always positive, and not declared so: draws of a Gaussian would not be.
        ("vector[J] a = mu + tau * z; real s = exp(sigma);", ("sigma", "a")),
        # Declared, its coordinate is the logarithm.
        ("vector[J] a = mu + tau * z; real<lower=0> s = exp(sigma);", ("a", "s")),
        # A function of what is seen already.
        ("vector[J] a = mu + tau * z; real s = 2 * a[1] + 9;", ("a",)),
    ],
)
def test_coordinates_are_free_and_not_redundant(where, names):
    assert seen(noncentred("a[g]", where, scale="s")) == names


def test_the_cut_can_be_moved_inwards():
    code = noncentred("a[g]", "vector[J] b = tau * z; vector[J] a = mu + b;")
    assert seen(code, behind=frozenset({"a"})) == ("mu", "sigma", "b")


def test_the_likelihood_has_no_prior():
    code = noncentred("a[g]", "vector[J] a = mu + tau * z;")
    found = likelihood_of(adopt(StanProgram.from_code(code)).weighted)
    assert found is not None
    for gone in ("exponential", "std_normal", "tau", "mu"):
        assert gone not in found.weighted.code


#: Programs whose rows see something else than the parameters, and whose transformed data do not
#: change if every row stands twice.
SEEN = [
    "brms_multilevel_correlated",
    "append_zero",
    "brms_multivariate_rescor",
    "dugongs",
    "group_regression",
    "missing_index",
    "mixture_brms",
    "mixture_log_sum_exp",
    "mv_brms",
    "offset_multiplier",
    "parameters_sized_by_rows",
    "rstanarm_style",
    "spline_basis",
    "student_copula_like",
    "sum_to_zero_contrast",
    "survey_mrp",
    "varying_intercepts_noncentred",
    "varying_slopes_cholesky_rows",
]


@pytest.mark.parametrize("name", SEEN)
def test_it_is_the_likelihood_of_the_authors_program(name):
    code = (PROGRAMS / f"{name}.stan").read_text()
    with sc.CoresetModel(PROGRAMS / f"{name}.stan", obs=obs_of(code), engine="stanli") as model:
        session, data = model._session, model.read(make_data(code))
        assert session.likelihood is not session
        likelihood, weighted = session.likelihood, session.program
        rng, count = np.random.default_rng(1), weighted.n_obs(data)
        times = np.full(count, 2)  # means of data, by which brms centres, stay as they are
        repeated = weighted.subset(data, np.repeat(np.arange(count), times))
        theirs = [session.original().bind(some) for some in (repeated, data)]
        weights = [times.astype(float), np.ones(count)]
        own = [likelihood.density().bind(weighted.with_weights(data, w)) for w in weights]
        theta = rng.uniform(-0.6, 0.6, (40, theirs[0].n_params))
        theta = theta[np.isfinite(theirs[0].log_density(theta))][:5]
        psi = session.seen(data, theta)
        expected = theirs[0].log_density(theta) - theirs[1].log_density(theta)
        found = own[0].log_density(psi) - own[1].log_density(psi)
        np.testing.assert_allclose(found - found[0], expected - expected[0], atol=1e-8)
        rows = likelihood.with_log_lik().bind(data).log_lik(psi)
        once = session.with_log_lik().bind(data).log_lik(theta)
        np.testing.assert_allclose(rows, once, rtol=1e-9, atol=1e-9)
