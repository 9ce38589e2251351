"""One gradient of the author's program on all rows: stanli beside BridgeStan's interface to Stan.

Run with ``pytest tests/benchmarks/test_bench_bridge.py --benchmark-only -s``; it prints a line for
each program of the pairs. Stan's C++ is compiled with -O3 and without threads, which takes about 40
processor seconds a program.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("stanli")
pytest.importorskip("bridgestan")

from engines.bridge.engine import FAST, BridgeStanEngine
from pairs.cases import PAIRS

from stancoreset.engines import resolve_engine
from stancoreset.stan import StanProgram


def seconds(evaluate: Callable[[], object], least: float = 1.0) -> float:
    """Processor seconds of a call, the least of two means."""
    evaluate()
    found = []
    for _ in range(2):
        start, calls = time.process_time(), 0
        while time.process_time() - start < least:
            evaluate()
            calls += 1
        found.append((time.process_time() - start) / calls)
    return min(found)


def processor() -> float:
    """Processor seconds of this process and of the compilers that it waited for."""
    return sum(os.times()[:4])


@pytest.mark.parametrize("name", PAIRS)
def test_gradient_of_all_rows(benchmark: Any, name: str) -> None:
    code = Path(PAIRS[name].program).read_text(encoding="utf-8")
    declared = {d.name for d in StanProgram.from_code(code).data}
    data = {k: v for k, v in PAIRS[name].data().items() if k in declared}
    start = processor()
    compiled = BridgeStanEngine(options=FAST).compile(code, name=name)
    _ = compiled.path
    compilation = processor() - start
    bridged, ours = compiled.bind(data), resolve_engine("stanli", 1).compile(code).bind(data)
    at = 0.2 * np.random.default_rng(0).normal(size=(1, ours.n_params))
    slope, steep = (bound.log_density_gradient(at)[1] for bound in (ours, bridged))
    np.testing.assert_allclose(slope, steep, rtol=1e-8, atol=1e-10 * abs(steep).max())
    one, other = (seconds(lambda b=b: b.log_density_gradient(at)) for b in (ours, bridged))
    print(
        f"\n{name}: stanli {1e3 * one:.2f} ms, BridgeStan {1e3 * other:.2f} ms, ratio "
        f"{other / one:.2f}; compiled in {compilation:.0f} s"
    )
    benchmark.pedantic(ours.log_density_gradient, (at,))
