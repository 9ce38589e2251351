"""What threads other than that which loaded stanli may ask of its own models: chains it starts.

stanli 0.24.0's models were seen to end the process there; not with the program here. What the guard
promises is that they are asked for nothing else, which a watch on them shows. Each test is a
process of its own, in which stanli is loaded first.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAD = """
import threading
import numpy as np
import stanli
import stancoreset as sc
from stancoreset.engines import resolve_engine

CODE = '''
data { int N; int J; array[N] int<lower=1, upper=J> g; matrix[N, 2] x; vector[N] y; }
parameters {
  array[J] vector[2] b; vector[2] m; vector<lower=0>[2] t; real<lower=0> s;
}
model {
  t ~ normal(0, 1); m ~ normal(0, 1); s ~ normal(0, 1);
  for (j in 1:J) b[j] ~ normal(m, t);
  for (n in 1:N) y[n] ~ normal(x[n] * b[g[n]], s);
}
'''

def data(rows):
    rng = np.random.default_rng(0)
    g = rng.integers(1, 6, rows)
    x = np.column_stack([np.ones(rows), rng.normal(size=rows)])
    y = (x * rng.normal(size=(5, 2))[g - 1]).sum(axis=1) + rng.normal(size=rows)
    return {"N": rows, "J": 5, "g": g, "x": x, "y": y}

def watch(name):
    own = getattr(stanli.Model, name)

    def watched(model, *args, **options):
        if threading.current_thread() is not threading.main_thread():
            assert name == "sample", f"{name} in another thread"
            assert min(options["chains"], options["parallel_chains"]) > 1, options
        return own(model, *args, **options)

    setattr(stanli.Model, name, watched)

for name in ("log_prob_grad", "optimize", "sample"):
    watch(name)
found = {}

def elsewhere(function):
    thread = threading.Thread(target=lambda: found.update(value=function()))
    thread.start()
    thread.join()
    return found.pop("value")

compiled = resolve_engine("stanli").compile(CODE)
few = data(50)
with compiled.bind(few) as bound:
    points = np.random.default_rng(1).normal(size=(3, bound.n_params)) / 10
"""
CASES = {
    "densities": """
mine = compiled.bind_density(few).log_density(points)
theirs = elsewhere(lambda: compiled.bind_density(few).log_density(points))
np.testing.assert_allclose(theirs - theirs[0], mine - mine[0], rtol=1e-9)
""",
    "chains": """
for chains in (1, 3):
    asked = dict(chains=chains, iter_warmup=50, iter_sampling=20, seed=1, parallel_chains=1)
    with compiled.bind(few) as bound:
        here = bound.sample(inits=points[0], **asked)
        there = elsewhere(lambda: bound.sample(inits=points[0], **asked))
    np.testing.assert_array_equal(here.unconstrained, there.unconstrained)
    np.testing.assert_array_equal(here.stats["energy"], there.stats["energy"])
    np.testing.assert_array_equal(here.inv_metric, there.inv_metric)
""",
    "pieces": """
from stancoreset.engines import stanli_pieces
stanli_pieces._MANY, stanli_pieces._AT_ONCE = 1, 200
asked = dict(chains=1, iter_warmup=50, iter_sampling=40, seed=1)
with compiled.bind(few) as bound:
    here = bound.sample(inits=points[:1], **asked)
    there = elsewhere(lambda: bound.sample(inits=points[:1], **asked))
np.testing.assert_array_equal(here.unconstrained, there.unconstrained)
""",
    "a fit": """
asked = dict(seed=1, size=5, chains=2, iter_sampling=200, max_rounds=1, show_progress=False)
with sc.CoresetModel(stan_code=CODE, engine="stanli") as model:
    fit = elsewhere(lambda: model.fit(data(2_000), **asked))
assert fit.certificate.n_draws
""",
    # The rows are cut for several threads: 50,000 are some 250,000 numbers.
    "large data": """
asked = dict(seed=1, size=5, chains=2, iter_sampling=200, max_rounds=1, show_progress=False)
with sc.CoresetModel(stan_code=CODE, engine="stanli", threads=2) as model:
    fit = model.fit(data(80_000), **asked)
assert fit.certificate.n_draws
""",
}


@pytest.mark.parametrize("case", CASES)
def test_other_threads_ask_for_chains_alone(case):
    code = HEAD + CASES[case] + "print('as expected')"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, "as expected\n"), ended.stderr[-2000:]


@pytest.mark.parametrize("case", ["densities", "chains"])
def test_the_watch_sees_what_the_guard_prevents(case):
    guard = "from stancoreset.engines import stanli, stanli_pieces as pieces\n"
    guard += "stanli.in_loading_thread = pieces.in_loading_thread = lambda: True\n"
    ended = subprocess.run(
        [sys.executable, "-c", HEAD + guard + CASES[case]],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert "in watched" in ended.stderr
