"""The Stan program of a regression, as a careful person writes it.

    mu = Intercept + Xc b + offset + Σ_g r_g[J_g] · Z_g,      r_g = (diag(sd_g) L_g z_g)ᵀ

Predictors are centred, so that ``Intercept`` and ``b`` are nearly independent, and effects are
non-centred, both as brms writes them. A vector for each effect is what the rows are read to see.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from stancoreset.formulas.design import Design, Groups
from stancoreset.formulas.families import Family
from stancoreset.formulas.priors import FLAT

__all__ = ["program_of"]

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
        "data": [*_data(family, design, ordinal), *_group_data(groups)],
        "parameters": [*_parameters(family, design, ordinal), *_group_parameters(groups)],
        "transformed parameters": _effects(groups),
        "model": _model(family, design, groups, priors, ordinal),
        "generated quantities": [*_intercept(design, ordinal), *_correlations(groups)],
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


# Data ------------------------------------------------------------------------------------


def _data(family: Family, design: Design, ordinal: bool) -> Iterable[_Line]:
    yield _Line("int<lower=1> N;", "rows")
    if ordinal:
        yield _Line("int<lower=2> C;", "categories")
    yield _Line(f"{family.outcome};", design.outcome.name)
    if design.outcome.trials is not None:
        yield _Line("array[N] int<lower=0> trials;")
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
    vectors = [
        _Line(f"vector[N_{g}] r_{g}_{m} = r_{g}[, {m}];")
        for g, group in groups.items()
        for m in range(1, len(group.effects) + 1)
    ]
    return [
        *vectors,
        *_predictor(design, groups, ordinal),
        *_priors(priors, design.labels),
        *(_Line(f"to_vector(z_{g}) ~ std_normal();") for g in groups),
        _Line(f"Y ~ {family.density};"),
    ]


def _predictor(design: Design, groups: Mapping[str, Groups], ordinal: bool) -> Iterable[_Line]:
    terms = ["Intercept"] if design.intercept and not ordinal else []
    if design.labels:
        terms.append("Xc * b" if _centred(design, ordinal) else "X * b")
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
