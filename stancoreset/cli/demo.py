"""``stancoreset demo``: a coreset, a Laplace fit and NUTS on all rows, for 327,346 real flights."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

from stancoreset.cli.fitting import Fitting, Speaker
from stancoreset.demo import (
    DEPARTURES_PROGRAM,
    FULL_NUTS,
    Departures,
    FullRun,
    departures,
    laplace_posterior,
)
from stancoreset.model import CoresetModel
from stancoreset.posterior import arviz
from stancoreset.reference import Reference
from stancoreset.runs import enlist

# Files of a full run, in the demo's folder.
_FULL = ("full.nc", "departures_nuts.json")


def demo(args: argparse.Namespace) -> int:
    """Fit the flights by a coreset and by Laplace, and compare them with NUTS on all rows.

    NUTS on all rows is run with ``--full``; otherwise its stored summary is read.
    """
    fitting = Fitting(args)
    say, stages = fitting.say, fitting.stages
    say(
        "Which flights left New York City in 2013 more than 15 minutes late? Logistic regression "
        "with crossed effects of carrier, destination, hour and origin."
    )
    with stages("load flights"):
        flights = departures()
    with stages("read program"):
        model = CoresetModel(DEPARTURES_PROGRAM, engine=args.engine)
    with model:
        fit = fitting.fit(model, flights.data, **flights.labels)
        say("For comparison:")
        started = time.perf_counter()
        laplace = model.reference(flights.data, "laplace", draws=4_000, seed=fit.settings["seed"])
        say.stage("Laplace fit", time.perf_counter() - started)
        full = FullRun.stored()
        if args.full:
            say(f"\nNUTS on all {fit.coreset.n_obs:,} rows, in the metric of the coreset's draws.")
            say(full.cost)
            full = _full_run(model, flights, fit, laplace, FULL_NUTS, Path(args.out), say)
        stages.leave_out(time.perf_counter() - started)
    posteriors = {"coreset": fit, "Laplace fit": laplace_posterior(laplace, flights.labels)}
    fitting.finish(fit, {full.title: full.posterior(flights.labels), **posteriors})
    say(f"\n{_verdict(full, posteriors)}")
    return 0


def _full_run(
    model: CoresetModel,
    flights: Departures,
    fit: Any,
    laplace: Reference,
    options: Mapping[str, Any],
    folder: Path,
    say: Speaker,
) -> FullRun:
    """NUTS on all rows, from the Laplace fit's draws, in the metric of the coreset's."""
    started, worked = time.perf_counter(), time.process_time()
    posterior = model.sample(
        flights.data,
        near=fit,
        inits=laplace.draws[: options["chains"]],
        seed=fit.settings["seed"],
        **flights.labels,
        **options,
    )
    seconds = time.perf_counter() - started
    say.stage("full data", seconds)
    say(f"The coreset took {fit.seconds:.1f} s, {seconds / fit.seconds:.0f} times less.")
    stats = arviz.sample_stats_of(posterior)
    run = FullRun.of(
        posterior,
        {
            "rows": fit.coreset.n_obs,
            "command": "stancoreset demo --full",
            "date": date.today().isoformat(),
            "engine": model.engine.version,
            "stancoreset": version("stancoreset"),
            **{name: value for name, value in options.items() if value is not None},
            "gradients": int(stats["n_steps"].sum()),
            "divergences": int(stats["diverging"].sum()),
            "seconds": round(seconds),
            "processor_seconds": round(time.process_time() - worked),
        },
    )
    arviz.save(posterior, folder / _FULL[0])
    run.save(folder / _FULL[1])
    enlist(folder, _FULL)
    return run


def _verdict(full: FullRun, posteriors: dict[str, Any]) -> str:
    """Sentence on the distance of the means from those of NUTS on all rows."""
    lines = [
        f"The largest difference of a mean from {full.title}, among {len(full.summary)} parameters "
        f"and by all draws (the table above uses {full.draws['alpha'].size} draws of that run):"
    ]
    for name, posterior in posteriors.items():
        table = full.differences(posterior)
        place = int(table["delta_mean"].abs().argmax())
        worst, (delta, error, _) = table.index[place], table.iloc[place]
        lines.append(
            f"  {name:<12} {worst:<12} {delta:+.2f} standard deviations "
            f"(Monte-Carlo error {error:.2f})"
        )
    return "\n".join(lines)
