"""A formula as terms of the library formulae, whose grammar is that of Bambi.

What brms writes beside the outcome is read before; see `stancoreset.formulas.additions`.

The bars of group effects are read from formulae's syntax tree, because its terms do not tell
``(1 + x | g)``, whose effects are correlated, from ``(1 | g) + (0 + x | g)``, whose are not.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from stancoreset.checks import check_text, near_misses, shown
from stancoreset.errors import DataError, OptionError
from stancoreset.formulas.additions import Addition, divided
from stancoreset.formulas.brms import refuse_terms

_EXAMPLE = "'y ~ x + (1 | g)'"
#: What a formula may call besides formulae's own functions, and ``np.…``.
FUNCTIONS: Mapping[str, Any] = {
    "np": np,
    **{
        name: getattr(np, name)
        for name in ("abs", "cos", "exp", "expm1", "log", "log10", "log1p", "log2", "sin", "sqrt")
    },
}


@dataclass(frozen=True)
class Bar:
    """Effects of one grouping factor: the terms left of a ``|``, and what stands right of it."""

    effects: tuple[Any, ...]
    factor: Any
    correlated: bool


@dataclass(frozen=True)
class Argument:
    """An argument of what stands beside the outcome: a column, a number, or terms of formulae."""

    text: str
    variables: tuple[str, ...] = ()
    number: float | None = None
    terms: tuple[Any, ...] | None = None


@dataclass(frozen=True)
class Formula:
    """A parsed formula: terms of formulae, with the names of the columns that they read.

    `additions` stand beside the outcome, and `arguments` are all of theirs.
    """

    text: str
    outcome: Any
    common: tuple[Any, ...]
    bars: tuple[Bar, ...]
    variables: tuple[str, ...]
    additions: tuple[Addition, ...] = ()
    arguments: tuple[Argument, ...] = ()

    @property
    def spared(self) -> set[str]:
        """Columns of which a row may lack a value: upper limits, which few outcomes have."""
        limits = {a.arguments[1] for a in self.additions if len(a.arguments) > 1}
        upper = {n for a in self.arguments if a.text in limits for n in a.variables}
        others = {n for a in self.arguments if a.text not in limits for n in a.variables}
        groups = [term for bar in self.bars for term in (*bar.effects, bar.factor)]
        terms = (self.outcome, *self.common, *groups)
        return upper.difference(others, *(getattr(term, "var_names", ()) for term in terms))


def parse(text: str) -> Formula:
    """Parse a formula.

    An OptionError is raised if it is no formula, whose message quotes formulae; a DataError if
    formulae is not installed.
    """
    check_text("formula", text, f"a formula such as {_EXAMPLE}")
    plain, additions = divided(text)
    refuse_terms(plain, text)
    with evaluating(text):
        tree = _tree(plain)
        model = _resolved(tree)
        outcome = getattr(model, "response", None)
        bars = [bar for node in _bars(tree) for bar in _split(node)]
        arguments = tuple(_argument(part) for added in additions for part in added.arguments)
    if outcome is None:
        raise OptionError(f"formula is {shown(text)}, expected an outcome and ~, as in {_EXAMPLE}")
    effects = [(effect.name, bar.factor.name) for bar in bars for effect in bar.effects]
    for effect, factor in effects:
        if effects.count((effect, factor)) > 1:
            raise OptionError(
                f"formula {text!r} has the effect {effect} of {factor} twice; write (1 + x | g), "
                "or (1 | g) + (0 + x | g) for effects that are not correlated"
            )
    variables = _columns_of(model).union(*(argument.variables for argument in arguments))
    return Formula(
        text,
        outcome.term,
        tuple(model.common_terms),
        tuple(bars),
        tuple(sorted(variables)),
        additions,
        arguments,
    )


def _columns_of(model: Any) -> set[str]:
    """The columns that terms of formulae read."""
    known = {"", *FUNCTIONS, *formulae_module("categorical").ENCODINGS}
    return {name for name in model.var_names if isinstance(name, str)} - known


def _argument(text: str) -> Argument:
    if re.fullmatch(r"[A-Za-z_]\w*|`[^`]+`", text):
        return Argument(text, (text.strip("`"),))
    if re.fullmatch(r"[0-9.]+(?:[eE][-+]?[0-9]+)?", text):
        return Argument(text, number=float(text))
    model = _resolved(_tree("0 + {" + text + "}"))
    terms = tuple(term for term in model.common_terms if term.kind != "intercept")
    return Argument(text, tuple(sorted(_columns_of(model))), terms=terms)


def formulae_module(name: str) -> ModuleType:
    """A module of formulae, or the error that says how to install it."""
    import importlib

    try:
        return importlib.import_module(f"formulae.{name}")
    except ImportError as error:
        raise DataError(
            "a formula is read by formulae, which is not installed: "
            "pip install 'stancoreset[formulas]'"
        ) from error


@contextlib.contextmanager
def evaluating(text: str) -> Iterator[None]:
    """Convert what formulae raises to an OptionError that quotes the formula.

    formulae prints a line before it raises, which is dropped.
    """
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    except (OptionError, DataError, MemoryError):
        raise
    except KeyError as error:
        name = error.args[0] if error.args else ""
        if not isinstance(name, str):
            raise OptionError(
                f"formula {text!r} has the number {name} for a term; write 1 for an intercept, 0 "
                "for none, and a column in any other place"
            ) from error
        meant = near_misses(name, _functions())
        hint = f"; did you mean {meant[0]!r}?" if meant else ""
        raise OptionError(
            f"formula {text!r} calls {name!r}, which is none of its functions: "
            f"{', '.join(_functions())}, np.…{hint}"
        ) from error
    except TypeError as error:
        raise OptionError(
            f"formula {text!r} combines terms that formulae does not combine; write (0 + x | g) "
            "for (x - 1 | g)"
        ) from error
    except Exception as error:
        words = " ".join(str(error).split()) or type(error).__name__
        raise OptionError(f"formula {text!r} cannot be read: {words}") from error


@cache
def _functions() -> list[str]:
    own = formulae_module("transforms").TRANSFORMS
    return sorted({*own, *FUNCTIONS} - {"np"})


def _tree(text: str) -> Any:
    """The syntax tree. A bar that is written ``||``, which formulae does not know, is so named."""
    tokens: list[Any] = []
    for token in formulae_module("scanner").Scanner(text).scan():
        if token.kind == "PIPE" and tokens and tokens[-1].kind == "PIPE":
            tokens[-1].lexeme = "||"
        else:
            tokens.append(token)
    parser = formulae_module("parser").Parser(tokens)
    tree = parser.parse()
    if not parser.at_end():  # the rest, which formulae would leave out
        word = parser.peek().lexeme
        hint = "; put effects of groups in parentheses, (1 | g)" if word.startswith("|") else ""
        raise ValueError(f"{word!r} is not expected there{hint}")
    return tree


def _resolved(tree: Any) -> Any:
    """A tree's terms as formulae's Model, whose attributes hold lists of them."""
    found = formulae_module("resolver").Resolver(tree).resolve()
    model = formulae_module("terms.terms").Model
    return found if isinstance(found, model) else model(found)


def _bars(node: Any) -> Iterator[Any]:
    """The nodes of a syntax tree that are ``effects | factor``."""
    operator = getattr(node, "operator", None)
    if operator is not None and operator.kind == "PIPE":
        yield node
        return
    for part in ("left", "right", "expression"):
        if hasattr(node, part):
            yield from _bars(getattr(node, part))


def _split(node: Any) -> Iterator[Bar]:
    """The grouping factors of a bar: ``(x | a / b)`` has ``a`` and ``a:b``."""
    terms = _resolved(node).group_terms
    for factor in dict.fromkeys(term.factor.name for term in terms):
        own = [term for term in terms if term.factor.name == factor]
        yield Bar(tuple(term.expr for term in own), own[0].factor, node.operator.lexeme == "|")
