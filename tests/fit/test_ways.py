"""The ways of a default fit: few, and all that its decisions can lead to."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, get_args

import numpy as np
import pytest
from problems import GROUPED_CODE, grouped_data, logistic_data
from seeds import reseeded

import stancoreset as sc
from stancoreset.engines import NUTS
from stancoreset.errors import ReferenceFitError
from stancoreset.fit import iterating, selecting, steps
from stancoreset.fit.iterating import ReferenceIteration
from stancoreset.policy import DEFAULT
from stancoreset.reference import Reference
from stancoreset.reference.base import GaussianFit
from stancoreset.runs.ways import (
    ReferenceKind,
    RowsKind,
    VerdictKind,
    Way,
    kind_of_reference,
    kind_of_rows,
    way_of,
)
from stancoreset.selection import QUADRATIC_ONLY, Coreset

YES_OR_NO = (False, True)


def is_possible(way: Way) -> bool:
    """Whether a default fit can go this way."""
    if way.rows == "no rows" or way.reference == "integrals":  # else method="gaussian"
        return (way.rows, way.reference, way.verdict) == ("no rows", "integrals", "weights")
    if "all rows" in (way.reference, way.rows):
        return way.reference == way.rows == "all rows" and way.verdict == "weights"
    if way.reference == "Laplace fit":
        return way.rows != "rows for each group" and way.verdict == "weights"
    return way.reference != "unsettled reference" or way.verdict == "weights"


#: All ways of a default fit.
WAYS = tuple(
    way
    for reference in get_args(ReferenceKind)
    for rows in get_args(RowsKind)
    for verdict in get_args(VerdictKind)
    if is_possible(way := Way(reference, rows, verdict))
)


def reference(method: str, **about: Any) -> Reference:
    draws = np.zeros((4, 1))
    gaussian = GaussianFit(np.zeros(1), np.eye(1))
    values = np.zeros(4)
    return Reference(method, draws, ("a",), 1, gaussian, values, values, **about)


def coreset(method: str) -> Coreset:
    return Coreset(np.zeros(1, dtype=int), np.ones(1), 10, method, 0.0, 0.0)


def references(monkeypatch) -> Iterator[Reference]:
    """All references that the decisions of `ReferenceIteration.find` lead to, one by one."""
    decisions = (
        "integrates",
        "scaled",
        "collapses",
        "exists",
        "few",
        "climbs",
        "good",
        "settles",
        "agree",
    )
    for answers in itertools.product(YES_OR_NO, repeat=len(decisions)):
        is_so = SimpleNamespace(**dict(zip(decisions, answers, strict=True)))

        def made(answer: bool, found: Reference) -> Reference:
            if not answer:
                raise ReferenceFitError("there is none")
            return found

        laplace = reference("laplace")
        chains = reference("settled", by_chains="there is none")
        if is_so.good:
            from_reference = laplace
        elif is_so.settles:
            from_reference = chains
        else:
            from_reference = reference("laplace", unsettled="it leaves 9")
        monkeypatch.setattr(ReferenceIteration, "_are_scaled", is_so.scaled)
        monkeypatch.setattr(
            iterating,
            "collapsed_reference",
            lambda *_, so=is_so: made(so.collapses, reference("settled")),
        )
        monkeypatch.setattr(ReferenceIteration, "_may_integrate", is_so.integrates)
        monkeypatch.setattr(ReferenceIteration, "_are_at_hand", is_so.integrates)
        monkeypatch.setattr(iterating, "integrated_reference", lambda *_: reference("integrated"))
        monkeypatch.setattr(iterating, "are_few", lambda _, so=is_so: so.few)
        monkeypatch.setattr(
            ReferenceIteration,
            "_from_likelihood",
            lambda *_, so=is_so, c=chains: made(so.climbs, c),
        )
        monkeypatch.setattr(ReferenceIteration, "from_reference", lambda *_, f=from_reference: f)
        monkeypatch.setattr(iterating, "fit_reference", lambda *_: reference("pilot"))
        monkeypatch.setattr(iterating, "stand_for_themselves", lambda *_, so=is_so: so.agree)
        session: Any = SimpleNamespace()
        session.likelihood = session
        full: Any = SimpleNamespace()
        start = ReferenceIteration(session, {}, full, NUTS(), 1, 100, DEFAULT)
        try:
            yield start.find(
                lambda so=is_so, found=laplace: made(so.exists, found),
                collapses=True,
                integrates=True,
            )
        except ReferenceFitError:  # the fit ends with an error, or a further reference
            continue


def rows(monkeypatch) -> Iterator[Coreset]:
    """All coresets that the decisions of `select_unprojected` lead to, one by one."""
    decisions = ("alone", "grouped", "enough")
    for answers in itertools.product(YES_OR_NO, repeat=len(decisions)):
        is_so = SimpleNamespace(**dict(zip(decisions, answers, strict=True)))
        grouped = SimpleNamespace(hubs=None) if is_so.grouped else None
        view: Any = SimpleNamespace(
            reference=SimpleNamespace(gaussian=SimpleNamespace(blocks=grouped))
        )
        plan = SimpleNamespace(
            warn_of_groups=lambda _: None, is_gaussian=False, selects_by_group=True
        )
        here: Any = SimpleNamespace(plan=plan, stages=_Stage, checked={})
        found = coreset("local") if is_so.enough else None
        for name, made in (
            ("stands_alone", is_so.alone),
            ("quadratic_only", coreset(QUADRATIC_ONLY)),
            ("select_by_group", found),
        ):
            monkeypatch.setattr(selecting, name, lambda *_, made=made: made)
        selected = selecting.select_unprojected(here, view, None)  # type: ignore[arg-type]
        yield coreset("pursuit") if selected is None else selected


class _Stage:
    def __init__(self, _: str) -> None:
        pass

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


def test_there_are_at_most_twenty_ways():
    assert len(set(WAYS)) == len(WAYS) <= 20


def test_decisions_lead_to_the_references_of_the_ways_and_no_other(monkeypatch):
    found = {kind_of_reference(one) for one in references(monkeypatch)}
    assert found == {way.reference for way in WAYS} - {"all rows"}


def test_decisions_lead_to_the_rows_of_the_ways_and_no_other(monkeypatch):
    found = {kind_of_rows(one) for one in rows(monkeypatch)}
    assert found == {way.rows for way in WAYS} - {"all rows", "no rows"}
    assert kind_of_rows(steps.all_rows(_full(), reference("laplace"))) == "all rows"


def _full() -> Any:
    return SimpleNamespace(n_obs=3, row_numbers=None, weights_at=np.ones_like)


@pytest.mark.fit
def test_fits_go_one_of_the_ways():
    ways = []
    logistic = sc.stan_model_path("logistic").read_text()
    for code, data in (
        (logistic, logistic_data(5_000)),
        (GROUPED_CODE, grouped_data(12, 3_000)[0]),
    ):
        with sc.CoresetModel(stan_code=code, engine="stanli") as model:
            fit = model.fit(data, seed=reseeded(1), max_rounds=1, iter_sampling=300)
        ways.append(way_of(fit.reference, fit.coreset, fit.certificate))
        assert ways[-1] == fit.way
        assert fit.report()["way"] == str(fit.way)
    assert set(ways) <= set(WAYS)
    assert {way.reference for way in ways} == {"Laplace fit", "collapsed sampler"}
