"""A CmdStan directory for the tests: a genuine one where there is one, else one built here.

Where GitHub is out of reach, CmdStan cannot be installed, but the httpstan wheel on PyPI holds
Stan's headers, its compiler ``stanc`` and the libraries it links to. `ensure` compiles the
command-line program in ``src/`` against them, once for each version of the sources, and returns a
directory that ``cmdstanpy.set_cmdstan_path`` accepts.

Run as a script, it prints the directory: ``python tests/cmdstan_runtime/build.py``.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent


class RuntimeUnavailable(RuntimeError):
    """There is no CmdStan here, and none can be built."""


def cache_root() -> Path:
    """Where everything compiled for the tests is kept, ``~/.cache/stancoreset`` by default."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "stancoreset"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file `path`: of several processes one works, the others wait for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def ensure(cache: Path | None = None) -> Path:
    """The directory of a CmdStan that works, building one if need be.

    Parameters
    ----------
    cache
        Where to build; `cache_root` by default.

    Returns
    -------
    pathlib.Path
        A directory for ``cmdstanpy.set_cmdstan_path``.

    Raises
    ------
    RuntimeUnavailable
        If there is neither CmdStan nor httpstan, or no C++ compiler, or the build fails.
    """
    return installed() or built(cache_root() if cache is None else cache)


def installed() -> Path | None:
    """A CmdStan that is already there: ``$CMDSTAN``, or the newest below ``~/.cmdstan``."""
    named = os.environ.get("CMDSTAN")
    if named:
        if not (Path(named) / "makefile").is_file() or not (Path(named) / "bin/stanc").is_file():
            raise RuntimeUnavailable(
                f"CMDSTAN={named} holds no CmdStan (no makefile, or no bin/stanc); "
                "correct the environment variable or unset it"
            )
        return Path(named)
    import cmdstanpy

    try:
        return Path(cmdstanpy.cmdstan_path())
    except ValueError:
        return None


def built(cache: Path) -> Path:
    """The runtime made from the httpstan wheel, below `cache`."""
    httpstan = httpstan_directory()
    version = stan_version(httpstan)
    home = cache / f"cmdstan-{version}-{fingerprint(httpstan)}"
    with locked(home.with_name(home.name + ".lock")):
        if not home.exists():
            scratch = home.with_name(home.name + ".building")
            shutil.rmtree(scratch, ignore_errors=True)
            build(scratch, httpstan, version)
            scratch.rename(home)
    return home


def build(home: Path, httpstan: Path, version: str) -> None:
    """Lay out the directory `home` and compile the program's objects, on all processors."""
    (home / "bin").mkdir(parents=True)
    for part in ("include", "lib"):
        shutil.copytree(httpstan / part, home / "httpstan" / part)
    shutil.copy2(httpstan / "stanc", home / "bin/stanc")
    shutil.copytree(HERE / "src", home / "src")
    template = (HERE / "makefile.in").read_text()
    (home / "makefile").write_text(template.replace("@VERSION@", version))
    make = shutil.which(os.environ.get("MAKE", "make"))
    if make is None:
        raise RuntimeUnavailable("there is no make here; install make and a C++ compiler")
    command = [make, f"-j{os.cpu_count() or 1}", "runtime"]
    done = subprocess.run(command, cwd=home, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeUnavailable(
            f"`{' '.join(command)}` failed in {home}:\n{done.stdout[-2000:]}\n{done.stderr[-8000:]}"
        )


def httpstan_directory() -> Path:
    """Where the httpstan package is installed; httpstan itself is not imported."""
    spec = importlib.util.find_spec("httpstan")
    if spec is None or spec.origin is None:
        raise RuntimeUnavailable(
            "the tests of the CmdStan engine need CmdStan or the httpstan package: install CmdStan "
            "(python -m cmdstanpy.install_cmdstan) or `pip install httpstan`"
        )
    home = Path(spec.origin).resolve().parent
    for part in ("include/stan/services", "include/tbb", "lib", "stanc"):
        if not (home / part).exists():
            raise RuntimeUnavailable(f"this httpstan has no {part}: {home}; install its wheel")
    return home


def stan_version(httpstan: Path) -> str:
    """Stan's version as its own header states it, such as 2.35.0."""
    text = (httpstan / "include/stan/version.hpp").read_text()
    parts = [re.search(rf"#define STAN_{part} (\d+)", text) for part in ("MAJOR", "MINOR", "PATCH")]
    return ".".join(part.group(1) for part in parts if part)


def fingerprint(httpstan: Path) -> str:
    """Ten digits that change with the sources, with httpstan and with the compiler.

    They do not change with the folder that httpstan is in: what was compiled once serves every
    environment of the machine.
    """
    compiler = os.environ.get("CXX", "g++")
    try:
        identity = subprocess.run([compiler, "--version"], capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise RuntimeUnavailable(
            f"no C++ compiler: `{compiler} --version` failed: {error}"
        ) from error
    digest = hashlib.sha256(identity)
    for word in (importlib.metadata.version("httpstan"), platform.machine()):
        digest.update(word.encode())
    digest.update((httpstan / "stanc").read_bytes())
    for path in [HERE / "makefile.in", *sorted((HERE / "src").iterdir())]:
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:10]


if __name__ == "__main__":
    try:
        print(ensure())
    except RuntimeUnavailable as error:
        sys.exit(f"error: {error}")
