"""The posterior with one parameter of each unit integrated out, and put back.

    p(h, u | y) ∝ π(h) exp ℓ(ψ(h)) p(u | ψ(h), y),

with ℓ the log likelihood without u. It equals the posterior's density itself but for the error of
integrals over a line, so that the author's program on all rows witnesses both.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines import BoundModel, Float, StanData
from stancoreset.errors import ReferenceFitError
from stancoreset.limits import NOISE
from stancoreset.program.session import Session
from stancoreset.program.without_rows import Psi, without_rows
from stancoreset.reference import (
    BY_IMPORTANCE,
    BY_UNIT,
    MOST_HYPERPARAMETERS,
    AdaptiveQuadrature,
    CommonQuadrature,
    DistinctOfUnits,
    IntegratedLikelihood,
    Reference,
    Units,
    find_distinct,
    find_units,
)
from stancoreset.rows import FullData
from stancoreset.rows.tables import StoredRows
from stancoreset.stan import variable_of

#: Draws at which the error of integrals is looked at.
REFINED_AT = 5
# A step of differences of ψ.
_SMALL = 1e-5


@dataclass(frozen=True)
class IntegratedPosterior:
    """Prior, ψ, and the likelihood as a function of ψ_h.

    Attributes
    ----------
    session : Session
        That of the author's program, or of the same with ψ that are its parameters.
    prior : BoundModel
    seen : callable
        ψ, unconstrained draws (S, P) → (S, p).
    likelihood : IntegratedLikelihood
    """

    session: Session = field(repr=False)
    prior: BoundModel
    seen: Psi = field(repr=False)
    likelihood: IntegratedLikelihood

    @property
    def name(self) -> str:
        """The parameter that is integrated out."""
        return self.likelihood.units.name

    @property
    def inner(self) -> NDArray[np.bool_]:
        """The coordinates u, (P,)."""
        return self.likelihood.units.inner

    def of_h(self, checked: StanData, seed: int) -> tuple[Session, StanData] | None:
        """The program whose parameters are h, and its data: u are those of the point.

        None if its density differs from π(h) at random points, or its rows see other variables.
        """
        likelihood = self.likelihood
        if not self.session.engine.capabilities.compiles_at_once:
            return None
        values = self.prior.constrain(likelihood.point[None])
        other = self.session.with_parameter_as_data(self.name)
        data = {**checked, self.name: values[self.name][0]}
        names = tuple(likelihood.rows.param_names[k] for k in likelihood.columns)
        if other.seen_names(data) != names:
            return None
        draws = np.tile(likelihood.point, (5, 1))
        draws[:, ~self.inner] = np.random.default_rng([seed, 151]).uniform(
            -1.0, 1.0, (len(draws), int(np.sum(~self.inner)))
        )
        known = likelihood.log_prior(draws)
        with without_rows(other, data) as (prior, _):
            apart = prior.log_density(draws[:, ~self.inner]) - known
        return (other, data) if np.ptp(apart) <= NOISE * np.abs(known).max(initial=1.0) else None

    def around(self, psi_h: Float) -> IntegratedPosterior:
        """This posterior with integrands evaluated where their mass is, given ψ_h (p_h,)."""
        return replace(self, likelihood=self.likelihood.around(psi_h))

    def refined(self, psi_h: Float) -> IntegratedPosterior:
        """This posterior with as many places as integrals need, at one ψ_h or at several."""
        return replace(self, likelihood=self.likelihood.refined(psi_h))

    def log_prior(self, psi_h: Float) -> tuple[float, Float]:
        """log π(h) at h = ψ_h (p_h,), up to a constant, and its gradient.

        Both are zero where the rows see functions of h, of which π is no function.
        """
        likelihood = self.likelihood
        if self.seen.name:
            return 0.0, np.zeros(len(psi_h))
        draws = likelihood.point[None].copy()
        draws[:, likelihood.columns] = psi_h
        return float(likelihood.log_prior(draws)[0]), likelihood.slope_of_log_prior(psi_h)

    def psi_h(self, draws: Float) -> Float:
        """ψ_h at unconstrained draws, (S, P) → (S, p_h)."""
        return self.seen(draws)[:, self.likelihood.columns]

    def with_h(self, of_h: Float) -> Float:
        """Unconstrained parameters with these h (S, P − J) and u = m, (S, P)."""
        rows = np.tile(self.likelihood.point, (len(of_h), 1))
        rows[:, ~self.inner] = of_h
        return rows

    def log_density_of_h(self, of_h: Float) -> tuple[float, Float]:
        """log π(h) + ℓ(ψ_h(h)) at one h (P − J,), up to a constant, and its gradient.

        Where the rows see functions of h, their derivatives are taken by differences.
        """
        likelihood, here = self.likelihood, self.with_h(of_h[None])
        psi_h = self.psi_h(here)[0]
        value, slope = likelihood.log_marginal(psi_h)
        value += float(likelihood.log_prior(here)[0])
        if not self.seen.name:
            return value, slope + likelihood.slope_of_log_prior(psi_h)
        step = _SMALL * np.eye(len(of_h))
        ahead, behind = np.split(self.psi_h(self.with_h(np.vstack([of_h + step, of_h - step]))), 2)
        along = self.prior.log_density_gradient(here)[1][0, ~self.inner]
        return value, along + (ahead - behind) @ slope / (2 * _SMALL)

    def drawn(
        self, of_h: Float, which: NDArray[np.intp], rng: np.random.Generator
    ) -> tuple[Float, Float]:
        """Draws (S, P) at some h (K, P − J), whose numbers ascend, and log densities (S,)."""
        rows, likelihood = self.with_h(of_h[which]), self.likelihood
        log_q = likelihood.log_prior(rows)
        numbers, first, repeats = np.unique(which, return_index=True, return_counts=True)
        seen = self.psi_h(self.with_h(of_h[numbers]))
        for psi_h, start, count in zip(seen, first, repeats, strict=True):
            given = likelihood.given(psi_h)
            away = given.draw(rng.random((count, likelihood.count)))
            here = slice(start, start + count)
            log_q[here] += given.log_marginal + given.log_density_at(away)
            rows[here, self.inner] += away
        return rows, log_q

    def log_density(self, draws: Float) -> Float:
        """Log density at unconstrained draws, up to a constant: (S, P) → (S,)."""
        likelihood, inner = self.likelihood, self.inner
        value = likelihood.log_prior(draws)
        for k, psi_h in enumerate(self.psi_h(draws)):
            given = likelihood.given(psi_h)
            away = draws[k, inner] - likelihood.point[inner]
            value[k] += given.log_marginal + given.log_density_at(away[None])[0]
        return value


@contextmanager
def integrated_posterior(
    session: Session, checked: StanData, seed: int
) -> Iterator[IntegratedPosterior]:
    """Find the units of a program, and bind what the integrals need.

    Raises
    ------
    ReferenceFitError
        If no parameter can be integrated out for each unit by itself.
    """
    with without_rows(session, checked) as (prior, seen):
        found = _found(session, checked, prior, seen, seed)
        if found is None:
            raise ReferenceFitError("no parameter can be integrated out for each unit by itself")
        sampled, seen, rows, units = found
        point = np.zeros(prior.n_params)
        psi = session.require_finite(checked, seen(point[None]))[0]
        about = {"rows": rows, "prior": prior, "units": units, "point": point, "psi": psi}
        with _distinct(sampled, checked, rows, units, seed) as distinct:
            likelihood: IntegratedLikelihood
            if distinct is None:
                sd = np.ones(len(units.columns))
                likelihood = AdaptiveQuadrature(**about, sd=sd)
            else:
                likelihood = CommonQuadrature(**about, distinct=distinct)
            yield IntegratedPosterior(sampled, prior, seen, likelihood)


def _found(
    session: Session, checked: StanData, prior: BoundModel, seen: Psi, seed: int
) -> tuple[Session, Psi, FullData, Units] | None:
    """The units, and the session, ψ and rows in whose coordinates they are units.

    Where rows see μ_j + σ u_j, the units are parameters beside μ and σ. All else that the rows see
    must then be parameters: products such as σ v_k are closer to Gaussian than σ and v_k.
    """
    rows = session.seen_data(checked)
    units = find_units(prior, seen, rows, seed, MOST_HYPERPARAMETERS)
    if units is not None:
        return session, seen, rows, units
    own = None if session.likelihood is session else session.in_parameters()
    if own is None:
        return None
    other, rows = Psi(prior, ""), session.full_data(checked)
    units = find_units(prior, other, rows, seed, MOST_HYPERPARAMETERS)
    if units is None:
        return None
    here, there = seen(np.stack([np.zeros(prior.n_params), units.inner.astype(float)]))
    declared = {d.name for d in session.program.program.parameters}
    computed = [variable_of(name) not in declared for name in session.seen_names(checked)]
    return (own, other, rows, units) if np.all((here != there)[computed]) else None


@contextmanager
def _distinct(
    session: Session, checked: StanData, rows: FullData, units: Units, seed: int
) -> Iterator[DistinctOfUnits | None]:
    """Rows that are equal but for their unit; None where there are none, or they are on disk."""
    other = session.likelihood
    there = units.gaussian and not isinstance(checked, StoredRows)
    compiled = other.with_weights_as_parameters() if there else None
    if compiled is None:
        yield None
        return
    found = find_distinct(other.program, checked, compiled.bind, rows, units, seed)
    try:
        yield found
    finally:
        if found is not None:
            found.bound.close()


def integrated_density(
    session: Session, checked: StanData, reference: Reference, draws: Float
) -> Float:
    """Log density from which a reference of the posterior was drawn, at draws, (S, P) → (S,)."""
    if reference.method in (BY_UNIT, BY_IMPORTANCE):  # the posterior's, whatever its weights' noise
        return session.full_data(checked).log_density(draws)
    with integrated_posterior(session, checked, reference.seed) as posterior:
        psi_h = posterior.psi_h(reference.draws)
        there = posterior.around(psi_h.mean(axis=0))
        return there.refined(psi_h[:REFINED_AT]).log_density(draws)
