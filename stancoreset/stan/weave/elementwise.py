"""Which of Stan's functions work entry by entry, so that rows stay rows."""

from __future__ import annotations

__all__ = ["BINARY", "BLOCKS", "FILLED", "REDUCTIONS", "UNARY"]

#: Functions of one container that act on each entry.
UNARY = frozenset(
    [
        "abs",
        "acos",
        "acosh",
        "asin",
        "asinh",
        "atan",
        "atanh",
        "cbrt",
        "ceil",
        "cos",
        "cosh",
        "digamma",
        "erf",
        "erfc",
        "exp",
        "exp2",
        "expm1",
        "fabs",
        "floor",
        "inv",
        "inv_cloglog",
        "inv_erfc",
        "inv_logit",
        "inv_Phi",
        "inv_sqrt",
        "inv_square",
        "lambert_w0",
        "lambert_wm1",
        "lgamma",
        "log",
        "log10",
        "log1m",
        "log1m_exp",
        "log1m_inv_logit",
        "log1p",
        "log1p_exp",
        "log2",
        "log_inv_logit",
        "logit",
        "minus_abs",
        "Phi",
        "Phi_approx",
        "round",
        "sin",
        "sinh",
        "sqrt",
        "square",
        "step",
        "tan",
        "tanh",
        "tgamma",
        "trigamma",
        "trunc",
        "to_real",
        "to_int",
    ]
)

#: Functions of several arguments that broadcast over containers entry by entry.
BINARY = frozenset(
    [
        "atan2",
        "bessel_first_kind",
        "bessel_second_kind",
        "beta",
        "binary_log_loss",
        "choose",
        "falling_factorial",
        "fdim",
        "fma",
        "fmax",
        "fmin",
        "fmod",
        "gamma_p",
        "gamma_q",
        "hypot",
        "inc_beta",
        "lbeta",
        "lchoose",
        "ldexp",
        "lmgamma",
        "lmultiply",
        "log_diff_exp",
        "log_falling_factorial",
        "log_inv_logit_diff",
        "log_modified_bessel_first_kind",
        "log_rising_factorial",
        "log_sum_exp",
        "logical_and",
        "max",
        "min",
        "modified_bessel_first_kind",
        "modified_bessel_second_kind",
        "multiply_log",
        "owens_t",
        "pow",
        "rising_factorial",
        "std_normal_qf",
        "add",
        "subtract",
        "elt_multiply",
        "elt_divide",
        "rows_dot_product",
        "log_mix",
    ]
)

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
