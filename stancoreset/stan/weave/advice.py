"""What to write instead of what cannot be weighted row by row, where several refusals say it."""

from __future__ import annotations

__all__ = [
    "ALL_ROWS",
    "BY_GROUP",
    "FROM_DATA",
    "GROUP_BY_GROUP",
    "IN_A_LOOP",
    "LONG_FORM",
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
