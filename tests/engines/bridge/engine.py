"""Stan by BridgeStan, written from `stancoreset.engines.base` alone: densities, no sampling."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import bridgestan
import numpy as np
from cmdstan_runtime.build import (
    RuntimeUnavailable,
    built,
    cache_root,
    httpstan_directory,
    locked,
    stan_version,
)
from scipy.optimize import minimize

from stancoreset.engines.base import (
    Capabilities,
    Closing,
    Density,
    Float,
    StanData,
    as_points,
)
from stancoreset.errors import CompileError, DataError, EngineError
from stancoreset.stan.data import json_text

__all__ = ["BridgeStanEngine", "RuntimeUnavailable"]

BRIDGE = Path(__file__).with_name("bridge.cpp")


#: Compiled in half the time; and as BridgeStan compiles, with one thread.
QUICK, FAST = ("-O0", "-DSTAN_THREADS"), ("-O3",)


def library(code: str, options: tuple[str, ...] = QUICK) -> Path:
    """The program as a shared library, from Stan's headers in the httpstan wheel; kept on disk.

    Its libraries are the copies that the CmdStan runtime keeps: a wheel goes with its environment.
    """
    home = built(cache_root())
    key = hashlib.sha256(code.encode() + BRIDGE.read_bytes() + str(home).encode())
    key.update("".join(options).encode())
    folder = cache_root() / "bridge" / key.hexdigest()[:20]
    made = folder / "program.so"
    with locked(folder / "lock"):
        if not made.exists():
            build(folder, code, home, options)
    return made


def build(folder: Path, code: str, home: Path, options: tuple[str, ...]) -> None:
    source, httpstan = folder / "program.stan", home / "httpstan"
    source.write_text(code, encoding="utf-8")
    run(str(home / "bin" / "stanc"), f"--o={folder / 'program.hpp'}", str(source))
    libraries = ("sundials_cvodes", "sundials_idas", "sundials_kinsol", "sundials_nvecserial")
    run(
        os.environ.get("CXX", "g++"), "-std=c++17", "-shared", "-fPIC", "-pthread", *options,
        "-D_REENTRANT", "-DBOOST_DISABLE_ASSERTS", "-w",
        "--param", "ggc-min-heapsize=4000000", '-DPROGRAM="program.hpp"',
        "-isystem", str(httpstan / "include"), f"-I{folder}", "-o", str(folder / "fresh.so"),
        str(BRIDGE), f"-L{httpstan / 'lib'}", f"-Wl,-rpath,{httpstan / 'lib'}", "-Wl,--as-needed",
        *(f"-l{name}" for name in (*libraries, "tbb")),
    )  # fmt: skip
    (folder / "fresh.so").rename(folder / "program.so")


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CompileError(f"{done.stdout}\n{done.stderr}")


@dataclass(frozen=True)
class BridgeStanEngine:
    """BridgeStan as an engine of stancoreset."""

    threads: int = 1
    options: tuple[str, ...] = QUICK
    name: str = "bridgestan"
    capabilities = Capabilities(in_process=True)

    @property
    def version(self) -> str:
        return f"BridgeStan {bridgestan.__version__}"

    @property
    def stan_version(self) -> tuple[int, int]:
        major, minor, _ = stan_version(httpstan_directory()).split(".")
        return int(major), int(minor)

    def compile(self, code: str, *, name: str = "model", log_lik: str = "log_lik") -> Program:
        return Program(code, name, log_lik, self.options)


@dataclass(frozen=True)
class Program:
    code: str
    name: str
    log_lik: str
    options: tuple[str, ...]

    @cached_property
    def path(self) -> Path:
        return library(self.code, self.options)

    def bind(self, data: StanData, *, seed: int = 0, threads: int | None = None) -> Bound:
        return Bound(self, data, seed)

    def bind_density(self, data: StanData) -> Density:
        return self.bind(data)


class Bound(Closing):
    """A program with its data."""

    def __init__(self, program: Program, data: StanData, seed: int) -> None:
        self._program = program
        try:
            self._model: Any = bridgestan.StanModel(
                program.path, json_text(data), seed=seed, warn=False, capture_stan_prints=False
            )
        except RuntimeError as error:
            raise DataError(f"Stan refuses the data of '{program.name}': {error}") from None
        self.n_params = int(self._model.param_unc_num())
        self.param_names = tuple(filter(None, self._model.param_unc_names()))

    def log_density(self, draws: Float) -> Float:
        return self._each(draws, self._value)

    def log_density_gradient(self, draws: Float) -> tuple[Float, Float]:
        points = as_points(draws, self.n_params, self._program.name)
        pairs = [self._pair(point) for point in points]
        return np.array([value for value, _ in pairs]), np.array([slope for _, slope in pairs])

    def log_lik(self, draws: Float) -> Float:
        return self.generated(draws, (self._program.log_lik,))[self._program.log_lik]

    def generated(
        self, draws: Float, names: tuple[str, ...] | None, seed: int = 0
    ) -> dict[str, Float]:
        columns = self._model.param_names(include_tp=True, include_gq=True)
        before = len([*filter(None, self._model.param_names(include_tp=True))])
        points = as_points(draws, self.n_params, self._program.name)
        rows = [
            self._model.param_constrain(
                point, include_tp=True, include_gq=True, rng=self._model.new_rng(seed + number)
            )[before:]
            for number, point in enumerate(points)
        ]
        found = split(columns[before:], np.array(rows))
        return found if names is None else {name: found[name] for name in names}

    def constrain(self, draws: Float) -> dict[str, Float]:
        return split(self._model.param_names(), self._each(draws, self._model.param_constrain))

    def unconstrain(self, values: Mapping[str, Float]) -> Float:
        columns = [*filter(None, self._model.param_names())]
        joined = [values[name][:, *place] for name, place in map(placed, columns)]
        try:
            return np.array(
                [self._model.param_unconstrain(row) for row in np.array(joined).T.copy()]
            )
        except RuntimeError as error:
            raise DataError(f"a draw lies outside the parameters' support: {error}") from None

    def mode(self, *, init: Float | None = None, seed: int = 0, max_iter: int = 2000) -> Float:
        start = np.zeros(self.n_params) if init is None else init

        def falling(theta: Float) -> tuple[float, Float]:
            value, slope = self._pair(theta)
            return -value, -slope

        found = minimize(falling, start, jac=True, method="BFGS", options={"maxiter": max_iter})
        return np.asarray(found.x)

    def sample(self, **_: Any) -> Any:
        raise EngineError("this engine does not sample")

    def _each(self, draws: Float, function: Any) -> Float:
        points = as_points(draws, self.n_params, self._program.name)
        return np.array([function(point) for point in points])

    def _value(self, theta: Float) -> float:
        try:
            return float(self._model.log_density(theta))
        except RuntimeError:  # outside the support
            return -np.inf

    def _pair(self, theta: Float) -> tuple[float, Float]:
        try:
            value, slope = self._model.log_density_gradient(theta)
        except RuntimeError:
            return -np.inf, np.full(self.n_params, np.nan)
        return float(value), np.array(slope)


def placed(column: str) -> tuple[str, tuple[int, ...]]:
    """A column's variable, and the place of its element."""
    name, *index = re.split(r"\.(?=\d)", column)
    return name, tuple(int(i) - 1 for i in index)


def split(columns: list[str], rows: Float) -> dict[str, Float]:
    """Columns as arrays, (S, *shape) each."""
    found: dict[str, dict[tuple[int, ...], Float]] = {}
    for column, values in zip(filter(None, columns), rows.T, strict=True):
        name, place = placed(column)
        found.setdefault(name, {})[place] = values
    out = {}
    for name, places in found.items():
        shape = tuple(np.max([*places], axis=0).astype(int) + 1)
        out[name] = np.empty((len(rows), *shape))
        for place, values in places.items():
            out[name][:, *place] = values
    return out
