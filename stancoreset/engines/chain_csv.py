"""Draws of a chain in a file as CmdStan writes it, which every Stan interface reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines.base import SAMPLER_STATS, Float
from stancoreset.engines.layout import joined_columns, stan_columns
from stancoreset.files import atomic_path

# Statistics that are counts or flags: rstan stops at ``true``.
_WHOLE = ("treedepth__", "n_leapfrog__", "divergent__")
_HEAD = ",".join("%d" if stan in _WHOLE else "%.17g" for stan in SAMPLER_STATS)


@dataclass(frozen=True, kw_only=True)
class Chain:
    """Settings by which one chain was sampled, for the comments of its file."""

    model: str  # the program's name
    engine: str  # name and version of the engine that sampled
    stan_version: tuple[int, int] = (2, 37)
    data_file: str = ""  # empty if the data were not read from a file
    number: int = 1
    seed: int = 0
    draws: int  # number of draws kept
    thin: int = 1  # number of iterations for each draw
    warmup: int = 0  # number of warm-up iterations
    save_warmup: bool = False  # whether draws of warm-up precede
    delta: float = 0.8
    max_depth: int = 10
    step_size: float = 1.0
    # (P,) or (P, P); without it the file says ``unit_e``.
    inv_metric: Float | None = field(default=None, repr=False)
    seconds: float = 0.0  # wall-clock seconds of warm-up and sampling

    def head(self) -> str:
        """Comments above the names of the columns; cmdstanpy refuses a warm-up of length 0."""
        major, minor = self.stan_version
        axes = 0 if self.inv_metric is None else self.inv_metric.ndim
        metric = ("unit_e", "diag_e", "dense_e")[axes]
        return f"""\
# stan_version_major = {major}
# stan_version_minor = {minor}
# stan_version_patch = 0
# model = {self.model}_model
# method = sample (Default)
#   sample
#     num_samples = {self.draws * self.thin}
#     num_warmup = {max(1, self.warmup)}
#     save_warmup = {int(self.save_warmup)}
#     thin = {self.thin}
#     adapt
#       engaged = 1 (Default)
#       gamma = 0.05 (Default)
#       delta = {self.delta!r}
#       kappa = 0.75 (Default)
#       t0 = 10 (Default)
#       init_buffer = 75 (Default)
#       term_buffer = 50 (Default)
#       window = 25 (Default)
#     algorithm = hmc (Default)
#       hmc
#         engine = nuts (Default)
#           nuts
#             max_depth = {self.max_depth}
#         metric = {metric}
#         metric_file =  (Default)
#         stepsize = 1 (Default)
#         stepsize_jitter = 0 (Default)
#     num_chains = 1 (Default)
# id = {self.number}
# data
#   file = {self.data_file}
# init = 2 (Default)
# random
#   seed = {self.seed}
# output
#   refresh = 100 (Default)
#   sig_figs = 18
# stanc_version = {self.engine}
"""

    def adaptation(self) -> str:
        """Comments between the names of the columns and the draws."""
        lines = ["Adaptation terminated", f"Step size = {self.step_size!r}"]
        if self.inv_metric is None:
            lines.append("No free parameters for unit metric")
        else:
            what = "Elements" if self.inv_metric.ndim == 2 else "Diagonal elements"
            rows = np.atleast_2d(self.inv_metric).tolist()
            lines.append(f"{what} of inverse mass matrix:")
            lines += (", ".join(map(repr, row)) for row in rows)
        return "".join(f"# {line}\n" for line in lines)

    def times(self) -> str:
        """Comments below the draws; the time is divided in proportion to iterations."""
        sampled = self.draws * self.thin
        warmup = self.seconds * self.warmup / max(1, self.warmup + sampled)
        return (
            "# \n"
            f"#  Elapsed Time: {warmup:.3f} seconds (Warm-up)\n"
            f"#                {self.seconds - warmup:.3f} seconds (Sampling)\n"
            f"#                {self.seconds:.3f} seconds (Total)\n"
            "# \n"
        )


class ChainFile:
    """The file of a chain, to which draws are added: those of warm-up, if kept, then the others."""

    def __init__(self, stream: TextIO, chain: Chain, columns: Sequence[str]) -> None:
        self._stream, self._chain = stream, chain
        # 17 digits tell every double, and take half of the time of its shortest form.
        self._numbers = ",%.17g" * len(columns) + "\n"
        stream.write(chain.head())
        stream.write(",".join([*SAMPLER_STATS, *columns]) + "\n")

    def adapted(self) -> None:
        """Write what warm-up adapted, after its draws."""
        self._stream.write(self._chain.adaptation())

    def add(self, stats: Mapping[str, NDArray[Any]], draws: Float) -> None:
        """Write consecutive draws (S, columns) with the sampler's statistics, (S,) each."""
        zeros = np.zeros(len(draws))  # for statistics that are missing
        known = [np.asarray(stats.get(ours, zeros)).tolist() for ours in SAMPLER_STATS.values()]
        for head, row in zip(zip(*known, strict=True), draws, strict=True):
            self._stream.write(_HEAD % head + self._numbers % tuple(row.tolist()))

    def finish(self, seconds: float) -> None:
        """Write the time that the chain took."""
        self._stream.write(replace(self._chain, seconds=seconds).times())


def write_chain(
    path: Path,
    chain: Chain,
    stats: Mapping[str, NDArray[Any]],
    shapes: Mapping[str, tuple[int, ...]],
    blocks: Iterable[Mapping[str, NDArray[Any]]],
) -> None:
    """Write one chain.

    `stats` are sampler statistics (draws,) under ArviZ's names; missing ones become zeros. `shapes`
    are those of the variables, in the order of the columns, and `blocks` are consecutive draws of
    every variable, each (draws of the block, *shape).
    """
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8") as stream:
        write_blocks(stream, chain, stats, shapes, blocks)


def write_blocks(
    stream: TextIO,
    chain: Chain,
    stats: Mapping[str, NDArray[Any]],
    shapes: Mapping[str, tuple[int, ...]],
    blocks: Iterable[Mapping[str, NDArray[Any]]],
) -> None:
    """Write one chain, given as to `write_chain`, to an open file."""
    names = [column for name, shape in shapes.items() for column in stan_columns(name, shape)]
    done, file = 0, ChainFile(stream, chain, names)
    file.adapted()
    for block in blocks:
        rows = joined_columns([block[name] for name in shapes])
        here = slice(done, done + len(rows))
        file.add({name: value[here] for name, value in stats.items()}, rows)
        done += len(rows)
    file.finish(chain.seconds)
