"""Coresets of parts become one: for data that arrive in pieces (merge and reduce).

With L = Σ_i L_i over the parts i, and a coreset of each, L_i ≈ L̂_i = Σ_n w_n L_n + q_i (q_i its
control variate, if it has one), the union of the coresets stands for all the data. Its error
is a sum of vectors, so that by Minkowski's inequality, in any one reference,

    ‖L − Σ L̂_i‖ ≤ Σ_i ‖L_i − L̂_i‖ = Σ_i ε_i ‖L_i‖                                           (1)

with ‖·‖ the standard deviation over the reference and ε_i the relative error of part i. The
quadratics add exactly. A second selection, from the union down to k rows, adds its own error:

    ‖L − L̂‖ ≤ ‖Σ L̂_i − L̂‖ + Σ_i ε_i ‖L_i‖,      ‖L‖ ≥ ‖Σ L̂_i‖ − Σ_i ε_i ‖L_i‖              (2)

The parts' errors are known under the parts' own posteriors. These are wider than the posterior
of all data, which they cover as long as the parts are alike; where they are not, only the full
data can tell, and as long as the parts' data are at hand they are asked: error and certificate
are then measured like any other, one part in memory at a time.

References
----------
Merge and reduce: Bentley & Saxe (1980), Journal of Algorithms 1; of Hilbert coresets: Campbell
& Broderick (2019), JMLR 20(15), whose bound for data on several machines is (1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stancoreset import arviz_compat
from stancoreset.certificate import Certificate, certify
from stancoreset.control_variate import ControlVariate
from stancoreset.coreset import Coreset
from stancoreset.engines.base import Float, StanData
from stancoreset.errors import DataError, OptionError
from stancoreset.fit import CoresetFit
from stancoreset.pipeline import CERTIFIED_DRAWS, HELDOUT_DRAWS, Pipeline, Plan
from stancoreset.run_folder import RunFolder
from stancoreset.session import Session
from stancoreset.stages import Stages
from stancoreset.stan.program import WeightedProgram

if TYPE_CHECKING:
    from stancoreset.workflow import CoresetModel

__all__ = ["keep_rows", "merge", "merge_parts"]


def merge(coresets: Sequence[Coreset]) -> Coreset:
    """The union of the coresets of several parts, for the parts' data laid end to end.

    Parameters
    ----------
    coresets : sequence of Coreset
        One for each part, in the order of the parts, selected with the same Stan program.

    Returns
    -------
    Coreset
        ``indices`` count from the first row of the first part; weights are kept; control
        variates are added. Its errors are the bound (1) of `stancoreset.merging` in units of
        the smallest ‖L_i‖: Σ_i ε_i where they are all alike, as they become with many data
        (half a χ² variable with D degrees of freedom each: ‖L_i‖ → √(D/2)). To reduce the
        union to fewer rows, and to certify it, use `CoresetModel.merge`.

    Raises
    ------
    OptionError
        No coresets, or coresets of different programs.

    Examples
    --------
    >>> a = Coreset(np.array([1, 4]), np.array([2.0, 3.0]), 5, "pursuit", 0.01, 0.02)
    >>> b = Coreset(np.array([0]), np.array([4.0]), 4, "pursuit", 0.01, 0.03)
    >>> both = merge([a, b])
    >>> both.indices.tolist(), both.n_obs, round(both.heldout_error, 3)
    ([1, 4, 5], 9, 0.05)
    """
    coresets = list(coresets)
    _require_alike(coresets)
    starts = np.cumsum([0, *(c.n_obs for c in coresets)])
    parts = zip(coresets, starts, strict=False)
    norms = _norms(coresets)
    unit = float(norms.min())
    return replace(
        coresets[0],
        indices=np.concatenate([c.indices + start for c, start in parts]),
        weights=np.concatenate([c.weights for c in coresets]),
        n_obs=int(starts[-1]),
        method="merge" if len(coresets) > 1 else coresets[0].method,
        relative_error=float(norms @ [c.relative_error for c in coresets]) / unit,
        heldout_error=float(norms @ [c.heldout_error for c in coresets]) / unit,
        norm=unit if all(c.norm is not None for c in coresets) else None,
        trace=coresets[0].trace if len(coresets) == 1 else (),
        provenance=_provenance(coresets),
        control=_sum_of_controls([(c.control, c.n_obs) for c in coresets]),
    )


def keep_rows(model: CoresetModel, data: Any, fit: CoresetFit) -> CoresetFit:
    """The fit together with its coreset's rows, so that the full data may go.

    Parameters
    ----------
    model : CoresetModel
    data : mapping or path
        The full data that the fit is of.
    fit : CoresetFit

    Returns
    -------
    CoresetFit
        With ``fit.data``; ``save`` writes it along.
    """
    return replace(fit, data=model._session.rows(model.read(data), fit.coreset))


def merge_parts(
    model: CoresetModel,
    parts: Sequence[Any],
    *,
    size: int = 200,
    method: str = "pursuit",
    control_variate: bool = True,
    seed: int = 0,
    chains: int = 4,
    iter_warmup: int = 1000,
    iter_sampling: int = 1000,
    adapt_delta: float = 0.8,
    max_treedepth: int = 10,
    output_dir: str | Path | None = None,
    overwrite: bool = False,
    show_progress: bool | None = None,
    stages: Stages | None = None,
    **options: Any,
) -> CoresetFit:
    """Join the coresets of parts and select anew: merge and reduce.

    Parameters
    ----------
    model : CoresetModel
        That the parts were fitted with.
    parts : sequence
        One for each part, in order: ``(data, coreset)`` or ``(data, fit)``, where `data` are
        the part's full data or, if they are gone, the coreset's rows alone; or a fit that has
        kept its rows (`CoresetModel.keep`, or a fit that was merged itself).
    size : int
        At most this many rows, k.
    method, control_variate, seed, chains, iter_warmup, iter_sampling, adapt_delta, max_treedepth
        See `CoresetModel.fit`.
    output_dir : path, optional
        Where the fit is saved, with the data of its rows.
    overwrite : bool
        Replace an earlier run of ours in `output_dir`.
    show_progress, stages
        See `CoresetModel.fit`.
    **options
        Passed to the selection algorithm.

    Returns
    -------
    CoresetFit
        Its coreset counts rows from the first row of the first part. If every part's full
        data are given, held-out error and certificate are measured on all of them. If not,
        the certificate compares with the union of the parts' coresets, the held-out error is
        the bound (2) of `stancoreset.merging`, and ``certificate.reasons`` and
        ``provenance["certified_against"]`` say so. ``fit.data`` holds the rows, so that the
        fit may be merged again.

    Raises
    ------
    DataError
        Data that are neither the part's nor its coreset's, or parts whose other data differ.
    OptionError
        No parts, or coresets of different programs.

    Examples
    --------
    >>> import stancoreset as sc
    >>> model = sc.CoresetModel("model.stan")                                 # doctest: +SKIP
    >>> fits = [model.keep(day, model.fit(day, size=100)) for day in days]    # doctest: +SKIP
    >>> week = model.merge(fits, size=100)                                    # doctest: +SKIP
    """
    stages = stages or Stages(show_progress)
    with stages("read data"):
        read = [_read(model, part, number) for number, part in enumerate(parts, 1)]
        union = merge([part.coreset for part in read])
        _require_program(model, union)
        rows = _union_rows(model.program, read)
    plan = Plan(
        size=min(size, union.size),
        method=method,
        reference="laplace",
        projection=None,
        control_variate=control_variate,
        draws=None,
        candidates=union.size,
        seed=seed,
        sampler={
            "chains": chains,
            "iter_warmup": iter_warmup,
            "iter_sampling": iter_sampling,
            "adapt_delta": adapt_delta,
            "max_treedepth": max_treedepth,
        },
        options=options,
    )
    plan.require(union.n_obs)
    session = _UnionSession(model._session, union.control)
    checked = {**rows, **session.base_data()}
    settings = {**plan.settings(), "size": size, "parts": len(read)}
    provenance = {**session.provenance(rows, settings), "n_obs": union.n_obs}
    with stages("compile"):
        session.compile()
    reduced = Pipeline(session, checked, plan, stages, RunFolder(None, {}), provenance).run()
    whole = all(part.full for part in read)
    provenance |= {"certified_against": _caveat(union, len(read), whole)}
    judge = _Judge(model._session, session, checked, reduced, read, union)
    with stages("certify", total=CERTIFIED_DRAWS + HELDOUT_DRAWS):
        coreset, certificate = judge.on_all_data() if whole else judge.on_the_union()
    if not whole:
        certificate = replace(
            certificate, reasons=(*certificate.reasons, provenance["certified_against"])
        )
    data = session.rows(checked, reduced.coreset)
    coreset = replace(
        coreset, indices=union.indices[coreset.indices], n_obs=union.n_obs, provenance=provenance
    )
    fit = replace(
        reduced,
        coreset=coreset,
        certificate=certificate,
        posterior=_with_rows(reduced.posterior, coreset),
        data=data,
        settings=settings,
        provenance=provenance,
        timings=stages.seconds,
    )
    if output_dir is not None:
        fit.save(output_dir, overwrite=overwrite)
    return fit


# Parts -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Part:
    """One part: checked data of all its rows, or of the coreset's rows only."""

    coreset: Coreset
    data: StanData = field(repr=False)
    full: bool


def _read(model: CoresetModel, part: Any, number: int) -> _Part:
    data, coreset = part if isinstance(part, tuple) and len(part) == 2 else (None, part)
    if isinstance(coreset, CoresetFit):
        data = coreset.data if data is None else data
        coreset = coreset.coreset
    if not isinstance(coreset, Coreset) or data is None:
        raise OptionError(
            f"part {number} is {_kind(part)}; expected (data, coreset), (data, fit), or a fit that "
            "has kept its rows: model.keep(data, fit)"
        )
    try:
        checked = model.read(data)
    except DataError as error:
        raise DataError(f"part {number}: {error}") from None
    count = model.program.n_obs(checked)
    if count not in (coreset.n_obs, coreset.size):
        raise DataError(
            f"part {number} has {count} rows of data, but its coreset was selected from "
            f"{coreset.n_obs} rows and has {coreset.size}: expected the data of either"
        )
    frozen = sorted(model.program.frozen)
    if frozen:
        raise DataError(
            f"the program computes {', '.join(frozen[:3])} from all rows of the data it is given, "
            "so that the rows of one part mean something else in another: compute it once for all "
            "parts and pass it as data"
        )
    return _Part(coreset, checked, count == coreset.n_obs)


def _kind(part: Any) -> str:
    if isinstance(part, CoresetFit):
        return "a fit without its rows"
    return f"a {type(part).__name__}"


def _union_rows(program: WeightedProgram, parts: Sequence[_Part]) -> dict[str, Any]:
    """The rows of all coresets as one weighted data set."""
    cuts = [
        program.subset(
            part.data,
            part.coreset.indices if part.full else slice(None),
            part.coreset.weights,
        )
        for part in parts
    ]
    row_wise = {**program.rows, program.weights: 0}
    rows: dict[str, Any] = {}
    for decl in program.program.data:
        name = decl.name
        values = [np.asarray(cut[name]) for cut in cuts]
        if name == program.obs:
            rows[name] = sum(int(value) for value in values)
        elif name in row_wise and values[0].size:
            rows[name] = np.concatenate(values, axis=row_wise[name])
        else:
            for number, value in enumerate(values[1:], 2):
                if not np.array_equal(value, values[0]):
                    raise DataError(
                        f"'{name}' is {_shown(values[0])} in part 1 and {_shown(value)} in part "
                        f"{number}: what is not a row must be the same in all parts"
                    )
            rows[name] = cuts[0][name]
    return rows


def _shown(value: np.ndarray) -> str:
    return str(value.item()) if value.size == 1 else f"an array of shape {value.shape}"


def _require_alike(coresets: Sequence[Coreset]) -> None:
    if not coresets:
        raise OptionError("there is nothing to merge: give at least one coreset")
    for number, coreset in enumerate(coresets, 1):
        if not isinstance(coreset, Coreset):
            raise OptionError(f"part {number} is a {type(coreset).__name__}, expected a Coreset")
        first = coresets[0]
        for what, one, two in (
            ("observations", first.obs, coreset.obs),
            ("rows", dict(first.rows), dict(coreset.rows)),
            ("program", *(c.provenance.get("program_hash") for c in (first, coreset))),
        ):
            if one != two and one is not None and two is not None:
                names = [c.provenance.get("program", "unknown") for c in (first, coreset)]
                raise OptionError(
                    f"parts 1 and {number} come from different programs ({names[0]!r} and "
                    f"{names[1]!r}): {what} differ ({one} and {two}); fit all parts with one"
                )


def _require_program(model: CoresetModel, union: Coreset) -> None:
    if union.rows and dict(union.rows) != dict(model.program.rows):
        raise OptionError(
            f"the coresets were not selected with {model.program.program.name!r}: their rows are "
            f"{', '.join(union.rows)}, the program's {', '.join(model.program.rows)}"
        )
    hashes = (union.provenance.get("program_hash"), _program_hash(model))
    if None not in hashes and hashes[0] != hashes[1]:
        raise OptionError(
            f"the coresets were selected with another program than {model.program.program.name!r}"
            f" ({union.provenance.get('program', 'unknown')!r}, or an earlier version); fit the "
            "parts again with this one"
        )


def _program_hash(model: CoresetModel) -> str:
    from stancoreset.files import content_key

    return content_key(model.program.code)


def _provenance(coresets: Sequence[Coreset]) -> dict[str, Any]:
    """What the parts have in common."""
    first = dict(coresets[0].provenance)
    if len(coresets) == 1:
        return first
    same = {
        key: value
        for key, value in first.items()
        if all(c.provenance.get(key) == value for c in coresets)
    }
    return {**same, "parts": len(coresets), "n_obs": sum(c.n_obs for c in coresets)}


def _norms(coresets: Sequence[Coreset]) -> Float:
    """‖L_i‖; where it is not known, that of the others, or one."""
    known = [c.norm for c in coresets if c.norm is not None]
    usual = float(np.median(known)) if known else 1.0
    return np.array([usual if c.norm is None else c.norm for c in coresets])


# Quadratics --------------------------------------------------------------------------------


def _sum_of_controls(
    controls: Sequence[tuple[ControlVariate | None, float]],
) -> ControlVariate | None:
    """Σ q_i as one quadratic around the weighted mean of the centres: exact but for a constant.

    gᵀ(ψ − c) − ½ (ψ − c)ᵀ R (ψ − c) around c′ has g′ = g − R (c′ − c), and the same R.
    """
    present = [(control, weight) for control, weight in controls if control is not None]
    if not present:
        return None
    first = present[0][0]
    for control, _ in present[1:]:
        if control.param_names != first.param_names:
            raise OptionError(
                f"the control variates of the parts belong to different parameters: "
                f"{len(first.param_names)} coordinates and {len(control.param_names)}; fit all "
                "parts with one program and the same groups"
            )
    if len(present) == 1:
        return first
    weights = np.array([weight for _, weight in present], dtype=np.float64)
    centres = np.array([control.centre for control, _ in present])
    centre = weights @ centres / weights.sum()
    gradient = np.zeros_like(first.gradient)
    curvature = np.zeros_like(first.curvature)
    for control, _ in present:
        shift = centre[first.columns] - control.centre[first.columns]
        gradient += control.gradient - control.curvature @ shift
        curvature += control.curvature
    return replace(
        first,
        centre=centre,
        gradient=gradient,
        curvature=curvature,
        least_eigenvalue=min(control.least_eigenvalue for control, _ in present),
        share=min(control.share for control, _ in present),
    )


class _UnionSession(Session):
    """A session whose density has the parts' quadratics besides the prior, as exact as it."""

    def __init__(self, session: Session, base: ControlVariate | None) -> None:
        super().__init__(session.program, session.engine, session.threads, session.glm)
        self._compiled = session._compiled
        self._base = base

    def base_data(self) -> StanData:
        """The parts' quadratics as data."""
        return {} if self._base is None else super().control_data(self._base)

    def control_data(self, control: ControlVariate) -> StanData:
        """A further quadratic, and the parts'."""
        return super().control_data(self.completed(control))

    def completed(self, control: ControlVariate) -> ControlVariate:
        """The sum of a further quadratic and the parts'."""
        total = _sum_of_controls([(control, 1.0), (self._base, 0.0)])
        assert total is not None
        return total

    def whole(self, coreset: Coreset) -> Coreset:
        """A coreset that was selected here, with every quadratic."""
        if self._base is None:
            return coreset
        control = self._base if coreset.control is None else self.completed(coreset.control)
        return replace(coreset, control=control)


# Judgement ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Judge:
    """Measures error and certificate of a coreset that was selected from a union."""

    session: Session
    union_session: _UnionSession
    checked: StanData
    fit: CoresetFit
    parts: Sequence[_Part]
    union: Coreset

    def on_all_data(self) -> tuple[Coreset, Certificate]:
        """As for any fit, the parts one after another."""
        theta, index = self._draws()
        unseen = self.fit.reference.more(HELDOUT_DRAWS, stream=0)
        both = np.concatenate([theta, unseen])
        target = self._sum_over_parts(lambda full: full.log_likelihood(both))
        gap = target - self._approximation(both)
        count = len(theta)
        norm = float(np.std(target[count:]))
        error = float(np.std(gap[count:])) / norm
        coreset = replace(self._whole(), heldout_error=error, norm=norm)
        return coreset, certify(gap[:count], error, index)

    def on_the_union(self) -> tuple[Coreset, Certificate]:
        """Against the parts' coresets; the error is the bound (2)."""
        unseen = self.fit.reference.more(HELDOUT_DRAWS, stream=0)
        full = self.union_session.full_data(self.checked)
        target = full.log_likelihood(unseen)
        if self.union.control is not None:
            target = target + self.union.control.value(unseen)
        # Neither has the prior, so that they may be compared.
        own = float(np.std(target - self._approximation(unseen)))
        size = float(np.std(target))
        coresets = [part.coreset for part in self.parts]
        norms = [size if c.norm is None else c.norm for c in coresets]
        before = float(np.dot(norms, [c.heldout_error for c in coresets]))
        error = (own + before) / (size - before) if before < size else np.inf
        certificate = self.fit.certificate
        coreset = replace(self._whole(), heldout_error=error, norm=size)
        return coreset, certify(certificate.log_weights, error, certificate.draw_index)

    def _whole(self) -> Coreset:
        return self.union_session.whole(self.fit.coreset)

    def _draws(self) -> tuple[Float, np.ndarray]:
        return self.union_session.unconstrained(self.checked, self.fit.posterior, CERTIFIED_DRAWS)

    def _approximation(self, draws: Float) -> Float:
        """Σ w_n L_n + q of the coreset: all but the prior."""
        session = self.union_session
        rows = session.rows(self.checked, self.fit.coreset)
        bare = {k: v for k, v in self.checked.items() if k not in session.controlled.names.values()}
        with (
            session.density().bind(rows) as bound,
            session.density().bind(session.program.prior_data(bare)) as prior,
        ):
            return bound.log_density(draws) - prior.log_density(draws)

    def _sum_over_parts(self, evaluate: Callable[[Any], Float]) -> Float:
        total: Any = 0.0
        for part in self.parts:
            total = total + evaluate(self.session.full_data(part.data))
        return np.asarray(total)


def _caveat(union: Coreset, parts: int, whole: bool) -> str:
    if whole:
        return f"all {union.n_obs} rows of {parts} parts"
    return (
        f"the union of {parts} coresets ({union.size} rows), not all {union.n_obs} rows, which are "
        "not at hand: the parts' own errors are in the held-out error as a bound, valid as far as "
        "the parts' posteriors cover that of all data"
    )


def _with_rows(posterior: Any, coreset: Coreset) -> Any:
    """The container's own record of its rows, counted through all parts.

    It shares memory with the indices of the coreset within the union, which end here.
    """
    record = arviz_compat.groups_of(posterior)["constant_data"]["coreset_row"]
    record.values[...] = coreset.indices
    return posterior
