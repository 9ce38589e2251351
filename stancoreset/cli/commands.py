"""The command line: ``stancoreset demo | example | fit | regression | merge | batch | …``."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stancoreset.cli.options import asked
from stancoreset.cli.parser import make_parser
from stancoreset.cli.running import run_command
from stancoreset.cli.speaker import Speaker
from stancoreset.errors import OptionError
from stancoreset.progress import Stages


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return the exit code.

    0: success; 1: some jobs of a batch failed; 2: bad input; 3: the posterior was rejected;
    130, 143, 129: ended by Ctrl-C, SIGTERM or SIGHUP.
    """
    return run_command("stancoreset", lambda: make_parser(HANDLERS), argv)


def _example(args: argparse.Namespace) -> int:
    from stancoreset.cli.example import write_example

    for file in write_example(args.folder, overwrite=args.overwrite):
        print(file)
    return 0


def _demo(args: argparse.Namespace) -> int:
    from stancoreset.cli.demo import demo

    say = Speaker(args)
    stages = say.stages(args)
    return demo(
        args,
        say,
        stages,
        lambda model, data, **labels: _run_fit(model, data, args, say, stages, **labels),
        lambda fit, posteriors: _finish(fit, posteriors, args, say, stages),
    )


def _fit(args: argparse.Namespace) -> int:
    from stancoreset.model import CoresetModel

    say = Speaker(args)
    stages = say.stages(args)
    with stages("read program"):
        model = CoresetModel(args.model, engine=args.engine, obs=args.obs)
    with model:
        return _fitted(model, _fit_data(args), args, say, stages)


def _regression(args: argparse.Namespace) -> int:
    from stancoreset.cli.regression import regression_of

    if args.write is not None:
        for file in regression_of(args).write(args.write, overwrite=args.overwrite):
            print(file)
        return 0
    say = Speaker(args)
    stages = say.stages(args)
    with stages("read data"):
        made = regression_of(args)
    with stages("read program"):
        model = made.model
    with model:
        return _fitted(model, made.data, args, say, stages, coords=made.coords, dims=made.dims)


def _fitted(
    model: Any, data: Any, args: argparse.Namespace, say: Speaker, stages: Stages, **labels: Any
) -> int:
    """Fit, write and print what was asked for; return the exit code."""
    fit = _run_fit(model, data, args, say, stages, **labels)
    if args.csv:
        with stages("write csv"):
            _write_csv(fit, data, model.engine, args, say)
    _finish(fit, fit.posteriors, args, say, stages)
    return 3 if fit.certificate.verdict == "rejected" else 0


def _write_csv(fit: Any, data: Any, engine: Any, args: argparse.Namespace, say: Speaker) -> None:
    """Write the chains beside the other results, unless the fit was rejected."""
    from stancoreset.runs import enlist

    if fit.certificate.verdict == "rejected":
        say("No CSV files are written, because the fit was rejected.")
        return
    paths = fit.write_csv(args.out, data, engine=engine, overwrite=True)
    enlist(Path(args.out), [path.name for path in paths])


def _fit_data(args: argparse.Namespace) -> Any:
    """The data file, or with --columns a table that may stay on disk."""
    from stancoreset.rows.tables import described

    return described(args.data[0] if len(args.data) == 1 else args.data, args.columns)


def _run_fit(
    model: Any, data: Any, args: argparse.Namespace, say: Speaker, stages: Stages, **labels: Any
) -> Any:
    say(f"Engine: {model.engine.version}")
    return model.fit(data, stages=stages, **labels, **asked(args))


def _finish(
    fit: Any,
    posteriors: dict[str, Any],
    args: argparse.Namespace,
    say: Speaker,
    stages: Stages,
) -> None:
    """Draw pictures, print certificate and comparison table."""
    from stancoreset.cli.pictures import write_comparison, write_fit_pictures
    from stancoreset.posterior import summarise
    from stancoreset.runs import write_reports

    folder = Path(args.out)
    with stages("pictures"):
        table = write_comparison(posteriors, folder)
        if not args.no_plots:
            write_fit_pictures(fit, folder)
    if fit.timings is stages.seconds:  # a finished run that was read again keeps its times
        stages.rest()
        write_reports(fit, folder)
    say(f"\n{fit.made_of}, {fit.seconds:.1f} s")
    say(f"Certificate: {fit.certificate}")
    against = fit.certificate.against  # printed above
    for reason in fit.certificate.reasons:
        if not (against and reason.endswith(against)):
            say(f"  because {reason}")
    say("\n" + table.to_string(float_format=lambda v: f"{v:.3g}"))
    if len(posteriors) > 1:
        say("\n" + summarise(table).to_string(float_format=lambda v: f"{v:.3g}"))
    say(f"\nEverything is in {folder}/ (report.html describes the files)")
    if args.json:
        print(json.dumps(fit.report(), default=str))


def _weave(args: argparse.Namespace) -> int:
    from stancoreset.cli.explain import explained
    from stancoreset.model import CoresetModel

    with CoresetModel(args.model, engine=args.engine, obs=args.obs) as model:
        if args.explain:
            print(explained(model))
        elif not args.check:
            print(model.program.code.rstrip())
        if args.check:
            if args.data is None:
                raise OptionError("--check needs data: add --data DATA")
            table = model.identities(args.data, points=args.points, seed=args.seed)
            print(table.to_string(index=False, float_format=lambda v: f"{v:.1e}"))
            return 0 if table["passed"].all() else 2
    return 0


def _compare(args: argparse.Namespace) -> int:
    from stancoreset.cli.pictures import write_comparison
    from stancoreset.cli.posteriors import posteriors_at
    from stancoreset.files import make_folder
    from stancoreset.posterior import compare, summarise
    from stancoreset.runs import CoresetFit

    posteriors = posteriors_at(args.posteriors)
    fits = {name: fit for name, fit in posteriors.items() if isinstance(fit, CoresetFit)}
    if args.out:
        folder = make_folder("out", args.out)
        table = write_comparison(posteriors, folder, args.reference)
    else:
        table = compare(posteriors, reference=args.reference)
    if args.json:
        print(table.reset_index().to_json(orient="records"))
        return 0
    print(table.to_string(float_format=lambda v: f"{v:.4g}"))
    print()
    print(summarise(table).to_string(float_format=lambda v: f"{v:.4g}"))
    for name, fit in fits.items():
        print(f"\n{name}: {fit.certificate}")
    return 0


def _plot(args: argparse.Namespace) -> int:
    from stancoreset.cli.plot import plot_run

    written = plot_run(
        args.run_dir,
        args.kind,
        args.output or f"{args.kind}.png",
        also=args.also,
        var_names=args.var_names,
        scale=args.scale,
        data=args.data,
        columns=args.columns,
    )
    print(written)
    return 0


def _information(args: argparse.Namespace) -> int:
    from stancoreset.cli.information import information

    return information(args, Speaker(args))


def _doctor(args: argparse.Namespace) -> int:
    from stancoreset.cli.doctor import examine

    findings = examine()
    if args.json:
        print(json.dumps([vars(finding) for finding in findings]))
    else:
        for finding in findings:
            print(f"{finding.name:<14} {finding.found or 'missing: ' + finding.advice}")
    return 2 if any(f.needed and f.found is None for f in findings) else 0


def _r_helper(args: argparse.Namespace) -> int:
    print(Path(__file__).with_name("coreset_brm.R").read_text(encoding="utf-8"), end="")
    return 0


def _merge(args: argparse.Namespace) -> int:
    from stancoreset.cli.merge import merge

    say = Speaker(args)
    stages = say.stages(args)
    return merge(
        args, say, stages, lambda fit, posteriors: _finish(fit, posteriors, args, say, stages)
    )


def _batch(args: argparse.Namespace) -> int:
    from stancoreset.cli.batch import batch

    return batch(args, Speaker(args))


def _thin(args: argparse.Namespace) -> int:
    from stancoreset.cli.thin import thin

    return thin(args, Speaker(args))


def _paper(args: argparse.Namespace) -> int:
    """Say where the experiments are; for one release, in which old scripts are corrected."""
    again = shlex.join(["python", "notebooks/papers", *(args.rest or ["--help"])])
    raise OptionError(
        "the papers' experiments are no longer in the package; run them in a copy of its sources: "
        + again
    )


#: Handlers of the commands.
HANDLERS = {
    "demo": _demo,
    "example": _example,
    "fit": _fit,
    "regression": _regression,
    "weave": _weave,
    "compare": _compare,
    "plot": _plot,
    "information": _information,
    "thin": _thin,
    "doctor": _doctor,
    "r-helper": _r_helper,
    "merge": _merge,
    "batch": _batch,
    "paper": _paper,
}
