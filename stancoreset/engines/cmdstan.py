"""The reference engine: CmdStan, through cmdstanpy where it can and its executables elsewhere.

cmdstanpy samples and optimises. Densities and generated quantities at many given draws
are asked of the model's executable directly (methods ``log_prob`` and
``generate_quantities``), because cmdstanpy takes one point, or a fit of its own.
"""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import tempfile
import time
import weakref
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stancoreset.engines import cmdstan_files
from stancoreset.engines.base import Float, SampleResult, StanData
from stancoreset.engines.layout import Layout
from stancoreset.errors import CompileError, DataError, EngineError, EngineNotFoundError
from stancoreset.files import content_key
from stancoreset.parallel import available_cores
from stancoreset.stan import stanc
from stancoreset.stan.data import to_json
from stancoreset.stan.program import StanProgram
from stancoreset.stan.transforms import Transforms

if TYPE_CHECKING:
    import cmdstanpy

__all__ = ["CmdStanBound", "CmdStanCompiled", "CmdStanEngine"]

# Log likelihoods are differenced: every digit of a double is wanted.
_SIG_FIGS = 18

_STATS = {
    "lp__": "lp",
    "accept_stat__": "acceptance_rate",
    "stepsize__": "step_size",
    "treedepth__": "tree_depth",
    "n_leapfrog__": "n_steps",
    "divergent__": "diverging",
    "energy__": "energy",
}


def cache_root() -> Path:
    """Folder of compiled programs, below ``$XDG_CACHE_HOME`` or ``~/.cache``."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "stancoreset"


@dataclass(frozen=True)
class CmdStanEngine:
    """Stan through CmdStan's compiled executables.

    Parameters
    ----------
    threads : int, optional
        Processes that evaluate draws at the same time; default: the available cores.
    cpp_options, stanc_options : dict, optional
        As in ``cmdstanpy.CmdStanModel``.

    Raises
    ------
    EngineNotFoundError
        If no CmdStan is found.
    """

    threads: int = field(default_factory=available_cores)
    cpp_options: Mapping[str, Any] = field(default_factory=dict)
    stanc_options: Mapping[str, Any] = field(default_factory=dict)
    name: str = "cmdstan"
    in_process: bool = False

    def __post_init__(self) -> None:
        _ = self.path

    @property
    def path(self) -> Path:
        """CmdStan's folder, as cmdstanpy finds it."""
        import cmdstanpy

        try:
            return Path(cmdstanpy.cmdstan_path())
        except ValueError as error:
            raise EngineNotFoundError(
                f"engine 'cmdstan' needs CmdStan: {error}. Install it with  install_cmdstan  "
                "(comes with cmdstanpy), or set the variable CMDSTAN to its folder"
            ) from None

    @property
    def version(self) -> str:
        """Engine name and version, for reports."""
        import cmdstanpy

        found = cmdstanpy.utils.cmdstan_version()
        return f"CmdStan {found[0]}.{found[1]}" if found else f"CmdStan in {self.path}"

    @property
    def stan_version(self) -> tuple[int, int]:
        """Stan's version, whose constraining transforms the executables use."""
        import cmdstanpy

        found = cmdstanpy.utils.cmdstan_version()
        if found is None:
            raise EngineNotFoundError(
                f"{self.path} is not a CmdStan folder: its makefile says no version"
            )
        return (int(found[0]), int(found[1]))

    def compile(
        self, code: str, *, name: str = "model", log_lik: str = "log_lik"
    ) -> CmdStanCompiled:
        """Compile, or take the executable from the cache, whose key is the content.

        Raises
        ------
        CompileError
            With Stan's or the C++ compiler's own words.
        """
        stanc.check(code)
        return CmdStanCompiled(self, code, name, self._executable(code, name), log_lik)

    def _executable(self, code: str, name: str) -> Path:
        key = content_key(
            code, str(self.path), self.version, dict(self.cpp_options), dict(self.stanc_options)
        )
        stem = re.sub(r"\W", "_", name) or "model"
        stem = f"m_{stem}" if stem[0].isdigit() else stem
        folder = cache_root() / "models" / key
        suffix = ".exe" if os.name == "nt" else ""
        if not (folder / f"{stem}{suffix}").exists():
            with cmdstan_files.built_folder(folder) as fresh:
                self._build(fresh / f"{stem}.stan", code)
        return folder / f"{stem}{suffix}"

    def _build(self, stan_file: Path, code: str) -> None:
        import cmdstanpy

        stan_file.write_text(code, encoding="utf-8")
        with _hushed():
            try:
                cmdstanpy.CmdStanModel(
                    stan_file=str(stan_file),
                    cpp_options=dict(self.cpp_options) or None,
                    stanc_options=dict(self.stanc_options) or None,
                )
            except (ValueError, RuntimeError, subprocess.CalledProcessError) as error:
                raise CompileError(f"CmdStan cannot compile the program:\n{error}") from None


@dataclass(frozen=True)
class CmdStanCompiled:
    """An executable."""

    engine: CmdStanEngine = field(repr=False)
    code: str = field(repr=False)
    name: str
    executable: Path
    log_lik: str = "log_lik"

    @cached_property
    def program(self) -> StanProgram:
        """The program's declarations."""
        return StanProgram.from_code(self.code)

    def bind(self, data: StanData, *, seed: int = 0) -> CmdStanBound:
        """Write the data to a temporary file, which `close` removes."""
        return CmdStanBound(self, data, seed)


class CmdStanBound:
    """An executable with its data file; see `stancoreset.engines.base.BoundModel`."""

    def __init__(self, compiled: CmdStanCompiled, data: StanData, seed: int) -> None:
        self._compiled = compiled
        self._seed = seed
        self._transforms = Transforms.from_program(
            compiled.program, data, version=compiled.engine.stan_version
        )
        self.n_params = self._transforms.n_params
        self.param_names = self._transforms.unconstrained_names
        self._folder = tempfile.TemporaryDirectory(prefix="stancoreset-")
        # CmdStan's files go even if nobody calls close.
        self._cleanup = weakref.finalize(self, self._folder.cleanup)
        self._data_file = to_json(data, Path(self._folder.name) / "data.json")

    # Evaluation ------------------------------------------------------------------------

    def _run(self, *arguments: str, seed: int = 0) -> subprocess.CompletedProcess[str]:
        command = [
            str(self._compiled.executable),
            *arguments,
            "data",
            f"file={self._data_file}",
            "random",
            f"seed={self._seed + seed + 1}",
        ]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def _in_blocks(self, draws: Float) -> list[Float]:
        rows = np.atleast_2d(np.asarray(draws, dtype=np.float64))
        if rows.shape[1] != self.n_params:
            raise EngineError(
                f"draws have {rows.shape[1]} columns, but '{self._compiled.name}' has "
                f"{self.n_params} unconstrained parameters"
            )
        blocks = max(1, min(self._compiled.engine.threads, len(rows) // 4))
        return np.array_split(rows, blocks)

    def log_density(self, draws: Float) -> Float:
        """See `BoundModel.log_density`."""
        return self.log_density_gradient(draws)[0]

    def log_density_gradient(self, draws: Float) -> tuple[Float, Float]:
        """See `BoundModel.log_density_gradient`; CmdStan's method ``log_prob``."""
        blocks = self._in_blocks(draws)
        with ThreadPoolExecutor(len(blocks)) as pool:
            tables = list(pool.map(self._log_prob, blocks))
        table = np.concatenate(tables)
        return table[:, 0], table[:, 1:]

    def _log_prob(self, rows: Float) -> Float:
        """Columns lp and gradient; a point that Stan rejects ends its run, and is −∞."""
        out = np.full((len(rows), 1 + self.n_params), np.nan)
        done = 0
        while done < len(rows):
            with tempfile.TemporaryDirectory(dir=self._folder.name) as folder:
                points, output = Path(folder) / "points.json", Path(folder) / "output.csv"
                points.write_text(json.dumps({"params_r": rows[done:].tolist()}))
                ended = self._run(
                    "log_prob",
                    f"unconstrained_params={points}",
                    "jacobian=1",
                    "output",
                    f"file={output}",
                    f"sig_figs={_SIG_FIGS}",
                )
                names, table = cmdstan_files.read_csv(output)
            if not names:
                raise self._failure("log_prob", ended)
            out[done : done + len(table)] = table
            done += len(table)
            if done < len(rows):
                if ended.returncode == 0:
                    raise self._failure("log_prob", ended)
                out[done, 0] = -np.inf
                done += 1
        out[np.isnan(out[:, 0]), 0] = -np.inf
        return out

    def generated(self, draws: Float, names: tuple[str, ...], seed: int = 0) -> dict[str, Float]:
        """See `BoundModel.generated`; CmdStan's method ``generate_quantities``."""
        blocks = self._in_blocks(draws)
        with ThreadPoolExecutor(len(blocks)) as pool:
            parts = list(pool.map(lambda rows: self._generate(rows, names, seed), blocks))
        return {name: np.concatenate([part[name] for part in parts]) for name in names}

    def _generate(self, rows: Float, names: tuple[str, ...], seed: int) -> dict[str, Float]:
        with tempfile.TemporaryDirectory(dir=self._folder.name) as folder:
            fitted, output = Path(folder) / "fitted.csv", Path(folder) / "output.csv"
            if self.n_params:
                cmdstan_files.write_draws(fitted, self.constrain(rows), self._compiled.name)
                method = ["generate_quantities", f"fitted_params={fitted}"]
            else:  # generate_quantities wants parameters; the sampler can do without
                method = ["sample", "algorithm=fixed_param", "num_warmup=0"]
                method.append(f"num_samples={len(rows)}")
            ended = self._run(
                *method, "output", f"file={output}", f"sig_figs={_SIG_FIGS}", seed=seed
            )
            columns, table = cmdstan_files.read_csv(output)
        if ended.returncode or len(table) != len(rows):
            raise self._failure("generate_quantities", ended)
        layout = Layout.from_names(columns)
        missing = [name for name in names if name not in layout.columns]
        if missing:
            raise EngineError(
                f"'{self._compiled.name}' has no generated quantity {missing[0]}; it has "
                f"{', '.join(layout.shapes) or 'none'}"
            )
        return {name: table[:, layout.columns[name]] for name in names}

    def log_lik(self, draws: Float) -> Float:
        """See `BoundModel.log_lik`."""
        name = self._compiled.log_lik
        return self.generated(draws, (name,))[name]

    def constrain(self, draws: Float) -> dict[str, Float]:
        """See `BoundModel.constrain`."""
        return self._transforms.constrain(np.atleast_2d(draws))

    def unconstrain(self, values: Mapping[str, Float]) -> Float:
        """See `BoundModel.unconstrain`."""
        return self._transforms.unconstrain(values)

    def _failure(self, method: str, ended: subprocess.CompletedProcess[str]) -> EngineError:
        said = (ended.stderr.strip() or ended.stdout.strip()).splitlines()
        text = "\n".join(said[-8:]) or f"exit code {ended.returncode}"
        kind = DataError if "data initialization" in text else EngineError
        return kind(f"CmdStan's {method} of '{self._compiled.name}' failed: {text}")  # type: ignore[return-value]

    # Fitting ---------------------------------------------------------------------------

    @cached_property
    def _model(self) -> cmdstanpy.CmdStanModel:
        import cmdstanpy

        executable = self._compiled.executable
        with _hushed():
            return cmdstanpy.CmdStanModel(
                exe_file=str(executable), stan_file=str(executable.with_suffix(".stan"))
            )

    def mode(self, *, init: Float | None = None, seed: int = 0, max_iter: int = 2000) -> Float:
        """See `BoundModel.mode`; CmdStan's L-BFGS with jacobian=True."""
        with _hushed():
            try:
                fit = self._model.optimize(
                    data=str(self._data_file),
                    seed=seed + 1,
                    inits=None if init is None else self._inits(init, 1)[0],
                    jacobian=True,
                    iter=max_iter,
                    sig_figs=_SIG_FIGS,
                    show_console=False,
                )
            except (RuntimeError, ValueError) as error:
                raise EngineError(f"CmdStan's optimizer failed: {_core(error)}") from None
        names = self._transforms.shapes
        return self.unconstrain(
            {name: np.asarray(fit.stan_variable(name))[None] for name in names}
        )[0]

    def variational(self, *, draws: int, seed: int = 0) -> Float:
        """Draws of Stan's mean-field ADVI, unconstrained, (draws, P).

        Raises
        ------
        EngineError
            If it fails or does not converge; with Stan's own message.
        """
        with _hushed():
            try:
                fit = self._model.variational(
                    data=str(self._data_file),
                    seed=seed + 1,
                    algorithm="meanfield",
                    draws=draws,
                    sig_figs=_SIG_FIGS,
                )
            except (RuntimeError, ValueError) as error:
                raise EngineError(
                    f"ADVI of '{self._compiled.name}' failed: {_core(error)}"
                ) from None
        values = fit.stan_variables(mean=False)
        return self.unconstrain(
            {name: np.asarray(values[name]) for name in self._transforms.shapes}
        )

    def _inits(self, init: Float, chains: int) -> list[dict[str, Any]]:
        rows = np.broadcast_to(np.atleast_2d(init), (chains, self.n_params))
        values = self.constrain(rows)
        return [{name: value[c].tolist() for name, value in values.items()} for c in range(chains)]

    def sample(
        self,
        *,
        chains: int = 4,
        iter_warmup: int = 1000,
        iter_sampling: int = 1000,
        seed: int = 0,
        inits: Float | None = None,
        adapt_delta: float = 0.8,
        max_treedepth: int = 10,
        metric: str = "diag_e",
        parallel_chains: int | None = None,
        show_progress: bool = False,
        output_dir: str | None = None,
    ) -> SampleResult:
        """See `BoundModel.sample`; `output_dir` keeps CmdStan's CSV files."""
        started = time.perf_counter()
        with _hushed():
            try:
                fit = self._model.sample(
                    data=str(self._data_file),
                    chains=chains,
                    parallel_chains=parallel_chains or min(chains, self._compiled.engine.threads),
                    iter_warmup=iter_warmup,
                    iter_sampling=iter_sampling,
                    # CmdStan's seeds start at 1.
                    seed=seed + 1,
                    inits=None if inits is None else self._inits(inits, chains),
                    adapt_delta=adapt_delta,
                    max_treedepth=max_treedepth,
                    metric=metric,
                    output_dir=output_dir,
                    sig_figs=_SIG_FIGS,
                    show_progress=show_progress,
                )
            except (RuntimeError, ValueError) as error:
                raise EngineError(
                    f"sampling '{self._compiled.name}' failed: {_core(error)}"
                ) from None
        seconds = time.perf_counter() - started
        variables = {
            name: np.asarray(value, dtype=np.float64).reshape(
                chains, iter_sampling, *value.shape[1:]
            )
            for name, value in fit.stan_variables().items()
        }
        stats: dict[str, Any] = {
            _STATS[name]: np.asarray(value).T
            for name, value in fit.method_variables().items()
            if name in _STATS
        }
        for count in ("tree_depth", "n_steps"):
            stats[count] = stats[count].astype(np.int64)
        stats["diverging"] = stats["diverging"].astype(bool)
        flat = {
            name: variables[name].reshape(-1, *shape)
            for name, shape in self._transforms.shapes.items()
        }
        return SampleResult(
            variables=variables,
            stats=stats,
            unconstrained=self.unconstrain(flat).reshape(chains, iter_sampling, self.n_params),
            seconds=seconds,
            settings={
                "chains": chains,
                "iter_warmup": iter_warmup,
                "iter_sampling": iter_sampling,
                "seed": seed,
                "adapt_delta": adapt_delta,
                "max_treedepth": max_treedepth,
                "metric": metric,
            },
            native=fit,
        )

    def close(self) -> None:
        """Remove the temporary files."""
        self._cleanup()

    def __enter__(self) -> CmdStanBound:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _core(error: Exception) -> str:
    """cmdstanpy's message without its list of commands and files."""
    return re.split(r"\nCommand and output files|\nConsider re-running", str(error))[0].strip()


class _hushed:
    """cmdstanpy tells of every chain at level INFO; for the length of a call, only errors."""

    def __enter__(self) -> None:
        self._logger = logging.getLogger("cmdstanpy")
        self._disabled = self._logger.disabled
        self._logger.disabled = True

    def __exit__(self, *_: object) -> None:
        self._logger.disabled = self._disabled
