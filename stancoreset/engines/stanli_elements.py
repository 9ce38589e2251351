"""Elements of matrices in loops, written so that stanli 0.24 reads the right ones.

    for (i in 1:I) for (j in 1:J) y[i, j] ~ normal(m[i, j], s);
    for (i in 1:I) y[i, 1:2] ~ normal(m[i, 1:2], s);

stanli evaluates such densities together. Where I is large against J and m depends on parameters, it
runs through m by columns and through all else by rows: the log density is a finite number, and
wrong. A prior ``m[i, j] ~ normal(0, tau[j])`` stands in the woven program as in the author's, so
comparing the two would not tell. ``m[i][j]`` and ``m[i][1:2]`` are read rightly.

Of an array of vectors the element ``b[i][j]`` is written ``b[i, j]``, which does not copy the
vector: densities and gradients take a tenth of the time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from stancoreset.errors import StancoresetError
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.syntax import parse, printer, unchained

# Most programs have none, and need not be parsed.
_MAY_HAVE_SOME = re.compile(r"\b(?:for|while)\b.*\[[^\]]*,", re.DOTALL)
_CHAINED = re.compile(r"\]\s*\[")
_MATRIX = re.compile(r"\b(?:matrix|(?:cholesky_factor|corr|cov)_\w+)\b")


def with_rows_first(code: str) -> str:
    """The program with ``m[i][j]`` for ``m[i, j]`` where that may be misread.

    So are elements in increments inside nested loops, and parts of rows inside any loop.
    """
    misread = _MAY_HAVE_SOME.search(code) and _MATRIX.search(code)
    if not (misread or _CHAINED.search(code)):
        return code
    try:
        program = parse(code)
    except StancoresetError:  # which stanli says of the text as it is
        return code
    changed = n.transform(n.transform(program, _inside(0)), _unchained)
    return code if changed == program else printer.program(changed)


def _inside(loops: int) -> Callable[[n.Node], n.Node | None]:
    """The change of what stands inside so many loops."""

    def change(node: n.Node) -> n.Node | None:
        match node:
            case n.For() | n.ForEach() | n.While():
                return replace(node, body=n.transform(node.body, _inside(loops + 1)))
            case n.Tilde() | n.TargetAdd() if loops > 1:
                return n.transform(node, _row_first)  # type: ignore[no-any-return]
            case n.Assign() if loops:
                return replace(node, value=n.transform(node.value, _part_of_row))
            case n.Tilde() | n.TargetAdd() | n.Decl() if loops:
                return n.transform(node, _part_of_row)  # type: ignore[no-any-return]
        return None

    return change


def _unchained(node: n.Node) -> n.Node | None:
    """``b[i, j]`` for ``b[i][j]`` of an array; None for all else."""
    if not isinstance(node, n.Index) or (whole := unchained(node)) is node:
        return None
    return n.transform(whole, _unchained)  # type: ignore[no-any-return]


def _row_first(node: n.Node) -> n.Node | None:
    """``m[i][j]`` for ``m[i, j]``, and ``m[i][1:2]`` for ``m[i, 1:2]``; None for all else."""
    if not isinstance(node, n.Index) or node.base.type.base != "matrix":
        return None
    *first, last = (n.transform(i, _row_first) for i in node.indices)
    part = node.type.base == "row_vector" and not node.type.array
    if not first or isinstance(last, n.All) or not (part or node.type.rank == 0):
        return None
    row = n.Index(node.base, tuple(first), type=n.Type("row_vector"))
    return replace(node, base=row, indices=(last,))


def _part_of_row(node: n.Node) -> n.Node | None:
    """``m[i][1:2]`` for ``m[i, 1:2]``; None for all else."""
    return _row_first(node) if isinstance(node, n.Index) and node.type.rank else None
