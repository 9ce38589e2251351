"""The Stan program of a regression, as a careful person writes it.

    mu = Intercept + Xc b + offset + Σ_g r_g[J_g] · Z_g,      r_g = (diag(sd_g) L_g z_g)ᵀ

Predictors are centred, so that ``Intercept`` and ``b`` are nearly independent, and effects are
non-centred, both as brms writes them. A vector for each effect is what the rows are read to see.
Where a primitive of Stan multiplies predictors and coefficients itself, as bernoulli_logit_glm
does, mu is the linear predictor without them.
Rows with weights are a loop, and log_lik is theirs without weights, by which the program says that
it has weights of its own; so are censored rows, and densities that Stan lacks.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from stancoreset.formulas.design import Design, Groups
from stancoreset.formulas.families import Family
from stancoreset.formulas.priors import FLAT

_WIDTH = 92
# Longest code with its comment below those of other lines.
_CODE = 44


@dataclass(frozen=True)
class _Line:
    """A line of a block, with a comment beside it."""

    code: str
    comment: str = ""


def program_of(
    about: Sequence[str],
    family: Family,
    design: Design,
    groups: Mapping[str, Groups],
    priors: Mapping[str, str],
) -> str:
    """The program's text; `about` is a comment above, and `groups` are named as in the program."""
    ordinal = family.ordinal
    blocks = {
        "functions": _functions(family, design),
        "data": [*_data(family, design, ordinal), *_group_data(groups)],
        "parameters": [*_parameters(family, design, ordinal), *_group_parameters(groups)],
        "transformed parameters": _effects(groups),
        "model": _model(family, design, groups, priors, ordinal),
        "generated quantities": [
            *_intercept(design, ordinal),
            *_correlations(groups),
            *_log_lik(family, design, groups, ordinal),
        ],
    }
    head = [line for text in about for line in _comment(text)]
    body = [line for name, lines in blocks.items() if lines for line in _block(name, lines)]
    return "\n".join([*head, *body]) + "\n"


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="// ", subsequent_indent="//   ")


def _block(name: str, lines: Iterable[_Line]) -> Iterable[str]:
    """A block; its comments stand below one another, but beside lines that are much longer."""
    lines = list(lines)
    widths = [len(line.code) for line in lines if line.comment]
    column = max((width for width in widths if width <= _CODE), default=0)
    yield f"{name} {{"
    for line in lines:
        yield f"  {line.code:<{column}}  // {line.comment}" if line.comment else f"  {line.code}"
    yield "}"


# Functions -------------------------------------------------------------------------------


def _functions(family: Family, design: Design) -> list[_Line]:
    text = family.function
    if design.outcome.beside.censored is not None:
        text = _censored(family, design.outcome.beside.upper is not None)
    return [_Line(line) for line in text.splitlines()]


def _censored(family: Family, intervals: bool) -> str:
    """The log density of an outcome that may be known by limits."""
    name, arguments = family.of_row()
    below, above = family.tail("below"), family.tail("above")
    upper = "real rcens, " if intervals else ""
    others = "".join(f", real {name}" for name in family.parameters)
    left, last = (
        ("", "")
        if not intervals
        else (
            "if (cens == -1) ",
            f"""
  if ({below} < log(0.5))  // the tail in which digits are left
    return log_diff_exp({family.tail("below", "rcens")},
                        {below});
  return log_diff_exp({above},
                      {family.tail("above", "rcens")});""",
        )
    )
    first = "" if family.tails is None else family.tails.function
    return f"""\
{first}real censored_lpdf(real y, int cens, {upper}real mu{others}) {{
  if (cens == 0) return {name}(y | {arguments.replace("[n]", "")});
  if (cens == 1) return {above};
  {left}return {below};{last}
}}"""


def _of_row(family: Family, design: Design) -> str:
    """The log density of row n, without its weight."""
    beside = design.outcome.beside
    name, arguments = family.of_row()
    if beside.censored is not None:
        upper = "rcens[n], " if beside.upper is not None else ""
        name = "censored_lpdf"
        arguments = ", ".join([f"cens[n], {upper}mu[n]", *family.parameters])
    return f"{name}(Y[n] | {arguments})"


# Data ------------------------------------------------------------------------------------


def _data(family: Family, design: Design, ordinal: bool) -> Iterable[_Line]:
    yield _Line("int<lower=1> N;", "rows")
    if ordinal:
        yield _Line("int<lower=2> C;", "categories")
    yield _Line(f"{family.outcome};", design.outcome.name)
    beside = design.outcome.beside
    if beside.trials is not None:
        yield _Line("array[N] int<lower=0> trials;")
    if beside.censored is not None:
        most = 1 if beside.upper is None else 2
        yield _Line(f"array[N] int<lower=-1, upper={most}> cens;", "1: above Y; -1: below Y")
    if beside.upper is not None:
        yield _Line("vector[N] rcens;", "upper limits, where cens is 2")
    if beside.weights is not None:
        yield _Line("vector<lower=0>[N] weights;")
    if design.labels:
        yield _Line("int<lower=1> K;", "predictors")
        if _centred(design, ordinal):
            yield _Line("matrix[N, K] Xc;", "each less its mean")
            yield _Line("vector[K] means_X;", "these means")
        else:
            yield _Line("matrix[N, K] X;")
    if design.offset is not None:
        yield _Line("vector[N] offsets;")


def _centred(design: Design, ordinal: bool) -> bool:
    return design.intercept or ordinal


def _group_data(groups: Mapping[str, Groups]) -> Iterable[_Line]:
    for g, group in groups.items():
        yield _Line(f"int<lower=1> N_{g};", f"levels of {group.factor}")
        yield _Line(f"int<lower=1> M_{g};", f"effects: {', '.join(group.effects)}")
        yield _Line(f"array[N] int<lower=1, upper=N_{g}> J_{g};", "each row's level")
        for m, (effect, values) in enumerate(zip(group.effects, group.values, strict=True), 1):
            if values is not None:
                yield _Line(f"vector[N] Z_{g}_{m};", effect)


# Parameters ------------------------------------------------------------------------------


def _parameters(family: Family, design: Design, ordinal: bool) -> Iterable[_Line]:
    if design.labels:
        yield _Line("vector[K] b;", "coefficients")
    if ordinal:
        yield _Line("ordered[C - 1] Intercept;", "thresholds, at the predictors' means")
    elif design.intercept:
        yield _Line("real Intercept;", "at the predictors' means")
    for name, declared in family.parameters.items():
        yield _Line(f"{declared} {name};")


def _group_parameters(groups: Mapping[str, Groups]) -> Iterable[_Line]:
    for g, group in groups.items():
        yield _Line(f"vector<lower=0>[M_{g}] sd_{g};", f"between levels of {group.factor}")
        if group.correlated:
            yield _Line(f"cholesky_factor_corr[M_{g}] L_{g};", "of the effects' correlations")
        yield _Line(f"matrix[M_{g}, N_{g}] z_{g};", "standardised effects")


def _effects(groups: Mapping[str, Groups]) -> list[_Line]:
    lines = []
    for g, group in groups.items():
        effects = (
            f"(diag_pre_multiply(sd_{g}, L_{g}) * z_{g})'"
            if group.correlated
            else f"diag_pre_multiply(sd_{g}, z_{g})'"
        )
        lines.append(_Line(f"matrix[N_{g}, M_{g}] r_{g} = {effects};", "effects"))
    return lines


# Model -----------------------------------------------------------------------------------


def _model(
    family: Family,
    design: Design,
    groups: Mapping[str, Groups],
    priors: Mapping[str, str],
    ordinal: bool,
) -> list[_Line]:
    beside = design.outcome.beside
    by_rows = beside.weights is not None or beside.censored is not None or bool(family.function)
    primitive = family.primitive and bool(design.labels) and not by_rows
    if by_rows:
        weight = "" if beside.weights is None else "weights[n] * "
        likelihood = f"for (n in 1:N) target += {weight}{_of_row(family, design)};"
    elif primitive:
        likelihood = f"Y ~ {family.of_predictors(_predictors(design, ordinal))};"
    else:
        likelihood = f"Y ~ {family.density};"
    return [
        *_predictor(design, groups, ordinal, whole=not primitive),
        *_priors(priors, design.labels),
        *(_Line(f"to_vector(z_{g}) ~ std_normal();") for g in groups),
        _Line(likelihood),
    ]


def _predictors(design: Design, ordinal: bool) -> str:
    """The name of the matrix of predictors."""
    return "Xc" if _centred(design, ordinal) else "X"


def _predictor(
    design: Design, groups: Mapping[str, Groups], ordinal: bool, *, whole: bool = True
) -> Iterable[_Line]:
    """Lines that declare ``mu``; unless it is `whole`, without predictors times coefficients."""
    for g, group in groups.items():
        for m in range(1, len(group.effects) + 1):
            yield _Line(f"vector[N_{g}] r_{g}_{m} = r_{g}[, {m}];")
    terms = ["Intercept"] if design.intercept and not ordinal else []
    if design.labels and whole:
        terms.append(f"{_predictors(design, ordinal)} * b")
    if design.offset is not None:
        terms.append("offsets")
    for g, group in groups.items():
        for m, values in enumerate(group.values, 1):
            effect = f"r_{g}_{m}[J_{g}]"
            terms.append(effect if values is None else f"{effect} .* Z_{g}_{m}")
    if terms in ([], ["Intercept"]):  # no vector among them
        terms = [f"rep_vector({terms[0] if terms else 0}, N)"]
    lines = textwrap.wrap(" + ".join(terms), _WIDTH - 16, break_long_words=False)
    yield _Line("vector[N] mu = " + "\n                 ".join(lines) + ";")


def _priors(priors: Mapping[str, str], labels: tuple[str, ...]) -> Iterable[_Line]:
    own = {name: text for name, text in priors.items() if name.startswith("b[")}
    for name, text in priors.items():
        if name == "b" and own:
            for k, label in enumerate(labels, 1):
                text = own.get(f"b[{label}]", priors["b"])
                if text != FLAT:
                    yield _Line(f"b[{k}] ~ {text};", label)
        elif name not in own and text != FLAT:
            yield _Line(f"{name} ~ {text};")


# Generated quantities --------------------------------------------------------------------


def _intercept(design: Design, ordinal: bool) -> Iterable[_Line]:
    if not design.labels or not _centred(design, ordinal):
        return
    about = "where predictors are zero"
    if ordinal:
        yield _Line("vector[C - 1] b_Intercept = Intercept + dot_product(means_X, b);", about)
    else:
        yield _Line("real b_Intercept = Intercept - dot_product(means_X, b);", about)


def _correlations(groups: Mapping[str, Groups]) -> Iterable[_Line]:
    for g, group in groups.items():
        if group.correlated:
            yield _Line(f"corr_matrix[M_{g}] cor_{g} = multiply_lower_tri_self_transpose(L_{g});")


def _log_lik(
    family: Family, design: Design, groups: Mapping[str, Groups], ordinal: bool
) -> Iterable[_Line]:
    if design.outcome.beside.weights is None:
        return
    yield _Line("vector[N] log_lik;", "without weights")
    yield _Line("{")
    for line in _predictor(design, groups, ordinal):
        yield _Line("  " + line.code.replace("\n", "\n  "))
    yield _Line(f"  for (n in 1:N) log_lik[n] = {_of_row(family, design)};")
    yield _Line("}")
