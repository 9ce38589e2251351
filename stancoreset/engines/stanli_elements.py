"""Elements of matrices in nested loops, written so that stanli 0.24 reads the right ones.

    for (i in 1:I) for (j in 1:J) y[i, j] ~ normal(m[i, j], s);

stanli evaluates such densities together. Where I is large against J and m depends on parameters, it
runs through m by columns and through all else by rows: the log density is a finite number, and
wrong. A prior ``m[i, j] ~ normal(0, tau[j])`` stands in the woven program as in the author's, so
comparing the two would not tell. ``m[i][j]`` is read rightly.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from stancoreset.errors import StancoresetError
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.syntax import parse, printer

__all__ = ["with_rows_first"]

# Most programs have none, and need not be parsed.
_MAY_HAVE_SOME = re.compile(r"\b(?:for|while)\b.*\b(?:for|while)\b.*\[[^\]]*,", re.DOTALL)
_MATRIX = re.compile(r"\b(?:matrix|(?:cholesky_factor|corr|cov)_\w+)\b")


def with_rows_first(code: str) -> str:
    """The program with ``m[i][j]`` for each ``m[i, j]`` in an increment inside nested loops."""
    if not (_MAY_HAVE_SOME.search(code) and _MATRIX.search(code)):
        return code
    try:
        program = parse(code)
    except StancoresetError:  # which stanli says of the text as it is
        return code
    changed = n.transform(program, _inside(0))
    return code if changed == program else printer.program(changed)


def _inside(loops: int) -> Callable[[n.Node], n.Node | None]:
    """The change of what stands inside so many loops."""

    def change(node: n.Node) -> n.Node | None:
        match node:
            case n.For() | n.ForEach() | n.While():
                return replace(node, body=n.transform(node.body, _inside(loops + 1)))
            case n.Tilde() | n.TargetAdd() if loops > 1:
                return n.transform(node, _row_first)  # type: ignore[no-any-return]
        return None

    return change


def _row_first(node: n.Node) -> n.Node | None:
    """``m[i][j]`` for ``m[i, j]``; None for all else."""
    if not isinstance(node, n.Index) or node.base.type.base != "matrix" or node.type.rank:
        return None
    *first, last = (n.transform(i, _row_first) for i in node.indices)
    if not first:  # m[i][j] as it is
        return None
    row = n.Index(node.base, tuple(first), type=n.Type("row_vector"))
    return replace(node, base=row, indices=(last,))
