"""One fit of one case, in a process of its own that ends at a limit of processor time.

    python -m pairs.child NAME MAX_ROUNDS SECONDS

Standard output has one line of JSON a finished stage, and last the result; an engine may write
other lines between them.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from typing import Any

import stancoreset as sc
from pairs.cases import CASES
from stancoreset.progress import Stages


def say(**values: Any) -> None:
    print(json.dumps(values), flush=True)


def limit_processor_time(seconds: float) -> None:
    """End this process once it has used this much more processor time, all threads together."""
    until = int(time.process_time() + seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (until, until + 5))


def processor_time() -> float:
    """Of this process and of the processes that it has started and waited for."""
    of = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(usage.ru_utime + usage.ru_stime for usage in map(resource.getrusage, of))


def run(name: str, max_rounds: int, limit: float) -> None:
    """Weave the program, fit it, and print what came of it."""
    case = CASES[name]
    data = case.data()
    say(n=data["N"])
    limit_processor_time(limit)
    started, worked = time.perf_counter(), processor_time()
    with sc.CoresetModel(case.program, engine="stanli") as model:
        full = model._session.full_data(model.read(data))  # bound once, for `fit` as well
        say(p=full.n_params)
        stages = Stages(show_progress=False, on_done=lambda stage, _: say(stage=stage))
        fit = model.fit(data, seed=1, max_rounds=max_rounds, stages=stages, **case.options)
    begin = fit.rounds[0]
    say(
        verdict=fit.certificate.verdict,
        first=begin.verdict,
        share=begin.ess / begin.n_draws,
        rounds=len(fit.rounds),
        size=fit.coreset.size,
        densities=fit.passes["densities"],
        gradients=fit.passes["gradients"],
        cost=fit.passes["cost"],
        nuts=fit.passes.get("nuts_gradients", 0),
        seconds=time.perf_counter() - started,
        processor=processor_time() - worked,
        timings={stage: round(seconds, 1) for stage, seconds in fit.timings.items()},
        note="; ".join(fit.certificate.reasons),
    )


if __name__ == "__main__":
    run(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
