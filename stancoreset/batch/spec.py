"""Jobs from a TOML file: defaults, grids, names; all checked before any is run."""

from __future__ import annotations

import itertools
import os
import re
import string
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from stancoreset.batch.job import Job, Limits, fit_settings, full_job, name_parts, plain, short
from stancoreset.checks import (
    check_choice,
    check_number,
    check_path,
    check_text,
    check_whole,
    explain_absence,
    near_misses,
    shown,
)
from stancoreset.engines import ENGINES, capabilities_of
from stancoreset.errors import DataError, OptionError, StancoresetError
from stancoreset.fit import AUTO, Plan, own_options, refuse_former
from stancoreset.processes import memory_of_group
from stancoreset.rows.tables import data_files, table_from_file
from stancoreset.stan import stan_model_names, stan_model_path

_LIMITS = ("time_limit", "memory_limit")
_OWN = (
    *("model", "data", "columns", "engine", "obs", "full", "thinned", "name", "options"),
    *_LIMITS,
)
_TABLES = ("defaults", "grid", "jobs")
_RESERVED = {"summary.csv", "summary.md"}


def read_jobs(spec: str | Path | Mapping[str, Any]) -> list[Job]:
    """Read the jobs of a TOML file, or of a dict of the same form, in order; see `run_batch`.

    Paths in a file are relative to the file's folder. A `DataError` is raised if the file does not
    exist or is not TOML; an `OptionError` if a key is unknown, a value cannot be used, a file is
    missing, or a job is repeated. The message names file, table and key.

    >>> import tempfile, pathlib
    >>> data = pathlib.Path(tempfile.mkdtemp()) / "flights.json"
    >>> _ = data.write_text("{}")
    >>> spec = {
    ...     "defaults": {"model": "logistic", "data": str(data)},
    ...     "jobs": [{"size": [50, 100], "method": ["pursuit", "giga"]}],
    ... }
    >>> [job.name for job in read_jobs(spec)][:2]
    ['logistic-flights-k50-pursuit-s0', 'logistic-flights-k50-giga-s0']
    """
    if isinstance(spec, Mapping):
        reader = _Reader("jobs", Path.cwd())
        tables = spec
    else:
        path = check_path("spec", spec)
        reader = _Reader(str(path), path.resolve().parent)
        tables = _read_toml(path)
    return reader.read(tables)


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        hint = "" if path.exists() else f"; {explain_absence(path)}"
        raise DataError(f"cannot read {path}: {error.strerror}{hint}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not TOML: {error}") from None


class _Reader:
    """Creates jobs, and tracks its position in the file for messages."""

    def __init__(self, source: str, base: Path) -> None:
        self._source = source
        self._base = base

    def read(self, tables: Mapping[str, Any]) -> list[Job]:
        unknown = [key for key in tables if key not in _TABLES]
        if unknown:
            raise OptionError(
                f"{self._source} has the table or key {unknown[0]!r}; expected only [defaults], "
                "[grid] and [[jobs]]: move it into one of these, or remove it"
            )
        defaults = self._table(tables, "defaults")
        grid = self._table(tables, "grid")
        jobs = tables.get("jobs", [{}] if grid or defaults else [])
        if not isinstance(jobs, list) or not all(isinstance(job, Mapping) for job in jobs):
            raise OptionError(
                f"{self._source}: jobs is {shown(jobs)}, expected a list of tables; write [[jobs]] "
                "before the keys of each job"
            )
        if not jobs:
            raise OptionError(
                f"{self._source} has no jobs; write [[jobs]] before the keys of each job"
            )
        for place, table in (("[defaults]", defaults), ("[grid]", grid)):
            self._known(place, table)
        found: dict[str, tuple[Job, str]] = {}
        for number, table in enumerate(jobs, 1):
            place = f"[[jobs]] {number}"
            self._known(place, table)
            merged = {**defaults, **grid, **table}
            for key, value in merged.items():
                if isinstance(value, list | tuple) and not len(value):
                    raise self._error(place, key, "is an empty list, which gives no job")
            for values in _product(merged):
                for job in self._jobs(place, values, named={*grid, *table}):
                    self._add(found, job, place)
        return sorted((job for job, _ in found.values()), key=lambda job: job.kind == "full")

    def _table(self, tables: Mapping[str, Any], name: str) -> Mapping[str, Any]:
        table = tables.get(name, {})
        if not isinstance(table, Mapping):
            raise OptionError(
                f"{self._source}: {name} is {shown(table)}, expected a table; write [{name}] on a "
                "line of its own, before its keys"
            )
        return table

    def _known(self, place: str, table: Mapping[str, Any]) -> None:
        known = [*_OWN, *fit_settings()]
        for key in table:
            if key in known:
                continue
            with self._at(place):
                refuse_former(key)
            close = near_misses(str(key), known)
            hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(known)}"
            raise self._error(
                place,
                key,
                f"is not known; {hint} (an option of the method goes into options = {{…}})",
            )

    @contextmanager
    def _at(self, place: str) -> Iterator[None]:
        """Name the place in the file where an error comes from."""
        try:
            yield
        except StancoresetError as error:
            raise OptionError(f"{self._source}: {place}: {error}") from None

    def _error(self, place: str, key: str, words: str) -> OptionError:
        return OptionError(f"{self._source}: {place}: {key} {words}")

    def _add(self, found: dict[str, tuple[Job, str]], job: Job, place: str) -> None:
        other, before = found.get(job.name.casefold(), (None, ""))
        if other is None:
            found[job.name.casefold()] = (job, place)
        elif not (job.kind == "full" and job == other):
            what = "is the same job again" if other == job else "would have the same folder"
            raise self._error(
                place,
                "name",
                f"{job.name!r} {what} as in {before}; remove one, or give them different names "
                '(name = "…{size}…")',
            )

    def _jobs(self, place: str, values: Mapping[str, Any], named: set[str]) -> Iterator[Job]:
        """The job of one point of the grid, and its run on the full data if requested."""
        for key in ("model", "data"):
            if key not in values:
                raise self._error(place, key, "is missing")
        settings = {k: self._setting(place, k, v) for k, v in values.items() if k in fit_settings()}
        options = values.get("options", {})
        if not isinstance(options, Mapping) or not all(isinstance(k, str) for k in options):
            raise self._error(place, "options", f"is {shown(options)}, expected a table")
        own = own_options(values.get("method"))
        twice = sorted(set(options) & {*fit_settings(), *_OWN} - {*own})
        if twice:
            raise self._error(
                place, f"options.{twice[0]}", "is not an option of a method: move it out of options"
            )
        engine, obs, full = values.get("engine", "auto"), values.get("obs"), values.get("full")
        with self._at(place):
            check_choice("engine", engine, ENGINES)
            if obs is not None:
                check_text("obs", obs, "the name of a data variable")
        self._plan(place, settings, options, engine)
        if full is not None and not isinstance(full, bool):
            raise self._error(place, "full", f"is {shown(full)}, expected true or false")
        thinned = values.get("thinned")
        if thinned is not None:
            with self._at(place):
                check_whole("thinned", thinned, 1)
        model = self._model(place, values["model"])
        data, columns = self._rows(place, values["data"], values.get("columns"))
        limits = self._limits(place, values)
        asked = {**settings, **options}
        job = Job("", model, data, engine, obs, asked, columns, thinned, limits=limits)
        whole = full_job(job) if full else None
        name = self._name(place, values, job, named)
        yield replace(job, name=name, full=whole.name if whole else None)
        if whole is not None:
            yield whole

    def _limits(self, place: str, values: Mapping[str, Any]) -> Limits:
        """The limits of a job's time and memory."""
        asked = [values.get(name) for name in _LIMITS]
        for name, value in zip(_LIMITS, asked, strict=True):
            if value is not None:
                with self._at(place):
                    check_number(name, value, 0, strict=True)
        if asked[1] is not None and memory_of_group(os.getpid()) is None:
            raise self._error(
                place,
                "memory_limit",
                "cannot be kept, because this system does not tell the memory of processes (it has "
                "no /proc); leave it out",
            )
        return Limits(*asked)

    def _setting(self, place: str, key: str, value: Any) -> Any:
        """Check that a value has the annotated type of the option of a fit."""
        option = fit_settings()[key]
        kind = str(option.type)
        if value is None and (option.default is None or key == "seed"):  # any seed
            return None
        base = kind.removesuffix(" | None")
        whole = isinstance(value, int) and not isinstance(value, bool)
        auto = isinstance(value, str) and value == AUTO
        expected = {
            "int": (whole, "a whole number"),
            "float": (whole or isinstance(value, float), "a number"),
            "bool": (isinstance(value, bool), "true or false"),
            "str": (isinstance(value, str), "a string"),
        }
        right, words = expected.get(base, (True, ""))
        if key == "size":
            right, words = whole or auto, f"a whole number or {AUTO!r}"
        if not right:
            raise self._error(place, key, f"is {shown(value)}, expected {words}")
        least = option.metadata["least"]
        if least is not None and whole and value < least:
            raise self._error(
                place, key, f"is {value}, expected a whole number of at least {least}"
            )
        if key in ("inits", "policy"):
            return self._values(place, key, value)
        if key == "engine_output_dir" and isinstance(value, str):
            return str(self._path(place, key, value))
        if key == "reference" and not isinstance(value, str):
            raise self._error(place, key, f"is {shown(value)}, expected a name or a path *.nc")
        if key == "reference" and value.endswith(".nc"):
            return str(self._file(place, key, value))
        return value

    def _values(self, place: str, key: str, value: Any) -> Any:
        """Values by name, or files of them; paths are relative to this file."""
        if isinstance(value, list | tuple):
            return [self._values(place, key, one) for one in value]
        if isinstance(value, Mapping):
            return plain(value)
        return str(self._file(place, key, value)) if isinstance(value, str) else value

    def _plan(
        self, place: str, settings: Mapping[str, Any], options: Mapping[str, Any], engine: Any
    ) -> None:
        """Check settings as the fit does, for any number of rows."""
        asked = {**settings, **options}
        if str(asked.get("reference", "")).endswith(".nc"):  # draws that the job reads
            del asked["reference"]
        with self._at(place):
            plan = Plan.of(asked)
            plan.require(sys.maxsize)
            if engine != "auto" and not plan.is_gaussian:
                plan.nuts.require_capabilities(engine, capabilities_of(engine))

    def _path(self, place: str, key: str, value: Any) -> Path:
        """Resolve a path relative to this file."""
        with self._at(place):
            return check_path(key, self._base / check_path(key, value))

    def _file(self, place: str, key: str, value: Any) -> Path:
        path = self._path(place, key, value)
        if not path.exists():
            raise self._error(place, key, f"is {str(value)!r}: there is no file {path}")
        return path

    def _model(self, place: str, value: Any) -> str:
        """Resolve a path, or the name of a ready program if there is no such file."""
        if (
            isinstance(value, str)
            and value in stan_model_names()
            and not (self._base / value).is_file()
        ):
            return str(stan_model_path(value))
        path = self._file(place, "model", value)
        if not path.is_file():
            raise self._error(place, "model", f"is {value!r}: {path} is not a file")
        return str(path)

    def _rows(self, place: str, data: Any, columns: Any) -> tuple[Any, str | None]:
        """Sources of the data; with columns, files of rows and the file that describes them."""
        if columns is None:
            return self._data(place, data), None
        described = str(self._file(place, "columns", columns))
        given = list(data) if isinstance(data, list | tuple) else [data]
        for value in given:
            if not isinstance(value, str | Path):
                raise self._error(
                    place,
                    "data",
                    f"has {shown(value)}, expected the path of a file, a folder or a pattern: "
                    "data other than rows go into the file of columns, under [values]",
                )
        paths = [str(self._base / Path(value).expanduser()) for value in given]
        with self._at(place):
            table_from_file(described, paths)
            data_files(paths)
        return paths if isinstance(data, list | tuple) else paths[0], described

    def _data(self, place: str, value: Any) -> Any:
        """Make paths absolute; numbers beside them are checked when the data are read."""
        if isinstance(value, list | tuple):
            return [self._data(place, part) for part in value]
        if isinstance(value, Mapping):
            return plain(value)
        path = self._file(place, "data", value)
        if path.is_dir():
            raise self._error(
                place,
                "data",
                f"is {value!r}: {path} is a folder; map the columns of its files to Stan "
                "variables in columns = FILE (see stancoreset fit --help)",
            )
        return str(path)

    def _name(self, place: str, values: Mapping[str, Any], job: Job, named: set[str]) -> str:
        parts = name_parts(job)
        template = values.get("name")
        if template is None:
            core = ("model", "data", "size", "method", "seed", "engine_output_dir")
            name = "{model}-{data}-k{size}-{method}-s{seed}".format(**parts)
            others = {
                **{key: job.settings[key] for key in fit_settings() if key in job.settings},
                **{
                    key: values[key]
                    for key in ("engine", "obs", "columns", "thinned")
                    if key in values
                },
                **{f"options.{k}": v for k, v in values.get("options", {}).items()},
            }
            for key, value in others.items():
                if key not in core and key.partition(".")[0] in named:
                    name += f"-{key.removeprefix('options.')}={short(value)}"
        else:
            name = self._filled(place, template, parts)
        name = re.sub(r"[^\w.=+-]+", "_", name).strip(".")
        if not name or name in _RESERVED:
            raise self._error(place, "name", f"is {template!r}, which is not a valid folder name")
        most = 200  # of 255: names of journals and temporary files are longer
        if len(name.encode()) > most:
            raise self._error(
                place,
                "name",
                f"is {shown(name)} of {len(name)} characters, expected at most {most}: give it "
                'another, name = "…{size}…"',
            )
        return name

    def _filled(self, place: str, template: Any, parts: Mapping[str, Any]) -> str:
        """Fill a template with the settings that it names in braces."""
        if not isinstance(template, str):
            raise self._error(place, "name", f"is {shown(template)}, expected a string")
        try:
            named = [
                name for _, name, _, _ in string.Formatter().parse(template) if name is not None
            ]
            odd = [name for name in named if name not in parts]
            if odd:
                raise ValueError(f"{odd[0]!r} is not one of {', '.join(parts)}")
            return template.format(**parts)
        except (ValueError, TypeError) as error:
            raise self._error(place, "name", f"is {shown(template)}: {error}") from None


def _product(table: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every combination of the values in lists; the last key varies fastest."""
    values = [v if isinstance(v, list | tuple) else [v] for v in table.values()]
    for chosen in itertools.product(*values):
        yield dict(zip(table, chosen, strict=True))
