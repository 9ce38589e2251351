"""Which data integer counts the observations, and which data carry them."""

from __future__ import annotations

from stancoreset.errors import WeaveError
from stancoreset.stan.syntax import bare, names_in
from stancoreset.stan.syntax import expression as text
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.domain import COUNT, FREE, Dep, coupled, rowwise

__all__ = ["candidates", "check_parameters", "data_dependences", "declared", "optional"]


def candidates(program: n.Program) -> tuple[str, ...]:
    """Data integers that size a dimension of some data variable, in order of declaration."""
    sizes = {
        size.name
        for d in program.data
        for size in map(bare, d.size.dims)
        if isinstance(size, n.Var)
    }
    return tuple(d.name for d in program.data if d.name in sizes and d.type == n.Type("int"))


def declared(d: n.Decl, counts: set[str]) -> Dep:
    """Dependence of a data variable from its declared sizes.

    Parameters
    ----------
    d : Decl
    counts : set of str
        The data integer that counts observations, and its aliases.
    """
    dims = [_if_given(bare(size)) for size in d.size.dims]
    axes = [k for k, size in enumerate(dims) if isinstance(size, n.Var) and size.name in counts]
    if any(names_in(i) & counts for i in d.size.items):
        return coupled(f"`{d.name}` is a tuple with rows; declare its members separately")
    if len(axes) > 1:
        return coupled(
            f"`{d.name}` has a row and a column for each observation: it ties every pair together"
        )
    if any(names_in(size) & counts for k, size in enumerate(dims) if k not in axes):
        return coupled(f"the size of `{d.name}` is computed from the number of observations")
    return rowwise(axes[0]) if axes else FREE


def _if_given(size: n.Expr) -> n.Expr:
    """N of a size ``has_offset ? N : 0``: one entry per row, or none at all."""
    if isinstance(size, n.Ternary):
        for one, other in ((size.yes, size.no), (size.no, size.yes)):
            if isinstance(bare(other), n.IntLit) and text(bare(other)) == "0":
                return bare(one)
    return size


def optional(program: n.Program) -> frozenset[str]:
    """Data that have one entry per row, or none at all (``vector[has_offset ? N : 0]``)."""
    return frozenset(
        d.name for d in program.data if any(_if_given(bare(s)) is not bare(s) for s in d.size.dims)
    )


def data_dependences(program: n.Program, obs: str) -> dict[str, Dep]:
    """Dependence of every variable of the data block."""
    return {d.name: COUNT if d.name == obs else declared(d, {obs}) for d in program.data}


def _follows_itself(name: str, program: n.Program) -> str:
    """Where elements of a parameter are tied to each other: ``x[t - 1]``, ``x[2:N]``; or empty."""
    for s in (*program.transformed_parameters, *program.model):
        for e in n.walk(s):
            if isinstance(e, n.Index) and isinstance(e.base, n.Var) and e.base.name == name:
                for i in e.indices:
                    inner = bare(i.index) if isinstance(i, n.Single) else None
                    part = isinstance(i, n.Between | n.From | n.To)
                    if part or (isinstance(inner, n.Binary) and inner.op in "+-"):
                        return text(e)
    return ""


def check_parameters(program: n.Program, counts: set[str]) -> None:
    """Refuse parameters that come with the observations.

    Raises
    ------
    WeaveError
    """
    for d in program.parameters:
        sizes = [*d.size.dims, *(s for i in d.size.items for s in i.dims)]
        if not any(names_in(size) & counts for size in sizes):
            continue
        tied = _follows_itself(d.name, program)
        if tied:
            raise WeaveError(
                d.line,
                f"parameter `{d.name}` has one element per observation, and `{tied}` ties each to "
                "its neighbours, as the states of a state-space model or time series: rows depend "
                "on each other; if there are many such series, let each be one row",
                d.name,
            )
        raise WeaveError(
            d.line,
            f"parameter `{d.name}` has one element per observation, so leaving rows out would "
            "leave parameters out: integrate it out of the density of its row (a latent "
            "normal effect gives normal(mu, sqrt(tau^2 + sigma^2)), a gamma rate gives a "
            "negative binomial, a discrete class gives log_sum_exp over the classes), or let "
            "it belong to a group of rows",
            d.name,
        )
