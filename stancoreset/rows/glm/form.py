"""Candidate generalised linear models of a program, proposed from its syntax tree.

A program is considered only if what its rows depend on uses functions that are analytic in their
arguments (no branches, no comparisons, no rounding). The prior is left to Stan, whatever it uses.
The tree *proposes* generously, but only GLMs that hold every parameter that reaches the rows
(`stancoreset.rows.glm.reach`); `stancoreset.rows.glm.verify` compares numbers.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from stancoreset.rows.glm.groups import Names, Parameters, group_terms
from stancoreset.rows.glm.kernel import NEGATIVE_BINOMIAL, GlmKernel
from stancoreset.rows.glm.predictor import Coefficients, Term
from stancoreset.rows.glm.reach import about_rows, reaching_parameters, steps, variables
from stancoreset.stan import WeightedProgram
from stancoreset.stan.syntax import nodes as n

_ANALYTIC = frozenset(
    re.findall(
        r"\w+",
        """
    add bernoulli_logit_glm cols columns_dot_product diag_post_multiply diag_pre_multiply
    diagonal divide dot_product dot_self elt_divide elt_multiply exp expm1 head inv inv_logit
    inv_sqrt inv_square lbeta lgamma lmultiply log log1m log1m_inv_logit log1p log1p_exp
    log_inv_logit mean multiply negate num_elements pi prod rep_array rep_matrix
    rep_row_vector rep_vector row rows rows_dot_product segment size sqrt square subtract sum
    tail to_array_1d to_matrix to_row_vector to_vector transpose
    """,
    )
)
_DENSITIES = ("_lpdf", "_lpmf", "_lupdf", "_lupmf")
_SMOOTH_OPERATORS = frozenset({"+", "-", "*", "/", ".*", "./", "^", ".^", "\\", ":"})
_TAILS = ("_lcdf", "_lccdf")


def why_not(program: WeightedProgram) -> str:
    """Reason why the program cannot be considered; empty if it can."""
    constants = {d.name for d in program.program.data} - {*program.rows, program.weights}
    inputs = constants | {d.name for d in program.program.parameters}
    conditions: set[int] = set()
    for node in _nodes(program):
        if id(node) in conditions:
            continue
        if isinstance(node, n.If | n.Ternary) and variables(node.condition) <= constants:
            # All rows and parameter values take the same branch.
            conditions |= {id(part) for part in n.walk(node.condition)}
        elif isinstance(node, n.If | n.While | n.Ternary):
            return "the program has branches"
        elif isinstance(node, n.Binary | n.Unary) and node.op not in _SMOOTH_OPERATORS:
            return f"the program uses the operator {node.op}"
        elif isinstance(node, n.Call) and not _is_analytic(node, inputs):
            return f"the program uses {node.name}"
        elif isinstance(node, n.Tilde) and node.truncated:
            return "the program has a truncated distribution"
    return ""


def _is_analytic(call: n.Call, inputs: set[str]) -> bool:
    if call.user or call.name in _ANALYTIC or call.name.endswith(_DENSITIES):
        return True
    # The constant of a truncated prior: no row is in it.
    return call.name.endswith(_TAILS) and all(variables(arg) <= inputs for arg in call.args)


def _nodes(program: WeightedProgram) -> Iterator[n.Node]:
    tree = program.program.tree
    for statement in (*tree.functions, *about_rows(program), *tree.generated_quantities):
        yield from n.walk(statement)


def proposals(
    program: WeightedProgram,
    param_names: Sequence[str],
    data: Mapping[str, Any],
    most: int = 200,
) -> Iterator[GlmKernel]:
    """List GLMs that may equal the program's likelihood, the most likely first.

    `data` are some rows and all other data, whose shapes are used; scalars may be σ or φ.
    `param_names` are those of the unconstrained parameters, ``beta.1``, …
    """
    return itertools.islice(_proposals(program, param_names, data), most)


def _proposals(
    program: WeightedProgram, param_names: Sequence[str], data: Mapping[str, Any]
) -> Iterator[GlmKernel]:
    parameters = Parameters(program, param_names)
    reaching = parameters.columns(reaching_parameters(program))
    names = _names(program, parameters)
    scales = tuple(_scales(program, parameters, data))
    groups = list(group_terms(names, parameters, data))
    bounds = tuple(_bounds(program, data))
    for family, outcomes in (
        ("bernoulli_logit", names.integers),
        ("poisson_log", names.integers),
        ("normal", names.vectors),
        (NEGATIVE_BINOMIAL, names.integers),
    ):
        for outcome, grouped in itertools.product(outcomes, groups):
            if any(outcome in (term.group, term.variable) for term in grouped):
                continue
            for terms in _predictors(names, parameters, outcome, grouped, data, program):
                taken = {c for t in terms for c in t.columns}
                for intercept in _intercepts(program, parameters, taken):
                    for scale in scales if family in ("normal", NEGATIVE_BINOMIAL) else (None,):
                        coefficients = Coefficients((*intercept, *terms), scale)
                        if reaching <= coefficients.parameters:
                            yield GlmKernel(family, outcome, program.weights, coefficients, bounds)


def _bounds(
    program: WeightedProgram, data: Mapping[str, Any]
) -> Iterator[tuple[str, float, float]]:
    """Declared bounds of row variables, which Stan would check but does not see every row."""
    for declared in program.program.data:
        if declared.name in program.rows and declared.constraint.kind == "bounds":
            lower, upper = declared.constraint.lower, declared.constraint.upper
            yield declared.name, _number(lower, data, -np.inf), _number(upper, data, np.inf)


def _number(node: n.Node | None, data: Mapping[str, Any], otherwise: float) -> float:
    """The value of a literal or a scalar of the data; `otherwise` for anything else."""
    if isinstance(node, n.Unary) and node.op == "-":
        return -_number(node.arg, data, -otherwise)
    if isinstance(node, n.IntLit | n.RealLit):
        return float(node.text)
    value = data.get(node.name) if isinstance(node, n.Var) else None
    return float(value) if isinstance(value, int | float) else otherwise


def _names(program: WeightedProgram, parameters: Parameters) -> Names:
    tree = program.program.tree
    declared = {d.name: d for d in program.program.data}
    used = set().union(*map(variables, (*steps(program), *tree.generated_quantities)))
    rows = [name for name in program.rows if name in used]
    rank = {name: len(declared[name].size.dims) for name in rows}
    whole = {name: declared[name].type.base == "int" for name in rows}
    integers = tuple(r for r in rows if rank[r] == 1 and whole[r])
    nodes = list(_nodes(program))
    indexed = tuple(dict.fromkeys(_indexed(nodes, set(integers), set(rows))))
    coefficients = {*parameters.free, *(array for array, _ in indexed)}
    return Names(
        matrices=tuple(r for r in rows if rank[r] == 2 and not whole[r]),
        vectors=tuple(r for r in rows if rank[r] == 1 and not whole[r]),
        integers=integers,
        products=frozenset(_products(nodes, set(rows), coefficients)),
        indexed=indexed,
        definitions={array: _defining(program, nodes, array) for array, _ in indexed},
    )


def _indexed(
    nodes: Iterable[n.Node], integers: set[str], rows: set[str]
) -> Iterator[tuple[str, str]]:
    """Pairs of a variable indexed by a row's group, ``a[g]`` or ``a[g[n], k]``, and the group."""
    for node in nodes:
        if not isinstance(node, n.Index) or not node.indices:
            continue
        index = node.indices[0]
        group = _base(index.index) if isinstance(index, n.Single) else ""
        array = _base(node.base)
        if group in integers and array and array not in rows:
            yield array, group


def _defining(program: WeightedProgram, nodes: Iterable[n.Node], array: str) -> frozenset[str]:
    """Variables in the statements that define a variable or its multiplier."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, n.Assign):
            target = _base(node.target)
        elif isinstance(node, n.Decl):
            target = node.name
        else:
            continue
        if target == array and node.value is not None:
            found |= variables(node.value)
    for declared in program.program.parameters:
        if declared.name == array and declared.constraint.multiplier is not None:
            found |= variables(declared.constraint.multiplier)
    return frozenset(found - {array})


def _products(
    nodes: Iterable[n.Node], rows: set[str], parameters: set[str]
) -> Iterator[tuple[str, str]]:
    """Pairs of a row variable and a parameter that are factors of one product."""
    for node in nodes:
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
    names: Names,
    parameters: Parameters,
    outcome: str,
    grouped: tuple[Term, ...],
    data: Mapping[str, Any],
    program: WeightedProgram,
) -> Iterator[tuple[Term, ...]]:
    """Each row variable except the outcome, with a parameter that multiplies it or alone."""
    rows = program.n_obs(data)
    within_groups = {name for term in grouped for name in (term.group, term.variable)}
    choices: list[list[tuple[Term, ...]]] = []
    for variable in (*names.matrices, *names.vectors, *names.integers):
        if variable == outcome:
            continue
        width = np.size(data[variable]) // rows
        found: list[tuple[Term, ...]] = [
            (Term(variable, parameters.free[p]),)
            for v, p in sorted(names.products)
            if v == variable and len(parameters.free.get(p, ())) == width
        ]
        if variable in within_groups:
            found.append(())
        elif variable not in names.matrices:
            found.append((Term(variable, ()),))
        choices.append(found)
    for terms in itertools.product(*choices):
        yield (*itertools.chain(*terms), *grouped)


def _intercepts(
    program: WeightedProgram, parameters: Parameters, taken: set[int]
) -> Iterator[tuple[Term, ...]]:
    scalars = {d.name for d in program.program.parameters if not d.size.dims}
    for name, where in parameters.free.items():
        if name in scalars and not taken & set(where):
            yield (Term(None, where),)
    yield ()


def _scales(
    program: WeightedProgram, parameters: Parameters, data: Mapping[str, Any]
) -> Iterator[int | float]:
    """Candidates for σ or φ: positive parameters, sampled as their log; positive data; one."""
    for where in parameters.positive.values():
        if len(where) == 1:
            yield where[0]
    for decl in program.program.data:
        value = data.get(decl.name)
        if decl.type == n.Type("real") and isinstance(value, float) and value > 0:
            yield value
    yield 1.0
