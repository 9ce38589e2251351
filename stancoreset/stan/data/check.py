"""Data checked against a program's data block, before Stan reads them.

Stan's own messages speak of C++ types and count from one; these name the variable as the
user declared it, the value seen and the value expected. Bounds that are no single numbers are left
to Stan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any, Protocol

import numpy as np

from stancoreset.checks import near_misses
from stancoreset.errors import DataError
from stancoreset.stan.data.evaluate import Scope, evaluate_int, evaluate_number
from stancoreset.stan.data.files import DataSource, raw_data
from stancoreset.stan.data.values import Value, as_value, index_words
from stancoreset.stan.syntax import expression, name_of, names_in
from stancoreset.stan.syntax import nodes as n

_INT32 = np.iinfo(np.int32)


class HasData(Protocol):
    """Anything with a data block: a `StanProgram` or a syntax tree."""

    @property
    def data(self) -> Sequence[n.Decl]: ...


def check_data(program: HasData, source: DataSource) -> dict[str, Value]:
    """The program's data, read from `source`, complete and of the declared types and shapes.

    Integers that only appear as sizes (``N``, ``D``) may be absent: they are taken from the
    variables that have that size. Variables that the program does not declare are ignored. The
    result is in the order of declaration; ints are int or int64, reals float or float64. A
    DataError is raised if a variable is missing, of the wrong type or of the wrong shape.

    >>> from stancoreset.stan.syntax.parser import parse
    >>> program = parse("data { int N; vector[N] y; } parameters { real m; } model {}")
    >>> check_data(program, {"y": [1, 2, 3]})
    {'N': 3, 'y': array([1., 2., 3.])}
    """
    names = [decl.name for decl in program.data]
    given = raw_data(source)
    data = {name: as_value(name, given[name]) for name in names if name in given}
    data |= _inferred_sizes(program.data, data)
    _require_all(program.data, data, given)
    checked: dict[str, Value] = {}
    scope = Scope({})
    for decl in program.data:
        value = _typed(decl, data[decl.name])
        try:
            value = _shaped(decl, value, scope)
        except DataError as error:
            raise DataError(f"{error}{_count_hint(decl, program.data, data, scope)}") from None
        _require_within(decl, value, scope)
        checked[decl.name] = value
        scope.values[decl.name] = np.asarray(value)[None]
    return checked


def declared(decl: n.Decl) -> str:
    """A declaration as the user would write it: ``array[N] int y``.

    >>> from stancoreset.stan.syntax.parser import parse
    >>> declared(parse("data { int N; matrix[N, 2] X; } model {}").data[1])
    'matrix[N, 2] X'
    """

    def listed(sizes: Iterable[n.Expr]) -> str:
        inner = ", ".join(map(expression, sizes))
        return f"[{inner}]" if inner else ""

    array = f"array{listed(decl.size.array)} " if decl.size.array else ""
    special = decl.constraint.kind not in ("none", "bounds", "affine", "tuple")
    base = decl.constraint.kind if special else decl.size.base
    return f"{array}{base}{listed(decl.size.sizes)} {decl.name}"


def _inferred_sizes(decls: Sequence[n.Decl], data: Mapping[str, Value]) -> dict[str, int]:
    """Absent integers that alone are the size of a variable in the data."""
    absent = {d.name for d in decls if d.type == n.INT} - set(data)
    found: dict[str, int] = {}
    for decl in decls:
        shape = np.shape(data[decl.name]) if decl.name in data else ()
        if len(shape) == len(decl.size.dims):
            for size, length in zip(decl.size.dims, shape, strict=True):
                if name_of(size) in absent:
                    found.setdefault(name_of(size), length)
    return found


def _require_all(
    decls: Sequence[n.Decl], data: Mapping[str, Value], given: Mapping[str, Any]
) -> None:
    missing = [d for d in decls if d.name not in data]
    if not missing:
        return
    unused = set(given) - {d.name for d in decls}
    hints = [
        f"'{close[0]}' is there, did you mean '{d.name}'?"
        for d in missing
        if (close := near_misses(d.name, unused))
    ]
    wanted = "; ".join(declared(d) for d in missing)
    raise DataError(
        f"the data lack {', '.join(repr(d.name) for d in missing)}, declared as {wanted}"
        + (f" ({' '.join(hints)})" if hints else f"; they have {_listed(given)}")
    )


def _listed(names: Iterable[str], limit: int = 12) -> str:
    shown = [repr(str(name)) for name in names]
    more = f", … ({len(shown)} in all)" if len(shown) > limit else ""
    return (", ".join(shown[:limit]) or "nothing") + more


# --- type --------------------------------------------------------------------------------


def _typed(decl: n.Decl, value: Value) -> Value:
    base = decl.type.base
    if base == "tuple" or base.startswith("complex"):
        raise DataError(
            f"data variable '{decl.name}' is declared as a {base} (line {decl.line}), which is not "
            "supported as data; declare its parts as separate variables"
        )
    if base != "int":
        if isinstance(value, np.ndarray):
            return value.astype(np.float64, copy=False)
        return float(value)
    array = np.asarray(value)
    if array.dtype.kind == "f":
        broken = np.asarray(array != np.floor(array))
        if broken.any():
            first = tuple(int(i) for i in np.argwhere(broken)[0])
            where = f" at {index_words(first)}" if first else ""
            raise DataError(
                f"data variable '{decl.name}' has {array[first]}{where}; expected whole numbers: "
                f"it is declared as {declared(decl)} (line {decl.line})"
            )
    if array.size and (array.min() < _INT32.min or array.max() > _INT32.max):
        worst = array.min() if array.min() < _INT32.min else array.max()
        raise DataError(
            f"data variable '{decl.name}' has {worst}, which does not fit Stan's 32-bit integers; "
            "declare it as real, or rescale it"
        )
    array = array.astype(np.int64, copy=False)
    return array if array.ndim else int(array)


# --- shape -------------------------------------------------------------------------------


def _shaped(decl: n.Decl, value: Value, scope: Scope) -> Value:
    """The value in its declared shape; a size that cannot be evaluated is left to Stan."""
    seen = np.shape(value)
    sizes = [evaluate_int(scope, size) for size in decl.size.dims]
    for size, length in zip(decl.size.dims, sizes, strict=True):
        if length is not None and length < 0:
            raise DataError(
                f"the size {expression(size)} of '{decl.name}' is {length} (line {decl.line}); "
                "expected 0 or more"
            )
    expected = tuple(s if s is not None else -1 for s in sizes)
    if len(seen) == len(expected) and all(
        e in (-1, s) for e, s in zip(expected, seen, strict=True)
    ):
        return value
    known = -1 not in expected
    if known and expected and prod(expected) == np.size(value) and (not seen or 0 in expected):
        return np.reshape(value, expected)  # a lone number for [1], or [] for any empty shape
    shaped = f"has shape {seen}" if seen else "is a single number"
    raise DataError(
        f"data variable '{decl.name}' {shaped}; expected "
        f"{_expected_words(decl, sizes, scope)}{_shape_hint(seen, expected)}"
    )


def _count_hint(
    decl: n.Decl, decls: Sequence[n.Decl], data: Mapping[str, Value], scope: Scope
) -> str:
    """What to do where the only size that is not as declared is computed from data."""
    seen = np.shape(data[decl.name])
    sizes = [evaluate_int(scope, size) for size in decl.size.dims]
    if len(seen) != len(sizes) or seen == tuple(sizes)[::-1]:
        return ""
    wrong = [i for i, (size, length) in enumerate(zip(sizes, seen, strict=True)) if size != length]
    size = decl.size.dims[wrong[0]] if len(wrong) == 1 else None
    if size is None or not names_in(size) & data.keys():
        return ""
    length, said = seen[wrong[0]], expression(size)
    lengths = {
        shape[i]
        for other in decls
        if len(shape := np.shape(data[other.name])) == len(other.size.dims)
        for i, dim in enumerate(other.size.dims)
        if expression(dim) == said
    }
    if isinstance(size, n.Var) and lengths == {length}:
        return f"; set {said} = {length}"
    named = " and ".join(sorted(names_in(size) & data.keys()))
    if lengths == {length}:
        return f"; correct {named}, so that {said} is {length}"
    return f"; make '{decl.name}' as long as the others, or correct {named}"


def _expected_words(decl: n.Decl, sizes: Sequence[int | None], scope: Scope) -> str:
    if not sizes:
        return f"a single number: it is declared as {declared(decl)} (line {decl.line})"
    shape = ", ".join("?" if s is None else str(s) for s in sizes)
    named = {
        v.name: int(scope.values[v.name].item())
        for v in n.find_all(decl.size.dims, n.Var)
        if v.name in scope.values and scope.values[v.name].size == 1
    }
    values = ", ".join(f"{name} = {value}" for name, value in named.items())
    comma = "," if len(sizes) == 1 else ""
    return f"({shape}{comma}): it is declared as {declared(decl)} (line {decl.line})" + (
        f" and {values}" if values else ""
    )


# --- bounds ------------------------------------------------------------------------------


def _require_within(decl: n.Decl, value: Value, scope: Scope) -> None:
    """Refuse values beyond a declared bound, if this is a single number."""
    constraint, array = decl.constraint, np.asarray(value)
    for bound, beyond, words in (
        (constraint.lower, np.less, "at least"),
        (constraint.upper, np.greater, "at most"),
    ):
        limit = None if bound is None else evaluate_number(scope, bound)
        if limit is None or not (bad := beyond(array, limit)).any():
            continue
        first = tuple(int(i) for i in np.argwhere(bad)[0])
        where = f" has {array[first]} at {index_words(first)}"
        lower = bound is constraint.lower
        from_zero = lower and decl.type.base == "int" and limit == 1 and array.min() == 0
        raise DataError(
            f"data variable '{decl.name}'{where if first else f' is {array}'}; expected {words} "
            f"{limit:g}, its {'lower' if lower else 'upper'} bound "
            f"(line {decl.line})"
            + ("; Stan counts from 1: add 1 to all of them" if from_zero and first else "")
        )


def _shape_hint(seen: tuple[int, ...], expected: tuple[int, ...]) -> str:
    if len(seen) == 2 and seen[::-1] == expected:
        return "; it looks transposed"
    if len(expected) == 1 and len(seen) == 2 and 1 in seen and prod(seen) == prod(expected):
        return "; use .ravel()"
    if len(expected) == 2 and len(seen) == 1 and expected[1] == 1 and seen[0] == expected[0]:
        return "; use .reshape(-1, 1)"
    return ""
