"""The tuned numbers of a fit: documented, bounded, passed to a fit, and told in its report."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from problems import logistic_data

import stancoreset as sc
from stancoreset.errors import OptionError
from stancoreset.fit import Plan
from stancoreset.policy import DEFAULT, policy_of


def test_every_number_has_a_unit_a_meaning_and_a_basis():
    table = sc.Policy.table()
    assert [row[0] for row in table] == [field.name for field in dataclasses.fields(sc.Policy)]
    assert len(table) <= 40
    for name, default, unit, about, basis in table:
        assert default == getattr(DEFAULT, name)
        assert unit, name
        assert len(about) > 20, name
        assert basis, name


def test_the_goal_is_the_error_whose_weights_have_this_efficiency():
    """By simulation: of weights exp(σ z), n / ESS is exp(σ²), 1 + σ² for small σ."""
    error = sc.Policy(goal_efficiency=0.98).error_goal
    weights = np.exp(error * np.random.default_rng(1).standard_normal(1_000_000))
    assert weights.sum() ** 2 / np.sum(weights**2) / 1e6 == pytest.approx(0.98, abs=0.001)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"turns": 0}, "policy: turns is 0, expected a whole number of at least 1"),
        ({"turns": 2.5}, "policy: turns is 2.5, expected a whole number of at least 1"),
        ({"near": "much"}, "policy: near is 'much', expected a number of at least 0"),
        ({"near": float("nan")}, "policy: near is nan, expected a number of at least 0"),
        ({"repeats": True}, "policy: repeats is True, expected a whole number of at least 0"),
        ({"goal_efficiency": 1.0}, "policy: goal_efficiency is 1.0, expected a share below 1"),
        ({"frst_size": 9}, "policy has no number 'frst_size'; did you mean 'first_size'?"),
        ([1], "policy is [1], expected numbers by name"),
        (7, "policy is 7, expected numbers by name"),
    ],
)
def test_wrong_numbers_are_refused_by_name(asked, words):
    with pytest.raises(OptionError, match=r"^policy") as told:
        Plan.of({"policy": asked})
    assert words in str(told.value)


def test_a_policy_is_read_from_a_file(tmp_path):
    path = tmp_path / "policy.json"
    path.write_text(json.dumps({"first_size": 50}))
    assert policy_of(path) == policy_of(str(path)) == sc.Policy(first_size=50)
    path.write_text("{")
    with pytest.raises(OptionError, match=r"policy file .*policy.json cannot be read as JSON"):
        policy_of(path)
    with pytest.raises(OptionError, match=r"policy file .*missing.json does not exist; expected"):
        policy_of(tmp_path / "missing.json")


@pytest.mark.fit
def test_a_fit_follows_its_policy_and_tells_it(tmp_path):
    with sc.CoresetModel(sc.stan_model_path("logistic"), engine="stanli") as model:
        fit = model.fit(
            logistic_data(5_000),
            seed=1,
            max_rounds=1,
            policy={"first_size": 40, "reference_draws": 1_500},
            output_dir=tmp_path / "run",
        )
    assert fit.coreset.size == 40
    assert fit.settings["policy"] == {"first_size": 40, "reference_draws": 1_500}
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert report["settings"]["policy"] == {"first_size": 40, "reference_draws": 1_500}
    assert "first_size" in (tmp_path / "run" / "report.md").read_text()
    assert "policy" not in Plan().settings()


def test_the_command_line_takes_a_policy(tmp_path, capsys):
    from stancoreset.cli import main

    path = tmp_path / "policy.json"
    path.write_text('{"turns": -1}')
    program, data = str(sc.stan_model_path("logistic")), tmp_path / "d.json"
    data.write_text("{}")
    code = main(["fit", program, str(data), "--out", str(tmp_path / "o"), "--policy", str(path)])
    assert code == 2
    assert "policy: turns is -1" in capsys.readouterr().err
