"""Programs with a declaration moved from the block of data to that of parameters, or back.

With weights as parameters, the gradient along them is the rows' log likelihoods. With a parameter
as data, and without its own density, a chain moves the others alone.
"""

from __future__ import annotations

from dataclasses import replace

from stancoreset.stan.syntax import StanProgram, names_in, part_of, printer
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave import filtered
from stancoreset.stan.weighted import WeightedProgram


def weights_as_parameters(weighted: WeightedProgram) -> str | None:
    """The density's program with its weights as last parameters, which are any real numbers.

    None where transformed data read the weights.
    """
    tree = weighted.program.tree
    if weighted.weights in names_in(tree.transformed_data):
        return None
    moved, data = _parted(tree.data, weighted.weights)
    parameters = (*tree.parameters, *moved)
    return printer.program(replace(tree, data=data, parameters=parameters, generated_quantities=()))


def parameter_as_data(code: str, name: str) -> str:
    """A program with one of its parameters as data, and without the density of that parameter.

    Statements ``name ~ f(…)`` and ``target += f_lpdf(name | …)`` are left out. A density that is
    written in another way stays: whether the program has the others' density must be tried.

    >>> code = "parameters { real a; real b; } model { b ~ normal(0, a); a ~ exponential(1); }"
    >>> print(parameter_as_data(code, "b"))
    data {
      real b;
    }
    parameters {
      real a;
    }
    model {
      a ~ exponential(1);
    }
    <BLANKLINE>
    """
    tree = StanProgram.from_code(code).tree
    moved, parameters = _parted(tree.parameters, name)
    model = filtered(tree.model, lambda s, _: not _gives_density(s, name))
    tree = replace(tree, data=(*tree.data, *moved), parameters=parameters, model=tuple(model))
    return printer.program(tree)


def _gives_density(s: n.Stmt, name: str) -> bool:
    """Whether a statement is ``name ~ f(…)`` or ``target += f_lpdf(name | …)``, or of elements."""
    match s:
        case n.Tilde(arg=arg):
            return part_of(arg) == name
        case n.TargetAdd(value=n.Call(name=function, args=(arg, *_))):
            return function.endswith(("_lpdf", "_lupdf")) and part_of(arg) == name
    return False


def _parted(
    declarations: tuple[n.Decl, ...], name: str
) -> tuple[tuple[n.Decl, ...], tuple[n.Decl, ...]]:
    """The declaration of a variable, without its constraint, and all others."""
    moved = tuple(
        replace(d, constraint=n.Constraint(), value=None) for d in declarations if d.name == name
    )
    return moved, tuple(d for d in declarations if d.name != name)
