"""Names that a user may give, as types: each `Literal` is the list that is looked into."""

from __future__ import annotations

import argparse
from contextlib import suppress
from typing import get_args

import numpy as np
import pytest

import stancoreset as sc
from stancoreset.cli.options import add_fit_options
from stancoreset.engines import ENGINES, EngineName
from stancoreset.fit import Method, ProjectionName
from stancoreset.fit.plan import BEYOND, GAUSSIAN, PROJECTIONS
from stancoreset.posterior import VERDICT_COLORS, Verdict
from stancoreset.program import PassesName
from stancoreset.program.passes import PASSES
from stancoreset.reference import ReferenceName
from stancoreset.reference.methods import METHODS as REFERENCES
from stancoreset.selection.in_the_loop import InTheLoopName
from stancoreset.selection.solvers import SolverName


@pytest.mark.parametrize(
    ("names", "known"),
    [
        (SolverName, sc.solvers.METHODS),
        (InTheLoopName, sc.in_the_loop.METHODS),
        (ReferenceName, REFERENCES),
        (EngineName, ENGINES),
        (PassesName, PASSES),
        (ProjectionName, {*PROJECTIONS, *BEYOND}),
        (Method, {*sc.solvers.METHODS, *sc.in_the_loop.METHODS, "auto", GAUSSIAN}),
        (Verdict, VERDICT_COLORS),
    ],
)
def test_a_literal_is_the_list(names, known):
    assert sorted(get_args(names)) == sorted(known)


@pytest.mark.parametrize("engine", get_args(EngineName))
def test_every_engine_is_known(engine):
    """PreviousChains, whether it is installed or not: only another name is an `OptionError`."""
    with suppress(sc.errors.EngineNotFoundError):
        assert sc.engines.resolve_engine(engine).name in get_args(EngineName)


@pytest.mark.parametrize("verdict", get_args(Verdict))
def test_every_verdict_is_given(verdict):
    spread = {"certified": 0.01, "corrected": 0.5, "rejected": 5.0}[verdict]
    draws = spread * np.random.default_rng(0).standard_normal(1000)
    assert sc.certify(draws, heldout_error=0.01).verdict == verdict


@pytest.mark.parametrize(
    ("option", "names"),
    [("engine", EngineName), ("reference", ReferenceName), ("projection", ProjectionName)],
)
def test_the_command_line_takes_every_name(option, names):
    parser = argparse.ArgumentParser()
    add_fit_options(parser, out="run")
    for name in get_args(names):
        assert getattr(parser.parse_args([f"--{option}", name]), option) == name
