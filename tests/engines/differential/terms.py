"""Terms of a log density that use every density of Stan and its functions of numbers and matrices.

A term is an expression of these: a, b, c are real numbers, r, s, t positive ones, u, v, w in
(0, 1), all made of nine parameters; n is an integer of the data; x, q, o are the vectors of the
three kinds, A a square matrix, L a lower-triangular one with positive diagonal, S = LL'.
Names in capital letters with digits are data.
"""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["SIZES", "TERMS", "code_of"]

#: Outcome and arguments of densities of one number: R real, P positive, U in (0, 1), N a count,
#: B zero or one, T a number of trials.
UNIVARIATE = """
normal R RP; std_normal R; cauchy R RP; double_exponential R RP; gumbel R RP; logistic R RP
student_t R PRP; skew_normal R RPR; exp_mod_normal R RPP; skew_double_exponential R RPU
von_mises R RP; lognormal P RP; exponential P P; gamma P PP; inv_gamma P PP; weibull P PP
frechet P PP; chi_square P P; inv_chi_square P P; scaled_inv_chi_square P PP; rayleigh P P
loglogistic P PP; beta U PP; beta_proportion U UP
bernoulli B U; bernoulli_logit B R; binomial N TU; binomial_logit N TR; beta_binomial N TPP
poisson N P; poisson_log N R; neg_binomial N PP; neg_binomial_2 N PP; neg_binomial_2_log N RP
beta_neg_binomial N PPP; yule_simon N P
"""
#: Those that stand in a list of their own: the outcome lies above or between the arguments.
ABOVE = {
    "pareto": "(r + s | s, t)",
    "pareto_type_2": "(a + r | a, s, t)",
    "uniform": "(a + r * u | a, a + r)",
}
#: Suffixes of distribution functions; `loglogistic` and those of the logit scale have fewer.
SUFFIXES = {"lpdf": "lpdf lcdf lccdf cdf", "lpmf": "lpmf lcdf lccdf cdf"}

NAMES = {"R": "abc", "P": "rst", "U": "uvw"}
FIXED = {"R": "0.3", "P": "1.7", "U": "0.4"}
VECTORS = {"R": "x", "P": "q", "U": "o"}
OUTCOMES = {"R": "Y1", "P": "Y2", "U": "Y3", "N": "Y4", "B": "Y5", "T": "Y6"}
BORDERS = {"R": (), "P": ("0.0",), "U": ("0.0", "1.0"), "N": (), "B": ("0", "1")}
_DISCRETE = "NB"


def _univariate() -> Iterator[tuple[str, str]]:
    entries = [e.split() for e in UNIVARIATE.replace("\n", ";").split(";") if e.strip()]
    for name, outcome, *rest in entries:
        kinds = rest[0] if rest else ""
        density = "lpmf" if outcome in _DISCRETE else "lpdf"
        for suffix in SUFFIXES[density].split():
            for form, term in _forms(f"{name}_{suffix}", outcome, kinds, density == suffix):
                yield f"{name}_{suffix}{form}", term


def _call(function: str, outcome: str, arguments: list[str]) -> str:
    return f"{function}({outcome} | {', '.join(arguments)})"


def _scalars(kinds: str) -> list[str]:
    """Names of different parameters for the kinds, in order."""
    left = {kind: iter(names) for kind, names in NAMES.items()}
    return ["n + 4" if kind == "T" else next(left[kind]) for kind in kinds]


def _forms(function: str, outcome: str, kinds: str, density: bool) -> Iterator[tuple[str, str]]:
    """One function in the ways in which programs call it."""
    counted = outcome in _DISCRETE
    one = {"N": "n", "B": "n > 0"}.get(outcome, "")
    alone = _scalars(kinds if counted else outcome + kinds)
    value, arguments = (one, alone) if counted else (alone[0], alone[1:])
    yield "", _call(function, value, arguments)
    for border in BORDERS[outcome]:
        yield f" at {border}", _call(function, border, arguments)
    if function.endswith("_cdf"):
        return
    data, size = OUTCOMES[outcome], "Y6" if "T" in kinds else ""
    vectors = [size if k == "T" else VECTORS[k] for k in kinds]
    if vectors:
        first = next((i for i, k in enumerate(kinds) if k != "T"), 0)
        mixed = [
            size if k == "T" else v if i == first else s
            for i, (k, v, s) in enumerate(zip(kinds, vectors, _scalars(kinds), strict=True))
        ]
        yield " of vectors", _call(function, data, mixed)
    each = [f"{v}[i]" for v in vectors]
    yield " in a loop", f"for (i in 1:3) target += {_call(function, f'{data}[i]', each)}"
    if density and len(alone) > 1:
        ours = kinds if counted else outcome + kinds
        for place, kind in enumerate(ours):
            if kind == "T":
                continue
            fixed = ["n + 4" if k == "T" else FIXED[k] for k in ours]
            fixed[place] = NAMES[kind][0]
            value, arguments = (one, fixed) if counted else (fixed[0], fixed[1:])
            yield f" of argument {place + 1}", _call(function, value, arguments)


def _above() -> Iterator[tuple[str, str]]:
    for name, arguments in ABOVE.items():
        for suffix in SUFFIXES["lpdf"].split():
            yield f"{name}_{suffix}", f"{name}_{suffix}{arguments}"
    yield "pareto_lpdf of vectors", "pareto_lpdf(1.5 + Y2 | 1.2, q)"
    yield "pareto_type_2_lpdf of vectors", "pareto_type_2_lpdf(Y2 | 0, q, t)"
    yield "uniform_lpdf of vectors", "uniform_lpdf(Y1 | -30 - q, 30 + q)"


#: The others; K has three simplex weights, C1 a correlation's factor.
FACTOR = "[[1, 0], [2 * u - 1, sqrt(1 - square(2 * u - 1))]]"
MULTIVARIATE = f"""
bernoulli_logit_glm_lpmf(Y5 | X1, a, [b, c]')
bernoulli_logit_glm_lpmf(Y5 | X1, x, [b, c]')
binomial_logit_glm_lpmf(Y4 | Y6, X1, a, [b, c]')
poisson_log_glm_lpmf(Y4 | X1, a, [b, c]')
poisson_log_glm_lpmf(Y4 | X1, x, [b, c]')
neg_binomial_2_log_glm_lpmf(Y4 | X1, a, [b, c]', s)
neg_binomial_2_log_glm_lpmf(Y4 | X1, x, [b, c]', s)
normal_id_glm_lpdf(Y1 | X1, a, [b, c]', s)
normal_id_glm_lpdf(Y1 | X1, x, [b, c]', q)
normal_id_glm_lpdf(x | X1, a, [b, c]', s)
categorical_logit_glm_lpmf(Y7 | X1, x, A[1:2])
ordered_logistic_glm_lpmf(Y7 | X1, [a, b]', [c, c + s]')
ordered_logistic_lpmf(2 | a, [b, b + s]')
ordered_logistic_lpmf(1 | a, [b, b + s]')
ordered_logistic_lpmf(Y7 | x, [b, b + s]')
ordered_probit_lpmf(2 | a, [b, b + s]')
ordered_probit_lpmf(3 | a, [b, b + s]')
ordered_probit_lpmf(Y7 | x, [b, b + s]')
categorical_lpmf(2 | softmax(x))
categorical_lpmf(Y7 | softmax(x))
categorical_logit_lpmf(2 | x)
categorical_logit_lpmf(Y7 | x)
dirichlet_lpdf(softmax(x) | q)
dirichlet_lpdf(K1 | q)
dirichlet_multinomial_lpmf(Y4 | q)
multinomial_lpmf(Y4 | softmax(x))
multinomial_logit_lpmf(Y4 | x)
discrete_range_lpmf(n | 0, 600) + a
discrete_range_lcdf(n | 0, 600) + a
discrete_range_lccdf(n | 0, 600) + a
discrete_range_cdf(n | 0, 600) + a
hypergeometric_lpmf(2 | 5, 7, 6) + a
multi_normal_lpdf(x | Y1, S)
multi_normal_lpdf(Y1 | x, S)
multi_normal_lpdf({{Y1, x}} | to_vector(Y2), S)
multi_normal_cholesky_lpdf(x | Y1, L)
multi_normal_cholesky_lpdf({{Y1, x}} | to_vector(Y2), L)
multi_normal_prec_lpdf(x | Y1, S)
multi_student_t_lpdf(x | 3 * u, Y1, S)
multi_student_t_cholesky_lpdf(x | 3 * u, Y1, L)
multi_gp_lpdf(A | S, q)
multi_gp_cholesky_lpdf(A | L, q)
gaussian_dlm_obs_lpdf(X1 | A[1:2, 1:2], A[2:3, 1:2], S[1:2, 1:2], S[2:3, 2:3], [a, b]', S[1:2, 1:2])
gaussian_dlm_obs_lpdf(X1 | A[1:2, 1:2], A[2:3, 1:2], [r, s]', S[2:3, 2:3], [a, b]', S[1:2, 1:2])
wishart_lpdf(S | 3 + r, C2)
wishart_lpdf(C2 | 3 + r, S)
wishart_cholesky_lpdf(L | 3 + r, C3)
inv_wishart_lpdf(S | 3 + r, C2)
inv_wishart_lpdf(C2 | 3 + r, S)
inv_wishart_cholesky_lpdf(L | 3 + r, C3)
lkj_cov_lpdf(S | Y1, Y2, s)
lkj_corr_lpdf(tcrossprod({FACTOR}) | s)
lkj_corr_cholesky_lpdf({FACTOR} | s)
wiener_lpdf(0.2 * u + r | s, 0.2 * u, v, a)
wiener_lpdf(1.1 | s, 0.2, v, a)
wiener_lpdf(0.2 * u + r | s, 0.2 * u, v, a, t)
wiener_lpdf(0.2 * u + r | s, 0.2 * u, 0.5, a, t, 0.2, 0.1)
wiener_lcdf_unnorm(0.2 * u + r, s, 0.2 * u, v, a)
wiener_lccdf_unnorm(0.2 * u + r, s, 0.2 * u, v, a)
hmm_marginal(log(q * o'), [[u, 1 - u], [1 - v, v]]', [w, 1 - w]')
"""

#: Functions of one number, by the range of their argument.
UNARY = {
    "{}(a)": "abs asinh atan cbrt ceil cos cosh erf erfc exp exp2 expm1 floor inv inv_cloglog "
    "inv_logit inv_square log1m_inv_logit log1p_exp log_inv_logit Phi Phi_approx round sin sinh "
    "square step tan tanh trunc",
    "{}(r)": "digamma inv_sqrt lambert_w0 lgamma log log10 log1p log2 sqrt tgamma trigamma",
    "{}(u)": "inv_Phi inv_erfc log1m logit std_normal_qf",
    "{}(2 * u - 1)": "acos asin atanh",
    "{}(1 + r)": "acosh",
    "{}(-r)": "log1m_exp lgamma tgamma digamma",
    "{}(log(u))": "std_normal_log_qf",
    "{}(-u / 3)": "lambert_wm1",
    # of vectors: a number for each
    "dot_product(K1, {}(x))": "cumulative_sum log_softmax reverse softmax sort_asc sort_desc exp",
    "{}(x)": "dot_self log_sum_exp max mean min norm1 norm2 prod sd sum variance",
    "sum(C1 .* {}(A))": "inverse matrix_exp crossprod tcrossprod transpose qr_Q qr_R qr_thin_Q "
    "qr_thin_R generalized_inverse svd_U svd_V",
    "sum(C1 .* {}(S))": "inverse_spd cholesky_decompose eigenvectors_sym symmetrize_from_lower_tri",
    "sum(C1 .* {}(L))": "chol2inv multiply_lower_tri_self_transpose",
    "{}(A)": "determinant log_determinant sum trace prod mean sd variance max min log_sum_exp",
    "{}(S)": "log_determinant_spd",
    "dot_product(K1, {}(A))": "diagonal columns_dot_self rows_dot_self singular_values",
    "dot_product(K1, {}(S))": "eigenvalues_sym",
    "sum(C1 .* {}(q))": "diag_matrix",
    # complex numbers, as a real one
    "get_real({}(to_complex(a, b)))": "exp log sqrt sin cosh tanh conj proj asin atanh",
    "{}(to_complex(a, b))": "abs arg norm get_imag",
}
FURTHER = """
atan2(a, b); beta(r, s); bessel_first_kind(n, r); bessel_second_kind(n, r)
modified_bessel_first_kind(n, r); modified_bessel_second_kind(n, r)
log_modified_bessel_first_kind(s, r); binary_log_loss(1, u); falling_factorial(5 + r, n)
rising_factorial(r, n); log_falling_factorial(5 + r, s); log_rising_factorial(r, s); fdim(a, b)
fmax(a, b); fmin(a, b); fmod(a, s); fma(a, b, c); gamma_p(r, s); gamma_q(r, s); hypot(a, b)
lbeta(r, s); lchoose(r + s, s); ldexp(a, n); lmgamma(2, 1 + r); lmultiply(r, s)
log_diff_exp(a + s, a); log_inv_logit_diff(a + s, a); log_sum_exp(a, b); owens_t(a, b); pow(r, a)
a^3; a^n; multiply(a, x)[2]; divide(x, s)[1]; a * b / c; a - b * c; log_mix(u, a, b)
log_mix(softmax(x), Y1); inc_beta(r, s, u); inv_inc_beta(r, s, u)
hypergeometric_1F0(a, u); hypergeometric_2F1(a, r, s, u / 2); hypergeometric_3F2(x, q, u / 2)
hypergeometric_pFq(x, q, u / 2); choose(n + 3, 2) + a; dot_product(x, q); distance(x, q)
squared_distance(x, q); sum(x .* q); sum(x ./ q); dot_product(K1, x .^ 2)
sum(columns_dot_product(A, C1)); sum(rows_dot_product(A, C1)); sum(append_row(x, q))
sum(C1[:, 1:2] .* append_col(x, q)); sum(head(x, 2)); sum(tail(x, 2)); sum(segment(x, 2, 2))
sum(mdivide_left(A, x)); sum(mdivide_right(x', A)); sum(A \\ x); sum(x' / A)
sum(mdivide_left_spd(S, x)); sum(mdivide_right_spd(x', S)); sum(mdivide_left_tri_low(L, x))
sum(mdivide_right_tri_low(x', L)); quad_form(A, x); quad_form_sym(S, x)
sum(C1 .* quad_form_diag(S, q)); trace_quad_form(A, S); trace_gen_quad_form(A, S, C1)
trace_dot(A, S); sum(C1 .* diag_pre_multiply(q, A)); sum(C1 .* diag_post_multiply(A, q))
sum(C1 .* add_diag(A, q)); sum(C1 .* matrix_power(A, 3)); sum(C1 .* matrix_exp_multiply(A, S))
sum(C1 .* scale_matrix_exp_multiply(u, A, S)); sum(C1 .* to_matrix(to_vector(A), 3, 3))
sum(block(A, 1, 2, 2, 2)); sum(col(A, 2)); sum(row(A, 2)); sum(sub_col(A, 2, 2, 2))
sum(sub_row(A, 2, 2, 2)); sum(to_row_vector(x)); sum(rep_vector(a, 3)); sum(rep_matrix(x, 2))
sum(rep_row_vector(a, 3)); sum(A * S); sum(A * x); x' * A * q; sum(x * q'); sum(A + S)
sum(to_vector(A) .* to_vector(S)); dot_product(K1, csr_matrix_times_vector(3, 3, q, I1, I2, x))
sum(C1 .* csr_to_dense_matrix(3, 3, q, I1, I2)); sum(x[sort_indices_asc(Y1)])
dot_product(K1, sort_asc(q)); sum(C1 .* gp_exp_quad_cov(to_array_1d(Y1), s, t))
sum(C1 .* gp_exponential_cov(to_array_1d(Y1), s, t))
sum(C1 .* gp_matern32_cov(to_array_1d(Y1), s, t))
sum(C1 .* gp_matern52_cov(to_array_1d(Y1), s, t))
sum(C1 .* gp_periodic_cov(to_array_1d(Y1), s, t, r)); sum(C1 .* gp_dot_prod_cov(to_array_1d(Y1), s))
get_real(fft(to_complex(x, q))[2]); get_real(inv_fft(to_complex(x, q))[2])
get_real(polar(r, a)); get_real(pow(to_complex(a, b), to_complex(c, r)))
get_real(to_complex(a, b) * to_complex(c, r) / to_complex(s, t)); get_real(eigenvalues(A)[1])
sum(svd(A).2); sum(qr(A).1 .* C1); sum(eigendecompose_sym(S).2)
integrate_1d(integrand, 0, s, {a}, {0.0}, {0}, 1e-9)
sum(ode_rk45(decay, x, 0.0, {0.5, 1.0}, q)[2]); sum(ode_bdf(decay, x, 0.0, {0.5, 1.0}, q)[2])
sum(ode_adams(decay, x, 0.0, {0.5}, q)[1]); sum(ode_ckrk(decay, x, 0.0, {0.5}, q)[1])
sum(solve_newton(root, Y1, q)); sum(solve_powell(root, Y1, q))
reduce_sum(partial, {1, 2, 3}, 1, x, q); norm2(q); norm1(q); sum(linspaced_vector(3, 0, 1) * a)
sum(identity_matrix(3) * x); sum(ones_vector(3) * a); sum(one_hot_vector(3, 2) .* x)
lower_bound_constrain(a, b); upper_bound_constrain(a, b); lower_upper_bound_constrain(a, b, b + s)
offset_multiplier_constrain(a, b, s); dot_product(K1, ordered_constrain(x))
dot_product(K1, positive_ordered_constrain(x)); dot_product(K1, simplex_constrain([a, b]'))
dot_product(K1, sum_to_zero_constrain([a, b]')); dot_product(K1, unit_vector_constrain(x))
sum(C1 .* cholesky_factor_corr_constrain(x, 3)); sum(C1 .* corr_matrix_constrain(x, 3))
sum(C1 .* cov_matrix_constrain(append_row(x, x), 3))
sum(C1 .* cholesky_factor_cov_constrain(append_row(x, x), 3, 3))
sum(C1 .* stochastic_row_constrain(A[:, 1:2])); sum(C1 .* stochastic_column_constrain(A[1:2]))
lower_bound_unconstrain(b + s, b); upper_bound_unconstrain(b - s, b)
lower_upper_bound_unconstrain(b + s * u, b, b + s); offset_multiplier_unconstrain(a, b, s)
sum(ordered_unconstrain(cumulative_sum(q))); sum(positive_ordered_unconstrain(cumulative_sum(q)))
dot_product(K1[1:2], simplex_unconstrain(softmax(x))); sum(unit_vector_unconstrain(x / norm2(x)))
"""


def _terms() -> Iterator[tuple[str, str]]:
    yield from _univariate()
    yield from _above()
    for term in MULTIVARIATE.split("\n"):
        if term:
            yield term, term
    for form, names in UNARY.items():
        for name in names.split():
            term = form.format(name)
            yield term, term
    for term in FURTHER.replace("\n", ";").split(";"):
        if term.strip():
            yield term.strip(), term.strip()


#: Terms by name; one that is no expression adds to the target by itself.
TERMS = dict(_terms())

FUNCTIONS = """
functions {
  real integrand(real z, real zc, array[] real theta, data array[] real d, data array[] int i) {
    return exp(-square(z - theta[1]));
  }
  vector decay(real time, vector y, vector k) { return [-k[1] * y[1], k[2] * y[1] - y[2], y[2]]'; }
  vector root(vector z, vector k) { return z .* z .* z + k .* z - 1; }
  real partial(array[] int part, int start, int end, vector m, vector sd) {
    return normal_lpdf(m[start:end] | 0.5, sd[start:end]);
  }
}
"""
DATA = """
data { int k; int n; }
transformed data {
  vector[3] Y1 = [0.4, -1.3, 2.2]'; vector[3] Y2 = [0.7, 3.1, 0.05]';
  vector[3] Y3 = [0.2, 0.91, 0.5]'; array[3] int Y4 = {2, 0, 7}; array[3] int Y5 = {1, 0, 1};
  array[3] int Y6 = {5, 3, 9}; array[3] int Y7 = {2, 1, 3};
  array[3] int I1 = {1, 3, 2}; array[4] int I2 = {1, 2, 3, 4};
  vector[3] K1 = [0.2, 0.5, 0.3]';
  matrix[3, 2] X1 = [[0.3, -1], [1.2, 0.4], [-0.8, 2]];
  matrix[3, 3] C1 = [[0.7, -0.2, 1.1], [0.3, 0.9, -0.6], [-1.2, 0.4, 0.5]];
  matrix[3, 3] C2 = [[2, 0.3, -0.2], [0.3, 1.5, 0.4], [-0.2, 0.4, 1]];
  matrix[3, 3] C3 = cholesky_decompose(C2);
}
parameters { vector[9] p; }
"""
LOCALS = """
  real a = p[1]; real b = p[2]; real c = p[3];
  real r = exp(p[4]); real s = exp(p[5]); real t = exp(p[6]);
  real u = inv_logit(p[7]); real v = inv_logit(p[8]); real w = inv_logit(p[9]);
  vector[3] x = [a, b, c]'; vector[3] q = [r, s, t]'; vector[3] o = [u, v, w]';
  matrix[3, 3] A = [[a, b, c], [b - c, s, a], [r, c, b]];
  matrix[3, 3] L = [[r, 0, 0], [a, s, 0], [b, c, t]];
  matrix[3, 3] S = L * L';
"""
#: Numbers of parameters by kind, in their order.
SIZES = {"R": 3, "P": 3, "U": 3}


def code_of(terms: list[str]) -> str:
    """A program whose log density is the k-th of the terms."""
    sums = [term if "target" in term else f"target += {term}" for term in terms]
    chosen = "".join(f"  if (k == {j}) {{ {term}; }}\n" for j, term in enumerate(sums, 1))
    return f"{FUNCTIONS}{DATA}model {{{LOCALS}{chosen}}}\n"
