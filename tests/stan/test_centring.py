"""Programs that move scaled effects: each is the program itself, in other coordinates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from moving import ENGINE, moving_of

from stancoreset.stan import StanProgram, centring
from stancoreset.stan.shifts import Amount

CORRELATED = """
functions {
  matrix scale_r_cor(matrix z, vector SD, matrix L) {
    // r is stored in another dimension order than z
    return transpose(diag_pre_multiply(SD, L) * z);
  }
}
data { }
parameters { vector<lower=0>[2] sd; matrix[2, 3] z; cholesky_factor_corr[2] L; real b; }
transformed parameters { matrix[3, 2] r = scale_r_cor(z, sd, L); }
model { sd ~ normal(0, 1); to_vector(z) ~ std_normal(); b ~ normal(sum(r), 1); }
"""
#: Programs, and the effects that each can move, with their factors.
PROGRAMS = {
    "a scale": (
        "parameters { vector[3] z; real<lower=0> s; real m; vector[2] b; }"
        " transformed parameters { vector[3] r = z * s; }"
        " model { z ~ std_normal(); s ~ normal(0, 1); m ~ normal(0, 1); b ~ normal(0, 1);"
        " sum(m + r) ~ normal(1, 0.1); }",
        [("z", ())],
    ),
    "parts of arrays, as brms writes them": (
        "parameters { array[2] vector[3] z; vector<lower=0>[2] sd; }"
        " transformed parameters { vector[3] r1 = (sd[1] * (z[1])); vector[3] r2 = sd[2] * z[2]; }"
        " model { for (m in 1:2) z[m] ~ student_t(4, 0, 1); sd ~ normal(0, 1);"
        " sum(r1 + r2) ~ normal(1, 0.1); }",
        [("z", (1,)), ("z", (2,))],
    ),
    "picked by rows": (
        "data { int N; array[N] int g; }"
        " parameters { vector[3] z; real<lower=0> s; row_vector[3] u; real<lower=0> t; }"
        " model { z ~ std_normal(); s ~ normal(0, 1); u ~ std_normal(); t ~ gamma(3, 3);"
        " for (n in 1:N) target += -square(z[g[n]] * s - 1) - square(u[g[n]] * t); }",
        [("z", ()), ("u", ())],
    ),
    "scales, element by element": (
        "parameters { vector[3] z; vector<lower=0>[3] s; }"
        " model { z ~ std_normal(); s ~ normal(0, 1); sum(s .* z) ~ normal(1, 0.1); }",
        [("z", ())],
    ),
    "columns, in a loop": (
        "parameters { matrix[4, 2] z; vector<lower=0>[2] s; vector[2] m; }"
        " transformed parameters { matrix[4, 2] b; for (k in 1:2) b[, k] = m[k] + s[k] * z[, k]; }"
        " model { to_vector(z) ~ std_normal(); s ~ normal(0, 1); m ~ normal(0, 1);"
        " sum(b) ~ normal(1, 0.1); }",
        [("z", ())],
    ),
    "columns by name": (
        "parameters { matrix[4, 2] z; vector<lower=0>[2] s; }"
        " model { to_vector(z) ~ std_normal(); s ~ normal(0, 1);"
        " for (i in 1:2) sum(s[i] * col(z, i)) ~ normal(i, 0.1); }",
        [("z", ())],
    ),
    "elements of rows": (
        "parameters { matrix[2, 4] z; vector<lower=0>[2] s; }"
        " model { to_vector(z) ~ std_normal(); s ~ normal(0, 1);"
        " for (i in 1:2) for (j in 1:4) target += -square(z[i, j] * s[i] - 1); }",
        [("z", ())],
    ),
    "rows": (
        "parameters { matrix[2, 4] z; vector<lower=0>[2] s; }"
        " model { to_vector(z) ~ std_normal(); s ~ normal(0, 1);"
        " for (i in 1:2) sum(s[i] * z[i]) ~ normal(i, 0.1); }",
        [("z", ())],
    ),
    "columns by a diagonal matrix": (
        "parameters { matrix[4, 2] z; vector<lower=0>[2] s; }"
        " transformed parameters { matrix[4, 2] b = diag_post_multiply(z, s); }"
        " model { to_vector(z) ~ std_normal(); s ~ normal(0, 1); sum(b) ~ normal(1, 0.1); }",
        [("z", ())],
    ),
    "rows by a diagonal matrix": (
        "parameters { matrix[2, 4] z; vector<lower=0>[2] s; real m; }"
        " transformed parameters { matrix[2, 4] b = diag_pre_multiply(s, z); }"
        " model { to_vector(z) ~ std_normal(); s ~ normal(0, 1); m ~ normal(0, 1);"
        " sum(m + b) ~ normal(1, 0.1); }",
        [("z", ())],
    ),
    "effects that are parameters": (
        "parameters { vector[3] a; row_vector[3] b; vector[3] u; vector[2] m; real v;"
        " vector<lower=0>[2] s; vector<lower=0>[3] t; }"
        " model { m ~ normal(0, 1); v ~ normal(0, 1); s ~ normal(0, 1); t ~ normal(0, 1);"
        " a ~ normal(m[1], s[1]); for (j in 1:3) target += student_t_lupdf(b[j] | 4, 2, s[2]);"
        " u ~ normal(v, t); sum(a + u) ~ normal(sum(b), 0.1); }",
        [("a", ()), ("b", ()), ("u", ())],
    ),
    "effects of effects": (
        "parameters { vector[3] a; vector[2] m; real<lower=0> s; real<lower=0> t; }"
        " model { s ~ normal(0, 1); t ~ normal(0, 1); a ~ normal(m[1], s); m ~ normal(0, t);"
        " sum(a) ~ normal(1, 0.1); }",
        [("m", ()), ("a", ())],
    ),
    "around those of larger groups": (
        "data { array[4] int d; }"
        " parameters { vector[4] a; vector[2] b; real m; real<lower=0> s; real<lower=0> t; }"
        " model { s ~ gamma(3, 3); t ~ gamma(3, 3); for (i in 1:4) a[i] ~ normal(b[d[i]], s);"
        " m ~ normal(0, 1); b ~ logistic(m, t); sum(a) ~ normal(1, 0.1); }",
        [("b", ()), ("a", ())],
    ),
    "around what predictors say": (
        "data { vector[3] u; matrix[3, 2] U; }"
        " parameters { vector[3] a; vector[3] b; vector[2] g; real<lower=0> s; vector[3] e; }"
        " transformed parameters { vector[3] b_hat = U * g; real t = sqrt(s); }"
        " model { s ~ gamma(3, 3); g ~ normal(0, 1); target += normal_lpdf(a | g[1] + g[2] * u, t)"
        " + cauchy_lpdf(b | b_hat, s); { real v = 2 * s; for (j in 1:3) e[j] ~ normal(0, v); }"
        " sum(a + b + e) ~ normal(1, 0.1); }",
        [("a", ()), ("b", ()), ("e", ())],
    ),
    "columns and rows with scales of their own": (
        "parameters { matrix[4, 2] a; matrix[2, 3] b; matrix[2, 3] c; array[3] row_vector[2] e;"
        " vector[2] m; vector<lower=0>[2] s; row_vector<lower=0>[3] t; }"
        " model { m ~ normal(0, 1); s ~ gamma(3, 3); t ~ gamma(3, 3);"
        " for (k in 1:2) col(a, k) ~ normal(m[k], s[k]); for (j in 1:2) b[j] ~ normal(m[1], t);"
        " to_vector(c) ~ normal(m[2], s[1]); for (j in 1:3) e[j] ~ normal(m, s);"
        " sum(a) + sum(b) + sum(c) + sum(e[2]) ~ normal(1, 0.1); }",
        [("a", ()), ("b", ()), ("c", ()), ("e", ())],
    ),
    "elements of matrices and arrays": (
        "parameters { matrix[4, 2] a; array[3] real b; array[2, 3] real c; vector[2] m;"
        " vector<lower=0>[2] s; vector<lower=0>[3] t; }"
        " model { m ~ normal(0, 1); s ~ gamma(3, 3); t ~ gamma(3, 3);"
        " for (i in 1:4) for (k in 1:2) a[i, k] ~ student_t(4, m[k], s[k]); b ~ normal(m[1], t);"
        " for (k in 1:2) c[k] ~ normal(m[k], t); sum(a) + sum(b) + sum(c[1]) ~ normal(1, 0.1); }",
        [("a", ()), ("b", ()), ("c", ())],
    ),
    "correlated effects by covariances": (
        "parameters { array[3] vector[2] a; array[3] vector[2] b; array[3] vector[2] c;"
        " vector[2] d; vector[2] m; vector<lower=0>[2] s;"
        " corr_matrix[2] R; cholesky_factor_corr[2] L; }"
        " transformed parameters { matrix[2, 2] S = quad_form_diag(R, s); }"
        " model { m ~ normal(0, 1); s ~ gamma(3, 3); R ~ lkj_corr(2); L ~ lkj_corr_cholesky(2);"
        " a ~ multi_normal(m, S); for (j in 1:3) b[j] ~ multi_student_t(5, m, S);"
        " target += multi_normal_cholesky_lpdf(c | rep_vector(0, 2), diag_pre_multiply(s, L));"
        " d ~ multi_normal(m, quad_form_diag(R, 2 * s));"
        " sum(a[1] + b[2] + c[3]) ~ normal(1, 0.1); }",
        [("a", ()), ("b", ()), ("c", ()), ("d", ())],
    ),
    "two priors": (
        "parameters { vector[3] a; real<lower=0> s; } model { a ~ normal(0, s); s ~ gamma(3, 3);"
        " a ~ normal(0, s); sum(a) ~ normal(1, 0.1); }",
        [("a", ())],
    ),
    "beside a parameter that is called a mean": (
        "parameters { vector[3] a; vector[1] b; real mean_1; real<lower=0> s; }"
        " model { s ~ gamma(3, 3); a ~ normal(mean_1, s); b ~ normal(0, s);"
        " mean_1 ~ normal(0, 1); sum(a) + b[1] ~ normal(1, 0.1); }",
        [("a", ()), ("b", ())],
    ),
    "raw ones beside others": (
        "parameters { vector[3] z; vector[3] a; real m; real<lower=0> s; real<lower=0> t; }"
        " model { s ~ normal(0, 1); t ~ normal(0, 1); z ~ std_normal(); a ~ normal(m, t);"
        " m ~ normal(0, 1); sum(s * z + a) ~ normal(1, 0.1); }",
        [("z", ()), ("a", ())],
    ),
    "beside thresholds, and columns beside slopes": (
        "parameters { ordered[2] c; vector[2] b; matrix[4, 2] z; vector<lower=0>[2] s;"
        " array[1] vector[3] u; vector<lower=0>[1] t; }"
        " model { c ~ normal(0, 1); b ~ normal(0, 1); to_vector(z) ~ std_normal(); s ~ gamma(3, 3);"
        " for (k in 1:2) target += -square(b[k] + sum(s[k] * z[, k]));"
        " u[1] ~ std_normal(); t ~ gamma(3, 3); sum(t[1] * u[1]) + c[1] ~ normal(1, 0.1); }",
        [("z", ()), ("u", (1,))],
    ),
    "correlated effects": (CORRELATED, [("z", ())]),
    "a Cholesky factor": (
        "parameters { vector[2] z; cholesky_factor_cov[2] L; real m; }"
        " model { z ~ std_normal(); to_vector(L) ~ normal(1, 1); m ~ normal(0, 1);"
        " sum(m + L * z) ~ normal(1, 0.1); }",
        [("z", ())],
    ),
}
DATA = {
    "picked by rows": {"N": 4, "g": np.array([1, 2, 3, 1])},
    "around those of larger groups": {"d": np.array([1, 2, 2, 1])},
    "around what predictors say": {"u": np.array([0.3, -1.0, 0.5]), "U": np.ones((3, 2))},
}


def log_jacobian(move, theta, step=1e-3):
    """log |∂c/∂θ| at a point, by differences of the fourth order."""
    axes = step * np.eye(len(theta))
    around = theta + np.concatenate([axes, -axes, 2 * axes, -2 * axes])
    up, down, further_up, further_down = np.split(move(around), 4)
    slopes = (8 * (up - down) - (further_up - further_down)) / (12 * step)
    return np.linalg.slogdet(slopes)[1]


def own_values(code, data, points):
    """A program's values at unconstrained points."""
    with ENGINE.compile(code).bind(data) as own:
        return own.constrain(points[:, : own.n_params])


def drawn(amount, rng):
    """Another shift of the same effects: any serves."""
    weights = amount.weights * rng.uniform(0.5, 1.5, amount.weights.shape)
    return Amount(rng.normal(size=amount.matrix.shape), weights)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_density_is_that_of_the_program(name):
    """log p(c) = log p(z) − log |dc/dz|, by the engine."""
    code, expected = PROGRAMS[name]
    data, rng = DATA.get(name, {}), np.random.default_rng(1)
    moving = moving_of(code, data)
    forms = moving.centring
    centred = (*forms.scaled, *forms.located)
    assert [(e.name, getattr(e, "part", ())) for e in centred] == expected
    points, many = rng.normal(0, 0.7, (5, 40)), rng.normal(0, 0.01, (200, 40))
    for number, effects in enumerate(forms.effects):
        known = own_values(code, data, many)
        for exponent in effects.exponents(known):
            exponents = [exponent if i == number else 0.0 for i in range(len(forms.effects))]
            amounts = {
                at: drawn(a, rng) for at, a in forms.shift_of(number, known, exponents, {}).items()
            }
            for shifts in ({}, amounts) if amounts else ({},):
                own, moved = ENGINE.compile(code).bind(data), moving.bound(exponents, shifts)
                theta = points[:, : own.n_params]

                def move(draws, own=own, exponents=exponents, shifts=shifts):
                    return moving.move(own, draws, exponents, shifts)

                there = move(theta)
                assert np.allclose(there, theta) == (exponent == 0 and not shifts)
                jacobian = [log_jacobian(move, point) for point in theta]
                left = moved.log_density(there) + jacobian - own.log_density(theta)
                assert np.ptp(left) < 1e-9


ALL_KINDS = """
parameters {
  vector[3] z; real<lower=0> s; vector[4] a; row_vector[2] d; real<lower=0> t;
  vector[2] b; real m; ordered[2] c; array[2] vector[2] e; matrix[2, 2] f; row_vector[2] g;
}
model {
  z ~ std_normal(); s ~ normal(0, 1); a ~ normal(m, t); d ~ normal(0, t); t ~ normal(0, 1);
  b ~ normal(0, 1); m ~ normal(0, 1); c ~ normal(0, 1); g ~ normal(0, 1);
  for (i in 1:2) e[i] ~ normal(0, t);
  to_vector(f) ~ normal(0, 1);
  sum(m + s * z) + sum(a) + sum(d) + sum(b) * m + c[1] ~ normal(1, 0.1);
}
"""


@pytest.mark.parametrize("of_a", [0.0, 0.5])
def test_shifts_of_all_kinds_at_once_leave_the_density(of_a):
    """Vectors that numbers shift shift effects in turn, and so does the mean of those before.

    Each shift is undone before what it moved is used; `of_a` is the exponent of a located effect.
    """
    moving = moving_of(ALL_KINDS, {})
    forms = moving.centring
    assert [e.name for e in forms.effects] == ["z", "a", "d", "e", "b"]
    rng = np.random.default_rng(2)
    with ENGINE.compile(ALL_KINDS).bind({}) as own:
        draws = rng.normal(0, 0.3, (200, own.n_params))
        known = own.constrain(draws)
    exponents, shifts = (0.5, of_a, 0.0, 1.0, 0.0), {}
    for number in range(len(exponents)):
        shifts |= moving.shift_of(number, draws, known, exponents, shifts)
    shifted = {0: {*"bcm", "_mean_1"}, 2: {*"bcm", "_mean_1", "_mean_2", "_mean_3"}, 4: {*"cm"}}
    if not of_a:  # located effects are centred, or shifted
        shifted[1] = {*"bcm", "_mean_1", "_mean_2"}
    assert set(shifts) == {(i, by) for i, names in shifted.items() for by in names}
    shifts = {at: drawn(amount, rng) for at, amount in shifts.items()}
    with (
        ENGINE.compile(ALL_KINDS).bind({}) as own,
        moving.bound(exponents, shifts) as moved,
    ):
        theta = rng.normal(0, 0.5, (5, own.n_params))

        def move(draws):
            return moving.move(own, draws, exponents, shifts)

        left = moved.log_density(move(theta)) - own.log_density(theta)
        left += [log_jacobian(move, point) for point in theta]
        assert np.ptp(left) < 1e-9


@pytest.mark.parametrize(
    "name", [name for name, (code, _) in PROGRAMS.items() if moving_of(code, {}).centring.sweeps]
)
@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0])
def test_sweeps_of_all_means_at_once_leave_the_density(name, exponent):
    """Whatever is added to each φ, beside shifts by all of them."""
    code = PROGRAMS[name][0]
    moving, rng = moving_of(code, {}), np.random.default_rng(3)
    forms = moving.centring
    with ENGINE.compile(code).bind({}) as own:
        draws = rng.normal(0, 0.01, (200, own.n_params))
        known = own.constrain(draws)
        sweeps = {}
        for one in forms.sweeps:
            weights = one.weights_of(known)
            for decl in one.into:
                size = len(weights), known[decl.name][0].size
                by = rng.normal(size=size).T
                if decl.constraint.kind == "ordered":
                    by[:] = by[0]
                sweeps[one.number, decl.name] = Amount(by, weights)
        moving = replace(moving, sweeps=sweeps)
        exponents = [x if (x := exponent) in e.exponents(known) else 0.0 for e in forms.effects]
        shifts = {}
        for number in range(len(exponents)):
            shifts |= moving.shift_of(number, draws, known, exponents, shifts)
        shifts = {at: drawn(amount, rng) for at, amount in shifts.items()}
        theta = rng.normal(0, 0.5, (5, own.n_params))
        for some in ({}, shifts):

            def move(draws, some=some):
                return moving.move(own, draws, exponents, some)

            with moving.bound(exponents, some) as moved:
                left = moved.log_density(move(theta)) - own.log_density(theta)
            left += [log_jacobian(move, point) for point in theta]
            assert np.ptp(left) < 1e-9


@pytest.mark.parametrize(
    "code",
    [
        "parameters { vector[3] z; real s; } model { target += -square(s) - sum(square(s * z)); }",
        "parameters { vector<lower=0>[3] z; real<lower=0> s; } model { target += -sum(s * z); }",
        "parameters { vector[3] z; real<lower=0, upper=1> s; } model { target += -sum(s * z); }",
        "parameters { vector[3] z; real<lower=1> s; } model { target += -sum(s * z); }",
        "data { real s; } parameters { vector[3] z; } model { target += -sum(square(s * z)); }",
        "parameters { vector[3] a; vector[3] x; real s; } model { a ~ normal(0, s); }",
        "parameters { vector[3] a; real<lower=0> s; } model { a[2] ~ normal(0, s); }",
        "parameters { vector[3] a; real<lower=0> s; } model { for (j in 2:3)"
        " a[j] ~ normal(a[j - 1], s); }",
        "parameters { vector[3] a; real<lower=0> s; } model { a ~ normal(0, 2); }",
        "parameters { vector[3] a; real<lower=0> s; } model { for (j in 1:3) {"
        " if (j == 2) continue; a[j] ~ normal(0, s); } }",
        "parameters { vector[3] a; real<lower=0> s; } model {"
        " target += normal_lpdf(a | 0, s) + normal_lpdf(a | 0, s); }",
        "data { array[2] int i; } parameters { vector[3] a; real<lower=0> s; }"
        " model { for (j in 1:2) a[i[j]] ~ normal(0, s); }",
        "parameters { vector[3] a; real<lower=0> s; } model { for (j in 1:2) a ~ normal(0, s); }",
        "parameters { vector[3] a; real<lower=0> s; } model { if (s > 1) a ~ normal(0, s); }",
        "parameters { vector[3] a; vector[2] s; } model { a ~ normal(0, s[1] * exp(s[2])); }",
        "parameters { array[2] vector[3] a; corr_matrix[3] R; real<lower=0> s; }"
        " model { a ~ multi_normal(rep_vector(0, 3), s * R); }",
        "parameters { vector[3] a; real<lower=0> s; } model { for (j in 1:3)"
        " a[j] ~ normal(0, s) T[-1, 1]; }",
        "parameters { matrix[2, 3] z; vector<lower=0>[4] s; }"
        " model { for (k in 1:3) target += -sum(square(s[k] * z[, k])); }",
        "parameters { matrix[2, 3] z; vector<lower=0>[3] s; }"
        " model { for (k in 1:2) for (j in 1:2) target += -sum(square(s[k] * z[, j])); }",
    ],
)
def test_nothing_is_moved_by_other_factors(code):
    """A factor that may be negative or zero, or is no parameter, has no logarithm to move by."""
    found = centring(StanProgram.from_code(code).tree)
    assert found is None or not (found.scaled or found.located)


@pytest.mark.parametrize("name", ["correlated effects", "a Cholesky factor"])
def test_a_cholesky_factor_moves_effects_only_if_its_diagonal_is_known(name):
    """Where one scale may be near zero, centring all that it scales is a funnel."""
    (effects,) = moving_of(PROGRAMS[name][0], {}).centring.effects
    points = np.random.default_rng(1).normal(size=(200, 20))
    for width, expected in ((0.05, (0.0, 1.0)), (1.0, (0.0,))):
        assert effects.exponents(own_values(PROGRAMS[name][0], {}, width * points)) == expected


def test_an_overloaded_function_is_the_one_with_as_many_arguments():
    """Only the function of two arguments is a product, whichever is called first."""
    code = """
    functions {
      real scaled(real a, real b) { return a * b; }
      real scaled(real a, real b, real c) { real d = a * b; return d + c; }
    }
    parameters { vector[3] z; real<lower=0> tau; real m; }
    model {
      z ~ std_normal();
      target += -square(scaled(m, m, m)) - sum(square(tau * z));
    }"""
    found = centring(StanProgram.from_code(code).tree)
    assert found is not None
    assert [effects.name for effects in found.scaled] == ["z"]
