"""Full-data passes by one engine and NUTS by another: only where both agree, and it is said.

stanli itself stands for the chosen engine here, as if it were another process;
`test_cmdstan.py` has CmdStan.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from problems import NORMAL_CODE, normal_data
from seeds import reseeded

import stancoreset as sc
from stancoreset.engines.passes import TOLERANCE, agreement
from stancoreset.engines.stanli import StanliBound, StanliEngine
from stancoreset.errors import OptionError

N = 1_500
SHORT = {"size": 20, "chains": 2, "iter_warmup": 300, "iter_sampling": 300}


@dataclass(frozen=True)
class Elsewhere(StanliEngine):
    """stanli as an engine that does not evaluate in this process; `change` is what it misreads."""

    name: str = "elsewhere"
    capabilities = replace(StanliEngine.capabilities, in_process=False, compiles_at_once=False)
    change: tuple[str, str] = ("", "")

    @property
    def version(self) -> str:
        return "Elsewhere 1"

    def compile(self, code, **options):
        assert self.change[0] in code
        return super().compile(code.replace(*self.change), **options)


class Spelled(Elsewhere):
    """An engine that has a function of its own for what stanli lacks."""

    def compile(self, code, **options):
        helper = "functions { real mix(vector p, vector a) { return log_sum_exp(log(p) + a); } }\n"
        return super().compile(helper + code, **options)


@pytest.fixture
def sampled(monkeypatch) -> list[str]:
    """The programs that NUTS has run on."""
    found: list[str] = []
    sample = StanliBound.sample

    def recorded(bound, **options):
        found.append(bound._compiled.code)
        return sample(bound, **options)

    monkeypatch.setattr(StanliBound, "sample", recorded)
    return found


@pytest.mark.fit
def test_an_equal_engine_evaluates_and_the_chosen_one_samples(sampled):
    marked = ("exponential_lpdf", " exponential_lpdf")  # the same program, but told apart
    with sc.CoresetModel(stan_code=NORMAL_CODE, engine=Elsewhere(change=marked)) as model:
        fit = model.fit(normal_data(N), seed=reseeded(1), max_rounds=1, **SHORT)
        assert model._session.in_process
    y = normal_data(N)["y"]
    assert float(fit.posterior["posterior"]["mu"].mean()) == pytest.approx(y.mean(), abs=0.02)
    assert fit.passes["engines"].startswith("stanli")
    assert "equal to Elsewhere 1" in fit.markdown()
    assert len(sampled) == 1
    assert all(marked[1] in code for code in sampled)


# A prior that nobody would see, a likelihood, and rows' log likelihoods alone.
MISREAD = [
    ("normal_lpdf(mu | 0, 10)", "normal_lpdf(mu | 0, 9.99)"),
    ("weights[n] * normal_lpdf", "weights[n] * (1 + 1e-6) * normal_lpdf"),
    ("log_lik[n] = normal_lpdf(y[n] | mu", "log_lik[n] = normal_lpdf(y[n] | mu + 1e-6"),
]


@pytest.mark.parametrize("change", MISREAD)
def test_an_engine_that_differs_does_not_evaluate(change):
    engine = Elsewhere(change=change)
    with sc.CoresetModel(stan_code=NORMAL_CODE, engine=engine) as model:
        checked = model.read(normal_data(N))
        full = model._session.full_data(checked)
        assert not model._session.in_process
        said = full.passes.as_dict()["engines"]
        assert said.startswith("Elsewhere 1 alone; stanli")
        assert "differs from it by" in said


def test_what_stanli_cannot_run():
    """Its own refusal is the reason that the report gives."""
    code = """
data { int<lower=1> N; vector[N] y; }
parameters { real m; }
model {
  m ~ normal(0, 1);
  for (n in 1:N)
    target += log_mix([0.3, 0.7]', [normal_lpdf(y[n] | m, 1), normal_lpdf(y[n] | m, 2)]');
}
"""
    with sc.CoresetModel(stan_code=code, engine=Spelled(change=("log_mix(", "mix("))) as model:
        full = model._session.full_data(model.read(normal_data(N)))
        assert not model._session.in_process
    assert full.passes.engines.startswith("Elsewhere 1 alone, since stanli")
    assert "log_mix" in full.passes.engines


def test_passes_that_the_user_leaves_to_the_engine():
    with sc.CoresetModel(stan_code=NORMAL_CODE, engine=Elsewhere(), passes="engine") as model:
        full = model._session.full_data(model.read(normal_data(N)))
        assert not model._session.in_process
        assert "engines" not in full.passes.as_dict()
    with pytest.raises(OptionError, match="passes is 'stanli', expected one of 'auto', 'engine'"):
        sc.CoresetModel(stan_code=NORMAL_CODE, engine="stanli", passes="stanli")


def test_agreement_of_densities_gradients_and_names():
    engine = StanliEngine()
    plain = "parameters {{ real {0}; real<lower=0> s; }} model {{ {0} ~ normal({1}, s); s ~ {2}; }}"
    draws = np.random.default_rng(0).normal(size=(5, 2))

    def bound(name="m", mean="1", prior="lognormal(0, 1)"):
        return engine.compile(plain.format(name, mean, prior)).bind({})

    assert agreement(bound(), bound(prior="lognormal(0, 1); target += 7"), draws) < 1e-14
    assert agreement(bound(), bound(mean="1.0001"), draws) > 1e3 * TOLERANCE
    assert agreement(bound(), bound(name="k"), draws) == np.inf
    nowhere = bound(prior="lognormal(0, 1); if (s > 0) reject(s)")
    assert agreement(bound(), nowhere, draws) == np.inf
