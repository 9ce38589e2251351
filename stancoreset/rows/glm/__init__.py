"""Generalised linear models without Stan: one matrix product for all draws.

May import stan, engines' types and the ground floor. Hands out `find_glm`, `GlmKernel` and the
rows' Fisher information.
"""

from __future__ import annotations

from stancoreset.rows.glm.fisher import GlmFisher, seen_by_glm
from stancoreset.rows.glm.kernel import GlmKernel
from stancoreset.rows.glm.predictor import GlmRows
from stancoreset.rows.glm.verify import GLM_ENOUGH, FoundGlm, find_glm, is_worth_finding, rows_of

__all__ = [
    "GLM_ENOUGH",
    "FoundGlm",
    "GlmFisher",
    "GlmKernel",
    "GlmRows",
    "find_glm",
    "is_worth_finding",
    "rows_of",
    "seen_by_glm",
]
