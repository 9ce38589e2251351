"""The folder where CmdStan is installed, checked before its use."""

from __future__ import annotations

import os
from pathlib import Path

from stancoreset.errors import BrokenEngineError, EngineNotFoundError

__all__ = ["HOW_TO_INSTALL", "cmdstan_folder"]

HOW_TO_INSTALL = (
    "install_cmdstan  (comes with cmdstanpy), or set the variable CMDSTAN to its folder"
)

_STANC = "stanc.exe" if os.name == "nt" else "stanc"


def cmdstan_folder() -> Path:
    """Return the folder that CMDSTAN names, else the newest CmdStan below ``~/.cmdstan``."""
    import cmdstanpy

    named = os.environ.get("CMDSTAN")
    if named:  # cmdstanpy would use it unchecked
        _look_over(Path(named))
    try:
        folder = Path(cmdstanpy.cmdstan_path())
    except ValueError as error:
        raise EngineNotFoundError(
            f"engine 'cmdstan' needs CmdStan: {error}. Install it with  {HOW_TO_INSTALL}"
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
    if "CMDSTAN_VERSION :=" not in makefile.read_text(errors="replace"):
        return "whose makefile names no CMDSTAN_VERSION, so it is not CmdStan's folder", other
    if not stanc.is_file():
        return f"which has no bin/{_STANC}", f"run  make build  there, or {again}"
    if not os.access(stanc, os.X_OK):
        return f"whose bin/{_STANC} is not executable", f"chmod +x {stanc}, or {again}"
    return None
