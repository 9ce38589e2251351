"""Compiler options: the arguments of cmdstanpy's ``CmdStanModel`` that apply here."""

from __future__ import annotations

import os
from collections.abc import Container, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from stancoreset.checks import check_path, shown
from stancoreset.engines.base import Engine
from stancoreset.errors import OptionError

_NO_CODE = "rows cannot be weighted through functions without Stan code"
#: Arguments of ``cmdstanpy.CmdStanModel`` that do not apply here, with the reason.
_REFUSED = {
    "model_name": "a model has the name of its file; rename the file",
    "exe_file": "the program is compiled again with weights; give stan_file or stan_code",
    "force_compile": "compiled programs are kept by their content, options and CmdStan's version; "
    "to have them compiled again remove the folder models in ~/.cache/stancoreset "
    "($XDG_CACHE_HOME/stancoreset)",
    "user_header": f"{_NO_CODE}; write them in the functions block",
    "compile": "programs are compiled on first use",
}
_INCLUDES = ("include-paths", "include_paths")
# Options of stanc that produce no executable with the program's name.
_NO_EXECUTABLE = {
    "allow-undefined": _NO_CODE,
    "allow_undefined": _NO_CODE,
    "name": "a model has the name of its file",
}


def refuse_arguments(given: Mapping[str, Any], of_fit: Container[str]) -> None:
    """Raise for arguments that `CoresetModel` does not have; for cmdstanpy's with the reason."""
    for name in given:
        if name in of_fit:
            raise OptionError(
                f"{name} is an argument of fit, not of CoresetModel: CoresetModel(stan_file=…)"
                f".fit({'data' if name == 'data' else f'data, {name}=…'})"
            )
        if name in _REFUSED:
            raise OptionError(
                f"{name} is an argument of cmdstanpy that does not apply here: {_REFUSED[name]}"
            )
        raise TypeError(f"CoresetModel got an unexpected keyword argument {name!r}")


def include_paths(stanc_options: Mapping[str, Any] | None) -> tuple[Path, ...]:
    """Folders that ``#include`` searches, besides the program's own."""
    _require_options("stanc_options", stanc_options)
    folders: list[Path] = []
    for key in _INCLUDES:
        value = (stanc_options or {}).get(key, ())
        listed = value.split(",") if isinstance(value, str) else value
        for one in listed if isinstance(listed, list | tuple) else [listed]:
            folder = check_path(f"stanc_options[{key!r}]", one)
            if not os.path.isdir(folder):
                raise OptionError(f"stanc_options: {key} has {str(one)!r}, which is not a folder")
            folders.append(folder.resolve())
    return tuple(folders)


def with_options(
    engine: Engine, cpp_options: Mapping[str, Any] | None, stanc_options: Mapping[str, Any] | None
) -> Engine:
    """Return the engine with these compiler options; programs' includes are already resolved."""
    _require_options("cpp_options", cpp_options)
    stanc = {k: v for k, v in (stanc_options or {}).items() if k not in _INCLUDES}
    for name in stanc:
        if name in _NO_EXECUTABLE:
            raise OptionError(f"stanc_options: {name} cannot be used here: {_NO_EXECUTABLE[name]}")
    if not cpp_options and not stanc:
        return engine
    if engine.capabilities.compiler_options:
        options: Any = engine
        made: Engine = replace(
            options,
            cpp_options={**options.cpp_options, **(cpp_options or {})},
            stanc_options={**options.stanc_options, **stanc},
        )
        return made
    given = (
        f"cpp_options is {shown(dict(cpp_options))}"
        if cpp_options
        else f"stanc_options has {shown(stanc)}"
    )
    raise OptionError(
        f"{given}, but engine {engine.name!r} compiles no C++; leave it out, or use "
        "engine='cmdstan'"
    )


def _require_options(name: str, options: object) -> None:
    if options is None:
        return
    if not isinstance(options, Mapping):
        raise OptionError(f"{name} is {shown(options)}, expected a dict as in cmdstanpy")
    for key, value in options.items():
        if not isinstance(key, str):
            raise OptionError(f"{name} has {shown(key)}, expected the name of an option")
        for one in value if isinstance(value, list | tuple) else [value]:
            if one is not None and not isinstance(one, bool | int | str | os.PathLike):
                raise OptionError(
                    f"{name}: {key} is {shown(value)}, expected True, a whole number, a string or "
                    "a list of strings"
                )
