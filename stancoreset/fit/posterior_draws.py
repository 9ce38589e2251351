"""Draws of the posterior itself as a reference, and as chains.

A value of the parameters that are weighted serves several draws, which follow each other: the
autocorrelation shows what they are worth.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines import NUTS, Float, StanData
from stancoreset.errors import ReferenceFitError
from stancoreset.policy import Policy
from stancoreset.posterior import KHAT_USABLE, too_short
from stancoreset.posterior.arviz import worst_monte_carlo
from stancoreset.program import Session, held_once
from stancoreset.reference import (
    Reference,
    WeightedDraws,
    finite_log_likelihood,
    in_use,
    reference_from_evaluated,
    require_usable,
)
from stancoreset.rows import FullData

#: Draws of the posterior for each that weighted values are worth at least.
SHARED = 4
#: Weighted values that are made, and evaluated at most, for each effective one that is wanted.
MOST = 6


def wanted_draws(nuts: NUTS, policy: Policy) -> int:
    """Least number of effective draws by weights, for the draws that are asked for."""
    return max(nuts.chains * nuts.draws // SHARED, policy.looked_at)


def require_worth(weighted: WeightedDraws, wanted: int, what: str) -> None:
    """Raise a `ReferenceFitError` unless weights can be trusted, and are worth so many draws."""
    if not (weighted.khat <= KHAT_USABLE and weighted.ess >= wanted):
        raise ReferenceFitError(
            f"importance weights of {what} have k̂ {weighted.khat:.2f} and an effective number of "
            f"{weighted.ess:.0f}, expected at most {KHAT_USABLE:g} and at least {wanted}"
        )


def reference_of_draws(
    session: Session,
    checked: StanData,
    full: FullData,
    rows: Float,
    count: int,
    method: str,
    seed: int,
    policy: Policy,
) -> tuple[Reference, NDArray[np.bool_]]:
    """The reference of draws (S, P) in the order of chains, and which of them it evaluates, (S,).

    Evenly spaced draws are evaluated on all rows: `count` of them, or `Policy.looked_at` if that is
    less, as far as `in_use` allows.
    """
    require_usable(rows, full.param_names, "draws of the posterior")
    some = in_use(min(count, policy.looked_at), len(rows))
    evaluated = _spaced(len(rows), some)
    here, whole = rows[evaluated], session.seen_data(checked)
    known = finite_log_likelihood(whole, session.seen(checked, here))
    known = known - held_once(session, checked, full, whole, here, known)
    in_order = np.concatenate([here, rows[~evaluated]])
    return reference_from_evaluated(full, in_order, known, method, seed), evaluated


def draws_of_reference(reference: Reference, nuts: NUTS) -> Float:
    """The draws of a reference of the posterior as chains, (chains, draws, P)."""
    assert reference.spare is not None
    count = len(reference.draws) + len(reference.spare)
    rows = np.empty((count, reference.draws.shape[1]))
    evaluated = _spaced(count, len(reference.draws))
    rows[evaluated], rows[~evaluated] = reference.draws, reference.spare
    return rows.reshape(nuts.chains, nuts.draws, -1)


def times_too_few(
    full: FullData, nuts: NUTS, rows: Float, policy: Policy, without: str = ""
) -> float:
    """Factor by which draws (S, P) must be worth more for any certificate; else 1.

    Those of a parameter that is named may be worth less.
    """
    values, shape = full.prior.constrain(rows), (nuts.chains, nuts.draws)
    # Other parts of a certificate's sum take a little too.
    margin = math.sqrt(policy.longer_margin)
    found = worst_monte_carlo(
        {k: v.reshape(*shape, *v.shape[1:]) for k, v in values.items() if k != without}
    )
    return too_short(found._replace(mean=margin * found.mean, sd=margin * found.sd))


def _spaced(count: int, some: int) -> NDArray[np.bool_]:
    """Evenly spaced ones of so many draws, (count,)."""
    chosen = np.zeros(count, dtype=bool)
    chosen[np.linspace(0, count - 1, some).round().astype(int)] = True
    return chosen
