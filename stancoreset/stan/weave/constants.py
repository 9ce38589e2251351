"""A program with the constants that sampling statements leave out.

Stan drops from ``y ~ normal(mu, 1)`` what does not depend on the parameters, here −½ log 2π for
each y, and keeps it in ``target += normal_lpdf(y | mu, 1)``. The evidence needs it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.sampling import density_call, normalised, truncated_scalar

_N = TypeVar("_N", bound=n.Node)


def with_constants(tree: n.Program) -> n.Program | None:
    """The program without generated quantities, and with every constant of its densities.

    None if a truncated sampling statement is about several values at once.
    """
    functions = {f.name for f in tree.functions}
    tildes = n.find_all((*tree.functions, *tree.model), n.Tilde)
    if any(s.truncated and s.arg.type.rank for s in tildes):
        return None

    def change(node: n.Node) -> n.Node | None:
        if isinstance(node, n.Tilde):
            whole = truncated_scalar(node, functions) if node.truncated else None
            return n.TargetAdd(whole or density_call(node, functions), line=node.line)
        return None

    def changed(part: tuple[_N, ...]) -> tuple[_N, ...]:
        return tuple(normalised(n.transform(node, change)) for node in part)

    return replace(
        tree,
        functions=changed(tree.functions),
        transformed_parameters=changed(tree.transformed_parameters),
        model=changed(tree.model),
        generated_quantities=(),
    )
