"""Peak memory of fits whose rows stanli evaluates.

    pytest tests/benchmarks/test_bench_memory.py --benchmark-only -s

Every fit runs in a process of its own. The baseline is what the engine keeps of the same rows once,
after a gradient of the likelihood in what the rows see: a fit should take little more.
``STANCORESET_BENCH_BRMS=50000`` rows; 200,000 by default.
"""

from __future__ import annotations

import json
import os
import textwrap
from typing import Any

import pytest
from test_bench_scale import BRMS, child

PEAK = textwrap.dedent(
    """
    import json, re, sys
    import numpy as np
    import stancoreset as sc
    from pairs import simulated
    from pairs.cases import CASES

    name, program, rows, what = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]

    def status(key):
        return int(re.search(key + r":\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024

    data = getattr(simulated, name)(n=rows)
    model = sc.CoresetModel(CASES[program].program, engine="stanli")
    model._session.compile()
    if what == "fit":
        before = status("VmRSS")
        verdict = model.fit(data, seed=1).certificate.verdict
        print(json.dumps({"peak": status("VmHWM"), "more": status("VmHWM") - before,
                          "verdict": verdict}))
    else:
        checked = model.read(data)
        full = model._session.seen_data(checked)
        before = status("VmRSS")
        full.bind().log_density_gradient(np.zeros((1, full.n_params)))
        print(json.dumps({"more": status("VmRSS") - before}))
    """
)


@pytest.mark.parametrize("name", ["ordinal_groups", "weibull_groups", "student_spline"])
def test_fit_against_one_copy_of_the_rows(benchmark: Any, name: str) -> None:
    """Peak of a fit, beyond imports and data, over what the engine keeps of the rows."""
    rows = os.environ.get("STANCORESET_BENCH_BRMS", "200000")
    once = json.loads(child(PEAK, name, BRMS[name], rows, "once"))["more"]
    run = benchmark.pedantic(child, args=(PEAK, name, BRMS[name], rows, "fit"), rounds=1)
    fit = json.loads(run)
    ratio = fit["more"] / once
    benchmark.extra_info.update(fit, once=once, copies=ratio)
    print(
        f"\n{name}, {int(rows):,} rows: peak {fit['peak']:,.0f} MB, {fit['more']:,.0f} MB more "
        f"than before the fit: {ratio:.2f} x the rows once ({once:,.0f} MB); {fit['verdict']}"
    )
    assert fit["verdict"] == "certified"
