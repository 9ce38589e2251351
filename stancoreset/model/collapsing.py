"""A reference without chains: turns of quadratic and collapsed sampler, until nothing moves.

    ψ* → quadratic of L at ψ* → collapsed draws of prior × quadratic → q₁ → quadratic at q₁ → …

ψ* is where the likelihood alone is highest, in the coordinates of what rows see: there no scale of
effects can go to zero. First turns read a subsample; its quadratic is then moved to all rows by one
gradient, and the last turn is made on all rows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines import BoundModel, Float, StanData
from stancoreset.errors import ReferenceFitError, StancoresetError
from stancoreset.model.session import Session
from stancoreset.model.view import COMPARED, of_psi, offset_of
from stancoreset.reference import (
    CollapsedDraws,
    PriorTimesQuadratic,
    Reference,
    ascend,
    find_bending,
    find_conditionally_gaussian,
    finite_log_likelihood,
    hessian_width,
    in_dimensions,
    in_use,
    of_evaluated,
    of_widths,
    require_usable,
    sample_collapsed,
    start_seed,
)
from stancoreset.rows import FullData, Hessians, is_sparse
from stancoreset.selection import PAIRS, Expansion

__all__ = ["COLLAPSED", "collapsed_reference"]

_log = logging.getLogger(__name__)

#: The method of references that consist of independent draws of prior × quadratic.
COLLAPSED = "settled"
# Rows of the subsample: at least, and for each parameter; a larger share of all rows saves nothing.
_LEAST_ROWS, _ROWS_PER_PARAMETER, _FEWER = 20_000, 30, 4
# Turns on the subsample and on all rows, and the largest move of a mean that is none, in sds.
_TURNS, _STILL = 6, 0.1
_ON_ALL = 4
# What the quadratic may leave of L at its draws, in nats: of the last turn, and for rows to mend.
_SPREAD, _FOR_ROWS = 0.3, 1.5
# Draws of a turn and of the reference, and those at which L is looked at.
_SEARCH, _DRAWS, _LOOKED_AT = 400, 1_200, 100
# Standard deviation of the ridge that holds a climb of the likelihood near its start.
_RIDGE = 3.0


@dataclass(frozen=True)
class _Turn:
    """Draws of prior times one quadratic, in the parameters and in ψ."""

    expansion: Expansion
    collapsed: CollapsedDraws
    psi: Float = field(repr=False)

    @property
    def draws(self) -> Float:
        return self.collapsed.draws


@dataclass(frozen=True)
class _Search:
    session: Session
    checked: StanData
    full: FullData = field(repr=False)
    seen: Callable[[Float], Float]
    bending: NDArray[np.bool_] = field(repr=False)
    seed: int

    def density(self, expansion: Expansion) -> PriorTimesQuadratic:
        """Prior × the quadratic of an expansion."""
        columns = expansion.columns

        def seen(draws: Float) -> Float:
            return self.seen(draws)[:, columns]

        return PriorTimesQuadratic(
            self.full.prior,
            seen,
            expansion.centre[columns],
            expansion.gradient,
            -expansion.hessian,
        )

    def turn(
        self, expansion: Expansion, before: _Turn | None, start: Float, number: int, *, final: bool
    ) -> _Turn:
        """Draw from prior × quadratic, near the draws of the turn before."""
        density = self.density(expansion)
        if before is None:
            point, width = start, _widths(density, start)
        else:
            point, width = before.draws.mean(axis=0), before.draws.std(axis=0)
            width = np.maximum(width, 1e-8)
        seed = start_seed(self.seed, 1)
        inner = find_conditionally_gaussian(density, self.bending, point, width, seed)
        _log.debug(
            "turn %d: not integrated out: %s", number, np.array(density.param_names)[~inner]
        )
        count = _DRAWS if final else _SEARCH
        collapsed = sample_collapsed(density, inner, point, width, count, seed, final=final)
        return _Turn(expansion, collapsed, self.seen(collapsed.draws))


def collapsed_reference(
    session: Session, checked: StanData, full: FullData, count: int, seed: int
) -> Reference:
    """Find a reference by turns of quadratic and collapsed sampler.

    Parameters
    ----------
    session : Session
    checked : mapping
        The full data.
    full : FullData
    count : int
        Least number of the reference's draws that are evaluated on all rows.
    seed : int

    Raises
    ------
    StancoresetError
        If no parameters are Gaussian given a few others, or the turns do not settle.
    """
    with _seen(session, checked) as seen:
        search = _Search(session, checked, full, seen, _bending(full.prior, seen, seed), seed)
        whole = session.seen_data(checked)
        turn, size = _on_subsample(search, whole)
        return _on_all(search, whole, turn, count, likely_last=size == whole.n_obs)


def _on_subsample(search: _Search, whole: FullData) -> tuple[_Turn, int]:
    size = max(_LEAST_ROWS, _ROWS_PER_PARAMETER * search.full.n_params)
    size = size if _FEWER * size <= whole.n_obs else whole.n_obs
    start = _prior_mode(search.full.prior, search.bending)
    with whole.sampled(size, np.random.default_rng(search.seed)) as few:
        expansion = _at(search, few, _likelihood_mode(few, search.seen(start[None])[0]))
        turn: _Turn | None = None
        for number in range(_TURNS):
            made = search.turn(expansion, turn, start, number, final=False)
            moved = np.inf if turn is None else _moved(turn, made)
            _log.debug("turn %d on %d rows: means moved by %.3g sds", number, size, moved)
            turn = made
            # A subsample's posterior is this many standard deviations from that of all rows.
            if moved <= max(_STILL, np.sqrt(whole.n_obs / size - 1)):
                break
            expansion = _projected(search, few, turn)
        return turn, size


def _on_all(
    search: _Search, whole: FullData, turn: _Turn, count: int, *, likely_last: bool
) -> Reference:
    """The reference, from turns on all rows."""
    for number in range(_ON_ALL):
        expansion = _projected(search, whole, turn)
        final = likely_last or number > 0
        made = search.turn(expansion, turn, turn.draws[0], 101 + number, final=final)
        if not final:
            turn = made
            continue
        looked_at = finite_log_likelihood(whole, made.psi[:_LOOKED_AT])
        here = of_psi(made.psi, looked_at, whole, search.seed)
        gap, moved = expansion.gap(here), _moved(turn, made)
        _log.debug("turn %d on all rows: moved by %.3g sds, gap %.3g", number, moved, gap)
        turn = made
        near = whole.n_params if whole.blocks is not None else 1
        if gap <= _SPREAD or (moved <= _STILL and gap <= in_dimensions(_FOR_ROWS, near)):
            break
    else:
        raise ReferenceFitError(
            f"the quadratic leaves {gap:.3g} of the log likelihood at its own draws, expected at "
            f"most {_FOR_ROWS:.3g}"
        )
    full, draws, known = search.full, turn.draws, here.log_likelihood
    require_usable(draws, full.param_names, "draws of prior times quadratic")
    more = turn.psi[len(known) : in_use(count, len(draws))]
    if len(more):
        known = np.concatenate([known, finite_log_likelihood(whole, more)])
    own = finite_log_likelihood(full, draws[:COMPARED])
    known = known - offset_of(known[:COMPARED], own, whole)
    return of_evaluated(full, draws, known, COLLAPSED, search.seed)


@contextmanager
def _seen(session: Session, checked: StanData) -> Iterator[Callable[[Float], Float]]:
    """ψ as a function of unconstrained draws, bound once."""
    if session.likelihood is session:
        yield lambda draws: draws
        return
    name = session.controlled.names["values"]
    with session.density().bind(session.no_rows_with_psi(checked)) as bound:
        yield lambda draws: bound.generated(draws, (name,))[name]


def _bending(
    prior: BoundModel, seen: Callable[[Float], Float], seed: int
) -> NDArray[np.bool_]:
    """Coordinates that bend prior × quadratic along others, (P,)."""
    none = np.zeros(seen(np.zeros((1, prior.n_params))).shape[1])
    bending = find_bending(PriorTimesQuadratic(prior, seen, none, none, np.diag(none)), seed)
    if bending.all():
        raise ReferenceFitError("no parameters are Gaussian given a few others")
    return bending


def _prior_mode(prior: BoundModel, held: NDArray[np.bool_]) -> Float:
    """Where the prior is high, with the scales of effects at one.

    Coordinates along which it rises without end stay at zero.
    """
    zero = np.zeros(prior.n_params)
    try:
        top = ascend(prior, zero, held)
    except StancoresetError:
        return zero
    return np.where(np.isfinite(top) & (np.abs(top) < 1e3), top, 0.0)


@dataclass(frozen=True)
class _Ridged:
    """The log likelihood less a weak ridge around a point."""

    rows: FullData
    centre: Float

    @property
    def n_params(self) -> int:
        return self.rows.n_params

    def log_density(self, draws: Float) -> Float:
        return self.log_density_gradient(draws)[0]

    def log_density_gradient(self, draws: Float) -> tuple[Float, Float]:
        value, slope = self.rows.log_density_gradient(draws)
        prior, own = self.rows.prior.log_density_gradient(draws)
        away = (draws - self.centre) / _RIDGE
        with np.errstate(invalid="ignore"):
            return value - prior - 0.5 * np.sum(away**2, axis=1), slope - own - away / _RIDGE


def _likelihood_mode(rows: FullData, start: Float) -> Float:
    """Where the likelihood is highest, near its start, in the coordinates of ψ."""
    return ascend(_Ridged(rows, start), start)


def _at(search: _Search, rows: FullData, psi: Float) -> Expansion:
    """Taylor's expansion of some rows' log likelihood at one value of ψ."""
    width = hessian_width(rows.hessian, psi)
    none = np.zeros(1)
    gaussian = of_widths(psi, width, rows.blocks)
    here = Reference("draws", psi[None], rows.param_names, search.seed, gaussian, none, none)
    return search.session.likelihood.expand(rows, here)


def _projected(search: _Search, rows: FullData, turn: _Turn) -> Expansion:
    """The quadratic of some rows' log likelihood under the Gaussian of a turn's draws."""
    likelihood = search.session.likelihood
    if not likelihood.no_series(rows):
        here = of_psi(turn.psi, np.zeros(len(turn.psi)), rows, search.seed)
        return likelihood.expand(rows, here, exact=True)
    looked_at = finite_log_likelihood(rows, turn.psi[:_LOOKED_AT])
    here = of_psi(turn.psi, looked_at, rows, search.seed)
    return likelihood.expand(rows, here, PAIRS, bent=True)


def _moved(before: _Turn, after: _Turn) -> float:
    """The largest move of a mean of ψ, in standard deviations."""
    sd = after.psi.std(axis=0)
    moved = np.abs(after.psi.mean(axis=0) - before.psi.mean(axis=0))
    return float(np.max(moved / np.where(sd > 0, sd, 1.0), initial=0.0))


def _widths(density: PriorTimesQuadratic, point: Float) -> Float:
    """Widths of prior × quadratic along each coordinate by itself."""
    hessian = Hessians(density.param_names)
    names = density.param_names
    step = np.ones(len(names))
    prior = hessian.at(density.prior.log_density_gradient, point, step)
    curvature = -prior.diagonal()
    # ψ moves by its own curvature's width along a coordinate that it is.
    from stancoreset.rows import Directions, dependencies

    generic = point + 0.5
    meets = dependencies(density.seen, generic, step, names)
    every = np.ones(len(names), dtype=bool)
    jacobian = Directions.of(meets, every, 1e-4 * step).forward(density.seen, generic[None])[1](0)
    bent = density.curvature @ jacobian
    rows = jacobian.multiply(bent) if is_sparse(bent) else jacobian.toarray() * bent
    curvature = curvature + np.asarray(rows.sum(axis=0)).ravel()
    with np.errstate(invalid="ignore", divide="ignore"):
        width = 1 / np.sqrt(curvature)
    return np.where(np.isfinite(width) & (width > 0), np.clip(width, 1e-8, 1.0), 1.0)
