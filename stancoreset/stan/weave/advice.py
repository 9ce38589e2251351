"""Advice for refusals: Stan code that can be weighted in place of code that cannot."""

from __future__ import annotations

from dataclasses import replace

from stancoreset.stan.syntax import bare
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.syntax import statement as statement_text
from stancoreset.stan.weave.library import density, density_of

#: Advice where nothing more is known.
IN_A_LOOP = (
    "write the likelihood as a loop over the rows, `for (n in 1:N)`, in which row n reads only its "
    "own data"
)
ALL_ROWS = (
    "loop over all rows, `for (n in 1:N)`, and let data of the row decide what it adds, "
    "`if (chosen[n] == 1)`; rows that must stand together are one row"
)
AS_DATA = "declare what is computed from the number as data of the row, `vector[N] time;`"
BY_GROUP = "give the parameter an entry for each group, and pick the row's by data, `theta[g[n]]`"
FROM_DATA = (
    "what is computed from data alone can be computed once, in transformed data; a row's term may "
    "depend on parameters and on data of that row only"
)
LONG_FORM = "if pairs are the data, declare them in long form, one row for each pair"
SUMS_ALONE = (
    "add every sum over rows to the target by itself, `target += …;`; a number of data alone can "
    "be computed in transformed data"
)
GROUP_BY_GROUP = (
    "brms' `unstr()` takes groups with the same times together where groups lack different times; "
    "write its body as one loop over the groups: `for (i in 1:size(nobs)) { array[nobs[i]] int "
    "own = Jtime[i, 1:nobs[i]]; lp += multi_normal_cholesky_lpdf(y[begin[i]:end[i]] | "
    "mu[begin[i]:end[i]], cholesky_decompose(Cov[own, own])); }`; each group is then a row"
)


def mixed_by_row(s: n.Stmt) -> str:
    """Advice to write a `log_mix` of all rows as a mixture for each; empty for other statements."""
    call = bare(s.value) if isinstance(s, n.TargetAdd) else None
    if not isinstance(call, n.Call) or call.name not in ("log_mix", "log_sum_exp"):
        return ""

    def change(e: n.Node) -> n.Node | None:
        known = density(density_of(e)[0])
        if not isinstance(e, n.Call) or known is None:
            return None
        row = n.integer("n")
        args = (
            n.entry(a if isinstance(a, n.Var) else n.Paren(a, type=a.type), row)
            if a.type.rank > known.rank(k) else a
            for k, a in enumerate(e.args)
        )  # fmt: skip
        return replace(e, args=tuple(args))

    written = statement_text(n.transform(s, change))
    return f"if each row has a component of its own, write `for (n in 1:N) {written}`"
