"""What a user may do with many rows: a coreset, and its rivals.

Each of them takes a `Task` and returns `Draws`. One that is not installed raises an
`EngineNotFoundError`, which says how to install it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papers.rivals import numpyro_chains
from papers.rivals.consensus import consensus
from papers.rivals.draws import Draws, Moments, score_moments
from papers.rivals.problems import Problem, tempered
from stancoreset.engines import (
    BoundModel,
    EngineName,
    SampleResult,
    resolve_engine,
)
from stancoreset.errors import OptionError, ReferenceFitError, SolverError
from stancoreset.model import CoresetModel
from stancoreset.posterior import arviz
from stancoreset.reference import pathfinder_draws
from stancoreset.selection import Coreset
from stancoreset.stan import Centring, StanProgram, centring

__all__ = ["RIVALS", "Effort", "Rival", "Task", "random_subset", "truth"]

Float = NDArray[np.float64]

#: Shards of consensus Monte Carlo.
SHARDS = 4
#: Weighted draws of the Laplace fit; draws of Pathfinder, whose number is Stan's default.
PROPOSED = 4_000
PATHFINDER = 1_000
_PATHFINDER = f"{PATHFINDER:,} draws"
#: Chains of the truth, and draws of the Laplace fit that gives their metric.
TRUE_CHAINS = 4
METRIC_DRAWS = 1_000


@dataclass(frozen=True)
class Effort:
    """The size of the comparison.

    `rows` is N; `trials` repeat everything with other data. On all rows and on the random subset
    `chains` chains make `draws` draws each, on each shard one chain makes all of them; warm-up has
    `draws` iterations. `truth` is the number of draws of the long chains, in all, and `subsample`
    the number of rows that HMC-ECS evaluates.
    """

    rows: int = 100_000
    trials: int = 1
    chains: int = 2
    draws: int = 200
    truth: int = 1_000
    subsample: int = 200

    def checked(self) -> Effort:
        """Return this effort, or raise an `OptionError` that names the invalid number."""
        # Four shards of the hierarchical model need rows; diagnostics of chains need draws.
        for name, least in (("rows", 400), ("trials", 1), ("draws", 100)):
            if getattr(self, name) < least:
                raise OptionError(
                    f"{name} is {getattr(self, name)}; expected a whole number of at least {least}"
                )
        return self

    def nuts(self, chains: int | None = None) -> dict[str, Any]:
        """Options of NUTS by the names of cmdstanpy."""
        return {
            "chains": chains or self.chains,
            "iter_warmup": self.draws,
            "iter_sampling": self.draws,
        }

    def numpyro(self) -> dict[str, int]:
        """Chains, warm-up and draws of numpyro's kernels."""
        return {"chains": self.chains, "warmup": self.draws, "draws": self.draws}


@dataclass
class Task:
    """A model with its data, to be fitted by one rival after the other.

    `coreset` is the coreset's number of rows, once it is known: the random subset has as many.
    """

    problem: Problem
    data: Mapping[str, Any] = field(repr=False)
    effort: Effort
    seed: int
    coreset: int | None = None

    def model(self) -> CoresetModel:
        """Our model, on the embedded engine whether or not CmdStan is installed."""
        return CoresetModel(stan_code=self.problem.program, engine="stanli")

    def bound(self, engine: EngineName) -> BoundModel:
        """The program as its user wrote it, with all rows."""
        compiled = resolve_engine(engine).compile(self.problem.program, name=self.problem.name)
        return compiled.bind(self.data)

    @cached_property
    def _coordinates(self) -> BoundModel:
        """The program with a few rows, which knows the parameters' transforms."""
        few = self.problem.part(self.data, np.arange(2))
        return resolve_engine("stanli").compile(self.problem.program).bind(few)

    @cached_property
    def centring(self) -> Centring | None:
        """The program with effects r = s z as parameters in place of z; None without effects.

        With many rows of each group their posterior is nearly Gaussian, that of (s, z) is a ridge.
        """
        return centring(StanProgram.from_code(self.problem.program).tree)

    @property
    def _all(self) -> tuple[float, ...]:
        found = self.centring
        if found is None:
            return ()
        return tuple(float(number < len(found.scaled)) for number in range(len(found.effects)))

    def centred_program(self) -> tuple[str, dict[str, Any]]:
        """The program with effects centred, and its data."""
        if self.centring is None:
            return self.problem.program, dict(self.data)
        return self.centring.code, {**self.data, **self.centring.data(self._all)}

    def centred(self, draws: Float) -> Float:
        """Draws (…, P) with effects as they enter the predictor, which is how they are judged."""
        if self.centring is None:
            return draws
        own = self._coordinates
        values = own.constrain(draws.reshape(-1, draws.shape[-1]))
        return own.unconstrain(self.centring.moved(values, self._all)).reshape(draws.shape)

    def draws(self, values: Mapping[str, Float], note: str) -> Draws:
        """Draws of parameters by name, each (chains, draws, *shape)."""
        shape = next(iter(values.values())).shape[:2]
        flat = {name: value.reshape(-1, *value.shape[2:]) for name, value in values.items()}
        return Draws(self._coordinates.unconstrain(flat).reshape(*shape, -1), note=note)

    def rng(self, stream: int) -> np.random.Generator:
        """Random numbers of one rival, which no other's depend on."""
        return np.random.default_rng([self.seed, stream])


def truth(task: Task) -> Moments:
    """Moments from long chains of stanli's NUTS on all rows, with effects of groups centred.

    A Laplace fit gives the metric and the starting points; gradients at the draws lower the
    Monte-Carlo error, see `score_moments`.
    """
    program, data = task.centred_program()
    near = _near(task, program, data)
    with resolve_engine("stanli").compile(program, name=task.problem.name).bind(data) as bound:
        found = bound.sample(
            seed=task.seed,
            inits=near[:TRUE_CHAINS],
            inv_metric=np.cov(near, rowvar=False),
            chains=TRUE_CHAINS,
            iter_sampling=-(-task.effort.truth // TRUE_CHAINS),
            adapt_delta=0.8,
        )
        draws = found.unconstrained
        _, scores = bound.log_density_gradient(draws.reshape(-1, bound.n_params))
    return score_moments(draws, scores.reshape(draws.shape), _of_chains(found))


def _near(task: Task, program: str, data: Mapping[str, Any]) -> Float:
    """Draws of a Laplace fit, with effects centred.

    Where groups have few rows, centred effects have no mode but at scale zero: then it is fitted
    in the user's coordinates, where it is further from the posterior of many rows.
    """
    options: dict[str, Any] = {"draws": METRIC_DRAWS, "seed": task.seed}
    try:
        with CoresetModel(stan_code=program, engine="stanli") as model:
            return model.reference(data, "laplace", **options).draws
    except ReferenceFitError:
        with task.model() as model:
            return task.centred(model.reference(task.data, "laplace", **options).draws)


def _coreset(task: Task) -> Draws:
    with task.model() as model:
        fit = model.fit(task.data, seed=task.seed, show_progress=False)
    task.coreset, verdict = fit.coreset.size, fit.certificate.verdict
    values = arviz.variables_of(fit.posterior if verdict == "rejected" else fit.corrected())
    return task.draws(values, f"{task.coreset} rows, {verdict}")


def _laplace(task: Task) -> Draws:
    with task.model() as model:
        found = model.reference(task.data, "laplace", draws=PROPOSED, seed=task.seed)
    assert found.log_q is not None
    log_weights, khat = arviz.psislw(found.log_p - found.log_q)
    note = f"{PROPOSED:,} draws, Pareto k̂ {khat:.2f}"
    return Draws(found.draws[None], np.exp(log_weights), note)


def _pathfinder(task: Task) -> Draws:
    with task.bound("stanli") as bound:
        return Draws(pathfinder_draws(bound, PATHFINDER, task.seed)[None], note=_PATHFINDER)


def _cmdstan_pathfinder(task: Task) -> Draws:
    resolve_engine("cmdstan")
    import cmdstanpy

    with TemporaryDirectory() as folder:
        program = Path(folder, f"{task.problem.name}.stan")
        program.write_text(task.problem.program, encoding="utf-8")
        found = cmdstanpy.CmdStanModel(stan_file=program).pathfinder(
            data=dict(task.data), seed=task.seed + 1, draws=PATHFINDER, show_console=False
        )
        values = {name: np.asarray(v)[None] for name, v in found.stan_variables().items()}
    return task.draws(values, _PATHFINDER)


def _nuts(engine: EngineName) -> Callable[[Task], Draws]:
    def run(task: Task) -> Draws:
        with task.bound(engine) as bound:
            found = bound.sample(seed=task.seed + 1, **task.effort.nuts())
        return Draws(found.unconstrained, note=_of_chains(found))

    return run


def _numpyro(task: Task) -> Draws:
    effort = task.effort
    values = numpyro_chains.nuts(
        task.problem.name,
        task.data,
        seed=task.seed,
        **effort.numpyro(),
    )
    return task.draws(values, f"{effort.chains} × {effort.draws:,} draws")


def _energy_conserving(task: Task) -> Draws:
    effort = task.effort
    values = numpyro_chains.energy_conserving(
        task.problem.name,
        task.data,
        subsample=effort.subsample,
        seed=task.seed,
        **effort.numpyro(),
    )
    rows = min(effort.subsample, effort.rows)
    return task.draws(values, f"{effort.chains} × {effort.draws:,} draws, {rows:,} rows a step")


def _consensus(task: Task) -> Draws:
    """One chain for each shard, with the prior to the power 1/4.

    Draws are averaged in the parameters' own coordinates, in which the product of the shards'
    densities is the posterior's; in Stan's the Jacobian would enter four times.
    """
    problem, effort = task.problem, task.effort
    engine = resolve_engine("stanli")
    compiled = engine.compile(tempered(problem.program, 1 / SHARDS), name=problem.name)
    options = effort.nuts(chains=1) | {"iter_sampling": effort.chains * effort.draws}
    parts: list[dict[str, Float]] = []
    for rows in np.array_split(task.rng(71).permutation(effort.rows), SHARDS):
        with compiled.bind(problem.part(task.data, np.sort(rows))) as bound:
            found = bound.sample(seed=task.seed + 1 + len(parts), **options)
            parts.append(bound.constrain(found.unconstrained[0]))
    flat = [np.hstack([v.reshape(len(v), -1) for v in part.values()]) for part in parts]
    draws = consensus(np.array(flat))
    ends = np.cumsum([v[0].size for v in parts[0].values()])
    pieces = np.split(draws, ends[:-1], axis=1)
    shapes = {name: v.shape for name, v in parts[0].items()}
    values = {n: p.reshape(1, *shapes[n]) for n, p in zip(shapes, pieces, strict=True)}
    return task.draws(values, f"{SHARDS} shards, {len(draws):,} draws each")


def _subset(task: Task) -> Draws:
    """As many rows as the coreset has, with weights N/n."""
    if task.coreset is None:
        raise SolverError("the random subset is as large as the coreset, whose fit failed")
    subset = random_subset(task.effort.rows, task.coreset, task.rng(72))
    with task.model() as model:
        found = model.sample(
            task.data, subset, seed=task.seed, show_progress=False, **task.effort.nuts()
        )
    return task.draws(arviz.variables_of(found), f"{subset.size} rows")


def random_subset(rows: int, size: int, rng: np.random.Generator) -> Coreset:
    """Rows drawn without replacement, of weight N/n each.

    >>> random_subset(10, 5, np.random.default_rng(0)).weights
    array([2., 2., 2., 2., 2.])
    """
    chosen = np.sort(rng.choice(rows, size, replace=False)).astype(np.int64)
    return Coreset(chosen, np.full(size, rows / size), rows, "uniform", np.nan, np.nan)


def _of_chains(found: SampleResult) -> str:
    chains, draws = found.stats["n_steps"].shape
    rhat = float(np.max(arviz.rhat(found.unconstrained)))
    steps = float(np.mean(found.stats["n_steps"]))
    return f"{chains} × {draws:,} draws of {steps:.0f} gradients, R̂ {rhat:.2f}"


@dataclass(frozen=True)
class Rival:
    """A way to a posterior: its name for ``--methods``, its title in tables, and its draws."""

    name: str
    title: str
    run: Callable[[Task], Draws] = field(repr=False)


#: The coreset and its rivals, in the order of the table.
RIVALS = (
    Rival("coreset", "stancoreset (stanli)", _coreset),
    Rival("laplace", "Laplace, importance weights (stanli)", _laplace),
    Rival("pathfinder", "Pathfinder, PSIS (stanli)", _pathfinder),
    Rival("cmdstan-pathfinder", "Pathfinder, PSIS (CmdStan)", _cmdstan_pathfinder),
    Rival("hmc-ecs", "HMC-ECS (numpyro)", _energy_conserving),
    Rival("consensus", "consensus Monte Carlo (stanli)", _consensus),
    Rival("subset", "random subset (stanli)", _subset),
    Rival("nuts-stanli", "NUTS on all rows (stanli)", _nuts("stanli")),
    Rival("nuts-cmdstan", "NUTS on all rows (CmdStan)", _nuts("cmdstan")),
    Rival("nuts-numpyro", "NUTS on all rows (numpyro)", _numpyro),
)
