"""``stancoreset plot``, and the trace of a refinement."""

from __future__ import annotations

import json
from dataclasses import make_dataclass

import matplotlib as mpl

mpl.use("agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.image import imread
from pictures import assert_nothing_clipped
from problems import logistic_data
from seeds import reseeded
from tiers import some

import stancoreset as sc
from stancoreset.cli.commands import main, make_parser
from stancoreset.cli.plot import KINDS, covariates, plot_run
from stancoreset.errors import DataError, OptionError
from stancoreset.posterior import arviz as arviz_compat
from stancoreset.posterior import plots

FIELDS = ["round", "action", "size", "heldout_error", "khat", "ess", "n_draws"]
FIELDS += ["seconds", "verdict"]
Round = make_dataclass("Round", FIELDS)
ROUNDS = [
    Round(0, "first pass", 100, 0.43, np.inf, 3.2, 1_000, 4.0, "rejected"),
    Round(1, "more reference draws and candidates", 100, 0.2, 0.62, 513.0, 1_000, 6.0, "corrected"),
    Round(2, "larger size", 400, 0.014, 0.12, 997.0, 1_000, 20.0, "certified"),
]


@pytest.fixture(scope="module")
def data():
    return logistic_data(3_000)


@pytest.fixture(scope="module")
def run(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("plots") / "run"
    with sc.CoresetModel(sc.stan_model_path("logistic"), engine="stanli") as model:
        fit = model.fit(
            data, size=40, seed=reseeded(1), chains=2, iter_warmup=200, iter_sampling=300
        )
    fit.save(folder)
    return folder


@pytest.fixture
def data_file(tmp_path, data):
    path = tmp_path / "data.json"
    path.write_text(json.dumps({k: np.asarray(v).tolist() for k, v in data.items()}))
    return path


@pytest.mark.fit
@pytest.mark.parametrize("kind", some(sorted(KINDS), 3, first=1))
def test_every_kind_is_drawn(run, kind, tmp_path, capsys):
    output, before = tmp_path / "figure.png", plt.get_fignums()
    assert main(["plot", str(run), kind, "--output", str(output)]) == 0
    assert str(output) in capsys.readouterr().out
    picture = imread(output)
    assert picture.shape[0] > 200
    assert picture.shape[1] > 300
    assert np.ptp(picture[..., :3]) > 0.5  # something is on it
    assert plt.get_fignums() == before  # none is left open


@pytest.mark.fit
def test_weights_over_columns_of_the_data(run, data_file, tmp_path):
    output = tmp_path / "figure.svg"
    arguments = ["--output", str(output), "--data", str(data_file), "--columns", "X[1]", "X[3]"]
    assert main(["plot", str(run), "weights", *arguments]) == 0
    assert "<svg" in output.read_text()


@pytest.mark.fit
def test_data_of_another_run_have_no_columns_of_its_rows(run, tmp_path, capsys):
    path = tmp_path / "other.json"
    path.write_text(json.dumps({"N": 3, "x": [1.0, 2.0, 3.0], "y": [0.5, 1.0, 2.0]}))
    assert main(["plot", str(run), "weights", "--data", str(path)]) == 2
    size = sc.load_fit(run).coreset.n_obs
    words = f"other.json has 0 column(s) of {size} rows, expected at least two"
    assert words in capsys.readouterr().err


@pytest.mark.fit
def test_other_posteriors_beside_it(run, tmp_path, monkeypatch):
    seen, draw = {}, plots.plot_forest
    monkeypatch.setattr(
        plots, "plot_forest", lambda shown, *a, **o: seen.update(shown) or draw(shown, *a, **o)
    )
    full = arviz_compat.load(run / "posterior.nc")
    arviz_compat.save(full, tmp_path / "other.nc")
    plot_run(run, "forest", tmp_path / "a.pdf", also=[tmp_path / "other.nc"])
    assert list(seen) == ["coreset", "laplace", "other"]
    with pytest.raises(OptionError, match="two posteriors are called 'other'"):
        plot_run(run, "forest", tmp_path / "a.pdf", also=[tmp_path / "other.nc"] * 2)


@pytest.mark.fit
def test_a_forest_has_the_scale_that_is_asked_for(run, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr("stancoreset.cli.plot.save_picture", lambda ax, path: drawn.append(ax))
    for scale in ("standardised", "values"):
        arguments = ["--scale", scale, "--output", str(tmp_path / "a.png")]
        assert main(["plot", str(run), "forest", *arguments]) == 0
    assert ["distance to the mean of" in ax.get_xlabel() for ax in drawn] == [True, False]


def test_the_command_line_lists_every_kind():
    commands = make_parser()._subparsers._group_actions[0].choices
    option = next(a for a in commands["plot"]._actions if a.dest == "kind")
    assert set(option.choices) == set(KINDS)


@pytest.mark.fit
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["weights", "--columns", "a", "b"], "add --data"),
        (["density", "--var-names", "gamma"], "'gamma'"),
        (["density", "--output", "figure.xyz"], "picture format"),
    ],
)
def test_bad_input_is_one_clear_line(run, arguments, words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["plot", str(run), *arguments]) == 2
    assert words in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.fit
def test_no_such_column_or_run(run, data_file, tmp_path, capsys):
    arguments = ["--data", str(data_file), "--columns", "X[1]", "z"]
    assert main(["plot", str(run), "weights", *arguments]) == 2
    assert "no column 'z'" in capsys.readouterr().err
    assert main(["plot", str(tmp_path / "nothing"), "weights"]) == 2
    assert "no such folder" in capsys.readouterr().err
    with pytest.raises(OptionError, match="kind is 'pie'"):
        plot_run(run, "pie", tmp_path / "a.png")


def test_covariates_are_named_as_stan_names_them():
    table = covariates({"N": 4, "X": np.ones((4, 2)), "y": np.arange(4), "prior": [1.0, 2.0]}, 4)
    assert list(table.columns) == ["X[1]", "X[2]", "y"]


class TestRefinement:
    def test_draws_every_round(self):
        top, bottom = plots.plot_refinement(ROUNDS)
        assert top.get_title() == "rejected after 4 s → certified after 30 s"
        np.testing.assert_allclose(bottom.lines[1].get_ydata(), [0.43, 0.2, 0.014])
        assert top.lines[-1].get_ydata()[0] == max(top.lines[-1].get_ydata())  # infinite k̂
        labels = [label.get_text() for label in bottom.get_xticklabels()]
        assert labels[2] == "larger size\n400 rows"
        colors = top.collections[-1].get_facecolors()
        assert len(np.unique(colors, axis=0)) == 3
        assert_nothing_clipped(top.figure)

    def test_limits_and_colours_are_in_the_legends(self):
        top, bottom = plots.plot_refinement(ROUNDS)
        words = [text.get_text() for text in top.get_legend().get_texts()]
        assert set(words[:3]) == {"certified", "corrected", "rejected"}
        told = [(w.split(":")[0], w.split(" of ")[1]) for w in words[3:]]
        assert sorted(told) == [("k̂ above", "99.8 %"), ("k̂ below", "90 %")]
        colors = {handle.get_color() for handle in top.get_legend().legend_handles[:3]}
        assert {to_hex(color) for color in top.collections[-1].get_facecolors()} <= {
            to_hex(color) for color in colors
        }
        (levels,) = (c for c in top.collections if c.get_label().startswith("k̂ below"))
        heights = [segment[0, 1] for segment in levels.get_segments()]
        np.testing.assert_allclose(heights, 1 - 1 / np.log10([r.n_draws for r in ROUNDS]))
        limit = bottom.lines[0]
        assert (limit.get_label(), limit.get_ydata()[0]) == ("certified up to 0.1", 0.1)
        assert limit.get_label() in [t.get_text() for t in bottom.get_legend().get_texts()]

    def test_mappings_and_one_round(self):
        top, _ = plots.plot_refinement([vars(ROUNDS[2])])
        assert top.get_title() == "certified after 20 s"
        assert_nothing_clipped(top.figure)

    def test_an_unknown_error_leaves_a_gap(self):
        rounds = [
            Round(
                *[getattr(ROUNDS[0], f) for f in FIELDS[:3]],
                *(np.nan, 0.3, 9.0, 1_000, 1.0, "rejected"),
            )
        ]
        reported = [{**vars(rounds[0]), "heldout_error": None}]
        for given in (rounds, reported):
            _, bottom = plots.plot_refinement(given)
            assert np.isnan(bottom.lines[1].get_ydata()).all()

    def test_on_given_axes(self):
        _, axes = plt.subplots(2)
        assert list(plots.plot_refinement(ROUNDS, ax=axes)) == list(axes)
        with pytest.raises(OptionError, match="needs 2 axes, ax holds 1"):
            plots.plot_refinement(ROUNDS, ax=axes[0])

    def test_bad_records(self):
        with pytest.raises(DataError, match="no record of rounds"):
            plots.plot_refinement([])
        with pytest.raises(DataError, match="no 'khat'"):
            plots.plot_refinement([{"round": 0, "action": "", "size": 1, "heldout_error": 1}])
