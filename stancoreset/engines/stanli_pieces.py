"""NUTS of stanli, piece by piece where draws are too many to be held several times over.

stanli returns all draws of all columns at once, and holds them twice while it samples. Their named
and unconstrained values, which a fit works with, are two further copies. Where draws are many,
chains are therefore run in pieces: a piece begins where the one before ended, with the metric and
the step sizes that warm-up adapted, so that all of them are one Markov chain. Of each piece memory
keeps a copy of what it is to keep, and files, if there are any, get all.

Chains have step sizes of their own, but a run has one for all of them. A leapfrog step of size ε
with the inverse metric M⁻¹ is one of size 1 with ε² M⁻¹, whose momenta are divided by ε: every
piece but the first has these.
"""

from __future__ import annotations

import io
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines.base import SAMPLER_STATS, Float, SampleResult, Unconstrain
from stancoreset.engines.chain_csv import Chain, ChainFile
from stancoreset.engines.layout import Layout, dotted
from stancoreset.engines.metric import checked_metric
from stancoreset.engines.nuts import NUTS
from stancoreset.engines.stanli_threads import in_loading_thread
from stancoreset.files import atomic_path, make_folder
from stancoreset.limits import KEPT

# Number of values of all draws beyond which chains run in pieces (160 MB), and of a piece at most.
_MANY, _AT_ONCE = KEPT, KEPT // 2
# A line by which stanli tells how far a chain is.
_PROGRESS = re.compile(r"Chain \[(\d+)\] Iteration:\s+(\d+) / ")
# Random numbers in transformed data, which stanli draws again for every seed.
_RANDOM_DATA = re.compile(r"\btransformed\s+data\b.*?_rng\s*\(.*?\bparameters\b", re.DOTALL)


@dataclass(frozen=True)
class Piece:
    """Consecutive draws of all chains."""

    fit: Any  # its draws, every `apart`-th transition
    warmed: int  # number of its first draws that are of warm-up
    apart: int  # number of transitions from a draw to the next

    @property
    def inv_metric(self) -> Float | None:
        """The chains' inverse metrics; None for the identity."""
        return None if self.fit.metric == "unit_e" else np.asarray(self.fit.inv_metric, float)

    def every(self, apart: int) -> tuple[Float, dict[str, Float], int]:
        """Draws (chains, S, columns) `apart` transitions apart, statistics, and their number.

        The number is that of draws after warm-up, which are the last.
        """
        import stanli

        draws, stats, step = self.fit.draws(), self.fit.sampler_stats, apart // self.apart
        if step > 1:
            at = [*range(0, self.warmed, step), *range(self.warmed, self.fit.n_draws, step)]
            draws, stats = draws[:, at], stats[:, at]
        names = stanli.SAMPLER_COLUMNS
        kept = -(-(self.fit.n_draws - self.warmed) // step)
        return draws, {name: stats[:, :, i] for i, name in enumerate(names)}, kept


@dataclass(frozen=True)
class Pieces:
    """A run of NUTS."""

    model: Any
    nuts: NUTS  # completed
    code: str
    columns: int  # number of columns of the draws
    stored: int  # number of transitions from a draw that memory or files keep to the next

    @property
    def lengths(self) -> list[int]:
        """Numbers of transitions after warm-up; each but the last is a multiple of `nuts.apart`."""
        nuts, width = self.nuts, self.nuts.chains * max(1, self.columns)
        total = int(nuts.iter_sampling)
        if width * (total // self.stored) <= _MANY or _RANDOM_DATA.search(self.code):
            return [total]
        length = max(1, _AT_ONCE // (width * nuts.apart)) * nuts.apart
        return [min(length, total - start) for start in range(0, total, length)]

    def run(
        self,
        *,
        seed: int,
        inits: Float | None,
        inv_metric: Float | None,
        on_iteration: Callable[[int, int], object] | None,
        threads: int,
        unconstrain: Unconstrain,
    ) -> Iterator[Piece]:
        """The pieces, one after the other; see `BoundModel.sample`.

        `unconstrain` gives points in the coordinates of NUTS.
        """
        import stanli

        nuts, (first, *others) = self.nuts, self.lengths
        step_size = stanli.SAMPLER_COLUMNS.index("stepsize__")
        # In pieces every transition is returned: the next one begins at the last.
        apart = 1 if others else self.stored
        size: Any = nuts.step_size
        chains, parallel = int(nuts.chains), nuts.parallel_chains or min(nuts.chains, threads)
        if not in_loading_thread():  # chains need threads that stanli starts
            chains, parallel = max(2, chains), max(2, parallel)

        def sampled(before: int, **options: Any) -> Any:
            def later(chain: int, iteration: int) -> None:
                if on_iteration is not None:
                    on_iteration(chain, before + iteration)

            with heard(on_iteration and later, nuts.show_console) as speaks:
                return self.model.sample(
                    chains=chains,
                    thin=apart,
                    max_depth=nuts.max_treedepth,
                    parallel_chains=parallel,
                    refresh=nuts.refresh if speaks else 0,
                    **options,
                )

        fit = sampled(
            0,
            warmup=nuts.iter_warmup,
            samples=first,
            save_warmup=nuts.save_warmup,
            seed=seed,
            inits=None if inits is None else np.broadcast_to(inits, (chains, np.shape(inits)[-1])),
            delta=nuts.delta,
            metric=nuts.metric,
            inv_metric=checked_metric(inv_metric, nuts.metric, self.model.n_unconstrained),
            adapt_engaged=nuts.warmup > 0,  # none without warm-up
            step_size=None if size is None else float(size),
        )
        yield Piece(_first(fit, nuts.chains), fit.n_draws - -(-first // apart), apart)
        if not others:
            return
        sizes, metric = np.array(fit.step_size), _of_unit_steps(fit, self.model.n_unconstrained)
        start = nuts.warmup + first
        for number, length in enumerate(others, start=1):
            last = unconstrain(Layout.from_names(fit.names).split(fit.draws()[:, -1]))
            del fit  # it is as large as the next one
            fit = sampled(
                start,
                warmup=0,
                samples=length,
                seed=int(np.random.SeedSequence([seed, number]).generate_state(1)[0] >> 1),
                inits=last,
                metric="dense_e" if metric.ndim == 3 else "diag_e",
                inv_metric=metric,
                adapt_engaged=False,
                step_size=1.0,
            )
            fit.sampler_stats[:, :, step_size] = sizes[:, None]
            yield Piece(_first(fit, nuts.chains), 0, apart)
            start += length


def _first(fit: Any, chains: int) -> Any:
    """A fit's first chains, whose random numbers do not depend on how many there are."""
    import stanli

    if fit.n_chains == chains:
        return fit
    return stanli.Fit(
        fit.names,
        fit.draws()[:chains],
        fit.sampler_stats[:chains],
        fit.max_depth,
        fit.seed,
        metric=fit.metric,
        step_size=fit.step_size[:chains],
        inv_metric=fit.inv_metric[:chains],
    )


def _of_unit_steps(fit: Any, n_params: int) -> Float:
    """The chains' inverse metrics times their step sizes squared, (chains, P) or (chains, P, P)."""
    squared = np.array(fit.step_size) ** 2
    if fit.metric == "unit_e":
        return np.tile(squared[:, None], n_params)
    metrics = np.array(fit.inv_metric)
    return metrics * squared.reshape(-1, *(1,) * (metrics.ndim - 1))


def gathered(pieces: Iterable[SampleResult], draws: int) -> SampleResult:
    """Join the draws of consecutive pieces to one result with `draws` draws a chain.

    The draws of a single piece are not copied. Of several, the engine's own fits are forgotten.
    """
    found, start = None, 0
    for piece in pieces:
        count = piece.unconstrained.shape[1]
        if found is None:
            found = piece if count == draws else _empty_like(piece, draws)
        if found is not piece:
            here = slice(start, start + count)
            for name, value in piece.variables.items():
                found.variables[name][:, here] = value
            for name, value in piece.stats.items():
                found.stats[name][:, here] = value
            found.unconstrained[:, here] = piece.unconstrained
        start += count
    assert found is not None
    return found


def _empty_like(piece: SampleResult, draws: int) -> SampleResult:
    """A result with room for so many draws of each chain, and the warm-up of its first piece."""

    def room(value: NDArray[Any]) -> NDArray[Any]:
        return np.empty((len(value), draws, *value.shape[2:]), value.dtype)

    return replace(
        piece,
        variables={name: room(value) for name, value in piece.variables.items()},
        stats={name: room(value) for name, value in piece.stats.items()},
        unconstrained=room(piece.unconstrained),
        # Views would keep all of the piece.
        warmup_variables={name: value.copy() for name, value in piece.warmup_variables.items()},
        native=None,
    )


# What chains write ----------------------------------------------------------------------


@contextmanager
def chain_files(output_dir: str | None, about: Chain) -> Iterator[Callable[[Piece], None]]:
    """Yield what writes a piece's draws to files, which appear when the block succeeds.

    `about` is what all chains have in common; without `output_dir` nothing is written.
    """
    if output_dir is None:
        yield lambda piece: None
        return
    folder = make_folder("output_dir", Path(output_dir))
    stem = f"{about.model}-{datetime.now():%Y%m%d%H%M%S%f}"
    started = time.perf_counter()
    files: list[ChainFile] = []

    def opened(piece: Piece, chain: int) -> ChainFile:
        path = stack.enter_context(atomic_path(folder / f"{stem}_{chain + 1}.csv"))
        stream = stack.enter_context(path.open("w", encoding="utf-8"))
        own = replace(
            about,
            number=chain + 1,
            save_warmup=piece.warmed > 0,
            step_size=float(piece.fit.step_size[chain]),
            inv_metric=None if piece.inv_metric is None else piece.inv_metric[chain],
        )
        return ChainFile(stream, own, [dotted(name) for name in piece.fit.names])

    def add(piece: Piece) -> None:
        draws, stats, kept = piece.every(about.thin)
        first = not files
        if first:
            files.extend(opened(piece, chain) for chain in range(len(draws)))
        warmed = draws.shape[1] - kept
        for chain, file in enumerate(files):
            own = {SAMPLER_STATS[name]: value[chain] for name, value in stats.items()}
            if first:
                file.add({n: v[:warmed] for n, v in own.items()}, draws[chain, :warmed])
                file.adapted()
            file.add({n: v[warmed:] for n, v in own.items()}, draws[chain, warmed:])

    with ExitStack() as stack:
        yield add
        for file in files:
            file.finish(time.perf_counter() - started)


@contextmanager
def heard(on_iteration: Callable[[int, int], object] | None, show_console: bool) -> Iterator[bool]:
    """Read stanli's output while the block runs; yield whether stanli should print.

    Standard output belongs to the whole process: it is captured only in the main thread, and the
    output of others is passed on.
    """
    if show_console or on_iteration is None:
        yield show_console
    elif threading.current_thread() is not threading.main_thread():
        yield False
    else:
        with redirect_stdout(_Listener(on_iteration, sys.stdout)):
            yield True


class _Listener(io.TextIOBase):
    """Passes on all output except stanli's, which comes from the main and its chains' threads."""

    def __init__(self, on_iteration: Callable[[int, int], object], out: TextIO) -> None:
        self._on_iteration = on_iteration
        self._out = out
        self._line = threading.local()

    def write(self, text: str) -> int:
        found = _PROGRESS.match(text)
        if found:
            self._on_iteration(int(found[1]) - 1, int(found[2]))
        elif threading.current_thread() is not threading.main_thread() and not (
            text == "\n" and getattr(self._line, "was_progress", False)
        ):
            self._out.write(text)
        self._line.was_progress = found is not None  # print writes line ends separately
        return len(text)

    def flush(self) -> None:
        self._out.flush()
