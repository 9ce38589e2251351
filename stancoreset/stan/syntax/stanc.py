"""Stan's own compiler front end, run on source text: check, format, describe, parse.

``stanc`` comes with CmdStan; without CmdStan it is the newest binary that the packages ``httpstan``
and ``prophet`` bring: httpstan's, 2.39, from Python 3.12 on, and prophet's, 2.37, on Python 3.11,
whose last httpstan has 2.35. Nothing here compiles C++.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from stancoreset.errors import CompileError, EngineError, EngineNotFoundError
from stancoreset.files import temporary_folder

_EXE = "stanc.exe" if os.name == "nt" else "stanc"
_HOW_TO_INCLUDE = '\nName its folder: stanc_options={"include-paths": ["…"]}'
_OLD_ARRAYS = (
    "\nIf brms wrote the program: update brms, or fit it from R by coreset_brm, which rewrites "
    "such arrays (stancoreset r-helper prints it)."
)
#: Words of the language, and the version of Stan that they came with.
_NEW_WORDS = {
    "array": (2, 26),
    "tuple": (2, 33),
    "jacobian": (2, 36),
    "sum_to_zero_vector": (2, 36),
    "row_stochastic_matrix": (2, 36),
    "column_stochastic_matrix": (2, 36),
    "beta_neg_binomial": (2, 36),
    "sum_to_zero_matrix": (2, 37),
    "yule_simon": (2, 39),
    "laplace_marginal": (2, 39),
}
_COMMENTS = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_CANONICAL = "--canonicalize=deprecations,includes,braces,strip-comments"


def find_stanc() -> Path:
    """Find the ``stanc`` binary: CmdStan's, or the newest that an installed package brings.

    CmdStan is that of the variable ``CMDSTAN``, or cmdstanpy's in ``~/.cmdstan``. The packages are
    ``httpstan`` and ``prophet``, which are located without importing them.

    >>> find_stanc().name
    'stanc'
    """
    for candidate in _of_cmdstan():
        if _runs(candidate):
            return candidate
    found = [candidate for candidate in _of_packages() if _runs(candidate)]
    if found:
        return max(found, key=_version)
    raise EngineNotFoundError(
        "no stanc found (Stan's compiler front end): install CmdStan "
        "(cmdstanpy.install_cmdstan()), set CMDSTAN to its folder, or "
        'pip install "stancoreset[embedded]"'
    )


def _runs(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _of_cmdstan() -> list[Path]:
    if os.environ.get("CMDSTAN"):
        return [Path(os.environ["CMDSTAN"], "bin", _EXE)]
    if Path("~/.cmdstan").expanduser().is_dir():
        import cmdstanpy

        with suppress(ValueError):  # the folder holds no CmdStan
            return [Path(cmdstanpy.cmdstan_path(), "bin", _EXE)]
    return []


def _of_packages() -> list[Path]:
    patterns = {"httpstan": _EXE, "prophet": f"stan_model/cmdstan-*/bin/{_EXE}"}
    found: list[Path] = []
    for package, pattern in patterns.items():
        spec = importlib.util.find_spec(package)
        for folder in (spec.submodule_search_locations or []) if spec else []:
            found += Path(folder).glob(pattern)
    return found


def _done(command: Sequence[str], folder: str | None = None) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, capture_output=True, text=True, encoding="utf-8", cwd=folder, check=False
        )
    except OSError as error:
        raise EngineError(f"cannot run {command[0]}: {error}") from error


@lru_cache(maxsize=512)
def _run_cached(stanc: Path, options: tuple[str, ...], code: str, filename: str) -> tuple[str, str]:
    """Run stanc; return its output and its warnings."""
    with temporary_folder() as folder:
        # stanc insists on the suffix; its messages name `filename` instead.
        path = Path(folder, "model.stan")
        path.write_text(code, encoding="utf-8")
        command = [str(stanc), *options, f"--filename-in-msg={filename}", str(path)]
        done = _done(command, folder)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip() or f"{stanc} failed on {filename}"
        said = "\n".join(line[:400] for line in said.splitlines())  # which may hold a data set
        hints = {"include file": _HOW_TO_INCLUDE, "old array syntax": _OLD_ARRAYS}
        hint = "".join(hint for cause, hint in hints.items() if cause in said)
        raise CompileError(said + (hint or _too_old(stanc, code)))
    return done.stdout, done.stderr


def _too_old(stanc: Path, code: str) -> str:
    """Advice if the program has words that this stanc does not know; empty for others."""
    words = re.findall(r"[a-zA-Z]\w*", _COMMENTS.sub("", code))
    words += [word.rsplit("_", 1)[0] for word in words]  # of beta_neg_binomial_lpmf
    words += [word[:16] for word in words if word.startswith("laplace_marginal")]  # of its family
    mine = _version(stanc)[:2]
    newer = {word: v for word, v in _NEW_WORDS.items() if v > mine and word in words}
    if not newer:
        return ""
    came = ", ".join(f"`{word}` came with Stan {v[0]}.{v[1]}" for word, v in newer.items())
    return (
        f"\n{came}; this stanc, {stanc}, is {mine[0]}.{mine[1]}: install a newer CmdStan, or use "
        'Python 3.12 or newer, where  pip install "stancoreset[embedded]"  brings stanc 2.39.'
    )


def _run(
    options: Sequence[str],
    code: str,
    include_paths: Sequence[str | Path] = (),
    filename: str = "model.stan",
) -> tuple[str, str]:
    options = list(options)
    if include_paths:
        folders = ",".join(str(Path(p).resolve()) for p in include_paths)
        options.append(f"--include-paths={folders}")
    # Included files may change behind an unchanged text: such a program is never cached.
    run = _run_cached.__wrapped__ if "#include" in code else _run_cached
    return run(find_stanc(), tuple(options), code, filename)


def check(code: str, *, filename: str = "model.stan") -> None:
    """Check syntax and types of a Stan program; a CompileError has Stan's message.

    >>> check("parameters { real x; } model { x ~ std_normal(); }")
    """
    _run(["--info"], code, filename=filename)


def auto_format(code: str, *, filename: str = "model.stan") -> str:
    """The program as Stan's formatter lays it out (comments kept, 78 columns)."""
    return _run(["--auto-format"], code, filename=filename)[0]


def canonical(
    code: str, *, include_paths: Sequence[str | Path] = (), filename: str = "model.stan"
) -> str:
    """The program formatted, without comments, deprecations and includes, with all braces."""
    return _run(["--auto-format", _CANONICAL], code, include_paths, filename)[0]


def decorated_ast(code: str) -> str:
    """The typed syntax tree as stanc prints it, an S-expression."""
    return _run(["--debug-decorated-ast"], code)[0]


def is_canonical(code: str) -> bool:
    """Whether the tree of the text itself is that of its canonical form.

    It is if the text includes no file, and stanc accepts it without a warning: what is deprecated
    it warns of, and what it has removed it refuses.

    >>> is_canonical("parameters { real x; } model { x ~ std_normal(); }")
    True
    >>> is_canonical("parameters { real x; } model { target += -fabs(x); }")
    False
    """
    if "#include" in code:
        return False
    try:
        _, warnings = _run(["--debug-decorated-ast"], code)
    except CompileError:
        return False
    return not warnings


def version() -> tuple[int, ...]:
    """Version of the stanc that `find_stanc` finds, for example ``(2, 35, 0)``."""
    return _version(find_stanc())


@lru_cache(maxsize=8)
def _version(stanc: Path) -> tuple[int, ...]:
    done = _done([str(stanc), "--version"])
    for word in done.stdout.split():
        parts = word.lstrip("v").split(".")
        if len(parts) >= 2 and all(p.isdigit() for p in parts):
            return tuple(int(p) for p in parts)
    raise EngineError(f"{stanc} --version prints no version number: {done.stdout!r}")
