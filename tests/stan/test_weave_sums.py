"""Sums over rows in every linear form, held in variables and counted by N: random programs.

The grammar writes log densities that are linear in sums over rows: sums, products and quotients
with what all rows share, whole numbers among them, and variables that hold such sums, are scaled,
set anew and added in loops. Each must be woven, and hold all identities.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("stanli")
pytest.importorskip("bridgestan")

from weave_checks import identities
from weave_data import make_data

from stancoreset.stan.weave import weave

HEAD = """// data: {"N": 9, "K": 3}
data { int N; int K; vector[N] x; vector[N] y; }
parameters { real a; real b; real<lower=0> s; }
model {
  a ~ normal(0, 1); b ~ normal(0, 1); s ~ exponential(1);
"""
NUMBERS = st.sampled_from(["a", "b", "s", "2", "3", "0.5", "K", "(a * b)", "(K + s)", "exp(b)"])
DIVISORS = st.sampled_from(["2", "s", "0.5", "K", "exp(a)"])
COUNTS = st.sampled_from(["N * 1.0", "(N + 1) * s", "(2 - N) * (a / 3)", "-(N * 0.5 - K) / 2"])
SUMS = (
    "sum(square(y - a))",
    "normal_lpdf(y | a + b * x, s)",
    "dot_self(x - b)",
    "dot_product(y, x - a)",
    "cauchy_lpdf(x | b, 1)",
)
TERMS = st.sampled_from(["-square(y[n] - a)", "normal_lpdf(x[n] | b, s)", "x[n] * a"])


@st.composite
def sums(draw: Any, depth: int, held: tuple[str, ...]) -> str:
    """A sum over rows as an expression, which may read the variables that are `held`."""
    if not depth:
        return draw(st.sampled_from((*SUMS, *held, *held)))
    inner = sums(depth - 1, held)
    match draw(st.integers(0, 6)):
        case 0:
            return f"({draw(inner)} {draw(st.sampled_from('+-'))} {draw(inner)})"
        case 1:
            return f"(-{draw(inner)})"
        case 2:
            return f"({draw(NUMBERS)} * {draw(inner)})"
        case 3:
            return f"({draw(inner)} * {draw(NUMBERS)})"
        case 4:
            return f"({draw(inner)} / {draw(DIVISORS)})"
        case 5:
            return f"({draw(inner)} - {draw(NUMBERS)})"
    return f"({draw(COUNTS)} + {draw(inner)})"


@st.composite
def programs(draw: Any) -> str:
    body: list[str] = []
    held: tuple[str, ...] = ()
    for name in ("l", "m")[: draw(st.integers(0, 2))]:
        body.append(f"real {name} = {draw(st.sampled_from(['0', '1.5', 'a']) | sums(1, held))};")
        if draw(st.booleans()):
            when = draw(st.sampled_from(["", "if (y[n] > 0) "]))
            body.append(f"for (n in 1:N) {when}{name} += {draw(TERMS)};")
        if draw(st.booleans()):
            body.append(f"{name} {draw(st.sampled_from(['+=', '-=', '=']))} {draw(sums(1, held))};")
        if draw(st.booleans()):
            body.append(f"{name} {draw(st.sampled_from(['*=', '/=']))} {draw(NUMBERS)};")
        held = (*held, name)
        if draw(st.booleans()):
            body.append(f"for (q in 1:K) {{ {name} += q * {draw(sums(0, held))}; }}")
    body += [f"target += {draw(sums(3, held))};" for _ in range(draw(st.integers(1, 2)))]
    return HEAD + "\n".join(f"  {s}" for s in (*body, "y ~ normal(a, 1);")) + "\n}\n"


def assert_identities_hold(code: str, seed: int) -> None:
    woven = weave(code, "N")
    errors = identities(code, make_data(code, seed), woven=woven, count=2, seed=seed)
    assert max(errors.values()) < 1e-9, (errors, code)


@settings(max_examples=25)
@given(code=programs(), seed=st.integers(0, 2**16))
def test_sums_in_any_linear_form(code, seed):
    assert_identities_hold(code, seed)


@pytest.mark.slow
@settings(max_examples=400)
@given(code=programs(), seed=st.integers(0, 2**16))
def test_many_sums_in_any_linear_form(code, seed):
    assert_identities_hold(code, seed)


def test_a_prior_over_as_many_groups_as_the_data_have_is_woven():
    """``1:max(g)`` is known from the full data: a prior, repeated for no row."""
    code = """data { int N; array[N] int<lower=1, upper=3> g; vector[N] y; }
    parameters { vector[3] a; }
    model {
      for (j in 1:max(g)) a[j] ~ normal(0, 2);
      for (n in 1:N) y[n] ~ normal(a[g[n]], 1);
    }"""
    woven = weave(code)
    assert [entry.role for entry in woven.explanation] == ["prior", "likelihood"]
    rng = np.random.default_rng(0)
    data = {"N": 30, "g": rng.integers(1, 4, 30), "y": rng.normal(size=30)}
    assert max(identities(code, data, woven=woven).values()) < 1e-9
