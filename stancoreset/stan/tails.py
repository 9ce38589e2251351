"""Distribution functions that Stan evaluates as zero probability too near: where, and what holds.

Beyond such a point the log density of a row is minus infinity, at every value of the parameters
that is far enough from the row's limit: initial values among them.
"""

from __future__ import annotations

import re

from stancoreset.stan.syntax import without_comments

# Function or truncation → from where on it is minus infinity, and what holds.
_FAR = {
    r"normal_lccdf\s*\(": ("8.3 sds above the mean", "normal_lcdf(-y | -mu, sigma)"),
    r"normal\s*\([^;~]*?\)\s*T\s*\[[^,\]]+,\s*\]": (
        "8.3 sds above the mean",
        "target += normal_lpdf(y | mu, sigma) - normal_lcdf(-limit | -mu, sigma)",
    ),
    r"lognormal_lccdf\s*\(": ("38 sds above the mean", "normal_lcdf(-log(y) | -mu, sigma)"),
    r"logistic_lccdf\s*\(": ("37 scales above the mean", "logistic_lcdf(-y | -mu, sigma)"),
}


def advice_on_tails(code: str) -> str:
    """What to write in place of the program's first tail that ends too near; empty without one.

    >>> print(advice_on_tails("model { target += normal_lccdf(y | mu, s); }"))
    in CmdStan normal_lccdf (line 1) is minus infinity from 8.3 sds ...; write normal_lcdf(-y ...
    """
    text = without_comments(code)
    found = [
        (match.start(), match[0], *told)
        for pattern, told in _FAR.items()
        for match in re.finditer(rf"\b{pattern}", text)
    ]
    if not found:
        return ""
    start, written, where, holds = min(found)
    line, name = text.count("\n", 0, start) + 1, written.partition("(")[0].strip()
    what = name if name.endswith("lccdf") else f"{name}(…) T[…, ]"
    return f"in CmdStan {what} (line {line}) is minus infinity from {where} on; write {holds}"
