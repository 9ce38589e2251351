"""The seam behind which the full data live: every quantity here is a sum over rows.

    log p(θ | y) = log prior(θ) + Σ_chunks L_c(θ),      L_c(θ) = Σ_{n in c} log p(y_n | θ)

The mode, the Hessian, the target of the projection and the certificate need nothing of
the data but `log_likelihood`, `log_prior`, `log_density_gradient` and `hessian`. Rows are
split into chunks, each bound to the engine on its own, and the chunks' values are added
in a fixed order; the prior is counted once. Callers never see the chunks.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from operator import methodcaller
from typing import TYPE_CHECKING, Any

import numpy as np

from stancoreset.engines.base import BoundModel, Compiled, Float, StanData
from stancoreset.errors import ReferenceFitError
from stancoreset.parallel import available_cores

if TYPE_CHECKING:
    from stancoreset.stan.program import WeightedProgram

__all__ = ["FullData", "central_hessian"]

# Chunks smaller than this cost more to hand out than they save; larger ones need much
# memory for a moment while Stan reads them, and leave the processor's cache.
_MIN_ROWS_PER_CHUNK = 2_000
_MAX_ROWS_PER_CHUNK = 32_768


@dataclass
class _Passes:
    """How often the rows were read: evaluations of the full log density and its gradient."""

    densities: int = 0
    gradients: int = 0

    def reset(self) -> None:
        """Start counting again."""
        self.densities = self.gradients = 0

    def as_dict(self) -> dict[str, int]:
        """Counts by name."""
        return {"densities": self.densities, "gradients": self.gradients}


class FullData:
    """A weighted program bound to all rows, with the weights that came with the data or one.

    Parameters
    ----------
    compiled : Compiled
        The program without generated quantities, compiled by an engine.
    weighted : WeightedProgram
        Knows how to slice the data.
    data : mapping
        Checked data, every row.
    in_process : bool
        True: chunks of bounded size. False: one chunk, which the engine's processes read
        from a file.
    threads : int, optional
        Default: the available cores.

    Attributes
    ----------
    passes : _Passes
        Counts of full-data evaluations so far, for the report.
    """

    def __init__(
        self,
        compiled: Compiled,
        weighted: WeightedProgram,
        data: StanData,
        *,
        in_process: bool,
        threads: int | None = None,
    ) -> None:
        self._compiled = compiled
        self._weighted = weighted
        self._data = data
        self.n_obs = weighted.n_obs(data)
        self._weights = np.asarray(data[weighted.weights], dtype=np.float64)
        self._threads = threads or available_cores()
        count = 1
        if in_process:
            least = -(-self.n_obs // _MAX_ROWS_PER_CHUNK)
            count = max(1, least, min(self._threads, self.n_obs // _MIN_ROWS_PER_CHUNK))
        edges = np.linspace(0, self.n_obs, count + 1).astype(int)
        self._slices = [slice(a, b) for a, b in itertools.pairwise(edges)]
        self.in_process = in_process
        self._chunks: list[BoundModel] | None = None
        self.prior: BoundModel = compiled.bind(weighted.prior_data(data))
        self.n_params = self.prior.n_params
        self.param_names = self.prior.param_names
        self.passes = _Passes()

    def subsample(self, size: int, rng: np.random.Generator) -> BoundModel:
        """A random subsample of `size` rows, N/size times as heavy: an unbiased small copy."""
        rows = np.sort(rng.choice(self.n_obs, size=size, replace=False))
        return self.copy_of(rows, np.full(size, self.n_obs / size))

    def copy_of(self, rows: np.ndarray, factors: Float) -> BoundModel:
        """Some rows bound as a model of their own, each `factors` times as heavy as it came."""
        weights = self._weights[rows] * factors
        return self._compiled.bind(self._weighted.subset(self._data, rows, weights))

    def integer_columns(self) -> list[np.ndarray]:
        """The data that give every row one integer (outcomes, groups, counts), each (N,)."""
        columns = [np.asarray(self._data[name]) for name in self._weighted.rows]
        return [c for c in columns if c.ndim == 1 and np.issubdtype(c.dtype, np.integer)]

    def _bind(self, rows: slice) -> BoundModel:
        if len(self._slices) == 1:
            return self._compiled.bind(self._data)
        subset = self._weighted.subset(self._data, rows, self._weights[rows])
        return self._compiled.bind(subset)

    @property
    def chunks(self) -> list[BoundModel]:
        """The chunks, bound to the engine on first use."""
        if self._chunks is None:
            self._chunks = self._each(self._bind, self._slices)
        return self._chunks

    def bind(self) -> FullData:
        """Bind the chunks now instead of on first use; returns itself."""
        _ = self.chunks
        return self

    def _each(self, function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        """Side by side, results in order."""
        workers = min(self._threads, len(items))
        if workers == 1:
            return [function(item) for item in items]
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(function, items))

    def _per_chunk(self, method: str, draws: Float) -> list[Any]:
        """Chunk by chunk; the engine spreads many draws over threads itself, but not a few."""
        evaluate = methodcaller(method, draws)
        if len(draws) >= self._threads:
            return [evaluate(chunk) for chunk in self.chunks]
        return self._each(evaluate, self.chunks)

    def log_prior(self, draws: Float) -> Float:
        """Log prior density with Jacobian, up to a constant: (S, P) → (S,)."""
        return self.prior.log_density(draws)

    def log_likelihood(
        self, draws: Float, progress: Callable[[int], object] | None = None
    ) -> Float:
        """Σ_n L_n(θ), up to a constant: (S, P) → (S,).

        Parameters
        ----------
        draws : ndarray, shape (S, P)
            Unconstrained parameters.
        progress : callable, optional
            Called with the number of draws done since the last call.
        """
        draws = np.atleast_2d(draws)
        chunks, out = self.chunks, np.empty(len(draws))
        # Blocks of draws only so that progress can be told; one block costs nothing extra.
        for block in np.array_split(np.arange(len(draws)), max(1, len(draws) // 50)):
            rows = draws[block]
            parts = self._per_chunk("log_density", rows)
            prior = self.log_prior(rows)
            # −inf − (−inf) has no value: where the prior is zero, so is the posterior.
            with np.errstate(invalid="ignore"):
                out[block] = np.where(
                    np.isfinite(prior), np.sum(parts, axis=0) - len(chunks) * prior, -np.inf
                )
            if progress is not None:
                progress(len(block))
        self.passes.densities += len(draws)
        return out

    def log_density(self, draws: Float) -> Float:
        """Log posterior density of the full data, up to a constant: (S, P) → (S,)."""
        return self.log_likelihood(draws) + self.log_prior(draws)

    def log_density_gradient(self, draws: Float) -> tuple[Float, Float]:
        """Log posterior density (S,) and gradient (S, P) of the full data."""
        draws = np.atleast_2d(draws)
        chunks = self.chunks
        pairs = self._per_chunk("log_density_gradient", draws)
        value = np.sum([p[0] for p in pairs], axis=0)
        gradient = np.sum([p[1] for p in pairs], axis=0)
        if len(chunks) > 1:  # every chunk has counted the prior
            prior_value, prior_gradient = self.prior.log_density_gradient(draws)
            value = value - (len(chunks) - 1) * prior_value
            gradient = gradient - (len(chunks) - 1) * prior_gradient
        self.passes.gradients += len(draws)
        return value, gradient

    def hessian(self, theta: Float, scale: Float) -> Float:
        """Hessian of the log posterior density at `theta`, (P, P).

        Central differences of exact gradients with a step proportional to `scale`, the
        posterior standard deviation in each coordinate as far as it is known.
        """
        return central_hessian(self.log_density_gradient, theta, scale)

    def engine_mode(self, *, init: Float | None, seed: int) -> Float:
        """The mode by the engine's own optimizer, for engines that hold all rows in one chunk."""
        return self.chunks[0].mode(init=init, seed=seed)

    def close(self) -> None:
        """Release the engine's copies of the data."""
        for chunk in self._chunks or []:
            chunk.close()
        self.prior.close()
        self._chunks = None

    def __enter__(self) -> FullData:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def central_hessian(
    gradient: Callable[[Float], tuple[Float, Float]], theta: Float, scale: Float
) -> Float:
    """Hessian from central differences of a gradient.

    H_{·j} = (∇f(θ + h_j e_j) − ∇f(θ − h_j e_j)) / 2 h_j, symmetrised.

    Parameters
    ----------
    gradient : callable
        (S, P) → values (S,), gradients (S, P).
    theta : ndarray, shape (P,)
    scale : ndarray, shape (P,)
        Typical width of f in each coordinate; the step is 10⁻³ of it, which balances the
        truncation error (h²) against the rounding error of the gradients (1/h).

    Raises
    ------
    ReferenceFitError
        If a gradient is not finite.
    """
    step = 1e-3 * scale
    shifted = theta + np.concatenate([np.diag(step), -np.diag(step)])
    _, grads = gradient(shifted)
    if not np.all(np.isfinite(grads)):
        raise ReferenceFitError(
            "the gradient of the log density is not finite next to the mode: the mode lies "
            "on the edge of the parameters' support; check the constraints of the parameters, "
            'or pass posterior draws of your own with reference="draws"'
        )
    p = len(theta)
    hessian = (grads[:p] - grads[p:]) / (2 * step[:, None])
    return 0.5 * (hessian + hessian.T)
