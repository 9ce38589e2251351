"""The way of a fit: few frames from `fit` to the solver, and draws and sizes that grow."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from agreement import CERTIFIED, assert_agree, independent, of_draws
from problems import (
    GROUPED_CODE,
    LOGISTIC_CODE,
    NORMAL_CODE,
    grouped_data,
    logistic_data,
    logistic_posterior,
    normal_data,
)
from seeds import reseeded
from tiers import some

import stancoreset as sc
from stancoreset.engines import inverse_metric
from stancoreset.engines import nuts as nuts_options
from stancoreset.engines.stanli import StanliBound
from stancoreset.errors import OptionError
from stancoreset.fit import Plan, by_group, selecting
from stancoreset.fit.projector import Projector
from stancoreset.fit.quadratic import prefers_series
from stancoreset.fit.rounds import Rounds
from stancoreset.fit.sampling import find_near, sample_coreset
from stancoreset.fit.selecting import select_projected
from stancoreset.fit.setup import Setup
from stancoreset.fit.sizes import (
    HELDOUT_DRAWS,
    draws_to_select,
    further_draws,
    initial_draws,
    sizes_to_try,
    worth_trying,
)
from stancoreset.fit.steps import Attempt, Pipeline
from stancoreset.policy import DEFAULT
from stancoreset.posterior.arviz import attrs_of
from stancoreset.program import containers
from stancoreset.program.likelihood_view import LikelihoodView
from stancoreset.program.sampling import run_nuts
from stancoreset.progress import Stages
from stancoreset.reference import Reference
from stancoreset.rows import Blocks
from stancoreset.runs.folder import RunFolder
from stancoreset.runs.round import (
    LONGER_CHAINS,
    SMALLER_STEPS,
    Change,
    Round,
)
from stancoreset.selection import QUADRATIC_ONLY, Coreset, Projection
from stancoreset.selection import coreset as coresets

pytestmark = pytest.mark.fit  # most of one

PACKAGE = str(Path(sc.__file__).parent)
DATA = logistic_data(1_000)


def frames_of_the_package() -> Iterator[str]:
    """Those that are being called, the innermost first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename.startswith(PACKAGE):
            yield f"{Path(frame.f_code.co_filename).stem}.{frame.f_code.co_name}"
        frame = frame.f_back


@pytest.mark.parametrize(
    "options",
    some(
        [
            {},
            {"size": 20, "method": "auto"},
            {"control_variate": False},
            {"size": 20, "projection": "fisher", "draws": 250},
        ],
        4,
    ),
)
def test_few_frames_lead_from_fit_to_the_solver(monkeypatch, options: dict[str, Any]):
    seen, solve = [], coresets.solve

    def counted(*args: Any, **kwargs: Any) -> Any:
        seen.append(["solve", *frames_of_the_package()])
        return solve(*args, **kwargs)

    monkeypatch.setattr(coresets, "solve", counted)
    with sc.CoresetModel(stan_code=NORMAL_CODE, engine="stanli") as model:
        short = {"chains": 2, "iter_warmup": 100, "iter_sampling": 100}
        model.fit(normal_data(400), seed=1, **short, **options)
    assert seen
    assert seen[0][-1] == "model.fit"
    assert max(map(len, seen)) <= 10, max(seen, key=len)


@pytest.mark.parametrize(
    ("program", "data", "most", "function"),
    [
        (GROUPED_CODE, partial(grouped_data, 12, 4_000), 15, "collapsed_reference"),
        (LOGISTIC_CODE, partial(logistic_data, 6_000), 17, "laplace"),
    ],
    ids=["collapsed", "laplace"],
)
def test_few_frames_lead_from_fit_to_the_engine(monkeypatch, program, data, most, function):
    """NUTS is called from six; most of the others are differences and climbs of a reference."""
    seen: dict[str, set[tuple[str, ...]]] = defaultdict(set)

    def watch(name: str) -> None:
        called = getattr(StanliBound, name)

        def counted(*args: Any, **kwargs: Any) -> Any:
            frames = tuple(frames_of_the_package())
            if "model.fit" in frames:
                seen[name].add(frames)
            return called(*args, **kwargs)

        monkeypatch.setattr(StanliBound, name, counted)

    for name in ("log_density", "log_density_gradient", "generated", "sample"):
        watch(name)
    with sc.CoresetModel(stan_code=program, engine="stanli") as model:
        given = data()
        given = given[0] if isinstance(given, tuple) else given
        model.fit(given, seed=1, chains=2, iter_sampling=200, max_rounds=1)
    assert max(map(len, seen["sample"])) <= 6
    every = set().union(*seen.values())
    assert any(frame.endswith(f".{function}") for frames in every for frame in frames)
    assert max(map(len, every)) <= most, max(every, key=len)


@pytest.fixture(scope="module")
def model() -> Iterator[sc.CoresetModel]:
    with sc.CoresetModel(sc.stan_model_path("logistic"), engine="stanli") as model:
        yield model


@pytest.fixture(scope="module")
def projection(model) -> Projection:
    return model.project(DATA, model.reference(DATA, draws=50), candidates=100, heldout=10)


@pytest.fixture
def climbed(model, projection, monkeypatch):
    """The coreset that comes of given errors by number of draws, and the numbers asked for."""

    def climb(
        errors: dict[int, tuple[float, float]], spare: Any = None, **options: Any
    ) -> tuple[Coreset, list[int]]:
        start, asked = next(iter(errors)), []

        def of_draws(count: int) -> Projection:
            return replace(projection, target=np.zeros(count))

        def first(*_: Any) -> Projection:
            return of_draws(start)

        def extended(_self: Any, before: Projection, draws: Any, _tick: Any) -> Projection:
            if spare is not None:
                used.extend(draws[:, 0].tolist())
            return of_draws(before.n_draws + len(draws))

        def select_size(_setup: Any, projection: Projection, _controlled: Any) -> Coreset:
            asked.append(projection.n_draws)
            return Coreset(np.array([0]), np.ones(1), 10, "pursuit", *errors[projection.n_draws])

        monkeypatch.setattr(Projector, "first", first)
        monkeypatch.setattr(Projector, "extended", extended)
        monkeypatch.setattr(selecting, "select_size", select_size)
        session, checked, folder = model._session, model.read(DATA), RunFolder(None, {})
        setup = Setup(session, checked, Plan.of(options), Stages(False), folder, {})
        reference, used = model.reference(DATA, draws=50), []
        if spare is not None:
            reference = replace(
                reference, draws=np.resize(reference.draws, (start, 4)), spare=spare
            )
            reference = replace(reference, log_likelihood=np.zeros(start))
        view = LikelihoodView(session, session.full_data(checked), reference)
        coreset = select_projected(setup, view, None)
        assert not set(used) & set(range(HELDOUT_DRAWS))  # those that measure errors
        assert len(used) == len(set(used))
        return coreset, asked

    return climb


@pytest.mark.parametrize(
    ("errors", "asked", "best"),
    [
        ({250: (0.1, 0.12)}, [250], 0.12),  # generalises at once
        ({250: (0.001, 0.009)}, [250], 0.009),  # small enough already
        ({250: (0.01, 0.4), 500: (0.05, 0.1), 1000: (0.07, 0.08)}, [250, 500, 1000], 0.08),
        ({250: (0.01, 0.4), 500: (0.02, 0.39)}, [250, 500], 0.39),  # stopped falling
        ({250: (0.01, 0.4), 500: (0.02, 0.6)}, [250, 500], 0.4),  # got worse: keep the first
    ],
)
def test_draws_double_while_it_helps(climbed, errors, asked, best):
    coreset, seen = climbed(errors)
    assert coreset.heldout_error == best
    assert seen == asked


def test_draws_have_a_bound(climbed):
    errors = {n: (0.0, 0.5 * 0.5**i) for i, n in enumerate((500, 1000, 2_000))}
    assert climbed(errors)[1] == [500, 1000, 2_000]
    assert initial_draws(10, DEFAULT) == 250
    assert initial_draws(200, DEFAULT) == 1_000
    assert initial_draws(200, DEFAULT, few=True) == 400
    assert initial_draws(10_000, DEFAULT) == 2_000
    assert [further_draws(n, DEFAULT) for n in (250, 1_000)] == [250, 1_000]
    assert [further_draws(n, DEFAULT, few=True) for n in (250, 1_000)] == [750, 1_000]


@pytest.mark.parametrize(
    ("gap", "norm", "available", "wanted"),
    [
        (0.142, 3.0, 1_000, 0),  # (1/0.98 − 1)^½ = 0.1429
        (0.142, 2.0, 1_000, 250),  # the log likelihood hardly varies more
        (0.144, 3.0, 1_000, 250),
        (0.3, 2.0, 1_000, 250),
        (0.31, 2.0, 1_000, 1_000),
        (9.0, 2.0, 0, 250),
    ],
)
def test_rows_are_selected_on_as_many_draws_as_what_is_left_takes(gap, norm, available, wanted):
    assert draws_to_select(gap, norm, available, DEFAULT) == wanted


def test_a_search_begins_with_few_draws_and_selects_on_more(tmp_path, monkeypatch):
    """Of a fit that selects rows, the reference has few; the user's number stays what it is."""
    selected, strict = [], sc.Policy(goal_efficiency=1 - 1e-9)
    first = Projector.first

    def counted(self, *args):
        made = first(self, *args)
        selected.append(made.n_draws)
        return made

    monkeypatch.setattr(Projector, "first", counted)
    with sc.CoresetModel(sc.stan_model_path("logistic"), engine="stanli", glm=False) as model:
        fit, asked = (
            model.fit(
                logistic_data(5_000), seed=reseeded(1), max_rounds=1, policy=strict, **options
            )
            for options in ({}, {"draws": 120})
        )
    assert selected == [250, 120]
    assert len(fit.reference.draws) == 100
    assert len(asked.reference.draws) == 120


@pytest.mark.parametrize(
    ("available", "asked"),
    [(0, [250]), (1, [250]), (2, [250, 252]), (250, [250, 500]), (700, [250, 500, 950])],
)
def test_draws_of_a_run_are_added_as_long_as_there_are_any(climbed, available, asked):
    """As those of a Gaussian, and only where the rows fit their own draws better than others."""
    rows = np.arange(HELDOUT_DRAWS + available, dtype=float)
    spare = np.column_stack([rows] * 4)
    falls = {n: (0.0, 0.5 * 0.5**i) for i, n in enumerate(asked)}
    assert climbed(falls, spare)[1] == asked
    assert climbed({250: (0.1, 0.12)}, spare)[1] == [250]


@pytest.mark.parametrize(
    ("values", "drawn", "used"),
    [(10_000, 250, 250), (6_040, 250, 151), (10, 250, 100), (10, 90, 0)],
)
def test_rows_of_groups_are_selected_on_as_many_draws_as_their_values_allow(
    monkeypatch, values, drawn, used
):
    """Of 40 rows; on fewer than a hundred draws none are."""
    seen: list[tuple[int, ...]] = []
    monkeypatch.setattr(by_group, "iter_log_lik_blocks", lambda *_: ())
    monkeypatch.setattr(
        by_group, "candidates_of", lambda _, draws, *__, most, seed: seen.append((len(draws), most))
    )
    monkeypatch.setattr(by_group, "select_on_draws", lambda *_, goal, size: None)
    blocks = Blocks(np.repeat(np.arange(4), 2))
    view: Any = SimpleNamespace(
        full=SimpleNamespace(n_obs=40, passes=SimpleNamespace(distinct=0)),
        reference=SimpleNamespace(
            draws=np.zeros((drawn, 8)), gaussian=SimpleNamespace(blocks=blocks)
        ),
        session=None,
    )
    expansion: Any = SimpleNamespace(expected=None, centre=np.zeros(8), scale=np.ones(8))
    selection = SimpleNamespace(projection=None)
    policy = sc.Policy(values_in_memory=values)
    plan: Any = SimpleNamespace(size="auto", selection=selection, seed=1, policy=policy)
    assert by_group.select_by_group(plan, {}, view, expansion) is None
    assert seen == ([(used, values)] if used else [])


@pytest.mark.parametrize(
    ("own", "parameters", "grouped", "series"),
    [(True, 200, True, True), (False, 200, True, False), (True, 100, False, False)],
)
def test_rounds_at_own_draws_select_rows_of_groups_by_their_series(
    own, parameters, grouped, series
):
    """They ask for a thousand draws, which are too few where 200 levels are shared."""
    plan = SimpleNamespace(
        selection=SimpleNamespace(projection=None, draws=1_000),
        options={},
        method="auto",
        policy=DEFAULT,
        count_candidates=lambda *_, **__: 1_000,
    )
    here: Any = SimpleNamespace(plan=plan, source="a coreset" if own else None)
    full: Any = SimpleNamespace(
        n_obs=1_000,
        n_params=parameters,
        blocks=Blocks(np.arange(parameters)) if grouped else None,
        passes=SimpleNamespace(stored=None),
    )
    session: Any = SimpleNamespace(no_series=lambda _: "")
    assert prefers_series(here, session, full) == series


def test_draws_that_are_given_stay_as_they_are(climbed):
    assert climbed({300: (0.01, 0.4)}, draws=300)[1] == [300]


def test_sizes_grow_by_half_up_to_half_the_draws(projection):
    def sizes(draws: int, rows: int = 10_000) -> list[int]:
        drawn = replace(projection, target=np.zeros(draws), n_obs=rows)
        return list(sizes_to_try("auto", drawn, DEFAULT))

    assert sizes(250) == [25, 38, 56, 84, 125]
    assert sizes(20) == [25]
    assert sizes(250, rows=30) == [25, 30]
    assert sizes(5_000)[-1] == 1_000
    assert list(sizes_to_try(7, projection, DEFAULT)) == [7]


@pytest.mark.parametrize(
    ("power", "left"),
    [
        (1.1, [84, 127, 500]),  # 2.0, 1.3 and 0.8 at 25, 38 and 56 rows, 0.07 at 500
        (0.85, [500]),  # 0.16 at 500
        (0.0, [500]),  # within the error's own noise
    ],
)
def test_sizes_that_the_trend_refuses_are_left_out(projection, power, left):
    """The largest is tried whatever it says, for errors often fall faster."""
    few = sc.select(projection, 5, "pursuit")
    size = projection.heldout_size

    def error(rows: int, at: float) -> sc.Coreset:
        return replace(few, indices=np.arange(rows), weights=np.ones(rows), heldout_error=at / size)

    tried = [error(k, 2.0 * (25 / k) ** power) for k in (25, 38, 56)]
    assert list(worth_trying([84, 127, 500], tried, projection, DEFAULT)) == left
    assert list(worth_trying([56, 500], tried[:2], projection, DEFAULT)) == [56, 500]
    assert list(worth_trying([500], [*tried, error(84, 0.099)], projection, DEFAULT)) == []
    assert list(worth_trying([500], [error(25, 2.0)] * 3, projection, DEFAULT)) == [500]
    assert list(worth_trying([], tried, projection, DEFAULT)) == []


def test_nothing_beyond_second_order_without_an_expansion(projection):
    with pytest.raises(OptionError, match=r"projection is 'taylor'.*no parameter of this program"):
        Projector("taylor", None, None, None, None, None)  # type: ignore[arg-type]


# NUTS' metric and warm-up --------------------------------------------------------------------


@pytest.fixture
def sampled(model, projection, monkeypatch):
    """What NUTS is asked for: options, metric and starting points, by reference and plan."""

    def ask(reference: Reference, **options: Any) -> tuple[sc.NUTS, np.ndarray | None, np.ndarray]:
        asked: dict[str, Any] = {}
        session, checked, folder = model._session, model.read(DATA), RunFolder(None, {})
        few = sc.select(projection, 20, "pursuit")
        bound = type(session.bind(checked, few))
        monkeypatch.setattr(bound, "sample", lambda _self, **given: asked.update(given))
        setup = Setup(session, checked, Plan.of(options), Stages(False), folder, {})
        sample_coreset(setup, reference, few)
        nuts = sc.NUTS(**{name: asked[name] for name in sc.NUTS.names()})
        return nuts, asked["inv_metric"], asked["inits"]

    return ask


def test_a_good_laplace_fit_gives_the_metric_the_starts_and_a_short_warmup(model, sampled):
    reference = model.reference(DATA, draws=50)
    assert np.std(reference.log_p - reference.log_q) < 0.5
    nuts, metric, starts = sampled(reference)
    assert (nuts.metric, nuts.iter_warmup, nuts.adapt_delta) == ("dense_e", 149, 0.98)
    whitened = np.linalg.solve(reference.gaussian.cov, metric)
    np.testing.assert_allclose(whitened, np.eye(4), atol=0.2)  # of 2,000 draws
    assert len(np.unique(starts, axis=0)) == 4
    assert all((reference.draws == start).all(axis=1).any() for start in starts)
    nuts, *_ = sampled(reference, iter_warmup=120, metric="diag_e", adapt_delta=0.7)
    assert (nuts.metric, nuts.iter_warmup, nuts.adapt_delta) == ("diag_e", 120, 0.7)


def test_chains_take_small_steps_where_those_of_the_reference_diverged(model, sampled):
    reference = replace(model.reference(DATA, draws=50), diverged=True)
    nuts, *_ = sampled(reference)
    assert (nuts.metric, nuts.iter_warmup, nuts.adapt_delta) == ("dense_e", 149, 0.999)
    for asked in ({"adapt_delta": 0.9}, {"iter_warmup": 1_000}, {"metric": "diag_e"}):
        nuts, *_ = sampled(reference, **asked)
        assert nuts.adapt_delta == asked.get("adapt_delta", 0.8)


@pytest.mark.parametrize(("step", "expected"), [(0.1, 0.8), (0.3, 0.98), (np.nan, 0.98)])
def test_chains_whose_steps_are_small_already_keep_stans_target(model, sampled, step, expected):
    reference = replace(model.reference(DATA, draws=50), step_size=step)
    nuts, *_ = sampled(reference)
    assert (nuts.metric, nuts.adapt_delta) == ("dense_e", expected)
    nuts, *_ = sampled(reference, adapt_delta=0.9)
    assert nuts.adapt_delta == 0.9


def test_a_fit_in_a_known_metric_is_the_posterior(model):
    fit = model.fit(DATA, size=20, seed=reseeded(3), max_rounds=1)
    about = attrs_of(fit.posterior)
    assert (about["metric"], about["iter_warmup"], about["adapt_delta"]) == ("dense_e", 149, 0.98)
    assert fit.certificate.verdict == "certified"
    assert_agree(of_draws(fit.posterior), logistic_posterior(DATA), within=CERTIFIED)


@pytest.mark.parametrize("asked", [None, "dense_e"])
def test_of_many_independent_parameters_a_metric_is_dense_only_if_asked(asked):
    """Means of 110 groups of two rows, independent Gaussians in closed form."""
    code = """data { int N; int K; vector[N] y; array[N] int g; } parameters { vector[K] m; }
    model { m ~ normal(0, 1); y ~ normal(m[g], 1); }"""
    rng = np.random.default_rng(4)
    data = {"N": 220, "K": 110, "y": rng.normal(size=220), "g": np.tile(np.arange(110), 2) + 1}
    near = data["y"].reshape(2, 110).sum(axis=0) / 3 + rng.normal(size=(800, 110)) / np.sqrt(3)
    nuts = sc.NUTS(metric=asked, iter_sampling=300, chains=2)
    with sc.CoresetModel(stan_code=code, engine="stanli") as own:
        found = run_nuts(own._session, own.read(data), None, nuts=nuts, seed=1, near=near)
    metric = found.inv_metric[0]
    if asked:
        np.testing.assert_allclose(metric, np.cov(near.T), atol=0.01)
    else:
        assert metric.shape == (110,)
    assert_agree(of_draws(found.variables), independent({"m": near}), within=0.1)


def test_a_poor_laplace_fit_gives_neither(model, sampled):
    good = model.reference(DATA, draws=50)
    poor = replace(good, log_q=good.log_q + np.linspace(-2, 2, 50))
    several = replace(good, elsewhere=good.draws + 9)
    for reference in (poor, several, replace(good, method="pathfinder", spare=good.draws)):
        nuts, metric, _ = sampled(reference)
        assert metric is None
        assert (nuts.metric, nuts.iter_warmup, nuts.adapt_delta) == ("diag_e", 1000, 0.8)


def test_draws_near_the_posterior_come_before_the_fit(model, sampled):
    good = model.reference(DATA, draws=50)
    near = np.random.default_rng(0).normal(size=(80, 4)) * [1.0, 2.0, 3.0, 4.0]
    settled = {"method": "settled", "draws": near[:50], "spare": near[50:], "log_q": None}
    reference = replace(good, **settled)
    nuts, metric, starts = sampled(reference)
    assert nuts.iter_warmup == 149
    np.testing.assert_array_equal(metric, inverse_metric(near))
    assert all((near == start).all(axis=1).any() for start in starts)


def test_draws_too_few_for_a_covariance_show_the_metric_by_their_gradients(
    model, projection, sampled
):
    near = np.random.default_rng(0).normal(size=(19, 4)) * [1.0, 2.0, 3.0, 4.0]
    settled = {"method": "settled", "draws": near[:12], "spare": near[12:], "log_q": None}
    _, metric, _ = sampled(replace(model.reference(DATA, draws=50), **settled))
    coreset = sc.select(projection, 20, "pursuit")
    with model._session.bind(model.read(DATA), coreset) as bound:
        gradients = bound.log_density_gradient(near)[1]
    np.testing.assert_array_equal(metric, inverse_metric(near, gradients))
    assert metric.shape == (4, 4)


@pytest.mark.parametrize(("largest", "delta"), [(4, 0.8), (3, 0.7)])
def test_steps_of_many_groups_are_larger_in_a_diagonal_metric_alone(
    model, sampled, monkeypatch, largest, delta
):
    monkeypatch.setattr(nuts_options, "DENSE_PARAMETERS", largest)
    good = model.reference(DATA, draws=50)
    grouped = replace(good.gaussian, blocks=Blocks(np.array([-1, 0, 1, 2])))
    settled = {"method": "settled", "spare": good.draws, "log_q": None, "gaussian": grouped}
    assert sampled(replace(good, **settled))[0].adapt_delta == delta
    assert sampled(replace(good, **settled), adapt_delta=0.9)[0].adapt_delta == 0.9


@pytest.mark.parametrize(
    ("rhat", "asked", "poor", "warmup"),
    [
        (1.01, {}, False, None),  # merely short: the metric is known
        (1.2, {}, False, 2000),
        (1.01, {}, True, 2000),
        (1.01, {"iter_warmup": 400}, False, 800),
        (1.2, {"iter_warmup": 400}, False, 800),
    ],
)
def test_longer_chains_warm_up_longer_unless_they_agree_and_know_their_metric(
    model, rhat, asked, poor, warmup
):
    good = model.reference(DATA, draws=50)
    reference = replace(good, log_q=good.log_q + np.linspace(-2, 2, 50)) if poor else good
    last = Round(0, "first pass", "laplace", 9, 50, 0.0, 0.1, 9.0, 9, 0, "rejected", 1.0, rhat=rhat)
    draws = {"m": np.zeros((4, 100))}
    attempt = Attempt(reference, None, draws, None, None, last)  # type: ignore[arg-type]
    session, checked, folder = model._session, model.read(DATA), RunFolder(None, {})
    rounds = Rounds(Pipeline(session, checked, Plan.of(asked), Stages(False), folder, {}))
    change = Change(LONGER_CHAINS, "laplace", {}, lengthened=2.0)
    nuts = rounds._plan(change, [attempt]).nuts
    assert (nuts.iter_warmup, nuts.iter_sampling) == (warmup, 2000)
    assert rounds._plan(Change("first pass", "laplace", {}), []).nuts == sc.NUTS(**asked)


@pytest.mark.parametrize(
    ("asked", "tried", "expected"),
    [
        ({}, False, [(None, 0.999), (1000, 0.998)]),  # a known metric is kept once
        ({}, True, [(1000, 0.998), (1000, 0.9998)]),  # chains had such steps before
        ({"adapt_delta": 0.9}, True, [(1000, 0.99), (1000, 0.999)]),  # these had not
        ({"adapt_delta": 0.9}, False, [(1000, 0.99), (1000, 0.999)]),
        ({"iter_warmup": 400}, False, [(400, 0.98), (400, 0.998)]),
    ],
)
def test_smaller_steps_keep_a_known_metric_before_they_look_for_one(model, asked, tried, expected):
    reference = replace(model.reference(DATA, draws=50), diverged=tried)
    record = Round(0, "first pass", "laplace", 9, 50, 0.0, 0.1, 9.0, 9, 0, "rejected", 1.0)
    session, checked, folder = model._session, model.read(DATA), RunFolder(None, {})
    rounds = Rounds(Pipeline(session, checked, Plan.of(asked), Stages(False), folder, {}))
    attempts, change = [], Change(SMALLER_STEPS, "laplace", {})
    for warmup, delta in expected:
        draws = {"m": np.zeros((4, 100))}
        done = Attempt(reference, None, draws, None, None, record)  # type: ignore[arg-type]
        attempts.append(done)
        nuts = rounds._plan(change, attempts).nuts
        assert nuts.iter_warmup == warmup
        assert nuts.adapt_delta == pytest.approx(delta)
        record = replace(record, action=SMALLER_STEPS)


@pytest.mark.parametrize(
    ("rhat", "ess", "own"), [(1.01, 500.0, True), (1.2, 500.0, False), (1.01, 9.0, False)]
)
def test_the_last_draws_of_the_same_rows_give_the_metric_if_they_show_it(model, rhat, ess, own):
    """A Laplace fit's Gaussian knows less: nothing of funnels and heavy tails."""
    reference, checked = model.reference(DATA, draws=50), model.read(DATA)
    points = np.random.default_rng(3).normal(size=(8, reference.draws.shape[1]))
    values = model._session.full_data(checked).prior.constrain(points)
    draws = {name: value.reshape(2, 4, *value.shape[1:]) for name, value in values.items()}
    record = Round(0, "first pass", "laplace", 9, 50, 0.0, 0.1, 9.0, 9, 0, "rejected", 1.0)
    record = replace(record, rhat=rhat, ess_bulk=ess)
    like = Attempt(reference, None, draws, None, None, record)  # type: ignore[arg-type]
    setup = Setup(model._session, checked, Plan.of({}), Stages(False), RunFolder(None, {}), {})
    near = find_near(setup, reference, like.known)
    if own:
        assert np.allclose(near, points)
    else:
        assert np.array_equal(near, find_near(setup, reference))


@pytest.mark.parametrize(
    ("options", "selected"),
    [({}, False), ({"size": 25}, True), ({"method": "giga"}, True)],
    ids=["worse", "size", "method"],
)
def test_the_quadratic_stands_alone_where_rows_leave_more(monkeypatch, options, selected):
    """Unless the user asks for a number of rows or a method."""
    select_size = selecting.select_size

    def badly(*given: Any) -> Coreset:
        return replace(select_size(*given), heldout_error=9.0, relative_error=9.0)

    monkeypatch.setattr(selecting, "select_size", badly)
    with sc.CoresetModel(sc.stan_model_path("logistic"), engine="stanli") as model:
        fit = model.fit(
            logistic_data(20_000),
            seed=reseeded(1),
            max_rounds=1,
            policy=sc.Policy(goal_efficiency=1 - 1e-9),
            **options,
        )
    assert (fit.coreset.method != QUADRATIC_ONLY) == selected
    if selected:
        assert np.all(fit.coreset.weights > 1)
        return
    assert fit.coreset.size == 25
    assert np.all(fit.coreset.weights == 1)
    assert fit.coreset.heldout_error < 0.1
    assert fit.certificate.verdict == "certified"


@pytest.mark.parametrize(
    ("goal", "options", "selected"),
    [
        (0.01, {}, False),
        (0.99999, {}, True),
        (0.01, {"size": 25}, True),
        (0.01, {"projection": "taylor"}, True),
        (0.01, {"draws": 250}, True),
        (0.01, {"method": "pursuit"}, False),
    ],
    ids=["little_left", "more_left", "size", "projection", "draws", "method"],
)
def test_no_row_is_selected_where_the_quadratic_leaves_nothing(
    monkeypatch, tmp_path, goal, options, selected
):
    """No log likelihood of any row is evaluated then, unless the user asks for a selection."""
    projected: list[str] = []
    first = Projector.first
    monkeypatch.setattr(
        Projector, "first", lambda self, *a: (projected.append(self.kind), first(self, *a))[1]
    )
    with sc.CoresetModel(sc.stan_model_path("logistic"), engine="stanli", glm=False) as model:
        fit = model.fit(
            logistic_data(20_000),
            seed=reseeded(1),
            max_rounds=1,
            output_dir=tmp_path / "run",
            policy={"goal_efficiency": goal},
            **options,
        )
    assert bool(projected) == selected
    report = (tmp_path / "run" / "report.md").read_text()
    assert ("No row was selected: these are random ones" in report) == (not selected)
    assert ("**certified**: quadratic only, beside 25 rows of 20,000" in report) == (not selected)
    title = sc.plots.plot_weights(fit.coreset).get_title()
    assert title.startswith("quadratic only, beside 25 rows of 20,000") == (not selected)
    assert fit.coreset.size == 25
    assert (fit.coreset.method == QUADRATIC_ONLY) == (not selected)
    assert repr(fit.coreset).startswith("Coreset(quadratic only, beside 25") == (not selected)
    assert 0 < fit.coreset.heldout_error < 0.1
    assert fit.certificate.verdict == "certified"


@pytest.mark.parametrize(("numbers", "shown"), [(2_000_000, 1_000), (100, 50)])
def test_a_reference_is_shown_with_the_draws_that_are_spare(monkeypatch, numbers, shown):
    """Rows are selected on some of them; of thousands of parameters they would fill the memory."""
    monkeypatch.setattr(containers, "BLOCK", numbers)
    with sc.CoresetModel(sc.stan_model_path("logistic"), engine="stanli") as model:
        points = model.reference(DATA, draws=1_000, seed=reseeded(1)).draws
        fit = model.fit(DATA, reference=points, draws=50, size=25, seed=reseeded(1), max_rounds=1)
    assert len(fit.reference.draws) == 50
    assert fit.laplace.posterior.sizes["chain"] * fit.laplace.posterior.sizes["draw"] == shown
