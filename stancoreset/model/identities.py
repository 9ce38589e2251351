"""Numerical self-checks of a weighted program: do its weights do what weights must do?

With lp(w) the log density at row weights w, and ℓ_n the generated ``log_lik``, a weighted
program satisfies at every parameter value, up to a constant,

    lp(0) = log prior,        lp(w) = lp(0) + Σ_n w_n ℓ_n,

and ℓ_n depends on row n alone. Everything the package does with a program rests on this, and
declarations cannot show it, so it is checked at a few random points on a few random rows
before anything else: milliseconds in process. That lp(0) is the prior is checked on all rows,
since a single one may be what a prior looks at: one evaluation of them at each point, some of
the rows at a time. A program that fails is not used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from stancoreset.engines import Engine
from stancoreset.errors import IdentityError
from stancoreset.model.identity_errors import against_original, errors, prior_on_all_rows
from stancoreset.model.identity_values import BoundTwice, Setting, evaluate, random_points
from stancoreset.stan import StanProgram, WeightedProgram

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Identity", "check_identities", "identity_table", "require_identities"]

Freeze = Callable[[Mapping[str, Any]], Mapping[str, Any]]

#: Largest relative error that is still rounding.
TOLERANCE = 1e-9
#: The same where an ODE, algebra or quadrature solver sits in between.
SOLVER_TOLERANCE = 1e-5


@dataclass(frozen=True)
class Identity:
    """One identity, checked.

    Attributes
    ----------
    name : str
        Short name, for reports.
    statement : str
        What must hold, as a formula.
    error : float
        Largest relative error over the points.
    passed : bool
        Whether that is rounding, below the tolerance.
    cause : str
        What makes a program fail it, in plain words.
    """

    name: str
    statement: str
    error: float
    passed: bool
    cause: str = field(repr=False)


_MEANING: dict[str, tuple[str, str]] = {
    "prior": (
        "lp(0) is the same for any rows",
        "something besides the rows' weighted densities depends on the data rows or on their "
        "number: a density that is not multiplied by its weight, a prior scaled by N, or "
        "transformed data computed from all rows (means, counts)",
    ),
    "sum": (
        "lp(1) = lp(0) + sum of log_lik",
        "log_lik and the model block disagree: a part of the likelihood is missing in one of "
        "them, or log_lik contains a part of the prior",
    ),
    "weighted": (
        "lp(w) = lp(0) + sum of w * log_lik",
        "the density of a row is not multiplied by its weight exactly once: look for a sum over "
        "rows outside `weights[n] * ...`, or for weights used twice",
    ),
    "derivative": (
        "lp(w + e_n) - lp(w) = log_lik[n]",
        "the weight of a row acts on more than its own density, or not in proportion",
    ),
    "repeated": (
        "a row of weight 2 equals that row twice",
        "rows are not independent given the parameters: the density of a row uses its "
        "neighbours, its position or the number of rows (time series, spatial models)",
    ),
    "slice": (
        "log_lik of some rows is the same without the others",
        "the log_lik of a row depends on other rows: the model is not a product over rows "
        "(time series, spatial models), or transformed data are computed from all rows",
    ),
    "unweighted": (
        "log_lik does not depend on the weights",
        "log_lik is multiplied by the weights; leave them out of generated quantities",
    ),
    "original": (
        "lp(1) is the density of the original program",
        "the weighted program is not the original one: a statement was changed or left out; or "
        "the engine evaluates one of them wrongly (ask another: engine='cmdstan')",
    ),
    "original gradient": (
        "the gradient of lp(1) is that of the original program",
        "the weighted program is not the original one: a statement was changed or left out",
    ),
}


def check_identities(
    weighted: WeightedProgram,
    engine: Engine,
    data: Mapping[str, Any],
    *,
    original: StanProgram | None = None,
    freeze: Freeze | None = None,
    numbered: bool = False,
    points: int = 5,
    seed: int = 0,
    tolerance: float = TOLERANCE,
) -> list[Identity]:
    """Check the identities at random points on small random slices of the data.

    Parameters
    ----------
    weighted : WeightedProgram
    engine : Engine
        Evaluates densities; in process this costs milliseconds.
    data : mapping
        Checked data, any number of rows; at most 50 are used at a time, but for lp(0), which is
        evaluated on all of them, a few million numbers at a time.
    original : StanProgram, optional
        The program that `weighted` was woven from; with weights one it must be the same.
    freeze : callable, optional
        Computes the frozen variables of a data set; the original reduces over the very rows
        it is given, so it is compared on rows whose frozen variables are their own.
    numbered : bool
        The original picks rows by their numbers in the full data: it is compared on all of them.
    points : int
        Parameter values to check at; those without a finite density do not count.
    seed : int
        Which rows, weights and points.
    tolerance : float
        Largest relative error that passes; looser where a numerical solver sits in between.

    Returns
    -------
    list of Identity
        Passed or not; see `require_identities` for a version that raises.

    Raises
    ------
    IdentityError
        No two random points have a finite density, so nothing can be checked.
    EngineError, DataError
        Stan refuses the program or a slice of its data.
    """
    rng = np.random.default_rng(seed)
    setting = Setting.choose(weighted, data, rng)
    with BoundTwice(weighted, engine) as bound:
        thetas = random_points(bound.density(setting.rows_a), points, rng)
        found = errors(setting, evaluate(setting, bound, thetas))
        found["prior"] = max(found["prior"], prior_on_all_rows(weighted, data, bound, thetas))
        if original is not None:
            rows: Mapping[str, Any]
            if numbered:
                rows = weighted.with_weights(data, np.ones(weighted.n_obs(data)))
            else:
                rows = setting.rows_a if freeze is None else freeze(setting.rows_a)
            found |= against_original(rows, bound, engine, original, thetas, rng)
    return [
        Identity(name, _MEANING[name][0], error, bool(error <= tolerance), _MEANING[name][1])
        for name, error in found.items()
    ]


def require_identities(
    weighted: WeightedProgram,
    engine: Engine,
    data: Mapping[str, Any],
    *,
    tolerance: float = TOLERANCE,
    **options: Any,
) -> list[Identity]:
    """`check_identities`, and an error if one fails; parameters are the same.

    Raises
    ------
    IdentityError
        Naming the first identity that fails, its error and a likely cause.
    """
    rows = check_identities(weighted, engine, data, tolerance=tolerance, **options)
    failed = [row for row in rows if not row.passed]
    if failed:
        first = failed[0]
        others = ", ".join(f"'{row.name}' ({row.error:.1e})" for row in failed[1:])
        raise IdentityError(
            f"the weights of '{weighted.program.name}' do not behave: the identity "
            f"'{first.name}' ({first.statement}) fails with relative error {first.error:.1e}, "
            f"expected at most {tolerance:.0e}. Likely cause: {first.cause}."
            + (f" Also failing: {others}." if others else "")
        )
    return rows


def identity_table(identities: list[Identity]) -> pd.DataFrame:
    """The identities as a table: name, statement, error, passed."""
    import pandas as pd

    columns = ("name", "statement", "error", "passed")
    return pd.DataFrame([{c: getattr(row, c) for c in columns} for row in identities])
