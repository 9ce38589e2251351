"""Declared variables that may form a linear predictor, above all group effects.

Group effects are ``a[g]``: elements of a vector of parameters; of a product τ z of a positive
parameter and such a vector (non-centred, in a statement or as ``multiplier``); or of one of
several vectors in an array, as brms writes. They may be multiplied by a row variable. Or a[g] is a
vector, ``x[n] * a[g[n]]``: an element of an array of vectors, or a row of a matrix.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from stancoreset.rows.glm.predictor import Term
from stancoreset.stan import WeightedProgram
from stancoreset.stan.syntax import nodes as n

# Largest number of levels of a group: beyond, a hundred draws of them fill a gigabyte.
_MAX_COLUMNS = 1_000_000


@dataclass(frozen=True)
class Parameters:
    """Positions of parameters among the unconstrained ones, whose names are ``beta.1``, …"""

    program: WeightedProgram
    param_names: Sequence[str]

    def columns(self, names: Container[str]) -> frozenset[int]:
        """Positions of the unconstrained parameters of these variables."""
        return frozenset(j for j, p in enumerate(self.param_names) if p.split(".")[0] in names)

    def _columns(self, name: str) -> tuple[int, ...]:
        return tuple(sorted(self.columns((name,))))

    @cached_property
    def free(self) -> dict[str, tuple[int, ...]]:
        """Positions of each real variable without constraints other than offset and multiplier."""
        return {
            d.name: self._columns(d.name)
            for d in self.program.program.parameters
            if d.type.base in ("real", "vector", "row_vector", "matrix")
            and d.constraint.kind in ("none", "affine")
        }

    @cached_property
    def positive(self) -> dict[str, tuple[int, ...]]:
        """Positions of each variable whose unconstrained value is its logarithm."""
        return {
            d.name: self._columns(d.name)
            for d in self.program.program.parameters
            if d.constraint.kind == "bounds"
            and isinstance(d.constraint.lower, n.IntLit | n.RealLit)
            and float(d.constraint.lower.text) == 0.0
            and d.constraint.upper is None
            and d.type.base in ("real", "vector", "row_vector")
        }

    def vectors(self, name: str) -> Iterator[tuple[int, ...]]:
        """A vector, or the vectors of an array, whose order Stan's names do not determine."""
        whole = self.free[name]
        several = len(
            {self.param_names[j].split(".")[1] for j in whole if "." in self.param_names[j]}
        )
        decl = next(d for d in self.program.program.parameters if d.name == name)
        if not decl.size.array or several in (1, len(whole)):
            yield whole
            return
        length = len(whole) // several
        for i in range(several):
            yield whole[i * length : (i + 1) * length]
        for i in range(several):
            yield whole[i::several]


@dataclass(frozen=True)
class Names:
    """The program's variables by their possible role in a linear predictor.

    `matrices`, `vectors` and `integers` are row variables. `products` are pairs of a row variable
    and a coefficient that are multiplied, and `indexed` pairs of a variable and the row variable
    that indexes it. For each variable, `definitions` are the names in the statements that define
    it.
    """

    matrices: tuple[str, ...]
    vectors: tuple[str, ...]
    integers: tuple[str, ...]
    products: frozenset[tuple[str, str]]
    indexed: tuple[tuple[str, str], ...]
    definitions: Mapping[str, frozenset[str]]


def group_terms(
    names: Names, parameters: Parameters, data: Mapping[str, Any]
) -> Iterator[tuple[Term, ...]]:
    """Possible terms for each variable that is indexed by group."""
    choices = [
        [
            *_of_vectors(array, group, names, parameters, data),
            *_of_numbers(array, group, names, parameters, data),
        ]
        for array, group in names.indexed
    ]
    for chosen in itertools.product(*choices):
        terms = tuple(itertools.chain(*chosen))
        columns = [column for term in terms for column in term.columns]
        if len(set(columns)) == len(columns):
            yield terms


def _of_numbers(
    array: str, group: str, names: Names, parameters: Parameters, data: Mapping[str, Any]
) -> Iterator[tuple[Term, ...]]:
    """One coefficient a group."""
    for columns, scale in _effects(array, names, parameters):
        if int(np.max(data[group])) <= len(columns) <= _MAX_COLUMNS:
            for factor in _factors(array, names):
                yield (Term(factor, columns, group, scale),)


def _of_vectors(
    array: str, group: str, names: Names, parameters: Parameters, data: Mapping[str, Any]
) -> Iterator[tuple[Term, ...]]:
    """A vector a group, (J, K) in all, that multiplies a row of a matrix: K terms."""
    whole = parameters.free.get(array, ())
    for matrix in names.matrices:
        width = np.size(data[matrix]) // np.size(data[group])
        if (matrix, array) not in names.products or not width or len(whole) % width:
            continue
        count = len(whole) // width
        if int(np.max(data[group])) <= count <= _MAX_COLUMNS:
            by_group = [whole[k::width] for k in range(width)]
            by_column = [whole[k * count : (k + 1) * count] for k in range(width)]
            for order in (by_group, by_column):
                yield tuple(Term(matrix, c, group, column=k) for k, c in enumerate(order))


def _effects(
    array: str, names: Names, parameters: Parameters
) -> Iterator[tuple[tuple[int, ...], int | None]]:
    """Unconstrained parameters that may be the elements, with the logarithm of their factor."""
    inside = names.definitions[array]
    sources = [name for name in parameters.free if name == array or name in inside]
    factors = [j for name, where in parameters.positive.items() if name in inside for j in where]
    for name in sources:
        for columns in parameters.vectors(name):
            for factor in factors or (None,):
                yield columns, factor


def _factors(array: str, names: Names) -> Sequence[str | None]:
    """Row variables that may multiply the effects."""
    found = [variable for variable in names.vectors if (variable, array) in names.products]
    return found or (None,)
