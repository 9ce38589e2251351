"""Facts about Stan's functions: which arguments belong to one observation.

A vectorised density is a sum over rows. To take it apart one must know, for each argument,
the rank it has for a *single* observation: 0 for a scalar, 1 for a probability vector or the
mean of a multivariate normal, 2 for a covariance. An argument with one more dimension has
one entry per row.

Of the other functions it must know which work entry by entry, so that rows stay rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from stancoreset.stan.syntax import nodes as n

THREADED = ("reduce_sum", "reduce_sum_static")
_UNIVARIATE = (
    "beta beta_proportion cauchy chi_square double_exponential exp_mod_normal exponential "
    "frechet gamma gumbel inv_chi_square inv_gamma logistic loglogistic lognormal normal "
    "pareto pareto_type_2 rayleigh scaled_inv_chi_square skew_double_exponential skew_normal "
    "std_normal student_t uniform von_mises weibull wiener"
)
_DISCRETE = (
    "bernoulli bernoulli_logit beta_binomial beta_neg_binomial binomial binomial_logit "
    "discrete_range hypergeometric neg_binomial neg_binomial_2 neg_binomial_2_log poisson "
    "poisson_log yule_simon"
)
#: Ranks of the arguments for one observation, the outcome first.
_RANKS: dict[str, tuple[int, ...]] = {
    "categorical": (0, 1),
    "categorical_logit": (0, 1),
    "ordered_logistic": (0, 0, 1),
    "ordered_probit": (0, 0, 1),
    "dirichlet": (1, 1),
    "dirichlet_multinomial": (1, 1),
    "multinomial": (1, 1),
    "multinomial_logit": (1, 1),
    "poisson_binomial": (0, 1),
    "multi_normal": (1, 1, 2),
    "multi_normal_cholesky": (1, 1, 2),
    "multi_normal_prec": (1, 1, 2),
    "multi_student_t": (1, 0, 1, 2),
    "multi_student_t_cholesky": (1, 0, 1, 2),
    "multi_gp": (2, 2, 1),
    "multi_gp_cholesky": (2, 2, 1),
    "gaussian_dlm_obs": (2, 2, 2, 2, 2, 1, 2),
    "lkj_corr": (2, 0),
    "lkj_corr_cholesky": (2, 0),
    "lkj_cov": (2, 1, 1, 0),
    "wishart": (2, 0, 2),
    "wishart_cholesky": (2, 0, 2),
    "inv_wishart": (2, 0, 2),
    "inv_wishart_cholesky": (2, 0, 2),
    "hmm_marginal": (2, 2, 1),
}
_DISCRETE_RANKED = (
    "categorical categorical_logit ordered_logistic ordered_probit dirichlet_multinomial "
    "multinomial multinomial_logit poisson_binomial"
)


@dataclass(frozen=True)
class GLM:
    """A fused regression density: its base density and the order of its arguments."""

    base: str
    # After the outcome: those of the linear predictor, ``alpha + x * beta``, and of `base`.
    args: tuple[str, ...]
    matrix_beta: bool = False


GLMS: dict[str, GLM] = {
    "bernoulli_logit_glm": GLM("bernoulli_logit", ("x", "alpha", "beta")),
    "binomial_logit_glm": GLM("binomial_logit", ("trials", "x", "alpha", "beta")),
    "normal_id_glm": GLM("normal", ("x", "alpha", "beta", "sigma")),
    "poisson_log_glm": GLM("poisson_log", ("x", "alpha", "beta")),
    "neg_binomial_2_log_glm": GLM("neg_binomial_2_log", ("x", "alpha", "beta", "phi")),
    "ordered_logistic_glm": GLM("ordered_logistic", ("x", "beta", "cuts")),
    "categorical_logit_glm": GLM("categorical_logit", ("x", "alpha", "beta"), matrix_beta=True),
}


@dataclass(frozen=True)
class Density:
    """One of Stan's densities."""

    discrete: bool  # whether it is a mass function
    # Ranks of the arguments for one observation, the outcome first; None: all scalars.
    ranks: tuple[int, ...] | None = None
    glm: GLM | None = None

    def rank(self, position: int) -> int:
        """Rank of argument `position` for one observation; 0 is the outcome."""
        return 0 if self.ranks is None else self.ranks[position]


#: How the names of log densities and distribution functions end.
DENSITIES = ("_lpdf", "_lpmf", "_lupdf", "_lupmf", "_lcdf", "_lccdf")
_SUFFIXES = (*DENSITIES, "_log")


def suffix(name: str) -> tuple[str, str]:
    """Split ``normal_lpdf`` into ``("normal", "_lpdf")``; no suffix gives ``""``."""
    for s in _SUFFIXES:
        if name.endswith(s):
            return name.removesuffix(s), s
    return name, ""


def density_of(node: n.Node) -> tuple[str, tuple[n.Expr, ...]]:
    """Name without suffix and arguments, the outcome first, of a density; empty for all else."""
    match node:
        case n.Tilde(arg=outcome, distribution=name, args=args):
            return name, (outcome, *args)
        case n.Call(name=name, args=args) if suffix(name)[1]:
            return suffix(name)[0], args
    return "", ()


def normalised_name(name: str) -> str:
    """``normal_lpdf`` for ``normal_lupdf``, and the like; other names stay as they are."""
    return name.replace("_lupdf", "_lpdf").replace("_lupmf", "_lpmf")


def density(name: str) -> Density | None:
    """The density of that name (without suffix), None if Stan's table has none.

    >>> density("multi_normal").ranks
    (1, 1, 2)
    """
    return _TABLE.get(name)


_TABLE: dict[str, Density] = {
    **dict.fromkeys(_UNIVARIATE.split(), Density(False)),
    **dict.fromkeys(_DISCRETE.split(), Density(True)),
    **{k: Density(k in _DISCRETE_RANKED.split(), ranks) for k, ranks in _RANKS.items()},
    **{k: Density(k != "normal_id_glm", glm=glm) for k, glm in GLMS.items()},
}


_UNARY = (
    "abs acos acosh asin asinh atan atanh cbrt ceil cos cosh digamma erf erfc exp exp2 expm1 "
    "fabs floor inv inv_cloglog inv_erfc inv_logit inv_Phi inv_sqrt inv_square lambert_w0 "
    "lambert_wm1 lgamma log log10 log1m log1m_exp log1m_inv_logit log1p log1p_exp log2 "
    "log_inv_logit logit minus_abs Phi Phi_approx round sin sinh sqrt square step tan tanh "
    "tgamma trigamma trunc to_real to_int"
)
#: Functions of one container that act on each entry.
UNARY = frozenset(_UNARY.split())
#: Those that Stan has for vectors, too; some it has for numbers or arrays alone.
OF_VECTORS = UNARY - {"step", "to_int", "minus_abs"}

_BINARY = (
    "atan2 bessel_first_kind bessel_second_kind beta binary_log_loss choose falling_factorial "
    "fdim fma fmax fmin fmod gamma_p gamma_q hypot inc_beta lbeta lchoose ldexp lmgamma "
    "lmultiply log_diff_exp log_falling_factorial log_inv_logit_diff "
    "log_modified_bessel_first_kind log_rising_factorial log_sum_exp logical_and max min "
    "modified_bessel_first_kind modified_bessel_second_kind multiply_log owens_t pow "
    "rising_factorial std_normal_qf add subtract elt_multiply elt_divide rows_dot_product "
    "log_mix"
)
#: Functions of several arguments that broadcast over containers entry by entry.
BINARY = frozenset(_BINARY.split())

#: Containers made from one value and a size: the position of the sizes.
FILLED = {
    "rep_vector": 1, "rep_row_vector": 1, "rep_array": 1, "rep_matrix": 1, "zeros_vector": 0,
    "zeros_row_vector": 0, "zeros_array": 0, "zeros_int_array": 0, "ones_vector": 0,
    "ones_row_vector": 0, "ones_array": 0, "ones_int_array": 0,
}  # fmt: skip

#: Sums over the entries.
REDUCTIONS = frozenset(("sum", "dot_product", "dot_self"))

#: Cuts that can hold all rows: axis of the rows, arguments of their start (0: none) and number.
BLOCKS = {
    "block": (0, 1, 3), "sub_col": (0, 1, 3), "sub_row": (1, 2, 3), "segment": (0, 1, 2),
    "head": (0, 0, 1), "tail": (0, 0, 1),
}  # fmt: skip
