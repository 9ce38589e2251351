"""Woven programs in CmdStan itself, so that the embedded engine is not their only witness.

The fixtures stand side by side in one program, each with names of its own: the log density is the
sum of theirs, and each entry of its gradient belongs to one of them. So two executables serve for
all: the authors' programs, whose rows are repeated by hand, and the woven ones with weights. They
take some three minutes of processor time to compile.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

pytest.importorskip("stanli")
pytest.importorskip("bridgestan")

from weave_data import obs_of
from weave_repeated import REPEATED, Repeated, repeated

from stancoreset import CoresetModel
from stancoreset.engines.base import Float
from stancoreset.engines.cmdstan.engine import CmdStanEngine
from stancoreset.stan.syntax import nodes, parse, printer
from stancoreset.stan.weave import Woven

pytestmark = [pytest.mark.cmdstan, pytest.mark.slow]

Data = dict[str, Any]
DATA = ("functions", "data", "transformed_data")
DENSITY = ("parameters", "transformed_parameters", "model")
GENERATED = ("generated_quantities",)
BLOCKS = (*DATA, *DENSITY, *GENERATED)


@dataclass(frozen=True)
class Fixture:
    """A program before and after weaving, with the data that stanli completed."""

    by_hand: Repeated
    woven: Woven
    summaries: str
    full: Data
    weighted: Data

    @classmethod
    def read(cls, name: str) -> Fixture:
        by_hand = repeated(name)
        obs = obs_of(by_hand.code)
        with CoresetModel(stan_code=by_hand.code, engine="stanli", obs=obs) as model:
            full = dict(model.read(by_hand.data))
            weighted = dict(model.program.with_weights(full, by_hand.times.astype(float)))
            adopted = model._adopted
        return cls(by_hand, adopted.woven, adopted.density.code, full, weighted)


def own_names(prefix: str, code: str, blocks: tuple[str, ...]) -> nodes.Program:
    """The program with these blocks, its variables and functions named `prefix` and what they were.

    No variable of Stan's is called; its functions may have the name of a variable, as beta has.
    """
    tree = parse(code)
    of_blocks = (s for block in BLOCKS for s in getattr(tree, block))
    variables = {s.name for s in of_blocks if isinstance(s, nodes.Decl)}
    functions = {f.name for f in tree.functions}
    words = "|".join(map(re.escape, variables))
    code = re.sub(rf"\b({words})\b(?!\s*\()", rf"{prefix}\1", printer.program(tree))
    if functions:
        words = "|".join(map(re.escape, functions))
        code = re.sub(rf"\b({words})\b", rf"{prefix}\1", code)
    renamed = parse(code)
    return nodes.Program(**{b: getattr(renamed, b) for b in (*DATA, *blocks)})


def side_by_side(programs: list[nodes.Program]) -> str:
    """One program whose log density is the sum of those of `programs`."""
    blocks = {b: tuple(s for p in programs for s in getattr(p, b)) for b in BLOCKS}
    blocks["model"] = tuple(nodes.Block(p.model) for p in programs)
    return printer.program(nodes.Program(**blocks))


def named(prefix: str, data: Mapping[str, Any]) -> Data:
    return {prefix + name: value for name, value in data.items()}


@dataclass(frozen=True)
class Together:
    """All fixtures in CmdStan, at some draws.

    Attributes
    ----------
    names : tuple of str
        Of the parameters, each with its fixture's.
    original, woven, prior : tuple of ndarray
        Log density and gradient of the authors' programs with repeated rows, of the woven ones
        with weights, and of these with weights of zero.
    summaries, log_lik : dict of str to ndarray
        What the authors' transformed data give from all rows, and the rows' log likelihoods.
    """

    names: tuple[str, ...]
    original: tuple[Float, Float]
    woven: tuple[Float, Float]
    prior: tuple[Float, Float]
    summaries: Mapping[str, Float]
    log_lik: Mapping[str, Float]


@pytest.fixture(scope="module")
def fixtures() -> dict[str, Fixture]:
    return {f"{name}_": Fixture.read(name) for name in REPEATED}


@pytest.fixture(scope="module")
def together(cmdstan, fixtures) -> Together:
    each = fixtures.items()
    authors = [own_names(p, f.by_hand.same, DENSITY) for p, f in each]
    authors += [own_names(f"all_{p}", f.summaries, GENERATED) for p, f in each]
    woven = [own_names(p, f.woven.code, (*DENSITY, *GENERATED)) for p, f in each]
    repeated: Data = {}
    weighted: Data = {}
    unweighted: Data = {}
    for p, f in each:
        repeated |= named(p, f.by_hand.many) | named(f"all_{p}", f.full)
        weighted |= named(p, f.weighted)
        unweighted |= named(p, {f.woven.weights: 0 * f.weighted[f.woven.weights]})
    engine = CmdStanEngine(threads=2)
    author = engine.compile(side_by_side(authors), name="authors")
    weaver = engine.compile(side_by_side(woven), name="woven")
    with (
        author.bind(repeated) as a,
        weaver.bind(weighted) as b,
        weaver.bind(weighted | unweighted) as c,
    ):
        draws = np.random.default_rng(0).normal(scale=0.5, size=(4, a.n_params))
        assert a.param_names == b.param_names
        densities = (x.log_density_gradient(draws) for x in (a, b, c))
        return Together(
            a.param_names, *densities, a.generated(draws[:1], None), b.generated(draws, None)
        )


def test_weights_are_repetitions(together):
    """Gradients differ in entries of the fixture that is wrong, densities in their sum."""
    (one, gradient), (other, of_woven) = together.original, together.woven
    apart = np.abs(of_woven - gradient).max(0) / (1 + np.abs(gradient).max(0))
    assert [n for n, far in zip(together.names, apart, strict=True) if not far < 1e-9] == []
    size = np.abs([one, other]).max()
    np.testing.assert_allclose(other - one, (other - one)[0], rtol=0, atol=1e-11 * size)


def test_weights_multiply_log_likelihoods(together, fixtures):
    total = sum(
        together.log_lik[p + f.woven.log_lik] @ f.by_hand.times for p, f in fixtures.items()
    )
    np.testing.assert_allclose(together.woven[0] - together.prior[0], total, rtol=1e-10)


def test_summaries_of_all_rows_are_those_of_the_embedded_engine(together, fixtures):
    compared = 0
    for p, f in fixtures.items():
        for name, output in f.woven.frozen.items():
            if np.size(f.full[name]):
                found = together.summaries[f"all_{p}{output}"][0]
                np.testing.assert_allclose(found, f.full[name], rtol=1e-12, err_msg=p + name)
                compared += 1
    assert compared > 20
