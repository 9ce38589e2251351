"""Generalised linear models without Stan: a matrix product for all draws at once."""

from __future__ import annotations

from stancoreset.glm.kernel import GlmKernel
from stancoreset.glm.verify import FoundGlm, find_glm, rows_of

__all__ = ["FoundGlm", "GlmKernel", "find_glm", "rows_of"]
