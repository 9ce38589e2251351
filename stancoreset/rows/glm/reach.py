"""Parameters that reach the rows, from the syntax tree: a superset, never missing one.

Values at some rows cannot show that a GLM has every parameter: a column or a product that is
zero on all of them hides its coefficient. The tree can. A statement that adds to the log density
is about rows if it, or a definition of its variables, contains a row variable or the weights; then
every parameter in it or in these definitions reaches the rows, whether or not any row shows it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from stancoreset.stan import WeightedProgram
from stancoreset.stan.syntax import nodes as n


def variables(node: n.Node) -> set[str]:
    """Names of all variables in an expression or statement."""
    return {part.name for part in n.walk(node) if isinstance(part, n.Var)}


def reaching_parameters(program: WeightedProgram) -> frozenset[str]:
    """Parameters that the rows' part of the log density may depend on.

    They are a superset: the parameters of a prior in the same statement as the rows' density count.

    >>> from stancoreset.stan import StanProgram, stan_model_path, weighted_program
    >>> path = stan_model_path("hierarchical_logistic")
    >>> "tau" in reaching_parameters(weighted_program(StanProgram.from_file(path)))
    True
    """
    found = frozenset().union(*[reached for _, reached in _adding(program)])
    return frozenset(d.name for d in program.program.parameters if d.name in found)


def about_rows(program: WeightedProgram) -> tuple[n.Stmt, ...]:
    """Statements before generated quantities that the rows' part may depend on: a superset.

    The priors of intercept and slopes are not among those of a logistic regression.

    >>> from stancoreset.stan import StanProgram, stan_model_path, weighted_program
    >>> program = weighted_program(StanProgram.from_file(stan_model_path("logistic")))
    >>> len(steps(program)), len(about_rows(program))
    (5, 3)
    """
    adding = _adding(program)
    statements = [statement for statement, _ in adding]
    found = frozenset().union(*[reached for _, reached in adding])
    return tuple(s for s in steps(program) if s in statements or found & _set(s))


def steps(program: WeightedProgram) -> tuple[n.Stmt, ...]:
    """Statements of the transformed data, the transformed parameters and the model."""
    tree = program.program.tree
    return (*tree.transformed_data, *tree.transformed_parameters, *tree.model)


def _adding(program: WeightedProgram) -> list[tuple[n.Stmt, set[str]]]:
    """Statements that add to the rows' part, each with all variables that this depends on."""
    sources, rows = _sources(program), {*program.rows, program.weights}
    terms = (
        (statement, _closed(variables(inner) | around, sources))
        for statement in steps(program)
        for inner, around in _under(statement)
        if isinstance(inner, n.Tilde | n.TargetAdd | n.VoidCall)
    )
    return [(statement, reached) for statement, reached in terms if reached & rows]


def _sources(program: WeightedProgram) -> Mapping[str, set[str]]:
    """Map each variable to those in statements that set it, or that control whether they run."""
    sources: dict[str, set[str]] = defaultdict(set)
    for declared in program.program.parameters:  # in a multiplier or bound
        sources[declared.name] |= variables(declared.constraint)
    for statement in steps(program):
        for inner, around in _under(statement):
            if isinstance(inner, n.Assign):
                sources[_assigned(inner.target)] |= variables(inner) | around
            elif isinstance(inner, n.Decl) and inner.value is not None:
                sources[inner.name] |= variables(inner.value) | around
            elif isinstance(inner, n.For):
                sources[inner.name] |= variables(inner.lower) | variables(inner.upper)
            elif isinstance(inner, n.ForEach):
                sources[inner.name] |= variables(inner.sequence)
    return sources


def _set(statement: n.Stmt) -> frozenset[str]:
    """Variables that a statement declares or assigns."""
    inside = [inner for inner, _ in _under(statement)]
    declared = {inner.name for inner in inside if isinstance(inner, n.Decl)}
    return frozenset(declared | {_assigned(s.target) for s in inside if isinstance(s, n.Assign)})


def _under(
    statement: n.Node, around: frozenset[str] = frozenset()
) -> Iterator[tuple[n.Node, frozenset[str]]]:
    """Statements within one, each with the variables that control whether and how often it runs."""
    yield statement, around
    if isinstance(statement, n.If | n.While):
        around |= variables(statement.condition)
    elif isinstance(statement, n.For | n.ForEach):
        around |= {statement.name}
    for child in n.children(statement):
        if isinstance(child, n.Statement):
            yield from _under(child, around)


def _assigned(target: n.Node) -> str:
    """The variable that is assigned, in whole or in part."""
    return next(part.name for part in n.walk(target) if isinstance(part, n.Var))


def _closed(names: set[str], sources: Mapping[str, set[str]]) -> set[str]:
    """Names, and all variables that their values depend on."""
    found: set[str] = set()
    waiting = set(names)
    while waiting:
        name = waiting.pop()
        found.add(name)
        waiting |= sources.get(name, set()) - found
    return found
