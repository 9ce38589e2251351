"""The program, data and labels that a formula makes, and what is refused."""

from __future__ import annotations

import builtins
import json
import re
import sys
import warnings

import formulae
import numpy as np
import pandas as pd
import pytest
from formulas.tables import OUTCOMES, simulated
from tiers import some

import stancoreset as sc
from stancoreset.errors import DataError, OptionError, OutputError
from stancoreset.formulas.regressions import _identifier
from stancoreset.stan import StanProgram

FRAME = simulated()


def made(formula, frame=FRAME, **options):
    return sc.regression(formula, frame, engine="stanli", **options)


# The design ------------------------------------------------------------------------------


def predictor(regression, rng):
    """The linear predictor at random coefficients, by the program's formula, and these."""
    data = regression.data
    eta, drawn = np.zeros(data["N"]), {}
    if "K" in data:
        drawn["b"] = rng.normal(size=data["K"])
        raw = data["X"] if "X" in data else data["Xc"] + data["means_X"]
        eta += raw @ drawn["b"]
    for name in data:
        if name.startswith("J_"):
            g = name.removeprefix("J_")
            drawn[g] = rng.normal(size=(data[f"N_{g}"], data[f"M_{g}"]))
            for m in range(data[f"M_{g}"]):
                eta += drawn[g][data[name] - 1, m] * data.get(f"Z_{g}_{m + 1}", 1.0)
    return eta, drawn


RIGHT = [
    "x + f",
    "0 + f + x",
    "x * f + z",
    "f:x",
    "bs(x, df=5) + poly(z, 2)",
    "scale(x) + {x**2} + log(trials) + np.exp(z)",
    "T(f, 'b') + C(h)",
    "x + (1 | g)",
    "x + (x | g)",
    "z + (0 + x | g) + (1 | h)",
    "(0 + f | g)",
    "(f | g) + (1 | h:f)",
    "(1 | g/f)",
    "(1 | C(h))",
]


@pytest.mark.parametrize("right", RIGHT)
def test_the_predictor_is_that_of_the_dense_matrices_of_formulae(right):
    """Σ_g r_g[J] Z equals the product with formulae's matrix of all groups."""
    regression = made(f"student ~ {right}")
    eta, drawn = predictor(regression, np.random.default_rng(1))
    dense = formulae.design_matrices(f"student ~ {right}", FRAME, extra_namespace={"log": np.log})
    expected = np.zeros(len(FRAME))
    if "b" in drawn:
        common = np.column_stack(
            [dense.common[name] for name in dense.common.terms if name != "Intercept"]
        )
        np.testing.assert_array_equal(
            list(regression.coords["coefficient"]),
            [c for c in dense.common.as_dataframe().columns if c != "Intercept"],
        )
        expected += common @ drawn["b"]
    for term in dense.group.terms.values() if dense.group is not None else ():
        g = _identifier(term.factor.name)
        effects = regression.coords[f"{g}_effect"]
        labels = getattr(term.expr, "labels", ["Intercept"])
        levels = [str(level) for level in regression.coords[g]]
        block = dense.group[term.name].toarray().reshape(len(FRAME), len(term.groups), -1)
        own = [effects.index(label) for label in labels]
        for level, group in enumerate(term.groups):
            if group in levels:
                r = drawn[g][levels.index(group)][own]
                expected += block[:, level] @ r
            else:
                assert not block[:, level].any()  # a combination that no row has
    np.testing.assert_allclose(eta, expected, atol=1e-9)


@pytest.mark.parametrize(
    ("written", "same"),
    [
        ("f/x", "f + f:x"),
        ("f/C(h)", "f + f:C(h)"),
        ("f:C(h) + f", "f + f:C(h)"),
        ("C(h):f + C(h)", "C(h) + f:C(h)"),
    ],
)
def test_nested_and_reordered_terms_are_the_model_written_out(written, same):
    """formulae 0.9.0 names other columns of `f/x` than it makes, and stops at `f:C(h) + f`."""
    ours, theirs = made(f"student ~ {written}"), made(f"student ~ {same}")
    names = ours.coords["coefficient"]
    assert len(set(names)) == len(names) == ours.data["Xc"].shape[1]
    both = [np.column_stack([np.ones(len(FRAME)), one.data["Xc"]]) for one in (ours, theirs)]
    rank = np.linalg.matrix_rank(both[0])
    assert rank == np.linalg.matrix_rank(both[1]) == np.linalg.matrix_rank(np.hstack(both))
    assert {name for name in names if ":" not in name} == {
        name for name in theirs.coords["coefficient"] if ":" not in name
    }


@pytest.mark.parametrize("right", [*RIGHT, "offset(log(trials)) + x", "0 + offset(z) + f"])
def test_other_rows_are_coded_as_those_that_were_fitted(right):
    """Means, knots and levels are those of all rows, though the others have few of them."""
    regression = made(f"student ~ {right}")
    some = [5, 0, 77]
    found = regression.rows(FRAME.iloc[some].drop(columns="student"))
    for name, value in regression.data.items():
        if np.ndim(value) and len(value) == len(FRAME) and name != "Y":
            np.testing.assert_allclose(found[name], value[some], atol=1e-12, err_msg=name)
        elif name not in ("Y", "N"):
            np.testing.assert_array_equal(found[name], value, err_msg=name)
    assert found["N"] == 3
    assert "Y" not in found
    given = regression.rows(FRAME.iloc[some].to_dict("list"))["Y"]
    np.testing.assert_array_equal(given, regression.data["Y"][some])


@pytest.mark.parametrize(("family", "left"), OUTCOMES.items())
def test_other_rows_have_what_every_family_needs(family, left):
    regression = made(f"{left} ~ x + (1 | g)", family=family)
    rows = FRAME.iloc[:4] if family == "binomial" else FRAME.iloc[:4].drop(columns=family)
    found = regression.rows(rows)
    assert found.keys() >= regression.data.keys() - {"Y"}
    assert found.get("C") == regression.data.get("C")


def test_rows_of_a_table_are_scored():
    regression = made("bernoulli ~ x + f", family="bernoulli")
    draws = np.random.default_rng(0).normal(0, 0.3, (1, 300, 4))
    posterior = {"Intercept": draws[..., 0], "b": draws[..., 1:]}
    table = FRAME.iloc[:9]
    found = regression.model.information(regression.rows(table[["x", "f"]]), posterior)
    x = np.column_stack([np.ones(9), regression.data["Xc"][:9]])
    eta = x @ draws[0].T
    curvature = (np.exp(eta) / (1 + np.exp(eta)) ** 2).mean(axis=1)
    expected = 0.5 * np.log1p(curvature * np.sum(x @ np.cov(draws[0].T) * x, axis=1))
    np.testing.assert_allclose(found.gain, expected, rtol=0.02)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"g": "new"}, "factor 'g' has the level 'new', which is none of the 5"),
        ({"f": "d"}, r"cannot be coded .* levels \(d\) in 'f'"),
        ({"x": np.nan}, r"row 1 \(counting from 0\) of the table has no value of 'x'"),
        ({"x": None}, "no column 'x'"),
    ],
)
def test_other_rows_that_cannot_be_coded(change, words):
    regression = made("student ~ x + f + (1 | g)")
    table = FRAME.iloc[:3].drop(columns="student")
    ((name, value),) = change.items()
    if value is None:
        table = table.drop(columns=name)
    else:
        table.loc[table.index[1], name] = value
    with pytest.raises(DataError, match=words):
        regression.rows(table)
    with pytest.raises(DataError, match="no rows"):
        regression.rows(FRAME.iloc[:0])


def test_offsets_are_summed_and_kept_apart():
    regression = made("poisson ~ x + offset(z) + offset(log(trials))", family="poisson")
    np.testing.assert_allclose(regression.data["offsets"], FRAME.z + np.log(FRAME.trials))
    assert list(regression.coords["coefficient"]) == ["x"]


def test_predictors_are_centred_unless_there_is_no_intercept():
    centred, raw = made("gaussian ~ x").data, made("gaussian ~ 0 + x").data
    np.testing.assert_allclose(centred["Xc"].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(centred["Xc"][:, 0] + centred["means_X"], FRAME.x)
    np.testing.assert_array_equal(raw["X"][:, 0], FRAME.x)


# Outcomes --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["text", "category", "called", "number"])
def test_the_second_of_two_levels_is_one(kind):
    late = np.where(FRAME.bernoulli, "yes", "no")
    column = {
        "text": late,
        "category": pd.Categorical(late, ["yes", "no", "never"], ordered=True),
        "called": late,
        "number": FRAME.bernoulli.astype(float),
    }[kind]
    formula = "late['yes'] ~ x" if kind == "called" else "late ~ x"
    y = made(formula, FRAME.assign(late=column), family="bernoulli").data["Y"]
    expected = FRAME.bernoulli if kind != "category" else ~FRAME.bernoulli
    np.testing.assert_array_equal(y, expected.astype(int))


def test_ordered_outcomes_count_from_one_and_name_thresholds():
    levels = np.array(["low", "mid", "high", "top"])[FRAME.cumulative - 1]
    frame = FRAME.assign(level=pd.Categorical(levels, ["low", "mid", "high", "top"], ordered=True))
    named = made("level ~ x", frame, family="cumulative")
    np.testing.assert_array_equal(named.data["Y"], FRAME.cumulative)
    assert named.coords["threshold"] == ["low|mid", "mid|high", "high|top"]
    assert made("cumulative ~ x", family="cumulative").coords["threshold"] == ["1|2", "2|3", "3|4"]


def test_trials_are_a_column_or_a_number():
    one = made("prop(binomial, trials) ~ x", family="binomial").data
    two = made("p(binomial, 9) ~ x", family="binomial").data
    np.testing.assert_array_equal(one["trials"], FRAME.trials)
    np.testing.assert_array_equal(two["trials"], 9)
    np.testing.assert_array_equal(one["Y"], FRAME.binomial)


# The program -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "right"),
    some(
        [
            *((family, "x + (x | g) + (1 | h)") for family in OUTCOMES),
            *(("cumulative", right) for right in ("1", "0 + x + (x || g)")),
            *(("gaussian", right) for right in ("1", "0 + f", "0 + (1 | g) + offset(z)")),
        ],
        4,
    ),
)
def test_every_program_is_accepted_and_woven(family, right):
    regression = made(f"{OUTCOMES[family]} ~ {right}", family=family)
    with regression.model as model:
        checked = model.read(regression.data)
        assert model.program.n_obs(checked) == len(FRAME)
        assert {entry["role"] for entry in model._adopted.weaving} >= {"likelihood"}
        table = model.identities(regression.data, points=2)
    assert table["passed"].all()
    declared = {d.name for d in StanProgram.from_code(regression.program).data}
    assert declared == set(regression.data)


def test_the_program_reads_as_a_person_would_write_it():
    program = made("bernoulli ~ x + (1 | g)", family="bernoulli").program
    assert program.startswith("// bernoulli ~ x + (1 | g)\n// Bernoulli regression, logit link;")
    for line in (
        "  vector[N] mu = Intercept + r_g_1[J_g];",
        "  sd_g ~ student_t(3, 0, 2.5);",
        "  Y ~ bernoulli_logit_glm(Xc, mu, b);",
        "  real b_Intercept = Intercept - dot_product(means_X, b);  // where predictors are zero",
    ):
        assert line in program.splitlines()
    assert max(map(len, program.splitlines())) <= 100


@pytest.mark.parametrize(
    ("formula", "family", "wanted"),
    [
        ("poisson ~ x + (1 | g)", "poisson", "Y ~ poisson_log_glm(Xc, mu, b);"),
        ("negbinomial ~ 0 + x", "negbinomial", "Y ~ neg_binomial_2_log_glm(X, mu, b, shape);"),
        ("poisson ~ 1 + (1 | g)", "poisson", "Y ~ poisson_log(mu);"),
        ("gaussian ~ x", "gaussian", "Y ~ normal(mu, sigma);"),
        ("bernoulli | weights(w) ~ x", "bernoulli", "bernoulli_logit_lpmf(Y[n] | mu[n]);"),
    ],
)
def test_predictors_and_coefficients_are_multiplied_once(formula, family, wanted):
    program = made(formula, FRAME.assign(w=1.0), family=family).program
    assert wanted in program
    assert "mu, b" not in program or " * b" not in program


def test_a_long_predictor_is_broken():
    groups = " + ".join(f"(x | {factor})" for factor in ("g", "h", "f", "g:h", "g:f", "h:f"))
    program = made(f"gaussian ~ x + {groups}").program
    assert max(map(len, program.splitlines())) <= 100
    StanProgram.from_code(program)


def test_names_in_the_program_are_different():
    """A group is called as the effects of another would be, or as a parameter."""
    frame = FRAME.rename(columns={"f": "g_1", "h": "b"})
    regression = made("gaussian ~ x + (1 | g) + (0 + x | g) + (1 | g_1) + (1 | b)", frame)
    names = re.findall(r"(?m)^  [^/=~]*?\b(\w+)(?: =[^;]*)?;", regression.program)
    assert len(names) == len(set(names))
    assert regression.dims["r_b"] == ["b_level", "b_effect"]
    assert regression.dims["r_g_x"] == ["g_x", "g_x_effect"]


def test_correlated_effects_and_those_that_are_not():
    together = made("gaussian ~ (x | g)").program
    assert "cholesky_factor_corr[M_g] L_g;" in together
    for formula in ("gaussian ~ (x || g)", "gaussian ~ (1 | g) + (0 + x | g)"):
        assert "cholesky" not in made(formula).program


# Priors ----------------------------------------------------------------------------------


def test_default_priors_are_those_of_brms():
    """Numbers of brms 2.18.0 on this table: ``get_prior`` (see test_brms_witness.py)."""
    student = made("gaussian ~ x + (x | g)")
    mad = 1.4826 * np.median(np.abs(FRAME.gaussian - FRAME.gaussian.median()))
    scale = f"{max(2.5, round(mad, 1)):g}"
    assert student.priors == {
        "b": "flat",
        "Intercept": f"student_t(3, {round(FRAME.gaussian.median(), 1):g}, {scale})",
        "sigma": f"student_t(3, 0, {scale})",
        "sd_g": f"student_t(3, 0, {scale})",
        "L_g": "lkj_corr_cholesky(1)",
    }
    assert made("bernoulli ~ x", family="bernoulli").priors["Intercept"] == "student_t(3, 0, 2.5)"
    assert made("student ~ x", family="student").priors["nu"] == "gamma(2, 0.1)"


def test_priors_may_be_given():
    priors = {"b[x]": "normal(0, 1)", "sd": "exponential(1)", "sd_h": "exponential(9)", "b": "flat"}
    regression = made(
        "gaussian ~ x + f + (x | g) + (1 | h)", priors=priors | {"L_g": "lkj_corr_cholesky(2)"}
    )
    lines = [line.split("//")[0].strip() for line in regression.program.splitlines()]
    assert "b[1] ~ normal(0, 1);" in lines
    assert "sd_g ~ exponential(1);" in lines
    assert "sd_h ~ exponential(9);" in lines
    assert "L_g ~ lkj_corr_cholesky(2);" in lines
    assert not any(line.startswith(("b ~", "b[2] ~")) for line in lines)
    every = made("gaussian ~ x + f", priors={"b": "normal(0, 1)", "b[x]": "flat"}).program
    assert "b[2] ~ normal(0, 1);" in every
    assert "b[1]" not in every


@pytest.mark.parametrize(
    ("priors", "words"),
    [
        ({"sgima": "exponential(1)"}, "no parameter 'sgima'; did you mean 'sigma'"),
        ({"b[y]": "normal(0, 1)"}, "no parameter"),
        ({"L": "lkj_corr_cholesky(2)"}, "no parameter 'L'"),
        ({"b": "normal(0, 1); reject()"}, "Stan's syntax"),
        ({"sigma": "flat"}, "allowed for coefficients b only"),
        ({"b": 1.0}, "expected a distribution"),
        ([("b", "normal(0, 1)")], "expected a dict"),
    ],
)
def test_priors_of_nothing_are_refused(priors, words):
    with pytest.raises(OptionError, match=re.escape(words)):
        made("gaussian ~ x", priors=priors)


# Tables ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["csv", "json", "parquet", "folder", "arrow", "dict"])
def test_a_file_makes_the_same_regression(kind, tmp_path):
    """Only the columns of the formula are read."""
    path = tmp_path / f"table.{kind if kind in ('csv', 'json') else 'parquet'}"
    frame = FRAME.assign(unused=1)
    if kind == "csv":
        FRAME.to_csv(path, index=False)
    elif kind == "json":
        path.write_text(json.dumps({"N": len(FRAME), **FRAME.to_dict("list")}))
    elif kind == "folder":
        path.mkdir()
        for part in range(2):
            FRAME[part * 60 : part * 60 + 60].to_parquet(path / f"{part}.parquet")
    else:
        FRAME.to_parquet(path)
    source = path
    if kind == "arrow":
        import pyarrow.parquet as pq

        source = pq.read_table(path)
    if kind == "dict":
        source = FRAME.to_dict("series")
    formula = "gaussian ~ x + f + (1 | g)"
    one, two = made(formula, source), made(formula, frame)
    assert one.program == two.program
    assert one.coords == two.coords
    for name, value in two.data.items():
        np.testing.assert_allclose(one.data[name], value, rtol=1e-12)


def test_columns_of_every_type_are_read():
    frame = pd.DataFrame(
        {
            "y": pd.array(FRAME.gaussian, dtype="Float64"),
            "flag": pd.array(FRAME.bernoulli, dtype="boolean"),
            "count": pd.array(FRAME.poisson, dtype="Int64"),
            "f": FRAME.f.astype("string"),
            "g": pd.Categorical(FRAME.g, ["v", "u", "w", "p", "q", "no row"]),
            "h": FRAME.h.astype(float),
        }
    )
    regression = made("y ~ flag + count + f + (1 | g) + (1 | h)", frame)
    assert regression.coords["coefficient"] == ["flag", "count", "f[b]", "f[c]"]
    assert regression.coords["g"] == ["p", "q", "u", "v", "w"]
    assert regression.coords["h"] == [2001, 2002, 2003, 2004]
    assert all(
        np.asarray(value).dtype in (np.int64, np.float64) for value in regression.data.values()
    )


def test_rows_with_missing_values_are_left_out_and_counted():
    frame = FRAME.astype({"f": object})
    frame.loc[3, "x"] = np.nan
    frame.loc[[3, 5], "f"] = None
    frame.loc[9, "z"] = np.nan  # no column of the formula
    with pytest.warns(UserWarning, match=r"2 of 120 rows have a missing value in 'f', 'x'") as seen:
        regression = made("gaussian ~ x + f", frame)
    assert seen[0].filename == __file__
    assert regression.data["N"] == 118
    assert regression.left_out == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        whole = made("gaussian ~ x + f", frame.dropna(subset=["x", "f"]))
    assert whole.program == regression.program
    np.testing.assert_array_equal(whole.data["Y"], FRAME.gaussian.drop([3, 5]))


def test_columns_of_a_dict_have_one_length():
    with pytest.raises(DataError, match="different lengths or shapes: x 2, y 3"):
        made("y ~ x", {"x": [1.0, 2.0], "y": [1.0, 2.0, 4.0]})


# Errors ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("formula", "family", "words"),
    [
        ("gaussian ~ nothere", "gaussian", "no column 'nothere'"),
        ("gausian ~ x", "gaussian", "did you mean 'gaussian'"),
        ("f ~ x", "bernoulli", "has 3 levels, a, b, c"),
        ("f['q'] ~ x", "bernoulli", "no level 'q'"),
        ("f ~ x", "gaussian", "has levels"),
        ("x ~ z", "bernoulli", "expected 0 and 1"),
        ("x ~ z", "poisson", "expected counts"),
        ("z ~ x", "gamma", "expected numbers above 0"),
        ("x ~ z", "beta", "between 0 and 1"),
        ("binomial ~ x", "binomial", "write binomial | trials(n), or prop(binomial, n)"),
        ("prop(binomial, trials) ~ x", "poisson", "only the families binomial"),
        ("one ~ x", "cumulative", "has one level"),
        ("x ~ z", "cumulative", "expected whole numbers"),
        ("gaussian ~ (1 | one)", "gaussian", "grouping factor 'one' has one level"),
        ("gaussian ~ (1 | row)", "gaussian", "a level for every row"),
        ("gaussian ~ one", "gaussian", "same value in every row"),
        ("gaussian ~ x + {2 * x} + z", "gaussian", "'x', 'I(2 * x)' are linear combinations"),
        ("gaussian ~ when", "gaussian", "column 'when' has the type datetime64"),
        ("gaussian ~ log(z)", "gaussian", "predictor 'log(z)' is nan"),
        ("gaussian ~ x + offset(log(z))", "gaussian", "the offset is nan"),
    ],
)
def test_data_errors_name_what_is_wrong(formula, family, words):
    when = pd.date_range("2013-01-01", periods=len(FRAME))
    frame = FRAME.assign(one=1, row=np.arange(len(FRAME)), when=when)
    with pytest.raises(DataError, match=re.escape(words)):
        made(formula, frame, family=family)


@pytest.mark.parametrize(
    ("formula", "words"),
    [
        ("gaussian ~ x +", "cannot be read"),
        ("gaussian ~ x)", "')' is not expected there"),
        ("gaussian ~ x | g", "put effects of groups in parentheses"),
        ("gaussian", "expected an outcome and ~"),
        ("gaussian ~ lgo(x)", "calls 'lgo', which is none of its functions"),
        ("gaussian ~ np.lgo(x)", "no attribute 'lgo'"),
        ("gaussian ~ (x - 1 | g)", "write (0 + x | g)"),
        ("gaussian ~ 3 + x", "the number 3 for a term"),
        ("gaussian ~ (1 | g) + (x | g)", "the effect Intercept of g twice"),
        ("gaussian ~ (offset(x) | g)", "contain an offset, which has no coefficient"),
        ("prop(poisson, 1) ~ x", "cannot be greater"),
        ("bernoulli ~ 0", "has no parameter"),
        ("", "expected a formula"),
        (3, "expected a formula"),
    ],
)
def test_formula_errors_quote_the_formula(formula, words, capsys):
    with pytest.raises(OptionError, match=re.escape(words)):
        made(formula, family="bernoulli" if str(formula).startswith("b") else "gaussian")
    assert capsys.readouterr().out == ""


def test_an_unknown_family_names_the_nearest():
    with pytest.raises(OptionError, match="did you mean 'poisson'"):
        made("poisson ~ x", family="poison")


def test_without_formulae_the_error_says_what_to_install(monkeypatch):
    for name in [*sys.modules]:
        if name.split(".")[0] == "formulae":
            monkeypatch.delitem(sys.modules, name)
    real = builtins.__import__

    def absent(name, *args, **kwargs):
        if name.split(".")[0] == "formulae":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", absent)
    monkeypatch.setitem(sys.modules, "formulae", None)
    with pytest.raises(DataError, match=r"pip install 'stancoreset\[formulas\]'"):
        made("gaussian ~ x")


# The value -------------------------------------------------------------------------------


def test_program_and_data_are_written(tmp_path):
    regression = made("gaussian ~ x + (1 | g)")
    program, data = regression.write(tmp_path / "folder")
    assert program.read_text() == regression.program
    read = json.loads(data.read_text())
    np.testing.assert_array_equal(read["Xc"], regression.data["Xc"])
    with pytest.raises(OutputError, match=r"model\.stan exists"):
        regression.write(tmp_path / "folder")
    assert regression.write(tmp_path / "folder", overwrite=True) == [program, data]


def test_a_card_holds_the_program():
    regression = made("bernoulli ~ x + (1 | g)", family="bernoulli")
    assert repr(regression) == "Regression('bernoulli ~ x + (1 | g)', family='bernoulli', rows=120)"
    html = regression._repr_html_()
    assert "Y ~ bernoulli_logit_glm(Xc, mu, b);" in html
    assert re.search(r"<td( [^>]*)?>120</td>", html)


def test_a_large_table_is_read_without_a_dense_matrix_of_groups():
    """200,000 rows in 20,000 groups: formulae's matrix would take 32 GB."""
    rng = np.random.default_rng(0)
    rows = 200_000
    frame = pd.DataFrame(
        {
            "y": rng.normal(size=rows),
            "x": rng.normal(size=rows),
            "g": rng.integers(0, 20_000, rows).astype(str),
        }
    )
    regression = made("y ~ x + (x | g)", frame)
    assert regression.data["N_g"] == 20_000
    level = np.array(regression.coords["g"])[regression.data["J_g"] - 1]
    np.testing.assert_array_equal(level, frame.g)


def test_the_scale_is_of_the_linked_outcome():
    """Zeros count as 0.1 under the log link; the mean offset is taken from the location."""
    regression = made("poisson ~ x + offset(z)", family="poisson")
    logs = np.log(np.where(FRAME.poisson == 0, 0.1, FRAME.poisson))
    location = float(regression.priors["Intercept"].split(", ")[1])
    assert location == pytest.approx(round(float(np.median(logs)), 1) - FRAME.z.mean())
