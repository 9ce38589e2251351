"""Every density of Stan and its functions, in stanli beside genuine Stan math: values, gradients.

A campaign for a new stanli or a new Stan, see .github/CONTRIBUTING.md. Programs of 75 terms, each
chosen by a number in the data, are compiled against the real headers, and both engines evaluate
each term at interior, border and extreme points. `differential/known.csv` says what differs in
which versions, by how much at most, how far in, and what follows; what is not there fails, and so
does what is there without being seen any longer. Lines of `differences` are gradients that differ
from differences of stanli's own values, mostly as Stan's own do.
"""

from __future__ import annotations

import csv
import re
import subprocess
from functools import lru_cache
from pathlib import Path

import pytest

pytest.importorskip("stanli")

import stanli
from differential import compare
from differential.terms import TERMS, code_of

from stancoreset.engines import resolve_engine
from stancoreset.errors import EngineError
from stancoreset.stan.syntax import find_stanc

HERE = Path(__file__).parent
#: Relative difference, of value and gradient, that rounding explains.
ROUNDING = 1e-8
#: That of a gradient from differences of values.
BY_DIFFERENCES = 5e-5
#: What follows from a difference.
DECISIONS = {"repaired", "refused", "no fit depends on it", "the guide says what to write"}


@lru_cache
def known() -> list[dict[str, str]]:
    with (HERE / "differential" / "known.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def signatures(stanc: Path) -> set[str]:
    """Names of all functions that a stanc knows."""
    command = [str(stanc), "--dump-stan-math-signatures"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {line.split("(")[0] for line in listed.splitlines()}


def test_every_density_and_150_functions_have_a_term():
    functions = signatures(find_stanc())
    used = set[str]().union(*map(compare.names_in, TERMS.values()))
    densities = {name for name in functions if re.search("_(lpdf|lpmf|cdf|lcdf|lccdf)$", name)}
    assert densities - used == set()
    assert len(densities) > 160
    assert len((functions - densities) & used) >= 150


def test_each_known_difference_has_a_decision_and_a_test():
    for row in known():
        assert row["decision"] in DECISIONS, row
        assert row["why"], row
        assert row["term"] in TERMS or not row["at_most"], row
        assert row["region"] in (*compare.REGIONS, ""), row
        file, _, name = row["test"].partition("::")
        text = (HERE / file).read_text(encoding="utf-8")
        assert re.search(rf"def {name}\b", text), row


def test_what_stanli_lacks_is_refused_by_name():
    lacking = [row for row in known() if row["decision"] == "refused"]
    if stanli.__version__ not in {row["stanli"] for row in lacking}:
        pytest.skip("the table has another stanli")
    engine, functions = resolve_engine("stanli", 1), signatures(find_stanc())
    for row in lacking:
        if not compare.names_in(row["term"]) <= functions:
            continue
        with pytest.raises(EngineError, match=r"stanli cannot run 'term': .*; use CmdStan"):
            engine.compile(code_of([TERMS[row["term"]]]), name="term").bind({"k": 1, "n": 0})


@pytest.mark.slow
@pytest.mark.cmdstan
@pytest.mark.parametrize("part", range(-(-len(TERMS) // compare.A_PROGRAM)))
def test_every_term_agrees_with_stan_math(part, cmdstan):
    major, minor = resolve_engine("cmdstan", 1).stan_version
    stan = f"{major}.{minor}"
    terms = [*compare.terms_of(signatures(cmdstan / "bin" / "stanc")).items()]
    together = dict(terms[part * compare.A_PROGRAM :][: compare.A_PROGRAM])
    found = {apart.term: apart for apart in compare.compared(together)}
    seen = {name: apart for name, apart in found.items() if not apart.most <= ROUNDING}
    listed = {
        row["term"]: row
        for row in known()
        if row["term"] in together
        and row["stanli"] == stanli.__version__
        and stan in row["stan"].split()
    }
    new = [a.line(stan) for name, a in seen.items() if not as_known(a, listed.get(name))]
    assert not new, "not in known.csv:\n" + "\n".join(new)
    assert listed.keys() <= seen.keys(), f"no longer apart: {listed.keys() - seen.keys()}"


@pytest.mark.slow
def test_every_gradient_is_that_of_the_values():
    """What both engines have wrong alike: derivatives of distribution functions, above all."""
    functions, seen = signatures(find_stanc()), {}
    lacking = {row["term"] for row in known() if row["decision"] == "refused"}
    for name, term in compare.terms_of(functions).items():
        if name in lacking or " at " in name or compare.IN_STEPS.search(name):
            continue
        apart = compare.from_differences(name, term)
        if apart.most > BY_DIFFERENCES:
            seen[name] = apart
    rows = [row for row in known() if row["stan"] == "differences"]
    listed = {row["term"]: row for row in rows if row["stanli"] == stanli.__version__}
    new = [
        apart.line("differences")
        for name, apart in seen.items()
        if not as_known(apart, listed.get(name), BY_DIFFERENCES)
    ]
    assert not new, "not in known.csv:\n" + "\n".join(new)
    assert listed.keys() <= seen.keys(), f"no longer apart: {listed.keys() - seen.keys()}"


def as_known(apart: compare.Apart, row: dict[str, str] | None, rounding: float = ROUNDING) -> bool:
    """Whether a term is as far apart as its row says, and only so far out."""
    if row is None or apart.refused:
        return row is not None and row["decision"] == "refused"
    regions = [*compare.REGIONS]
    return all(
        off <= (float(row["at_most"]) if number >= regions.index(row["region"]) else rounding)
        for number, off in enumerate(apart.by_region.values())
    )
