"""Where the log likelihood is matched: draws from prior times quadratic, until they stand still.

The quadratic is best where the posterior is, and the posterior is known once the quadratic is:

    q₀ → quadratic of L at q₀ → NUTS on prior × quadratic → q₁ → quadratic of L at q₁ → …

NUTS reads no row here, and the prior is exact, its funnels included. What the quadratic leaves of
L at its own draws is their log importance weight, so a small spread shows that the draws are
draws of the full posterior.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace

import numpy as np

from stancoreset.engines import DENSE_DRAWS, DENSE_PARAMETERS, NUTS, Float, StanData, climb
from stancoreset.errors import ReferenceFitError, StancoresetError
from stancoreset.model.plan import HELDOUT_DRAWS
from stancoreset.model.session import Session
from stancoreset.model.view import of_psi, view_of
from stancoreset.posterior.arviz import worst_rhat
from stancoreset.reference import (
    GaussianFit,
    Reference,
    ends_of_climbs,
    evaluated,
    from_rows,
    hessian_width,
    moments,
    start_seed,
)
from stancoreset.rows import FullData
from stancoreset.selection import PAIRS, Expansion

__all__ = ["SETTLED", "Settling"]

_log = logging.getLogger(__name__)

#: The method of references that consist of draws from prior times quadratic.
SETTLED = "settled"

# NUTS runs of prior times quadratic.
_TURNS = 5
# Draws are those of the full posterior if their log importance weights have this spread.
_SPREAD = 0.3
# Or if the spread has stopped falling, and is not too large for rows to mend.
_STILL, _FOR_ROWS = 0.8, 1.5
# Above this spread the draws are not near the posterior.
_FAR = 5.0
# Largest R̂ of chains whose draws are used.
_MIXED = 1.2
# A Laplace fit whose quadratic leaves no more than this is left as it is.
_GOOD = 0.1
# Draws at which the spread is measured, of those that NUTS makes.
_LOOKED_AT = 100
_WARMUP, _SAMPLING = 300, 300
# Rough modes: rows and iterations of L-BFGS that bring chains near the posterior.
_LEAST_ROWS, _ROWS_PER_PARAMETER, _ITERATIONS = 5_000, 30, 150
# Gradient at which a whitened climb ends.
_SLOPE = 0.1


@dataclass(frozen=True)
class Settling:
    """The search for draws at which the log likelihood is matched.

    Attributes
    ----------
    session : Session
    checked : mapping
        The full data.
    full : FullData
    nuts : NUTS
        The user's options, of which the number of chains, their target acceptance and depth count.
    seed : int
    count : int
        Number of the reference's draws that are evaluated.
    more : bool
        Whether there may be more of them, for rows that complete the quadratic.
    """

    session: Session
    checked: StanData
    full: FullData = field(repr=False)
    nuts: NUTS
    seed: int
    count: int
    more: bool = True

    def from_rough_modes(self) -> Reference | None:
        """Settle on a subsample, from the ends of short optimisations, and then on all rows.

        None if the rows see the parameters themselves, where a Laplace fit costs little, or if the
        draws do not settle.
        """
        session = self.session
        if session.likelihood is session:
            return None
        try:
            whole = session.seen_data(self.checked)
            with whole.sampled(self._size, np.random.default_rng(self.seed)) as few:
                ends = self._rough_modes()
                expansion = self._around(few, session.seen(self.checked, ends[:1]))
                last = self._turns(few, expansion, ends)
            if last is not None and self._size < self.full.n_obs:
                here = self._here(whole, last.draws)
                expansion = session.likelihood.expand(whole, here, PAIRS)
                last = self._turns(whole, expansion, last.draws, near=last.draws)
            if last is None or self._has_other_modes(last.draws, ends):
                return None
            return self._reference(last)
        except StancoresetError as error:
            _log.info("rough modes do not settle: %s", error)
            return None

    def from_reference(self, reference: Reference) -> Reference:
        """Settle from a reference; the reference itself if it is good, or if that fails."""
        try:
            view = view_of(self.session, self.checked, self.full, reference)
            expansion = view.session.expand(view.full, view.reference)
            if view.reference is reference and expansion.gap(reference) <= _GOOD:
                return reference
            last = self._turns(view.full, expansion, reference.draws)
            if last is None:
                return reference
            return replace(self._reference(last), elsewhere=reference.elsewhere)
        except StancoresetError as error:
            _log.info("the quadratic does not settle: %s", error)
            return reference

    @property
    def _size(self) -> int:
        """Rows of the subsample."""
        wanted = max(_LEAST_ROWS, _ROWS_PER_PARAMETER * self.full.n_params)
        return min(self.full.n_obs, wanted)

    def _rough_modes(self) -> Float:
        """Ends of short optimisations on a subsample, the highest first, (chains, P)."""
        chains = self.nuts.chains
        with self.full.subsample(self._size, np.random.default_rng(self.seed)) as small:
            ends, message = ends_of_climbs(small, self.seed, chains, 2 * chains, _ITERATIONS)
        if not len(ends):
            raise ReferenceFitError(f"no rough mode was found: {message}")
        return ends

    def _around(self, few: FullData, psi: Float) -> Expansion:
        """Taylor's expansion of some rows' log likelihood at one value of ψ, (1, p)."""
        width = hessian_width(few.hessian, psi[0])
        gaussian, none = GaussianFit(psi[0], np.diag(width)), np.zeros(1)
        here = Reference("draws", psi, few.param_names, self.seed, gaussian, none, none)
        return self.session.likelihood.expand(few, here)

    def _here(self, full: FullData, draws: Float) -> Reference:
        """What the rows see of draws, the first of which are evaluated."""
        psi = self.session.seen(self.checked, draws)
        return of_psi(psi, evaluated(full, psi[:_LOOKED_AT])[1], full, self.seed)

    def _turns(
        self, full: FullData, expansion: Expansion, inits: Float, near: Float | None = None
    ) -> _Turn | None:
        """Draws from prior times quadratic, unconstrained, once they are draws of the posterior.

        Draws `near` them give NUTS its metric.
        """
        session, likelihood = self.session, self.session.likelihood
        chains, size = max(2, self.nuts.chains), inits.shape[1]  # R̂ of one chain says nothing
        inits = np.resize(inits, (chains, size))
        short, rough = self._options(chains, size)
        before, best = np.inf, None
        for turn in range(_TURNS):
            seed = start_seed(self.seed, full.n_obs + turn)
            control = likelihood.quadratic_alone(self.checked, full, expansion)
            options = rough if near is None else short
            found = session.sample_quadratic(self.checked, control, options, seed, inits, near)
            inits, rhat = found[:, -1], worst_rhat({"theta": found})
            near = np.random.default_rng([seed, turn]).permutation(np.concatenate(list(found)))
            here = self._here(full, near)
            gap = expansion.gap(here)
            _log.debug("turn %d, %d rows: gap %.3g, R̂ %.3g", turn, full.n_obs, gap, rhat)
            mixed = rhat <= _MIXED
            if mixed and (best is None or gap < best.gap):
                best = _Turn(near, gap)
            # A quadratic that leaves more than its draws can tell is for the rows to complete.
            stands = _STILL * before <= gap <= _FOR_ROWS
            if mixed and (gap <= _SPREAD or stands):
                break
            expansion, before = likelihood.expand(full, here, PAIRS), gap
            near = near if mixed else None
        # Rows and further rounds complete the best of them.
        return best if best is not None and best.gap <= _FAR else None

    def _options(self, chains: int, size: int) -> tuple[NUTS, NUTS]:
        """Options of short runs: with a metric from earlier draws, and without."""
        enough = -(-DENSE_DRAWS * size // chains) if size <= DENSE_PARAMETERS else 0
        short = NUTS(
            chains=chains,
            iter_sampling=max(_SAMPLING, enough),
            adapt_delta=self.nuts.adapt_delta,
            max_treedepth=self.nuts.max_treedepth,
            parallel_chains=self.nuts.parallel_chains,
        )
        return short, replace(short, iter_warmup=_WARMUP)

    def _has_other_modes(self, draws: Float, starts: Float) -> bool:
        """Whether climbs from the starts, whitened by the draws, end where rows see other values.

        Such an end counts if the full density is no lower there than at the draws. Ends may differ
        in funnels of scales and raw effects, whose product the rows see as one.
        """
        full, gaussian = self.full, moments(draws)
        with full.subsample(self._size, np.random.default_rng(self.seed)) as small:
            density = gaussian.whitened(small.log_density_gradient)
            away = np.linalg.solve(gaussian.chol, (starts - gaussian.mean).T).T
            tops = [climb(density, z, slope=_SLOPE, max_iter=_ITERATIONS).theta for z in away]
        ends = gaussian.mean + np.array(tops) @ gaussian.chol.T
        psi, there = (self.session.seen(self.checked, some) for some in (draws, ends))
        low, high = psi.min(axis=0), psi.max(axis=0)
        # Modes of a subsample lie √(N/n) times as far from the posterior's.
        margin = 0.5 * (high - low) * np.sqrt(full.n_obs / self._size)
        outside = np.any((there < low - margin) | (there > high + margin), axis=1)
        plausible = full.log_density(ends) >= np.min(full.log_density(draws[:_LOOKED_AT]))
        return bool(np.any(outside & plausible))

    def _reference(self, last: _Turn) -> Reference:
        """A reference of the last turn's draws."""
        count = self.count
        if self.more and last.gap > _GOOD:
            count = max(count, len(last.draws) - HELDOUT_DRAWS)
        return from_rows(self.full, last.draws, SETTLED, count, self.seed)


@dataclass(frozen=True)
class _Turn:
    """Draws from prior times quadratic, and what the quadratic leaves of L at them."""

    draws: Float
    gap: float
