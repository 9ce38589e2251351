"""What to write instead of what cannot be weighted row by row, where several refusals say it."""

from __future__ import annotations

from stancoreset.stan.syntax import expression as text
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.syntax import statement as statement_text
from stancoreset.stan.weave.elements import outcome

__all__ = [
    "ALL_ROWS",
    "BY_GROUP",
    "FROM_DATA",
    "GROUP_BY_GROUP",
    "IN_A_LOOP",
    "LONG_FORM",
    "lagged",
]

#: Where nothing more is known.
IN_A_LOOP = (
    "write the likelihood as a loop over the rows, `for (n in 1:N)`, in which row n reads only its "
    "own data"
)
ALL_ROWS = (
    "loop over all rows, `for (n in 1:N)`, and let data of the row decide what it adds, "
    "`if (chosen[n] == 1)`; rows that must stand together are one row"
)
BY_GROUP = "give the parameter an entry for each group, and pick the row's by data, `theta[g[n]]`"
FROM_DATA = (
    "what is computed from data alone can be computed once, in transformed data; a row's term may "
    "depend on parameters and on data of that row only"
)
LONG_FORM = "if pairs are the data, declare them in long form, one row for each pair"
GROUP_BY_GROUP = (
    "brms' `unstr()` takes groups with the same times together where groups lack different times; "
    "write its body as one loop over the groups: `for (i in 1:size(nobs)) { array[nobs[i]] int "
    "own = Jtime[i, 1:nobs[i]]; lp += multi_normal_cholesky_lpdf(y[begin[i]:end[i]] | "
    "mu[begin[i]:end[i]], cholesky_decompose(Cov[own, own])); }`; each group is then a row"
)


def lagged(s: n.Stmt) -> str:
    """How to write ``y[2:T] ~ normal(a + b * y[1:(T - 1)], s)``, with what comes before as data.

    Empty for statements about other slices.
    """
    slice_ = outcome(s) if isinstance(s, n.Tilde | n.TargetAdd) else None
    if not (isinstance(slice_, n.Index) and isinstance(slice_.base, n.Var)):
        return ""
    y, own, others = slice_.base, slice_.indices, set[str]()

    def change(x: n.Node) -> n.Node | None:
        if not (isinstance(x, n.Index) and isinstance(x.base, n.Var)):
            return None
        if x.indices == own:
            return x.base
        if x.base.name == y.name:
            others.add(text(x))
            return n.Var(f"{y.name}_before", type=y.type)
        return None

    written = statement_text(n.transform(s, change))
    if len(others) != 1 or not isinstance(own[0], n.Between | n.From):
        return ""
    return (
        f"if each row's predecessor is known, declare it as data of the row, `{y.name}_before`, "
        f"leave out the row that has none, and write `{written}`"
    )
