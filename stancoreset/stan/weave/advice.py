"""What to write instead of what cannot be weighted row by row, for the end of a refusal."""

from __future__ import annotations

import re

from stancoreset.errors import WeaveError

__all__ = ["advised"]

# Reasons that say already what to write.
_ADVISED = re.compile(
    r"; (if|write|compute|declare|to weight|return|give|split|integrate|say)\b|: integrate it out"
    r"|pass obs=|say which with|must be added|make each|set \w+ to 0|Alternatively"
)
_TO_WRITE = (
    (
        r"`(\w+)` keeps a value of the previous observation",
        r"if each row has a state of its own, declare `\1` inside the loop over rows and set it "
        r"there before it is read; if there are many series, make each series one row",
    ),
    (
        "neighbouring observation",
        "if there are many such series, make each series one row; what comes before can also be "
        "data of the row, `vector[N] y_before;`",
    ),
    (
        "uses only part of the observations|picks observations by",
        "loop over all rows, `for (n in 1:N)`, and let data of the row decide what it adds, "
        "`if (chosen[n] == 1)`; rows that must stand together are one row",
    ),
    (
        "is the number of a row",
        "declare what is computed from the number as data of the row, `vector[N] time;`",
    ),
    (
        "every pair|pairs each observation|with every other",
        "if pairs are the data, declare them in long form, one row for each pair",
    ),
    (
        "Gaussian process",
        "write the process with basis functions, whose coefficients are parameters (brms: "
        "`gp(x, k = 20, c = 1.5)`), or at places that many rows share, `f[place[n]]`",
    ),
    ("one ODE is solved", "solve it for each row, inside the loop over rows"),
    (
        "joint density of the whole outcome",
        "if rows are correlated within groups, make each group one row with a density of its own, "
        "`for (j in 1:J) y[j] ~ multi_normal(mu[j], S);`",
    ),
    (
        "not simply added to the log density",
        "add every sum over rows to the target by itself, `target += …;`; a number of data alone "
        "can be computed in transformed data",
    ),
    (
        "on all observations at once|order of the observations|sums over observations",
        "what is computed from data alone can be computed once, in transformed data; a row's term "
        "may depend on parameters and on data of that row only",
    ),
    ("holds what the last pass", "use it inside the loop, for each row"),
    (
        "ends early",
        "leave the break out, and skip rows by a condition on their own data, `if (use[n] == 1)`",
    ),
    (
        "runs over part of the observations",
        "loop over all rows, `for (n in 1:N)`; a prior needs a size of its own, not one computed "
        "from the number of rows",
    ),
    (
        "but is not computed from data rows",
        "give the parameter an entry for each group, and pick the row's by data, `theta[g[n]]`",
    ),
    ("as an integer", "declare it as real"),
    ("returns from inside the loop", "return once, at the end of the function"),
    ("in one case", "write the cases as statements of their own, in the model block"),
    ("reads target", "add the terms up in a variable of your own"),
    ("rejected by a condition on all", "write the condition as a bound of the parameter"),
)
_OTHERWISE = (
    "write the likelihood as a loop over the rows, `for (n in 1:N)`, in which row n reads only its "
    "own data"
)


def advised(error: WeaveError) -> WeaveError:
    """The refusal with what to write instead at its end, where it does not say so already."""
    if _ADVISED.search(error.reason):
        return error
    advice = _OTHERWISE
    for pattern, text in _TO_WRITE:
        found = re.search(pattern, error.reason)
        if found is not None:
            advice = found.expand(text)
            break
    return WeaveError(error.line, f"{error.reason}; {advice}", error.statement)
