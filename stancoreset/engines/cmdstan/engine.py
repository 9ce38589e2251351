"""The CmdStan engine: finding CmdStan and compiling programs.

`stancoreset.engines.cmdstan.bound` evaluates compiled programs.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from stancoreset.engines.base import Capabilities, StanData
from stancoreset.engines.cmdstan import compile_process
from stancoreset.engines.cmdstan.bound import CmdStanBound
from stancoreset.errors import BrokenEngineError, CompileError, EngineNotFoundError, OutputError
from stancoreset.files import atomic_folder, content_key, remove_leftovers
from stancoreset.parallel import available_cores, ending_with_others
from stancoreset.processes import end_tree, leading_a_group
from stancoreset.stan import StanProgram
from stancoreset.stan.syntax import stanc
from stancoreset.stan.transforms import Transforms

HOW_TO_INSTALL = (
    "install_cmdstan  (comes with cmdstanpy), or set the variable CMDSTAN to its folder"
)

_STANC = "stanc.exe" if os.name == "nt" else "stanc"


def cache_root() -> Path:
    """Folder of compiled programs, below ``$XDG_CACHE_HOME`` or ``~/.cache``."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "stancoreset"


@dataclass(frozen=True)
class CmdStanEngine:
    """Stan through CmdStan's compiled executables.

    Parameters
    ----------
    threads : int, optional
        Number of processes with which a bound program evaluates draws, unless `bind` sets it;
        default: the available cores.
    cpp_options, stanc_options : dict, optional
        As in ``cmdstanpy.CmdStanModel``.

    Raises
    ------
    EngineNotFoundError
        If no CmdStan is found; `BrokenEngineError` if there is none in the folder that
        the variable CMDSTAN names.
    """

    threads: int = field(default_factory=available_cores)
    cpp_options: Mapping[str, Any] = field(default_factory=dict)
    stanc_options: Mapping[str, Any] = field(default_factory=dict)
    name: str = "cmdstan"
    capabilities = Capabilities(
        samples=True, warmup_phases=True, step_size_of_each_chain=True, compiler_options=True
    )

    def __post_init__(self) -> None:
        _ = self.path

    @property
    def path(self) -> Path:
        """CmdStan's folder."""
        return cmdstan_folder()

    @property
    def version(self) -> str:
        """Engine name and version, for reports."""
        import cmdstanpy

        found = cmdstanpy.utils.cmdstan_version()
        return f"CmdStan {found[0]}.{found[1]}" if found else f"CmdStan in {self.path}"

    @property
    def stan_version(self) -> tuple[int, int]:
        """Stan's version, whose constraining transforms the executables use."""
        import cmdstanpy

        found = cmdstanpy.utils.cmdstan_version()
        if found is None:
            raise EngineNotFoundError(
                f"{self.path} is not a CmdStan folder: its makefile gives no version"
            )
        return (int(found[0]), int(found[1]))

    def compile(
        self, code: str, *, name: str = "model", log_lik: str = "log_lik"
    ) -> CmdStanCompiled:
        """Compile, or take the executable from the cache, whose key is the content.

        A `CompileError` has Stan's or the C++ compiler's own message.
        """
        stanc.check(code)
        return CmdStanCompiled(self, code, name, self._executable(code, name), log_lik)

    def has_compiled(self, code: str, *, name: str = "model") -> bool:
        """Whether the program's executable is in the cache."""
        return self._place(code, name).exists()

    def _place(self, code: str, name: str) -> Path:
        """The executable's path in the cache."""
        stem = re.sub(r"\W", "_", name) or "model"
        stem = f"m_{stem}" if stem[0].isdigit() else stem
        options = dict(self.cpp_options), dict(self.stanc_options)
        key = content_key(stem, code, str(self.path), self.version, *options)
        folder = cache_root() / "models" / key
        return folder / (f"{stem}.exe" if os.name == "nt" else stem)

    def _executable(self, code: str, name: str) -> Path:
        executable = self._place(code, name)
        folder = executable.parent
        if folder.parent.exists():
            remove_leftovers(folder.parent)
        if not executable.exists():
            try:
                with atomic_folder(folder, executable.name) as fresh:
                    self._build(fresh / f"{executable.stem}.stan", code)
            except OutputError as error:
                raise OutputError(f"{error}; set XDG_CACHE_HOME to a writable folder") from None
        return executable

    def _build(self, stan_file: Path, code: str) -> None:
        stan_file.write_text(code, encoding="utf-8")
        _compile(self.path, stan_file, self.cpp_options, self.stanc_options)


@dataclass(frozen=True)
class CmdStanCompiled:
    """A CmdStan executable."""

    engine: CmdStanEngine = field(repr=False)
    code: str = field(repr=False)
    name: str
    executable: Path
    log_lik: str = "log_lik"

    @cached_property
    def program(self) -> StanProgram:
        """The program's declarations."""
        return StanProgram.from_code(self.code)

    def bind(self, data: StanData, *, seed: int = 0, threads: int | None = None) -> CmdStanBound:
        """Write the data to a temporary file, which `close` removes.

        `threads` is the number of processes that evaluate draws; default: the engine's.
        """
        return CmdStanBound(
            self.name,
            self.executable,
            self.log_lik,
            Transforms.from_program(self.program, data, version=self.engine.stan_version),
            data,
            seed=seed,
            threads=threads or self.engine.threads,
        )

    def bind_density(self, data: StanData) -> CmdStanBound:
        """Bind with one process, which reads the data once."""
        return self.bind(data, threads=1)


# Finding CmdStan ------------------------------------------------------------------------


def cmdstan_folder() -> Path:
    """Return the folder that CMDSTAN names, else the newest CmdStan below ``~/.cmdstan``."""
    import cmdstanpy

    named = os.environ.get("CMDSTAN")
    if named:  # cmdstanpy would use it unchecked
        _look_over(Path(named))
    try:
        folder = Path(cmdstanpy.cmdstan_path())
    except ValueError:
        raise EngineNotFoundError(
            f"no CmdStan is installed, which the engine 'cmdstan' runs: {HOW_TO_INSTALL}"
        ) from None
    if not named:
        _look_over(folder)
    return folder


def _look_over(folder: Path) -> None:
    wrong = _wrong(folder)
    if wrong is not None:
        what, advice = wrong
        raise BrokenEngineError(f"CMDSTAN is {str(folder)!r}, {what}: {advice}")


def _wrong(folder: Path) -> tuple[str, str] | None:
    """The fault of a CmdStan folder, and its remedy."""
    other = "set CMDSTAN to a folder like ~/.cmdstan/cmdstan-2.37.0, or unset it"
    again = "install CmdStan again with  install_cmdstan --overwrite"
    makefile, stanc = folder / "makefile", folder / "bin" / _STANC
    if not folder.exists():
        return "which does not exist", other
    if not folder.is_dir():
        return "which is a file, not CmdStan's folder", other
    if not makefile.is_file():
        return "which has no makefile, so it is not CmdStan's folder", other
    if "CMDSTAN_VERSION :=" not in makefile.read_text(encoding="utf-8", errors="replace"):
        return "whose makefile names no CMDSTAN_VERSION, so it is not CmdStan's folder", other
    if not stanc.is_file():
        return f"which has no bin/{_STANC}", f"run  make build  there, or {again}"
    if not os.access(stanc, os.X_OK):
        return f"whose bin/{_STANC} is not executable", f"chmod +x {stanc}, or {again}"
    return None


# Compiling ------------------------------------------------------------------------------


def _compile(
    cmdstan: Path, stan_file: Path, cpp_options: Mapping[str, Any], stanc_options: Mapping[str, Any]
) -> None:
    """Build the executable beside `stan_file`, as cmdstanpy does; errors quote its message.

    It runs in a separate process, because cmdstanpy's cannot be ended: after an interrupt the C++
    compiler would run on for most of a minute.
    """
    order = {
        "cmdstan": str(cmdstan),
        "stan_file": str(stan_file),
        "cpp_options": dict(cpp_options),
        "stanc_options": dict(stanc_options),
    }
    process = subprocess.Popen(
        # -P: nothing is imported from the folder that the script is in
        [sys.executable, "-P", compile_process.__file__, json.dumps(order, default=str)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            # Leftovers of a killed compiler are removed with the folder of the build.
            "TMPDIR": str(stan_file.parent),
        },
        text=True,
        encoding="utf-8",
        errors="replace",
        **leading_a_group(),
    )

    end = partial(end_tree, process.pid)
    assert process.stdout is not None
    with process, ending_with_others(end):
        try:
            said = process.stdout.read()
            process.wait()
        except BaseException:
            end()
            raise
    if process.returncode:
        how = f" (ended by signal {-process.returncode})" if process.returncode < 0 else ""
        raise CompileError(f"CmdStan cannot compile the program{how}:\n{said.strip()}")
