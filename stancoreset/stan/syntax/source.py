"""A Stan program as text and tree, from a file, from code, or from the package."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from stancoreset.checks import check_text, explain_absence, suggest
from stancoreset.errors import DataError, ProgramError
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.syntax.parser import parse


@dataclass(frozen=True)
class StanProgram:
    """A Stan program and its declarations.

    `name` is the file's stem, or ``model``; `code` is the complete text, includes expanded, and
    `tree` its typed syntax tree.

    >>> p = StanProgram.from_code("data { int N; vector[N] y; } parameters { real m; } model {}")
    >>> [d.name for d in p.data], [d.name for d in p.parameters]
    (['N', 'y'], ['m'])
    """

    name: str
    code: str = field(repr=False)
    tree: n.Program = field(repr=False, compare=False)
    path: Path | None = None

    @classmethod
    def from_file(
        cls, path: str | Path, *, include_paths: Sequence[str | Path] = ()
    ) -> StanProgram:
        """Read and parse a ``.stan`` file; ``#include`` also looks beside it."""
        if {*"\n{}"} & {*str(path)} and not os.path.lexists(path):
            raise DataError(
                "expected the path of a Stan program, got its text; pass the text as stan_code=…"
            )
        path = Path(path).expanduser()
        if path.is_dir():
            raise DataError(f"{path} is a folder; expected a Stan program, model.stan")
        if not path.is_file():
            hint = f"; {explain_absence(path)}"
            if str(path) in stan_model_names():
                hint = f"; the ready program of that name is {stan_model_path(str(path))}"
            raise DataError(f"no such Stan program: {path}{hint}")
        try:
            source = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"cannot read Stan program {path}: {error}") from error
        folders = (*include_paths, path.parent)
        tree = parse(source, include_paths=folders, filename=path.name)
        return cls(path.stem, _expanded(source, tree), tree, path)

    @classmethod
    def from_code(
        cls, code: str, *, name: str = "model", include_paths: Sequence[str | Path] = ()
    ) -> StanProgram:
        """Parse a program given as text."""
        tree = parse(code, include_paths=include_paths, filename=f"{name}.stan")
        return cls(name, _expanded(code, tree), tree)

    @property
    def data(self) -> tuple[n.Decl, ...]:
        """Declarations of the data block."""
        return self.tree.data

    @property
    def parameters(self) -> tuple[n.Decl, ...]:
        """Declarations of the parameters block."""
        return self.tree.parameters

    @property
    def transformed_parameters(self) -> tuple[n.Decl, ...]:
        """Variables that transformed parameters define."""
        return _declarations(self.tree.transformed_parameters)

    @property
    def generated_quantities(self) -> tuple[n.Decl, ...]:
        """Variables that generated quantities define."""
        return _declarations(self.tree.generated_quantities)

    @cached_property
    def density_code(self) -> str:
        """The program without its generated quantities, lines in place: for fitting."""
        match = _GENERATED.search(without_comments(self.code))
        return self.code if match is None else self.code[: match.start()].rstrip() + "\n"


_GENERATED = re.compile(r"\bgenerated\s+quantities\s*\{")
_COMMENT = re.compile(r'"[^"\n]*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_INCLUDE = re.compile(r"^\s*#include", re.MULTILINE)


def without_comments(code: str) -> str:
    """The code with comments and strings blanked, every character in its place."""
    return _COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), code)


def _expanded(source: str, tree: n.Program) -> str:
    """The user's own text, unless it includes other files."""
    return tree.code if _INCLUDE.search(without_comments(source)) else source


def _declarations(statements: Sequence[n.Stmt]) -> tuple[n.Decl, ...]:
    return tuple(s for s in statements if isinstance(s, n.Decl))


# --- the ready programs ------------------------------------------------------------------


def _model_folder() -> Path:
    """``stan_models`` in the installed package, or beside it in a checkout."""
    package = Path(__file__).resolve().parents[2]
    for folder in (package / "stan_models", package.parent / "stan_models"):
        if folder.is_dir():
            return folder
    raise ProgramError(
        f"the ready Stan programs are missing: there is no folder stan_models in {package}; "
        "reinstall stancoreset"
    )


def stan_model_names() -> tuple[str, ...]:
    """Names of the weighted programs that come with the package, for `stan_model_path`.

    Examples
    --------
    >>> "logistic" in stan_model_names()
    True
    """
    return tuple(sorted(path.stem for path in _model_folder().glob("*.stan")))


def stan_model_path(name: str) -> Path:
    """Path of a weighted program that comes with the package.

    Raises
    ------
    ProgramError
        There is none of that name.

    Examples
    --------
    >>> stan_model_path("logistic").name
    'logistic.stan'
    """
    check_text("name", name, "the name of a ready Stan program")
    stem = name.removesuffix(".stan")
    if stem not in stan_model_names():
        known = stan_model_names()
        raise ProgramError(
            f"no ready Stan program {name!r}; expected one of {', '.join(known)}"
            f"{suggest(stem, known)}"
        )
    return _model_folder() / f"{stem}.stan"
