"""All families and terms of brms beside ours; the table of the guide is made of what is tested.

``python tests/formulas/test_brms_table.py`` writes the table into the guide.
"""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from formulas.tables import OUTCOMES, simulated

import stancoreset as sc
from stancoreset.errors import OptionError
from stancoreset.formulas import brms

FRAME = simulated().assign(w=1.0, c=0, late=np.arange(120) % 2)
GUIDE = Path(__file__).parents[2] / "notebooks" / "guide_formulas.ipynb"
HEAD = "## Beside brms\n"

#: Families of brms 2.23, as its manual lists them.
LISTED = """
gaussian student lognormal shifted_lognormal skew_normal exgaussian asym_laplace
gen_extreme_value von_mises binomial bernoulli beta_binomial categorical multinomial
dirichlet_multinomial poisson negbinomial negbinomial2 geometric com_poisson discrete_weibull
Gamma weibull exponential frechet inverse.gaussian cox wiener Beta xbeta dirichlet
logistic_normal cumulative sratio cratio acat hurdle_poisson hurdle_negbinomial hurdle_gamma
hurdle_lognormal hurdle_cumulative zero_inflated_poisson zero_inflated_negbinomial
zero_inflated_binomial zero_inflated_beta_binomial zero_inflated_beta zero_one_inflated_beta
zero_inflated_asym_laplace mixcure_lognormal mixcure_weibull mixture custom_family
"""
BRMS_FAMILIES = LISTED.split()

#: Formulas of brms that mean here what they mean there: outcome, predictors, family.
SAME = {
    "x + z, x:z, x * z": "gaussian ~ x * z + x:f",
    "0 + x, x - 1": "gaussian ~ x - 1",
    "offset(log(e))": "poisson ~ x + offset(log(trials))",
    "poly(x, 2)": "gaussian ~ poly(x, 2)",
    "bs(x, df = 4)": "gaussian ~ bs(x, df = 4)",
    "log(x), scale(x)": "gaussian ~ log(trials) + scale(x)",
    "(1 | g), (x | g)": "gaussian ~ x + (x | g)",
    "(x || g)": "gaussian ~ x + (x || g)",
    "(1 | g) + (1 | h)": "gaussian ~ (1 | g) + (1 | h)",
    "(1 | g/h)": "gaussian ~ (1 | g/h)",
    "(1 | g:h)": "gaussian ~ (1 | g:h)",
    "y | weights(w)": "gaussian | weights(w) ~ x",
    "y | trials(n)": "binomial | trials(trials) ~ x",
    "y | cens(c), y | cens(c, y2)": "weibull | cens(c) ~ x",
    "y | weights(w) + cens(c)": "gaussian | weights(w) + cens(c) ~ x",
}

#: Formulas of brms for the names and signs that are refused, as their users write them.
REFUSED = {
    "s": "gaussian ~ s(x)",
    "t2": "gaussian ~ t2(x, z)",
    "gp": "gaussian ~ gp(x)",
    "ns": "gaussian ~ ns(x, df = 3)",
    "mo": "gaussian ~ mo(h)",
    "me": "gaussian ~ me(x, w)",
    "mi": "gaussian ~ mi(x)",
    "cs": "cumulative ~ x + cs(z)",
    "mm": "gaussian ~ (1 | mm(g, f))",
    "gr": "gaussian ~ (1 | gr(g, by = f))",
    "ar": "gaussian ~ x + ar(p = 1)",
    "ma": "gaussian ~ x + ma(q = 1)",
    "arma": "gaussian ~ x + arma(p = 1, q = 1)",
    "cosy": "gaussian ~ x + cosy(gr = g)",
    "unstr": "gaussian ~ x + unstr(h, g)",
    "sar": "gaussian ~ x + sar(M)",
    "car": "gaussian ~ x + car(M)",
    "fcor": "gaussian ~ x + fcor(M)",
    "autocor": "gaussian ~ x + autocor(M)",
    "mvbind": "mvbind(x, z) ~ f",
    "cbind": "cbind(x, z) ~ f",
    "mvbf": "mvbf(x ~ f, z ~ f)",
    "set_rescor": "x ~ z + set_rescor(TRUE)",
    "bf": "bf(gaussian ~ x, sigma ~ z)",
    "brmsformula": "brmsformula(gaussian ~ x, zi ~ z)",
    "lf": "gaussian ~ x + lf(sigma ~ z)",
    "nlf": "gaussian ~ x + nlf(sigma ~ z)",
    "factor": "gaussian ~ factor(h)",
    "as.factor": "gaussian ~ as.factor(h)",
    "ordered": "gaussian ~ ordered(h)",
    r"\^": "gaussian ~ I(x^2)",
    r"%in%": "gaussian ~ f %in% h",
    r"(?:~|[+*:(])\s*\.(?![\w])": "gaussian ~ .",
    r"\(.*?(?<!\|)\|(?!\|)\s*[\w.]+\s*\|(?!\|)[^()]*\)": "gaussian ~ (x | id | g)",
}


@pytest.mark.parametrize("said", SAME)
def test_terms_that_brms_has_too(said):
    formula = SAME[said]
    family = re.match(r"\w+", formula)[0]
    made = sc.regression(formula, FRAME, family=family, engine="stanli")
    assert made.program


def refusal(formula, family="gaussian"):
    """The error, which is one sentence."""
    with pytest.raises(OptionError) as raised:
        sc.regression(formula, FRAME, family=family)
    said = str(raised.value)
    assert ". " not in said
    return said


def remedies():
    """Every name and sign, and what is to be written instead."""
    signs = {sign: remedy for sign, (_, remedy) in brms.SIGNS.items()}
    return {**brms.TERMS, **signs}


@pytest.mark.parametrize("name", remedies())
def test_terms_that_are_refused_say_what_to_write(name):
    assert refusal(REFUSED[name]).endswith(remedies()[name])
    assert refusal("gaussian ~ x, sigma ~ z").endswith(brms.TERMS["bf"])


@pytest.mark.parametrize("name", brms.ADDITIONS)
def test_what_is_refused_beside_the_outcome_says_what_to_write(name):
    assert refusal(f"gaussian | {name}(w) ~ x").endswith(brms.ADDITIONS[name])
    assert refusal(f"gaussian | weights(w) + {name}(w) ~ x").endswith(brms.ADDITIONS[name])


def test_every_family_of_brms_is_there_or_refused():
    for name in BRMS_FAMILIES:
        assert (name in sc.formulas.FAMILIES) != (name in brms.FAMILIES), name
        if name in brms.FAMILIES:
            assert refusal("gaussian ~ x", name).endswith(brms.FAMILIES[name])
            assert brms.FAMILIES[name] in refusal("gaussian ~ x", f"{name}()")
    ours = {"Gamma": "gamma", "Beta": "beta"}
    assert {ours.get(name, name) for name in BRMS_FAMILIES} >= sc.formulas.FAMILIES.keys()
    said = refusal("x ~ z", "binomial('probit')")
    assert "the link of a family cannot be chosen: write 'binomial'" in said


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("gaussian ~ bs(x, df=6)", 6),
        ("gaussian ~ cr(x, df=4)", 4),
        ("gaussian ~ C(h)", 3),
        ("gaussian ~ {x**2}", 1),
        ("gaussian ~ (x + z)**2", 3),
        ("gaussian ~ f:x", 3),
    ],
)
def test_what_is_to_be_written_is_understood(formula, expected):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = sc.regression(formula, FRAME, engine="stanli")
    assert made.data["K"] == expected


# The page --------------------------------------------------------------------------------


def cell(text: str) -> str:
    return text.replace(brms.PROGRAM, "a program by `make_stancode`").replace("|", "\\|")


def table() -> str:
    """The tables in Markdown."""
    lines = [
        HEAD.strip(),
        "",
        "The tables below compare formulas and families with those of brms. Terms of brms that "
        "stancoreset does not support are",
        "refused, with the advice in the table. For those models, brms' `make_stancode` writes a "
        "Stan program, which",
        "`CoresetModel` takes unchanged if rows are independent given the parameters: see "
        "[from_r](from_r.ipynb).",
        "",
        "| brms | here |",
        "|---|---|",
    ]
    lines += [f"| `{cell(said)}` | the same |" for said in SAME]
    right = {name: formula.split("~", 1)[1].strip() for name, formula in REFUSED.items()}
    for name, remedy in remedies().items():
        said = right[name] if "(" not in REFUSED[name].split("~")[0] else REFUSED[name]
        lines.append(f"| `{cell(said)}` | {cell(remedy)} |")
    lines += [f"| `y \\| {name}(…)` | {cell(text)} |" for name, text in brms.ADDITIONS.items()]
    lines += ["", "| family of brms | here |", "|---|---|"]
    for name in BRMS_FAMILIES:
        if name in sc.formulas.FAMILIES:
            trials = ", `y \\| trials(n) ~ …`" if "trials" in OUTCOMES[name] else ""
            lines.append(f"| `{name}` | the same{trials} |")
        else:
            lines.append(f"| `{name}` | {cell(brms.FAMILIES[name])} |")
    return "\n".join(lines)


def test_the_guide_shows_the_table():
    notebook = json.loads(GUIDE.read_text(encoding="utf-8"))
    shown = ["".join(c["source"]) for c in notebook["cells"]]
    assert table() in shown, "run python tests/formulas/test_brms_table.py"


def write() -> None:
    """Put the table into the guide, in place of an earlier one, before the section of priors."""
    notebook = json.loads(GUIDE.read_text(encoding="utf-8"))
    cells = [c for c in notebook["cells"] if not "".join(c["source"]).startswith(HEAD)]
    source = table().splitlines(keepends=True)
    new = {"cell_type": "markdown", "id": "beside-brms", "metadata": {}, "source": source}
    place = next(i for i, c in enumerate(cells) if "".join(c["source"]).startswith("## Priors"))
    notebook["cells"] = [*cells[:place], new, *cells[place:]]
    text = json.dumps(notebook, indent=1, ensure_ascii=False)
    GUIDE.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()
