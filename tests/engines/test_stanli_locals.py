"""Local variables of transformed data are not the numbers of other blocks' loops."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("stanli")
pytest.importorskip("bridgestan")

from stancoreset.engines.stanli import StanliEngine

LOCALS = (
    "{ int k = 2; }",
    "{ int k; k = 2; }",
    "for (i in 1:2) { int k = 2; }",
    "{ real k = 2; }",
    "{ array[2] int k = {2, 2}; }",
    "if (s[1] > 0) { for (k in 1:2) { real z = k; } int k = 2; }",
)
LOOPS = {
    "for (k in 1:2) target += s[k] * a;": lambda s, e, m: sum(s),
    "{ vector[4] l = rep_vector(0, 4); for (k in 1:2) l[at[s[k]:e[k]]] = m[s[k]:e[k]] * a;"
    " target += dot_product(l, m); }": lambda s, e, m: m @ m,
    "for (k in 1:2) { int j = 0; while (j < k) { j += 1; target += a * j * s[k]; } }": (
        lambda s, e, m: s[0] + 3 * s[1]
    ),
}


@pytest.mark.parametrize("local", LOCALS)
@pytest.mark.parametrize("loop", LOOPS)
def test_loops_count_their_own_numbers(local, loop):
    code = (
        "data { array[2] int s; array[2] int e; vector[4] m; array[4] int at; }"
        f"transformed data {{ {local} }} parameters {{ real a; }} model {{ {loop} }}"
        "generated quantities { real q = 0; for (k in 1:2) q += s[k] * a; }"
    )
    data = {"s": [1, 3], "e": [2, 4], "m": np.arange(1.0, 5.0), "at": [1, 2, 3, 4]}
    with StanliEngine(threads=1).compile(code).bind(data) as bound:
        value, slope = bound.log_density_gradient(np.full((1, 1), 0.5))
        assert slope[0, 0] == LOOPS[loop](data["s"], data["e"], data["m"])
        assert value[0] == 0.5 * slope[0, 0]
        assert bound.generated(np.full((1, 1), 0.5), ("q",))["q"][0] == 2.0
