"""The folder of a run, which keeps finished stages so that an interrupted run can continue.

Each stage is written once, when it ends (`RunFolder.keep`), and read by a resumed run
(`RunFolder.found`). Without a folder nothing is kept, and nothing found.

A run that overwrites another is made in a folder within the other's, and replaces it when it is
finished: until then the folder holds the earlier results, and afterwards the new ones.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from stancoreset.checks import check_flag, check_path, explain_absence, shown
from stancoreset.errors import OptionError, OutputError, StancoresetError
from stancoreset.files import (
    atomic_path,
    is_temporary,
    read_numbers,
    reading,
    remove_leftovers,
    write_text,
    writing,
)
from stancoreset.posterior import Certificate, Marginals, arviz, certify
from stancoreset.posterior.arviz import MonteCarlo
from stancoreset.reference import GaussianFit, Reference
from stancoreset.rows import Blocks, Matrix
from stancoreset.runs.checksums import (
    CHECKSUMS,
    read_checksums,
    record,
    require_unchanged,
)
from stancoreset.selection import Coreset

T = TypeVar("T")

_MARKER = ".stancoreset.json"
# Marks a run that ended with an error, which does not block a new one.
_FAILED = ".failed"
# Names of the folder of a run that replaces the one around it, before and after it has done so.
_NEXT, _PAST = ".overwriting", ".overwritten"
# Numbers of a certificate; folders of earlier versions do not have all of them.
_MONTE_CARLO = ("mcse_mean", "mcse_sd", "ess_bulk", "ess_tail")
_COUNTS = ("divergences", "n_transitions")
_SHARES = ("unseen", "rhat", "unvisited")
_NUMBERS = ("heldout_error", *_COUNTS, *_SHARES, "mean_shift", "sd_change", *_MONTE_CARLO)
_TEXTS = ("against", "witness", "heavy_tails", "disagreement", "stopped")
# Single values of a reference, of which earlier versions do not have all, and its arrays.
_VALUES: dict[str, Callable[[Any], Any]] = {
    "method": str,
    "seed": int,
    "unsettled": str,
    "by_chains": str,
    "rhat": float,
    "diverged": bool,
    "step_size": float,
}
_ARRAYS = ("draws", "log_prior", "log_likelihood")
_OPTIONAL_ARRAYS = ("log_q", "spare", "elsewhere")
# The marginals of a certificate.
_MARGINALS = "marginals.csv"
# The setting that limits the number of rounds.
_ROUNDS = "max_rounds"


def _round(number: int | str) -> str:
    return f"round_{number}"


#: The coreset's rows, if the full data are not in memory.
COMPANION = "coreset_data.json"
#: The Stan program as the user gave it.
PROGRAM = "model.stan"


class RunFolder:
    """Finished stages of one run in a folder of their own; a `path` of None keeps nothing.

    The `fingerprint` is everything that the stages depend on: program, data, settings. `replaces`
    is the folder whose run this one replaces, see `publish`.
    """

    def __init__(
        self, path: Path | None, fingerprint: Mapping[str, Any], replaces: Path | None = None
    ) -> None:
        self.path = path
        self._fingerprint = json.loads(json.dumps(fingerprint, default=str))
        self._replaces = replaces

    @classmethod
    def check(
        cls, path: str | Path | None, *, resume: bool = False, overwrite: bool = False
    ) -> None:
        """Raise, as `open` does, if it cannot use the folder; change nothing."""
        check_flag("resume", resume)
        check_flag("overwrite", overwrite)
        if resume and overwrite:
            raise OptionError(
                "resume keeps finished stages and overwrite drops them; give one of them"
            )
        if path is None:
            return
        folder = check_path("output_dir", path)
        with writing(folder):
            _require_writable(folder)
            if (folder / _MARKER).exists():
                if _holds_run(folder) and not (resume or overwrite or _failed(folder)):
                    raise OutputError(
                        f"{folder} holds an earlier run; resume it (resume=True, --resume), "
                        "replace it (overwrite=True, --overwrite), or name another folder"
                    )
            elif folder.exists() and any(not is_temporary(path) for path in folder.iterdir()):
                raise OutputError(
                    f"{folder} is not empty and was not made by stancoreset; name another folder"
                )

    @classmethod
    def open(
        cls,
        path: str | Path | None,
        fingerprint: Mapping[str, Any],
        *,
        resume: bool = False,
        overwrite: bool = False,
    ) -> RunFolder:
        """Open an empty folder, or the folder of a run.

        With `resume`, finished stages are used; they must come from the same program, data and
        settings. With `overwrite`, the run starts again, and replaces the old one when it is
        finished, see `publish`. A run that ended with an error is continued if it is the same run,
        and dropped otherwise; one that was to overwrite another goes on doing so.

        Raises
        ------
        OutputError
            If the folder was not made by stancoreset, or holds a run and neither `resume` nor
            `overwrite` is set, or its run differs from this one.
        OptionError
            If both are set.
        """
        cls.check(path, resume=resume, overwrite=overwrite)
        if path is None:
            return cls(None, fingerprint)
        place = check_path("output_dir", path)
        folder, instead = cls(place, fingerprint), cls(place / _NEXT, fingerprint, place)
        with writing(place):
            if place.is_dir():
                _tidy(place)
            if resume or (_failed(place) and not overwrite):
                for there in (instead, folder):
                    if there._is_same():
                        there._go_on()
                        return there
            if overwrite and _holds_run(place):
                folder = instead
            elif _holds_run(place) and not _failed(place):
                folder._require_same()
            folder._begin()
        return folder

    def _begin(self) -> None:
        """Make an empty folder with our marker."""
        assert self.path is not None
        self.clear()
        self.path.mkdir(parents=True, exist_ok=True)
        write_text(self.path / _MARKER, json.dumps(self._fingerprint, indent=2) + "\n")
        record(self.path, ())

    def _go_on(self) -> None:
        """Accept finished stages, even those of a version without checksums."""
        assert self.path is not None
        (self.path / _FAILED).unlink(missing_ok=True)
        if read_checksums(self.path) is None:
            record(self.path, [*_STAGE_FILES, *_RESULTS])

    def _is_same(self) -> bool:
        """Whether the folder holds this run."""
        assert self.path is not None
        return (self.path / _MARKER).exists() and not self._differences(self._settings_there())

    def _differences(self, there: Mapping[str, Any]) -> list[str]:
        """The settings in which the run in the folder differs from this one.

        The number of rounds may change, except between one and more.
        """
        asked = self._fingerprint
        different = {k for k in {*there, *asked} if there.get(k) != asked.get(k)}
        if (there.get(_ROUNDS) == 1) == (asked.get(_ROUNDS) == 1):
            different.discard(_ROUNDS)
        return sorted(different)

    def _settings_there(self) -> dict[str, Any]:
        assert self.path is not None
        marker = self.path / _MARKER
        with reading(marker):
            there = json.loads(marker.read_text(encoding="utf-8"))
        if not isinstance(there, dict):
            raise OutputError(f"{marker} is damaged: it holds no settings; name another folder")
        return _of_today(there)

    def _require_same(self) -> None:
        there, asked = self._settings_there(), self._fingerprint
        different = self._differences(there)
        if different:
            pairs = ", ".join(
                f"{k} was {shown(there.get(k), 120)}, now {shown(asked.get(k), 120)}"
                for k in different
            )
            raise OutputError(
                f"{self.path} holds another run, it cannot be resumed: {pairs}; name another "
                "folder, or replace what is in this one (overwrite=True, --overwrite)"
            )

    @contextmanager
    def remembering_failure(self) -> Iterator[None]:
        """Mark the folder if its run ends with an error of ours."""
        try:
            yield
        except StancoresetError as error:
            if self.path is not None and not isinstance(error, OutputError):
                with suppress(OSError):
                    (self.path / _FAILED).write_text(f"{error}\n", encoding="utf-8")
            raise

    def publish(self) -> None:
        """Move a finished run to the place of the run that it replaces.

        The new results count as soon as they are complete, see `results_in`: if the process is
        killed while it moves them, the next one moves the rest.
        """
        if self._replaces is not None and self.path is not None:
            with writing(self._replaces):
                _take_place(self.path, self._replaces)
            self.path, self._replaces = self._replaces, None

    def clear(self) -> None:
        """Remove the files of a run from the folder, and nothing else."""
        if self.path is None or not self.path.is_dir():
            return
        for name in _written_in(self.path):
            (self.path / name).unlink(missing_ok=True)
        for below in _runs_below(self.path):
            _remove(below)

    def round(self, number: int, action: str) -> RunFolder:
        """The folder of a round: this one for the first, a folder in it for each further one."""
        if self.path is None:
            return self
        if number == 0:
            first = self.path / _round(0)
            return RunFolder(first, {}) if _holds_run(first) else self
        fingerprint = {**self._fingerprint, "round": number, "action": action}
        return RunFolder.open(self.path / _round(number), fingerprint, resume=True)

    def promote_round(self, best: int) -> None:
        """Copy the stages of the best round to the run, after setting the first pass aside."""
        if self.path is None or best == 0:
            return
        aside, partial = self.path / _round(0), self.path / f"{_round(0)}.tmp"
        with writing(aside):
            if not aside.exists():
                shutil.rmtree(partial, ignore_errors=True)
                partial.mkdir()
                _copy(self.path, partial, _stage_files(self.path))
                partial.rename(aside)
        _copy(self.path / _round(best), self.path, _stage_files(self.path / _round(best)))

    def found(self, stage: str) -> Any:
        """Read the result of a stage, a key of `_STAGES`; None if the stage is not finished."""
        if self.path is not None and self.finished(stage):
            return load_stage(self.path, stage)
        return None

    def keep(self, stage: str, value: Any) -> None:
        """Write a stage's result, unless the stage is finished."""
        if not self.finished(stage):
            self.replace(stage, value)

    def replace(self, stage: str, value: Any) -> None:
        """Write a stage's result, also in the place of an earlier one."""
        if self.path is not None:
            about = _STAGES[stage]
            about.save(value, self.path)
            record(self.path, (*about.files, *about.beside))

    def keep_all(self, result: Any) -> None:
        """Write every stage that `result` holds under its name: of a Gaussian, no coreset."""
        for stage in _STAGES:
            if (value := getattr(result, stage, None)) is not None:
                self.keep(stage, value)

    @property
    def complete(self) -> bool:
        """Whether the run is finished: its report is written last."""
        return self.path is not None and is_complete(self.path)

    def finished(self, stage: str) -> bool:
        """Whether every file of a stage exists (each appears only when it is complete)."""
        return self.path is not None and _all_there(self.path, _STAGES[stage].files)


def _of_today(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings under their present names: `max_rounds` was `refine`, True or False."""
    if "refine" not in settings:
        return settings
    rounds = "more than 1" if settings["refine"] else 1
    return {_ROUNDS: rounds, **{k: v for k, v in settings.items() if k != "refine"}}


def results_in(path: Path) -> Path:
    """The folder of a run's results: within it, those of a finished run that is to replace it.

    >>> results_in(Path("run"))
    PosixPath('run')
    """
    return path / _NEXT if is_complete(path / _NEXT) else path


def require_finished(path: Path) -> None:
    """Raise an OutputError that says what the folder is, unless it holds a finished run."""
    none = f"{path} holds no finished fit"
    if not path.is_dir():
        raise OutputError(f"{none}: there is no such folder; {explain_absence(path)}")
    with reading(path):
        if (results_in(path) / "report.json").exists():
            return
        if (path / _MARKER).exists():
            raise OutputError(f"{none} (no report.json); resume the run with --resume")
        runs = sorted(run.parent.name for run in path.glob(f"*/{_MARKER}"))
    if runs:
        raise OutputError(f"{none} itself, but folders of fits: name one, such as {path / runs[0]}")
    raise OutputError(
        f"{none}, and was not made by stancoreset; name the folder that fit.save, "
        "fit(output_dir=…) or --out wrote"
    )


def enlist(path: Path, names: Iterable[str]) -> None:
    """Add files of a run's folder to the list of those that we wrote.

    A folder without a run is left unchanged.
    """
    if (path / _MARKER).exists():
        record(path, names)


def load_part(path: Path, name: str, load: Callable[[Path], T]) -> T:
    """Read a file of a run's folder; raise an OutputError if it is missing, damaged or changed."""
    require_files(path, (name,))
    with reading(path / name):
        return load(path / name)


def require_files(path: Path, names: Iterable[str]) -> None:
    """Raise unless a folder holds files, unchanged since they were written."""
    listed = read_checksums(path)
    for name in names:
        if not os.path.exists(path / name):
            raise OutputError(f"{path} has no {name}: its run is not finished, or not complete")
        require_unchanged(path / name, listed)


def recorded_seed(path: str | Path | None) -> int | None:
    """The seed of the run in a folder; None without a run."""
    try:
        found = json.loads((Path(path or "") / _MARKER).read_text("utf-8")).get("seed")
    except (OSError, ValueError, AttributeError):  # `RunFolder.open` reports the cause
        return None
    return found if isinstance(found, int) else None


def load_stage(path: Path, stage: str) -> Any:
    """Read a finished stage; raise an OutputError if its files are missing, damaged or changed."""
    about = _STAGES[stage]
    beside = [name for name in about.beside if os.path.exists(path / name)]
    require_files(path, (*about.files, *beside))
    with reading(path / about.files[0]):
        return about.load(path)


def _save_reference(reference: Reference, path: Path) -> None:
    arrays = {name: getattr(reference, name) for name in (*_ARRAYS, *_OPTIONAL_ARRAYS)}
    arrays |= {"mean": reference.gaussian.mean, **_factor(reference.gaussian)}
    with atomic_path(path / "reference.npz") as temporary, temporary.open("wb") as stream:
        np.savez(
            stream,
            **{name: getattr(reference, name) for name in _VALUES},
            param_names=np.array(reference.param_names),
            **{name: value for name, value in arrays.items() if value is not None},
        )


def _load_reference(path: Path) -> Reference:
    with np.load(path / "reference.npz", allow_pickle=False) as stored:
        reference = Reference(
            param_names=tuple(stored["param_names"].tolist()),
            gaussian=_gaussian(stored),
            **{name: kind(stored[name]) for name, kind in _VALUES.items() if name in stored},
            **{name: stored[name] for name in _ARRAYS},
            **{name: stored.get(name) for name in _OPTIONAL_ARRAYS},
        )
    _require_shapes(reference)
    return reference


def _factor(gaussian: GaussianFit) -> dict[str, Any]:
    """Arrays that hold a Gaussian's factor, and the groups of a sparse one."""
    if gaussian.blocks is None:
        return {"chol": gaussian.chol}
    entries = gaussian.chol.tocoo()
    places = np.stack([entries.row, entries.col])
    hubs = {} if gaussian.blocks.hubs is None else {"hubs": gaussian.blocks.hubs}
    return {"entries": entries.data, "places": places, "group": gaussian.blocks.group, **hubs}


def _gaussian(stored: Any) -> GaussianFit:
    """The Gaussian that such arrays and its mean hold."""
    mean = stored["mean"]
    if "chol" in stored:
        return GaussianFit(mean, stored["chol"])
    shape = (len(mean), len(mean))
    chol = Matrix((stored["entries"], tuple(stored["places"])), shape=shape)
    return GaussianFit(mean, chol, Blocks(stored["group"], stored.get("hubs")))


def _require_shapes(reference: Reference) -> None:
    """Raise unless the arrays' shapes agree."""
    count, width = len(reference.draws), len(reference.param_names)
    expected: dict[str, tuple[Any, tuple[int, ...]]] = {
        "draws": (reference.draws, (count, width)),
        "mean": (reference.gaussian.mean, (width,)),
        "chol": (reference.gaussian.chol, (width, width)),
        "log_prior": (reference.log_prior, (count,)),
        "log_likelihood": (reference.log_likelihood, (count,)),
    }
    for name, (array, shape) in expected.items():
        if array.shape != shape or array.dtype.kind != "f":
            raise OutputError(
                f"{name} has shape {array.shape} and type {array.dtype}, expected numbers of shape "
                f"{shape}"
            )
    if not np.isfinite(reference.draws).all():
        raise OutputError("some draws are not finite")


def _save_certificate(certificate: Certificate, path: Path) -> None:
    import pandas as pd

    table = pd.DataFrame(
        {
            "draw": certificate.draw_index,
            "log_weight": certificate.log_weights,
            "weight": certificate.weights,
            **{name: getattr(certificate, name) for name in _NUMBERS},
            **{name: text for name in _TEXTS if (text := getattr(certificate, name))},
        }
    )
    with atomic_path(path / "certificate.csv") as temporary:
        table.to_csv(temporary, index=False)
    if certificate.marginals is None:
        (path / _MARGINALS).unlink(missing_ok=True)
        return
    with atomic_path(path / _MARGINALS) as temporary:
        certificate.marginals.to_frame().to_csv(temporary, index=False)


def _load_certificate(path: Path) -> Certificate:
    table = read_numbers(path / "certificate.csv")
    draws = table["draw"].to_numpy()
    if draws.dtype.kind != "i" or not np.isfinite(table["weight"].to_numpy(float)).all():
        raise OutputError("its draws are not whole numbers, or its weights are not finite")

    def kept(name: str) -> float:
        return float(table[name].iloc[0]) if name in table else float("nan")

    about: dict[str, Any] = {name: int(table[name].iloc[0]) for name in _COUNTS}
    about |= {name: kept(name) for name in _SHARES}
    about |= {name: str(table[name].iloc[0]) for name in _TEXTS if name in table}
    mean, sd, bulk, tail = map(kept, _MONTE_CARLO)
    errors = MonteCarlo(mean, sd, bulk, tail, heavy=about.pop("heavy_tails", ""))
    return certify(
        table["log_weight"].to_numpy(),
        heldout_error=float(table["heldout_error"].iloc[0]),
        draw_index=draws,
        moved=(kept("mean_shift"), kept("sd_change")),
        **about,
        monte_carlo=errors,
        marginals=_load_marginals(path / _MARGINALS),
    )


def _load_marginals(path: Path) -> Marginals | None:
    """Load the certificate's marginals; None if the file is missing, as in earlier versions."""
    if not path.exists():
        return None
    with reading(path):
        return Marginals.of_frame(read_numbers(path))


@dataclass(frozen=True)
class _Stage:
    """How a stage's result is written to a folder and read: its files, and those it may have."""

    files: tuple[str, ...]
    save: Callable[[Any, Path], object]
    load: Callable[[Path], Any]
    beside: tuple[str, ...] = ()


_STAGES = {
    "reference": _Stage(("reference.npz",), _save_reference, _load_reference),
    "coreset": _Stage(
        ("coreset.csv", "coreset.json"),
        lambda coreset, path: coreset.save(path / "coreset.csv"),
        lambda path: Coreset.load(path / "coreset.csv"),
        beside=("coreset.npz",),  # of a control variate
    ),
    "posterior": _Stage(
        ("posterior.nc",),
        lambda posterior, path: arviz.save(posterior, path / "posterior.nc"),
        lambda path: arviz.load(path / "posterior.nc"),
    ),
    "certificate": _Stage(
        ("certificate.csv",), _save_certificate, _load_certificate, beside=(_MARGINALS,)
    ),
}
_STAGE_FILES = tuple(name for stage in _STAGES.values() for name in (*stage.files, *stage.beside))
_RESULTS = (COMPANION, PROGRAM, "report.json", "report.md", "report.html", "laplace.nc")
# Files of the command line, which versions without checksums did not list.
_PICTURES = ("comparison.csv", "density.png", "forest.png", "weights.png", "certificate.png")


def _all_there(path: Path, names: Iterable[str]) -> bool:
    """Whether files exist and were written completely."""
    if not all(os.path.exists(path / name) for name in names):
        return False
    listed = read_checksums(path)
    return listed is None or all(name in listed for name in names)


def is_complete(path: Path) -> bool:
    """Whether the run in a folder is finished: its report is written, and then listed, last."""
    return _all_there(path, ("report.json",))


def _failed(path: Path) -> bool:
    """Whether the run in a folder ended with an error and without results."""
    return (path / _FAILED).exists() and not is_complete(path)


def _stage_files(path: Path) -> list[str]:
    return [name for name in _STAGE_FILES if (path / name).exists()]


def _holds_run(path: Path) -> bool:
    """Whether a folder holds finished stages."""
    return bool(_stage_files(path)) or is_complete(path) or (path / _NEXT).is_dir()


def _written_in(path: Path) -> list[str]:
    """Names of the files of a folder that we wrote."""
    try:
        listed = read_checksums(path)
    except OutputError:  # the list is damaged: use the known names
        listed = None
    others = _PICTURES if listed is None else listed
    return [*dict.fromkeys((_MARKER, CHECKSUMS, _FAILED, *_STAGE_FILES, *_RESULTS, *others))]


def _runs_below(path: Path) -> list[Path]:
    """Folders of rounds, and of a run that is to replace this one."""
    named = [below for below in path.iterdir() if re.fullmatch(r"round_\d+(\.tmp)?", below.name)]
    # The first round, set aside, was not marked by earlier versions.
    ours = [r for r in named if (r / _MARKER).exists() or r.stem == _round(0)]
    found = [*ours, path / _NEXT, path / _PAST]
    return [below for below in found if below.is_dir() and not below.is_symlink()]


def _remove(run: Path) -> None:
    """Remove a run's files, and its folder unless something else is in it, too."""
    RunFolder(run, {}).clear()
    with suppress(OSError):
        run.rmdir()


def _require_writable(folder: Path) -> None:
    """Raise unless the folder exists or can be made."""
    nearest = next(p for p in (folder, *folder.absolute().parents) if p.exists())
    if not nearest.is_dir():
        raise OutputError(f"{nearest} is a file; name a folder for the results")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise OutputError(
            f"cannot make the folder {folder}: Permission denied; name one that you may write to"
            if nearest != folder
            else f"cannot write to the folder {folder}: Permission denied"
        )


def _copy(source: Path, target: Path, names: Iterable[str]) -> None:
    """Copy files from one folder to another, each completely or not at all."""
    names = list(names)
    for name in names:
        with atomic_path(target / name) as temporary:
            shutil.copyfile(source / name, temporary)
    record(target, names)


def _take_place(new: Path, old: Path) -> None:
    """Move the files of a finished run to the folder around it."""
    for below in _runs_below(old):
        if below != new:
            _remove(below)
    listed = read_checksums(new) or {}
    for name in set(_written_in(old)) - {*listed, _MARKER, CHECKSUMS}:
        (old / name).unlink(missing_ok=True)
    for below in _runs_below(new):
        (old / below.name).mkdir(exist_ok=True)
        written = [name for name in _written_in(below) if (below / name).exists()]
        _copy(below, old / below.name, written)
    _copy(new, old, [*listed])
    with atomic_path(old / _MARKER) as temporary:
        shutil.copyfile(new / _MARKER, temporary)
    shutil.rmtree(old / _PAST, ignore_errors=True)
    os.replace(new, old / _PAST)
    shutil.rmtree(old / _PAST, ignore_errors=True)


def _tidy(path: Path) -> None:
    """Finish the work of a process that was killed."""
    remove_leftovers(path)
    shutil.rmtree(path / _PAST, ignore_errors=True)
    if is_complete(path / _NEXT):
        _take_place(path / _NEXT, path)
