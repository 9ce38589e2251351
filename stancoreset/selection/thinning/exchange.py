"""Draws of equal weight: one after another is exchanged for the draw that serves best."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stancoreset.limits import NOISE
from stancoreset.parallel import single_threaded


@single_threaded
def exchange(
    phi: NDArray[np.float32],
    target: NDArray[np.float64],
    chosen: NDArray[np.int64],
    worth: float = 0.01,
) -> NDArray[np.int64]:
    """Exchange the columns `chosen` (k,), which may repeat, while that brings Σ φ_n/k nearer to b.

    Without column j the residual is g = b − Σ_{i≠j} φ_i/k, and the best column in its place is

        argmin_n ‖g − φ_n/k‖² = argmin_n ‖φ_n‖²/k − 2 ⟨g, φ_n⟩,

    one product with Φ for each place. The error never rises.

    >>> phi = np.array([[0.0, 1.0, 2.0, 5.0]], dtype=np.float32)
    >>> exchange(phi, np.array([3.0]), np.array([0, 0])).tolist()
    [1, 3]
    """
    k, chosen = len(chosen), np.array(chosen, dtype=np.int64)
    lengths = np.einsum("fn,fn->n", phi, phi).astype(np.float64)
    least = NOISE * float(lengths.mean())
    residual = target - phi[:, chosen].astype(np.float64).mean(axis=1)
    before = np.inf
    while (error := float(np.linalg.norm(residual))) < (1.0 - worth) * before:
        before = error
        for place in range(k):
            without = residual + phi[:, chosen[place]].astype(np.float64) / k
            scores = lengths / k - 2.0 * (without.astype(np.float32) @ phi)
            best = int(np.argmin(scores))
            if scores[best] < scores[chosen[place]] - least:
                chosen[place] = best
                residual = without - phi[:, best].astype(np.float64) / k
    return np.sort(chosen)
