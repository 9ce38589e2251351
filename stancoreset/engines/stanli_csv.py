"""CSV files of stanli's chains, as CmdStan would write them, piece by piece."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from stancoreset.engines.base import SAMPLER_STATS
from stancoreset.engines.chain_csv import Chain, ChainFile
from stancoreset.engines.layout import dotted
from stancoreset.engines.stanli_pieces import Piece
from stancoreset.files import atomic_path, make_folder


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
