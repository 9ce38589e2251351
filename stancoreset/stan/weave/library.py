"""What weaving knows about Stan's densities: which arguments belong to one observation.

A vectorised density is a sum over rows. To take it apart one must know, for each argument,
the rank it has for a *single* observation: 0 for a scalar, 1 for a probability vector or the
mean of a multivariate normal, 2 for a covariance. An argument with one more dimension has
one entry per row.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["GLM", "Density", "density", "suffix"]

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
_DISCRETE_RANKED = frozenset(
    [
        "categorical",
        "categorical_logit",
        "ordered_logistic",
        "ordered_probit",
        "dirichlet_multinomial",
        "multinomial",
        "multinomial_logit",
        "poisson_binomial",
    ]
)


@dataclass(frozen=True)
class GLM:
    """A fused regression density: its base density and where its arguments stand.

    `args` names the arguments after the outcome; ``x``, ``alpha``, ``beta`` form the linear
    predictor ``alpha + x * beta``; the others are passed on to `base`.
    """

    base: str
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
    """One of Stan's densities.

    Attributes
    ----------
    name : str
        Without suffix, for example ``normal``.
    discrete : bool
        Whether it is a mass function.
    ranks : tuple of int or None
        Ranks of the arguments for one observation, the outcome first; None: all scalars.
    glm : GLM or None
    """

    name: str
    discrete: bool
    ranks: tuple[int, ...] | None = None
    glm: GLM | None = None

    def rank(self, position: int) -> int:
        """Rank of argument `position` for one observation; 0 is the outcome."""
        return 0 if self.ranks is None else self.ranks[position]


_SUFFIXES = ("_lpdf", "_lpmf", "_lupdf", "_lupmf", "_lcdf", "_lccdf", "_log")


def suffix(name: str) -> tuple[str, str]:
    """Split ``normal_lpdf`` into ``("normal", "_lpdf")``; no suffix gives ``""``."""
    for s in _SUFFIXES:
        if name.endswith(s):
            return name.removesuffix(s), s
    return name, ""


def density(name: str) -> Density | None:
    """The density of that name (without suffix), None if Stan's table has none.

    Examples
    --------
    >>> density("multi_normal").ranks
    (1, 1, 2)
    """
    if name in GLMS:
        discrete = name != "normal_id_glm"
        return Density(name, discrete, glm=GLMS[name])
    if name in _UNIVARIATE.split():
        return Density(name, False)
    if name in _DISCRETE.split():
        return Density(name, True)
    if name in _RANKS:
        return Density(name, name in _DISCRETE_RANKED, _RANKS[name])
    return None
