"""Certificates: full and coreset density at draws of the coreset posterior and the references."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from stancoreset.engines import Float, StanData
from stancoreset.posterior import (
    LEAST_DRAWS,
    RHAT_MIXED,
    Certificate,
    Marginals,
    arviz,
    certify,
    leaves_no_doubt,
    marginals_of,
    moment_match,
    moved_by,
    too_many_divergences,
    too_short,
    unseen_mass,
    unvisited_mass,
    why_chains_disagree,
)
from stancoreset.program.draws import make_canonical, parameter_draws, take_spaced_draws
from stancoreset.program.group_sums import left_by_groups
from stancoreset.program.integrated import integrated_density
from stancoreset.program.session import Session
from stancoreset.reference import Reference
from stancoreset.rows import TOLERANCE
from stancoreset.rows.tables import StoredRows
from stancoreset.selection import Coreset

#: Largest number of draws that a certificate evaluates.
CERTIFIED_DRAWS = 1_000
# Numbers in gradients of the log weights: of ten thousand parameters at 500 draws, 40 MB.
_GRADIENTS = 5_000_000
# Fields of a certificate that describe chains and references; no map of the draws changes them.
_OF_THE_CHAINS = ("divergences", "n_transitions", "rhat", "unseen", "unvisited", "against")


class PreviousChains(NamedTuple):
    """Facts that later chains of the same rows learn from: a posterior, its ESS and its R̂."""

    posterior: Any
    ess_bulk: float
    rhat: float


@dataclass(frozen=True)
class Chains:
    """Draws of a coreset posterior with their own diagnostics, which need no row.

    `parameters` are draws of the program's own, by name, and `quantities` names of generated ones.
    """

    posterior: Any
    parameters: Mapping[str, np.ndarray] = field(repr=False)
    quantities: Collection[str] = ()

    @cached_property
    def monte_carlo(self) -> arviz.MonteCarlo:
        """The largest Monte-Carlo errors."""
        return arviz.worst_monte_carlo(self.parameters)

    @cached_property
    def diagnostics(self) -> Mapping[str, Any]:
        """Divergent transitions and R̂, see `nuts_diagnostics`."""
        return nuts_diagnostics(self.posterior, self.quantities)

    @cached_property
    def disagreement(self) -> str:
        """The cause if the chains disagree, in words; empty if they agree."""
        return why_chains_disagree(self.parameters) if self.disagree else ""

    @property
    def diverge(self) -> bool:
        """Whether too many transitions diverged for any certificate."""
        return too_many_divergences(**{k: v for k, v in self.diagnostics.items() if k != "rhat"})

    @property
    def disagree(self) -> bool:
        """Whether R̂ is too large for any certificate."""
        return self._rhat > RHAT_MIXED

    @property
    def _rhat(self) -> float:
        return float(self.diagnostics.get("rhat", np.nan))

    @property
    def longer(self) -> float:
        """Factor by which the chains must be longer for any certificate; 1 if that is useless."""
        return too_short(self.monte_carlo, **self.diagnostics)

    @property
    def known(self) -> PreviousChains:
        """Facts that later chains of these rows learn from: posterior, least ESS, largest R̂."""
        return PreviousChains(self.posterior, self.monte_carlo.ess_bulk, self._rhat)


@dataclass(frozen=True)
class Certifier:
    """Certificates of one coreset's posterior; without a coreset, of the reference's Gaussian.

    The draws of `references` are evaluated too: first the one at which rows were matched, then
    those of earlier rounds, because of their modes.
    """

    session: Session
    checked: StanData
    coreset: Coreset | None
    references: tuple[Reference, ...] = field(default=(), repr=False)

    def chains(self, posterior: Any) -> Chains:
        """Draws of the coreset posterior, with their diagnostics."""
        return Chains(posterior, self._parameters(posterior), self._quantities)

    def certificate(
        self,
        chains: Chains,
        count: int = CERTIFIED_DRAWS,
        *,
        staged: bool = False,
        tick: Callable[[int], object] | None = None,
    ) -> Certificate:
        """The certificate of chains of the coreset posterior.

        `count` draws are evaluated, evenly spaced; if `staged`, only a quarter of them if that
        leaves no doubt. `tick` is called with the number of draws evaluated since its last call.
        """
        density = self.session.witnessed(self.checked)
        draws, index = take_spaced_draws(self.session, self.checked, chains.posterior, count)
        approximate, log_p = np.empty(len(draws)), np.empty(len(draws))
        reference = self._at_the_reference()

        def look(at: np.ndarray) -> None:
            approximate[at] = self._log_density(draws[at])
            log_p[at] = density(draws[at], tick)

        def judge(at: np.ndarray, marginals: Marginals | None = None) -> Certificate:
            log_weights = log_p[at] - approximate[at]
            return certify(
                log_weights,
                self._heldout_error,
                index[at],
                unseen=float("nan") if reference is None else unseen_mass(log_weights, *reference),
                unvisited=self._unvisited(draws[at], log_p[at]),
                moved=moved_by(log_weights, draws[at]),
                against=self.session.against,
                witness=density.told,
                monte_carlo=chains.monte_carlo,
                marginals=marginals,
                disagreement=chains.disagreement,
                **chains.diagnostics,
            )

        # Their gradients cost three times as much as the densities: where these certify, a fit,
        # which is `staged`, and rows on disk, which would be read again, do without.
        only_if_needed = staged or isinstance(self.checked, StoredRows)

        def with_marginals(at: np.ndarray, certificate: Certificate) -> Certificate:
            if only_if_needed and certificate.verdict == "certified":
                return certificate
            found = self._marginals(draws[at], certificate, log_p[at])
            return certificate if found is None else judge(at, found)

        everything = np.ones(len(draws), dtype=bool)
        if staged and len(draws) >= count:
            first = np.arange(len(draws)) % 4 == 0
            look(first)
            certificate = judge(first)
            if leaves_no_doubt(certificate):
                return with_marginals(first, certificate)
            look(~first)
        else:
            look(everything)
        return with_marginals(everything, judge(everything))

    def matched(self, posterior: Any, certificate: Certificate) -> tuple[Float, Certificate] | None:
        """Move certified draws to the full posterior by affine maps, and certify them.

        None if their weights stay unusable, or if the draws have diverged or missed a part of the
        full posterior, which no map can repair.
        """
        if self.coreset is None and self.references[0].is_integrated:
            return None
        density = self.session.witnessed(self.checked)
        draws, _ = take_spaced_draws(self.session, self.checked, posterior, certificate.n_draws)
        proposal = self._log_density(draws)
        match = moment_match(draws, density, proposal, log_weights=certificate.log_weights)
        density.check(match.draws)  # the draws have moved
        matched = certify(
            match.log_weights,
            certificate.heldout_error,
            moved=moved_by(match.log_weights, match.draws),
            witness=density.told,
            monte_carlo=self._of_one_chain(match.draws),
            **{name: getattr(certificate, name) for name in _OF_THE_CHAINS},
        )
        return None if matched.verdict == "rejected" else (match.draws, matched)

    def _marginals(self, draws: Float, certificate: Certificate, log_p: Float) -> Marginals | None:
        """Marginals of many parameters in groups, by sums over these and by gradients.

        There are none if our evaluation of the gradients is not one of the log weights.
        """
        if self.coreset is None or not self.session.has_gradients:
            return None
        full = self.session.full_data(self.checked)
        blocks = full.blocks
        if blocks is None:
            return None
        some = slice(None, None, -(-draws.size // _GRADIENTS))
        draws, log_weights = draws[some], certificate.log_weights[some]
        value, gradient = full.log_density_gradient(draws)
        with self.session.bind(self.checked, self.coreset) as bound:
            own, along = bound.log_density_gradient(draws)
        if not _are_equal(value - own, log_weights, np.abs(log_p)):
            return None
        sums = left_by_groups(self.session, self.checked, self.coreset, draws)
        return marginals_of(log_weights, gradient - along, draws, blocks, full.param_names, sums)

    def _parameters(self, posterior: Any) -> Mapping[str, np.ndarray]:
        """Draws of the program's parameters, chain by chain."""
        return parameter_draws(self.session, self.session.full_data(self.checked).prior, posterior)

    @property
    def _quantities(self) -> set[str]:
        """Names of the author's generated quantities, which are no matter of sampling."""
        return {d.name for d in self.session.adopted.original.generated_quantities}

    def _of_one_chain(self, draws: Float) -> arviz.MonteCarlo:
        """Monte-Carlo errors of unconstrained draws in their order."""
        values = self.session.full_data(self.checked).prior.constrain(draws)
        return arviz.worst_monte_carlo(
            self._parameters({name: value[None] for name, value in values.items()})
        )

    def _log_density(self, draws: Float) -> Float:
        """Log density of the approximate posterior, up to a constant: (S, P) → (S,)."""
        if self.coreset is None and self.references[0].is_integrated:
            return integrated_density(self.session, self.checked, self.references[0], draws)
        if self.coreset is None:
            return self.references[0].gaussian.log_density(draws)
        with self.session.bind(self.checked, self.coreset) as bound:
            return bound.log_density(draws)

    @property
    def _heldout_error(self) -> float:
        """The coreset's, or what a Gaussian leaves of the log likelihood, relative to it."""
        if self.coreset is not None:
            return self.coreset.heldout_error
        return _relative_error(self.references[0])

    def _at_the_reference(self) -> tuple[Float, Float] | None:
        """Log density ratios and log importance weights of the draws that rows were matched at.

        See `unseen_mass`; None without a reference, and of one whose draws are the posterior's.
        """
        if not self.references or self.references[0].is_integrated:
            return None
        reference = self.references[0]
        ratio = reference.log_p - self._log_density(reference.draws)
        return ratio, np.zeros(len(ratio)) if reference.of_draws else _importance(reference)

    def _unvisited(self, draws: Float, log_p: Float) -> float:
        """The largest `unvisited_mass` by a reference that knows modes; NaN without any.

        Such references consist of draws, or are Gaussians with other modes found beside them.
        """
        shares = []
        for r in self.references:
            if r.of_draws:
                there = make_canonical(self.session, self.checked, r.draws)
                shares.append(unvisited_mass(draws, log_p, there, r.log_p, _importance(r)))
            if r.elsewhere is not None:  # modes, each of any height
                share = len(r.elsewhere) / (len(r.elsewhere) + len(r.draws))
                there = make_canonical(self.session, self.checked, r.elsewhere)
                shares.append(share * unvisited_mass(draws, log_p, there))
        return max(shares, default=float("nan"))


def _are_equal(ours: Float, theirs: Float, sizes: Float) -> bool:
    """Whether log weights, differences of numbers of such sizes, are the same up to a constant."""
    with np.errstate(invalid="ignore"):
        apart = ours - theirs
    return bool(np.ptp(apart) <= TOLERANCE * (1.0 + np.max(sizes)))  # false if one is not finite


def certificate_of_gaussian(reference: Reference) -> Certificate | None:
    """The certificate of a Gaussian reference's own draws, whose weights are known already.

    None if the reference is no Gaussian, knows other modes, or has too few draws.
    """
    few = len(reference.draws) < LEAST_DRAWS
    if reference.of_draws or reference.elsewhere is not None or few:
        return None
    ratio = _importance(reference)
    moved = moved_by(ratio, reference.draws)
    return certify(ratio, _relative_error(reference), moved=moved)


def _importance(reference: Reference) -> Float:
    """Log importance weights of a reference's draws; zero where its density is not known."""
    if reference.log_q is None:
        return np.zeros(len(reference.draws))
    return reference.log_p - reference.log_q


def _relative_error(reference: Reference) -> float:
    """Error of a Gaussian reference: sd of log importance weights over that of L."""
    return float(np.std(_importance(reference)) / np.std(reference.log_likelihood))


def nuts_diagnostics(posterior: Any, left_out: Collection[str] = ()) -> dict[str, Any]:
    """Divergent transitions, all transitions and the largest R̂, for a certificate.

    R̂ is that of all variables but those `left_out`. There are none if the draws came without
    sampler statistics.
    """
    diverging = arviz.sample_stats_of(posterior).get("diverging")
    if diverging is None:
        return {}
    return {
        "divergences": int(np.sum(diverging)),
        "n_transitions": int(np.size(diverging)),
        "rhat": arviz.worst_rhat(_as_two_chains(posterior, left_out)),
    }


def _as_two_chains(posterior: Any, left_out: Collection[str]) -> Mapping[str, np.ndarray]:
    """Draws; a single chain is split into halves, which must agree like chains."""
    found = arviz.variables_of(posterior)
    variables = {name: value for name, value in found.items() if name not in left_out}
    if any(len(value) > 1 for value in variables.values()):
        return variables
    half = min((value.shape[1] for value in variables.values()), default=0) // 2
    return {n: np.concatenate([v[:, :half], v[:, half : 2 * half]]) for n, v in variables.items()}
