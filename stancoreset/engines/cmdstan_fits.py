"""What cmdstanpy does for us: modes, ADVI and NUTS of an executable with its data."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stancoreset.engines.base import SAMPLER_STATS, Float, SampleResult
from stancoreset.engines.layout import Layout
from stancoreset.errors import EngineError
from stancoreset.stan.transforms import Transforms

if TYPE_CHECKING:
    import cmdstanpy

__all__ = ["SIG_FIGS", "Fitter", "hushed"]

#: Log likelihoods are differenced: every digit of a double is wanted.
SIG_FIGS = 18


@dataclass(frozen=True)
class Fitter:
    """An executable and its data as cmdstanpy sees them, with draws in unconstrained coordinates.

    Parameters
    ----------
    name : str
        The program's, for messages.
    executable, data_file : Path
    transforms : Transforms
    threads : int
        Chains at a time, unless `sample` is told otherwise.
    """

    name: str
    executable: Path
    data_file: Path
    transforms: Transforms
    threads: int

    @cached_property
    def model(self) -> cmdstanpy.CmdStanModel:
        """The executable as cmdstanpy's model."""
        import cmdstanpy

        return cmdstanpy.CmdStanModel(
            exe_file=str(self.executable), stan_file=str(self.executable.with_suffix(".stan"))
        )

    @contextmanager
    def _asking(self, for_what: str) -> Iterator[cmdstanpy.CmdStanModel]:
        """cmdstanpy's model, without its log; its errors become ours."""
        with hushed():
            try:
                yield self.model
            except (RuntimeError, ValueError) as error:
                # Without its list of commands and files.
                said = re.split(r"\nCommand and output files|\nConsider re-running", str(error))[0]
                raise EngineError(f"{for_what} of '{self.name}' failed: {said.strip()}") from None

    def mode(self, init: Float | None, seed: int, max_iter: int) -> Float:
        """See `BoundModel.mode`."""
        with self._asking("CmdStan's optimizer") as model:
            fit = model.optimize(
                data=str(self.data_file),
                seed=seed + 1,
                inits=None if init is None else self._inits(init, 1)[0],
                jacobian=True,
                iter=max_iter,
                sig_figs=SIG_FIGS,
                show_console=False,
            )
            # Not by `stan_variable`, which warns of its own future for every scalar.
            values = Layout.from_names(fit.column_names).split(fit.optimized_params_np[None])
        return self.transforms.unconstrain({v: values[v] for v in self.transforms.shapes})[0]

    def variational(self, draws: int, seed: int) -> Float:
        """Draws of Stan's mean-field ADVI, unconstrained, (draws, P)."""
        with self._asking("ADVI") as model:
            fit = model.variational(
                data=str(self.data_file),
                seed=seed + 1,
                algorithm="meanfield",
                draws=draws,
                sig_figs=SIG_FIGS,
            )
        values = fit.stan_variables(mean=False)
        return self.transforms.unconstrain(
            {name: np.asarray(values[name]) for name in self.transforms.shapes}
        )

    def _inits(self, init: Float, chains: int) -> list[dict[str, Any]]:
        rows = np.broadcast_to(np.atleast_2d(init), (chains, self.transforms.n_params))
        values = self.transforms.constrain(rows)
        return [{name: value[c].tolist() for name, value in values.items()} for c in range(chains)]

    def sample(
        self,
        settings: Mapping[str, Any],
        inits: Float | None,
        *,
        parallel_chains: int | None,
        show_progress: bool,
        output_dir: str | None,
    ) -> SampleResult:
        """See `BoundModel.sample`; `settings` are what determines the draws."""
        chains, kept = settings["chains"], settings["iter_sampling"]
        started = time.perf_counter()
        with self._asking("NUTS") as model:
            fit = model.sample(
                # CmdStan's seeds start at 1.
                **{**settings, "seed": settings["seed"] + 1},
                data=str(self.data_file),
                parallel_chains=parallel_chains or min(chains, self.threads),
                inits=None if inits is None else self._inits(inits, chains),
                output_dir=output_dir,
                sig_figs=SIG_FIGS,
                show_progress=show_progress,
            )
        seconds = time.perf_counter() - started
        variables = {
            name: np.asarray(value, dtype=np.float64).reshape(chains, kept, *value.shape[1:])
            for name, value in fit.stan_variables().items()
        }
        stats: dict[str, Any] = {
            SAMPLER_STATS[name]: np.asarray(value).T
            for name, value in fit.method_variables().items()
            if name in SAMPLER_STATS
        }
        for count in ("tree_depth", "n_steps"):
            stats[count] = stats[count].astype(np.int64)
        stats["diverging"] = stats["diverging"].astype(bool)
        shapes = self.transforms.shapes
        flat = {name: variables[name].reshape(-1, *shape) for name, shape in shapes.items()}
        return SampleResult(
            variables=variables,
            stats=stats,
            unconstrained=self.transforms.unconstrain(flat).reshape(
                chains, kept, self.transforms.n_params
            ),
            seconds=seconds,
            settings=settings,
            native=fit,
        )


class _Hush(logging.Filter):
    """Holds back what a logger is told while any thread wants it to.

    A switch of the logger would be set back by the thread that ends last to what it was when
    that one began, which is off. This is counted, and changes nothing that a user may set.
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


#: For the length of a block, cmdstanpy logs nothing; it tells of every chain at level INFO.
hushed = _Hush("cmdstanpy")
