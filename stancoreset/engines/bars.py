"""Progress bars on standard error, one per chain, while NUTS runs."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from stancoreset.engines.nuts import NUTS


@contextmanager
def chain_bars(nuts: NUTS, show: bool) -> Iterator[Callable[[int, int], object] | None]:
    """Draw the bars while the block runs; yield the callback for `BoundModel.sample`."""
    if not show:
        yield None
        return
    from tqdm.auto import tqdm

    total = nuts.warmup + int(nuts.iter_sampling)
    lock = threading.Lock()  # chains run side by side
    bars = [
        tqdm(total=total, desc=f"chain {chain + 1}", leave=False, file=sys.stderr, position=chain)
        for chain in range(nuts.chains)
    ]

    def on_iteration(chain: int, iteration: int) -> None:
        with lock:
            phase = "warm-up" if iteration <= nuts.warmup else "sampling"
            bars[chain].set_postfix_str(phase, refresh=False)
            bars[chain].update(iteration - bars[chain].n)
            if iteration == total:
                bars[chain].refresh()

    try:
        yield on_iteration
    finally:
        for bar in bars:
            bar.close()
