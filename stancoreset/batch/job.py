"""A job of a batch: its settings and the name of its folder."""

from __future__ import annotations

import glob
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from stancoreset.engines import NUTS, EngineName
from stancoreset.files import content_key
from stancoreset.rows.tables import data_files

#: Settings of a fit that also apply to NUTS on the full data.
FULL_SETTINGS = ("seed", "inits", *NUTS.names(), "engine_output_dir", "coords", "dims")
#: States of jobs that have passed a limit.
OUT_OF_TIME, OUT_OF_MEMORY = "out of time", "out of memory"
#: States of jobs that ended without a result.
ENDED = ("failed", OUT_OF_TIME, OUT_OF_MEMORY)
# Settings that the batch decides itself.
_NOT_SETTINGS = ("show_console", "refresh")


@dataclass(frozen=True)
class Limits:
    """The largest time and memory of a job: seconds by the clock, and GB; None without a limit.

    >>> Limits(seconds=60).passed(61.0, 0.5)[0]
    'out of time'
    """

    seconds: float | None = None
    gigabytes: float | None = None

    def passed(self, seconds: float, gigabytes: float) -> tuple[str, str]:
        """The state of a job that has passed a limit, and what to do; empty if it has not."""
        if self.seconds is not None and seconds > self.seconds:
            return OUT_OF_TIME, (
                f"the job had run for {seconds:.0f} s and time_limit is {self.seconds:g} s; raise "
                "time_limit, or give it max_seconds or a lower max_rounds, and continue with "
                "--retry, which keeps finished stages"
            )
        if self.gigabytes is not None and gigabytes > self.gigabytes:
            return OUT_OF_MEMORY, (
                f"the job's processes held {gigabytes:.2f} GB and memory_limit is "
                f"{self.gigabytes:g} GB; raise memory_limit, or leave the rows on disk (columns), "
                "and continue with --retry, which keeps finished stages"
            )
        return "", ""


@dataclass(frozen=True)
class Job:
    """One fit, or one NUTS run on the full data.

    `data` and `settings` are arguments of `CoresetModel.fit` (or ``sample``). If `data` name files,
    folders or patterns of rows, `columns` is the path of the file that maps their columns to
    variables. `thinned` is the number of weighted draws to keep beside all, and `full` the name of
    the job that runs NUTS on the full data for comparison. `limits` end a job and change no result.
    """

    name: str
    model: str
    data: Any
    engine: EngineName = "auto"
    obs: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    columns: str | None = None
    thinned: int | None = None
    full: str | None = None
    kind: str = "fit"
    limits: Limits = field(default_factory=Limits, compare=False)

    @property
    def key(self) -> str:
        """A key that changes with the settings and the job's input files."""
        stamps = []
        reference = str(self.settings.get("reference", ""))
        read = [reference] if reference.endswith(".nc") else []
        own = files_of(self.data)
        if self.columns is not None:
            own = [self.columns, *data_files(own)]
        for file in (self.model, *own, *read):
            found = Path(file).stat()
            stamps.append((file, found.st_size, found.st_mtime_ns))
        more = [] if self.thinned is None else [self.thinned]
        return content_key(
            self.kind, self.engine, self.obs, self.settings, self.data, stamps, *more
        )

    def describe(self) -> dict[str, Any]:
        """Plain values for a worker process."""
        left = ("full", "limits")
        told = {m.name: getattr(self, m.name) for m in fields(self) if m.name not in left}
        return {**told, "settings": dict(self.settings)}


def default_settings() -> dict[str, Any]:
    """Settings that a job may have, with the defaults of a fit."""
    return {name: option.default for name, option in fit_settings().items()}


@cache
def fit_settings() -> dict[str, Field[Any]]:
    """The options of a fit that a job may set."""
    from stancoreset.fit import fit_options

    return {name: o for name, o in fit_options().items() if name not in _NOT_SETTINGS}


def name_parts(job: Job) -> dict[str, Any]:
    """The parts of a job's name: every setting, with the defaults of `fit`."""
    return {
        **default_settings(),
        **job.settings,
        "model": Path(job.model).stem,
        "data": next(map(_stem, files_of(job.data)), "data"),
        "engine": job.engine,
    }


def full_job(job: Job) -> Job:
    """The job of NUTS on the full data, shared by all jobs of the same model, data and sampler."""
    settings = {key: job.settings[key] for key in FULL_SETTINGS if key in job.settings}
    parts = name_parts(job)
    about = [job.data] if job.columns is None else [job.data, job.columns]
    key = content_key(job.model, *about, job.engine, job.obs, settings)[:6]
    name = f"full-{parts['model']}-{parts['data']}-s{parts['seed']}-{key}"
    return replace(job, name=name, settings=settings, thinned=None, full=None, kind="full")


def _stem(path: str) -> str:
    """The name of data: that of a file or folder, or for a pattern that of its folder."""
    return Path(path).stem if not glob.has_magic(Path(path).name) else Path(path).parent.stem


def files_of(data: Any) -> list[str]:
    """The paths among the sources of the data."""
    parts = data if isinstance(data, list) else [data]
    return [part for part in parts if isinstance(part, str)]


def plain(value: Any) -> Any:
    """Convert arrays to lists, for JSON."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    return value.tolist() if hasattr(value, "tolist") else value


def short(value: Any) -> str:
    """Convert a value to a part of a name."""
    if str(value).endswith((".nc", ".json")):
        return Path(str(value)).stem
    if isinstance(value, str | int | float):
        return str(value)
    return content_key(plain(value))[:6]
