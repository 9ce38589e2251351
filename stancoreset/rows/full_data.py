"""The interface to the full data: every quantity here is a sum over rows.

    log p(θ | y) = log prior(θ) + Σ_chunks L_c(θ),      L_c(θ) = Σ_{n in c} log p(y_n | θ)

The mode, the Hessian, the target of the projection and the certificate need only
`log_likelihood`, `log_prior`, `log_density_gradient` and `hessian`. Chunks of
rows are bound to the engine once, or, if the data stay on disk, read again in each pass;
their values are added in a fixed order, and the prior is counted once. Callers never see
the chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from stancoreset.engines import BoundModel, Closing, Compiled, Float, StanData, mode_of
from stancoreset.errors import DataError, EngineError
from stancoreset.parallel import available_cores
from stancoreset.rows.blocks import MANY, AnyMatrix, Blocks, Matrix, is_sparse
from stancoreset.rows.costs import Costs
from stancoreset.rows.directions import dependencies
from stancoreset.rows.distinct import DistinctRows, distinct_rows
from stancoreset.rows.glm import FoundGlm, GlmKernel, GlmRows, rows_of
from stancoreset.rows.hessians import Hessians, Steps, has_kinks
from stancoreset.rows.sums import (
    MAX_ROWS_PER_CHUNK,
    MIN_ROWS_PER_CHUNK,
    ArrayChunks,
    BoundChunks,
    DistinctKernel,
    Progress,
    RowSums,
    StanKernel,
    StoredChunks,
    StoredGlmRows,
    slices,
    without_priors,
)
from stancoreset.rows.tables import Kernel, StoredRows, in_memory

if TYPE_CHECKING:
    from stancoreset.stan import WeightedProgram


class FullData(Closing):
    """A weighted program bound to all rows, weighted as in the data or by one.

    `compiled` is the program without generated quantities, and `data` are checked: every row, or
    rows on disk, which each pass reads again. Chunks have a bounded size if they are evaluated
    `in_process`; else there is one for each process, which reads its rows from a file. `threads` of
    them are evaluated at the same time, by the `glm` instead of the engine if one was found.
    `at_once` says that the program has statements about all rows in place of the author's loops.

    `passes` counts the evaluations so far, for the report; those of a subsample count for the data
    that it was drawn from.
    """

    def __init__(
        self,
        compiled: Compiled,
        weighted: WeightedProgram,
        data: StanData,
        *,
        in_process: bool,
        threads: int | None = None,
        glm: FoundGlm | None = None,
        at_once: bool = False,
    ) -> None:
        self._compiled = compiled
        self._weighted = weighted
        self._data = data
        self._threads = threads or available_cores()
        self.n_obs = weighted.n_obs(data)
        stored = data if isinstance(data, StoredRows) else None
        self.prior: BoundModel = compiled.bind(weighted.prior_data(in_memory(data)))
        self.n_params = self.prior.n_params
        if not self.n_params:
            raise DataError(
                f"'{compiled.name}' has no parameters with these data, expected at least one; "
                "declare one, or correct the data that set the sizes of parameters"
            )
        self.param_names = self.prior.param_names
        self.passes = Costs(stored=stored, likelihood="" if glm is None else str(glm))
        self._found = glm
        self._at_once = at_once
        # For a subsample: the counts of the data that it was drawn from, and its part of them.
        self._charged: Costs | None = None
        self._part = 1.0
        #: The GLM that equals the likelihood, if one is used.
        self.glm: GlmKernel | None = None if glm is None else glm.kernel
        kernel: Kernel | None = self.glm
        self._exact_hessian = kernel is not None
        self._hessians = Hessians(self.param_names)  # of the prior, if the GLM's are exact
        #: The kernel that evaluates chunks; None if they are bound to the engine.
        self.kernel = kernel
        self._bound: BoundChunks | None = None
        #: Numbers of the rows that `glm_rows` has, one of each set of equal ones; None on disk.
        self.row_numbers: np.ndarray | None = None
        self._sums: RowSums
        self._through: _Through | None = None
        if stored is not None:
            # Sums over chunks whatever the engine: no engine is asked to hold all rows.
            self.in_process = True
            if kernel is None:
                kernel = StanKernel(compiled, weighted, stored.row_values, in_process)
            if repeats(self._weighted, stored.sample) is not None:
                kernel = DistinctKernel(kernel, weighted.weights)
            self.kernel = kernel
            self._sums = StoredChunks(stored, kernel)
            return
        self.in_process = in_process
        self._weights = np.asarray(data[weighted.weights], dtype=np.float64)
        self.row_numbers = np.arange(self.n_obs)
        self._evaluated = self._without_repeats()
        rows = weighted.n_obs(self._evaluated)
        count = max(1, min(self._threads, rows // MIN_ROWS_PER_CHUNK))
        if in_process:  # as many chunks for every thread
            count *= -(-rows // (count * MAX_ROWS_PER_CHUNK))
        # Few rows for all draws are better than all rows for a few: reading the rows takes a
        # process as long as evaluating many draws, and every thread has memory of its own.
        self._share = max(1, self._threads // count)
        self._bound = BoundChunks(self._bind, slices(rows, count), self._threads, self._share)
        self._sums = self._bound
        if self.glm is not None:
            arrays = rows_of(weighted, self._evaluated)
            self._sums = ArrayChunks(arrays, rows, MAX_ROWS_PER_CHUNK, self.glm, self._threads)

    def subsample(self, size: int, rng: np.random.Generator) -> BoundModel:
        """Bind a random subsample of `size` rows, weighted by N/size: an unbiased small copy."""
        return self._compiled.bind(self.some(size, rng))

    def some(self, size: int, rng: np.random.Generator) -> StanData:
        """The data of a random subsample of `size` rows, weighted by N/size."""
        at_hand = self.rows_at_hand
        among = self.n_obs if size > len(at_hand) else at_hand
        rows = np.sort(rng.choice(among, size=size, replace=False))
        weights = self._weigh(rows, np.full(size, self.n_obs / size))
        return self._weighted.subset(self._data, rows, weights)

    def sampled(self, size: int, rng: np.random.Generator) -> FullData:
        """Full data of a random subsample of `size` rows, weighted by N/size."""
        small = FullData(
            self._compiled,
            self._weighted,
            self.some(size, rng),
            in_process=self.in_process,
            threads=self._threads,
            glm=self._found,
            at_once=self._at_once,
        )
        small._charged = self.passes if self._charged is None else self._charged
        small._part = self._part * size / self.n_obs
        return small

    def copy_of(self, rows: np.ndarray, factors: Float) -> BoundModel:
        """Bind some rows as a separate model, with their weights multiplied by `factors`."""
        return self._compiled.bind(
            self._weighted.subset(self._data, rows, self._weigh(rows, factors))
        )

    def _weigh(self, rows: np.ndarray, factors: Float) -> Float:
        """Weights of some rows, multiplied by factors."""
        if self.passes.stored is None:
            return self._weights[rows] * factors
        came = self.passes.stored.take(rows).get(self._weighted.weights)
        return factors if came is None else came * factors

    def glm_rows(self) -> Iterable[GlmRows]:
        """All rows in the GLM's variables, chunk by chunk, as often as they are iterated.

        Equal rows may be one with their total weight.
        """
        assert self.glm is not None
        if isinstance(self._sums, ArrayChunks):
            return self._sums.chunks
        assert self.passes.stored is not None
        return StoredGlmRows(self.passes.stored, self.glm)

    def glm_pool(self, rows: np.ndarray) -> GlmRows:
        """Some rows in the GLM's variables, with their weights."""
        assert self.glm is not None
        stored = self.passes.stored
        if stored is None:
            taken = {n: v[rows] for n, v in rows_of(self._weighted, self._data).items()}
        else:
            taken = {self._weighted.weights: np.ones(len(rows)), **stored.take(rows)}
            taken = rows_of(self._weighted, taken)
        return self.glm.prepare(taken)

    def weights_of(self, rows: np.ndarray) -> Float | None:
        """Original weights of some rows; None if all are one."""
        came = self._weigh(rows, np.ones(len(rows)))
        return None if np.all(came == 1) else came

    @property
    def row_weights(self) -> Float:
        """Weights of the rows of `row_numbers`, those of all equal ones together."""
        return np.asarray(self._evaluated[self._weighted.weights], dtype=np.float64)

    def weights_at(self, places: np.ndarray) -> Float:
        """Weights of rows by their places in `row_numbers`; on disk these are row numbers."""
        if self.passes.stored is None:
            return np.asarray(self.row_weights[places])
        return self._weigh(places, np.ones(len(places)))

    @property
    def total_weight(self) -> float:
        """Sum of the weights of all rows; for rows on disk, estimated from the sample."""
        stored = self.passes.stored
        if stored is None:
            return float(self._weights.sum())
        return self.n_obs * float(np.mean(stored.sample[self._weighted.weights]))

    @property
    def rows_at_hand(self) -> np.ndarray:
        """Rows that can be copied without reading: all, or the sample in memory."""
        stored = self.passes.stored
        return np.arange(self.n_obs) if stored is None else stored.sample_rows

    def integer_columns(self) -> list[np.ndarray]:
        """Data with one integer per row in memory: outcomes, groups, counts."""
        data = in_memory(self._data)
        columns = [np.asarray(data[name]) for name in self._weighted.rows]
        return [c for c in columns if c.ndim == 1 and c.size and np.issubdtype(c.dtype, np.integer)]

    def _without_repeats(self) -> StanData:
        """Merge equal rows into one with their total weight."""
        found = repeats(self._weighted, self._data)
        if found is None:
            return self._data
        self.passes.distinct, self.row_numbers = len(found), found.first
        return self._weighted.subset(self._data, found.first, found.summed(self._weights))

    def _bind(self, rows: slice) -> BoundModel:
        data = self._evaluated
        if rows != slice(0, self._weighted.n_obs(data)):
            data = self._weighted.subset(data, rows, data[self._weighted.weights][rows])
        return self._compiled.bind(data, threads=self._share)

    @property
    def fast(self) -> bool:
        """Whether evaluation costs much less than the author's program on all rows."""
        return self.kernel is not None or self.passes.distinct > 0 or self._at_once

    @property
    def chunks(self) -> list[BoundModel]:
        """The chunks, bound to the engine on first use; none if the rows are not in memory."""
        return [] if self._bound is None else self._bound.chunks

    def bind(self) -> FullData:
        """Bind the chunks now instead of on first use; return this object."""
        if self._sums is self._bound:
            _ = self._bound.chunks
        return self

    def log_prior(self, draws: Float) -> Float:
        """Log prior density with Jacobian, up to a constant: (S, P) → (S,)."""
        return self.prior.log_density(draws)

    def log_likelihood(
        self, draws: Float, progress: Callable[[int], object] | None = None
    ) -> Float:
        """Σ_n L_n(θ), up to a constant: (S, P) → (S,).

        `progress` is called with the number of draws done since the last call.
        """
        draws = np.atleast_2d(draws)
        out = np.empty(len(draws))
        # Blocks of draws serve only the report of progress; an extra block costs nothing
        # if chunks are bound, and a whole pass if they are not.
        at_once = 50 if self.in_process else 1_000  # processes read their rows for each block
        blocks = max(1, len(draws) // at_once) if self._sums is self._bound else 1
        for block in np.array_split(np.arange(len(draws)), blocks):
            rows = draws[block]
            if self._through is None or self.are_bound:
                found = self._sums.sums("log_density", rows, progress)
                out[block] = without_priors(found, self.log_prior(rows))
            else:
                out[block] = self._seen_through(self._through, rows, progress)
        self._count(densities=len(draws))
        return out

    def _seen_through(self, through: _Through, draws: Float, progress: Progress | None) -> Float:
        """Log likelihoods in what the rows see; where that is not finite, by the own chunks."""
        try:
            psi = through.values(draws)
        except EngineError:  # at one of the draws
            psi = np.full((len(draws), 1), np.nan)
        own, prior = ~np.isfinite(psi).all(axis=1), self.log_prior(draws)
        out = np.full(len(draws), -np.inf)
        there = ~own & np.isfinite(prior)
        if np.any(there):
            found = through.seen._sums.sums("log_density", psi[there], progress)
            inner = through.seen.log_prior(psi[there])
            out[there] = without_priors(found, inner) - through.offset
        if np.any(own):
            out[own] = self._briefly(draws[own])
        return out

    def briefly(self, draws: Float) -> Float:
        """Σ_n L_n(θ) at a few draws by the own program, which keeps no rows: (S, P) → (S,).

        If that was compared with what the rows see before (`see_through`), it is not again.
        """
        if self._through is not None:
            return self.log_likelihood(draws)
        self._count(densities=len(draws))
        return self._briefly(draws)

    def _briefly(self, draws: Float) -> Float:
        bound = self._bound if self._sums is self._bound else None
        found = self._sums.sums("log_density", draws) if bound is None else bound.briefly(draws)
        return without_priors(found, self.log_prior(draws))

    @property
    def rows_to_bind(self) -> int:
        """Number of rows that the engine holds if it evaluates them; equal ones may be one."""
        held = self._bound is not None and self._sums is self._bound
        return self._weighted.n_obs(self._evaluated) if held else 0

    @property
    def are_bound(self) -> bool:
        """Whether the engine holds the rows as this program's."""
        return self._bound is not None and self._bound.are_bound

    def release(self) -> None:
        """Release the rows that the engine holds; what needs them binds them again."""
        if self._bound is not None:
            self._bound.close()

    def see_through(self, seen: FullData, values: Callable[[Float], Float], offset: float) -> None:
        """Evaluate log likelihoods through ψ from now on, so that the engine holds the rows once.

        Log likelihoods here are those of `seen` at ``values(draws)``, less an `offset`. Gradients
        bind the rows again.
        """
        if self._bound is None or self._sums is not self._bound:
            return  # matrix products and rows on disk are held by no engine
        self._through = _Through(seen, values, offset)
        self.release()

    def log_density(self, draws: Float) -> Float:
        """Log posterior density of the full data, up to a constant: (S, P) → (S,)."""
        return self.log_likelihood(draws) + self.log_prior(draws)

    def log_density_gradient(self, draws: Float) -> tuple[Float, Float]:
        """Log posterior density (S,) and gradient (S, P) of the full data."""
        draws = np.atleast_2d(draws)
        value, gradient, priors = self._sums.sums("log_density_gradient", draws)
        if priors != 1:  # every chunk has counted the prior, or none has
            prior_value, prior_gradient = self.prior.log_density_gradient(draws)
            value = without_priors((value, priors - 1), prior_value)
            with np.errstate(invalid="ignore"):
                gradient = gradient - (priors - 1) * prior_gradient
        self._count(gradients=len(draws))
        return value, gradient

    def hessian(self, theta: Float, scale: Float) -> AnyMatrix:
        """Hessian of the log posterior density at `theta`, (P, P), sparse for many groups.

        It uses central differences of exact gradients with a step proportional to `scale`, the
        approximate posterior standard deviation in each coordinate, and takes no difference for
        parameters that never meet; see `stancoreset.rows.hessians`. For a GLM, the likelihood's
        Hessian is exact and only the prior's uses differences.
        """
        if not self._exact_hessian:
            return self._hessians.at(self.log_density_gradient, theta, scale)
        likelihood, _ = self._sums.sums("hessian", theta[None])
        self.count_hessian(likelihood)
        prior = self._hessians.at(self.prior.log_density_gradient, theta, scale)
        if is_sparse(likelihood) and is_sparse(prior):
            return Matrix(likelihood + prior)
        return np.asarray(likelihood + prior)

    def steps(self, theta: Float, scale: Float) -> Steps:
        """Steps whose differences of gradients tell the curvature; of a GLM, the prior's."""
        of = self.prior if self._exact_hessian else self
        return Steps.near(of.log_density_gradient, theta, scale)

    def rows_bend(self, theta: Float, scale: Float) -> bool:
        """Whether the log likelihood's gradient jumps within a `scale` (P,) of a point."""

        def likelihood(draws: Float) -> tuple[Float, Float]:
            value, gradient = self.log_density_gradient(draws)
            return value, gradient - self.prior.log_density_gradient(draws)[1]

        return not self._exact_hessian and has_kinks(likelihood, theta, scale)

    def _count(self, densities: int = 0, gradients: int = 0, hessians: float = 0.0) -> None:
        costs = self.passes if self._charged is None else self._charged
        costs.add(densities=densities, gradients=gradients, hessians=hessians, share=self._part)

    def count_hessian(self, found: AnyMatrix) -> None:
        """Count one pass for a Hessian in closed form.

        A gradient has 2 P products a row, in two matrix products, and a Hessian P²/2 if it is
        dense.
        """
        more = 0.0 if is_sparse(found) else self.n_params / 4
        self._count(gradients=1, hessians=more)

    @cached_property
    def blocks(self) -> Blocks | None:
        """The groups of many parameters which the log density ties together; None without."""
        if self.n_params < MANY:
            return None
        rng = np.random.default_rng([self.n_params, 43])
        theta, scale = rng.uniform(-0.5, 0.5, self.n_params), np.full(self.n_params, 0.1)
        if self._through is not None and self._through.seen._exact_hessian:
            return Blocks.of(self._meetings(self._through, theta, scale))
        if not self._exact_hessian:
            return self._hessians.blocks(self.log_density_gradient, theta, scale)
        found = self.hessian(theta, scale)
        return Blocks.of(found) if is_sparse(found) else None

    def _meetings(self, through: _Through, theta: Float, scale: Float) -> Matrix:
        """Which parameters θ meet, by ψ(θ) that the rows see: no row is evaluated in θ.

        It is the pattern (P, P) of Jᵀ ∇²L J + ∇² log prior with J = ∂ψ/∂θ; what moves one ψ meets.
        """
        psi, names = through.values(theta[None])[0], self.param_names
        likelihood = abs(Matrix(through.seen.hessian(psi, np.full(len(psi), 0.1))))
        prior = abs(Matrix(Hessians(names).at(self.prior.log_density_gradient, theta, scale)))
        moved = dependencies(through.values, theta, scale, names).astype(float)
        return Matrix(moved.T @ likelihood @ moved + prior)

    def mode(self, *, init: Float | None = None, seed: int, max_iter: int = 2000) -> Float:
        """Find a mode by L-BFGS from a starting point, or from a random one, (P,)."""
        name = self._weighted.program.name
        return mode_of(self, name=name, init=init, seed=seed, max_iter=max_iter)

    def engine_mode(self, *, init: Float | None, seed: int) -> Float:
        """Find the mode by the engine's own optimizer, which receives all rows at once."""
        if self._bound is None:
            raise DataError("the rows are not in memory, so the engine cannot find their mode")
        with self._compiled.bind(self._evaluated) as whole:
            return whole.mode(init=init, seed=seed)

    def close(self) -> None:
        """Release the engine's copies of the data."""
        self._sums.close()
        if self._bound is not None:
            self._bound.close()
        self.prior.close()


@dataclass(frozen=True)
class _Through:
    """The likelihood in what the rows see, which is a function of the parameters."""

    seen: FullData
    values: Callable[[Float], Float]
    offset: float


def repeats(program: WeightedProgram, data: StanData) -> DistinctRows | None:
    """The distinct rows of the data, if they are at most half of all rows."""
    rows = rows_of(program, data)
    del rows[program.weights]
    return distinct_rows({k: v for k, v in rows.items() if np.size(v) or k not in program.optional})
