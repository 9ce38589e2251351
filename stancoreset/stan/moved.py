"""Programs with a declaration moved from the block of data to that of parameters, or back.

With weights as parameters, the gradient along them is the rows' log likelihoods. With a parameter
as data, a chain moves the others alone.
"""

from __future__ import annotations

from dataclasses import replace

from stancoreset.stan.syntax import StanProgram, names_in, printer
from stancoreset.stan.syntax import nodes as n
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
    """A program with one of its parameters as data.

    >>> moved = parameter_as_data("parameters { real a; real b; } model { a ~ normal(b, 1); }", "b")
    >>> print(moved.partition("model")[0])
    data {
      real b;
    }
    parameters {
      real a;
    }
    <BLANKLINE>
    """
    tree = StanProgram.from_code(code).tree
    moved, parameters = _parted(tree.parameters, name)
    return printer.program(replace(tree, data=(*tree.data, *moved), parameters=parameters))


def _parted(
    declarations: tuple[n.Decl, ...], name: str
) -> tuple[tuple[n.Decl, ...], tuple[n.Decl, ...]]:
    """The declaration of a variable, without its constraint, and all others."""
    moved = tuple(
        replace(d, constraint=n.Constraint(), value=None) for d in declarations if d.name == name
    )
    return moved, tuple(d for d in declarations if d.name != name)
