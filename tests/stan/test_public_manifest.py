"""What is told of the share of public programs that weave is what their manifest lists."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

MANIFEST = Path(__file__).with_name("public_manifest.csv")
PAGE = Path(__file__).parents[2] / "notebooks" / "benchmarks.md"


def test_the_shares_are_those_of_the_manifest():
    with MANIFEST.open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    found: Counter[str] = Counter()
    woven = 0
    for line in lines:
        programs = len(line["paths"].split("; "))
        found[line["kind"]] += programs
        woven += programs * line["verdict"].startswith("woven")
    rows, every = found["rows"], found.total()
    repositories = len({line["repository"] for line in lines})
    told = " ".join(PAGE.read_text(encoding="utf-8").split())
    assert f"Of {every} programs of {repositories} public repositories" in told
    assert f"{rows} have rows that are independent" in told
    assert f"{woven} of these weave ({round(100 * woven / rows)} %)" in told
    for kind in found.keys() - {"rows"}:
        assert f"({found[kind]})" in told
    assert woven >= 0.95 * rows
