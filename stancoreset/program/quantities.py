"""Generated quantities of the author's program, evaluated on the full data.

NUTS runs on the coreset without them. `with_quantities` adds those that are few and cheap to a
posterior; `stancoreset.runs.stan_csv` writes all of them to files.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from stancoreset.engines import BoundModel, Compiled, Engine, Float, StanData
from stancoreset.errors import DataError, OptionError, StancoresetError
from stancoreset.posterior import arviz
from stancoreset.rows import TOLERANCE
from stancoreset.rows.tables import Source, StoredRows
from stancoreset.stan import Labels, StanProgram, WeightedProgram, has_size
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.syntax import printer
from stancoreset.stan.weave import needed, with_whole_loops

#: Largest number of values, of all generated quantities together, that a posterior has per draw.
MOST = 1_000
# Largest number of values of quantities with an element per row, in all draws, that are computed
# on the way to fewer ones, such as the mean of replications: seconds of computing.
_ON_THE_WAY = 200_000_000


def known_quantities(original: StanProgram, names: Sequence[str] | None) -> tuple[str, ...]:
    """The names of generated quantities, all by default; one that is not defined is an error."""
    defined = [declared.name for declared in original.generated_quantities]
    unknown = [name for name in (() if names is None else names) if name not in defined]
    if unknown:
        raise OptionError(
            f"the program has no generated quantity {unknown[0]}; it defines "
            f"{', '.join(defined) or 'none'}"
        )
    return tuple(defined if names is None else names)


def bind_original(
    compiled: Compiled, original: StanProgram, checked: StanData, seed: int = 0
) -> BoundModel:
    """Bind the author's program, with its generated quantities, to the full data."""
    return compiled.bind({d.name: checked[d.name] for d in original.data}, seed=seed)


def read_whole(program: WeightedProgram, data: Any) -> StanData:
    """Read and check the full data, which must be in memory.

    Raises
    ------
    DataError
        If the data are wrong, or rows that stay on disk.
    """
    if isinstance(data, Source) and not isinstance(data, type):
        data = data.open_for(program)
    if isinstance(data, StoredRows):
        raise DataError(
            f"generated quantities need all {program.n_obs(data)} rows in memory, but they are on "
            "disk: load them with Table(memory=…)"
        )
    return program.check(data)


def unconstrained_draws(
    bound: BoundModel, original: StanProgram, container: arviz.Container
) -> Float:
    """A posterior's draws as points (chains · draws, P).

    NUTS' own points are taken if the container has them: an engine that finds them anew may look
    at all rows for each draw.
    """
    groups = arviz.groups_of(container)
    if "unconstrained_posterior" in groups:
        points = groups["unconstrained_posterior"]["unconstrained"].to_numpy()
        return points.reshape(-1, points.shape[-1])
    draws = arviz.variables_of(container)
    names = [declared.name for declared in original.parameters]
    return bound.unconstrain(
        {name: draws[name].reshape(-1, *draws[name].shape[2:]) for name in names}
    )


def shapes_at(
    bound: BoundModel, theta: Float, names: Iterable[str], seed: int = 0
) -> dict[str, tuple[int, ...]]:
    """Shapes of generated quantities, found at the first draw; those without numbers are absent."""
    found = bound.generated(theta[:1], None, seed)
    return {name: np.shape(found[name])[1:] for name in names if name in found}


def as_quantities(program: StanProgram) -> str:
    """The program's transformed parameters as generated quantities, without a density.

    Empty if it has none, or computes them together with the density.

    >>> code = "parameters { real a; } transformed parameters { real b = exp(a); } "
    >>> print(as_quantities(StanProgram.from_code(code + "model { b ~ exponential(1); }")))
    parameters {
      real a;
    }
    generated quantities {
      real b = exp(a);
    }
    <BLANKLINE>
    """
    tree = program.tree
    body = tree.transformed_parameters
    nodes = (node for statement in body for node in n.walk(statement))
    if not body or any(_adds(node) for node in nodes):
        return ""
    return printer.program(
        replace(tree, transformed_parameters=(), model=(), generated_quantities=body)
    )


def _adds(node: n.Node) -> bool:
    """Whether a node adds to the density, or reads it."""
    called = node.name if isinstance(node, n.Call | n.VoidCall) else ""
    adds = isinstance(node, n.JacobianAdd | n.TargetAdd | n.Target)
    return adds or called.endswith(("_lp", "_jacobian"))


def few_quantities(original: StanProgram, obs: str, rows: int, draws: int) -> tuple[str, ...]:
    """Names of the generated quantities without an element per row, if they are cheap.

    What needs values for each of `rows` on the way is cheap for a limited number of rows · draws.

    >>> code = "data { int N; vector[N] x; } parameters { real a; } generated quantities {"
    >>> code += " vector[N] mu = a + x; real top = max(mu); real b = a - mean(x); }"
    >>> program = StanProgram.from_code(code)
    >>> few_quantities(program, "N", 10, 1_000), few_quantities(program, "N", 10**6, 1_000)
    (('top', 'b'), ('b',))
    """
    body = original.tree.generated_quantities
    few = [d.name for d in original.generated_quantities if not _per_row(d, obs)]
    if rows * draws > _ON_THE_WAY:
        few = [name for name in few if not _needs_rows(needed(body, {name}), obs)]
    return tuple(few)


def _per_row(declared: n.Decl, obs: str) -> bool:
    return any(has_size(size, obs) for size in declared.size.dims)


def _needs_rows(body: Iterable[n.Stmt], obs: str) -> bool:
    nodes = (node for statement in body for node in n.walk(statement))
    return any(isinstance(node, n.Decl) and _per_row(node, obs) for node in nodes)


def with_quantities(
    container: arviz.Container,
    original: StanProgram,
    engine: Engine,
    checked: StanData,
    names: tuple[str, ...],
    *,
    obs: str,
    seed: int,
    labels: Labels,
) -> arviz.Container:
    """Add generated quantities to a posterior: scalars and others of few numbers.

    They are evaluated on the full data, at every draw. The smallest are taken, as long as all of
    them have at most `MOST` numbers, and only if they are finite. If the engine cannot evaluate
    them, there is a warning and the posterior is as before.

    Parameters
    ----------
    container : ArviZ container
    original : StanProgram
        The author's program.
    engine : Engine
    checked : mapping
        The full data.
    names : tuple of str
        Those to consider, as from `few_quantities`.
    obs : str
        The data variable with the number of rows.
    seed : int
        Random seed of quantities that use random numbers.
    labels : Labels
        Names for dimensions.
    """
    shape = next(iter(arviz.variables_of(container).values())).shape[:2]
    try:
        values = _evaluated(original, engine, checked, container, names, obs, seed)
    except StancoresetError as error:
        warnings.warn(
            f"the posterior lacks the generated quantities {', '.join(names)}: {error}",
            stacklevel=2,
        )
        return container
    finite = {name: v.reshape(*shape, *v.shape[1:]) for name, v in values.items() if _finite(v)}
    if not finite:
        return container
    return arviz.with_variables(container, finite, coords=labels.coords, dims=labels.dims)


def _finite(values: Float) -> bool:
    return bool(np.isfinite(values).all())


def _evaluated(
    original: StanProgram,
    engine: Engine,
    checked: StanData,
    container: arviz.Container,
    names: tuple[str, ...],
    obs: str,
    seed: int,
) -> dict[str, Float]:
    """The smallest of some generated quantities, each (chains · draws, *shape).

    The program is cut to what they depend on.
    """
    body = needed(original.tree.generated_quantities, set(names))
    code = printer.program(replace(original.tree, model=(), generated_quantities=tuple(body)))
    whole = with_whole_loops(code, obs) if engine.capabilities.in_process else code
    compiled = engine.compile(code, name=original.name)
    with bind_original(compiled, original, checked, seed) as bound:
        theta = unconstrained_draws(bound, original, container)
        shapes = shapes_at(bound, theta, names, seed)
        sizes = np.cumsum(sorted(prod(shape) for shape in shapes.values()))
        smallest = sorted(shapes, key=lambda name: prod(shapes[name]))
        kept = {name for name, total in zip(smallest, sizes, strict=True) if total <= MOST}
        few = tuple(name for name in names if name in kept)
        if whole != code:
            expected = bound.generated(theta[:1], few, seed)
            fast = engine.compile(whole, name=original.name)
            with bind_original(fast, original, checked, seed) as at_once:
                if _agree(expected, at_once.generated(theta[:1], few, seed)):
                    return at_once.generated(theta, few, seed)
        return bound.generated(theta, few, seed)


def _agree(expected: dict[str, Float], found: dict[str, Float]) -> bool:
    """Whether two programs give the same numbers, but for rounding."""
    return all(np.allclose(found[name], v, TOLERANCE, TOLERANCE) for name, v in expected.items())
