"""Rows of the data duplicated, deleted and repeated by hand, in the author's own program.

Which dimensions of the data count rows is read from their declarations alone: the weaver is not
asked. The density of the author's program with row n standing r_n times must be that of the woven
program with weights r, up to a constant. Where transformed data summarise the rows, every row
stands twice: means stay as they are, and programs whose summaries change are left out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiers import some

pytest.importorskip("stanli")
pytest.importorskip("bridgestan")

from weave_checks import frozen_data, model, points
from weave_data import make_data, obs_of
from weave_repeated import rows_by_declaration

from stancoreset.stan.weave import Woven, weave

FOLDER = Path(__file__).parent / "weave_programs"
PROGRAMS = sorted(p.stem for p in FOLDER.glob("*.stan") if not p.stem.startswith("refuse_"))
Data = dict[str, Any]


def counts_of(woven: Woven) -> set[str]:
    return {woven.obs, *woven.shared}


def plain(name: str) -> tuple[str, Woven]:
    """A fixture and its woven program, whose observations are rows of one count."""
    code = (FOLDER / f"{name}.stan").read_text()
    woven = weave(code, obs_of(code))
    if woven.counted or woven.table or woven.written:
        pytest.skip("observations are no rows of one declared count")
    if woven.numbered:
        pytest.skip("rows are picked by their numbers, which repeating them changes")
    return code, woven


@pytest.mark.parametrize("name", some(PROGRAMS, 12))
def test_weights_are_repetitions_by_hand(name):
    code, woven = plain(name)
    data = make_data(code)
    size = int(data[woven.obs])
    rng = np.random.default_rng(4)
    once = np.ones(size, dtype=int)
    duplicated, deleted = once.copy(), once.copy()
    duplicated[0], deleted[-1] = 2, 0
    full = {**data, **frozen_data(code, woven, data)}
    thetas = points(model(code, data), 3, rng)
    repeated = rng.permutation(np.resize([3, 0, 0, 1], size))
    cases = [2 * once] if woven.frozen else [duplicated, deleted, repeated]
    for times in cases:
        rows = np.repeat(np.arange(size), times)
        many = rows_by_declaration(code, data, counts_of(woven), rows)
        if woven.frozen and not same_summaries(code, woven, full, many, rows):
            pytest.skip("the summaries of the rows change when rows stand twice")
        weighted = model(woven.code, {**full, woven.weights: times.astype(float)})
        original = model(code, many)
        pairs = [(original.log_density(t), weighted.log_density(t)) for t in thetas]
        apart = np.array([a - b for a, b in pairs])
        scale = 1.0 + np.abs(pairs).max()
        assert np.isfinite(apart).all()
        limit = 1e-5 if woven.uses_solver else 1e-9
        assert np.abs(apart - apart[0]).max() < limit * scale, times


def same_summaries(code: str, woven: Woven, full: Data, many: Data, rows: np.ndarray) -> bool:
    """Whether what is computed once from all rows is the same from the repeated rows."""
    return all(
        np.allclose(
            np.take(full[k], rows, axis=woven.rows[k]) if k in woven.rows else full[k],
            v,
            rtol=1e-12,
            equal_nan=True,
        )
        for k, v in frozen_data(code, woven, many).items()
    )
