"""Names of levels and columns reach the dimensions that the program gives them, and no others."""

from __future__ import annotations

import doctest

import numpy as np
import pandas as pd
import pytest
from seeds import reseeded
from tiers import some

import stancoreset as sc
from stancoreset.posterior import arviz
from stancoreset.rows.tables import LoadedRows, StoredRows
from stancoreset.stan import Labels, NamedData, Names, StanProgram, labels, labels_of

AIRPORTS = Names("origin", ("EWR", "JFK", "LGA"))
CARRIERS = Names("carrier", ("AA", "DL"))
COLUMNS = Names("X", ("hour", "wind"))
DATA = {"N": 4, "J": 3, "C": 2, "D": 2, "g": np.array([1, 2, 3, 1]), "c": np.array([1, 2, 1, 2])}
NAMES = {"g": AIRPORTS, "c": CARRIERS, "X": COLUMNS}
DECLARED = (
    "int N; int J; int C; int D; array[N] int g; array[N] int c; vector[N] y; matrix[N, D] X;"
)


def found(
    parameters: str,
    model: str,
    *,
    data: str = DECLARED,
    transformed: str = "",
    names: dict[str, Names] = NAMES,
) -> Labels:
    code = f"data {{ {data} }} transformed data {{ int two = 2; }} parameters {{ {parameters} }} "
    code += f"transformed parameters {{ {transformed} }} model {{ {model} }}"
    return labels_of(StanProgram.from_code(code), NamedData(DATA, names))


def test_an_axis_that_codes_index_has_their_levels():
    labels = found("vector[J] a;", "y ~ normal(a[g], 1);")
    assert labels == Labels({"origin": AIRPORTS.labels}, {"a": ("origin",)})
    assert found("vector[J] a;", "for (n in 1:N) y[n] ~ normal(a[g[n]], 1);") == labels
    by_name = "for (n in 1:N) { int j = g[n]; y[n] ~ normal(a[j], 1); }"
    assert found("vector[J] a;", by_name) == labels


def test_axes_of_the_same_size_are_named_alike():
    labels = found(
        "vector[J] z; real<lower=0> tau;",
        "y ~ normal(a[g], 1);",
        transformed="vector[J] a=tau*z;",
    )
    assert labels.dims == {"z": ("origin",), "a": ("origin",)}


def test_every_axis_of_a_matrix_and_of_an_array_of_vectors():
    each = "for (n in 1:N) y[n] ~ normal(m[c[n], g[n]] + b[g[n]][c[n]] + r[g[n], 1], 1);"
    labels = found("matrix[C, J] m; array[J] vector[C] b; matrix[J, 4] r;", each)
    assert labels.dims == {
        "m": ("carrier", "origin"),
        "b": ("origin", "carrier"),
        "r": ("origin", "r_dim_1"),
    }
    # of a selection of elements, the next index is along the same axis
    twice = "for (n in 1:N) y[n] ~ normal(a[g][n], 1);"
    assert found("vector[J] a;", twice).dims == {"a": ("origin",)}


def test_bounds_of_codes_columns_and_counts_name_a_size():
    bounded = DECLARED.replace("int g;", "int<lower=1, upper=J> g;")
    plain = "y ~ normal(X * beta, 1);"
    labels = found("vector[D] beta; vector[J] a;", plain, data=bounded)
    assert labels.dims == {"beta": ("X",), "a": ("origin",)}
    assert labels.coords == {"X": ("hour", "wind"), "origin": AIRPORTS.labels}
    counted = found("vector[J] a;", plain.replace("X * beta", "0"), names={"J": AIRPORTS})
    assert counted.dims == {"a": ("origin",)}


def test_both_axes_of_a_covariance_have_names_of_their_own():
    labels = found("cov_matrix[J] S; vector[J] a;", "y ~ normal(a[g], 1);")
    assert labels.dims["S"] == ("origin", "origin_2")
    assert labels.coords["origin"] == labels.coords["origin_2"] == AIRPORTS.labels


def test_a_dimension_is_never_called_as_a_variable():
    labels = found("vector[J] origin; real origin_2;", "y ~ normal(origin[g] + origin_2, 1);")
    assert labels.dims == {"origin": ("origin_3",)}


@pytest.mark.parametrize(
    ("parameters", "model", "names"),
    [
        pytest.param("vector[3] a;", "y ~ normal(sum(a), 1);", NAMES, id="a number as size"),
        pytest.param("vector[C] a;", "y ~ normal(a[g], 1);", NAMES, id="fewer elements"),
        pytest.param("vector[N] a;", "y ~ normal(a[g], 1);", NAMES, id="more elements"),
        pytest.param(
            "vector[J] a;",
            "y ~ normal(a[g] + a[c], 1);",
            NAMES | {"c": Names("dest", ("ATL", "BOS", "LAX"))},
            id="two columns with other levels",
        ),
        pytest.param(
            "vector[J] a;", "y ~ normal(a[g], 1);", {"g": Names("origin", ("x", "x", "y"))},
            id="the same label twice",
        ),
        pytest.param("vector[J] a;", "y ~ normal(a[g], 1);", {}, id="no names"),
    ],
)  # fmt: skip
def test_what_is_not_clear_has_no_names(parameters, model, names):
    assert found(parameters, model, names=names) == Labels()


def test_two_columns_of_the_same_levels_share_a_size():
    names = NAMES | {"c": Names("dest", AIRPORTS.labels)}
    both = found(
        "vector[J] a; vector[J] b; vector[J] z;", "y ~ normal(a[g] + b[c], 1);", names=names
    )
    assert both.dims == {"a": ("origin",), "b": ("dest",), "z": ("dest",)}


def test_labels_that_are_given_win():
    given = Labels.given({"origin": [1, 2, 3]}, {"a": ["airport"]})
    both = given.over(Labels({"origin": AIRPORTS.labels}, {"a": ("origin",), "b": ("origin",)}))
    assert both == Labels({"origin": [1, 2, 3]}, {"a": ["airport"], "b": ("origin",)})


def test_labels_are_text_or_whole_numbers():
    assert Names.of("g", [2, 1]).labels == (2, 1)
    assert Names.of("g", [1.5, 2.0]).labels == ("1.5", "2.0")
    assert Names.of("g", [True, False]).labels == ("True", "False")


def test_doctests():
    assert doctest.testmod(labels).failed == 0


# --- of tables, in fits ------------------------------------------------------------------

FLIGHTS = """
data { int N; int J; int D; array[N] int<lower=1> g; matrix[N, D] X; vector[N] y; }
parameters { vector[J] z; real<lower=0> tau; vector[D] beta; real<lower=0> s; }
transformed parameters { vector[J] a = tau * z; }
model { z ~ std_normal(); tau ~ lognormal(0, 0.3); beta ~ normal(0, 1); s ~ normal(0, 1);
  y ~ normal(a[g] + X * beta, s); }
generated quantities { vector[J] shifted = a + 1; }
"""
LABELLED = ["a[EWR]", "a[JFK]", "a[LGA]", "beta[hour]", "beta[wind]"]


def flights(seed: int = 3, **options: object) -> sc.Table:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(6_000, 2)), columns=["hour", "wind"])
    frame["origin"] = rng.choice(["EWR", "JFK", "LGA"], 6_000)
    frame["y"] = frame["hour"] + (frame["origin"] == "JFK") + rng.normal(size=6_000)
    return sc.Table(
        frame, columns={"g": "origin", "X": ["hour", "wind"]}, counts={"J": "origin"}, **options
    )


@pytest.mark.parametrize("memory", [1 << 28, 0])
def test_a_table_knows_the_names_of_levels_and_columns(memory):
    model = sc.CoresetModel(stan_code=FLIGHTS, engine="stanli")
    read = model.read(flights(memory=memory))
    assert isinstance(read, LoadedRows if memory else StoredRows)
    assert dict(read.names) == {"g": AIRPORTS, "J": AIRPORTS, "X": COLUMNS}


def test_numbered_columns_have_no_names():
    frame = pd.DataFrame({"X.1": [0.5, 1.0], "X.2": [1.0, 2.0], "y": [0, 1]})
    scales = {"alpha_scale": 5.0, "beta_scale": 2.5}
    model = sc.CoresetModel(sc.stan_model_path("logistic"), engine="stanli")
    assert model.read(sc.Table(frame, values=scales)).names == {}


@pytest.mark.fit
@pytest.mark.parametrize("memory", some([1 << 28, 0], 2, first=1))
def test_levels_and_columns_label_the_posterior(memory, tmp_path):
    model = sc.CoresetModel(stan_code=FLIGHTS, engine="stanli")
    fit = model.fit(flights(memory=memory), size=60, seed=reseeded(1), max_rounds=1)
    fit.save(tmp_path / "run")
    for posterior in (fit.posterior, sc.load_fit(tmp_path / "run").posterior):
        assert set(LABELLED) <= set(arviz.summary(posterior).index)
    assert {"z[EWR]", "beta[hour]"} <= set(arviz.summary(fit.laplace).index)
    if memory:  # generated quantities of the full data
        assert "shifted[LGA]" in fit.summary().index
    means = arviz.summary(fit.posterior, ["a"])["mean"]
    assert means["a[JFK]"] > means["a[EWR]"] + 0.5
    assert ("coreset", "z[JFK]") in sc.compare(fit.posteriors).index


@pytest.mark.fit
@pytest.mark.slow
def test_labels_go_through_quantities_and_merges(tmp_path):
    model = sc.CoresetModel(stan_code=FLIGHTS, engine="stanli")
    quick = {"size": 60, "max_rounds": 1, "chains": 2}
    days = [model.fit(flights(seed=day), seed=reseeded(1), **quick) for day in (3, 4)]
    made = model.generate_quantities(flights(seed=3), days[0].posterior, draws=20)
    assert list(arviz.summary(made).index) == ["shifted[EWR]", "shifted[JFK]", "shifted[LGA]"]
    days[1].save(tmp_path / "day")
    week = model.merge([days[0], sc.load_fit(tmp_path / "day")], **quick)
    assert set(LABELLED) <= set(arviz.summary(week.posterior).index)
    other = flights(seed=4, levels={"origin": ["JFK", "EWR", "LGA"]})
    with pytest.raises(
        sc.errors.DataError, match=r"origin is .* in part 1 and .* in part 2: the same"
    ):
        model.merge([days[0], (other, days[1])], **quick)


def test_the_users_own_labels_win():
    model = sc.CoresetModel(stan_code=FLIGHTS, engine="stanli")
    draws = model.sample(
        flights(), chains=1, iter_warmup=20, iter_sampling=10, inits=0.1,
        coords={"slope": ["h", "w"]}, dims={"beta": ["slope"]},
    )  # fmt: skip
    assert {"a[EWR]", "beta[h]"} <= set(arviz.summary(draws).index)


@pytest.mark.parametrize(
    ("coords", "dims", "said"),
    [
        ({}, {"betta": ["slope"]}, "dims name 'betta', which the program does not define; did you"),
        (
            {"slope": ["h"]},
            {"beta": ["slope"]},
            r"coords\['slope'\] has 1 labels, but 'beta' has 2",
        ),
        ({}, {"beta": ["slope", "day"]}, r"dims\['beta'\] names 2 dimensions, but 'beta' has 1"),
    ],
)
def test_labels_that_do_not_fit_are_refused_before_anything_is_computed(
    coords, dims, said, monkeypatch
):
    model = sc.CoresetModel(stan_code=FLIGHTS, engine="stanli")
    monkeypatch.setattr(model._session, "compile", lambda: pytest.fail("too late"))
    with pytest.raises(sc.errors.OptionError, match=said):
        model.fit(flights(), coords=coords, dims=dims)


def test_data_that_know_their_names_label_every_step():
    table = flights()
    plain = dict(table.open_for(sc.CoresetModel(stan_code=FLIGHTS, engine="stanli").program))
    data = NamedData(plain, {"g": AIRPORTS, "X": COLUMNS})
    model = sc.CoresetModel(stan_code=FLIGHTS, engine="stanli")
    draws = model.sample(data, chains=1, iter_warmup=20, iter_sampling=10, inits=0.1)
    assert set(LABELLED) <= set(arviz.summary(draws).index)
