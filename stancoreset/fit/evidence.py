"""The evidence of a fit, by draws of its reference's Gaussian, with all constants of its program.

Engines drop what does not depend on the parameters from sampling statements, and matrix products
what does not depend on the draws. For the prior the difference is measured on the program without
rows; for rows it is known, and checked on a few of them.
"""

from __future__ import annotations

from stancoreset.engines import Compiled, Float, StanData
from stancoreset.errors import ReferenceFitError
from stancoreset.posterior import LEAST_DRAWS, Evidence, estimate_evidence
from stancoreset.program import Session
from stancoreset.reference import Reference, at_draws
from stancoreset.reference.expected import no_sums
from stancoreset.rows import FullData
from stancoreset.rows.glm import rows_of
from stancoreset.rows.tables import in_memory
from stancoreset.stan.syntax import printer
from stancoreset.stan.weave import with_constants

# Rows on which the constants are checked, and the largest relative difference.
_FEW, _TOLERANCE = 50, 1e-8


def evidence_of(
    session: Session, checked: StanData, full: FullData, reference: Reference
) -> Evidence | None:
    """The evidence by draws of a Gaussian: the reference, or the one with its mean and covariance.

    None if that reaches outside the support, there are too few draws, or a constant of the program
    is unknown.
    """
    if len(reference.draws) < LEAST_DRAWS:
        return None
    if reference.of_draws:
        count, seed = len(reference.draws), reference.seed
        try:
            reference = at_draws(reference.method, full, reference.gaussian, count, seed)
        except ReferenceFitError:
            return None
    assert reference.log_q is not None
    constant = _left_out(session, checked, full, reference.draws[:1])
    if constant is None:
        return None
    return estimate_evidence(reference.log_p - reference.log_q, constant)


def _left_out(session: Session, checked: StanData, full: FullData, point: Float) -> float | None:
    """Constant that the full log density omits, from one draw (1, P); None if it is unknown."""
    program = session.program
    tree, of_rows = with_constants(program.program.tree), _of_rows(full)
    if tree is None or of_rows is None:
        return None
    whole = session.evaluating.compile(printer.program(tree), name=program.program.name)
    none, few = session.no_rows(checked), program.subset(in_memory(checked), slice(0, _FEW))
    of_prior = _at(whole, none, point)
    expected = _at(whole, few, point) - of_prior
    if full.glm is None:
        found = _at(session.density(), few, point) - _at(session.density(), none, point)
    else:
        rows = full.glm.prepare(rows_of(program, few))
        value, _ = full.glm.evaluate("log_density", rows, point)
        found = float(value[0]) + full.glm.constant(rows)
    if not abs(found - expected) <= _TOLERANCE * (1 + abs(expected)):
        return None
    return of_prior - float(full.log_prior(point)[0]) + of_rows


def _of_rows(full: FullData) -> float | None:
    """Constant that sums over rows omit; 0 if none; None if only workers read the rows."""
    if full.glm is None or not full.glm.has_constant:
        return 0.0
    return None if no_sums(full) else sum(full.glm.constant(rows) for rows in full.glm_rows())


def _at(compiled: Compiled, data: StanData, point: Float) -> float:
    with compiled.bind(data) as bound:
        return float(bound.log_density(point)[0])
