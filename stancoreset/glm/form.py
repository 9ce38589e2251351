"""Which programs may be generalised linear models: read off the syntax tree, conservatively.

A program is considered only if it is made of functions that are analytic in their arguments
(no branches, no comparisons, no rounding). Then each row's log likelihood is one analytic
function of the row and the parameters, and where it equals a GLM's at random rows and random
parameters, it equals it everywhere. So the tree only has to *propose*, generously;
`stancoreset.glm.verify` compares numbers.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stancoreset.glm.kernel import Coefficients, GlmKernel, Term
from stancoreset.stan import nodes as n
from stancoreset.stan.program import WeightedProgram

__all__ = ["proposals", "why_not"]

_ANALYTIC = frozenset(
    re.findall(
        r"\w+",
        """
    add bernoulli_logit_glm cols columns_dot_product diag_post_multiply diag_pre_multiply
    diagonal divide dot_product dot_self elt_divide elt_multiply exp expm1 head inv inv_logit
    inv_sqrt inv_square lgamma log log1m log1m_inv_logit log1p log1p_exp log_inv_logit mean
    multiply negate num_elements pi prod rep_array rep_matrix rep_row_vector rep_vector row rows
    rows_dot_product segment size sqrt square subtract sum tail to_array_1d to_matrix
    to_row_vector to_vector transpose
    """,
    )
)
_DENSITIES = ("_lpdf", "_lpmf", "_lupdf", "_lupmf")
_SMOOTH_OPERATORS = frozenset({"+", "-", "*", "/", ".*", "./", "^", ".^", "\\", ":"})
_MAX_PROPOSALS = 200


def why_not(program: WeightedProgram) -> str:
    """Why the program cannot be considered; empty if it can."""
    for node in _nodes(program):
        if isinstance(node, n.If | n.While | n.Ternary):
            return "the program has branches"
        if isinstance(node, n.Binary) and node.op not in _SMOOTH_OPERATORS:
            return f"the program uses the operator {node.op}"
        if isinstance(node, n.Unary) and node.op not in ("-", "+"):
            return f"the program uses the operator {node.op}"
        if (
            isinstance(node, n.Call)
            and not node.user
            and node.name not in _ANALYTIC
            and not node.name.endswith(_DENSITIES)
        ):
            return f"the program uses {node.name}"
        if isinstance(node, n.Tilde) and node.truncated:
            return "the program has a truncated distribution"
    return ""


def _nodes(program: WeightedProgram) -> Iterator[n.Node]:
    tree = program.program.tree
    for part in (
        tree.functions,
        tree.transformed_data,
        tree.transformed_parameters,
        tree.model,
        tree.generated_quantities,
    ):
        for statement in part:
            yield from n.walk(statement)


@dataclass(frozen=True)
class _Names:
    """What the program declares, sorted by the part it may play."""

    matrices: tuple[str, ...]
    vectors: tuple[str, ...]
    integers: tuple[str, ...]
    products: frozenset[tuple[str, str]]


def proposals(
    program: WeightedProgram, param_names: Sequence[str], data: Mapping[str, Any]
) -> Iterator[GlmKernel]:
    """GLMs that the program may be, the likely ones first.

    Parameters
    ----------
    program : WeightedProgram
    param_names : sequence of str
        Of the unconstrained parameters, ``beta.1``, …
    data : mapping
        Some rows, and all data beside them: their shapes count, and scalars may be σ.
    """
    return itertools.islice(_proposals(program, param_names, data), _MAX_PROPOSALS)


def _proposals(
    program: WeightedProgram, param_names: Sequence[str], data: Mapping[str, Any]
) -> Iterator[GlmKernel]:
    columns = _columns(program, param_names)
    names = _names(program, columns)
    scales = tuple(_scales(program, param_names, data))
    for family, outcomes in (
        ("bernoulli_logit", names.integers),
        ("poisson_log", names.integers),
        ("normal", names.vectors),
    ):
        for outcome in outcomes:
            for terms in _predictors(names, columns, outcome, data, program.n_obs(data)):
                taken = {c for t in terms for c in t.columns}
                for intercept in _intercepts(program, columns, taken):
                    for scale in scales if family == "normal" else (None,):
                        yield GlmKernel(
                            family,
                            outcome,
                            program.weights,
                            Coefficients((*intercept, *terms), scale),
                        )


def _columns(program: WeightedProgram, param_names: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Unconstrained parameters of each variable that is real and needs no transform."""
    free = {
        d.name
        for d in program.program.parameters
        if d.constraint.kind == "none" and d.type.base in ("real", "vector", "row_vector")
    }
    found: dict[str, list[int]] = {}
    for j, name in enumerate(param_names):
        base = name.split(".")[0]
        if base in free:
            found.setdefault(base, []).append(j)
    return {name: tuple(js) for name, js in found.items()}


def _names(program: WeightedProgram, columns: Mapping[str, Sequence[int]]) -> _Names:
    tree = program.program.tree
    declared = {d.name: d for d in program.program.data}
    used = {
        node.name
        for part in (tree.transformed_parameters, tree.model, tree.generated_quantities)
        for statement in part
        for node in n.walk(statement)
        if isinstance(node, n.Var)
    } | {
        node.name
        for statement in tree.transformed_data
        for node in n.walk(statement)
        if isinstance(node, n.Var)
    }
    rows = [name for name in program.rows if name in used]
    rank = {name: len(declared[name].size.dims) for name in rows}
    whole = {name: declared[name].type.base == "int" for name in rows}
    return _Names(
        matrices=tuple(r for r in rows if rank[r] == 2 and not whole[r]),
        vectors=tuple(r for r in rows if rank[r] == 1 and not whole[r]),
        integers=tuple(r for r in rows if rank[r] == 1 and whole[r]),
        products=frozenset(_products(program, set(rows), set(columns))),
    )


def _products(
    program: WeightedProgram, rows: set[str], parameters: set[str]
) -> Iterator[tuple[str, str]]:
    """Pairs of a row variable and a parameter that stand on both sides of one product."""
    for node in _nodes(program):
        sides: Sequence[n.Node] = ()
        if isinstance(node, n.Binary) and node.op in ("*", ".*"):
            sides = (node.left, node.right)
        elif isinstance(node, n.Call):
            sides = node.args
        elif isinstance(node, n.Tilde):
            sides = (node.arg, *node.args)
        bases = [_base(side) for side in sides]
        for left, right in itertools.permutations(bases, 2):
            if left in rows and right in parameters:
                yield left, right


def _base(node: n.Node) -> str:
    """The variable under indices, parentheses and transposition."""
    while True:
        if isinstance(node, n.Index):
            node = node.base
        elif isinstance(node, n.Paren | n.Transpose):
            node = node.arg
        elif isinstance(node, n.Call) and node.name in ("to_vector", "to_row_vector") and node.args:
            node = node.args[0]
        else:
            return node.name if isinstance(node, n.Var) else ""


def _predictors(
    names: _Names,
    columns: Mapping[str, tuple[int, ...]],
    outcome: str,
    data: Mapping[str, Any],
    rows: int,
) -> Iterator[tuple[Term, ...]]:
    """Each row variable but the outcome with a parameter that it is multiplied by, or alone."""
    choices: list[list[Term]] = []
    for variable in (*names.matrices, *names.vectors, *names.integers):
        if variable == outcome:
            continue
        width = np.size(data[variable]) // rows
        found = [
            Term(variable, columns[p])
            for v, p in sorted(names.products)
            if v == variable and len(columns[p]) == width
        ]
        if variable not in names.matrices:
            found.append(Term(variable, ()))
        choices.append(found)
    yield from itertools.product(*choices)


def _intercepts(
    program: WeightedProgram, columns: Mapping[str, tuple[int, ...]], taken: set[int]
) -> Iterator[tuple[Term, ...]]:
    scalars = {d.name for d in program.program.parameters if not d.size.dims}
    for name, where in columns.items():
        if name in scalars and not taken & set(where):
            yield (Term(None, where),)
    yield ()


def _scales(
    program: WeightedProgram, param_names: Sequence[str], data: Mapping[str, Any]
) -> Iterator[int | float]:
    """Positive parameters, which Stan samples as log σ; positive numbers among the data; one."""
    names = list(param_names)
    for decl in program.program.parameters:
        c = decl.constraint
        positive = isinstance(c.lower, n.IntLit | n.RealLit) and float(c.lower.text) == 0.0
        if c.kind == "bounds" and positive and c.upper is None and decl.name in names:
            yield names.index(decl.name)
    for decl in program.program.data:
        value = data.get(decl.name)
        if decl.type == n.Type("real") and isinstance(value, float) and value > 0:
            yield value
    yield 1.0
