"""The report of a `CoresetFit`: as Markdown, as one HTML page with pictures, as a card."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

from stancoreset.checks import is_number, is_whole
from stancoreset.posterior import (
    VERDICT_COLORS,
    card,
    leaves_no_doubt,
    percent,
    picture,
    plots,
)
from stancoreset.posterior.arviz import variables_of
from stancoreset.program import certificate_of_gaussian
from stancoreset.runs.round import FIRST
from stancoreset.selection import QUADRATIC_ONLY

if TYPE_CHECKING:
    import pandas as pd

# Dots per inch of the page's picture.
_DPI = 90
# Largest number of scalars in the table of parameters, for each of which ArviZ takes milliseconds.
_IN_TABLE = 1_000


#: What the files of a run's folder hold.
FILES = {
    "report.html": "this report with pictures, one page that needs no other file",
    "report.md": "this report as text",
    "report.json": "this report as values, for scripts",
    "coreset.csv": "the rows from 0, their weights, what each tells in nats, and their data",
    "coreset.json": "how they were selected",
    "coreset.npz": "the quadratic that completes them",
    "model.stan": "the Stan program",
    "coreset_data.json": "the coreset's rows as data of the weighted program",
    "posterior.nc": "draws of the coreset posterior, for `arviz.from_netcdf`",
    "chain_1.csv, …": "draws of each chain and generated quantities as CmdStan writes them, if "
    "they were asked for",
    "laplace.nc": "draws of the reference, where the log likelihood was matched",
    "reference.npz": "the reference's draws on the unconstrained scale",
    "certificate.csv": "draws that were evaluated on the full data, with their importance weights",
    "marginals.csv": "what the full data change of each of many parameters' means and sds",
    "comparison.csv": "coreset posterior and reference, parameter by parameter; this file and the "
    "pictures come with a run of the command line",
    "density.png": "their marginal densities",
    "forest.png": "their intervals",
    "weights.png": "the coreset's weights",
    "certificate.png": "the log importance weights",
    "full.nc": "NUTS draws on all rows, if they were asked for",
    "thinned.nc": "few weighted draws, if a batch was to keep them",
    "checksums.txt": "checksums of these files",
}

# Files of a run's folder that a fit without a coreset does not have.
_OF_ROWS = ("coreset.csv", "coreset.json", "coreset.npz", "coreset_data.json", "weights.png")

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 72em; margin: 2em auto; padding: 0 1em; }}
table {{ border-collapse: collapse; margin: 1em 0; display: block; overflow-x: auto; }}
th, td {{ padding: 0.15em 0.8em; text-align: left; border-bottom: 1px solid #ddd; }}
td {{ font-variant-numeric: tabular-nums; }}
code, td:first-child {{ white-space: pre-wrap; }}
h1 {{ font-size: 1.5em; }} h2 {{ font-size: 1.2em; margin-top: 2em; }}
</style>
</head>
<body>
{body}
</body>
</html>
"""


@dataclass(frozen=True)
class Shown:
    """The parts of a report that take time: made once, whatever forms of it are written.

    `left_out` has the number of scalars of each variable that the summary leaves out.
    """

    summary: pd.DataFrame
    image: str
    left_out: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, fit: Any) -> Shown:
        """Draw a fit's picture, and summarise its posterior."""
        from matplotlib.figure import Figure

        figure = Figure()
        plots.plot_fit(fit, figure)
        words = "Importance weights, coreset weights, and the parameters' marginals"
        kept, left_out = _for_table(fit.posterior)
        summary = fit.summary(kept if left_out else None)
        return cls(summary, picture(figure, words, dpi=_DPI), left_out)


def _for_table(posterior: Any) -> tuple[list[str], dict[str, int]]:
    """Variables for a table of at most `_IN_TABLE` scalars, and the sizes of larger ones.

    The smallest variables come first, the smallest of all whatever its size.
    """
    sizes = {name: draws[0, 0].size for name, draws in variables_of(posterior).items()}
    kept: set[str] = set()
    total = 0
    for name in sorted(sizes, key=lambda one: sizes[one]):
        total += sizes[name]
        if total <= _IN_TABLE or not kept:
            kept.add(name)
    left_out = {name: size for name, size in sizes.items() if name not in kept}
    return [name for name in sizes if name in kept], left_out


def markdown(fit: Any, shown: Shown) -> str:
    """The report in prose and tables."""
    certificate = fit.certificate
    lines = [
        f"# {_title(fit)}",
        "",
        f"**{certificate.verdict}**: {fit.made_of}",
        "",
        *(f"- {reason}" for reason in certificate.reasons),
        "",
        *markdown_table(("", ""), ((name, text) for name, text in _facts(fit) if text)),
        *_sections(fit, shown),
    ]
    return "\n".join(lines) + "\n"


def page(fit: Any, shown: Shown) -> str:
    """The report as one HTML page, pictures included."""
    from markdown_it import MarkdownIt

    render = MarkdownIt("commonmark", {"html": False}).enable("table").render
    body = [
        f"<h1>{escape(_title(fit))}</h1>",
        _card(fit),
        shown.image,
        render("\n".join(_sections(fit, shown))),
    ]
    return _PAGE.format(title=escape(_title(fit)), body="\n".join(body))


def card_of(fit: Any) -> str:
    """A notebook's card: the verdict, what it was made from, times, and a small picture."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2, 3.0), layout="constrained")
    plots.plot_certificate(fit, figure.subplots())
    return _card(fit, picture(figure, "Log importance weights of the coreset's draws"))


def _card(fit: Any, image: str = "") -> str:
    certificate = fit.certificate
    stages = sorted(fit.timings.items(), key=lambda stage: -stage[1])
    times = ", ".join(f"{name} {seconds:.1f}" for name, seconds in stages[:5])
    return card(
        f"{fit.made_of}, {fit.seconds:.1f}\N{NO-BREAK SPACE}s",
        [*_facts(fit), ("seconds", times)],
        verdict=certificate.verdict,
        color=VERDICT_COLORS[certificate.verdict],
        notes=certificate.reasons,
        image=image,
    )


def _title(fit: Any) -> str:
    what = "Gaussian posterior" if fit.selected is None else "Coreset posterior"
    what = "Posterior" if fit.reference.is_integrated else what
    return f"{what} of {fit.provenance.get('program', 'a Stan program')}"


def _facts(fit: Any) -> list[tuple[str, str]]:
    """The certificate's numbers, followed by predicted efficiency and evidence."""
    predicted = None if fit.selected is None else fit.selected.predicted_ess
    expected = "" if predicted is None else percent(predicted)
    return [
        *fit.certificate.facts(),
        ("efficiency predicted before NUTS", expected),
        ("evidence", "" if fit.evidence is None else str(fit.evidence)),
    ]


def _sections(fit: Any, shown: Shown) -> Iterator[str]:
    """Lines of Markdown below the verdict and what it was made from."""
    if fit.certificate.witness:
        yield from ("", f"Witness of the full log density: {fit.certificate.witness}.")
    coreset = fit.selected
    yield from ("", f"Way: {fit.way}.")
    if coreset is not None and coreset.method == QUADRATIC_ONLY:
        yield from (
            "",
            "No row was selected: these are random ones, each with the weight that it has in the "
            "data, and the quadratic stands for all others.",
        )
    if fit.reference.unsettled:
        yield from (
            "",
            f"The log likelihood is matched at draws of another reference ({fit.reference.label}), "
            f"because those of prior × quadratic could not be used: {fit.reference.unsettled}.",
        )
    if fit.reference.by_chains:
        yield from (
            "",
            "Draws of prior × quadratic were made by NUTS, not independently: "
            f"{fit.reference.by_chains}.",
        )
    yield from _enough(fit)
    yield from _rounds(fit)
    yield from ("", "## Parameters", "")
    summary = shown.summary
    yield from markdown_table(("parameter", *summary.columns), summary.itertuples())
    if shown.left_out:
        names = ", ".join(f"`{name}` ({size:,})" for name, size in shown.left_out.items())
        yield from ("", f"Not in this table, which would be long: {names}; see `fit.summary()`.")
    yield from ("", "## Times and passes", "")
    times = [(name, f"{seconds:.2f}") for name, seconds in fit.timings.items()]
    yield from markdown_table(("stage", "seconds"), [*times, ("all", f"{fit.seconds:.2f}")])
    yield from ("", *_passes(fit))
    if fit.weaving:
        yield from ("", "## How each statement is weighted", "")
        rows = [(e["line"], f"`{e['statement']}`", e["role"], e["why"]) for e in fit.weaving]
        yield from markdown_table(("line", "statement", "role", "why"), rows)
    yield from ("", "## Provenance", "")
    yield from markdown_table(("", ""), fit.provenance.items())
    yield from ("", "## Files of this folder", "")
    yield from markdown_table(("file", "content"), _files(fit).items())


def _enough(fit: Any) -> Sequence[str]:
    """Whether draws of a Gaussian are enough: instead of rows, or where there are none."""
    if fit.reference.is_integrated:
        return []
    if fit.selected is None and fit.certificate.verdict == "rejected":
        return [
            "",
            "A Gaussian is not near enough to this posterior. A fit with rows, which is any other "
            "`method`, follows the prior exactly, and NUTS its funnels and boundaries.",
        ]
    own = None if fit.selected is None else certificate_of_gaussian(fit.reference)
    if own is None or not leaves_no_doubt(own):
        return []
    return [
        "",
        f"The {fit.reference.label} alone would have been enough: the weights of its "
        f"{own.n_draws:,} draws meet the same rule, with an importance efficiency of "
        f'{percent(own.efficiency)}. `method="gaussian"` uses such draws, without rows or NUTS.',
    ]


def _files(fit: Any) -> dict[str, str]:
    """Descriptions of the files in the fit's folder; a Gaussian has none about rows."""
    if fit.selected is not None:
        return FILES
    about = {name: text for name, text in FILES.items() if name not in _OF_ROWS}
    of = "posterior" if fit.reference.is_integrated else "Gaussian"
    return {**about, "posterior.nc": f"draws of the {of}, for `arviz.from_netcdf`"}


def _rounds(fit: Any) -> Sequence[str]:
    if len(fit.rounds) < 2 and all(r.words == FIRST for r in fit.rounds):
        return []
    heads = (
        "round", "what was tried", "rows", "held-out error", "k̂", "efficiency", "draws of NUTS",
        "mcse of a mean, of an sd", "verdict", "s",
    )  # fmt: skip
    rows = [
        (
            r.round, r.words, r.size, f"{r.heldout_error:.2g}", f"{r.khat:.2f}",
            percent(r.ess / max(1, r.n_draws)), f"{r.n_transitions:,}",
            f"{r.mcse_mean:.2g}, {r.mcse_sd:.2g}", r.verdict, f"{r.seconds:.1f}",
        )
        for r in fit.rounds
    ]  # fmt: skip
    return ["", "## Rounds", "", *markdown_table(heads, rows)]


def _passes(fit: Any) -> list[str]:
    passes = fit.passes
    reads, distinct = passes.get("reads"), passes.get("distinct_rows")
    lines = [
        f"Full-data evaluations: {passes.get('densities', 0)} log densities, "
        f"{passes.get('gradients', 0)} gradients"
        + ("." if reads is None else f"; the rows were read {reads} times.")
    ]
    cost: Any = passes.get("cost")
    nuts: Any = passes.get("nuts_gradients")
    if is_number(cost) and cost > 0:
        lines.append(
            "Everything that was evaluated on rows, candidates and subsamples in proportion, costs "
            f"at most as much as {cost:,.0f} gradients of all rows."
        )
        if is_whole(nuts):
            lines[-1] += (
                f" NUTS took {nuts:,} gradients of the coreset after warm-up; as many draws from "
                "all rows would take about as many gradients of all rows, "
                f"{nuts / cost:,.1f} times as much."
            )
    if "likelihood" in passes:
        lines.append(f"Likelihood: {passes['likelihood']}.")
    if "engines" in passes:
        lines.append(f"Stan evaluated by: {passes['engines']}.")
    if distinct is not None:
        lines.append(f"Only {distinct:,} rows are different: equal rows were evaluated once.")
    return lines


def markdown_table(heads: Iterable[object], rows: Iterable[Iterable[Any]]) -> list[str]:
    """Lines of a table in Markdown; unknown values are left empty."""

    def cell(value: Any) -> str:
        if value is None or value != value:
            return ""
        text = f"{value:.4g}" if isinstance(value, float) else str(value)
        return " ".join(text.replace("|", r"\|").split())

    names = [*map(str, heads)]
    lines = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    return lines + [f"| {' | '.join(map(cell, row))} |" for row in rows]
