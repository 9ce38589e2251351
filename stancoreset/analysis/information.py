"""The information of rows: how far the posterior's entropy is expected to fall; choice of rows.

The posterior enters by its draws' covariance V, in the coordinates ψ that the rows see of the
parameters (`CoresetModel.seen`): rows say nothing about the parameters but what they say about ψ,
and as a function of ψ their log likelihood is nearly quadratic. A row enters by its Fisher
information I_n, averaged over the posterior, and gains

    Δ_n = ½ log det(I + V I_n).

The likelihood of a generalised linear model has I_n in closed form (`stancoreset.rows.glm.fisher`).
Any other is differentiated at draws ψ_s, by central differences along the axes of V, and

    I_n = mean_s g_ns g_nsᵀ                                     outcomes that are given
    I_n = mean_s Σ_y p(y | ψ_s) g_ns(y) g_ns(y)ᵀ                unknown, of few values
    I_n = mean_s g_ns(y_s) g_ns(y_s)ᵀ,   y_s ~ p(y | ψ_s)       unknown, simulated by the program

References
----------
Seeger & Nickisch (2008), Large scale variational inference and experimental design for sparse
generalized linear models, section 6; see `stancoreset.selection.design` for the choice of rows.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stancoreset.analysis.new_rows import NewRows, limits, read_new_rows
from stancoreset.analysis.pointwise import evenly, quantity_names, require_variables_of_rows
from stancoreset.checks import check_whole
from stancoreset.engines import BoundModel, Float, StanData
from stancoreset.errors import (
    DataError,
    OptionError,
    ProgramError,
    StancoresetError,
)
from stancoreset.limits import BLOCK
from stancoreset.posterior import arviz, refuse_rejected, scalars
from stancoreset.program import Data, Session, bind_original, unconstrain_all
from stancoreset.rows import MAX_ROWS_PER_CHUNK, STEP
from stancoreset.rows.glm import GlmFisher, GlmKernel, find_glm, seen_by_glm
from stancoreset.rows.tables import ordered, stan_rows
from stancoreset.runs import CoresetFit
from stancoreset.selection import Whitened, gains, greedy_design, whitened
from stancoreset.stan import StanProgram

if TYPE_CHECKING:
    import pandas as pd

#: Draws at which gradients are taken: for outcomes that are given or summed over, and simulated.
DRAWS, SIMULATED = 32, 100
# Values of an outcome that are summed over at most.
_VALUES = 64
# Eigenvalues of the information, as a share of the largest, that are rounding errors.
_RANK = 1e-10
# How far from one the sum of an outcome's probabilities may be.
_TOTAL = 1e-6


@dataclass(frozen=True)
class Information:
    """Scores of rows, made by `CoresetModel.information`: expected gain in nats of entropy.

    Attributes
    ----------
    gain : ndarray, shape (N,)
        Expected fall of the posterior's entropy if the row is observed (once more), in nats.
    likelihood : str
        How the rows' information was found.
    """

    gain: Float = field(repr=False)
    likelihood: str

    def __repr__(self) -> str:
        low, high = self.gain.min(), self.gain.max()
        return f"Information({len(self.gain):,} rows, {low:.3g} to {high:.3g} nats each)"

    def best(self, size: int) -> NDArray[np.int64]:
        """Row numbers of the largest gains, from 0, the largest first.

        Their information may overlap; `CoresetModel.design` chooses rows that are informative
        together.
        """
        check_whole("size", size, 1)
        return np.argsort(-self.gain, kind="stable")[:size]

    def to_frame(self) -> pd.DataFrame:
        """``row`` (from 0) and ``gain``."""
        import pandas as pd

        return pd.DataFrame({"row": np.arange(len(self.gain)), "gain": self.gain})


@dataclass(frozen=True)
class Design:
    """Rows to observe next, in order; made by `CoresetModel.design`.

    Attributes
    ----------
    rows : ndarray of int, shape (k,)
        Row numbers, from 0.
    gain : ndarray, shape (k,)
        Gain of each row given those before it: the expected fall of the posterior's entropy, in
        nats.
    sd : ndarray, shape (k, q)
        Posterior standard deviations of the targets that are expected after each row.
    targets : tuple of str
        Names of the targets; empty if none was given.
    likelihood : str
        How the rows' information was found.
    from_zero : bool
        Whether elements of the targets are labelled by numbers, counted from zero.
    """

    rows: NDArray[np.int64] = field(repr=False)
    gain: Float = field(repr=False)
    sd: Float = field(repr=False)
    targets: tuple[str, ...]
    likelihood: str
    from_zero: bool = False

    @property
    def total(self) -> float:
        """Expected fall of the entropy by all rows together, in nats."""
        return float(self.gain.sum())

    def __repr__(self) -> str:
        about = f" for {', '.join(self.targets)}" if self.targets else ""
        about += " (labels count from 0)" if self.from_zero else ""
        return f"Design({len(self.rows)} rows{about}, {self.total:.3g} nats together)"

    def to_frame(self) -> pd.DataFrame:
        """``row`` (from 0), ``gain``, and ``sd_…`` of each target after the row."""
        import pandas as pd

        table = {"row": self.rows, "gain": self.gain}
        sds = {f"sd_{name}": self.sd[:, q] for q, name in enumerate(self.targets)}
        return pd.DataFrame({**table, **sds})


def information(
    session: Session, original: StanProgram, rows: Data, posterior: Any, asked: Asked
) -> Information:
    """Score every row; see `stancoreset.CoresetModel.information`."""
    found = _roots(session, original, rows, posterior, _draws_of(posterior), asked)
    each = [gains(roots) for roots in found.chunks()]
    return Information(np.concatenate(each), found.likelihood)


def design(
    session: Session,
    original: StanProgram,
    rows: Data,
    posterior: Any,
    asked: Asked,
    size: int,
    target: Sequence[str],
    repeat: bool,
) -> Design:
    """Choose rows; see `stancoreset.CoresetModel.design`."""
    draws = _draws_of(posterior)
    names, values = _targets(draws, target)
    found = _roots(session, original, rows, posterior, draws, asked)
    covariances = None
    if names:
        covariances = found.posterior.covariances(values)
        none = np.linalg.norm(covariances, axis=1) <= _RANK * values.std(axis=0)
        if none.any():
            raise OptionError(
                f"target {names[int(np.argmax(none))]!r} is uncorrelated with all quantities that "
                "enter the likelihood, so that no row informs about it; name another parameter or "
                "generated quantity"
            )
    width = found.posterior.factor.shape[1]
    choice = greedy_design(found.chunks, width, size, target=covariances, repeat=repeat)
    sd = np.empty((len(choice.rows), 0))
    if covariances is not None:
        linear = np.sum(covariances**2, axis=1)
        rest = np.maximum(values.var(axis=0, ddof=1) - linear, 0.0)
        sd = np.sqrt(rest + linear * choice.left)
    variables = {name.partition("[")[0] for name in names}
    plain = any(_counts_from_zero(arviz.dataset_of(draws)[name]) for name in variables)
    return Design(choice.rows, choice.gain, sd, names, found.likelihood, plain)


def worth(
    session: Session, rows: StanData, kernel: GlmKernel | None, psi: Float, budget: float
) -> Float | None:
    """Information of each weighted row of a coreset, in nats, under draws of ψ (S, p).

    `session` is that of the likelihood as a function of ψ, and `kernel` the GLM that it is, if it
    is one. None if the draws cannot show the covariance of ψ, a row has no finite information, or
    gradients would take more than `budget` log densities of single rows.
    """
    new = NewRows(session.program, rows)
    with suppress(StancoresetError):  # no fit shall fail for it
        if kernel is None and budget > 0:  # few rows are not looked at for one
            kernel = _kernel(session, new)
        if kernel is not None and kernel.in_closed_form:
            found = _glm_roots(session, new, kernel, psi)
        else:
            axes, at = whitened(psi), evenly(len(psi), DRAWS)
            if new.count * len(at) * (2 * axes.factor.shape[1] + 1) > budget:
                return None
            gradients = _Gradients(session, new, psi[at], axes.factor)
            found = _scored(new, axes, gradients.given, len(at), "outcomes as given")
        return np.concatenate([gains(roots) for roots in found.chunks()])
    return None


@dataclass(frozen=True)
class Asked:
    """Options for scoring rows whose likelihood is no generalised linear model.

    `replicated` maps an outcome to the generated quantity that simulates it, and `draws` is the
    number of draws at which gradients are taken.
    """

    replicated: Mapping[str, str] = field(default_factory=dict)
    draws: int | None = None
    seed: int = 0


@dataclass(frozen=True)
class _Roots:
    """The rows' root information in coordinates in which the posterior has covariance I.

    `of` maps a chunk of rows to roots (n, r, d); there are at most `size` rows in it.
    """

    rows: NewRows
    posterior: Whitened
    of: Callable[[dict[str, Any]], Float] = field(repr=False)
    size: int
    likelihood: str
    threads: int = 1

    def chunks(self) -> Iterator[Float]:
        """The roots of all rows, in order."""
        start = 0
        for roots in ordered(self.of, self.rows.chunks(self.size), self.threads):
            bad = ~np.isfinite(roots).all(axis=(1, 2))
            if bad.any():
                raise DataError(
                    f"the information of row {start + int(np.argmax(bad))} (counting from 0) is "
                    "not finite, since its predictors lie too far from the fitted rows: correct "
                    "the row, or leave it out"
                )
            start += len(roots)
            yield roots


def _roots(
    session: Session, original: StanProgram, rows: Data, posterior: Any, draws: Any, asked: Asked
) -> _Roots:
    """The rows' root information, in closed form if the likelihood has one."""
    statistics = session.program.outcome_statistics
    if statistics:
        raise ProgramError(
            f"the density of every row of '{original.name}' depends on {', '.join(statistics)}, "
            "computed from the outcomes of all rows, so that no row tells anything by itself; "
            "write the model without it"
        )
    if asked.replicated:
        quantity_names(original, list(asked.replicated.values()))
    fit = posterior if isinstance(posterior, CoresetFit) else None
    new = read_new_rows(session, original, rows, fit, asked.replicated)
    theta = unconstrain_all(session, new.data, draws)
    psi = session.seen(new.data, theta)
    kernel = _kernel(session, new)
    new.require_outcomes(None if kernel is None else kernel.outcome)
    if kernel is not None:
        return _glm_roots(session, new, kernel, psi)
    found = whitened(psi)
    at = evenly(len(psi), asked.draws or (SIMULATED if asked.replicated else DRAWS))
    gradients = _Gradients(session.likelihood, new, psi[at], found.factor)
    if asked.replicated:
        scores, how = _simulated(session, original, gradients, theta[at], asked)
    elif new.unknown:
        scores, how = _summed(gradients)
    else:
        scores, how = gradients.given, "outcomes as given"
    return _scored(new, found, scores, len(at), how)


def _draws_of(posterior: Any) -> Any:
    """Draws of the full posterior."""
    if not isinstance(posterior, CoresetFit):
        return posterior
    refuse_rejected(posterior, "they do not say what rows would add to it")
    return posterior.corrected()


def _kernel(session: Session, new: NewRows) -> GlmKernel | None:
    """The GLM that the rows' likelihood is, if it is one of which the information is known."""
    if not session.glm:
        return None
    seen = session.likelihood
    found = find_glm(seen.program, seen.density(), seen.with_log_lik(), new.some).kernel
    return found if found is not None and found.in_closed_form else None


def _glm_roots(session: Session, new: NewRows, kernel: GlmKernel, psi: Float) -> _Roots:
    found = whitened(seen_by_glm(kernel, psi))
    scale, precision = kernel.coefficients.scale, 1.0
    if isinstance(scale, int):
        precision = float(np.mean(np.exp(-2.0 * psi[:, scale])))
    elif scale is not None:
        precision = scale**-2.0
    fisher = GlmFisher(kernel, found.mean, found.factor, precision)
    return _Roots(
        new,
        found,
        lambda rows: fisher.roots(kernel.prepare(rows)),
        max(1, min(MAX_ROWS_PER_CHUNK, BLOCK // max(1, found.factor.shape[1]))),
        f"{kernel.family}, in closed form",
        session.threads,
    )


# Rows' gradients --------------------------------------------------------------------------


def _scored(new: NewRows, posterior: Whitened, scores: _Scores, draws: int, how: str) -> _Roots:
    """Roots made of scores at some draws; a row that is weighted counts so often."""

    def roots(rows: dict[str, Any]) -> Float:
        weights = rows.get(new.program.weights)
        found = _root(scores(rows), draws)
        return found if weights is None else found * np.sqrt(weights)[:, None, None]

    width = posterior.factor.shape[1]
    each = max(draws * (2 * width + 1), width**2, 1)
    size = max(1, min(MAX_ROWS_PER_CHUNK, BLOCK // each))
    return _Roots(new, posterior, roots, size, f"gradients at {draws} draws, {how}")


#: From a chunk of rows, blocks of scores (n, s, d), whose squares add up to the rows' information.
_Scores = Callable[[dict[str, Any]], Iterator[Float]]


@dataclass(frozen=True)
class _Gradients:
    """Rows' log likelihoods at draws `psi` (S, p), and their derivatives along the axes of V.

    `session` is that of the likelihood as a function of ψ, and `factor` a root of V.
    """

    session: Session
    new: NewRows
    psi: Float = field(repr=False)
    factor: Float = field(repr=False)

    def bind(self, rows: dict[str, Any], **outcomes: Any) -> BoundModel:
        """Bind a chunk of rows, perhaps with other outcomes."""
        data = stan_rows(self.session.program, self.new.shared, {**rows, **outcomes})
        return self.session.with_log_lik().bind(data)

    def given(self, rows: dict[str, Any]) -> Iterator[Float]:
        """Scores with the outcomes that the rows have."""
        with self.bind(rows) as bound:
            yield self.along(bound, self.psi)[1] / np.sqrt(len(self.psi))

    def along(self, bound: BoundModel, psi: Float) -> tuple[Float, Float]:
        """Log likelihoods (n, S) and their derivatives along the axes of V, (n, S, d)."""
        width = self.factor.shape[1]
        steps = np.concatenate([np.zeros((1, len(self.factor))), self.factor.T, -self.factor.T])
        points = np.ascontiguousarray(psi[:, None] + STEP * steps).reshape(-1, psi.shape[1])
        values = bound.log_lik(points).reshape(len(psi), 2 * width + 1, -1)
        if not np.isfinite(values).all():
            row = np.argwhere(~np.isfinite(values))[0, -1]
            raise DataError(
                f"the log likelihood of row {row} (counting from 0) of a chunk is not finite near "
                "draws of the posterior, where every row needs a gradient: correct the row, or "
                "leave it out"
            )
        slopes = (values[:, 1 : width + 1] - values[:, width + 1 :]) / (2 * STEP)
        return values[:, 0].T, slopes.transpose(2, 0, 1)


def _summed(gradients: _Gradients) -> tuple[_Scores, str]:
    """Scores of all values of an outcome that is a whole number between declared bounds."""
    new = gradients.new
    bounds = limits(new, new.unknown[0]) if len(new.unknown) == 1 else None
    if bounds is None or not 0 <= bounds[1] - bounds[0] < _VALUES:
        raise OptionError(
            f"the outcomes {', '.join(new.unknown)} are unknown, and the likelihood is no "
            "generalised linear model that stancoreset recognises, nor has it one outcome of "
            f"whole numbers between declared bounds, at most {_VALUES} of them: name the generated "
            'quantity that simulates each outcome, as in replicated={"y": "y_rep"}, or give '
            "outcomes"
        )
    name, (lower, upper) = new.unknown[0], bounds

    def scores(rows: dict[str, Any]) -> Iterator[Float]:
        total: Any = 0.0
        for value in range(lower, upper + 1):
            with gradients.bind(rows, **{name: np.full_like(rows[name], value)}) as bound:
                log_lik, slopes = gradients.along(bound, gradients.psi)
            chance = np.exp(log_lik)
            total = total + chance
            yield slopes * np.sqrt(chance / len(gradients.psi))[:, :, None]
        off = np.abs(total - 1.0)
        if off.max() > _TOTAL:
            raise OptionError(
                f"the probabilities of {name} = {lower} … {upper} add up to "
                f"{np.ravel(total)[off.argmax()]:.6g}, since the program's log_lik leaves "
                "constants out: name the generated quantity that simulates it, as in "
                f'replicated={{"{name}": "…"}}'
            )

    return scores, f"summed over {name} = {lower} … {upper}"


def _simulated(
    session: Session,
    original: StanProgram,
    gradients: _Gradients,
    theta: Float,
    asked: Asked,
) -> tuple[_Scores, str]:
    """Scores with outcomes that the author's program simulates at the draws."""
    program, new = session.program, gradients.new
    require_variables_of_rows(asked.replicated, program.rows)
    left = [name for name in new.unknown if name not in asked.replicated]
    if left:
        raise OptionError(
            f"the outcome {left[0]!r} is unknown, and replicated is {dict(asked.replicated)}: "
            f"expected a generated quantity for {left[0]!r}, too"
        )
    if program.frozen:
        raise OptionError(
            f"the program computes {', '.join(sorted(program.frozen))} from all rows, so that it "
            "cannot simulate outcomes of others: give outcomes instead of replicated="
        )
    compiled = session.engine.compile(original.code, name=original.name)
    wanted = tuple(dict.fromkeys(asked.replicated.values()))

    def scores(rows: dict[str, Any]) -> Iterator[Float]:
        data = stan_rows(program, new.shared, rows)
        with bind_original(compiled, original, data, asked.seed) as bound:
            found = bound.generated(theta, wanted, asked.seed)
        for draw in range(len(theta)):
            outcomes = {
                name: _as_rows(found[made][draw], program.rows[name], rows[name], name)
                for name, made in asked.replicated.items()
            }
            with gradients.bind(rows, **outcomes) as bound:
                slopes = gradients.along(bound, gradients.psi[draw : draw + 1])[1]
            yield slopes / np.sqrt(len(theta))

    return scores, f"outcomes simulated by {', '.join(wanted)}"


def _as_rows(values: Float, axis: int, like: Any, name: str) -> Any:
    """A replicated outcome with the row as first axis, of the outcome's type."""
    moved = np.moveaxis(values, axis, 0) if values.ndim > axis else values
    if moved.shape != np.shape(like):
        raise DataError(
            f"the generated quantity that replicates {name!r} has shape {values.shape}, expected "
            f"that of {name!r}"
        )
    return moved.astype(np.asarray(like).dtype)


def _root(scores: Iterator[Float], draws: int) -> Float:
    """U_n with U_nᵀ U_n = Σ g gᵀ over a row's scores g, (n, r, d), r as small as can be.

    Few scores are turned by the eigenvectors of their inner products, (n, s, s); with more of them
    than coordinates, U_n is the root of the sum itself.
    """
    first = next(scores)
    blocks = itertools.chain([first], scores)
    if draws < first.shape[2]:
        every = np.concatenate(list(blocks), axis=1)
        values, vectors = np.linalg.eigh(every @ every.transpose(0, 2, 1))
        roots = vectors.transpose(0, 2, 1) @ every
    else:
        values, vectors = np.linalg.eigh(sum(g.transpose(0, 2, 1) @ g for g in blocks))
        roots = np.sqrt(np.maximum(values, 0.0))[:, :, None] * vectors.transpose(0, 2, 1)
    top = values.max(axis=0)
    return np.ascontiguousarray(roots[:, top >= _RANK * top.max()])


# Targets ----------------------------------------------------------------------------------


def _targets(posterior: Any, wanted: Sequence[str]) -> tuple[tuple[str, ...], Float]:
    """Names of the targets' elements, and their draws (S, q)."""
    if not wanted:
        return (), np.empty((0, 0))
    dataset = arviz.dataset_of(posterior)
    columns = dict(pair for name in wanted for pair in _elements(dataset, name))
    return tuple(columns), np.column_stack(list(columns.values()))


def _counts_from_zero(values: Any) -> bool:
    """Whether elements of a variable are labelled by their numbers."""
    labels = [values[dim].to_numpy() for dim in values.dims if dim not in ("chain", "draw")]
    return any(np.array_equal(own, np.arange(len(own))) for own in labels)


def _elements(dataset: Any, wanted: str) -> Iterator[tuple[str, Float]]:
    """The elements of a variable, or the one that ``beta[age]`` names, as tables name them.

    ``beta.1`` is the first element, as CmdStan's files name it.
    """
    numbered = re.fullmatch(r"(.+?)(\.\d+)+", wanted)
    name = wanted.partition("[")[0]
    if numbered is not None and numbered[1] in dataset:
        name = numbered[1]
    if name not in dataset:
        raise OptionError(
            f"target is {wanted!r}, which the posterior lacks; it has "
            f"{arviz.listing(map(str, dataset))} (model.generate_quantities adds larger ones)"
        )
    found = {label: draws.ravel() for label, draws in scalars(dataset, [name]).items()}
    if wanted == name:
        yield from found.items()
        return
    places = np.ndindex(dataset[name].shape[2:])
    labels = {
        ".".join([name, *(str(i + 1) for i in place)]): label
        for place, label in zip(places, found, strict=True)
    }
    label = labels.get(wanted, wanted)
    if label in found:
        yield label, found[label]
        return
    hint = ""
    if _counts_from_zero(dataset[name]):
        hint = f"; these count from zero, Stan's {name}[1] is {next(iter(found))} or {name}.1"
    raise OptionError(
        f"target is {wanted!r}, and the posterior's {name} has {arviz.listing(list(found))}{hint}"
    )
