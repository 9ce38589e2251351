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
        source, base, tables = "jobs", Path.cwd(), spec
    else:
        path = check_path("spec", spec)
        source, base, tables = str(path), path.resolve().parent, _read_toml(path)
    defaults, grid, jobs = _tables(source, tables)
    for place, table in (("[defaults]", defaults), ("[grid]", grid)):
        with _located(source, place):
            _require_known(table)
    found: dict[str, tuple[Job, str]] = {}
    for number, table in enumerate(jobs, 1):
        place = f"[[jobs]] {number}"
        with _located(source, place):
            _require_known(table)
            for values in _product({**defaults, **grid, **table}):
                for job in _jobs(base, values, named={*grid, *table}):
                    _add(found, job, place)
    return sorted((job for job, _ in found.values()), key=lambda job: job.kind == "full")


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        hint = "" if path.exists() else f"; {explain_absence(path)}"
        raise DataError(f"cannot read {path}: {error.strerror}{hint}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not TOML: {error}") from None


@contextmanager
def _located(source: str, place: str) -> Iterator[None]:
    """Name the place in the file where an error comes from."""
    try:
        yield
    except StancoresetError as error:
        raise OptionError(f"{source}: {place}: {error}") from None


def _tables(
    source: str, tables: Mapping[str, Any]
) -> tuple[Mapping[str, Any], Mapping[str, Any], list[Mapping[str, Any]]]:
    """The defaults, the grid and the jobs of a file."""
    unknown = [key for key in tables if key not in _TABLES]
    if unknown:
        raise OptionError(
            f"{source} has the table or key {unknown[0]!r}; expected only [defaults], [grid] and "
            "[[jobs]]: move it into one of these, or remove it"
        )
    defaults, grid = tables.get("defaults", {}), tables.get("grid", {})
    for name, table in (("defaults", defaults), ("grid", grid)):
        if not isinstance(table, Mapping):
            raise OptionError(
                f"{source}: {name} is {shown(table)}, expected a table; write [{name}] on a line "
                "of its own, before its keys"
            )
    jobs = tables.get("jobs", [{}] if grid or defaults else [])
    if not isinstance(jobs, list) or not all(isinstance(job, Mapping) for job in jobs):
        raise OptionError(
            f"{source}: jobs is {shown(jobs)}, expected a list of tables; write [[jobs]] before "
            "the keys of each job"
        )
    if not jobs:
        raise OptionError(f"{source} has no jobs; write [[jobs]] before the keys of each job")
    return defaults, grid, jobs


def _require_known(table: Mapping[str, Any]) -> None:
    known = [*_OWN, *fit_settings()]
    for key in table:
        if key in known:
            continue
        refuse_former(key)
        close = near_misses(str(key), known)
        hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(known)}"
        raise OptionError(
            f"{key} is not known; {hint} (an option of the method goes into options = {{…}})"
        )


def _add(found: dict[str, tuple[Job, str]], job: Job, place: str) -> None:
    other, before = found.get(job.name.casefold(), (None, ""))
    if other is None:
        found[job.name.casefold()] = (job, place)
    elif not (job.kind == "full" and job == other):
        what = "is the same job again" if other == job else "would have the same folder"
        raise OptionError(
            f"name {job.name!r} {what} as in {before}; remove one, or give them different names "
            '(name = "…{size}…")'
        )


def _jobs(base: Path, values: Mapping[str, Any], named: set[str]) -> Iterator[Job]:
    """The job of one point of the grid, and its run on the full data if requested."""
    for key in ("model", "data"):
        if key not in values:
            raise OptionError(f"{key} is missing")
    settings = {k: _setting(base, k, v) for k, v in values.items() if k in fit_settings()}
    options = values.get("options", {})
    if not isinstance(options, Mapping) or not all(isinstance(k, str) for k in options):
        raise OptionError(f"options is {shown(options)}, expected a table")
    own = own_options(values.get("method"))
    twice = sorted(set(options) & {*fit_settings(), *_OWN} - {*own})
    if twice:
        raise OptionError(
            f"options.{twice[0]} is not an option of a method: move it out of options"
        )
    engine, obs, full = values.get("engine", "auto"), values.get("obs"), values.get("full")
    check_choice("engine", engine, ENGINES)
    if obs is not None:
        check_text("obs", obs, "the name of a data variable")
    asked = {**settings, **options}
    _require_plan(asked, engine)
    if full is not None and not isinstance(full, bool):
        raise OptionError(f"full is {shown(full)}, expected true or false")
    thinned = values.get("thinned")
    if thinned is not None:
        check_whole("thinned", thinned, 1)
    model = _model(base, values["model"])
    data, columns = _rows(base, values["data"], values.get("columns"))
    limits = _limits(values)
    job = Job("", model, data, engine, obs, asked, columns, thinned, limits=limits)
    whole = full_job(job) if full else None
    yield replace(job, name=_name(values, job, named), full=whole.name if whole else None)
    if whole is not None:
        yield whole


def _limits(values: Mapping[str, Any]) -> Limits:
    """The limits of a job's time and memory."""
    asked = [values.get(name) for name in _LIMITS]
    for name, value in zip(_LIMITS, asked, strict=True):
        if value is not None:
            check_number(name, value, 0, strict=True)
    if asked[1] is not None and memory_of_group(os.getpid()) is None:
        raise OptionError(
            "memory_limit cannot be kept, because this system does not tell the memory of "
            "processes (it has no /proc); leave it out"
        )
    return Limits(*asked)


def _setting(base: Path, key: str, value: Any) -> Any:
    """Check that a value has the annotated type of the option of a fit."""
    option = fit_settings()[key]
    if value is None and (option.default is None or key == "seed"):  # any seed
        return None
    whole = isinstance(value, int) and not isinstance(value, bool)
    expected = {
        "int": (whole, "a whole number"),
        "float": (whole or isinstance(value, float), "a number"),
        "bool": (isinstance(value, bool), "true or false"),
        "str": (isinstance(value, str), "a string"),
    }
    right, words = expected.get(str(option.type).removesuffix(" | None"), (True, ""))
    if key == "size":
        auto = isinstance(value, str) and value == AUTO
        right, words = whole or auto, f"a whole number or {AUTO!r}"
    if key == "reference":
        right, words = isinstance(value, str), "a name or a path *.nc"
    least = option.metadata["least"]
    if right and least is not None and whole and value < least:
        right, words = False, f"a whole number of at least {least}"
    if not right:
        raise OptionError(f"{key} is {shown(value)}, expected {words}")
    if key in ("inits", "policy"):
        return _values(base, key, value)
    if key == "engine_output_dir" and isinstance(value, str):
        return str(_path(base, key, value))
    if key == "reference" and value.endswith(".nc"):
        return str(_file(base, key, value))
    return value


def _values(base: Path, key: str, value: Any) -> Any:
    """Values by name, or files of them; paths are relative to the batch's file."""
    if isinstance(value, list | tuple):
        return [_values(base, key, one) for one in value]
    if isinstance(value, Mapping):
        return plain(value)
    return str(_file(base, key, value)) if isinstance(value, str) else value


def _require_plan(asked: Mapping[str, Any], engine: Any) -> None:
    """Check settings as the fit does, for any number of rows."""
    if str(asked.get("reference", "")).endswith(".nc"):  # draws that the job reads
        asked = {name: value for name, value in asked.items() if name != "reference"}
    plan = Plan.of(asked)
    plan.require(sys.maxsize)
    if engine != "auto" and not plan.is_gaussian:
        plan.nuts.require_capabilities(engine, capabilities_of(engine))


def _path(base: Path, key: str, value: Any) -> Path:
    return check_path(key, base / check_path(key, value))


def _file(base: Path, key: str, value: Any) -> Path:
    path = _path(base, key, value)
    if not path.exists():
        raise OptionError(f"{key} is {str(value)!r}: there is no file {path}")
    return path


def _model(base: Path, value: Any) -> str:
    """Resolve a path, or the name of a ready program if there is no such file."""
    ready = isinstance(value, str) and value in stan_model_names()
    if ready and not (base / value).is_file():
        return str(stan_model_path(value))
    path = _file(base, "model", value)
    if not path.is_file():
        raise OptionError(f"model is {value!r}: {path} is not a file")
    return str(path)


def _rows(base: Path, data: Any, columns: Any) -> tuple[Any, str | None]:
    """Sources of the data; with columns, files of rows and the file that describes them."""
    if columns is None:
        return _data(base, data), None
    described = str(_file(base, "columns", columns))
    given = list(data) if isinstance(data, list | tuple) else [data]
    for value in given:
        if not isinstance(value, str | Path):
            raise OptionError(
                f"data has {shown(value)}, expected the path of a file, a folder or a pattern: "
                "data other than rows go into the file of columns, under [values]"
            )
    paths = [str(base / Path(value).expanduser()) for value in given]
    table_from_file(described, paths)
    data_files(paths)
    return paths if isinstance(data, list | tuple) else paths[0], described


def _data(base: Path, value: Any) -> Any:
    """Make paths absolute; numbers beside them are checked when the data are read."""
    if isinstance(value, list | tuple):
        return [_data(base, part) for part in value]
    if isinstance(value, Mapping):
        return plain(value)
    path = _file(base, "data", value)
    if path.is_dir():
        raise OptionError(
            f"data is {value!r}: {path} is a folder; map the columns of its files to Stan "
            "variables in columns = FILE (see stancoreset fit --help)"
        )
    return str(path)


def _name(values: Mapping[str, Any], job: Job, named: set[str]) -> str:
    parts = name_parts(job)
    template = values.get("name")
    if template is None:
        core = ("model", "data", "size", "method", "seed", "engine_output_dir")
        name = "{model}-{data}-k{size}-{method}-s{seed}".format(**parts)
        own = ("engine", "obs", "columns", "thinned")
        others = {
            **{key: job.settings[key] for key in fit_settings() if key in job.settings},
            **{key: values[key] for key in own if key in values},
            **{f"options.{k}": v for k, v in values.get("options", {}).items()},
        }
        for key, value in others.items():
            if key not in core and key.partition(".")[0] in named:
                name += f"-{key.removeprefix('options.')}={short(value)}"
    else:
        name = _filled(template, parts)
    name = re.sub(r"[^\w.=+-]+", "_", name).strip(".")
    if not name or name in _RESERVED:
        raise OptionError(f"name is {template!r}, which is not a valid folder name")
    most = 200  # of 255: names of journals and temporary files are longer
    if len(name.encode()) > most:
        raise OptionError(
            f"name is {shown(name)} of {len(name)} characters, expected at most {most}: give it "
            'another, name = "…{size}…"'
        )
    return name


def _filled(template: Any, parts: Mapping[str, Any]) -> str:
    """Fill a template with the settings that it names in braces."""
    if not isinstance(template, str):
        raise OptionError(f"name is {shown(template)}, expected a string")
    try:
        named = [name for _, name, _, _ in string.Formatter().parse(template) if name is not None]
        odd = [name for name in named if name not in parts]
        if odd:
            raise ValueError(f"{odd[0]!r} is not one of {', '.join(parts)}")
        return template.format(**parts)
    except (ValueError, TypeError) as error:
        raise OptionError(f"name is {shown(template)}: {error}") from None


def _product(table: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every combination of the values in lists; the last key varies fastest."""
    values = [v if isinstance(v, list | tuple) else [v] for v in table.values()]
    for key, several in zip(table, values, strict=True):
        if not len(several):
            raise OptionError(f"{key} is an empty list, which gives no job")
    for chosen in itertools.product(*values):
        yield dict(zip(table, chosen, strict=True))
