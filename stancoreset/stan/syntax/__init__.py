"""Stan's syntax: source, tree and print.

May import the ground floor. Hands out `StanProgram`, `parse`, the `nodes` of the tree, the
`printer`, and queries of the tree.
"""

from __future__ import annotations

from stancoreset.stan.syntax import nodes, printer, stanc
from stancoreset.stan.syntax.names import Names
from stancoreset.stan.syntax.parser import parse
from stancoreset.stan.syntax.printer import expression, statement
from stancoreset.stan.syntax.queries import (
    assigned_names,
    bare,
    has_own_break,
    increments,
    names_in,
    target_vars,
)
from stancoreset.stan.syntax.source import (
    StanProgram,
    stan_model_names,
    stan_model_path,
    without_comments,
)
from stancoreset.stan.syntax.stanc import find_stanc

__all__ = [
    "Names",
    "StanProgram",
    "assigned_names",
    "bare",
    "expression",
    "find_stanc",
    "has_own_break",
    "increments",
    "names_in",
    "nodes",
    "parse",
    "printer",
    "stan_model_names",
    "stan_model_path",
    "stanc",
    "statement",
    "target_vars",
    "without_comments",
]
