"""Posteriors that cannot be used: one clear error each, wherever they are given."""

from __future__ import annotations

import numpy as np
import pytest
from problems import logistic_data
from seeds import reseeded

import stancoreset as sc
from stancoreset.errors import CertificateError, DataError, OutputError, ReferenceFitError
from stancoreset.posterior import arviz as arviz_compat


@pytest.fixture(scope="module")
def data():
    return logistic_data(2_000)


@pytest.fixture(scope="module")
def model():
    with sc.CoresetModel(sc.stan_model_path("logistic"), engine="stanli") as model:
        yield model


@pytest.fixture(scope="module")
def fit(model, data):
    quick = {"chains": 2, "iter_warmup": 200, "iter_sampling": 200, "max_rounds": 1}
    return model.fit(data, size=30, seed=reseeded(1), **quick)


@pytest.fixture
def draws(fit):
    """Parameters only: (2, 200) and (2, 200, 3)."""
    return {name: value.copy() for name, value in arviz_compat.variables_of(fit.posterior).items()}


@pytest.mark.fit
def test_variables_that_are_missing(model, data, fit, draws):
    with pytest.raises(DataError, match=r"lacks the parameter 'beta'; it has 'alpha'"):
        model.certify(data, fit.coreset, {"alpha": draws["alpha"]})
    with pytest.raises(DataError, match="beta"):
        model.reference(data, {"alpha": draws["alpha"]})


@pytest.mark.fit
def test_variables_that_are_not_needed_are_no_hindrance(model, data, fit, draws):
    draws["scratch"] = np.full((2, 200), np.nan)
    assert model.certify(data, fit.coreset, draws).n_draws == 400


@pytest.mark.fit
def test_variables_of_another_shape(model, data, fit, draws):
    draws["beta"] = draws["beta"][..., :2]
    with pytest.raises(DataError, match=r"'beta' have shape \(400, 2\), expected \(400, 3\)"):
        model.certify(data, fit.coreset, draws)


@pytest.mark.fit
@pytest.mark.parametrize("ragged", [True, False])
def test_chains_of_different_lengths(model, data, fit, draws, ragged):
    one, two = draws["alpha"]
    if ragged:
        draws["alpha"], words = [one, two[:150]], r"chains of 'alpha' have different lengths"
    else:
        draws["alpha"], words = draws["alpha"][:, :150], "2 chains of 200 draws, but 'alpha' has"
    with pytest.raises(DataError, match=words):
        model.certify(data, fit.coreset, draws)
    with pytest.raises(DataError, match=words):
        sc.compare({"fit": fit, "other": draws})


@pytest.mark.fit
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_draws_that_are_not_finite(model, data, fit, draws, value):
    draws["beta"][1, 5, 2] = value
    where = rf"'beta\[2\]' is {value} in draw 5 of chain 1 \(1 of 1200 values"
    with pytest.raises(DataError, match=where):
        model.certify(data, fit.coreset, draws)
    with pytest.raises(DataError, match=where):
        model.log_likelihood(data, arviz_compat.posterior_container(draws))
    with pytest.raises(DataError, match="1 of 1200 draws of 'beta' are NaN or infinite"):
        sc.compare({"fit": fit, "other": draws})
    with pytest.raises(ReferenceFitError, match=rf"beta\.3 is {value} in draw 205"):
        model.reference(data, draws)


@pytest.mark.fit
def test_no_draws_at_all(model, data, fit, draws):
    with pytest.raises(DataError, match=r"'alpha' has shape \(2, 0\): there are no draws"):
        model.certify(data, fit.coreset, {name: value[:, :0] for name, value in draws.items()})


@pytest.mark.fit
def test_models_with_different_parameters(fit, draws):
    with pytest.raises(DataError, match=r"'fit' has 'alpha', 'beta'; 'other' has 'gamma'"):
        sc.compare({"fit": fit, "other": {"gamma": draws["alpha"]}})
    with pytest.raises(DataError, match=r"'beta' has shape \(3,\) in 'fit', but \(2,\)"):
        sc.compare({"fit": fit, "other": {"beta": draws["beta"][..., :2]}})
    with pytest.raises(DataError, match="'other' has no parameter 'beta'"):
        sc.compare({"fit": fit, "other": {"alpha": draws["alpha"]}}, var_names=["beta"])


@pytest.mark.fit
def test_certificates_need_the_full_data(model, data, fit):
    with pytest.raises(CertificateError, match="needs the full data"):
        model.certify(None, fit.coreset, fit.posterior)
    with pytest.raises(DataError, match="selected from 2000 rows, the data have"):
        model.certify(fit.coreset.subset(data), fit.coreset, fit.posterior)


@pytest.mark.fit
def test_something_that_is_no_posterior(model, data, fit):
    with pytest.raises(DataError, match=r"builtins\.int; expected an ArviZ container"):
        model.certify(data, fit.coreset, 3)


@pytest.mark.fit
def test_a_run_goes_on_with_the_draws_that_it_began_with(model, data, fit, draws, tmp_path):
    run = {"size": 20, "seed": reseeded(1), "max_rounds": 1, "output_dir": tmp_path / "run"}
    model.fit(data, reference=draws, **run)
    model.fit(data, reference=draws, resume=True, **run)
    moved = {name: values * 1.01 for name, values in draws.items()}
    with pytest.raises(OutputError, match="cannot be resumed: reference_draws was"):
        model.fit(data, reference=moved, resume=True, **run)
