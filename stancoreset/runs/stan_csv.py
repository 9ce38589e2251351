"""CSV files of a fit's chains as CmdStan would have written them for the full data.

cmdstanpy, ArviZ, rstan and cmdstanr read them. Draws and sampler statistics are those of NUTS on
the coreset; generated quantities are those of the author's program with all rows, because NUTS ran
without them.
"""

from __future__ import annotations

import re
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines import BoundModel, Chain, Engine, Float, StanData, write_chain
from stancoreset.errors import DataError, OptionError, OutputError
from stancoreset.files import make_folder
from stancoreset.posterior import arviz
from stancoreset.program import (
    adopt,
    bind_original,
    few_quantities,
    known_quantities,
    quantities_of_weighted_rows,
    read_whole,
    shapes_at,
    unconstrained_draws,
)
from stancoreset.stan import StanProgram, WeightedProgram

# Largest number of bytes of a block of draws.
_BYTES = 100_000_000
# Characters of a number in a CSV file, its comma included.
_CHARACTERS = 20


@dataclass(frozen=True)
class _Columns:
    """The draws of every column: those at hand, and quantities to be evaluated at `theta`."""

    draws: Mapping[str, NDArray[Any]] = field(repr=False)
    shapes: Mapping[str, tuple[int, ...]]
    bound: BoundModel | None = None
    theta: Float | None = field(default=None, repr=False)
    seed: int = 0

    def blocks(self, chain: int) -> Iterator[dict[str, NDArray[Any]]]:
        """Consecutive draws of a chain, few enough for memory."""
        count = next(iter(self.draws.values())).shape[1]
        size = max(1, _BYTES // (8 * max(1, self.width)))
        new = tuple(name for name in self.shapes if name not in self.draws)
        for start in range(0, count, size):
            here = slice(start, min(start + size, count))
            block = {name: self.draws[name][chain, here] for name in self.shapes if name not in new}
            if self.bound is not None and self.theta is not None and new:
                first = chain * count + start
                points = self.theta[first : first + here.stop - start]
                # Random quantities get other numbers in every block.
                block |= self.bound.generated(points, new, self.seed + first)
            yield block

    @property
    def width(self) -> int:
        """The number of columns."""
        return sum(prod(shape) for shape in self.shapes.values())


def write_chains(
    container: arviz.Container,
    code: str,
    about: Mapping[str, Any],
    folder: Path,
    data: Any,
    names: Sequence[str] | None,
    engine: Engine,
    *,
    obs: str,
    n_obs: int,
    seed: int,
    overwrite: bool,
) -> list[Path]:
    """Write one file for each chain of a container; see `CoresetFit.write_csv`.

    `code` is the author's program, and `about` the provenance of the fit.
    """
    folder = make_folder("path", folder)
    replaced = _earlier(folder, overwrite)
    program = StanProgram.from_code(code, name=str(about.get("program", "model")))
    # Rows of two counts, and cells, have a count that the author's program has not.
    declared = {d.name for d in program.data}
    known = all(name.strip() in declared for name in obs.split(","))
    adopted = adopt(program, obs=obs if known else None)
    original, draws = adopted.original, arviz.variables_of(container)
    asked = known_quantities(original, names)
    wanted = [d.name for d in original.generated_quantities if d.name in asked]
    missing = tuple(name for name in wanted if name not in draws)
    before = [d.name for d in (*original.parameters, *original.transformed_parameters)]
    at_hand = [name for name in (*before, *wanted) if name in draws]
    shapes = {name: draws[name].shape[2:] for name in at_hand}
    with ExitStack() as stack:
        bound = theta = None
        if missing:
            if data is None:
                raise DataError(
                    f"the posterior lacks the generated quantities {', '.join(missing)}, which "
                    "need the full data: give data, or leave them out with names="
                )
            checked = read_whole(adopted.weighted, data)
            count = adopted.weighted.n_obs(checked)
            if count != n_obs:
                raise DataError(
                    f"the data have {count} rows, but the fit is of {n_obs}: expected its full data"
                )
            missing = _without_weighted(original, adopted.weighted, checked, missing, names)
            compiled = engine.compile(original.code, name=original.name)
            bound = stack.enter_context(bind_original(compiled, original, checked, seed))
            theta = unconstrained_draws(bound, original, container)
            shapes |= shapes_at(bound, theta, missing, seed)
        ordered = {name: shapes[name] for name in (*before, *wanted) if name in shapes}
        columns = _Columns(draws, ordered, bound, theta, seed)
        chains = _chains(container, about, engine, data)
        _require_space(folder, sum(chain.draws for chain in chains) * columns.width)
        stats, paths = arviz.sample_stats_of(container), []
        for place, chain in enumerate(chains):
            paths.append(folder / f"chain_{chain.number}.csv")
            here = {name: value[place] for name, value in stats.items() if value.ndim == 2}
            write_chain(paths[-1], chain, here, ordered, columns.blocks(place))
    for path in set(replaced) - set(paths):
        path.unlink()
    return paths


def _without_weighted(
    original: StanProgram,
    program: WeightedProgram,
    checked: StanData,
    missing: tuple[str, ...],
    asked: Sequence[str] | None,
) -> tuple[str, ...]:
    """Generated quantities without sums over rows with weights, which are refused if asked for.

    What has an element for each row has it for each row once.
    """
    few = few_quantities(original, program.obs, 0, 0)
    sums = [name for name in missing if name in few]
    of_rows = quantities_of_weighted_rows(original, program, checked, sums)
    if not of_rows:
        return missing
    said = (
        f"the generated quantities {', '.join(of_rows)} read rows, which have weights: "
        "model.generate_quantities(weights=) evaluates them"
    )
    if asked is not None:
        raise OptionError(f"{said}; leave them out of names=")
    warnings.warn(f"{said}; the files lack them", stacklevel=4)
    return tuple(name for name in missing if name not in of_rows)


def _chains(
    container: arviz.Container, about: Mapping[str, Any], engine: Engine, data: Any
) -> list[Chain]:
    """How each chain was sampled, from the attributes and groups of its container."""
    attrs, groups = arviz.attrs_of(container), arviz.groups_of(container)
    sizes = groups["posterior"].sizes
    stats = arviz.sample_stats_of(container)
    resampled = "corrected" in attrs
    steps = stats.get("step_size", np.ones((sizes["chain"], 1)))[:, -1]
    metrics = None
    if "adaptation_data" in groups and not resampled:
        metrics = groups["adaptation_data"]["inv_metric"].to_numpy()
    return [
        Chain(
            model=str(about.get("program", "model")),
            engine=str(about.get("engine", engine.version)),
            stan_version=engine.stan_version,
            data_file=str(data) if isinstance(data, str | Path) else "",
            number=place + 1,
            seed=int(about.get("seed", 0)),
            draws=sizes["draw"],
            thin=1 if resampled else int(attrs.get("thin", 1)),
            warmup=int(attrs.get("iter_warmup", 0)),
            delta=float(attrs.get("adapt_delta", 0.8)),
            max_depth=int(attrs.get("max_treedepth", 10)),
            step_size=float(steps[place]),
            inv_metric=None if metrics is None else metrics[place],
            seconds=float(attrs.get("sampling_time", 0.0)),
        )
        for place in range(sizes["chain"])
    ]


def _earlier(folder: Path, overwrite: bool) -> list[Path]:
    """The chains that the folder already holds; raise if they are not to be replaced."""
    found = sorted(p for p in folder.iterdir() if re.fullmatch(r"chain_\d+\.csv", p.name))
    if found and not overwrite:
        raise OutputError(
            f"{folder} already holds {found[0].name}; name another folder, or replace the chains "
            "(overwrite=True)"
        )
    return found


def _require_space(folder: Path, numbers: int) -> None:
    needed, free = numbers * _CHARACTERS, shutil.disk_usage(folder).free
    if needed > free:
        raise OutputError(
            f"the CSV files would take about {needed / 1e9:.0f} GB, but the disk of {folder} has "
            f"{free / 1e9:.0f} GB left; write fewer generated quantities (names=)"
        )
