"""Parameters to unconstrained coordinates and back, for many draws at once.

CmdStan's executables constrain one point at a time and unconstrain none; these do both in
numpy for a whole array of draws. Coordinates and their order are exactly Stan's: parameters
in the order of declaration, arrays by their last index first, matrices by columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stancoreset.errors import DataError, ProgramError
from stancoreset.stan.data import Scope, declared
from stancoreset.stan.syntax import StanProgram, expression
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.transforms.bijectors import (
    Bijector,
    affine_constrain,
    affine_unconstrain,
    bijector,
    bounded_constrain,
    bounded_unconstrain,
    stack_columns,
    unstack_columns,
)

Float = NDArray[np.float64]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class _Parameter:
    """One parameter: an array of `outer` elements, each of shape `inner`."""

    decl: n.Decl
    outer: Shape
    inner: Shape
    bijector: Bijector | None  # None: each number by itself
    start: int  # its coordinates are [start, stop)
    stop: int

    @property
    def shape(self) -> Shape:
        return self.outer + self.inner

    @property
    def free_shape(self) -> Shape:
        """Shape of one element's unconstrained coordinates."""
        return self.inner if self.bijector is None else self.bijector.free_shape(self.inner)


@dataclass(frozen=True)
class Transforms:
    """The constraining transforms of a program's P parameters, given its data.

    `unconstrained_names` are ``alpha``, ``beta.1``, … in the order of the coordinates, and `shapes`
    those of each parameter on its constrained scale. Parameters without an element have neither
    shape nor values, as in Stan's output.

    >>> code = "data { int D; } parameters { vector<lower=0>[D] s; } model { s ~ gamma(2, 2); }"
    >>> t = Transforms.from_program(StanProgram.from_code(code), {"D": 2})
    >>> t.unconstrained_names
    ('s.1', 's.2')
    >>> t.constrain(np.zeros((1, 2)))
    {'s': array([[1., 1.]])}
    """

    n_params: int
    unconstrained_names: tuple[str, ...] = field(repr=False)
    shapes: dict[str, Shape]
    _parameters: tuple[_Parameter, ...] = field(repr=False)
    _scope: Scope = field(repr=False)

    @classmethod
    def from_program(
        cls,
        program: StanProgram,
        data: Mapping[str, Any],
        version: tuple[int, int] = (2, 37),
    ) -> Transforms:
        """Transforms for data of this size, from which sizes and bounds are computed.

        Before `version` 2.37 of Stan simplices break a stick. A ProgramError is raised for a size
        or bound that is not a simple expression, and for a parameter of a type that has no
        transform here (complex numbers).
        """
        scope = Scope(data, program.tree.transformed_data)
        parameters: list[_Parameter] = []
        stop = 0
        for decl in program.parameters:
            parameters.append(_parameter(decl, scope, version, stop))
            stop = parameters[-1].stop
        return cls(
            n_params=stop,
            unconstrained_names=tuple(name for p in parameters for name in _names(p)),
            shapes={p.decl.name: p.shape for p in parameters if 0 not in p.shape},
            _parameters=tuple(parameters),
            _scope=scope,
        )

    def constrain(self, draws: Float) -> dict[str, Float]:
        """Parameters on their constrained scale: draws (S, P) → (S, *shape) by name."""
        draws = np.atleast_2d(np.asarray(draws, dtype=np.float64))
        if draws.ndim != 2 or draws.shape[1] != self.n_params:
            raise DataError(
                f"draws have shape {draws.shape}; expected {self.n_params} columns, one for each "
                "unconstrained parameter"
            )
        scope = self._scope.fork()
        values: dict[str, Float] = {}
        for p in self._parameters:
            value = _constrain(p, draws[:, p.start : p.stop], scope)
            values[p.decl.name] = value
            scope.values[p.decl.name] = value
        return {name: values[name] for name in self.shapes}

    def unconstrain(self, values: Mapping[str, Any]) -> Float:
        """Inverse of `constrain`: values (S, *shape) by name → (S, P)."""
        scope = self._scope.fork()
        count = max((len(v) for v in values.values() if np.ndim(v)), default=0)
        empty = {p.decl.name: np.empty((count, *p.shape)) for p in self._parameters if 0 in p.shape}
        values = empty | dict(values)
        arrays: dict[str, Float] = {}
        for p in self._parameters:
            arrays[p.decl.name] = scope.values[p.decl.name] = _draws_of(p, values)
        lengths = {name: len(value) for name, value in arrays.items()}
        if len(set(lengths.values())) > 1:
            raise DataError(f"parameters have different numbers of draws: {lengths}")
        draws = np.empty((max(lengths.values(), default=0), self.n_params))
        for p in self._parameters:
            with np.errstate(all="ignore"):
                try:
                    free = _unconstrain(p, arrays[p.decl.name], scope)
                except np.linalg.LinAlgError as error:
                    raise DataError(
                        f"a draw of {declared(p.decl)} is not positive definite"
                    ) from error
            outside = ~np.isfinite(free).all(axis=1)
            if outside.any():
                raise DataError(
                    f"draw {int(np.argmax(outside))} of {declared(p.decl)} lies outside its "
                    f"support ({int(outside.sum())} of {len(free)} draws do)"
                )
            draws[:, p.start : p.stop] = free
        return draws


# --- one parameter -----------------------------------------------------------------------


def _parameter(decl: n.Decl, scope: Scope, version: tuple[int, int], start: int) -> _Parameter:
    base, kind = decl.size.base, decl.constraint.kind
    if base.startswith("complex"):
        raise ProgramError(
            f"parameter '{decl.name}' (line {decl.line}) is of type {base}, whose transform "
            'only Stan itself has; use engine="stanli"'
        )
    outer = tuple(_size(decl, size, scope) for size in decl.size.array)
    inner = tuple(_size(decl, size, scope) for size in decl.size.sizes)
    transform = None
    if kind not in ("none", "bounds", "affine"):
        if kind == "sum_to_zero_vector" and base == "matrix":
            kind = "sum_to_zero_matrix"
        transform = bijector(kind, version)
        if transform is None:
            raise ProgramError(
                f"parameter '{decl.name}' (line {decl.line}) is a {kind}, whose transform only "
                'Stan itself has; use engine="stanli"'
            )
    free = inner if transform is None else transform.free_shape(inner)
    return _Parameter(decl, outer, inner, transform, start, start + prod(outer) * prod(free))


def _size(decl: n.Decl, size: n.Expr, scope: Scope) -> int:
    value = int(_evaluate(decl, "size", size, scope).item())
    if value < 0:
        raise DataError(
            f"the size {expression(size)} of parameter '{decl.name}' is {value} "
            f"(line {decl.line}); expected 0 or more"
        )
    return value


def _evaluate(decl: n.Decl, role: str, e: n.Expr, scope: Scope) -> NDArray[Any]:
    try:
        return scope.evaluate(e)
    except ProgramError as error:
        why = str(error)
    except KeyError as error:
        why = f"{error.args[0]} has no value that is known before Stan runs"
    raise ProgramError(
        f"the {role} `{expression(e)}` of parameter '{decl.name}' (line {decl.line}) cannot be "
        f'computed outside Stan: {why}; use engine="stanli"'
    )


def _names(p: _Parameter) -> list[str]:
    """Names of the coordinates: array indices, then the element's own, columns first."""
    inner = [place[::-1] for place in np.ndindex(*reversed(p.free_shape))]
    places = [(*outer, *own) for outer in np.ndindex(*p.outer) for own in inner]
    return [".".join([p.decl.name, *(str(i + 1) for i in place)]) for place in places]


def _draws_of(p: _Parameter, values: Mapping[str, Any]) -> Float:
    name = p.decl.name
    if name not in values:
        raise DataError(f"the draws lack parameter {declared(p.decl)}")
    array = np.asarray(values[name], dtype=np.float64)
    if array.shape[1:] != p.shape or array.ndim == 0:
        raise DataError(
            f"draws of {declared(p.decl)} have shape {array.shape}; expected (draws, "
            f"{', '.join(map(str, p.shape))})"
        )
    return array


def _constrain(p: _Parameter, u: Float, scope: Scope) -> Float:
    draws = len(u)
    if p.bijector is not None:
        elements = u.reshape(draws * prod(p.outer), prod(p.free_shape))
        value = p.bijector.constrain(elements, p.inner)
        return value.reshape(draws, *p.shape)
    matrix = len(p.inner) == 2
    x = u.reshape(draws, *p.outer, prod(p.inner)) if matrix else u.reshape(draws, *p.shape)
    x = unstack_columns(x, *p.inner) if matrix else x
    constrain = bounded_constrain if p.decl.constraint.kind == "bounds" else affine_constrain
    return constrain(x, *_sides(p, scope))


def _unconstrain(p: _Parameter, x: Float, scope: Scope) -> Float:
    draws = len(x)
    if p.bijector is not None:
        free = p.bijector.unconstrain(x.reshape(draws * prod(p.outer), *p.inner))
        return free.reshape(draws, p.stop - p.start)
    bounds = p.decl.constraint.kind == "bounds"
    u = (bounded_unconstrain if bounds else affine_unconstrain)(x, *_sides(p, scope))
    u = stack_columns(u) if len(p.inner) == 2 else u
    return u.reshape(draws, p.stop - p.start)


def _sides(p: _Parameter, scope: Scope) -> list[Float | None]:
    """Both bounds, or offset and multiplier, each (1 or S, …), to broadcast with (S, *shape)."""
    given = p.decl.constraint.given
    roles = ("lower", "upper") if p.decl.constraint.kind == "bounds" else ("offset", "multiplier")

    def side(role: str) -> Float:
        value = np.asarray(_evaluate(p.decl, role, given[role], scope), dtype=np.float64)
        missing = 1 + len(p.shape) - value.ndim
        return value.reshape(len(value), *(1,) * missing, *value.shape[1:])

    return [side(role) if role in given else None for role in roles]
