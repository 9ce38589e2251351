"""Modes, ADVI and NUTS of a CmdStan executable with its data.

The executable is run directly, with the arguments that cmdstanpy would use. cmdstanpy waits
for chains in threads that cannot be ended, leaves an optimizer running when it is interrupted,
writes its bars' last line to standard output, and logs everything. Finished chains become its
``CmdStanMCMC``.
"""

from __future__ import annotations

import json
import logging
import re
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from stancoreset.engines.base import Float, SampleResult, Unconstrain
from stancoreset.engines.cmdstan.files import cannot_write, read_csv, read_every, scratch_folder
from stancoreset.engines.cmdstan.process import Ended, failure, run
from stancoreset.engines.layout import Layout
from stancoreset.engines.metric import checked_metric
from stancoreset.engines.nuts import NUTS
from stancoreset.errors import EngineError, OutputError
from stancoreset.files import temporary_folder
from stancoreset.parallel import side_by_side
from stancoreset.stan.transforms import Transforms

#: Differences of log likelihoods need every digit of a double.
SIG_FIGS = 18

_ITERATION = re.compile(r"Iteration:\s+(\d+)")
# CmdStan's names of NUTS' options.
_ADAPTATION = {
    "adapt_delta": "delta",
    "adapt_init_phase": "init_buffer",
    "adapt_metric_window": "window",
    "adapt_step_size": "term_buffer",
}


@dataclass(frozen=True)
class Fits:
    """Fits of an executable with its data, in unconstrained coordinates.

    `threads` is the number of chains at a time, unless NUTS' options set it.
    """

    name: str
    executable: Path
    data_file: Path
    transforms: Transforms
    threads: int

    def _run(
        self,
        what: str,
        method: list[str],
        output: Path,
        *,
        seed: int,
        chain: int = 1,
        init: Path | None = None,
        refresh: int | None = None,
        on_line: Callable[[str], object] | None = None,
    ) -> Ended:
        # CmdStan's seeds start at 1.
        command = [str(self.executable), f"id={chain}", "random", f"seed={seed + 1}"]
        command += ["data", f"file={self.data_file}"]
        command += [] if init is None else [f"init={init}"]
        command += ["output", f"file={output}", f"sig_figs={SIG_FIGS}"]
        command += [] if refresh is None else [f"refresh={refresh}"]
        ended = run([*command, *method], what, on_line)
        if ended.returncode:
            raise failure(what, ended)
        return ended

    def mode(self, *, init: Float | None = None, seed: int = 0, max_iter: int = 2000) -> Float:
        """See `BoundModel.mode`; CmdStan's L-BFGS with jacobian=True."""
        what = f"CmdStan's optimizer of '{self.name}'"
        with scratch_folder() as folder:
            start = None if init is None else self._write_init(folder / "init.json", init)
            method = ["method=optimize", f"iter={max_iter}", "jacobian=1"]
            self._run(what, method, folder / "mode.csv", seed=seed, init=start)
            return self._parameters(*read_csv(folder / "mode.csv"))[-1]

    def variational(self, *, draws: int, seed: int = 0) -> Float:
        """Unconstrained draws of Stan's mean-field ADVI, (draws, P)."""
        what = f"ADVI of '{self.name}'"
        method = ["method=variational", "algorithm=meanfield", f"output_samples={draws}"]
        with scratch_folder() as folder:
            ended = self._run(what, method, folder / "advi.csv", seed=seed)
            if "may not have converged" in ended.stdout:
                raise EngineError(
                    f"{what} failed: CmdStan reports that the algorithm may not have converged; "
                    'try another reference, such as reference="pathfinder"'
                )
            # The first row is the approximation's mean.
            return self._parameters(*read_csv(folder / "advi.csv"))[1:]

    def _parameters(self, names: list[str], table: Float) -> Float:
        """Convert a table's rows to unconstrained parameters."""
        columns = Layout.from_names(names).columns
        return self.transforms.unconstrain(
            {name: table[:, columns[name]] for name in self.transforms.shapes}
        )

    def _write_init(self, path: Path, init: Float) -> Path:
        values = self.transforms.constrain(np.atleast_2d(init))
        text = json.dumps({name: value[0].tolist() for name, value in values.items()})
        path.write_text(text, encoding="utf-8")
        return path

    def sample(
        self,
        *,
        seed: int = 0,
        inits: Float | None = None,
        output_dir: str | None = None,
        on_iteration: Callable[[int, int], object] | None = None,
        inv_metric: Float | None = None,
        unconstrain: Unconstrain | None = None,
        **options: Any,
    ) -> SampleResult:
        """See `BoundModel.sample`."""
        nuts = NUTS.of(options).completed(inv_metric)
        shape = nuts.chains, self.transforms.n_params
        starts = None if inits is None else np.broadcast_to(np.atleast_2d(inits), shape)
        what, started = f"NUTS of '{self.name}'", time.perf_counter()
        temporary = temporary_folder() if output_dir is None else None
        folder = Path(temporary.name if temporary is not None else str(output_dir))
        stem = f"{self.executable.stem}-{time.strftime('%Y%m%d%H%M%S')}"
        files = [folder / f"{stem}_{chain}.csv" for chain in range(1, nuts.chains + 1)]
        known = checked_metric(inv_metric, nuts.metric, self.transforms.n_params)
        # Without a user's files, only what memory keeps is written.
        whole = output_dir is None or nuts.keep_every == 1
        thin = nuts.apart if whole else int(nuts.thin)

        def listen(line: str, chain: int) -> None:
            if nuts.show_console:
                print(f"Chain [{chain + 1}] {line.rstrip()}", flush=True)
            found = _ITERATION.match(line)
            if on_iteration is not None and found:
                on_iteration(chain, int(found[1]))

        def run_chain(chain: int) -> None:
            with scratch_folder() as scratch:
                start = None
                if starts is not None:
                    start = self._write_init(scratch / "init.json", starts[chain])
                metric_file = None
                if known is not None:
                    metric_file = scratch / "metric.json"
                    metric_file.write_text(json.dumps({"inv_metric": known.tolist()}))
                self._run(
                    what,
                    _nuts_arguments(nuts, chain, thin, metric_file),
                    files[chain],
                    seed=seed,
                    chain=chain + 1,
                    init=start,
                    refresh=nuts.refresh,
                    on_line=partial(listen, chain=chain),
                )

        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"cannot create the folder {folder}: {error.strerror}") from None
        together = nuts.parallel_chains or min(nuts.chains, self.threads)
        side_by_side(run_chain, range(nuts.chains), together)
        seconds = time.perf_counter() - started
        native = _chains(files, what)
        metrics = native.inv_metric if hasattr(native, "inv_metric") else native.metric
        if temporary is not None:  # the files live as long as the object that reads them
            weakref.finalize(native, temporary.cleanup)
        return SampleResult.of(
            *(_all(native, nuts) if whole else _every(native, files, nuts)),
            nuts.draws,
            unconstrain or self.transforms.unconstrain,
            seconds=seconds,
            settings={**nuts.settings(), "seed": seed},
            native=native,
            inv_metric=None if metrics is None else np.asarray(metrics, dtype=np.float64),
        )


def _nuts_arguments(nuts: NUTS, chain: int, thin: int, metric_file: Path | None) -> list[str]:
    sizes = nuts.step_sizes()
    method = [
        "method=sample",
        f"num_samples={nuts.iter_sampling}",
        f"num_warmup={nuts.iter_warmup}",
        f"save_warmup={int(nuts.save_warmup)}",
        f"thin={thin}",
        "algorithm=hmc",
        "engine=nuts",
        f"max_depth={nuts.max_treedepth}",
        *([] if sizes is None else [f"stepsize={sizes[chain]}"]),
        f"metric={nuts.metric}",
        *([] if metric_file is None else [f"metric_file={metric_file}"]),
    ]
    given = {name: getattr(nuts, ours) for ours, name in _ADAPTATION.items()}
    return [
        *method,
        "adapt",
        "engaged=1",
        *(f"{name}={value}" for name, value in given.items() if value is not None),
    ]


def _chains(files: list[Path], what: str) -> Any:
    """Read the chains as cmdstanpy's ``CmdStanMCMC``."""
    import cmdstanpy

    try:
        with hushed():
            return cmdstanpy.from_csv([str(file) for file in files], method="sample")
    except ValueError as error:
        raise EngineError(f"{what} wrote files that cannot be read: {error}") from None
    except OSError as error:
        raise cannot_write(error) from None


def _all(native: Any, nuts: NUTS) -> tuple[dict[str, Float], dict[str, Float]]:
    """All draws (chains, draws, *shape), preceded by warm-up if kept, and statistics."""

    def by_chain(name: str) -> Float:
        value = native.stan_variable(name, inc_warmup=nuts.save_warmup)
        value = np.asarray(value, dtype=np.float64)
        return value.reshape(nuts.chains, -1, *value.shape[1:])

    stats = {name: np.asarray(value).T for name, value in native.method_variables().items()}
    return {name: by_chain(name) for name in native.metadata.stan_vars}, stats


def _every(native: Any, files: list[Path], nuts: NUTS) -> tuple[dict[str, Float], dict[str, Float]]:
    """Every `keep_every`-th draw, (chains, draws, *shape), and statistics, read row by row."""
    warmed = -(-nuts.warmup // int(nuts.thin)) if nuts.save_warmup else 0
    rows = np.stack([read_every(file, int(nuts.keep_every), warmed) for file in files])
    about = native.metadata
    stats = {name: var.extract_reshape(rows) for name, var in about.method_vars.items()}
    return {name: var.extract_reshape(rows) for name, var in about.stan_vars.items()}, stats


class _Hush(logging.Filter):
    """A logging filter that drops messages while any thread is inside its block.

    If each thread disabled the logger and restored its state, the last thread could restore a
    state set by another, and leave it disabled. This filter counts threads instead, and changes
    no setting of the user's.
    """

    def __init__(self, logger: str) -> None:
        super().__init__()
        self._logger = logging.getLogger(logger)
        self._lock = threading.Lock()
        self._wanted = 0

    def filter(self, record: logging.LogRecord) -> bool:
        return False

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            self._wanted += 1
            self._logger.addFilter(self)
        try:
            yield
        finally:
            with self._lock:
                self._wanted -= 1
                if self._wanted == 0:
                    self._logger.removeFilter(self)


#: Silences cmdstanpy, which logs every chain at level INFO, for the duration of a block.
hushed = _Hush("cmdstanpy")
