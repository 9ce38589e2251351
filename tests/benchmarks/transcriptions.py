"""Published pseudo-code, written down line by line: what the package's solvers are timed against.

Dense vectors, every product with all of Φ, no shortcuts, and steps as printed. The authors' own
code is not used.
"""

from __future__ import annotations

import numpy as np
import scipy.optimize


def aiht2(phi, y, k, max_iter=300, rtol=1e-5):
    """Zhang et al. (2021), Algorithm 3, with the step sizes and the momentum it prints."""
    m = phi.shape[1]

    def grad(w):
        return -2.0 * phi.T @ (y - phi @ w)

    def top(v, count):
        out = np.zeros(m)
        chosen = np.argsort(v)[::-1][:count]
        out[chosen] = v[chosen]
        return out

    z, w = np.zeros(m), np.zeros(m)
    for _ in range(max_iter):
        gradient = grad(z)
        support_z = z != 0
        expanded = (top(np.where(support_z, 0.0, np.abs(gradient)), k) != 0) | support_z
        restricted = np.where(expanded, gradient, 0.0)
        mu = restricted @ restricted / (2.0 * np.sum((phi @ restricted) ** 2))
        x = top(np.maximum(z - mu * gradient, 0.0), k)
        restricted = np.where(x != 0, grad(x), 0.0)
        mu = restricted @ restricted / (2.0 * np.sum((phi @ restricted) ** 2))
        new = np.maximum(x - mu * restricted, 0.0)
        difference = phi @ (new - w)
        tau = (y - phi @ new) @ difference / (2.0 * difference @ difference)
        z = new + tau * (new - w)
        stop = np.linalg.norm(new - w) <= rtol * np.linalg.norm(new)
        w = new
        if stop:
            break
    indices = np.flatnonzero(w)
    return indices, w[indices]


def giga(phi, target, size):
    """Campbell & Broderick (2018), Algorithm 1."""
    norms = np.linalg.norm(phi, axis=0)
    ell_n = phi / norms
    ell = target / np.linalg.norm(target)
    w = np.zeros(phi.shape[1])
    for _ in range(size):
        ell_w = ell_n @ w
        d = ell - (ell @ ell_w) * ell_w
        d /= np.linalg.norm(d)
        d_n = ell_n - np.outer(ell_w, ell_w @ ell_n)
        d_n /= np.linalg.norm(d_n, axis=0)
        n = np.argmax(d @ d_n)
        zeta0, zeta1, zeta2 = ell @ ell_n[:, n], ell @ ell_w, ell_n[:, n] @ ell_w
        gamma = (zeta0 - zeta1 * zeta2) / ((zeta0 - zeta1 * zeta2) + (zeta1 - zeta0 * zeta2))
        w *= 1.0 - gamma
        w[n] += gamma
        w /= np.linalg.norm(ell_n @ w)
    w = w * np.linalg.norm(target) / norms * ((ell_n @ w) @ ell)
    indices = np.flatnonzero(w)
    return indices, w[indices]


def plain_pursuit(phi, target, size, batch=16):
    """Rank compression, batches of the largest positive correlations, scipy's nnls in a loop."""
    values, vectors = np.linalg.eigh(phi @ phi.T)
    basis = vectors[:, values > 1e-14 * values[-1]]
    a, c = basis.T @ phi, basis.T @ target
    active, x = np.zeros(0, dtype=np.int64), np.zeros(0)
    while len(active) < size:
        correlation = a.T @ (c - a[:, active] @ x)
        correlation[active] = -np.inf
        count = min(batch, size - len(active))
        entering = np.argpartition(-correlation, count)[:count]
        entering = entering[correlation[entering] > 0]
        if len(entering) == 0:
            break
        candidates = np.concatenate([active, entering])
        weights, _ = scipy.optimize.nnls(a[:, candidates], c, maxiter=10 * len(candidates) + 100)
        active, x = candidates[weights > 0], weights[weights > 0]
    return active, x
