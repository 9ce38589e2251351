"""Pictures: what is drawn is what was given, nothing is clipped, nothing global changes."""

from __future__ import annotations

import doctest
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import matplotlib as mpl

mpl.use("agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from pictures import assert_nothing_clipped
from scipy import stats
from scipy.integrate import trapezoid
from tiers import some

from stancoreset.errors import DataError, OptionError
from stancoreset.posterior import arviz as arviz_compat
from stancoreset.posterior import plots
from stancoreset.posterior.certificate import certify, percent

NAMES = ["hour", "distance", "from_jfk", "summer", "an_uncommonly_long_name_of_a_coefficient_01"]


@pytest.fixture(autouse=True)
def _nothing_global(monkeypatch):
    """No show, no change of settings, and figures closed afterwards."""

    def show(*_args, **_options):
        raise AssertionError("plt.show was called")

    monkeypatch.setattr(plt, "show", show)
    arviz_compat.ess(np.zeros((2, 4)))  # ArviZ is imported
    settings, backend = dict(mpl.rcParams), mpl.get_backend()
    yield
    assert dict(mpl.rcParams) == settings
    assert mpl.get_backend() == backend
    plt.close("all")


@pytest.fixture
def posteriors():
    rng = np.random.default_rng(0)

    def posterior(shift, size):
        return arviz_compat.posterior_container(
            {
                "alpha": rng.normal(-1 + shift, 0.1, size=size),
                "beta": rng.normal(np.linspace(-1, 1, 5) + shift, 0.1, size=(*size, 5)),
            },
            dims={"beta": ["predictor"]},
            coords={"predictor": NAMES},
        )

    return {
        "full": posterior(0.0, (4, 400)),
        "coreset": posterior(0.02, (4, 400)),
        "Laplace": posterior(0.2, (1, 300)),
    }


def _spans(ax):
    """All that was drawn of intervals: (x0, x1, y, colour)."""
    spans = []
    for line in ax.lines:
        x, y = (np.ravel(np.asarray(v, float)) for v in line.get_data())
        if len(x) > 1:
            spans.append((x.min(), x.max(), y[0], to_hex(line.get_color())))
    for collection in ax.collections:
        if hasattr(collection, "get_segments"):
            color = to_hex(collection.get_colors()[0])
            spans += [(s[0, 0], s[-1, 0], s[0, 1], color) for s in collection.get_segments()]
    return spans


class TestForest:
    def test_intervals_are_where_the_draws_are(self, posteriors):
        ax = plots.plot_forest(posteriors, prob=0.9)
        labels = [text.get_text() for text in ax.get_yticklabels()]
        assert labels == ["alpha", *(f"beta[{name}]" for name in NAMES)]
        heights = ax.get_yticks()
        assert heights[0] > heights[-1]
        # all that was drawn: segments [x0, x1] at height y
        segments = [
            (*sorted(np.asarray(line.get_xdata(), float)[[0, -1]]), np.ravel(line.get_ydata())[0])
            for line in ax.lines
            if len(np.ravel(line.get_xdata())) > 1
        ]
        for collection in ax.collections:
            if hasattr(collection, "get_segments"):
                segments += [(s[0, 0], s[-1, 0], s[0, 1]) for s in collection.get_segments()]
        for name, posterior in posteriors.items():
            draws = np.sort(arviz_compat.variables_of(posterior)["alpha"].ravel())
            # the narrowest interval that holds 90 % of the draws
            inside = int(np.floor(0.9 * draws.size))
            widths = draws[inside:] - draws[:-inside]
            low = draws[np.argmin(widths)]
            high = low + widths.min()
            found = [y for x0, x1, y in segments if abs(x0 - low) < 0.01 and abs(x1 - high) < 0.01]
            assert found, name
            assert np.argmin([abs(h - found[0]) for h in heights]) == 0

    def test_legend_colors_and_figure(self, posteriors):
        ax = plots.plot_forest(posteriors)
        assert [t.get_text() for t in ax.get_legend().get_texts()] == list(posteriors)
        assert ax.get_title() == ""
        assert "94 %" in ax.get_xlabel()
        assert_nothing_clipped(ax.figure)

    def test_on_given_axes(self, posteriors):
        _, axes = plt.subplots(1, 2)
        before = plt.get_fignums()
        assert plots.plot_forest(posteriors, ["alpha"], ax=axes[1]) is axes[1]
        assert plt.get_fignums() == before
        assert not axes[0].lines
        assert [t.get_text() for t in axes[1].get_yticklabels()] == ["alpha"]
        # no draws near 0: no line at 0 either
        assert axes[1].get_xlim()[1] < 0

    def test_one_posterior_and_a_cut(self, posteriors):
        ax = plots.plot_forest({"full": posteriors["full"]}, max_parameters=2)
        assert len(ax.get_yticks()) == 2
        assert "first 2 of 6 parameters" in ax.get_xlabel()
        assert ax.get_legend() is None

    def test_every_interval_is_visible(self):
        """Scales that differ by 10⁶: intervals in standard deviations, the moments beside them."""
        rng = np.random.default_rng(0)
        scales = np.geomspace(1e-3, 1e3, 46)
        unit = rng.normal(size=(4, 500, 46))
        posteriors = {"full": {"b": 7 * scales + scales * unit}}
        posteriors["coreset"] = {"b": 7 * scales + scales * (2 * unit + 1)}
        ax = plots.plot_forest(posteriors)
        assert len(ax.get_yticks()) == 46  # none is left out
        assert ax.get_xlabel().startswith("distance to the mean of full, in its")
        across = np.ptp(ax.get_xlim())
        spans, apart = _spans(ax), np.abs(np.diff(ax.get_yticks())).min()
        ends = {"#56b4e9": (-1.88, 1.88), "#d55e00": (-2.76, 4.76)}  # 94 % of N(0, 1), N(1, 2²)
        for y in ax.get_yticks():
            near = [span for span in spans if abs(span[2] - y) < 0.5 * apart]
            for color, expected in ends.items():
                low = min(span[0] for span in near if span[3] == color)
                high = max(span[1] for span in near if span[3] == color)
                assert (low, high) == pytest.approx(expected, abs=0.5)
                assert high - low > 0.03 * across
        told = [text.get_text() for text in ax.texts]
        assert told[-1] == "mean ± sd"
        draws = posteriors["full"]["b"]
        for text, column in zip(told, np.moveaxis(draws, -1, 0), strict=False):
            mean, sd = (float(part.replace(",", "")) for part in text.split(" ± "))
            assert mean == pytest.approx(column.mean(), abs=0.06 * column.std())
            assert sd == pytest.approx(column.std(), rel=0.06)
        assert_nothing_clipped(ax.figure)

    def test_the_scale_can_be_chosen(self, posteriors):
        assert "distance" not in plots.plot_forest(posteriors).get_xlabel()
        ax = plots.plot_forest(posteriors, scale="standardised")
        assert "distance to the mean of full" in ax.get_xlabel()
        wide = {"a": np.random.default_rng(0).normal(size=(2, 99, 2)) * [1, 1e6]}
        assert "distance" not in plots.plot_forest({"w": wide}, scale="values").get_xlabel()
        assert "distance" in plots.plot_forest({"w": wide}).get_xlabel()
        with pytest.raises(OptionError, match="scale is 'log', expected one of 'auto'"):
            plots.plot_forest(posteriors, scale="log")

    def test_constants_do_not_matter_to_the_scale(self):
        x = {"one": np.ones((2, 50)), "x": np.random.default_rng(0).normal(size=(2, 50))}
        assert "distance" not in plots.plot_forest({"a": x}).get_xlabel()
        ax = plots.plot_forest({"a": x}, scale="standardised")
        assert ax.texts[0].get_text() == "1"

    def test_very_many_parameters_are_cut_and_the_picture_says_so(self):
        x = {"b": np.random.default_rng(0).normal(size=(1, 100, 562))}
        ax = plots.plot_forest({"a": x})
        assert len(ax.get_yticks()) == 100
        assert "first 100 of 562 parameters, choose with var_names" in ax.get_xlabel()

    def test_labels_with_slashes(self):
        x = {"rate[a/b]": np.random.default_rng(0).normal(size=100)}
        ax = plots.plot_forest({"one": x, "two": x})
        assert [t.get_text() for t in ax.get_yticklabels()] == ["rate[a/b]"]
        assert plots.plot_density({"one": x})[0].get_title() == "rate[a/b]"


class TestDensity:
    def test_curves_are_densities(self, posteriors):
        panels = plots.plot_density(posteriors, ["alpha"])
        curves = [line for line in panels[0].lines if len(line.get_xdata()) > 20]
        assert len(curves) == 3
        for curve, shift in zip(curves, (0.0, 0.02, 0.2), strict=True):
            x, y = (np.asarray(v, float) for v in curve.get_data())
            assert trapezoid(y, x) == pytest.approx(1, abs=0.02)
            mean = trapezoid(x * y, x)
            assert mean == pytest.approx(-1 + shift, abs=0.03)
            exact = stats.norm.pdf(-1 + shift, -1 + shift, 0.1)
            assert y.max() == pytest.approx(exact, rel=0.25)

    def test_grid(self, posteriors):
        panels = plots.plot_density(posteriors)
        assert len(panels) == 6
        figure = panels[0].figure
        assert len(figure.axes) == 6
        assert panels[1].get_title() == "beta[hour]"
        assert "…" in panels[5].get_title()
        assert len(figure.legends) == 1
        assert [t.get_text() for t in figure.legends[0].get_texts()] == list(posteriors)
        assert not any(panel.get_legend() for panel in panels)
        assert_nothing_clipped(figure)
        boxes = [panel.title.get_window_extent() for panel in panels]
        for i, box in enumerate(boxes):
            assert not any(box.overlaps(other) for other in boxes[:i])

    def test_long_numbers_do_not_run_into_each_other(self):
        rng = np.random.default_rng(0)
        centres = np.array([-0.4219, 0.2721, -0.992, -1234.5])
        x = {"b": rng.normal(centres, [0.0143, 0.0148, 0.013, 0.9], size=(4, 200, 4))}
        panels = plots.plot_density({"coreset": x})
        panels[0].figure.canvas.draw()
        boxes = []
        for panel in panels:
            low, high = panel.get_xlim()
            for tick in panel.xaxis.get_major_ticks():
                if low <= tick.get_loc() <= high:
                    boxes.append(tick.label1.get_window_extent().padded(5))
        for i, box in enumerate(boxes):
            assert not any(box.overlaps(other) for other in boxes[:i])

    @pytest.mark.parametrize("count", some([1, 2, 5, 7, 12], 3, first=1))
    def test_spare_panels_are_removed(self, count):
        draws = {"b": np.random.default_rng(0).normal(size=(1, 100, 20))}
        panels = plots.plot_density({"full": draws}, max_parameters=count)
        assert len(panels) == len(panels[0].figure.axes) == count
        title = panels[0].figure.legends[0].get_title().get_text()
        assert title == f"first {count} of 20 parameters, choose with var_names"
        assert_nothing_clipped(panels[0].figure)

    @pytest.mark.slow
    def test_no_parameter_is_dropped_to_fill_a_grid(self):
        """Sixty panels; those after the sixtieth are counted in the legend."""
        draws = np.random.default_rng(0).normal(size=(1, 50, 61))
        panels = plots.plot_density({"full": {"b": draws[..., :60]}})
        assert [panel.get_title() for panel in panels] == [f"b[{i}]" for i in range(60)]
        assert panels[0].figure.legends[0].get_title().get_text() == ""
        plt.close(panels[0].figure)
        panels = plots.plot_density({"full": {"b": draws}})
        title = panels[0].figure.legends[0].get_title().get_text()
        assert title == "first 60 of 61 parameters, choose with var_names"

    def test_divergent_draws_are_marked(self, posteriors):
        x = np.random.default_rng(0).normal(size=(2, 100))
        diverging = np.zeros((2, 100), dtype=bool)
        diverging[0, 7] = diverging[1, [3, 50]] = True
        container = arviz_compat.posterior_container({"x": x}, {"diverging": diverging})
        panels = plots.plot_density({"coreset": container, "other": {"x": x}})
        (rug,) = [line for line in panels[0].lines if line.get_marker() == "|"]
        np.testing.assert_array_equal(rug.get_xdata(), x[diverging])
        words = [t.get_text() for t in panels[0].figure.legends[0].get_texts()]
        assert words == ["coreset", "other", "3 divergent draws of coreset"]
        assert_nothing_clipped(panels[0].figure)
        # the marks lie within the panel, whatever the densities' heights
        panels[0].figure.canvas.draw()
        assert panels[0].bbox.y0 <= rug.get_window_extent().y0
        calm = arviz_compat.posterior_container({"x": x}, {"diverging": diverging & False})
        panels = plots.plot_density({"coreset": calm})
        assert not [line for line in panels[0].lines if line.get_marker() == "|"]

    def test_on_given_axes(self, posteriors):
        figure, axes = plt.subplots(2, 4)
        panels = plots.plot_density(posteriors, ax=axes)
        assert list(panels) == list(axes.ravel()[:6])
        assert not figure.legends
        assert panels[0].get_legend() is not None
        with pytest.raises(OptionError, match="6 parameters need 6 axes, ax holds 1"):
            plots.plot_density(posteriors, ax=axes[0, 0])

    def test_weights_move_the_curve(self):
        x = np.random.default_rng(0).normal(size=(4, 1000))
        tilt = np.exp(0.8 * x.ravel())  # N(0, 1) tilted by exp(0.8 x) is N(0.8, 1)
        panels = plots.plot_density({"w": {"x": x}}, weights={"w": tilt})
        curve = max(panels[0].lines, key=lambda line: len(line.get_xdata()))
        grid, y = (np.asarray(v, float) for v in curve.get_data())
        assert trapezoid(grid * y, grid) == pytest.approx(0.8, abs=0.1)

    def test_fixed_parameter(self):
        panels = plots.plot_density({"a": {"one": np.ones((2, 50)), "x": np.eye(50)[:2]}})
        assert len(panels) == 2


@pytest.mark.parametrize("plot", [plots.plot_forest, plots.plot_density])
class TestBadPosteriors:
    def test_errors(self, plot, posteriors):
        with pytest.raises(OptionError, match="at least one posterior"):
            plot({})
        with pytest.raises(DataError, match="no parameters in common"):
            plot({**posteriors, "other": {"tau": np.zeros((4, 9))}})
        with pytest.raises(DataError, match="no parameter 'gamma'"):
            plot(posteriors, ["gamma"])
        with pytest.raises(OptionError, match="max_parameters"):
            plot(posteriors, max_parameters=0)
        bad = {"alpha": np.full((4, 50), np.nan)}
        with pytest.raises(DataError, match="NaN"):
            plot({**posteriors, "bad": bad})

    def test_no_figure_is_left_behind_by_an_error(self, plot, posteriors):
        before = plt.get_fignums()
        with pytest.raises(DataError):
            plot(posteriors, ["gamma"])
        assert plt.get_fignums() == before


@pytest.fixture
def coreset():
    rng = np.random.default_rng(1)
    rows = np.sort(rng.choice(9000, size=30, replace=False))
    return SimpleNamespace(indices=rows, weights=rng.gamma(1, 300, size=30), n_obs=9000)


class TestWeights:
    def test_sorted(self, coreset):
        ax = plots.plot_weights(coreset)
        drawn = np.asarray(ax.lines[0].get_ydata())
        np.testing.assert_allclose(drawn, np.sort(coreset.weights)[::-1])
        assert f"Σw = {coreset.weights.sum():,.0f}" in ax.get_title()
        assert all(float(tick).is_integer() for tick in ax.get_xticks())
        assert_nothing_clipped(ax.figure)

    def test_a_long_title_fits_beside_another_panel(self, coreset):
        coreset.made_of = "quadratic only, beside 25 rows of 327,346 chosen at random"
        _, (_, ax) = plt.subplots(1, 2, figsize=(9, 3), layout="constrained")
        plots.plot_weights(coreset, ax=ax)
        assert coreset.made_of in ax.get_title().replace("\n", " ")
        assert_nothing_clipped(ax.figure)

    def test_over_covariates(self, coreset):
        x = np.random.default_rng(2).normal(size=(9000, 3))
        ax = plots.plot_weights(coreset, x, columns=(0, 2))
        background, dots = ax.collections
        order = np.argsort(-coreset.weights)
        np.testing.assert_allclose(dots.get_offsets(), x[coreset.indices[order]][:, [0, 2]])
        sizes = dots.get_sizes() - 4
        np.testing.assert_allclose(
            sizes / sizes[0], (coreset.weights / coreset.weights.max())[order]
        )
        assert len(background.get_offsets()) <= 5000
        table = pd.DataFrame(x, columns=["a", "b", "c"])
        ax = plots.plot_weights(coreset, table, columns=("a", "c"))
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("a", "c")
        np.testing.assert_allclose(ax.collections[1].get_offsets(), dots.get_offsets())
        assert plots.plot_weights(coreset, table).get_ylabel() == "b"

    def test_over_principal_components(self, coreset):
        rng = np.random.default_rng(3)
        candidates = np.sort(np.union1d(coreset.indices, rng.choice(9000, 400)))
        phi = rng.normal(size=(20, 5)) @ rng.normal(size=(5, candidates.size))
        projection = SimpleNamespace(phi=phi, candidates=candidates)
        ax = plots.plot_weights(coreset, projection)
        _, s, vt = np.linalg.svd(phi, full_matrices=False)
        points = (s[:2, None] * vt[:2]).T
        places = np.searchsorted(candidates, coreset.indices[np.argsort(-coreset.weights)])
        got = np.asarray(ax.collections[1].get_offsets())
        for axis in (0, 1):  # principal components have no sign
            expected = points[places, axis]
            sign = np.sign(expected[0] * got[0, axis])
            np.testing.assert_allclose(got[:, axis], sign * expected, atol=1e-8)
        share = 100 * s[0] ** 2 / (s**2).sum()
        assert f"({share:.0f} %)" in ax.get_xlabel()
        assert_nothing_clipped(ax.figure)

    def test_errors(self, coreset):
        with pytest.raises(DataError, match="not among 100 rows"):
            plots.plot_weights(coreset, np.zeros((100, 2)))
        with pytest.raises(DataError, match="columns"):
            plots.plot_weights(coreset, np.zeros((9000, 1)))
        with pytest.raises(DataError, match="no column 'z'"):
            plots.plot_weights(coreset, pd.DataFrame({"a": np.zeros(9000)}), columns=("a", "z"))
        other = SimpleNamespace(phi=np.ones((3, 2)), candidates=np.array([1, 2]))
        with pytest.raises(DataError, match="candidates"):
            plots.plot_weights(coreset, other)
        nothing = SimpleNamespace(indices=np.array([], int), weights=np.array([]))
        with pytest.raises(DataError, match="no rows"):
            plots.plot_weights(nothing)


class TestCertificate:
    @pytest.mark.parametrize(
        ("sd", "heldout", "verdict"), [(0.02, 0.004, "certified"), (0.7, 0.3, "corrected")]
    )
    def test_title_and_counts(self, sd, heldout, verdict):
        raw = 1e4 + np.random.default_rng(0).normal(0, sd, size=1000)
        certificate = certify(raw, heldout)
        ax = plots.plot_certificate(certificate)
        share = percent(certificate.ess / 1_000)
        expected = f"{certificate.verdict}: importance efficiency {share} (1,000 draws)"
        assert ax.get_title().startswith(expected)
        assert certificate.verdict == verdict
        assert f"Pareto k̂ {certificate.khat:.2f} (requires " in ax.get_title()
        assert f"held-out error {heldout:.2g} (limit 0.1)" in ax.get_title()
        assert sum(bar.get_height() for bar in ax.patches) == 1000
        # 0 is where the mean weight lies
        left, right = ax.patches[0].get_x(), ax.patches[-1].get_x() + ax.patches[-1].get_width()
        centred = raw - raw.max()
        centred -= np.log(np.mean(np.exp(centred)))
        assert (left, right) == pytest.approx((centred.min(), centred.max()))
        assert_nothing_clipped(ax.figure)

    @pytest.mark.parametrize(("khat", "needed"), [(0.6, "90 %"), (0.65, "99.8 %"), (3.0, "99.8 %")])
    def test_the_limit_that_holds_is_named(self, khat, needed):
        certificate = replace(certify(np.linspace(0, 0.1, 500), 0.01), khat=khat)
        title = plots.plot_certificate(certificate).get_title()
        assert f"Pareto k̂ {khat:.2f} (requires {needed})" in title

    def test_a_verdict_is_explained(self):
        reasons = ("the chains are too short: the rest of the sentence", "another")
        certificate = replace(certify(np.zeros(200), 0.0), verdict="rejected", reasons=reasons)
        title = plots.plot_certificate(certificate).get_title()
        assert title.splitlines()[-1] == "the chains are too short (and 1 more)"

    @pytest.mark.slow
    def test_titles_beside_each_other_do_not_overlap(self):
        _, axes = plt.subplots(1, 3, figsize=(13.5, 3.4), layout="constrained")
        for ax, sd in zip(axes, (0.02, 0.7, 3.0), strict=True):
            plots.plot_certificate(certify(np.random.default_rng(0).normal(0, sd, 999), 0.2), ax)
        axes[0].figure.canvas.draw()
        boxes = [ax.title.get_window_extent() for ax in axes]
        assert all(left.x1 < right.x0 for left, right in pairwise(boxes))
        assert_nothing_clipped(axes[0].figure)

    def test_equal_and_zero_weights(self):
        equal = certify(np.zeros(200), 0.0)
        ax = plots.plot_certificate(SimpleNamespace(certificate=equal))
        assert sum(bar.get_height() for bar in ax.patches) == 200
        raw = np.r_[np.random.default_rng(0).normal(size=198), -np.inf, -np.inf]
        ax = plots.plot_certificate(certify(raw))
        assert "2 draws of weight zero not shown" in ax.get_title()
        assert_nothing_clipped(ax.figure)

    def test_on_given_axes(self):
        _, ax = plt.subplots()
        assert plots.plot_certificate(certify(np.zeros(200), 0.0), ax) is ax


class TestPath:
    def test_sources(self):
        trace = SimpleNamespace(trace=(1.0, 0.1, 0.01))
        sized = SimpleNamespace(trace=np.array([1.0, 0.1]), sizes=np.array([5, 9]))
        ax = plots.plot_path(trace)
        np.testing.assert_array_equal(ax.lines[0].get_xydata(), [[1, 1], [2, 0.1], [3, 0.01]])
        assert ax.get_xlabel() == "round"
        assert ax.get_legend() is None
        ax = plots.plot_path({"a": sized, "b": ([3, 4], [0.5, 0.2])})
        np.testing.assert_array_equal(ax.lines[0].get_xdata(), [5, 9])
        assert ax.get_xlabel() == "rows"
        assert [t.get_text() for t in ax.get_legend().get_texts()] == ["a", "b"]
        np.testing.assert_array_equal(
            plots.plot_path(np.array([1, 0.5])).lines[0].get_ydata(), [1, 0.5]
        )

    def test_a_coreset_that_grew_and_was_pruned(self):
        """Every line goes from left to right; the coreset is marked, and its errors are named."""
        core = SimpleNamespace(
            trace=(1.0, 0.1, 0.01, 0.05),
            sizes=(5, 9, 12, 8),
            indices=np.arange(8),
            n_obs=2_000,
            heldout_error=0.06,
        )
        ax = plots.plot_path(core)
        added, removed, ring = ax.lines
        np.testing.assert_array_equal(added.get_xydata(), [[5, 1.0], [9, 0.1], [12, 0.01]])
        np.testing.assert_array_equal(removed.get_xydata(), [[8, 0.05]])
        words = [text.get_text() for text in ax.get_legend().get_texts()]
        assert words == ["rows added", "rows removed again"]
        assert ax.get_xlabel() == "rows"
        assert ax.get_title() == "8 of 2,000 rows (ring); held-out error 0.06"
        np.testing.assert_array_equal(ring.get_xydata(), [[8, 0.05]])
        assert_nothing_clipped(ax.figure)

    @pytest.mark.parametrize("seed", range(5))
    def test_every_line_goes_from_left_to_right(self, seed):
        """Whatever an algorithm added and removed, no size appears twice on a line."""
        rng = np.random.default_rng(seed)
        sizes = np.maximum(1, np.cumsum(rng.integers(-3, 6, size=40)))
        errors = rng.random(40)
        ax = plots.plot_path(SimpleNamespace(trace=tuple(errors), sizes=tuple(sizes)))
        drawn = [tuple(point) for line in ax.lines for point in line.get_xydata()]
        assert all((np.diff(line.get_xdata()) > 0).all() for line in ax.lines)
        assert {x for x, _ in drawn} == set(sizes.tolist())
        for size in set(sizes):  # nothing better than what is drawn was found
            assert min(y for x, y in drawn if x == size) == errors[sizes == size].min()
        pair = plots.plot_path(([9, 3, 6], [0.1, 0.5, 0.2])).lines[0]
        np.testing.assert_array_equal(pair.get_xydata(), [[3, 0.5], [6, 0.2], [9, 0.1]])

    def test_a_short_logarithmic_axis_has_several_labels(self):
        ax = plots.plot_path(([1, 2, 3], [0.98, 0.7, 0.6]))
        ax.figure.canvas.draw()
        low, high = ax.get_ylim()
        ticks = ax.yaxis.get_major_ticks()
        inside = [tick for tick in ticks if low <= tick.get_loc() <= high]
        assert len([tick for tick in inside if tick.label1.get_text()]) >= 3

    def test_rounds_at_one_size_are_rounds(self):
        ax = plots.plot_path(SimpleNamespace(trace=(1.0, 0.5, 0.2), sizes=(7, 7, 7)))
        np.testing.assert_array_equal(ax.lines[0].get_xdata(), [1, 2, 3])
        assert ax.get_xlabel() == "round"

    def test_results_of_several_sizes(self):
        results = [
            SimpleNamespace(indices=np.arange(k), relative_error=1 / k, heldout_error=2 / k)
            for k in (20, 10)
        ]
        ax = plots.plot_path({"pursuit": results})
        assert [line.get_label() for line in ax.lines] == ["pursuit relative", "pursuit held-out"]
        np.testing.assert_allclose(ax.lines[1].get_xydata(), [[10, 0.2], [20, 0.1]])
        assert ax.get_yscale() == "log"
        assert_nothing_clipped(ax.figure)

    def test_errors(self):
        with pytest.raises(DataError, match="trace is empty"):
            plots.plot_path([])
        with pytest.raises(DataError, match="3 sizes but 2 errors"):
            plots.plot_path(([1, 2, 3], [0.1, 0.2]))


class TestFit:
    """A fit in one figure, as `report.html` shows it."""

    def fit(self, count, scales=1.0, diverging=False):
        rng = np.random.default_rng(0)
        names = [f"{i}_of_a_group_with_quite_a_long_name_of_its_own" for i in range(count)]

        def container(size):
            stats = {"diverging": np.zeros(size, bool)}
            stats["diverging"][0, :3] = diverging
            values = {"mu": rng.normal(size=size), "b": scales * rng.normal(size=(*size, count))}
            return arviz_compat.posterior_container(
                values, stats, dims={"b": ["group"]}, coords={"group": names}
            )

        coreset = SimpleNamespace(indices=np.arange(9), weights=np.full(9, 11.0), n_obs=99)
        own = container((4, 100))
        posteriors = {"coreset": own, "quadratic approximation": container((1, 100))}
        certificate = certify(rng.normal(0, 0.01, 400), 0.01)
        return SimpleNamespace(
            posterior=own, posteriors=posteriors, certificate=certificate, coreset=coreset
        )

    @pytest.mark.parametrize("count", some([0, 3, 4, 11], 2))
    def test_few_parameters_are_densities(self, count):
        axes = plots.plot_fit(self.fit(count, diverging=True))
        assert [ax.get_title() for ax in axes[2:]][:1] == ["mu"]
        assert len(axes) == 2 + 1 + count
        figure = axes[0].figure
        words = [text.get_text() for text in figure.legends[0].get_texts()]
        assert words[:2] == ["coreset", "quadratic approximation"]
        assert words[2] == "3 divergent draws of coreset"
        assert_nothing_clipped(figure)
        self._assert_apart(axes)

    @pytest.mark.parametrize("count", some([12, 45, 98], 3))
    @pytest.mark.parametrize("scales", ["equal", "different"])
    def test_many_are_intervals_and_none_is_missing(self, count, scales):
        scale = 1.0 if scales == "equal" else np.geomspace(1e-3, 1e3, count)
        axes = plots.plot_fit(self.fit(count, scale))
        assert len(axes) == 4
        labels = [tick.get_text() for ax in axes[2:] for tick in ax.get_yticklabels()]
        assert len(labels) == count + 1
        assert len({label.split("_")[0] for label in labels}) == count + 1
        assert ("distance" in axes[2].get_xlabel()) == (scales == "different")
        heights = [np.diff(ax.transData.transform([(0, 0), (0, 1)])[:, 1]) for ax in axes[2:]]
        assert heights[0] == pytest.approx(heights[1])
        assert axes[0].figure.legends[0].get_title().get_text() == ""
        assert_nothing_clipped(axes[0].figure)
        self._assert_apart(axes)

    @pytest.mark.slow
    def test_a_cut_is_told(self):
        fit = self.fit(300)
        axes = plots.plot_fit(fit)
        title = axes[0].figure.legends[0].get_title().get_text()
        assert title == "first 100 of 301 parameters, choose with var_names"
        assert_nothing_clipped(axes[0].figure)
        assert [ax.get_title() for ax in plots.plot_fit(fit, var_names=["mu"])[2:]] == ["mu"]
        axes = plots.plot_fit(fit, max_parameters=2)
        assert len(axes) == 4
        title = axes[0].figure.legends[0].get_title().get_text()
        assert title == "first 2 of 301 parameters, choose with var_names"
        with pytest.raises(DataError, match="no parameter 'gamma'"):
            plots.plot_fit(fit, var_names=["gamma"])

    @staticmethod
    def _assert_apart(axes):
        axes[0].figure.draw_without_rendering()
        boxes = [ax.get_tightbbox() for ax in axes]
        boxes.append(axes[0].figure.legends[0].get_window_extent())
        for i, box in enumerate(boxes):
            for other in boxes[:i]:
                across = min(box.x1, other.x1) - max(box.x0, other.x0)
                up = min(box.y1, other.y1) - max(box.y0, other.y0)
                assert across <= 2 or up <= 2, (box, other)


def test_doctests():
    for module in (plots.coresets, plots.posteriors):
        assert doctest.testmod(module).failed == 0
