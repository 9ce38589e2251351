"""Statistics of the outcomes inside ``log_lik``, with which it is no pointwise likelihood.

``y ~ normal(mu + mean(y), s)`` is woven with the mean of all outcomes as a number. The density is
that of the program, but leaving a row out would change the number: ``log_lik`` does not say what
the other rows say of this one. Statistics of covariates (centring) are no such thing, nor are
outcomes that are standardised and then modelled, nor numbers of levels (``max(y)``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from stancoreset.stan.syntax import assignments, declarations, derived, names_in, sources
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.library import density_of


def outcome_statistics(
    program: n.Program,
    frozen: Sequence[n.Decl],
    log_lik: Iterable[n.Stmt],
    rows: Collection[str],
) -> tuple[str, ...]:
    """Names of the frozen variables in ``log_lik`` that are computed from outcomes.

    Those of `frozen` that replace a part of an expression of the user's `program` have it as their
    value; `log_lik` is all that defines it in the woven program, and `rows` the data by row.
    """
    modelled = outcomes(program.model) & set(rows)
    body = list(program.transformed_data)
    known = {d.name for d in program.data}
    given = known & set(rows) & (modelled | _inputs(body, modelled))
    tainted = given | derived(body, given)
    used = _inputs(log_lik, {d.name for d in declarations(log_lik)})
    return tuple(
        d.name
        for d in frozen
        if d.name in used - modelled
        and d.type.base != "int"
        and (d.name in tainted or names_in(d.value) & tainted)
    )


def outcomes(where: n.Nodes) -> set[str]:
    """Names in the outcomes of the densities below a node, or below several."""
    return names_in(args[0] for x in n.walk(where) if (args := density_of(x)[1]))


def _inputs(statements: Iterable[n.Stmt], wanted: set[str]) -> set[str]:
    """All that the values of `wanted` are computed from, through other variables too."""
    return sources((pair for s in statements for pair in assignments(s)), wanted) - wanted
