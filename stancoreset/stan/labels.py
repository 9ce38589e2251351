"""Names for the dimensions of a program's variables, from the names that its data go by.

A table knows what numbers of the data stand for: code 3 of `g` is the level ``JFK`` of the column
``origin``, and the columns of `X` have names. The program says which variables have an element for
each of them: ``a[g[n]]`` indexes an axis of `a` by `g`, ``array[N] int<upper=J> g`` bounds the
codes by `J`, ``matrix[N, D] X`` has `D` columns; and every other axis of the size `J` or `D` has
the same elements, as in ``a = mu + tau * z``. ArviZ then shows ``a[JFK]`` and ``z[JFK]``.

An axis is named only if its size is the number of names, and if no other names fit as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any

from stancoreset.checks import near_misses
from stancoreset.errors import OptionError
from stancoreset.stan.data import Scope, evaluate_int
from stancoreset.stan.syntax import StanProgram, bare, expression, part_of
from stancoreset.stan.syntax import nodes as n

_RESERVED = ("chain", "draw")


def variable_of(coordinate: str) -> str:
    """The variable that has a coordinate.

    >>> variable_of("z.3.1"), variable_of("theta[2]"), variable_of("sigma")
    ('z', 'theta', 'sigma')
    """
    return re.split(r"[.\[]", coordinate)[0]


@dataclass(frozen=True)
class Names:
    """Names for the codes 1, 2, … of a data variable, or for its columns.

    `labels` are the levels of codes 1, 2, …, or the columns of a matrix; `dim` is the name of the
    dimension that they label.

    >>> Names("origin", ("EWR", "JFK"))
    Names(dim='origin', labels=('EWR', 'JFK'))
    """

    dim: str
    labels: tuple[Any, ...]

    @classmethod
    def of(cls, dim: str, labels: Sequence[Any]) -> Names:
        """Names whose labels are whole numbers or text, which NetCDF can hold."""
        whole = all(isinstance(label, int) and not isinstance(label, bool) for label in labels)
        return cls(dim, tuple(labels if whole else map(str, labels)))

    @property
    def differ(self) -> bool:
        """Whether no label occurs twice."""
        return len(set(self.labels)) == len(self.labels)


@dataclass(frozen=True)
class Labels:
    """Names for the dimensions of variables, as ArviZ takes them."""

    coords: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    dims: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @classmethod
    def given(
        cls,
        coords: Mapping[str, Sequence[Any]] | None,
        dims: Mapping[str, Sequence[str]] | None,
    ) -> Labels:
        """The labels that a user gives, either of which may be None."""
        return cls(dict(coords or {}), dict(dims or {}))

    def over(self, other: Labels) -> Labels:
        """Merge with other labels; these labels win where both name the same."""
        return Labels({**other.coords, **self.coords}, {**other.dims, **self.dims})


class NamedData(dict[str, Any]):
    """Data that know what their numbers stand for: `names` by data variable.

    A data integer has names if it counts them. Every step of `CoresetModel` that returns draws
    labels them so.

    >>> data = NamedData({"N": 3, "J": 2, "g": [1, 2, 1]}, {"g": Names("origin", ("EWR", "JFK"))})
    >>> data["J"], data.names["g"].labels
    (2, ('EWR', 'JFK'))
    """

    def __init__(self, data: Mapping[str, Any], names: Mapping[str, Names]) -> None:
        super().__init__(data)
        self.names = dict(names)


def names_of(data: object) -> Mapping[str, Names]:
    """Names that data carry for the codes of their variables; empty if they carry none."""
    found = getattr(data, "names", None)
    return found if isinstance(found, Mapping) else {}


def labels_of(program: StanProgram, data: Mapping[str, Any]) -> Labels:
    """Names for the dimensions of a program's variables, from those that its data know.

    >>> program = StanProgram.from_code(
    ...     "data { int N; int J; array[N] int g; vector[N] y; } parameters { vector[J] a; }"
    ...     "model { y ~ normal(a[g], 1); }"
    ... )
    >>> levels = {"g": Names("origin", ("EWR", "JFK"))}
    >>> labels_of(program, NamedData({"N": 3, "J": 2, "g": [1, 2, 1]}, levels))
    Labels(coords={'origin': ('EWR', 'JFK')}, dims={'a': ('origin',)})
    """
    names = {name: found for name, found in names_of(data).items() if found.differ}
    if not names:
        return Labels()
    variables = _variables(program)
    indexed = _indexed(program, names, variables)
    sizes = _sizes(program, names, indexed, variables)
    scope = Scope(data, program.tree.transformed_data)
    taken = {*variables, *_RESERVED}
    coords: dict[str, Sequence[Any]] = {}
    dims: dict[str, Sequence[str]] = {}
    for name, declared in variables.items():
        axes: list[str] = []
        for axis, size in enumerate(declared.size.dims):
            candidates = indexed.get((name, axis)) or sizes.get(expression(size), set())
            found = min(candidates, key=lambda names: names.dim, default=None)
            several = len({names.labels for names in candidates}) > 1
            if found is None or several or evaluate_int(scope, size) != len(found.labels):
                axes.append(f"{name}_dim_{axis}")
                continue
            # A name that no variable and no other axis has: ``g``, ``g_2``, …
            free = chain([found.dim], (f"{found.dim}_{number}" for number in count(2)))
            dim = next(one for one in free if one not in {*taken, *axes})
            axes.append(dim)
            coords[dim] = found.labels
        if any(dim in coords for dim in axes):
            dims[name] = tuple(axes)
    return Labels(coords, dims)


def require_fitting(program: StanProgram, data: Mapping[str, Any], given: Labels) -> None:
    """Raise unless a user's labels name variables of the program, and as many elements as it has.

    >>> program = StanProgram.from_code("data { int J; } parameters { vector[J] a; } model { }")
    >>> require_fitting(program, {"J": 2}, Labels({"group": ["x"]}, {"a": ["group"]}))
    Traceback (most recent call last):
    stancoreset.errors.OptionError: coords['group'] has 1 labels, but 'a' has 2 elements there
    """
    variables = _variables(program)
    scope = Scope(data, program.tree.transformed_data)
    for name, axes in given.dims.items():
        if name not in variables:
            meant = near_misses(name, variables)
            hint = f"did you mean {meant[0]!r}?" if meant else f"it has {', '.join(variables)}"
            raise OptionError(f"dims name {name!r}, which the program does not define; {hint}")
        sizes = variables[name].size.dims
        if len(axes) > len(sizes):
            raise OptionError(
                f"dims[{name!r}] names {len(axes)} dimensions, but {name!r} has {len(sizes)}"
            )
        for axis, size in zip(axes, sizes, strict=False):
            labels = given.coords.get(axis)
            count = None if labels is None else evaluate_int(scope, size)
            if labels is not None and count is not None and len(labels) != count:
                raise OptionError(
                    f"coords[{axis!r}] has {len(labels)} labels, but {name!r} has {count} elements "
                    "there"
                )


def _variables(program: StanProgram) -> dict[str, n.Decl]:
    blocks = (program.parameters, program.transformed_parameters, program.generated_quantities)
    return {declared.name: declared for block in blocks for declared in block}


def _indexed(
    program: StanProgram, names: Mapping[str, Names], variables: Mapping[str, n.Decl]
) -> dict[tuple[str, int], set[Names]]:
    """The names by whose codes each axis of a variable is indexed."""
    tree = program.tree
    body = (*tree.transformed_parameters, *tree.model, *tree.generated_quantities)
    codes = dict(names)
    for declared in n.find_all(body, n.Decl):  # int j = g[n];
        source = part_of(declared.value)
        if declared.name not in variables and source in names:
            codes[declared.name] = names[source]
    found: dict[tuple[str, int], set[Names]] = {}
    for node in n.find_all(body, n.Index):
        for name, axis, index in _axes(node):
            source = part_of(index)
            if source in codes:
                found.setdefault((name, axis), set()).add(codes[source])
    return found


def _axes(e: n.Index) -> Iterator[tuple[str, int, n.Expr]]:
    """The variable, axis and index of each single index of ``a[i, j]`` or ``a[i][j]``."""
    brackets: list[Sequence[n.Indexing]] = []
    base: n.Expr = e
    while isinstance(base, n.Index):
        brackets.insert(0, base.indices)
        base = bare(base.base)
    if not isinstance(base, n.Var):
        return
    axis = 0
    for bracket in brackets:
        for index in bracket:
            if isinstance(index, n.Single):
                yield base.name, axis, index.index
            axis += 1
        if not all(isinstance(index, n.Single) and not index.index.type.rank for index in bracket):
            return  # a further bracket indexes what is left of these axes


def _sizes(
    program: StanProgram,
    names: Mapping[str, Names],
    indexed: Mapping[tuple[str, int], set[Names]],
    variables: Mapping[str, n.Decl],
) -> dict[str, set[Names]]:
    """The names that a size counts, by the size as it is written."""
    found: dict[str, set[Names]] = {}

    def add(size: n.Expr, counted: Names) -> None:
        if not isinstance(bare(size), n.IntLit):  # two axes of three elements have little in common
            found.setdefault(expression(size), set()).add(counted)

    for (name, axis), several in indexed.items():
        if name in variables and axis < len(variables[name].size.dims):
            for counted in several:
                add(variables[name].size.dims[axis], counted)
    for declared in program.data:
        if declared.name not in names:
            continue
        known, upper = names[declared.name], declared.constraint.upper
        sizes = declared.size.dims
        if not sizes:  # int J, which counts them
            found.setdefault(declared.name, set()).add(known)
        elif len(sizes) > 1:  # a matrix, whose columns have names
            add(sizes[-1], known)
        elif upper is not None:
            add(upper, known)
    return found
