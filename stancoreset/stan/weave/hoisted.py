"""Values of parameters alone, computed before the block of the likelihood.

    if (!prior_only) {                                     vector[K] r = scale .* z;
      vector[K] r = scale .* z;                            if (!prior_only) {
      target += normal_lpdf(y | X * r, sigma);               target += …;
    }                                                      }

brms computes the coefficients of a Gaussian process in the block of the likelihood. Rows see the
parameters through them, as they do through group effects, which brms declares for all to see.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from stancoreset.stan.syntax import assigned_names, bare, declarations, names_in
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.counts import without_rows
from stancoreset.stan.weave.draft import Draft


def with_values_hoisted(draft: Draft) -> Draft:
    """Declarations move out of ``if (!flag) {…}``, where all they need is there.

    Their values are computed from parameters and data without rows, and never change.
    """
    program = draft.program
    front = {d.name for d in (*program.parameters, *program.transformed_parameters)
             if isinstance(d, n.Decl)}  # fmt: skip
    free, fixed = without_rows(program), never_written(program)
    moved: list[n.Stmt] = []

    def moves(s: n.Stmt) -> bool:
        if not isinstance(s, n.Decl) or s.value is None or s.name not in fixed:
            return False
        used = names_in(s.value)
        if not (used & front and used <= front | free and names_in(s.size) <= free):
            return False
        front.add(s.name)
        moved.append(s)
        return True

    model: list[n.Stmt] = []
    for s in program.model:
        if isinstance(s, n.If) and _has_flag(s) and isinstance(s.yes, n.Block):
            kept = tuple(inner for inner in s.yes.body if not moves(inner))
            s = replace(s, yes=replace(s.yes, body=kept))
        model.append(s)
    return draft.of(replace(program, model=(*moved, *model)))


def never_written(program: n.Program) -> set[str]:
    """Names that one declaration in the model block has, and no assignment."""
    declared = Counter(d.name for d in declarations(program.model))
    written = assigned_names(program.model)
    return {name for name, times in declared.items() if times == 1} - written


def _has_flag(s: n.If) -> bool:
    """Whether the condition is ``!flag``, and nothing happens otherwise."""
    match bare(s.condition):
        case n.Unary(op="!", arg=arg):
            return isinstance(bare(arg), n.Var) and s.no is None
    return False
