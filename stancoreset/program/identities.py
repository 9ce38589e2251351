"""Numerical checks that the weights of a program act as weights.

With lp(w) the log density at row weights w, and ℓ_n the generated ``log_lik``, a weighted
program satisfies at every parameter value, up to a constant,

    lp(0) = log prior,        lp(w) = lp(0) + Σ_n w_n ℓ_n,

and ℓ_n depends on row n alone. The whole package relies on this, and declarations cannot show it,
so it is checked first, at a few random points on a few random rows, which takes milliseconds in
process. That lp(0) is the prior is checked on all of up to 100,000 rows, and on that many of more,
because a prior may depend on a single one: they are evaluated once at each point, some of the rows
at a time. A program that fails is not used.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines import (
    BoundModel,
    Closing,
    Compiled,
    CompiledWithControl,
    Density,
    Engine,
    Float,
    compile_controlled,
    controlled_for,
)
from stancoreset.errors import DataError, IdentityError
from stancoreset.limits import BLOCK, NOISE
from stancoreset.program.adopt import Adopted
from stancoreset.rows import MAX_ROWS_PER_CHUNK, SHOWN, shown_rows
from stancoreset.rows.glm import rows_of
from stancoreset.rows.tables import in_memory
from stancoreset.stan import StanProgram, WeightedProgram, advice_on_tails

if TYPE_CHECKING:
    import pandas as pd

Freeze = Callable[[Mapping[str, Any]], Mapping[str, Any]]

#: Largest relative error that is no failure. Stan itself leaves out e⁻²⁰ = 2e-9 of a Bernoulli
#: density whose logit is beyond ±20.
TOLERANCE = 10 * NOISE
#: Largest relative error that is still rounding, if a program calls an ODE, algebra or quadrature
#: solver.
SOLVER_TOLERANCE = 1e-5
# Allowed gradient error: 10 times the original's own change over 4 neighbouring floats, and at most
# 1e-4.
_OWN, _NEIGHBOURS, _MOST = 10.0, 4, 1e-4
_ROWS = 25  # a slice; with repeated rows at most twice as many
_RADII = (2.0, 1.0, 0.5, 0.1)  # Stan starts its chains in (−2, 2); smaller ones are safer
_LARGE = 1e8  # numbers in the data by which sums lose half of their digits


@dataclass(frozen=True)
class Identity:
    """One identity, checked.

    `statement` is what must hold, as a formula; `error` is its largest relative error over the
    points, and `cause` a likely cause of a failure.
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

    At most 50 rows are used at a time, except for lp(0), which is evaluated on all of up to 100,000
    rows, some at a time. Points without a finite density do not count. Failed identities are
    returned like those that passed; `require_identities` raises instead.

    With weights of one the program must be the `original` from which it was woven. The original
    reduces over the rows that it is given, so it is compared on rows with their own frozen
    variables, which `freeze` computes; or, if it selects rows by number (`numbered`), on all rows.

    An `IdentityError` is raised if fewer than two random points have a finite density, so that
    nothing can be checked; an `EngineError` or `DataError` if Stan refuses the program or a slice.
    """
    rng = np.random.default_rng(seed)
    setting = _Setting.choose(weighted, data, rng)
    with _BoundTwice(weighted, engine) as bound:
        try:
            advice = advice_on_tails((original or weighted.program).code)
            thetas = random_points(bound.density(setting.rows_a), points, rng, advice)
            found = _errors(setting, bound, thetas)
            found["prior"] = max(found["prior"], _prior_on_rows(weighted, data, bound, thetas))
        except DataError as error:
            row = _refused_row(weighted, data, bound)
            if row is None:
                raise
            raise DataError(f"{error} ({_shown_row(weighted, data, row)})") from None
        if original is not None:
            rows: Mapping[str, Any]
            if numbered:
                rows = weighted.with_weights(data, np.ones(weighted.n_obs(data)))
            else:
                rows = setting.rows_a if freeze is None else freeze(setting.rows_a)
            found |= _against_original(rows, bound, engine, original, thetas, rng)
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
    """Check the identities like `check_identities`; raise an IdentityError if one fails.

    The message names it, its error and a likely cause: numbers in the data that are too large for
    the digits of sums, if there are some, or else the program.
    """
    rows = check_identities(weighted, engine, data, tolerance=tolerance, **options)
    failed = [row for row in rows if not row.passed]
    if failed:
        first = failed[0]
        cause = _of_units(weighted, data) or first.cause
        others = ", ".join(f"'{row.name}' ({row.error:.1e})" for row in failed[1:])
        raise IdentityError(
            f"the weights of '{weighted.program.name}' do not behave: the identity "
            f"'{first.name}' ({first.statement}) fails with relative error {first.error:.1e}, "
            f"expected at most {tolerance:.0e}. Likely cause: {cause}."
            + (f" Also failing: {others}." if others else "")
        )
    return rows


def check_adopted(
    adopted: Adopted,
    engine: Engine,
    checked: Mapping[str, Any],
    check: Callable[..., list[Identity]],
    points: int = 5,
    seed: int = 0,
) -> list[Identity]:
    """Check the identities of an adopted program; a woven one is compared with its original too.

    `check` is `check_identities` or `require_identities`.
    """
    program, woven, tolerance = adopted.weighted, adopted.woven, TOLERANCE
    if adopted.uses_solver:
        tolerance = SOLVER_TOLERANCE
        warnings.warn(
            f"'{program.program.name}' solves equations numerically: its identities are "
            f"checked to {SOLVER_TOLERANCE:.0e} instead of {TOLERANCE:.0e}",
            stacklevel=3,
        )
    return check(
        program,
        engine,
        in_memory(checked),  # a random sample of rows on disk serves as well
        original=None if woven is None else adopted.density,
        freeze=lambda rows: adopted.complete(rows, engine),
        numbered=woven is not None and woven.numbered,
        points=points,
        seed=seed,
        tolerance=tolerance,
    )


def _of_units(weighted: WeightedProgram, data: Mapping[str, Any]) -> str:
    """The rows' variable whose numbers are so large that sums lose their digits, in words."""
    largest = {n: float(np.abs(data[n]).max(initial=0.0)) for n in weighted.rows if n in data}
    name = max(largest, key=lambda n: largest[n], default="")
    if not name or largest[name] < _LARGE:
        return ""
    return (
        f"'{name}' reaches {largest[name]:.3g}, so that sums over rows lose their digits; correct "
        "it, or bring it to units of about 1"
    )


def identity_table(identities: list[Identity]) -> pd.DataFrame:
    """The identities as a table: name, statement, error, passed."""
    import pandas as pd

    columns = ("name", "statement", "error", "passed")
    return pd.DataFrame([{c: getattr(row, c) for c in columns} for row in identities])


# The values that are compared, and how far they are apart -------------------------------------


@dataclass(frozen=True)
class _Setting:
    """Slices of the data and weights for them."""

    rows_a: dict[str, Any]  # k rows of weight one
    rows_b: dict[str, Any]  # other rows, of another number
    part: NDArray[np.intp]  # some of A's rows, in another order
    part_a: dict[str, Any]
    random: Float  # weights with zeros
    bumped: Float  # the same with one weight larger by one
    which: int
    counts: NDArray[np.int64]  # whole weights 0, 1, 2
    repeated: dict[str, Any]  # A's rows repeated that often
    weighted: WeightedProgram

    @classmethod
    def choose(
        cls, weighted: WeightedProgram, data: Mapping[str, Any], rng: np.random.Generator
    ) -> _Setting:
        n_obs = weighted.n_obs(data)
        k = min(n_obs, _ROWS)
        order = rng.permutation(n_obs) if n_obs < 10_000 else rng.choice(n_obs, 2 * _ROWS, False)
        a = np.sort(order[:k])
        rest = order[k:] if n_obs > k else order
        b = rng.choice(rest, size=k // 2 + 2, replace=len(rest) < k // 2 + 2)
        part = rng.permutation(k)[: k // 2 + 1]
        random = rng.gamma(1.0, 2.0, k) * (rng.random(k) < 0.7)
        which = int(rng.integers(k))
        counts = rng.integers(0, 3, k)
        counts[which] = 2
        return cls(
            rows_a=weighted.subset(data, a),
            rows_b=weighted.subset(data, b),
            part=part,
            part_a=weighted.subset(data, a[part]),
            random=random,
            bumped=random + (np.arange(k) == which),
            which=which,
            counts=counts,
            repeated=weighted.subset(data, np.repeat(a, counts)),
            weighted=weighted,
        )

    def a(self, weights: Any) -> dict[str, Any]:
        return self.weighted.with_weights(self.rows_a, weights)


class _BoundTwice(Closing):
    """The weighted program with and without its rows' log likelihoods, as in a fit.

    It is bound to small data on demand, and closed at the end.
    """

    def __init__(self, weighted: WeightedProgram, engine: Engine) -> None:
        controlled = controlled_for(weighted, engine)
        compiled = compile_controlled(engine, weighted, controlled)
        self._density = CompiledWithControl(compiled, controlled)
        self._complete = CompiledWithControl(compiled, controlled, log_lik=True)
        self._open = ExitStack()

    def bind(self, compiled: Compiled, data: Mapping[str, Any]) -> BoundModel:
        return self._open.enter_context(compiled.bind(data))

    def density(self, data: Mapping[str, Any]) -> BoundModel:
        return self.bind(self._density, data)

    def briefly(self, data: Mapping[str, Any]) -> Density:
        """The density on temporary data; the caller closes it."""
        return self._density.bind_density(data)

    def complete(self, data: Mapping[str, Any]) -> BoundModel:
        return self.bind(self._complete, data)

    def close(self) -> None:
        self._open.close()


def random_points(
    model: BoundModel, number: int, rng: np.random.Generator, advice: str = ""
) -> Float:
    """Random unconstrained parameters at which the density is finite.

    `advice` says what may be wrong if there are none.
    """
    tries = 8 * number  # some points may have no density
    radius = np.resize(_RADII, tries)[:, None]
    thetas = rng.uniform(-1.0, 1.0, size=(tries, model.n_params)) * radius
    finite = thetas[np.isfinite(model.log_density(thetas))]
    if len(finite) < 2:
        raise IdentityError(
            f"the log density is finite at {len(finite)} of {tries} random points, so the "
            "program's weights cannot be checked; check the data, and declare the parameters' "
            "bounds, so that every value within them has a density" + (advice and f"; {advice}")
        )
    return finite[:number]


def _errors(setting: _Setting, bound: _BoundTwice, thetas: Float) -> dict[str, float]:
    """Relative error of every identity that needs the weighted program alone, by name."""
    weighted, w, counts = setting.weighted, setting.random, setting.counts

    def lp(data: Mapping[str, Any]) -> Float:
        return np.asarray(bound.density(data).log_density(thetas))

    def rows(data: Mapping[str, Any]) -> Float:
        return np.asarray(bound.complete(data).log_lik(thetas))

    zero, random = lp(setting.a(np.zeros(len(w)))), lp(setting.a(w))
    zero_b = lp(weighted.with_weights(setting.rows_b, np.zeros(weighted.n_obs(setting.rows_b))))
    lik = rows(setting.rows_a)
    if not np.any(lik) and np.ptp(random - zero) == 0:
        raise _without_likelihood(weighted, setting.rows_a)
    sizes = np.abs(lik)  # what rounding errors are relative to
    step = random + lik[:, setting.which]
    return {
        "prior": _up_to_constant(zero, zero_b),
        "sum": _up_to_constant(lp(setting.rows_a), zero + lik.sum(axis=1), sizes.sum(axis=1)),
        "weighted": _up_to_constant(random, zero + lik @ w, sizes @ w),
        "derivative": _up_to_constant(lp(setting.a(setting.bumped)), step, sizes @ w),
        "repeated": _up_to_constant(lp(setting.a(counts)), lp(setting.repeated), sizes @ counts),
        "slice": _exact(lik[:, setting.part], rows(setting.part_a)),
        "unweighted": _exact(lik, rows(setting.a(w))),
    }


def _without_likelihood(weighted: WeightedProgram, data: Mapping[str, Any]) -> IdentityError:
    off = next((name for name in ("prior_only", "prior_PD") if data.get(name)), "")
    why = f"{off} is {data[off]}: set it to 0" if off else "look for a flag that does so"
    return IdentityError(
        f"every row of '{weighted.program.name}' that was tried has a log likelihood of 0, so that "
        f"these data leave the prior alone, as if the likelihood were switched off; {why}, or draw "
        "from the prior by model.sample(data)"
    )


def _prior_on_rows(
    weighted: WeightedProgram, data: Mapping[str, Any], bound: _BoundTwice, thetas: Float
) -> float:
    """Relative error of lp(0) of rows, chunk by chunk, against that of one row.

    Of very many rows these are some, evenly spread, and some of every pattern. Points at which a
    row has no density are skipped: zero times infinity is not a number.
    """
    if weighted.n_obs(data) > SHOWN:
        shown = shown_rows(rows_of(weighted, data), SHOWN)
        data = weighted.subset(data, shown)
    n_obs = weighted.n_obs(data)
    numbers = sum(np.size(data[name]) for name in weighted.rows)
    length = max(1, min(MAX_ROWS_PER_CHUNK, BLOCK * n_obs // max(1, numbers)))
    one = bound.density(weighted.prior_data(data)).log_density(thetas)
    worst = 0.0
    for start in range(0, n_obs, length):
        cut = slice(start, min(start + length, n_obs))
        rows = weighted.subset(data, cut, np.zeros(cut.stop - start))
        with closing(bound.briefly(rows)) as model:
            zero = model.log_density(thetas)
        if np.isfinite(zero - one).sum() > 1:
            worst = max(worst, _up_to_constant(zero, one))
    return worst


def _refused_row(
    weighted: WeightedProgram, data: Mapping[str, Any], bound: _BoundTwice
) -> int | None:
    """A row that Stan cannot read by itself, by bisection; None if no row is to blame."""

    def is_refused(rows: Mapping[str, Any]) -> bool:
        try:
            bound.briefly(rows).close()
        except DataError:
            return True
        return False

    start, stop = 0, weighted.n_obs(data)
    if is_refused(weighted.prior_data(data)):
        return None
    while stop - start > 1:
        middle = (start + stop) // 2
        low = is_refused(weighted.subset(data, slice(start, middle)))
        start, stop = (start, middle) if low else (middle, stop)
    return start if is_refused(weighted.subset(data, slice(start, stop))) else None


def _shown_row(weighted: WeightedProgram, data: Mapping[str, Any], row: int) -> str:
    """A row's number and its first values, in words."""
    columns = {n: np.asarray(data[n]) for n in weighted.rows if n != weighted.weights}
    values = [f"{n} = {v[row]:g}" for n, v in columns.items() if v.ndim == 1 and v.size][:6]
    return f"row {row}, counting from 0, with {', '.join(values)}"


def _up_to_constant(left: Float, right: Float, size: Float | float = 0.0) -> float:
    """Largest relative error of left = right + c at the points, c free.

    The point of smallest magnitude fixes c, so that a point far out, where a density is
    large and rounding is coarse, cannot hide an error anywhere else.
    """
    difference = left - right
    scale = np.abs(left) + np.abs(right) + size + 1.0
    counts = np.isfinite(difference) & np.isfinite(scale)
    if counts.sum() < 2:
        return np.inf
    difference, scale = difference[counts], scale[counts]
    base = int(np.argmin(scale))
    return float(np.max(np.abs(difference - difference[base]) / (scale + scale[base])))


def _exact(left: Float, right: Float) -> float:
    """Largest relative error of left = right, number by number; non-finite points are left out."""
    counts = np.isfinite(left).all(axis=1) & np.isfinite(right).all(axis=1)
    if not counts.any():
        return np.inf
    left, right = left[counts], right[counts]
    return float(np.max(np.abs(left - right) / (np.abs(left) + np.abs(right) + 1.0)))


def _against_original(
    rows: Mapping[str, Any],
    bound: _BoundTwice,
    engine: Engine,
    original: StanProgram,
    thetas: Float,
    rng: np.random.Generator,
) -> dict[str, float]:
    """Relative errors against the original program on the same rows, without weights.

    If these rows have fewer groups or categories than all rows, and so fewer parameters, new
    points are drawn.
    """
    names = {decl.name for decl in original.data}
    data = {name: value for name, value in rows.items() if name in names}
    before = bound.bind(engine.compile(original.code, name=original.name), data)
    after = bound.density(rows)
    if before.n_params != after.n_params:
        return {"original": np.inf, "original gradient": np.inf}
    if after.n_params != thetas.shape[1]:
        thetas = random_points(after, len(thetas), rng)
    value, gradient = before.log_density_gradient(thetas)
    new_value, new_gradient = after.log_density_gradient(thetas)
    apart = _gradients(new_gradient, gradient)
    if apart > TOLERANCE:
        apart = max(0.0, apart - min(_OWN * _own_rounding(before, thetas, gradient, rng), _MOST))
    return {"original": _up_to_constant(new_value, value), "original gradient": apart}


def _own_rounding(
    model: BoundModel, thetas: Float, gradient: Float, rng: np.random.Generator
) -> float:
    """Largest change of gradients between neighbouring floats, caused by rounding.

    The derivative of a Cholesky factor of a nearly singular matrix, as a Gaussian process has it,
    knows seven digits, of which a sum in another order keeps none more.
    """
    away = (rng.choice([-np.inf, np.inf], thetas.shape) for _ in range(_NEIGHBOURS))
    beside = (model.log_density_gradient(np.nextafter(thetas, far))[1] for far in away)
    return max(_gradients(other, gradient) for other in beside)


def _gradients(left: Float, right: Float) -> float:
    """Largest error relative to the largest entry at each point, where rounding starts."""
    size = np.abs(np.concatenate([left, right], axis=1)).max(axis=1, initial=0.0)
    counts = np.isfinite(size)
    if not counts.any():
        return np.inf
    relative = np.abs(left - right)[counts] / (size[counts, None] + 1.0)
    return float(relative.max(initial=0.0))
