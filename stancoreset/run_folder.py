"""A folder that keeps what is finished, so that an interrupted run can go on.

Each stage is written once, whole, when it ends: `RunFolder.once` computes a stage or
reads it back. Without a folder it only computes.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from stancoreset import arviz_compat
from stancoreset.certificate import Certificate, certify
from stancoreset.coreset import Coreset
from stancoreset.errors import OptionError, OutputError
from stancoreset.files import atomic_path, is_temporary, read_numbers, remove_leftovers
from stancoreset.reference.base import GaussianFit, Reference

__all__ = ["RunFolder", "load_stage"]

T = TypeVar("T")

_MARKER = ".stancoreset.json"
# Of a value in a message.
_LONGEST = 120


def _round(number: int | str) -> str:
    return f"round_{number}"


#: The coreset's rows, where the full data are too large to be given again.
COMPANION = "coreset_data.json"


class RunFolder:
    """Finished stages of one run in a folder of their own.

    Parameters
    ----------
    path : Path or None
        None keeps nothing.
    fingerprint : mapping
        What the stages depend on: program, data, settings.
    """

    def __init__(self, path: Path | None, fingerprint: Mapping[str, Any]) -> None:
        self.path = path
        self._fingerprint = json.loads(json.dumps(fingerprint, default=str))

    @classmethod
    def open(
        cls,
        path: str | Path | None,
        fingerprint: Mapping[str, Any],
        *,
        resume: bool = False,
        overwrite: bool = False,
    ) -> RunFolder:
        """Take an empty folder, or one of ours.

        Parameters
        ----------
        path : path or None
        fingerprint : mapping
        resume : bool
            Use the stages that are there; they must come from the same program, data and
            settings.
        overwrite : bool
            Drop the stages that are there.

        Raises
        ------
        OutputError
            If the folder holds something that is not ours, or a run of ours and neither
            `resume` nor `overwrite` is set, or the run there differs from this one.
        OptionError
            If both are set.
        """
        if resume and overwrite:
            raise OptionError(
                "resume keeps the stages that are there and overwrite drops them; give one of them"
            )
        folder = cls(Path(path) if path is not None else None, fingerprint)
        if folder.path is None:
            return folder
        marker = folder.path / _MARKER
        if folder.path.is_dir():
            remove_leftovers(folder.path)
        if folder.path.exists() and not folder.path.is_dir():
            raise OutputError(f"{folder.path} is a file; name a folder for the results")
        if marker.exists():
            if overwrite:
                folder.clear()
            elif not resume:
                raise OutputError(
                    f"{folder.path} holds an earlier run; resume it (resume=True, --resume), "
                    "replace it (overwrite=True, --overwrite), or name another folder"
                )
            else:
                folder._require_same(marker)
                return folder
        elif folder.path.exists() and any(not is_temporary(path) for path in folder.path.iterdir()):
            raise OutputError(
                f"{folder.path} is not empty and was not made by stancoreset; name another folder"
            )
        try:
            folder.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"cannot make the folder {folder.path}: {error.strerror}") from None
        with atomic_path(marker) as temporary:
            temporary.write_text(json.dumps(folder._fingerprint, indent=2) + "\n")
        return folder

    def _require_same(self, marker: Path) -> None:
        try:
            there = json.loads(marker.read_text())
        except ValueError:
            raise OutputError(f"{marker} is damaged; name another folder or overwrite it") from None
        keys = {*there, *self._fingerprint}
        different = sorted(k for k in keys if there.get(k) != self._fingerprint.get(k))
        if different:
            pairs = ", ".join(
                f"{k} was {_shown(there.get(k))}, now {_shown(self._fingerprint.get(k))}"
                for k in different
            )
            raise OutputError(
                f"{self.path} holds another run, it cannot be resumed: {pairs}; name another "
                "folder, or remove what is in this one"
            )

    def clear(self) -> None:
        """Remove the files that a run of ours leaves in the folder, and nothing else."""
        if self.path is None:
            return
        for name in (_MARKER, *(file for files in _FILES.values() for file in files), *_REPORTS):
            (self.path / name).unlink(missing_ok=True)
        for folder in self.path.glob(_round("*")):
            shutil.rmtree(folder)

    def round(self, number: int, action: str) -> RunFolder:
        """The folder of one round: this one for the first, one below it for each further one."""
        if self.path is None:
            return self
        if number == 0:
            settled = self.path / _round(0)
            return RunFolder(settled, {}) if settled.exists() else self
        fingerprint = {**self._fingerprint, "round": number, "action": action}
        return RunFolder.open(self.path / _round(number), fingerprint, resume=True)

    def settle(self, best: int) -> None:
        """Make the stages of the best round those of the run; the first pass is kept aside.

        Raises
        ------
        OutputError
            If there is no room.
        """
        if self.path is None or best == 0:
            return
        try:
            self._set_aside()
        except OSError as error:
            raise OutputError(
                f"cannot write {self.path / _round(0)}: {error.strerror or error}"
            ) from None
        for file in RunFolder(self.path / _round(best), {})._stage_files():
            with atomic_path(self.path / file.name) as temporary:
                shutil.copyfile(file, temporary)

    def _set_aside(self) -> None:
        """Keep the stages of the first pass."""
        assert self.path is not None
        aside, partial = self.path / _round(0), self.path / f"{_round(0)}.tmp"
        if aside.exists():
            return
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        for file in self._stage_files():
            shutil.copy2(file, partial)
        partial.rename(aside)

    def _stage_files(self) -> list[Path]:
        assert self.path is not None
        names = (*(file for files in _FILES.values() for file in files), "coreset.npz")
        return [self.path / name for name in names if (self.path / name).exists()]

    def once(self, stage: str, compute: Callable[[], T]) -> T:
        """The stage's result: read back if it is finished, else computed and written.

        Parameters
        ----------
        stage : {"reference", "coreset", "posterior", "certificate"}
        compute : callable
        """
        if self.path is not None and self.finished(stage):
            return load_stage(self.path, stage)  # type: ignore[no-any-return]
        value = compute()
        self.keep(stage, value)
        return value

    def keep(self, stage: str, value: Any) -> None:
        """Write a stage's result, unless it is there."""
        if self.path is not None and not self.finished(stage):
            _SAVE[stage](value, self.path)

    @property
    def complete(self) -> bool:
        """Whether the run in it came to its end: its report is written last."""
        return self.path is not None and (self.path / "report.json").exists()

    def finished(self, stage: str) -> bool:
        """Whether every file of a stage is there (each appears only when it is whole)."""
        return self.path is not None and all((self.path / f).exists() for f in _FILES[stage])


def load_stage(path: Path, stage: str) -> Any:
    """Read a finished stage.

    Raises
    ------
    OutputError
        If its files are missing.
    """
    missing = [file for file in _FILES[stage] if not (path / file).exists()]
    if missing:
        raise OutputError(f"{path} has no {missing[0]}: the run's stage '{stage}' is not finished")
    return _LOAD[stage](path)


def _save_reference(reference: Reference, path: Path) -> None:
    arrays: dict[str, Any] = {
        "draws": reference.draws,
        "mean": reference.gaussian.mean,
        "chol": reference.gaussian.chol,
        "log_prior": reference.log_prior,
        "log_likelihood": reference.log_likelihood,
        "log_q": reference.log_q,
        "spare": reference.spare,
        "elsewhere": reference.elsewhere,
    }
    with atomic_path(path / "reference.npz") as temporary, temporary.open("wb") as stream:
        np.savez(
            stream,
            method=reference.method,
            seed=reference.seed,
            param_names=np.array(reference.param_names),
            **{name: value for name, value in arrays.items() if value is not None},
        )


def _load_reference(path: Path) -> Reference:
    with np.load(path / "reference.npz") as stored:
        return Reference(
            method=str(stored["method"]),
            draws=stored["draws"],
            param_names=tuple(stored["param_names"].tolist()),
            seed=int(stored["seed"]),
            gaussian=GaussianFit(stored["mean"], stored["chol"]),
            log_prior=stored["log_prior"],
            log_likelihood=stored["log_likelihood"],
            log_q=stored.get("log_q"),
            spare=stored.get("spare"),
            elsewhere=stored.get("elsewhere"),
        )


def _save_certificate(certificate: Certificate, path: Path) -> None:
    import pandas as pd

    table = pd.DataFrame(
        {
            "draw": certificate.draw_index,
            "log_weight": certificate.log_weights,
            "weight": certificate.weights,
            "heldout_error": certificate.heldout_error,
            "divergences": certificate.divergences,
            "n_transitions": certificate.n_transitions,
            "unseen": certificate.unseen,
            "mean_shift": certificate.mean_shift,
            "sd_change": certificate.sd_change,
            "rhat": certificate.rhat,
            "unvisited": certificate.unvisited,
            **({"against": certificate.against} if certificate.against else {}),
            **({"witness": certificate.witness} if certificate.witness else {}),
        }
    )
    with atomic_path(path / "certificate.csv") as temporary:
        table.to_csv(temporary, index=False)


def _load_certificate(path: Path) -> Certificate:
    table = read_numbers(path / "certificate.csv")

    def kept(name: str) -> float:
        return float(table[name].iloc[0]) if name in table else float("nan")

    return certify(
        table["log_weight"].to_numpy(),
        heldout_error=float(table["heldout_error"].iloc[0]),
        draw_index=table["draw"].to_numpy(),
        divergences=int(table["divergences"].iloc[0]),
        n_transitions=int(table["n_transitions"].iloc[0]),
        unseen=kept("unseen"),
        moved=(kept("mean_shift"), kept("sd_change")),
        against=str(table["against"].iloc[0]) if "against" in table else "",
        rhat=kept("rhat"),
        unvisited=kept("unvisited"),
        witness=str(table["witness"].iloc[0]) if "witness" in table else "",
    )


_FILES: dict[str, tuple[str, ...]] = {
    "reference": ("reference.npz",),
    "coreset": ("coreset.csv", "coreset.json"),
    "posterior": ("posterior.nc",),
    "certificate": ("certificate.csv",),
}
_REPORTS = (
    "coreset.npz",
    COMPANION,
    "report.json",
    "report.md",
    "laplace.nc",
    "comparison.csv",
    "density.png",
    "forest.png",
    "weights.png",
    "certificate.png",
)
_SAVE: dict[str, Callable[[Any, Path], object]] = {
    "reference": _save_reference,
    "coreset": lambda coreset, path: coreset.save(path / "coreset.csv"),
    "posterior": lambda posterior, path: arviz_compat.save(posterior, path / "posterior.nc"),
    "certificate": _save_certificate,
}
_LOAD: dict[str, Callable[[Path], Any]] = {
    "reference": _load_reference,
    "coreset": lambda path: Coreset.load(path / "coreset.csv"),
    "posterior": lambda path: arviz_compat.load(path / "posterior.nc"),
    "certificate": _load_certificate,
}


def _shown(value: Any) -> str:
    """For a message: a list of five hundred files need not be in it."""
    words = repr(value)
    return words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}…"
