"""Reports: what a page, a card and a text say of a fit, and that they stand alone."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from tiers import some

import stancoreset as sc
from stancoreset.posterior import card, percent
from stancoreset.progress import Stages
from stancoreset.runs import report
from stancoreset.runs.report import FILES, Shown

CODE = """
data { int<lower=0> N; vector[N] y; array[N] int<lower=1, upper=3> g; }
parameters { real mu; vector[3] a; real<lower=0> sigma; }
model {
  mu ~ normal(0, 5); a ~ normal(0, 1); sigma ~ normal(0, 2);
  y ~ normal(mu + a[g], sigma);
}
"""
EMPTY = {"meta", "img", "br", "hr", "link"}


class Page(HTMLParser):
    """Text, images and the nesting of a page's elements."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.images: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        addresses = [value for name, value in attrs if name in ("src", "href")]
        assert all(address.startswith("data:") for address in addresses), "asks for another file"
        self.images += addresses
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def read(text: str) -> Page:
    page = Page(text)
    assert page.open == []
    return page


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    g = rng.integers(0, 3, 400)
    return {"N": 400, "y": rng.normal(size=400) + g, "g": g + 1}


@pytest.fixture(scope="module")
def model():
    with sc.CoresetModel(stan_code=CODE, engine="stanli") as model:
        yield model


@pytest.fixture(scope="module")
def run(model, data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "run"
    options = {"size": 12, "seed": 3, "max_rounds": 1, "chains": 2, "iter_warmup": 300}
    return model.fit(data, output_dir=folder, **options), folder


@pytest.mark.fit
def test_the_page_stands_alone_and_names_every_file(run):
    fit, folder = run
    page = read((folder / "report.html").read_text(encoding="utf-8"))
    words = " ".join(page.words)
    assert len(page.images) == 1
    certificate = fit.certificate
    for fact in (
        certificate.verdict,
        percent(certificate.efficiency),
        f"{certificate.khat:.2f}",
        f"{certificate.ess_bulk:,.0f} (bulk)",
        "y ~ normal(mu + a[g], sigma)",
        "a[2]",
        fit.provenance["program_hash"],
    ):
        assert fact in words
    hidden = {".stancoreset.json"}
    assert {file.name for file in folder.iterdir()} <= set(FILES) | hidden
    assert all(file in words for file in FILES)


@pytest.mark.parametrize(
    ("sizes", "kept", "left_out"),
    [
        ({"mu": 1, "r": 900, "b": 99}, None, {}),
        ({"z": 1_500, "mu": 1, "b": 3, "r": 1_500}, ["mu", "b"], {"z": 1_500, "r": 1_500}),
        ({"z": 1_500, "r": 2_000}, ["z"], {"r": 2_000}),
        ({"w": 1_500}, None, {}),
    ],
)
def test_the_table_of_parameters_leaves_out_vectors_of_thousands(
    monkeypatch, sizes, kept, left_out
):
    asked = []
    monkeypatch.setattr(report.plots, "plot_fit", lambda *_: None)
    draws = {name: np.zeros((1, 2, size)) for name, size in sizes.items()}
    fit = SimpleNamespace(posterior=draws, summary=lambda names: asked.append(names) or "table")
    found = Shown.of(fit)
    assert asked == [kept]
    assert found.left_out == left_out


@pytest.mark.fit
def test_what_the_table_leaves_out_is_named(run, monkeypatch):
    fit, _ = run
    monkeypatch.setattr(report, "_IN_TABLE", 2)
    text = report.markdown(fit, Shown.of(fit))
    assert "| sigma |" in text
    assert "| a[" not in text
    assert "would be long: `a` (3); see `fit.summary()`" in text


@pytest.mark.fit
def test_a_loaded_fit_reports_the_same(run):
    fit, folder = run
    again = sc.load_fit(folder)
    assert again.markdown() == fit.markdown() == (folder / "report.md").read_text(encoding="utf-8")
    assert json.loads((folder / "report.json").read_text())["weaving"] == list(again.weaving)
    roles = [entry["role"] for entry in again.weaving]
    assert roles.count("likelihood") == 1


@pytest.mark.fit
def test_times_add_up(run):
    fit, _ = run
    stages = fit.markdown().split("## Times and passes")[1].split("##")[0].splitlines()
    rows = [line.split("|")[1:3] for line in stages if line.startswith("|") and "---" not in line]
    seconds = {name.strip(): float(value) for name, value in rows[1:]}
    assert seconds.pop("all") == pytest.approx(sum(seconds.values()), abs=0.005 * len(seconds))


@pytest.mark.fit
@pytest.mark.parametrize("saved", some([True, False], 2))
def test_the_sum_of_the_stages_is_the_time_of_the_fit(model, data, tmp_path, saved):
    """Reading, saving and pictures are stages; what has none is one of its own, and small."""
    folder = tmp_path / "run" if saved else None
    started = time.perf_counter()
    fit = model.fit(data, output_dir=folder, size=12, seed=3, max_rounds=1)
    wall = time.perf_counter() - started
    assert fit.seconds <= wall
    # only the text of the report is written after the clock has stopped
    assert fit.seconds == pytest.approx(wall, rel=0.15, abs=0.3)
    assert {"import", "read data", "other"} <= set(fit.timings)
    assert ({"save", "report"} <= set(fit.timings)) == saved
    assert fit.timings["other"] < 0.3 * wall + 0.3
    if saved:
        written = json.loads((folder / "report.json").read_text())
        assert written["timings"] == pytest.approx(dict(fit.timings))


@pytest.mark.fit
def test_a_stopwatch_used_twice_counts_each_fit(model, data):
    """Time between two fits belongs to neither of them."""
    stages, options = Stages(show_progress=False), {"size": 12, "seed": 3, "max_rounds": 1}
    started = time.perf_counter()
    model.fit(data, stages=stages, **options)
    time.sleep(0.5)
    model.fit(data, stages=stages, **options)
    wall = time.perf_counter() - started
    assert sum(stages.seconds.values()) <= wall - 0.5


@pytest.mark.fit
def test_what_takes_time_in_a_report_is_made_once(run, monkeypatch, tmp_path):
    fit, _ = run
    fresh, made = replace(fit), []
    drawn = Shown.of
    monkeypatch.setattr(Shown, "of", lambda f: made.append(f) or drawn(f))
    fresh.save(tmp_path / "run")
    assert len(made) == 1
    assert fresh.html() == fresh.html()
    assert fresh.markdown()
    assert len(made) == 1


@pytest.mark.fit
def test_cards_and_short_representations(run, model):
    fit, _ = run
    for value in (fit, fit.certificate, fit.coreset, model):
        page = read(value._repr_html_())
        assert page.words
        assert len(repr(value)) < 300
    assert fit.certificate.verdict in " ".join(read(fit._repr_html_()).words)
    assert read(fit._repr_html_()).images
    told = f"CoresetFit({fit.certificate.verdict}: {fit.coreset.size} weighted rows of 400"
    assert repr(fit).startswith(told)
    rejected = replace(fit.certificate, verdict="rejected", reasons=("a < b",))
    assert "a < b" in read(rejected._repr_html_()).words


@pytest.mark.fit
def test_plots_take_a_fit(run):
    fit, _ = run
    axes = fit.plot(max_parameters=3)
    assert len(axes) == 5
    assert axes[0].get_title().startswith(f"{fit.certificate.verdict}: importance efficiency")
    assert [ax.get_title() for ax in axes[2:]] == ["mu", "a[0]", "a[1]"]
    assert sc.plots.plot_path(fit).lines
    assert len(sc.plots.plot_density(fit, max_parameters=2)) == 2
    assert len(sc.plots.plot_forest(fit).get_yticklabels()) == 5
    assert set(sc.compare(fit).reset_index()["posterior"]) == {"coreset", fit.reference.name}


def test_a_card_shows_text_as_text():
    page = read(card("<b>", [("a & b", "1 < 2"), ("left out", "")], verdict="x", notes=["<i>"]))
    assert {"<b>", "a & b", "1 < 2", "<i>"} <= set(page.words)
    assert "left out" not in page.words


def test_a_share_of_nearly_one_is_not_one():
    assert [percent(x) for x in (1.0, 0.9997, 0.5, 0.00012)] == [
        "100 %",
        "99.97 %",
        "50 %",
        "0.012 %",
    ]


ITEMS = """data { int persons; int items; array[persons, items] int<lower=0, upper=1> y; }
parameters { vector[persons] theta; vector[items] b; }
model {
  theta ~ std_normal();
  b ~ normal(0, 2);
  for (i in 1:persons) y[i] ~ bernoulli_logit(theta[i] - b);
}"""
SEGMENTS = """data { int N; int J; array[J] int s; vector[N] y; }
parameters { real mu; real<lower=0> a; }
model {
  int pos = 1;
  mu ~ normal(0, 5);
  a ~ normal(0, 2);
  for (j in 1:J) {
    matrix[s[j], s[j]] S = add_diag(rep_matrix(square(a), s[j], s[j]), 1.0);
    segment(y, pos, s[j]) ~ multi_normal(rep_vector(mu, s[j]), S);
    pos += s[j];
  }
}"""


@pytest.mark.fit
@pytest.mark.parametrize(
    ("code", "obs", "unit"),
    [
        (ITEMS, "persons × items", "60 cells of 12 persons × 5 items"),
        (SEGMENTS, "segments", "40 segments of y"),
    ],
)
def test_cells_and_segments_are_named_wherever_rows_are(code, obs, unit, tmp_path):
    """And a cell is found again by its row and column, as the user counts them."""
    rng = np.random.default_rng(2)
    sizes = rng.integers(1, 4, 40)
    items = {"persons": 12, "items": 5, "y": rng.integers(0, 2, (12, 5))}
    segments = {"N": sizes.sum(), "J": 40, "s": sizes, "y": rng.normal(size=sizes.sum())}
    values = items if code is ITEMS else segments
    with sc.CoresetModel(stan_code=code, obs=obs, engine="stanli") as own:
        fit = own.fit(values, size=20, chains=1, iter_warmup=200, max_rounds=1, seed=1)
    fit.save(tmp_path / "run")
    told = f"{fit.coreset.size} weighted of {unit}"
    assert told in repr(fit)
    assert told in " ".join(read(fit.coreset._repr_html_()).words)
    assert told in fit.markdown()
    assert f"Coreset({fit.coreset.size} of {unit} by " in repr(fit.coreset)
    assert fit.provenance["observations"] == unit
    table = pd.read_csv(tmp_path / "run" / "coreset.csv")
    if code is ITEMS:
        cells = values["y"][table["persons"] - 1, table["items"] - 1]
        np.testing.assert_array_equal(table["y"], cells)
    else:
        np.testing.assert_array_equal(table["s"], sizes[table["row"]])
