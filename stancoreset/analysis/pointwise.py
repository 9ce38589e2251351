"""Log likelihoods and replications of every row at coreset draws, for LOO and predictive checks.

Leave-one-out cross-validation and posterior predictive checks concern the full data. The draws
are those of the coreset posterior (corrected, if that is its verdict), which the certificate has
shown to represent the full one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stancoreset.checks import check_names, check_whole, shown
from stancoreset.engines import Float, StanData
from stancoreset.errors import DataError, OptionError, ProgramError
from stancoreset.posterior import LEAST_DRAWS, Loo, leave_one_out, refuse_rejected
from stancoreset.posterior.arviz import (
    Container,
    add_group,
    attrs_of,
    build,
    dataset_of,
    ess,
    groups_of,
    is_container,
    posterior_container,
    variables_of,
)
from stancoreset.program import (
    Session,
    bind_original,
    known_quantities,
    labels_of_draws,
    quantities_of_weighted_rows,
    read_row_weights,
    require_repeatable,
    take_spaced_draws,
)
from stancoreset.progress import Stages
from stancoreset.runs import CoresetFit
from stancoreset.stan import Labels, StanProgram
from stancoreset.stan.syntax import names_in
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave import suffix

if TYPE_CHECKING:
    import xarray as xr

# Largest size of log likelihoods or generated quantities in bytes, if draws are not given.
_BYTES = 1_000_000_000


def with_log_likelihood(
    session: Session,
    original: StanProgram,
    checked: StanData,
    posterior: Any,
    draws: int | None,
    weights: str | None = None,
) -> Container:
    """Add the log likelihood of every row and the observed data to a container.

    See `stancoreset.CoresetModel.log_likelihood`; `original` is the user's program, which names the
    outcomes.
    """
    _require_pointwise(session, original)
    _rows_in_memory(session, checked, "the log likelihood")
    observed = outcomes(original, session.program.rows)
    container = _container(posterior)
    found = _row_weights(session, original, checked, container, weights, "the log likelihood")
    if found.kind == "sampling":
        raise OptionError(
            "weights='sampling': ArviZ has no place for weights of rows; "
            "model.loo(data, fit, weights='sampling') takes them, and "
            "model.log_likelihood of data without weights has each row's log likelihood"
        )
    checked = found.repeated() if found.names else checked
    n_obs = session.program.n_obs(checked)
    container = thinned(container, _draws(draws, n_obs, container))
    drawn = groups_of(container)["posterior"]
    sizes = drawn.sizes
    theta, _ = take_spaced_draws(session, checked, container, None)
    values = _log_lik(session, checked, theta, n_obs)
    name = observed[0] if len(observed) == 1 else "log_lik"
    values = values.reshape(sizes["chain"], sizes["draw"], n_obs)
    container = _by_row(container, "log_likelihood", {name: values}, _labels(drawn, n_obs))
    return _with_observed(container, session, checked, observed)


def _row_weights(
    session: Session,
    original: StanProgram,
    checked: StanData,
    container: Container,
    weights: str | None,
    what: str,
) -> Any:
    """The `RowWeights` of the data, by a single draw of each chain."""
    theta, _ = take_spaced_draws(session, checked, thinned(container, 1), None)
    observed = outcomes(original, session.program.rows)
    return read_row_weights(session, checked, weights, what, theta=theta, outcomes=observed)


def loo(
    session: Session,
    original: StanProgram,
    checked: StanData,
    posterior: Any,
    *,
    draws: int | None,
    subsample: int | None,
    weights: str | None,
    seed: int,
    stages: Stages,
) -> Loo:
    """Leave rows out, block by block; see `stancoreset.CoresetModel.loo`."""
    _require_pointwise(session, original)
    n_obs = _rows_in_memory(session, checked, "leave-one-out cross-validation")
    container = _container(posterior)
    if draws is not None:
        container = thinned(container, _draws(draws, n_obs, container))
    theta, _ = take_spaced_draws(session, checked, container, None)
    found = read_row_weights(
        session,
        checked,
        weights,
        "leave-one-out cross-validation",
        theta=theta,
        outcomes=outcomes(original, session.program.rows),
    )
    rows, some, approximate = np.flatnonzero(found.values > 0), found.data, None
    if subsample is not None and subsample < len(rows):
        rng = np.random.default_rng([seed, 31])
        rows = np.sort(rng.choice(rows, size=subsample, replace=False))
        approximate = _log_lik(session, found.data, theta.mean(axis=0)[None], n_obs)[0]
    if len(rows) < n_obs:
        some = session.program.subset(found.data, rows)
    with stages("leave one out", total=len(rows)) as tick:
        return leave_one_out(
            ((rows[cut], values) for cut, values in session.row_log_lik(some, theta)),
            n_obs,
            relative_efficiency=_relative_efficiency(container),
            approximate=approximate,
            counts=found.counts if found.names else None,
            powers=found.powers if found.kind == "sampling" else None,
            tick=tick,
        )


def _require_pointwise(session: Session, original: StanProgram) -> None:
    if session.program.outcome_statistics:
        raise ProgramError(
            f"'{original.name}' has no pointwise likelihood: the density of every row depends on "
            f"{', '.join(session.program.outcome_statistics)}, computed from the outcomes of all "
            "rows, so LOO would leave no row out; write the model without it, or compare on rows "
            "that were not fitted"
        )


def _relative_efficiency(container: Container) -> float:
    """ESS of a mean as a share of the draws, averaged over parameters; ArviZ takes one chain's as
    one."""
    sizes = groups_of(container)["posterior"].sizes
    if sizes["chain"] == 1:
        return 1.0
    found = np.hstack([np.ravel(value) for value in ess(container, method="mean").values()])
    return float(np.mean(found) / (sizes["chain"] * sizes["draw"]))


def with_replications(
    session: Session,
    original: StanProgram,
    checked: StanData,
    posterior: Any,
    replicated: Mapping[str, str],
    *,
    draws: int | None,
    weights: str | None = None,
    seed: int,
) -> Container:
    """Add replicated and observed outcomes of every row to a container.

    Parameters are those of `stancoreset.CoresetModel.posterior_predictive`; `original` is the
    user's program, because only it has generated quantities.
    """
    _rows_in_memory(session, checked, "a predictive check")
    if not isinstance(replicated, Mapping) or not replicated:
        raise OptionError(
            f"replicated is {shown(replicated)}, expected a dict from data variables to the "
            'generated quantities that replicate them, such as {"y": "y_rep"}'
        )
    axes = session.program.rows
    require_variables_of_rows(replicated, axes)
    wanted = quantity_names(original, list(dict.fromkeys(replicated.values())))
    container = _container(posterior)
    found = _row_weights(session, original, checked, container, weights, "a predictive check")
    if found.kind == "frequency":
        require_repeatable(original, session.program, wanted)
        checked = found.repeated()
    n_obs = session.program.n_obs(checked)
    container = thinned(container, _draws(draws, n_obs, container))
    drawn = groups_of(container)["posterior"]
    total = drawn.sizes["chain"] * drawn.sizes["draw"]
    values = variables_of(
        _generated(session, original, checked, container, wanted, draws=total, seed=seed)
    )
    copies: dict[str, Float] = {}
    for name, quantity in replicated.items():
        shape, value = np.shape(checked[name]), values[quantity]
        if value.shape[2:] != shape:
            raise DataError(
                f"{quantity!r} has shape {value.shape[2:]}, but {name!r} has {shape}: it cannot "
                "replicate it"
            )
        copies[name] = np.moveaxis(value, 2 + axes[name], 2)
    container = _by_row(container, "posterior_predictive", copies, _labels(drawn, n_obs))
    return _with_observed(container, session, checked, tuple(copies))


def require_variables_of_rows(replicated: Mapping[str, str], rows: Mapping[str, int]) -> None:
    """Raise unless all that is replicated are data variables with an entry for each row."""
    for name, quantity in replicated.items():
        if name not in rows:
            raise OptionError(
                f"{name!r} is replicated by {quantity!r}, but is not a data variable with one "
                f"entry for each row; those are {', '.join(rows)}"
            )


def _rows_in_memory(session: Session, checked: StanData, what: str) -> int:
    n_obs = session.program.n_obs(checked)
    if not isinstance(checked, dict):
        raise DataError(
            f"{what} of all {n_obs} rows needs these in memory, but they are on disk: "
            "load them with a larger Table(memory=…), or pass the data of some rows"
        )
    return n_obs


def _labels(drawn: Any, n_obs: int) -> dict[str, Any]:
    """Labels of rows and draws; those of the posterior, because xarray joins by labels."""
    labels = {dim: drawn[dim].values for dim in ("chain", "draw")}
    return {"row": np.arange(n_obs), **labels}


def _with_observed(
    container: Container, session: Session, checked: StanData, names: Sequence[str]
) -> Container:
    if not names:
        return container
    axes = session.program.rows
    data = {name: np.moveaxis(np.asarray(checked[name]), axes[name], 0) for name in names}
    rows = np.arange(session.program.n_obs(checked))
    return _by_row(container, "observed_data", data, {"row": rows})


def _by_row(
    container: Container, group: str, values: Mapping[str, Any], labels: Mapping[str, Any]
) -> Container:
    """Add a group of values by row, in place of one of that name."""
    dims = {name: ["row"] for name in values}
    return add_group(container, group, values, dims=dims, coords=labels, overwrite=True)


def quantity_names(original: StanProgram, names: Sequence[str] | None) -> tuple[str, ...]:
    """The names of the program's generated quantities to evaluate, at least one; default: all."""
    if names is not None:
        check_names("names", names, "generated quantities")
    wanted = known_quantities(original, names)
    if not wanted:
        raise OptionError(
            "names is empty, expected at least one generated quantity"
            if names is not None
            else "the program has no generated quantities; define some in its block generated "
            "quantities"
        )
    return wanted


def generated_quantities(
    session: Session,
    original: StanProgram,
    checked: StanData,
    posterior: Any,
    names: tuple[str, ...],
    *,
    draws: int | None,
    weights: str | None = None,
    seed: int,
) -> Container:
    """Evaluate generated quantities on the full data, as a posterior of their own.

    Parameters are those of `stancoreset.CoresetModel.generate_quantities`; `original` is the
    user's program, because the weighted one lacks its generated quantities.
    """
    asked = quantities_of_weighted_rows(original, session.program, checked, names)
    if asked:
        what = f"the generated quantity {asked[0]}, which reads rows,"
        found = read_row_weights(session, checked, weights, what)
        if found.kind == "frequency":
            require_repeatable(original, session.program, asked)
            checked = found.repeated()
    return _generated(session, original, checked, posterior, names, draws=draws, seed=seed)


def _generated(
    session: Session,
    original: StanProgram,
    checked: StanData,
    posterior: Any,
    names: tuple[str, ...],
    *,
    draws: int | None,
    seed: int,
) -> Container:
    """Evaluate generated quantities on data as they are."""
    drawn = dataset_of(_container(posterior) if isinstance(posterior, CoresetFit) else posterior)
    compiled = session.engine.compile(original.code, name=original.name)
    with bind_original(compiled, original, checked, seed) as bound:

        def at(some: xr.Dataset) -> dict[str, Float]:
            theta, _ = take_spaced_draws(session, checked, some, None)
            sizes = some.sizes["chain"], some.sizes["draw"]
            found = bound.generated(theta, names, seed)
            return {name: value.reshape(*sizes, *value.shape[1:]) for name, value in found.items()}

        first = at(drawn.isel(chain=[0], draw=[0]))
        numbers = sum(value.size for value in first.values())
        kept = drawn.isel(draw=_spaced(drawn, _few(draws, drawn, numbers)))
        values = at(kept)
    labels = labels_of_draws(session, checked, Labels())
    about = {"program": original.name, "seed": seed, "n_obs": session.program.n_obs(checked)}
    which = {dim: kept[dim].to_numpy() for dim in ("chain", "draw") if dim in kept.coords}
    return posterior_container(
        values, attrs=about, coords={**labels.coords, **which}, dims=labels.dims
    )


def _container(posterior: Any) -> Container:
    if isinstance(posterior, CoresetFit):
        refuse_rejected(posterior, "LOO and predictive checks of them do not judge the model")
        return posterior.corrected()
    if not is_container(posterior):
        raise DataError(
            f"the posterior is a {type(posterior).__name__}, expected a CoresetFit or an ArviZ "
            "container, to which groups can be added"
        )
    return posterior


def _draws(draws: int | None, n_obs: int, container: Container) -> int:
    """The number of draws asked for, or as many log likelihoods of all rows as memory allows."""
    drawn = groups_of(container)["posterior"]
    return _few(draws, drawn, n_obs, least=LEAST_DRAWS)


def _few(draws: int | None, drawn: xr.Dataset, numbers: int, least: int = 1) -> int:
    """The number of draws asked for, or as many as fit in memory with so many numbers each."""
    total = drawn.sizes["chain"] * drawn.sizes["draw"]
    if draws is None:
        return min(total, max(least, _BYTES // (8 * max(1, numbers))))
    check_whole("draws", draws, 0)
    if draws < drawn.sizes["chain"]:
        raise OptionError(f"draws is {draws}, expected at least one per chain")
    return min(draws, total)


def _spaced(drawn: xr.Dataset, draws: int) -> NDArray[np.int64]:
    """Positions in each chain of at most `draws` draws in all, evenly spaced."""
    return evenly(drawn.sizes["draw"], max(1, draws // drawn.sizes["chain"]))


def evenly(length: int, count: int) -> NDArray[np.int64]:
    """Positions of at most `count` draws, evenly spaced."""
    return np.linspace(0, length - 1, min(count, length)).round().astype(np.int64)


def _log_lik(session: Session, checked: StanData, theta: Float, n_obs: int) -> Float:
    """Log likelihoods (S, N), computed in chunks to bound the engine's memory."""
    out = np.empty((len(theta), n_obs))
    for rows, log_lik in session.row_log_lik(checked, theta):
        out[:, rows] = log_lik
    return out


def thinned(container: Container, draws: int) -> Container:
    """Thin to at most `draws` draws, evenly spaced in every chain; keep groups without draws.

    >>> from stancoreset.posterior.arviz import posterior_container, variables_of
    >>> post = posterior_container({"mu": np.zeros((4, 1000))})
    >>> variables_of(thinned(post, 200))["mu"].shape
    (4, 50)
    """
    groups = groups_of(container)
    index = _spaced(groups["posterior"], draws)
    if len(index) == groups["posterior"].sizes["draw"]:
        return container
    fewer = {
        name: dataset.isel(draw=index) if "draw" in dataset.dims else dataset
        for name, dataset in groups.items()
    }
    return build(fewer, attrs_of(container))


def outcomes(program: StanProgram, rows: Any) -> tuple[str, ...]:
    """The data variables of `rows` that are outcomes of a density in the model block.

    >>> code = "data { int N; vector[N] x; vector[N] y; } parameters { real b; } "
    >>> program = StanProgram.from_code(code + "model { y ~ normal(b * x, 1); }")
    >>> outcomes(program, ["x", "y"])
    ('y',)
    """
    found: dict[str, None] = {}
    for statement in program.tree.model:
        for node in n.walk(statement):
            if isinstance(node, n.Tilde):
                outcome: Sequence[n.Node] = (node.arg,)
            elif isinstance(node, n.Call) and suffix(node.name)[1]:
                outcome = node.args[:1]
            else:
                continue
            for expression in outcome:
                found.update(dict.fromkeys(sorted(names_in(expression) & set(rows))))
    return tuple(found)
