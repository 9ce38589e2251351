"""Log densities of rows of the written programs beside scipy's and closed forms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from formulas.tables import OUTCOMES, simulated
from scipy import stats
from scipy.special import expit

import stancoreset as sc
from stancoreset.engines import resolve_engine
from stancoreset.errors import DataError, OptionError
from stancoreset.formulas import FAMILIES as KNOWN
from stancoreset.posterior.arviz import group_of, posterior_container

FRAME = simulated(60).assign(w=np.arange(60) % 4, code=np.resize([0, 1, -1, 2], 60))
FRAME["upper"] = np.where(FRAME.code == 2, 3.0 + FRAME.weibull, np.nan)
DRAWS = 3


@dataclass
class Drawn:
    """Random parameters of a regression on x, and what the families make of them."""

    regression: sc.Regression
    parameters: dict
    eta: np.ndarray

    def __getattr__(self, name):
        return self.parameters[name][:, None]


def drawn(formula, family, frame=FRAME):
    rng = np.random.default_rng(3)
    made = sc.regression(formula, frame, family=family, engine="stanli")
    parameters = {"b": rng.normal(0, 0.3, (DRAWS, 1))}
    if family == "cumulative":
        parameters["Intercept"] = np.sort(rng.normal(size=(DRAWS, 3)), axis=1)
        eta = 0
    else:
        parameters["Intercept"] = rng.normal(0.2, 0.3, DRAWS)
        eta = parameters["Intercept"][:, None]
    for name in ("sigma", "nu", "shape", "phi"):
        if f" {name};" in made.program:
            parameters[name] = rng.gamma(8, 0.3, DRAWS) + (name == "nu")
    for name in ("zi", "hu"):
        if f" {name};" in made.program:
            parameters[name] = rng.uniform(0.1, 0.6, DRAWS)
    x = FRAME.x.to_numpy() - FRAME.x.mean()
    return Drawn(made, parameters, eta + parameters["b"] * x)


def by_stan(d, **options):
    """Log likelihoods of the rows, (draws, N)."""
    container = posterior_container({k: v[None] for k, v in d.parameters.items()})
    with d.regression.model as model:
        found = model.log_likelihood(d.regression.data, container, **options)
    return next(iter(group_of(found, "log_likelihood").data_vars.values())).to_numpy()[0]


def negative_binomial(d):
    return stats.nbinom(d.shape, d.shape / (d.shape + np.exp(d.eta)))


def weibull(d):
    from scipy.special import gamma

    return stats.weibull_min(d.shape, scale=np.exp(d.eta) / gamma(1 + 1 / d.shape))


def zero_inflated(d, base, y):
    return np.where(
        y == 0, np.log(d.zi + (1 - d.zi) * base.pmf(0)), np.log1p(-d.zi) + base.logpmf(y)
    )


def hurdle(d, base, y):
    above = np.log1p(-d.hu) + base.logpmf(y) - base.logsf(0)
    return np.where(y == 0, np.log(d.hu), above)


def ordered(d, y):
    """Differences of the logistic distribution function at thresholds."""
    cuts = np.pad(d.parameters["Intercept"], ((0, 0), (1, 1)), constant_values=np.nan)
    cuts[:, 0], cuts[:, -1] = -np.inf, np.inf
    return np.log(expit(cuts[:, y] - d.eta) - expit(cuts[:, y - 1] - d.eta))


def _p(d):
    return expit(d.eta)


TRIALS = FRAME.trials.to_numpy()
DENSITIES = {
    "gaussian": lambda d, y: stats.norm(d.eta, d.sigma).logpdf(y),
    "student": lambda d, y: stats.t(d.nu, d.eta, d.sigma).logpdf(y),
    "lognormal": lambda d, y: stats.lognorm(d.sigma, scale=np.exp(d.eta)).logpdf(y),
    "bernoulli": lambda d, y: stats.bernoulli(_p(d)).logpmf(y),
    "binomial": lambda d, y: stats.binom(TRIALS, _p(d)).logpmf(y),
    "beta_binomial": lambda d, y: stats.betabinom(
        TRIALS, d.phi * _p(d), d.phi * (1 - _p(d))
    ).logpmf(y),
    "poisson": lambda d, y: stats.poisson(np.exp(d.eta)).logpmf(y),
    "negbinomial": lambda d, y: negative_binomial(d).logpmf(y),
    "zero_inflated_poisson": lambda d, y: zero_inflated(d, stats.poisson(np.exp(d.eta)), y),
    "zero_inflated_negbinomial": lambda d, y: zero_inflated(d, negative_binomial(d), y),
    "hurdle_poisson": lambda d, y: hurdle(d, stats.poisson(np.exp(d.eta)), y),
    "hurdle_negbinomial": lambda d, y: hurdle(d, negative_binomial(d), y),
    "gamma": lambda d, y: stats.gamma(d.shape, scale=np.exp(d.eta) / d.shape).logpdf(y),
    "weibull": lambda d, y: weibull(d).logpdf(y),
    "exponential": lambda d, y: stats.expon(scale=np.exp(d.eta)).logpdf(y),
    "beta": lambda d, y: stats.beta(d.phi * _p(d), d.phi * (1 - _p(d))).logpdf(y),
    "cumulative": lambda d, y: ordered(d, y),
}


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("family", DENSITIES)
def test_the_density_of_a_row(family, weighted):
    """Of programs with weights too, whose log_lik has none."""
    assert DENSITIES.keys() == OUTCOMES.keys() == KNOWN.keys()
    left = OUTCOMES[family]
    if weighted:
        left += " + weights(w)" if "|" in left else " | weights(w)"
    d = drawn(f"{left} ~ x", family)
    y = FRAME[family].to_numpy()
    options = {"weights": "frequency"} if weighted else {}
    expected = np.repeat(DENSITIES[family](d, y), FRAME.w if weighted else 1, axis=1)
    np.testing.assert_allclose(by_stan(d, **options), expected, rtol=1e-9, atol=1e-9)


FAMILIES = {
    "gaussian": lambda d: stats.norm(d.eta, d.sigma),
    "student": lambda d: stats.t(d.nu, d.eta, d.sigma),
    "lognormal": lambda d: stats.lognorm(d.sigma, scale=np.exp(d.eta)),
    "gamma": lambda d: stats.gamma(d.shape, scale=np.exp(d.eta) / d.shape),
    "weibull": weibull,
    "exponential": lambda d: stats.expon(scale=np.exp(d.eta)),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_density_of_a_censored_row(family):
    """What is known is the probability of the tail, or of the interval."""
    d = drawn("weibull | cens(code, upper) ~ x", family)
    y, there = FRAME.weibull.to_numpy(), FAMILIES[family](d)
    upper = FRAME.upper.to_numpy()
    low = there.cdf(y) < 0.5
    between = np.where(low, there.cdf(upper) - there.cdf(y), there.sf(y) - there.sf(upper))
    expected = np.select(
        [FRAME.code == 1, FRAME.code == -1, FRAME.code == 2],
        [there.logsf(y), there.logcdf(y), np.log(between)],
        there.logpdf(y),
    )
    np.testing.assert_allclose(by_stan(d), expected, rtol=1e-7, atol=1e-9)


def tails(family, engine):
    """A program of the log probabilities of limits: below, above, in an interval."""
    d = sc.regression("weibull | cens(code, upper) ~ x", FRAME, family=family, engine="stanli")
    functions = d.program[d.program.index("functions") : d.program.index("data {")]
    moved = 1 + len(KNOWN[family].parameters)
    given = ", ".join(["mu", *(f"exp(p[{k}])" for k in range(2, moved + 1))])
    code = (
        f"{functions}data {{ int cens; real y; real rcens; }}\n"
        f"parameters {{ vector[{moved}] p; }}\n"
        f"model {{ real mu = p[1]; target += censored_lpdf(y | cens, rcens, {given}); }}"
    )
    return resolve_engine(engine, 1).compile(code, name="tails")


ENGINES = ["stanli", pytest.param("cmdstan", marks=[pytest.mark.cmdstan, pytest.mark.slow])]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("family", ["gaussian", "lognormal"])
def test_normal_tails_far_out(family, engine, request):
    """Where Stan's own upper tail is minus infinity from z = 8.3 on, log-normal tails from 38."""
    if engine == "cmdstan":
        request.getfixturevalue("cmdstan")
    made, sigma = tails(family, engine), 1.5
    of = np.exp if family == "lognormal" else np.asarray
    for z in (5.0, 8.0, 9.0, 20.0, 37.0, 40.0):
        y, upper = of(0.4 + sigma * z), of(0.4 + sigma * (z + 0.2))
        low, lower = of(0.4 - sigma * z), of(0.4 - sigma * (z + 0.2))
        tail, hazard = stats.norm.logsf(z), np.exp(stats.norm.logpdf(z) - stats.norm.logsf(z))
        between = tail + np.log(-np.expm1(stats.norm.logsf(z + 0.2) - tail))
        for cens, at, limit, value, sign in (
            (1, y, y, tail, 1),
            (-1, low, low, tail, -1),
            (2, y, upper, between, 0),
            (2, lower, low, between, 0),
        ):
            data = {"cens": cens, "y": float(at), "rcens": float(limit)}
            with made.bind(data) as bound:
                found, slope = bound.log_density_gradient(np.array([[0.4, np.log(sigma)]]))
            np.testing.assert_allclose(found, value, rtol=1e-9)
            assert np.isfinite(slope).all()
            if sign:
                by_hand = [sign * hazard / sigma, hazard * z]
                np.testing.assert_allclose(slope[0], by_hand, rtol=4e-5)


# By mpmath with 60 digits: degrees of freedom and z, log probability above z, and its derivative by
# the logarithm of the degrees of freedom.
STUDENT = [
    (1.0, 8.0, -3.22934483015542, -1.89746595223),
    (1.0, 1e6, -14.960240443814008, -13.6223633774),
    (3.0, 100.0, -13.71814706801528, -11.0889244198),
    (3.0, 1e6, -41.34880823485182, -38.7191716992),
    (30.0, 8.0, -19.581303156737295, -7.25162196994),
    (30.0, 1e4, -227.92012380993742, -210.783930571),
    (200.0, 8.0, -30.638906853610145, -3.640848475),
    (200.0, 100.0, -396.7421081557485, -295.63229466),
    (200.0, 1e4, -1315.8058839614055, -1212.73548676),
    (200.0, 1e6, -2236.8397221692226, -2133.76912499),
]


@pytest.mark.parametrize("engine", ENGINES)
def test_student_tails_far_out(engine, request):
    """Where Stan's own is off by 3e-5 at z = 8 and minus infinity at z = 1000 of 200 degrees."""
    if engine == "cmdstan":
        request.getfixturevalue("cmdstan")
    made = tails("student", engine)
    for nu, z, tail, by_nu in STUDENT:
        hazard = np.exp(stats.t.logpdf(z, nu) - tail)
        for cens, y, sign in ((1, z, 1), (-1, -z, -1)):
            data = {"cens": cens, "y": 1.5 * y, "rcens": 0.0}
            point = np.array([[0.0, np.log(1.5), np.log(nu)]])
            with made.bind(data) as bound:
                found, slope = bound.log_density_gradient(point)
            np.testing.assert_allclose(found, tail, rtol=1e-9)
            by_hand = [sign * hazard / 1.5, hazard * z, by_nu]
            np.testing.assert_allclose(slope[0], by_hand, rtol=1e-7)


@pytest.mark.parametrize("engine", ENGINES)
def test_student_tails_are_scipys(engine, request):
    """Above and below limits on both sides, and in intervals, where SciPy has digits."""
    if engine == "cmdstan":
        request.getfixturevalue("cmdstan")
    made = tails("student", engine)
    for nu in (1.0, 4.0, 60.0):
        there = stats.t(nu, 0.4, 1.5)
        for z in (-7.0, -1.2, -0.3, 0.0, 0.9, 1.1, 6.0):
            y, upper = 0.4 + 1.5 * z, 0.4 + 1.5 * (z + 0.5)
            within = [there.cdf(upper) - there.cdf(y), there.sf(y) - there.sf(upper)][z > 0]
            for cens, value in ((1, there.logsf(y)), (-1, there.logcdf(y)), (2, np.log(within))):
                point = np.array([[0.4, np.log(1.5), np.log(nu)]])
                with made.bind({"cens": cens, "y": y, "rcens": upper}) as bound:
                    found, slope = bound.log_density_gradient(point)
                    assert np.isfinite(slope).all()
                    step = np.diag([1e-4] * 3)
                    ahead, behind = (bound.log_density(point + s * step) for s in (1, -1))
                np.testing.assert_allclose(found, value, rtol=1e-9, atol=1e-13)
                np.testing.assert_allclose(slope[0], (ahead - behind) / 2e-4, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("engine", ENGINES)
def test_gamma_tails_have_the_derivatives_of_their_values(engine, request):
    """That of Stan's `gamma_lccdf` by the shape is 20 % off at a shape of 150, then no number."""
    if engine == "cmdstan":
        request.getfixturevalue("cmdstan")
    made, h = tails("gamma", engine), 1e-4 * np.array([-2.0, -1.0, 1.0, 2.0])
    for shape in (0.5, 5.0, 30.0, 150.0, 400.0):
        for z in (-1.0, 0.0, 1.0, 4.0):
            y = 1.0 + z / np.sqrt(shape)
            if y <= 0:
                continue
            with made.bind({"cens": 1, "y": y, "rcens": y}) as bound:
                found, slope = bound.log_density_gradient(np.array([[0.0, np.log(shape)]]))
            near = shape * np.exp(h)
            np.testing.assert_allclose(found, stats.gamma.logsf(y * shape, shape), rtol=1e-8)
            by_shape = np.array([1, -8, 8, -1]) @ stats.gamma.logsf(y * near, near) / 12e-4
            by_mean = y * shape * np.exp(stats.gamma.logpdf(y * shape, shape) - found[0])
            np.testing.assert_allclose(slope[0], [by_mean, by_shape], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    "codes",
    [
        np.array(["none", "right", "left"])[FRAME.code % 3],
        np.array([0.0, 1.0, -1.0])[FRAME.code % 3],
    ],
    ids=["text", "numbers"],
)
def test_censoring_without_intervals(codes):
    one = drawn("weibull | cens(c) ~ x", "weibull", FRAME.assign(c=codes))
    expected = np.array([0, 1, -1])[FRAME.code % 3]
    np.testing.assert_array_equal(one.regression.data["cens"], expected)
    assert "rcens" not in one.regression.program
    y, there = FRAME.weibull.to_numpy(), weibull(one)
    log_lik = [there.logsf(y), there.logcdf(y)]
    log_lik = np.select([expected == 1, expected == -1], log_lik, there.logpdf(y))
    np.testing.assert_allclose(by_stan(one), log_lik, rtol=1e-8, atol=1e-9)


def test_upper_limits_may_be_an_expression_and_lack_values():
    """Where the outcome is no interval; the columns of others may not."""
    one = drawn("weibull | cens(code, upper) ~ x", "weibull").regression
    two = drawn(
        "weibull | cens(code, 3 + width) ~ x", "weibull", FRAME.assign(width=FRAME.upper - 3)
    )
    np.testing.assert_allclose(one.data["rcens"], two.regression.data["rcens"])
    assert one.left_out == two.regression.left_out == 0
    assert np.all(one.data["rcens"][FRAME.code != 2] == 0)
    with pytest.warns(UserWarning, match="missing value in 'upper'"):
        made = sc.regression("weibull | cens(code, upper) ~ x + upper", FRAME, family="weibull")
    assert made.data["N"] == np.sum(FRAME.code == 2)


def test_flags_are_censored_on_the_right():
    made = sc.regression(
        "weibull | cens(late) ~ x", FRAME.assign(late=FRAME.code > 0), family="weibull"
    )
    np.testing.assert_array_equal(made.data["cens"], (FRAME.code > 0).astype(int))


def test_weights_are_those_of_rows_repeated():
    """The posterior density, and the default priors apart, which are of the table's rows."""
    priors = {"b": "normal(0, 1)", "Intercept": "normal(0, 1)"}
    both = []
    for formula, frame in (
        ("poisson | weights(w) ~ x + (1 | g)", FRAME),
        ("poisson ~ x + (1 | g)", FRAME.loc[np.repeat(FRAME.index, FRAME.w)]),
    ):
        made = sc.regression(formula, frame, family="poisson", priors=priors, engine="stanli")
        data = dict(made.data)
        if "weights" not in data:  # centred as the rows once
            data["Xc"] = data["Xc"] + data["means_X"] - FRAME.x.mean()
        with made.model as model:
            theta = np.random.default_rng(0).normal(0, 0.3, (4, 1 + 1 + 1 + 5))
            full = model._session.full_data(model.read(data))
            both.append(full.log_density(theta))
    np.testing.assert_allclose(both[0] - both[0][0], both[1] - both[1][0], rtol=1e-9)


def test_arguments_are_columns_numbers_or_expressions():
    one = sc.regression("beta_binomial | trials(9) ~ x", FRAME, family="beta_binomial").data
    np.testing.assert_array_equal(one["trials"], 9)
    two = sc.regression("gaussian | weights(w / 2 + np.abs(z)) ~ x", FRAME).data
    np.testing.assert_allclose(two["weights"], FRAME.w / 2 + np.abs(FRAME.z))
    three = sc.regression("gaussian|weights(`a b`) ~ x", FRAME.assign(**{"a b": FRAME.w})).data
    np.testing.assert_array_equal(three["weights"], FRAME.w)
    prop = sc.regression("prop(binomial, trials) | weights(w) ~ x", FRAME, family="binomial").data
    np.testing.assert_array_equal(prop["trials"], FRAME.trials)
    assert "weights" in prop


def test_other_rows_may_lack_what_stands_beside_the_outcome():
    made = sc.regression(
        "weibull | weights(w) + cens(code, upper) ~ x + (1 | g)", FRAME, family="weibull"
    )
    known = made.rows(FRAME.iloc[:8])
    for name in ("weights", "cens", "rcens", "Y"):
        np.testing.assert_array_equal(known[name], made.data[name][:8])
    unknown = made.rows(FRAME[["x", "g"]].iloc[:8])
    assert not {"Y", "weights"} & unknown.keys()
    assert np.all(unknown["cens"] == 0)
    some = made.rows(FRAME[["x", "g", "w"]].iloc[:8])
    np.testing.assert_array_equal(some["weights"], FRAME.w[:8])
    trials = sc.regression("binomial | trials(trials) ~ x", FRAME, family="binomial")
    assert trials.rows(FRAME[["x", "trials"]].iloc[:4])["trials"].shape == (4,)
    with pytest.raises(DataError, match="no column 'trials'"):
        trials.rows(FRAME[["x"]].iloc[:4])


@pytest.mark.parametrize(
    ("formula", "family", "words"),
    [
        ("gaussian | weights(z) ~ x", "gaussian", r"weights\(z\) is -.* finite numbers"),
        ("gaussian | weights(f) ~ x", "gaussian", "expected numbers"),
        ("gaussian | weights(none) ~ x", "gaussian", "0 in every row"),
        ("binomial | trials(z + 100) ~ x", "binomial", "whole numbers of trials"),
        ("binomial | trials(1) ~ x", "binomial", "no more successes than trials"),
        ("weibull | cens(f) ~ x", "weibull", "has 'a'; expected none, left, right or interval"),
        ("weibull | cens(code) ~ x", "weibull", r"expected their upper limits, cens\(c, upper\)"),
        ("weibull | cens(code, none) ~ x", "weibull", "expected a larger one"),
        ("weibull | cens(code, empty) ~ x", "weibull", "finite upper limits"),
        ("poisson | trials(9) ~ x", "poisson", "only the families binomial and beta_binomial"),
        ("gaussian | weights(nothere) ~ x", "gaussian", "no column 'nothere'"),
    ],
)
def test_what_stands_beside_the_outcome_is_checked(formula, family, words):
    with pytest.raises(DataError, match=words):
        sc.regression(formula, FRAME.assign(none=0, empty=np.nan), family=family)


@pytest.mark.parametrize(
    ("formula", "family", "words"),
    [
        (
            "poisson | cens(code) ~ x",
            "poisson",
            "cannot be censored; cens\\(\\) goes with gaussian",
        ),
        ("gaussian | w ~ x", "gaussian", "has 'w' beside its outcome; expected weights"),
        ("gaussian | weight(w) ~ x", "gaussian", "expected weights"),
        ("gaussian | weights(w, scale = TRUE) ~ x", "gaussian", "the option 'scale = TRUE'"),
        ("gaussian | weights() ~ x", "gaussian", r"weights takes 1 argument"),
        ("gaussian | weights(w) | cens(code) ~ x", "gaussian", r"join additions by \+"),
        ("gaussian | weights(w) + weights(w) ~ x", "gaussian", "has weights twice"),
        ("prop(binomial, 9) | trials(9) ~ x", "binomial", "number of trials twice"),
    ],
)
def test_what_stands_beside_the_outcome_is_read(formula, family, words):
    with pytest.raises(OptionError, match=words):
        sc.regression(formula, FRAME, family=family)


def test_weights_are_no_option_of_fit():
    with pytest.raises(OptionError, match=r"write them in the formula, 'y \| weights\(w\) ~ x'"):
        sc.regression("gaussian ~ x", FRAME).fit(weights=FRAME.w)


@pytest.mark.fit
def test_censored_and_weighted_rows_have_the_posterior_of_the_quadrature():
    """Exponential times: log p = Σ w (-d η - y e^-η), with d = 1 where y is known."""
    rng = np.random.default_rng(1)
    time, limit = rng.exponential(3.0, 4_000), rng.exponential(6.0, 4_000)
    frame = pd.DataFrame({"y": np.minimum(time, limit), "late": limit < time})
    frame["w"] = rng.integers(0, 4, 4_000)
    made = sc.regression("y | weights(w) + cens(late) ~ 1", frame, family="exponential")
    location, scale = map(float, made.priors["Intercept"][:-1].split(", ")[1:])
    eta = np.linspace(0.8, 1.4, 20_001)
    known, total = frame.w @ ~frame.late, frame.w @ frame.y
    log = stats.t.logpdf(eta, 3, location, scale) - known * eta - total * np.exp(-eta)
    p = np.exp(log - log.max()) / np.exp(log - log.max()).sum()
    mean = p @ eta
    sd = np.sqrt(p @ (eta - mean) ** 2)
    fit = made.fit(seed=1, show_progress=False)
    assert fit.certificate.verdict == "certified"
    found = fit.summary(["Intercept"]).iloc[0]
    assert found["mean"] == pytest.approx(mean, abs=0.1 * sd)
    assert found["sd"] == pytest.approx(sd, rel=0.08)
