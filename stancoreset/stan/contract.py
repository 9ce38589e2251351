"""The observation contract, read from declarations: data with rows, and data that cannot be cut.

Refusals name the variable and its line, and say what to write instead. What declarations
cannot show (functions that couple rows, a likelihood left unweighted) is for the numerical
identities.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stancoreset.errors import ProgramError
from stancoreset.stan.data import declared
from stancoreset.stan.syntax import bare, derived, expression, name_of, names_in
from stancoreset.stan.syntax import nodes as n

WEIGHTS = "weights"
LOG_LIK = "log_lik"

_WHAT_TO_WRITE = """\
  in data:                  vector<lower=0>[N] weights;
  in model:                 target += weights[n] * <log density of row n>;
  in generated quantities:  vector[N] log_lik;  // log_lik[n] = <log density of row n>"""


def has_size(size: n.Expr, obs: str) -> bool:
    """Whether a size is, or is computed from, the number of observations."""
    return obs in names_in(size)


def _at(decl: n.Decl) -> str:
    return f"'{decl.name}' ({declared(decl)}, line {decl.line})"


# --- the axis of observations ------------------------------------------------------------


def observation_count(tree: n.Program, name: str, obs: str | None = None) -> str:
    """Name of the data integer that counts observations: the size of ``weights``."""
    integers = {d.name for d in tree.data if d.type == n.INT}
    if obs is not None and obs not in integers:
        raise ProgramError(
            f"obs={obs!r} is not an integer of the data block of '{name}'; "
            f"it declares {', '.join(sorted(integers)) or 'none'}"
        )
    weights = next((d for d in tree.data if d.name == WEIGHTS), None)
    if weights is None:
        raise ProgramError(
            f"program '{name}' has no `weights` in its data block, so its rows cannot be "
            f"weighted; write, with N your number of observations:\n{_WHAT_TO_WRITE}"
        )
    if weights.type.base not in ("vector", "real") or weights.type.rank != 1:
        raise ProgramError(f"{_at(weights)} is not one number per row; {_weights_wanted(obs)}")
    size = weights.size.dims[0]
    if isinstance(size, n.Var) and size.name in integers and obs in (None, size.name):
        return size.name
    if obs is None or has_size(size, obs):
        raise ProgramError(
            f"the size of {_at(weights)} is not the name of a data integer; {_weights_wanted(obs)}"
        )
    raise ProgramError(
        f"obs={obs!r}, but {_at(weights)} has the size {expression(size)}; {_weights_wanted(obs)}"
    )


def _weights_wanted(obs: str | None) -> str:
    return f"declare it as vector<lower=0>[{obs or 'N'}] {WEIGHTS};"


def observation_axes(data: Sequence[n.Decl], obs: str) -> dict[str, int]:
    """Data variables that carry observations, and on which axis.

    A ProgramError is raised if a variable has two axes of observations, or a size computed from
    their number.
    """
    axes: dict[str, int] = {}
    for decl in data:
        if any(obs in names_in(item) for item in decl.size.items):
            raise ProgramError(
                f"data variable '{decl.name}' (line {decl.line}) is a tuple with members of size "
                f"{obs}; declare its members as separate variables, which can be cut to rows"
            )
        found = [axis for axis, size in enumerate(decl.size.dims) if name_of(bare(size)) == obs]
        computed = [s for s in decl.size.dims if has_size(s, obs) and name_of(bare(s)) != obs]
        if computed:
            raise ProgramError(
                f"the size {expression(computed[0])} of data variable {_at(decl)} is computed from "
                f"{obs}, the number of observations, so it is not clear which part of it belongs "
                f"to which row; declare it as [{obs}] if it has one element per row, or with a "
                "size of its own if it has not; if rows are counted by another integer, name it "
                "with obs="
            )
        if len(found) > 1:
            raise ProgramError(
                f"data variable {_at(decl)} has {len(found)} axes of size {obs}: it couples "
                "observations with each other, and a subset of rows has no weighted likelihood; "
                f"if one of the axes does not count observations, give it a size of its own"
            )
        if found:
            axes[decl.name] = found[0]
    return axes


# --- the rest of the contract ------------------------------------------------------------


def check_contract(tree: n.Program, obs: str, rows: Mapping[str, int]) -> None:
    """Refuse programs whose data cannot be cut to a few weighted rows.

    Refused are weights that the density does not use; a ``log_lik`` that is absent or not of size
    N; a parameter per observation; support, transformed data or other data bounds computed from
    `rows`, which `observation_axes` gives.
    """
    if not uses_weights(tree):
        raise ProgramError(
            f"`{WEIGHTS}` is declared but never used in the model block, so every row counts the "
            f"same whatever its weight; write:\n{_WHAT_TO_WRITE}"
        )
    _require_log_lik(tree, obs)
    for decl in tree.data:
        if obs in names_in(decl.constraint):
            raise ProgramError(
                f"data variable {_at(decl)} is bounded by {obs}, the number of observations: if it "
                "points at rows, it would point at others once rows are left out; give each row "
                f"what it needs in variables of size {obs}, or drop the bound if it does not point "
                "at rows"
            )
    for decl in tree.parameters:
        _refuse_row_parameter(decl, obs, rows)
    _refuse_reductions(tree, obs, rows)


def uses_weights(tree: n.Program) -> bool:
    """Whether the model block uses ``weights``, or what is computed from them."""
    carriers = {WEIGHTS}
    for block in (tree.transformed_data, tree.transformed_parameters):
        carriers |= derived(block, carriers)
    return any(carriers & names_in(statement) for statement in tree.model)


def _require_log_lik(tree: n.Program, obs: str) -> None:
    found = [s for s in tree.generated_quantities if isinstance(s, n.Decl) and s.name == LOG_LIK]
    wanted = (
        f"write in generated quantities: vector[{obs}] {LOG_LIK}; with {LOG_LIK}[n] the log "
        "density of row n, without its weight"
    )
    if not found:
        raise ProgramError(f"the program has no `{LOG_LIK}`; {wanted}")
    decl = found[0]
    one_per_row = decl.type.rank == 1 and decl.type.base in ("vector", "row_vector", "real")
    if not one_per_row or name_of(bare(decl.size.dims[0])) != obs:
        raise ProgramError(f"{_at(decl)} is not one number per row; {wanted}")


def _refuse_row_parameter(decl: n.Decl, obs: str, rows: Mapping[str, int]) -> None:
    sized = [size for size in decl.size.dims if has_size(size, obs)]
    if sized:
        raise ProgramError(
            f"parameter {_at(decl)} grows with {obs}, the number of observations: rows that a "
            "coreset leaves out would take their parameters with them; integrate it out of the "
            "density of its row, or let it belong to a group of rows"
        )
    support = names_in(decl.constraint) & (rows.keys() | {obs})
    if support:
        raise ProgramError(
            f"the constraint of parameter {_at(decl)} is computed from '{min(support)}', which "
            "changes when rows are left out, and with it the parameter's support; compute the "
            "bound on all rows beforehand and pass it as data of its own"
        )


def _refuse_reductions(tree: n.Program, obs: str, rows: Mapping[str, int]) -> None:
    """Refuse transformed data that are computed from rows but not row by row (means, counts)."""
    unweighted = set(rows) - {WEIGHTS}
    weighted = derived(tree.transformed_data, {WEIGHTS}) | {WEIGHTS}
    decls = {s.name: s for s in tree.transformed_data if isinstance(s, n.Decl)}
    from_rows = derived(tree.transformed_data, unweighted)
    for name in decls:  # in the order of declaration: the first to blame comes first
        decl = decls[name]
        if name not in from_rows or name in weighted:
            continue
        if not any(name_of(bare(size)) == obs for size in decl.size.dims):
            raise ProgramError(
                f"transformed data {_at(decl)} are computed from data rows but have no element "
                f"per row ([{obs}]): they would change when rows are left out; compute them on all "
                "rows beforehand and declare them in the data block"
            )
