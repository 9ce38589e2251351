"""The study: fits of many kinds, their verdicts, and how far they really are from the truth.

    cd tests && python -m calibration.study [MODEL …] [--records FILE] [--arms ARM …]

Every fit but the refined ones is one pass with the defaults a user has, except for what its arm
changes; most arms are there to go wrong. Models of hundreds of groups, for which so few rows are
no coreset, have an arm of their own: a fit by all defaults. A posterior is judged on its own draws
if it is certified or rejected, and on its smoothed weights if it is corrected: on what a user would
be handed.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import stancoreset as sc
from stancoreset.errors import StancoresetError
from stancoreset.posterior import arviz as arviz_compat

from .models import MODELS, Model
from .truth import errors, load, summarise

__all__ = ["ARMS", "SIZES", "Record", "cells", "confusion", "judge", "run"]

SIZES = (10, 40, 160)
SEEDS = (1, 2)
SAMPLER = {"chains": 4, "iter_warmup": 1_000, "iter_sampling": 2_000}
VERDICTS = ("certified", "corrected", "rejected")


@dataclass(frozen=True)
class Arm:
    """A way to fit.

    Attributes
    ----------
    options : dict
        Of `CoresetModel.fit`.
    sizes, seeds : sequences
    astray : tuple of float, optional
        Shift and factor, in standard deviations, of a reference that is in the wrong place.
    sampler : dict
        Options of NUTS.
    """

    options: dict[str, Any]
    sizes: Sequence[int | str] = SIZES
    seeds: Sequence[int] = SEEDS
    astray: tuple[float, float] | None = None
    sampler: dict[str, int] = field(default_factory=SAMPLER.copy)


MANY = "many groups"
ARMS: dict[str, Arm] = {
    "control variate": Arm({"max_rounds": 1}),
    "rows alone": Arm({"max_rounds": 1, "control_variate": False}),
    "random rows, control variate": Arm({"max_rounds": 1, "method": "uniform"}, seeds=(1,)),
    "importance sampling, rows alone": Arm(
        {"max_rounds": 1, "control_variate": False, "method": "importance"}, (160, 400), (1,)
    ),
    "astray, control variate": Arm({"max_rounds": 1}, (10, 40), (1,), (2.0, 0.5)),
    "astray, rows alone": Arm(
        {"max_rounds": 1, "control_variate": False}, (40, 160), (1,), (1.0, 0.3)
    ),
    "refined": Arm({}, (10,), (1,)),
    MANY: Arm({}, ("auto",), (1, 2, 3), sampler={}),
}


@dataclass(frozen=True)
class Record:
    """One fit.

    Attributes
    ----------
    model, arm, size, seed
    verdict : str
    wrong : bool
        Of what a user would be handed: `Errors.wrong`.
    plain_wrong : bool
        Of the coreset's own draws.
    shift, sd_error : float
        Of what a user would be handed.
    plain_shift, plain_sd_error : float
        Of the coreset's own draws.
    worst : str
        The parameter that is furthest off.
    certificate : dict
        What the verdict was made from.
    """

    model: str
    arm: str
    size: int | str
    seed: int
    verdict: str
    wrong: bool
    plain_wrong: bool
    shift: float
    sd_error: float
    plain_shift: float
    plain_sd_error: float
    worst: str
    certificate: dict[str, Any]


def judge(model: Model, posterior: Any, certificate: sc.Certificate) -> dict[str, Any]:
    """Compare draws, and draws with their weights, with the truth."""
    truth = load(model)
    variables = arviz_compat.variables_of(posterior)
    plain = used = errors(summarise(variables), truth)
    if certificate.verdict == "corrected":
        index = certificate.draw_index
        taken = {k: v.reshape(-1, *v.shape[2:])[index][None] for k, v in variables.items()}
        used = errors(summarise(taken, certificate.weights), truth)
    return {
        "verdict": certificate.verdict,
        "wrong": used.wrong,
        "plain_wrong": plain.wrong,
        "shift": round(used.shift, 4),
        "sd_error": round(used.sd_error, 4),
        "plain_shift": round(plain.shift, 4),
        "plain_sd_error": round(plain.sd_error, 4),
        "worst": used.worst,
        "certificate": {
            key: value
            for key, value in vars(certificate).items()
            if isinstance(value, int | float) and not isinstance(value, bool)
        },
    }


def cells(names: Iterable[str] = MODELS) -> Iterator[tuple[Model, str, int | str, int]]:
    """The grid: model, arm, size, seed."""
    for name in names:
        own = {a: how for a, how in ARMS.items() if (a == MANY) == name.startswith("many_")}
        for arm, how in own.items():
            for size in how.sizes:
                for seed in how.seeds:
                    yield MODELS[name], arm, size, seed


def run(program: sc.CoresetModel, model: Model, arm: str, size: int | str, seed: int) -> Record:
    """One fit of the grid; an error that says so counts as a rejection."""
    how = ARMS[arm]
    data = model.data()
    options = {**how.options, **how.sampler, "adapt_delta": model.adapt_delta}
    if how.astray is not None:
        shift, factor = how.astray
        found = program.reference(data, draws=1_000, seed=seed)
        centre, sd = found.gaussian.mean, found.gaussian.sd
        options["reference"] = centre + shift * sd + factor * (found.draws - centre)
    where = {"model": model.name, "arm": arm, "size": size, "seed": seed}
    try:
        fit = program.fit(data, size=size, seed=seed, show_progress=False, **options)
    except StancoresetError as error:
        nothing = dict.fromkeys(("shift", "sd_error", "plain_shift", "plain_sd_error"), np.nan)
        about = {"wrong": True, "plain_wrong": True, "worst": str(error), "certificate": {}}
        return Record(**where, verdict="rejected", **nothing, **about)
    return Record(**where, **judge(model, fit.posterior, fit.certificate))


def confusion(records: Iterable[Record]) -> str:
    """Verdict × (right, wrong), arm by arm, as a Markdown table."""
    records = list(records)
    head = [f"{verdict}, {how}" for verdict in VERDICTS for how in ("right", "wrong")]
    lines = [f"| arm | {' | '.join(head)} |", "|---" * (1 + len(head)) + "|"]
    for arm in [*dict.fromkeys(r.arm for r in records), "all"]:
        counts = [
            sum(
                r.verdict == verdict and r.wrong == wrong and arm in (r.arm, "all") for r in records
            )
            for verdict in VERDICTS
            for wrong in (False, True)
        ]
        lines.append(f"| {arm} | {' | '.join(map(str, counts))} |")
    return "\n".join(lines)


def study(
    names: Iterable[str] = MODELS,
    path: Path | None = None,
    tell: Callable[[str], object] = lambda _: None,
    arms: Iterable[str] = ARMS,
) -> list[Record]:
    """The whole grid; records are appended to a file, and those in it are not made again."""
    done: dict[tuple[Any, ...], Record] = {}
    if path is not None and path.exists():
        for line in path.read_text().splitlines():
            record = Record(**json.loads(line))
            done[record.model, record.arm, record.size, record.seed] = record
    records = []
    for name in names:
        with sc.CoresetModel(MODELS[name].file, engine="stanli") as program:
            for model, arm, size, seed in cells([name]):
                if arm not in arms:
                    continue
                record = done.get((name, arm, size, seed))
                if record is None:
                    record = run(program, model, arm, size, seed)
                    tell(
                        f"{name}, {arm}, {size}, {seed}: {record.verdict}, "
                        f"{'WRONG' if record.wrong else 'right'}, "
                        f"shift {record.shift:.3f}, sd {record.sd_error:.3f}"
                    )
                    if path is not None:
                        with path.open("a") as stream:
                            stream.write(json.dumps(asdict(record)) + "\n")
                records.append(record)
    return records


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=list(MODELS))
    parser.add_argument("--records", type=Path, help="file of finished fits, to go on from")
    parser.add_argument("--arms", nargs="*", default=list(ARMS))
    given = parser.parse_args()
    records = study(given.models, given.records, lambda line: print(line, flush=True), given.arms)
    print(confusion(records))


if __name__ == "__main__":
    main()
