"""The ways that a default fit may go, from its reference to its verdict.

    reference                    rows                      verdict
    collapsed sampler        ┐   quadratic only              ┐
    NUTS, prior × quadratic  ┼─▶ rows for each group         ┼─▶ weights | marginals
    Laplace fit              │   rows for all parameters     ┘
    unsettled reference      ┘
    all rows ──────────────────▶ all rows ─────────────────────▶ weights
    integrals ─────────────────▶ no rows ──────────────────────▶ weights

Draws are NUTS' on the coreset. Where the collapsed sampler found the quadratic, its independent
draws take their place if chains diverge, disagree or would have to be longer.

A Laplace fit is kept where its quadratic leaves so little that weights of all parameters judge it.
With a reference that did not settle, the certificate needs those weights as well. Integrals over
the parameters of each unit, by quadrature over one or weights for several, give draws of the
posterior itself, to which no rows belong: independent ones of the other parameters, or by HMC
where no quadratic comes near the integrals, or its draws do not reach their tails.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from stancoreset.posterior import Certificate
from stancoreset.reference import BY_HMC, ITERATED, Reference
from stancoreset.selection import QUADRATIC_ONLY, Coreset

ReferenceKind: TypeAlias = Literal[
    "collapsed sampler", "integrals", "NUTS", "Laplace fit", "unsettled reference", "all rows"
]
RowsKind: TypeAlias = Literal[
    "quadratic only", "rows for each group", "rows for all parameters", "all rows", "no rows"
]
VerdictKind: TypeAlias = Literal["weights", "marginals"]
SamplerKind: TypeAlias = Literal["NUTS", "HMC", "independent draws"]


@dataclass(frozen=True, order=True)
class Way:
    """How a fit found its reference and its rows, and by what it was judged.

    Attributes
    ----------
    reference : str
        How the draws were made at which the log likelihood is matched.
    rows : str
        What completes the quadratic.
    verdict : str
        What the certificate judges: importance weights of all parameters together, or the
        marginals of hundreds of them.
    sampler : str
        What made the draws, which is no way of its own.
    """

    reference: ReferenceKind | str
    rows: RowsKind
    verdict: VerdictKind
    sampler: SamplerKind = field(default="NUTS", compare=False)

    def __str__(self) -> str:
        return " → ".join((self.reference, self.rows, self.sampler, self.verdict))


def way_of(reference: Reference, coreset: Coreset | None, certificate: Certificate) -> Way:
    """Name the way of one round by its results; draws of a Gaussian have no coreset."""
    if reference.method == BY_HMC:
        sampler: SamplerKind = "HMC"
    else:
        sampler = "NUTS" if certificate.n_transitions else "independent draws"
    return Way(
        kind_of_reference(reference, coreset),
        kind_of_rows(coreset),
        "marginals" if certificate.by_marginals else "weights",
        sampler,
    )


def kind_of_reference(reference: Reference, coreset: Coreset | None = None) -> ReferenceKind | str:
    """Name how the draws were made at which the log likelihood is matched."""
    if coreset is not None and coreset.method == "all rows":
        return "all rows"
    if reference.method == ITERATED:
        return "collapsed sampler" if reference.is_collapsed else "NUTS"
    if reference.is_integrated:
        return "integrals"
    if reference.unsettled:
        return "unsettled reference"
    return "Laplace fit" if reference.method == "laplace" else reference.label


def kind_of_rows(coreset: Coreset | None) -> RowsKind:
    """Name what completes the quadratic."""
    if coreset is None:
        return "no rows"
    named: dict[str, RowsKind] = {
        "all rows": "all rows",
        QUADRATIC_ONLY: "quadratic only",
        "local": "rows for each group",
    }
    return named.get(coreset.method, "rows for all parameters")
