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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import stancoreset as sc
from stancoreset.errors import StancoresetError
from stancoreset.posterior import arviz as arviz_compat

from .models import MODELS, Model
from .truth import LARGEST_SHIFT, Summary, errors, load, summarise

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
    pushed : callable, optional
        Generator, names of the quadratic's coordinates → slopes, in standard deviations: what is
        added to the quadratic of a fit before its rows are sampled and judged once more.
    """

    options: dict[str, Any]
    sizes: Sequence[int | str] = SIZES
    seeds: Sequence[int] = SEEDS
    astray: tuple[float, float] | None = None
    sampler: dict[str, int] = field(default_factory=SAMPLER.copy)
    pushed: Callable[[np.random.Generator, Sequence[str]], np.ndarray] | None = None


def _levels(names: Sequence[str]) -> np.ndarray:
    """Which coordinates are elements of the longest parameters, one for each group."""
    stems = [name.split(".")[0] for name in names]
    return np.array([stems.count(stem) > LEVELS for stem in stems])


def _in_turn(size: float) -> Callable[[np.random.Generator, Sequence[str]], np.ndarray]:
    """Groups' effects up and down in turn, so that their average stays."""
    return lambda _, names: np.where(_levels(names), size * (-1.0) ** np.arange(len(names)), 0.0)


def _either_way(size: float) -> Callable[[np.random.Generator, Sequence[str]], np.ndarray]:
    """Every group's effect up or down at random, by so many standard deviations."""
    return lambda rng, names: np.where(_levels(names), rng.choice([-size, size], len(names)), 0.0)


def _alike(size: float) -> Callable[[np.random.Generator, Sequence[str]], np.ndarray]:
    """All groups' effects up."""
    return lambda rng, names: np.where(_levels(names), size, 0.0)


def _others(size: float) -> Callable[[np.random.Generator, Sequence[str]], np.ndarray]:
    """What groups share, either way."""
    return lambda rng, names: np.where(_levels(names), 0.0, rng.choice([-size, size], len(names)))


LEVELS = 100
MANY = "many groups"
_ONCE = {"max_rounds": 1}
#: Arms of models of hundreds of groups, most of them made to be wrong.
OF_MANY: dict[str, Arm] = {
    MANY: Arm({}, ("auto",), (1, 2, 3), sampler={}),
    "many groups, few rows": Arm(_ONCE, (20, 200, 400), (1,), sampler={}),
    "many groups, random rows": Arm({**_ONCE, "method": "uniform"}, (100, 1_000), (1,), sampler={}),
    "many groups, rows chosen all at once": Arm(
        {**_ONCE, "method": "pursuit", "draws": 300}, (300,), (1,), sampler={}
    ),
    "many groups, pushed in turn by 0.02": Arm(
        _ONCE, ("auto",), (1, 2), sampler={}, pushed=_in_turn(0.02)
    ),
    "many groups, each pushed by 0.03": Arm(
        _ONCE, ("auto",), (1,), sampler={}, pushed=_either_way(0.03)
    ),
    "many groups, each pushed by 0.06": Arm(
        _ONCE, ("auto",), (1,), sampler={}, pushed=_either_way(0.06)
    ),
    "many groups, each pushed by 0.15": Arm(
        _ONCE, ("auto",), (1,), sampler={}, pushed=_either_way(0.15)
    ),
    "many groups, all pushed by 0.015": Arm(
        _ONCE, ("auto",), (1,), sampler={}, pushed=_alike(0.015)
    ),
    "many groups, shared pushed by 0.2": Arm(
        _ONCE, ("auto",), (1,), sampler={}, pushed=_others(0.2)
    ),
}
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
    "defaults": Arm({}, ("auto",), (1, 2, 3), sampler={}),
    **OF_MANY,
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
    average_shift : float
        Largest error of a mean of an average over the elements of a long parameter, in the
        average's standard deviations.
    by_marginals : bool
        Of the certificate.
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
    average_shift: float = 0.0
    by_marginals: bool = False


def judge(model: Model, posterior: Any, certificate: sc.Certificate) -> dict[str, Any]:
    """Compare draws, and draws with their weights, with the truth."""
    truth = load(model)
    variables = arviz_compat.variables_of(posterior)
    plain = used = errors(summarise(variables), truth)
    if certificate.verdict == "corrected":
        index = certificate.draw_index
        taken = {k: v.reshape(-1, *v.shape[2:])[index][None] for k, v in variables.items()}
        used = errors(summarise(taken, certificate.weights), truth)
    average, noise = averages(variables, truth)
    parts = certificate.describe()["marginals"] or {}
    off = average > LARGEST_SHIFT + 3 * noise and certificate.verdict == "certified"
    return {
        "verdict": certificate.verdict,
        "wrong": used.wrong or off,
        "average_shift": round(average, 4),
        "by_marginals": certificate.by_marginals,
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
        }
        | {f"marginal_{name}": value for name, value in parts.items()},
    }


def averages(variables: Mapping[str, np.ndarray], truth: Summary) -> tuple[float, float]:
    """Largest error of an average of a long parameter, in its sds, and twice its Monte-Carlo error.

    That of the truth, whose draws are as many, is taken to be the same.
    """
    found = [(0.0, 0.0)]
    for name, value in variables.items():
        flat = value.reshape(*value.shape[:2], -1)
        known = dict(zip(truth.names, truth.mean, strict=True))
        means = [known.get(f"{name}[{j + 1}]") for j in range(flat.shape[2])]
        if flat.shape[2] > LEVELS and None not in means:
            average = flat.mean(axis=2)
            sd = float(average.std())
            shift = abs(float(average.mean()) - float(np.mean(means))) / sd
            found.append((shift, 1.5 * float(arviz_compat.mcse(average)) / sd))
    return max(found)


def cells(names: Iterable[str] = MODELS) -> Iterator[tuple[Model, str, int | str, int]]:
    """The grid: model, arm, size, seed."""
    for name in names:
        own = {a: how for a, how in ARMS.items() if (a in OF_MANY) == name.startswith("many_")}
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
    posterior, certificate = fit.posterior, fit.certificate
    if how.pushed is not None:
        posterior, certificate = pushed(program, model, fit, how.pushed, seed)
    return Record(**where, **judge(model, posterior, certificate))


def pushed(
    program: sc.CoresetModel,
    model: Model,
    fit: sc.CoresetFit,
    push: Callable[[np.random.Generator, Sequence[str]], np.ndarray],
    seed: int,
) -> tuple[Any, sc.Certificate]:
    """The posterior of a fit's rows with another quadratic, and its certificate."""
    control, data = fit.coreset.control, model.data()
    names = [control.param_names[j] for j in control.columns]
    slopes = push(np.random.default_rng([seed, 61]), names) / control.scale
    wrong = replace(fit.coreset, control=replace(control, gradient=control.gradient + slopes))
    posterior = program.sample(
        data, wrong, seed=seed, near=fit.posterior, adapt_delta=model.adapt_delta
    )
    return posterior, program.certify(data, wrong, posterior, reference=fit.reference)


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
