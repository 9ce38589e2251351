"""Meaning of row weights where rows are counted: LOO, predictive checks, quantities of rows.

A weight multiplies the log density of its row, whatever it stands for, and the posterior needs no
more. Leaving a row out, and replicating it, do:

    frequency   row n stands for w_n equal observations. One of them is left out at a time, and
                w_n are replicated: elpd = Σ_n w_n elpd_n, with standard error over Σ_n w_n terms.
    sampling    row n was sampled with probability 1/w_n, or counts w_n-fold in a pseudo-posterior.
                The row is left out with all of its weight, by ratios p(y_n | θ)^-w_n:
                elpd = Σ_n w_n elpd_n, with standard error over N terms. It is replicated once.
    precision   the outcome of row n has variance σ²/w_n. This is no factor of a log density: the
                program says ``normal(mu, sigma / sqrt(w))``, and its rows have no weights here.

Weights are those of the data, beside a program that has none, and columns of the program's own by
which the log density of a row is multiplied, ``target += w[n] * normal_lpdf(...)``. A column is
found by its values: the log likelihoods must be w times those with ones in its place.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from stancoreset.checks import check_choice
from stancoreset.engines import Float, StanData
from stancoreset.errors import DataError, OptionError, StancoresetError
from stancoreset.limits import NOISE
from stancoreset.program.session import Session
from stancoreset.stan import StanProgram, WeightedProgram
from stancoreset.stan.syntax import assignments, names_in, sources
from stancoreset.stan.syntax import nodes as n

#: Meanings that weights of rows may have.
WeightKind: TypeAlias = Literal["frequency", "sampling"]
KINDS = ("frequency", "sampling", "precision")

# Rows and draws at which a column of weights is told from others.
_ROWS, _DRAWS = 50, 2


@dataclass(frozen=True)
class RowWeights:
    """The weights of all rows, and the data without them.

    Attributes
    ----------
    program : WeightedProgram
    data : mapping
        Checked data in which every weight is one.
    values : ndarray, shape (N,)
        All one if rows have no weights.
    names : tuple of str
        Where they come from: data variables.
    kind : {"frequency", "sampling"} or None
    """

    program: WeightedProgram = field(repr=False)
    data: StanData = field(repr=False)
    values: Float
    names: tuple[str, ...] = ()
    kind: WeightKind | None = None

    def repeated(self) -> StanData:
        """Each row as often as it was observed; once, unless weights are frequencies."""
        if self.kind != "frequency":
            return self.data
        numbers = np.repeat(np.arange(len(self.values)), self.values.astype(np.int64))
        return self.program.subset(self.data, numbers)

    @property
    def counts(self) -> Float:
        """Equal observations of each row, (N,); zero for rows without weight."""
        return self.values if self.kind == "frequency" else (self.values > 0).astype(np.float64)

    @property
    def powers(self) -> Float:
        """Powers of the density with which each row is left out, (N,)."""
        return self.values if self.kind == "sampling" else np.ones(len(self.values))


def check_kind(kind: str | None) -> WeightKind | None:
    """One of `KINDS`, or None; precisions are refused, because they are no weights of rows."""
    if kind is None:
        return None
    check_choice("weights", kind, KINDS)
    if kind == "precision":
        raise OptionError(
            "weights='precision': a weight multiplies the log density of its row, which a "
            "precision does not; write it in the program, y ~ normal(mu, sigma ./ sqrt(w)), whose "
            "rows then need no weights"
        )
    return "frequency" if kind == "frequency" else "sampling"


def read_row_weights(
    session: Session,
    checked: StanData,
    kind: str | None,
    what: str,
    *,
    theta: Float | None = None,
    outcomes: Sequence[str] = (),
) -> RowWeights:
    """The weights of rows in memory.

    Parameters
    ----------
    session : Session
    checked : mapping
        The full data.
    kind : str or None
        What the user says of them.
    what : str
        What needs to know, for the error.
    theta : ndarray, shape (S, P), optional
        Points at which columns of the program's own are looked for; None: none are.
    outcomes : sequence of str
        Variables that are no weights.

    Raises
    ------
    OptionError
        If rows have weights and `kind` is None, or is none of theirs.
    DataError
        If frequencies are not whole.
    """
    known, program = check_kind(kind), session.program
    values = np.asarray(checked[program.weights], dtype=np.float64)
    names: tuple[str, ...] = () if np.all(values == 1) else (program.weights,)
    data = program.with_weights(checked, np.ones(len(values)))
    own = () if theta is None else _own_columns(session, data, theta, outcomes)
    for name in own:
        values = values * data[name]
    data |= {name: np.ones_like(data[name]) for name in own}
    names += own
    if not names or np.all(values == 1):
        return RowWeights(program, data, np.ones(len(values)))
    said = " and ".join(repr(name) for name in names)
    if known is None:
        raise OptionError(
            f"rows have weights ({said}), and {what} must know what they mean: "
            "weights='frequency' for counts of equal rows, weights='sampling' for inverse "
            "probabilities of sampling and other weights of a pseudo-likelihood"
        )
    if known == "frequency":
        wrong = np.flatnonzero(values % 1 != 0)
        if len(wrong):
            raise DataError(
                f"the weights {said} have {values[wrong[0]]:g} at [{wrong[0]}] (counting from 0); "
                "expected whole numbers, as frequencies are; weights='sampling' takes others"
            )
    if not np.any(values > 0):
        raise DataError(f"the weights {said} are zero in every row")
    return RowWeights(program, data, values, names, known)


def _own_columns(
    session: Session, data: StanData, theta: Float, outcomes: Sequence[str]
) -> tuple[str, ...]:
    """Columns of the program by which the log likelihoods of rows are multiplied."""
    program, draws = session.program, theta[:_DRAWS]
    found = []
    for name in program.rows:
        column = np.asarray(data[name])
        if name in outcomes or column.ndim != 1 or np.any(column < 0):
            continue
        other = np.flatnonzero(column != 1)
        if not len(other):
            continue
        rows = other[np.linspace(0, len(other) - 1, min(_ROWS, len(other))).astype(int)]
        some = program.subset(data, rows)
        with suppress(StancoresetError):  # a number of a group that does not exist, …
            weighted = _log_lik(session, some, draws)
            single = _log_lik(session, {**some, name: np.ones_like(some[name])}, draws)
            same = np.allclose(weighted, column[rows] * single, rtol=NOISE, atol=1e-12)
            if same and np.any(single):
                found.append(name)
    return tuple(found)


def _log_lik(session: Session, data: StanData, draws: Float) -> Float:
    return np.hstack([values for _, values in session.row_log_lik(data, draws)])


# Generated quantities ------------------------------------------------------------------------


def quantities_of_weighted_rows(
    original: StanProgram, program: WeightedProgram, data: StanData, names: Sequence[str]
) -> tuple[str, ...]:
    """Names of generated quantities that read rows, if the data give rows weights."""
    if np.all(np.asarray(data[program.weights]) == 1):
        return ()
    rows = _row_names(program)
    return tuple(name for name in names if _read(original, program, name) & rows)


def without_weighted_rows(
    original: StanProgram, program: WeightedProgram, data: StanData, names: tuple[str, ...]
) -> tuple[str, ...]:
    """Drop the generated quantities that read weighted rows; a warning names these."""
    lost = quantities_of_weighted_rows(original, program, data, names)
    if lost:
        warnings.warn(
            f"the posterior lacks the generated quantities {', '.join(lost)}, because they read "
            "rows that have weights: model.generate_quantities(data, fit, "
            f"{list(lost)}, weights='frequency' or 'sampling') evaluates them",
            stacklevel=2,
        )
    return tuple(name for name in names if name not in lost)


def require_repeatable(
    original: StanProgram, program: WeightedProgram, names: Sequence[str]
) -> None:
    """Raise if quantities cannot be evaluated on repeated rows.

    What transformed data compute from all rows belongs to the model as it was fitted; repeated
    rows would give other numbers.
    """
    read = set().union(*(_read(original, program, name) for name in names))
    cause = ""
    if program.counted or program.table is not None:
        cause = f"rows are {program.observation}, of which none can be repeated"
    elif changed := sorted(read & program.frozen):
        cause = f"they read {', '.join(changed)}, which the program computes from all rows"
    if cause:
        raise OptionError(
            f"weights='frequency' is not possible for {', '.join(names)}: {cause}; fit data "
            "without weights, in which each row is repeated as often as it was observed"
        )


def _row_names(program: WeightedProgram) -> set[str]:
    sizes = (name for counted in program.counted.values() for name in counted)
    own = {*program.rows, *program.given_rows, program.obs, *program.shared, program.weights}
    return own.union(sizes)


def _read(original: StanProgram, program: WeightedProgram, name: str) -> set[str]:
    """Names that a generated quantity depends on.

    Numbers that all rows share, and those that the rows' own were computed with, are constants of
    the model, whatever they were computed from.
    """
    tree = original.tree
    body = (*tree.transformed_data, *tree.transformed_parameters, *tree.generated_quantities)
    pairs = [pair for statement in body for pair in _dependencies(statement)]
    computed = {d.name for d in tree.transformed_data if isinstance(d, n.Decl)}
    constants = sources(pairs, set(program.frozen)) & computed - program.rows.keys()
    return sources((pair for pair in pairs if pair[0] not in constants), {name})


def _dependencies(statement: n.Stmt) -> Any:
    """Variables, and the names that their values and declared sizes depend on."""
    yield from assignments(statement, names_in)
    for node in n.walk(statement):
        if isinstance(node, n.Decl):
            yield node.name, names_in(node.size)
