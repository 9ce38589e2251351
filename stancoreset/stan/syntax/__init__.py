"""Stan's syntax: source text, syntax tree and printer.

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
    assignments,
    bare,
    body_of,
    constants,
    counted_to,
    declarations,
    derived,
    first_sizes,
    from_first,
    has_own_break,
    increments,
    index_name,
    indexed_name,
    name_of,
    names_in,
    outside_indices,
    own_nodes,
    part_of,
    picks_one,
    renamed,
    rewritten,
    single,
    sizes_of,
    sources,
    substituted,
    target_vars,
    times_assigned,
    unchained,
    values_in,
    with_blocks,
    with_statements,
    without_declarations,
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
    "assignments",
    "bare",
    "body_of",
    "constants",
    "counted_to",
    "declarations",
    "derived",
    "expression",
    "find_stanc",
    "first_sizes",
    "from_first",
    "has_own_break",
    "increments",
    "index_name",
    "indexed_name",
    "name_of",
    "names_in",
    "nodes",
    "outside_indices",
    "own_nodes",
    "parse",
    "part_of",
    "picks_one",
    "printer",
    "renamed",
    "rewritten",
    "single",
    "sizes_of",
    "sources",
    "stan_model_names",
    "stan_model_path",
    "stanc",
    "statement",
    "substituted",
    "target_vars",
    "times_assigned",
    "unchained",
    "values_in",
    "with_blocks",
    "with_statements",
    "without_comments",
    "without_declarations",
]
