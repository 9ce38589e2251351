"""Formulas and families of brms that are not supported, and what to write instead.

Each is refused in one sentence with what to write instead. brms writes Stan programs, and
`stancoreset.CoresetModel` takes these: what no formula here says goes that way.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from stancoreset.errors import OptionError

#: Advice for terms that no formula here expresses.
PROGRAM = "let brms::make_stancode write the program, which stancoreset.CoresetModel takes"
_DEPENDENT = (
    "its rows depend on each other, so that none can be weighted alone; add a lagged outcome as a "
    "column, or effects of groups, (1 | g)"
)
_APART = "make a regression of each outcome"

#: Terms of formulas, and what to write instead.
TERMS: Mapping[str, str] = {
    "s": "write bs(x, df=6), a spline without a penalty, or " + PROGRAM,
    "t2": "write bs(x, df=4) * bs(z, df=4), splines without a penalty, or " + PROGRAM,
    "gp": "write bs(x, df=10), a spline without a penalty, or " + PROGRAM,
    "ns": "write cr(x, df=4), a natural cubic spline",
    "mo": "write C(x), a coefficient for each level, or " + PROGRAM,
    "me": "write x if its error is small, or " + PROGRAM,
    "mi": "leave out the rows without x, or " + PROGRAM,
    "cs": "write x, whose coefficient all thresholds share, or " + PROGRAM,
    "mm": PROGRAM,
    "gr": "write (1 | g)",
    **dict.fromkeys(
        ("ar", "ma", "arma", "cosy", "unstr", "sar", "car", "fcor", "autocor"), _DEPENDENT
    ),
    **dict.fromkeys(("mvbind", "cbind", "mvbf", "set_rescor"), _APART),
    **dict.fromkeys(
        ("bf", "brmsformula", "lf", "nlf"),
        "write the formula of the outcome alone, 'y ~ x'; where others have predictors, sigma ~ x, "
        + PROGRAM,
    ),
    **dict.fromkeys(("factor", "as.factor", "ordered"), "write C(x), or f for a column of text"),
}

#: What stands beside the outcome, ``y | …(…)``, and what to write instead.
ADDITIONS: Mapping[str, str] = {
    "se": "known errors of the outcome: " + PROGRAM,
    "rate": "write the predictor offset(log(n))",
    "trunc": "truncated outcomes: " + PROGRAM,
    "subset": "leave the other rows out of the table",
    "mi": "missing outcomes: leave these rows out, or " + PROGRAM,
    "thres": "leave it out: levels are counted in the table",
    "cat": "leave it out: levels are counted in the table",
    "dec": "decisions of a Wiener process: " + PROGRAM,
    "index": "it serves mi(): " + PROGRAM,
    "vreal": "it serves families of one's own: " + PROGRAM,
    "vint": "it serves families of one's own: " + PROGRAM,
    "bhaz": "a baseline hazard: write the family 'weibull', or " + PROGRAM,
}

#: Signs of formulas, as regular expressions, what they are, and what to write instead.
SIGNS: Mapping[str, tuple[str, str]] = {
    r"\^": ("x^2", "write {x**2}, or (x + z)**2 for interactions"),
    r"%in%": ("%in%", "write f:x"),
    r"(?:~|[+*:(])\s*\.(?![\w])": ("a dot for all columns", "name the columns"),
    r"\(.*?(?<!\|)\|(?!\|)\s*[\w.]+\s*\|(?!\|)[^()]*\)": (
        "(x | id | g)",
        "write (x | g), because there is one formula whose effects could be correlated",
    ),
}

#: Families, and what to write instead.
FAMILIES: Mapping[str, str] = {
    "Gamma": "write 'gamma'",
    "Beta": "write 'beta'",
    "beta-binomial": "write 'beta_binomial'",
    "negbinomial2": "write 'negbinomial', whose shape is 1 / sigma",
    "geometric": "write 'negbinomial' with the prior {'shape': 'lognormal(0, 0.001)'}, or "
    + PROGRAM,
    "categorical": "write 'bernoulli' with the outcome y['level'], one level against the others, "
    "or " + PROGRAM,
    "multinomial": "write 'binomial' with the outcome y | trials(n), one level against the others, "
    "or " + PROGRAM,
    **dict.fromkeys(
        ("sratio", "cratio", "acat"), "write 'cumulative' for ordered levels, or " + PROGRAM
    ),
    "cox": "write 'weibull', or " + PROGRAM,
    "hurdle_gamma": "write 'bernoulli' for y > 0 and 'gamma' for the rows above zero, two "
    "regressions whose posteriors are independent",
    "hurdle_lognormal": "write 'bernoulli' for y > 0 and 'lognormal' for the rows above zero, two "
    "regressions whose posteriors are independent",
    "hurdle_cumulative": "write 'bernoulli' for y > 0 and 'cumulative' for the rows above zero, "
    "two regressions whose posteriors are independent",
    **dict.fromkeys(
        (
            "skew_normal", "shifted_lognormal", "exgaussian", "wiener", "inverse.gaussian",
            "frechet", "gen_extreme_value", "dirichlet", "logistic_normal",
            "dirichlet_multinomial", "von_mises", "asym_laplace", "zero_inflated_asym_laplace",
            "com_poisson", "discrete_weibull", "xbeta", "zero_inflated_binomial",
            "zero_inflated_beta_binomial", "zero_inflated_beta", "zero_one_inflated_beta",
            "mixcure_lognormal", "mixcure_weibull", "mixture", "custom_family",
        ),
        PROGRAM,
    ),
}  # fmt: skip


def masked(text: str) -> str:
    """A formula with quoted texts and names replaced by letters of the same number.

    >>> masked("y ~ T(f, 's(x)')")
    'y ~ T(f, ______)'
    """
    return re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`", lambda quoted: "_" * len(quoted[0]), text)


def refuse_terms(plain: str, text: str) -> None:
    """Raise for the first term or sign of brms that has no meaning here; `text` is quoted."""
    bare = masked(plain)
    for name in re.findall(r"([A-Za-z][\w.]*)\s*\(", bare):
        if name in TERMS:
            raise OptionError(f"formula {text!r} has {name}(…) of brms: {TERMS[name]}")
    for pattern, (what, remedy) in SIGNS.items():
        if re.search(pattern, bare):
            raise OptionError(f"formula {text!r} has {what} of R: {remedy}")
    if bare.count("~") > 1:
        raise OptionError(f"formula {text!r} has more than one ~: {TERMS['bf']}")


def refuse_family(name: object) -> None:
    """Raise for a family of brms that is none here, or a link, ``"binomial(probit)"``."""
    if not isinstance(name, str):
        return
    family, _, link = name.partition("(")
    if family in FAMILIES:
        raise OptionError(f"family {family!r} is one of brms: {FAMILIES[family]}")
    if link:
        raise OptionError(
            f"family is {name!r}, but the link of a family cannot be chosen: write {family!r}, or "
            + PROGRAM
        )
