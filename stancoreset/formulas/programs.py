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

from stancoreset.formulas.additions import Additions
from stancoreset.formulas.design import Design, Groups
from stancoreset.formulas.families import PARAMETERS, Family
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
    made = _Writer(family, design, groups, priors)
    blocks = {
        "functions": made.functions(),
        "data": made.data(),
        "parameters": made.parameters(),
        "transformed parameters": made.effects(),
        "model": made.model(),
        "generated quantities": made.generated_quantities(),
    }
    head = textwrap.TextWrapper(_WIDTH, initial_indent="// ", subsequent_indent="//   ")
    lines = [line for text in about for line in head.wrap(text)]
    for name, found in blocks.items():
        if body := list(found):
            lines += _block(name, body)
    return "\n".join(lines) + "\n"


def _block(name: str, lines: Sequence[_Line]) -> Iterable[str]:
    """A block; its comments stand below one another, but beside lines that are much longer."""
    widths = [len(line.code) for line in lines if line.comment]
    column = max((width for width in widths if width <= _CODE), default=0)
    yield f"{name} {{"
    for line in lines:
        yield f"  {line.code:<{column}}  // {line.comment}" if line.comment else f"  {line.code}"
    yield "}"


@dataclass(frozen=True)
class _Writer:
    """What a program is written from; each method gives the lines of a block."""

    family: Family
    design: Design
    groups: Mapping[str, Groups]
    priors: Mapping[str, str]

    @property
    def beside(self) -> Additions:
        return self.design.outcome.beside

    @property
    def centred(self) -> bool:
        """Whether predictors are centred, for the sake of an intercept."""
        return self.design.intercept or self.family.ordinal

    @property
    def predictors(self) -> str:
        """The name of the matrix of predictors."""
        return "Xc" if self.centred else "X"

    def functions(self) -> Iterable[_Line]:
        text = self.family.function if self.beside.censored is None else self.censored()
        return map(_Line, text.splitlines())

    def censored(self) -> str:
        """The log density of an outcome that may be known by limits."""
        family = self.family
        name, arguments = family.of_row()
        below, above = family.tail("below"), family.tail("above")
        others = "".join(f", real {name}" for name in family.parameters)
        upper = left = last = ""
        if self.beside.upper is not None:
            upper, left = "real rcens, ", "if (cens == -1) "
            last = f"""
  if ({below} < log(0.5))  // the tail in which digits are left
    return log_diff_exp({family.tail("below", "rcens")},
                        {below});
  return log_diff_exp({above},
                      {family.tail("above", "rcens")});"""
        first = "" if family.tails is None else family.tails.function
        return f"""\
{first}real censored_lpdf(real y, int cens, {upper}real mu{others}) {{
  if (cens == 0) return {name}(y | {arguments.replace("[n]", "")});
  if (cens == 1) return {above};
  {left}return {below};{last}
}}"""

    def of_row(self) -> str:
        """The log density of row n, without its weight."""
        name, arguments = self.family.of_row()
        if self.beside.censored is not None:
            upper = "rcens[n], " if self.beside.upper is not None else ""
            name = "censored_lpdf"
            arguments = ", ".join([f"cens[n], {upper}mu[n]", *self.family.parameters])
        return f"{name}(Y[n] | {arguments})"

    def data(self) -> Iterable[_Line]:
        design, beside = self.design, self.beside
        yield _Line("int<lower=1> N;", "rows")
        if self.family.ordinal:
            yield _Line("int<lower=2> C;", "categories")
        yield _Line(f"{self.family.outcome};", design.outcome.name)
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
            each = "each less its mean" if self.centred else ""
            yield _Line(f"matrix[N, K] {self.predictors};", each)
            if self.centred:
                yield _Line("vector[K] means_X;", "these means")
        if design.offset is not None:
            yield _Line("vector[N] offsets;")
        for g, group in self.groups.items():
            yield _Line(f"int<lower=1> N_{g};", f"levels of {group.factor}")
            yield _Line(f"int<lower=1> M_{g};", f"effects: {', '.join(group.effects)}")
            yield _Line(f"array[N] int<lower=1, upper=N_{g}> J_{g};", "each row's level")
            for m, (effect, values) in enumerate(zip(group.effects, group.values, strict=True), 1):
                if values is not None:
                    yield _Line(f"vector[N] Z_{g}_{m};", effect)

    def parameters(self) -> Iterable[_Line]:
        if self.design.labels:
            yield _Line("vector[K] b;", "coefficients")
        if self.family.ordinal:
            yield _Line("ordered[C - 1] Intercept;", "thresholds, at the predictors' means")
        elif self.design.intercept:
            yield _Line("real Intercept;", "at the predictors' means")
        for name in self.family.parameters:
            yield _Line(f"{PARAMETERS[name].declared} {name};")
        for g, group in self.groups.items():
            yield _Line(f"vector<lower=0>[M_{g}] sd_{g};", f"between levels of {group.factor}")
            if group.correlated:
                yield _Line(f"cholesky_factor_corr[M_{g}] L_{g};", "of the effects' correlations")
            yield _Line(f"matrix[M_{g}, N_{g}] z_{g};", "standardised effects")

    def effects(self) -> Iterable[_Line]:
        for g, group in self.groups.items():
            scaled = f"diag_pre_multiply(sd_{g}, z_{g})"
            if group.correlated:
                scaled = f"(diag_pre_multiply(sd_{g}, L_{g}) * z_{g})"
            yield _Line(f"matrix[N_{g}, M_{g}] r_{g} = {scaled}';", "effects")

    def model(self) -> Iterable[_Line]:
        family, beside = self.family, self.beside
        by_rows = beside.weights is not None or beside.censored is not None or family.function
        primitive = family.primitive and self.design.labels and not by_rows
        if by_rows:
            weight = "" if beside.weights is None else "weights[n] * "
            likelihood = f"for (n in 1:N) target += {weight}{self.of_row()};"
        elif primitive:
            likelihood = f"Y ~ {family.of_predictors(self.predictors)};"
        else:
            likelihood = f"Y ~ {family.density};"
        yield from self.linear_predictor(whole=not primitive)
        yield from self.prior_lines()
        yield from (_Line(f"to_vector(z_{g}) ~ std_normal();") for g in self.groups)
        yield _Line(likelihood)

    def linear_predictor(self, *, whole: bool = True) -> Iterable[_Line]:
        """Declare ``mu``; unless it is `whole`, without predictors times coefficients."""
        for g, group in self.groups.items():
            for m in range(1, len(group.effects) + 1):
                yield _Line(f"vector[N_{g}] r_{g}_{m} = r_{g}[, {m}];")
        terms = ["Intercept"] if self.design.intercept and not self.family.ordinal else []
        if self.design.labels and whole:
            terms.append(f"{self.predictors} * b")
        if self.design.offset is not None:
            terms.append("offsets")
        for g, group in self.groups.items():
            for m, values in enumerate(group.values, 1):
                effect = f"r_{g}_{m}[J_{g}]"
                terms.append(effect if values is None else f"{effect} .* Z_{g}_{m}")
        if terms in ([], ["Intercept"]):  # no vector among them
            terms = [f"rep_vector({terms[0] if terms else 0}, N)"]
        lines = textwrap.wrap(" + ".join(terms), _WIDTH - 16, break_long_words=False)
        yield _Line("vector[N] mu = " + "\n                 ".join(lines) + ";")

    def prior_lines(self) -> Iterable[_Line]:
        own = {name for name in self.priors if name.startswith("b[")}
        for name, text in self.priors.items():
            if name == "b" and own:
                for k, label in enumerate(self.design.labels, 1):
                    text = self.priors.get(f"b[{label}]", self.priors["b"])
                    if text != FLAT:
                        yield _Line(f"b[{k}] ~ {text};", label)
            elif name not in own and text != FLAT:
                yield _Line(f"{name} ~ {text};")

    def generated_quantities(self) -> Iterable[_Line]:
        if self.design.labels and self.centred:
            kind, sign = ("vector[C - 1]", "+") if self.family.ordinal else ("real", "-")
            code = f"{kind} b_Intercept = Intercept {sign} dot_product(means_X, b);"
            yield _Line(code, "where predictors are zero")
        for g, group in self.groups.items():
            if group.correlated:
                product = f"multiply_lower_tri_self_transpose(L_{g})"
                yield _Line(f"corr_matrix[M_{g}] cor_{g} = {product};")
        if self.beside.weights is not None:
            yield _Line("vector[N] log_lik;", "without weights")
            yield _Line("{")
            for line in self.linear_predictor():
                yield _Line("  " + line.code.replace("\n", "\n  "))
            yield _Line(f"  for (n in 1:N) log_lik[n] = {self.of_row()};")
            yield _Line("}")
