"""Rows that differ by their unit alone, evaluated once at every place of a unit's parameter.

Weights are parameters here: along them, a gradient is the rows' log likelihoods, and along all else
that of a weighted sum of rows, whatever the weights, of one program with one set of data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stancoreset.engines import FARTHEST, BoundModel, Float
from stancoreset.limits import KEPT, NOISE
from stancoreset.reference.integrated.units import Units
from stancoreset.rows import FullData, distinct_rows
from stancoreset.rows.glm import rows_of
from stancoreset.stan import WeightedProgram

#: Places that one evaluation takes at most: each is the value of one unit.
AT_ONCE = 64


@dataclass(frozen=True)
class DistinctOfUnits:
    """C distinct rows, bound m times over, each time for another of the first m units.

    Attributes
    ----------
    bound : BoundModel
        The likelihood of C m rows, place after place, with their weights as last parameters.
    counts : matrix, shape (J, C)
        Total weights of the rows of each unit.
    carriers : ndarray of int, shape (m,)
        The coordinates of ψ that the first m units have.
    """

    bound: BoundModel
    counts: Any = field(repr=False)
    carriers: NDArray[np.intp]

    def log_lik(self, psi: Float, places: Float) -> Float:
        """Log likelihoods of the distinct rows at places (q,) of a unit's coordinate, (C, q)."""
        points = self._points(psi, places)
        nothing = np.zeros((len(points), self._rows * len(self.carriers)))
        found = self.bound.log_density_gradient(np.hstack([points, nothing]))[1]
        return self._by_row(found[:, len(psi) :])[:, : len(places)]

    def gradient(self, psi: Float, places: Float, weights: Float) -> tuple[Float, Float]:
        """Gradient in ψ (p,) of a sum over rows with weights (C, q), and of priors at points.

        The points (S, p) are those whose prior the program has added. Places with NaN for a weight
        are left out.
        """
        used = ~np.isnan(weights).any(axis=0)
        weights = np.where(used, weights, 0.0)
        points = self._points(psi, np.where(used, places, places[used.argmax()]))
        all_weights = np.zeros((self._rows, len(points) * len(self.carriers)))
        all_weights[:, : len(places)] = weights
        by_point = all_weights.reshape(self._rows, len(points), -1).transpose(1, 2, 0)
        at = np.hstack([points, by_point.reshape(len(points), -1)])
        return points, self.bound.log_density_gradient(at)[1][:, : len(psi)].sum(axis=0)

    def of_units(self, log_lik: Float) -> Float:
        """Sums over the rows of each unit of log likelihoods (C, q), (J, q).

        A probability that rounds to zero has a finite logarithm: of no such rows there are zero.
        """
        return np.asarray(self.counts @ np.nan_to_num(log_lik, nan=-FARTHEST, neginf=-FARTHEST))

    def expected(self, share: Float) -> Float:
        """Expected number of each row at each place, of shares (J, q) of units, (C, q)."""
        return np.asarray(self.counts.T @ share)

    @property
    def _rows(self) -> int:
        return int(self.counts.shape[1])

    def _points(self, psi: Float, places: Float) -> Float:
        """ψ with the first units at so many places at a time, (S, p)."""
        m = len(self.carriers)
        count = -(-len(places) // m)
        points = np.tile(psi, (count, 1))
        padded = np.concatenate([places, np.full(count * m - len(places), places[-1])])
        points[:, self.carriers] = padded.reshape(count, m)
        return points

    def _by_row(self, values: Float) -> Float:
        """Values of rows (S, m C), place after place, as (C, S m)."""
        return values.reshape(-1, self._rows).T


def find_distinct(
    program: WeightedProgram,
    data: Mapping[str, Any],
    bind: Callable[[Mapping[str, Any]], BoundModel],
    rows: FullData,
    units: Units,
    seed: int,
) -> DistinctOfUnits | None:
    """Find rows that are equal but for their unit, which an index in the data names.

    Parameters
    ----------
    program : WeightedProgram
        The likelihood in what the rows see.
    data : mapping
        Checked data, in memory.
    bind : callable
        Binds the program whose last parameters are the weights.
    rows : FullData
        The likelihood.
    units : Units
    seed : int
        Of the point at which rows are compared.

    Returns
    -------
    DistinctOfUnits or None
        None if no index names the units, or a row at each place is no fewer rows than all.
    """
    values, count = rows_of(program, data), len(units.columns)
    weights = np.asarray(values.pop(program.weights), dtype=np.float64)
    values = {k: v for k, v in values.items() if np.size(v) or k not in program.optional}
    carried = min(count, AT_ONCE)
    for name, index in values.items():
        if index.ndim != 1 or index.dtype.kind != "i" or index.min() < 1 or index.max() > count:
            continue
        others = {k: v for k, v in values.items() if k != name}
        found = distinct_rows(others, look=len(index), worth=carried)
        if found is None:
            continue
        of_all = program.subset(data, np.tile(found.first, carried))
        of_all[name] = np.repeat(np.arange(1, carried + 1), len(found))
        shape = count, len(found)
        counts: Any = csr_array((weights, (index - 1, found.code)), shape=shape)
        counts.sum_duplicates()
        if count * len(found) <= KEPT:
            counts = counts.toarray()
        distinct = DistinctOfUnits(bind(of_all), counts, units.columns[:carried])
        if _describes(distinct, rows, units, np.random.default_rng([seed, 151])):
            return distinct
        distinct.bound.close()
    return None


def _describes(
    distinct: DistinctOfUnits, rows: FullData, units: Units, rng: np.random.Generator
) -> bool:
    """Whether sums of distinct rows differ between two points as the likelihood does."""
    here, there = rng.uniform(-1.0, 1.0, (2, rows.n_params))
    totals = []
    for psi in (here, there):
        places = rng.uniform(-1.0, 1.0, len(distinct.carriers))
        of_unit = rng.integers(len(places), size=len(units.columns))
        psi[units.columns] = places[of_unit]
        log_lik = distinct.of_units(distinct.log_lik(psi, places))
        whole = rows.log_density(psi[None])[0] - rows.log_prior(psi[None])[0]
        totals.append((log_lik[np.arange(len(of_unit)), of_unit].sum(), whole))
    (ours, whole), (ours_there, whole_there) = totals
    apart = (ours - ours_there) - (whole - whole_there)
    return bool(np.abs(apart) <= NOISE * (abs(whole) + abs(whole_there)))
