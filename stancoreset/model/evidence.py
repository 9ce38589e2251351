"""The evidence of a fit, by draws of its reference's Gaussian, with all constants of its program.

Engines drop what does not depend on the parameters from sampling statements, and matrix products
what does not depend on the draws. For the prior the difference is measured on the program without
rows; for rows it is known, and checked on a few of them.
"""

from __future__ import annotations

from stancoreset.engines import Compiled, Float, StanData
from stancoreset.errors import ReferenceFitError
from stancoreset.model.session import Session, in_memory
from stancoreset.posterior import Evidence, estimate_evidence
from stancoreset.reference import Reference, at_draws
from stancoreset.reference.expected import no_sums
from stancoreset.rows import FullData
from stancoreset.rows.glm import rows_of
from stancoreset.stan.syntax import printer
from stancoreset.stan.weave import with_constants

__all__ = ["evidence_of"]

# Rows on which the constants are checked, and the largest relative difference.
_FEW, _TOLERANCE = 50, 1e-8


def evidence_of(
    session: Session, checked: StanData, full: FullData, reference: Reference
) -> Evidence | None:
    """The evidence by draws of a Gaussian: the reference, or the one with its mean and covariance.

    None if that reaches outside the support, or a constant of the program is unknown.
    """
    if reference.log_q is None:
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
    """What the full log density leaves out, found at one draw (1, P); None if it is unknown."""
    program, sample = session.program, in_memory(checked)
    tree = with_constants(program.program.tree)
    if tree is None:
        return None
    whole = session.evaluating.compile(printer.program(tree), name=program.program.name)
    none, few = session.no_rows(checked), program.subset(sample, slice(0, _FEW))
    of_prior = _at(whole, none, point)
    expected = _at(whole, few, point) - of_prior
    glm = full.glm
    if glm is None:
        found = _at(session.density(), few, point) - _at(session.density(), none, point)
        of_rows = 0.0
    else:
        rows = glm.prepare(rows_of(program, few))
        found = float(glm.evaluate("log_density", rows, point)[0][0]) + glm.constant(rows)
        of_rows = 0.0
        if glm.has_constant:
            if no_sums(full):
                return None
            of_rows = sum(glm.constant(chunk) for chunk in full.glm_rows())
    if not abs(found - expected) <= _TOLERANCE * (1 + abs(expected)):
        return None
    return of_prior - float(full.log_prior(point)[0]) + of_rows


def _at(compiled: Compiled, data: StanData, point: Float) -> float:
    with compiled.bind(data) as bound:
        return float(bound.log_density(point)[0])
