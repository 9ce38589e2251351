"""What the records say: verdicts, times, faults, and whether ranks are uniform.

Ranks of one fit depend on each other: the effects of groups move with their mean and scale. So each
test is made twice: of all ranks, and of one that is drawn from each fit, which are independent.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import kstest

from calibration.sbc import DRAWS, uniformity

from .case import CASES, KINDS_OF_PARAMETER
from .fit import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["picture", "pooled", "report"]

VERDICTS = ("certified", "corrected", "rejected", "refused", "crashed", "unfinished")
_FURTHEST = 10
_BINS = 10
_SHOWN = 20  # fits, of which a distribution shows something


def pooled(records: Iterable[Record]) -> dict[tuple[str, str], list[list[int]]]:
    """(verdict, kind of parameter) → the ranks of each fit; ``all`` kinds together, too."""
    found: dict[tuple[str, str], list[list[int]]] = {}
    for record in records:
        if not record.ranked:
            continue
        of_kind: dict[str, list[int]] = {}
        for label, rank in record.ranks.items():
            kind = CASES[record.program].parameters[label.partition("[")[0]]
            of_kind.setdefault(kind, []).append(rank)
        for kind, ranks in {**of_kind, "all": list(record.ranks.values())}.items():
            if ranks:
                found.setdefault((record.verdict, kind), []).append(ranks)
    return found


def one_of_each(fits: Sequence[Sequence[int]], seed: int) -> np.ndarray:
    """A rank of each fit."""
    rng = np.random.default_rng(seed)
    return np.array([ranks[rng.integers(len(ranks))] for ranks in fits])


def deviation(ranks: np.ndarray, seed: int) -> tuple[float, float]:
    """Largest deviation of the empirical distribution from the uniform one, and its p value."""
    u = (ranks + np.random.default_rng(seed).random(len(ranks))) / (DRAWS + 1)
    found = kstest(u, "uniform")
    return float(found.statistic), float(found.pvalue)


def report(records: Sequence[Record]) -> str:
    """The tables, as Markdown."""
    parts = [_verdicts(records), _by_kind(records), _ranks(records), _faults(records)]
    return "\n\n".join([*parts, _not_certified(records), _furthest(records)])


def _table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    return "\n".join(lines + [f"| {' | '.join(map(str, row))} |" for row in rows])


def _verdicts(records: Sequence[Record]) -> str:
    head = ["data sets", "fits", *VERDICTS, "median s", "slowest s", "median MB"]
    ways = sorted({r.awkward for r in records})
    groups = [(way or "ordinary", [r for r in records if r.awkward == way]) for way in ways]
    rows = [[name, *_counts(group), *_costs(group)] for name, group in [*groups, ("all", records)]]
    return _table(head, rows)


def _by_kind(records: Sequence[Record]) -> str:
    head = ["kind", "programs", "fits", *VERDICTS, "median s"]
    rows = []
    for kind in sorted({r.kind for r in records}):
        group = [r for r in records if r.kind == kind]
        rows.append([kind, len({r.program for r in group}), *_counts(group), _costs(group)[0]])
    return _table(head, rows)


def _counts(records: Sequence[Record]) -> list[int]:
    found = Counter(r.verdict for r in records)
    return [len(records), *(found[verdict] for verdict in VERDICTS)]


def _costs(records: Sequence[Record]) -> list[str]:
    seconds = [r.processor_seconds for r in records] or [np.nan]
    megabytes = [r.megabytes for r in records if r.megabytes] or [np.nan]
    return [f"{median(seconds):.1f}", f"{max(seconds):.0f}", f"{median(megabytes):.0f}"]


def _ranks(records: Sequence[Record]) -> str:
    head = ["verdict", "parameters", "fits", "ranks", "χ² p", "deviation", "p"]
    head += ["one of each fit: χ² p", "deviation", "p"]
    found = pooled(records)
    rows = []
    for verdict in VERDICTS[:3]:
        for kind in (*KINDS_OF_PARAMETER, "all"):
            fits = found.get((verdict, kind), [])
            if not fits:
                continue
            seed = zlib.crc32(f"{verdict} {kind}".encode())
            all_ranks, single = np.concatenate(fits), one_of_each(fits, seed)
            tests = []
            for ranks in (all_ranks, single):
                largest, p = deviation(ranks, seed)
                tests += [f"{uniformity(ranks, _BINS):.3f}", f"{largest:.3f}", f"{p:.3f}"]
            rows.append([verdict, kind, len(fits), len(all_ranks), *tests])
    return _table(head, rows)


def _faults(records: Sequence[Record]) -> str:
    found = Counter((r.verdict, fault) for r in records for fault in r.faults)
    return _table(["verdict", "fault", "fits"], [[*key, n] for key, n in found.most_common()])


def _not_certified(records: Sequence[Record]) -> str:
    head = ["program", "data set", "awkward", "verdict", "s", "why"]
    rows = [
        [r.program, r.dataset, r.awkward or "no", r.verdict, f"{r.processor_seconds:.0f}", _why(r)]
        for r in sorted(records, key=lambda r: (VERDICTS.index(r.verdict), r.program, r.dataset))
        if r.verdict != "certified"
    ]
    return _table(head, rows)


def _why(record: Record) -> str:
    words = ", ".join(record.faults) or (record.reasons or [""])[0][:160]
    return words.replace("|", "/").replace("\n", " ")


def _furthest(records: Sequence[Record]) -> str:
    """Of handed-out posteriors, the true values that are furthest from the mean."""
    head = ["program", "data set", "verdict", "parameter", "truth in sds from the mean"]
    found = [
        (abs(z), [r.program, r.dataset, r.verdict, label, z])
        for r in records
        if r.ranked and r.verdict in VERDICTS[:2]
        for label, z in r.furthest.items()
    ]
    return _table(head, [row for _, row in sorted(found, key=lambda pair: -pair[0])[:_FURTHEST]])


def picture(records: Sequence[Record]) -> Figure:
    """Empirical distributions of the ranks of certified fits, less the uniform one."""
    from matplotlib.figure import Figure

    found = pooled(records)
    of_kind = {kind: found.get(("certified", kind), []) for kind in KINDS_OF_PARAMETER}
    shown = {kind: fits for kind, fits in of_kind.items() if len(fits) >= _SHOWN}
    figure = Figure(figsize=(2.2 * max(1, len(shown)), 2.6), layout="constrained")
    panels = figure.subplots(1, max(1, len(shown)), sharex=True, sharey=True, squeeze=False)[0]
    grid = np.arange(DRAWS + 2) / (DRAWS + 1)
    for axes, (kind, fits) in zip(panels, shown.items(), strict=False):
        ranks = np.concatenate(fits)
        below = np.searchsorted(np.sort(ranks), np.arange(-1, DRAWS + 1), side="right")
        # Ranks of one fit depend on one another: the band is that of one rank a fit.
        band = 3.3 * np.sqrt(grid * (1 - grid) / len(fits))
        axes.fill_between(grid, -band, band, color="0.9")
        axes.axhline(0, color="0.6", linewidth=0.8)
        axes.plot(grid, below / len(ranks) - grid)
        axes.set_title(f"{kind}: {len(ranks):,} ranks, {len(fits)} fits", fontsize="small")
        axes.set_xticks([0, 0.5, 1])
    panels[0].set_ylabel("empirical less uniform")
    figure.supxlabel("rank of the true value, as a share", fontsize="medium")
    return figure
