"""Every public function with values of every wrong type: refused at once, by the argument's name.

A value that an argument may have ends in whatever it leads to; no value ends in an error that is
not ours. Nothing is computed meanwhile: what would be raises `Reached`.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import os
import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from problems import NORMAL_CODE, normal_data
from tiers import some

import stancoreset as sc
from stancoreset.demo import Departures
from stancoreset.engines.nuts import NUTS as OptionsOfNUTS
from stancoreset.errors import CompileError, StancoresetError
from stancoreset.posterior import leave_one_out
from stancoreset.program import session
from stancoreset.selection import in_the_loop

pytestmark = pytest.mark.fit  # its catalogue holds fits


class Reached(Exception):
    """The arguments were accepted: from here on it would be computed."""


class Odd:
    """An object that takes part in nothing."""

    def __repr__(self) -> str:
        raise RuntimeError("no words")

    def __eq__(self, _other: object) -> bool:
        raise RuntimeError("not to be compared")

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise RuntimeError("neither")


def catalogue(folder: Path) -> dict[str, Any]:
    (folder / "empty").mkdir()
    (folder / "file.txt").write_text("once upon a time")
    (folder / "binary").write_bytes(bytes(range(256)))
    (folder / "list.json").write_text("[1, 2]")
    (folder / "nested.json").write_text('{"y": ' + "[" * 100_000)
    return {
        "None": None,
        "three": 3,
        "minus one": -1,
        "zero": 0,
        "one and a half": 1.5,
        "nan": float("nan"),
        "inf": float("inf"),
        "a letter": "x",
        "no letters": "",
        "bytes": b"",
        "a list": [],
        "a dict": {},
        "an object": object(),
        "odd": Odd(),
        "True": True,
        "complex": 1 + 2j,
        "huge": 10**400,
        "2**63": 2**63,
        "NUL": "a\0b",
        "300 letters": "x" * 300,
        "nested": [[1], [2, [3]]],
        "a key that is no text": {1: 2},
        "a cube": np.zeros((2, 3, 4)),
        "texts": np.array(["a", "b"]),
        "objects": np.array([None, "a"], dtype=object),
        "complex numbers": np.full(5, 1j),
        "NaNs": np.full(5, np.nan),
        "a set": {1},
        "a function": len,
        "a type": int,
        "a generator": (i for i in ()),
        "numpy's float": np.float64(2.5),
        "a table": pd.DataFrame({"a": [1.0, np.nan]}),
        "a folder": folder / "empty",
        "a file": folder / "file.txt",
        "a binary file": str(folder / "binary"),
        "a list in a file": str(folder / "list.json"),
        "brackets in a file": folder / "nested.json",
        "nothing there": folder / "nowhere" / "x.json",
        "a home of nobody": "~nobody-of-that-name/x",
    }


Legit = Callable[[Any], bool]


def whole(least: int, most: float = 2**63 - 1) -> Legit:
    return lambda v: isinstance(v, int) and not isinstance(v, bool) and least <= v <= most


def number(least: float, most: float = float("inf"), *, strict: bool = False) -> Legit:
    def legit(v: Any) -> bool:
        real = isinstance(v, int | float) and not isinstance(v, bool)
        return real and abs(v) < 1e300 and (least < v < most if strict else least <= v <= most)

    return legit


def text(v: Any) -> bool:
    return isinstance(v, str) and v != ""


def one_of(*names: str) -> Legit:
    return lambda v: isinstance(v, str) and v in names


def path(v: Any) -> bool:
    if not isinstance(v, str | Path) or not str(v):
        return False
    try:
        os.stat(Path(v).expanduser())
    except FileNotFoundError:
        return True
    except (OSError, ValueError, RuntimeError):
        return False
    return True


def file(v: Any) -> bool:
    """What is in it is seen when the program's parameters are known."""
    return path(v) and os.path.isfile(v)


def flag(v: Any) -> bool:
    return isinstance(v, bool)


def nothing(_v: Any) -> bool:
    return False


def anything(_v: Any) -> bool:
    return True


def empty(v: Any) -> bool:
    """A mapping, list, … with nothing in it, which asks for nothing."""
    return isinstance(v, dict | list) and not v


def empty_list(v: Any) -> bool:
    return isinstance(v, list) and not v


def empty_dict(v: Any) -> bool:
    return isinstance(v, dict) and not v


def TABLE(v: Any) -> bool:
    """A table may hold draws: whether it does is seen when they are used."""
    return isinstance(v, pd.DataFrame)


def either(*kinds: Legit) -> Legit:
    return lambda v: any(kind(v) for kind in kinds)


def missing(v: Any) -> bool:
    return v is None


def optional(kind: Legit) -> Legit:
    return either(kind, missing)


def function(v: Any) -> bool:
    return callable(v)


CALLBACK = optional(function)
CALLED = either(nothing)  # may be a function that makes it
SEED = whole(0, 2**32 - 1)


@dataclass(frozen=True)
class Case:
    """A call that is right, and for each argument which values of the catalogue are, too.

    `words` are what an argument may be called in a message beside its name.
    """

    call: Callable[..., Any]
    given: Mapping[str, Any]
    kinds: Mapping[str, Legit]
    words: Mapping[str, str] = field(default_factory=dict)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """One of each thing that a call needs."""
    folder = tmp_path_factory.mktemp("world")
    data = normal_data(400)
    replicated = "vector[N] log_lik; vector[N] y_rep = rep_vector(0, N);"
    code = NORMAL_CODE.replace("vector[N] log_lik;", replicated)
    model = sc.CoresetModel(stan_code=NORMAL_CODE, engine="stanli")
    fit = model.fit(data, size=20, seed=1, chains=2, iter_warmup=100, iter_sampling=100)
    fit.save(folder / "run")
    (folder / "model.stan").write_text(NORMAL_CODE)
    (folder / "data.json").write_text('{"N": 2, "y": [1, 2]}')
    projection = model.project(data, fit.reference)
    return {
        "folder": folder,
        "data": data,
        "model": model,
        "own": sc.CoresetModel(stan_code=code, engine="stanli"),
        "fit": fit,
        "projection": projection,
    }


# Of a batch: a file is named itself, and lists are grids.
FILES = "cannot read|neither TOML nor JSON|would have the same folder"
# A file of data is named itself.
DATA = {"data": "is not (Stan )?JSON|holds a JSON|is a folder|no such data file"}
# Rows that are scored.
ROWS: dict[str, Legit] = {"replicated": missing, "draws": optional(whole(1)), "seed": SEED}
NUTS: dict[str, Legit] = {
    "chains": whole(1),
    "iter_warmup": optional(whole(0)),
    "iter_sampling": whole(1),
    "adapt_delta": optional(number(0, 1, strict=True)),
    "max_treedepth": whole(1),
    "parallel_chains": optional(whole(1)),
    "thin": whole(1),
    "keep_every": whole(1),
    "save_warmup": flag,
    "metric": missing,
    "step_size": optional(number(0, strict=True)),
    "adapt_init_phase": optional(whole(0)),
    "adapt_metric_window": optional(whole(0)),
    "adapt_step_size": optional(whole(0)),
    "show_console": flag,
    "refresh": whole(1),
    "inits": either(missing, number(0), empty_dict, file),
}
# Of fits, where all of NUTS' options may stand together, and None is what is not given.
SAMPLER: dict[str, Legit] = {
    **NUTS,
    **{name: optional(NUTS[name]) for name in ("chains", "iter_warmup", "iter_sampling")},
    "sampler": missing,
}
SELECTION: dict[str, Legit] = {
    "projection": missing,
    "control_variate": flag,
    "draws": optional(whole(2)),
    "candidates": optional(whole(1)),
}
POLICY: dict[str, Legit] = {
    m.name: (whole if isinstance(m.default, int) else number)(m.metadata["least"])
    for m in dataclasses.fields(sc.Policy)
} | {"goal_efficiency": number(0, 1, strict=True)}
LABELS: dict[str, Legit] = {
    "coords": optional(empty),
    "dims": optional(empty),
}
DRAWN: dict[str, Legit] = {"max_parameters": whole(1), "weights": optional(empty_dict)}
RUN: dict[str, Legit] = {
    "show_progress": optional(flag),
    "output_dir": optional(path),
    "engine_output_dir": optional(path),
    "resume": flag,
    "overwrite": flag,
    "stages": missing,
}


def cases(world: Mapping[str, Any]) -> dict[str, Case]:
    data, model, own, fit = (world[name] for name in ("data", "model", "own", "fit"))
    folder, projection, draws = world["folder"], world["projection"], np.arange(200.0)
    posterior = {"a": fit, "b": fit}
    phi = np.random.default_rng(0).standard_normal((6, 30))
    eye, point = np.eye(2), np.zeros(2)
    x = np.random.default_rng(0).normal(size=400)
    table = pd.DataFrame({"x": x, "y": x + 1})
    made = sc.regression("y ~ x", table, engine="stanli")

    def solve(method: str) -> Callable[..., Any]:
        return lambda **options: sc.solvers.solve(phi, phi.sum(axis=1), 5, method, **options)

    def loop(method: Callable[..., Any]) -> Callable[..., Any]:
        posterior = in_the_loop.CoresetPosterior(30, 30.0, reached, reached, reached)
        return lambda **options: method(**{"model": posterior, "size": 5, **options})

    pair = {"posterior": fit.posterior}
    found = {
        "NUTS": Case(sc.NUTS, {}, {n: kind for n, kind in NUTS.items() if n != "inits"}),
        "Selection": Case(sc.Selection, {}, SELECTION),
        "Policy": Case(sc.Policy, {}, POLICY),
        "CoresetModel": Case(
            sc.CoresetModel,
            {"stan_file": folder / "model.stan", "engine": "stanli"},
            {
                "stan_file": path,
                "engine": nothing,
                "obs": optional(text),
                "threads": optional(whole(1)),
                "glm": flag,
                "passes": nothing,
                "second_engine": nothing,
                "cpp_options": optional(empty_dict),
                "stanc_options": optional(empty_dict),
            },
        ),
        "CoresetModel of code": Case(
            sc.CoresetModel,
            {"stan_code": NORMAL_CODE, "engine": "stanli"},
            {"stan_code": text},
            {"stan_code": "stan_file"},
        ),
        "fit": Case(
            model.fit,
            {"data": data, "size": 20},
            {
                "data": nothing,
                "size": whole(1, 400),
                "method": nothing,
                "reference": lambda v: isinstance(v, np.ndarray | pd.DataFrame),
                **SELECTION,
                "refine": nothing,
                "selection": missing,
                "max_rounds": whole(1),
                "max_seconds": optional(number(0)),
                "seed": optional(SEED),
                **SAMPLER,
                **LABELS,
                **RUN,
            },
            {"reference": "posterior"},
        ),
        "merge": Case(
            model.merge,
            {"parts": [(data, fit)], "size": 20},
            {
                "parts": nothing,
                "size": whole(1, 400),
                "method": nothing,
                "control_variate": flag,
                "max_rounds": whole(1),
                "max_seconds": optional(number(0)),
                "selection": missing,
                "seed": optional(SEED),
                **SAMPLER,
                **LABELS,
                **RUN,
            },
            {"parts": "part|merge"},
        ),
        "keep": Case(model.keep, {"data": data, "fit": fit}, {"data": nothing, "fit": nothing}),
        "read": Case(model.read, {"data": data}, {"data": nothing}),
        "reference": Case(
            model.reference,
            {"data": data},
            {
                "data": nothing,
                "method": lambda v: isinstance(v, np.ndarray | pd.DataFrame | dict),
                "draws": whole(2),
                "seed": SEED,
            },
            {"method": "reference|posterior"},
        ),
        "project": Case(
            model.project,
            {"data": data, "reference": fit.reference},
            {
                "data": nothing,
                "reference": nothing,
                "projection": nothing,
                "candidates": whole(1),
                "heldout": whole(2),
                "seed": SEED,
            },
        ),
        "add_control_variate": Case(
            model.add_control_variate,
            {
                "data": data,
                "coreset": fit.coreset,
                "reference": fit.reference,
                "projection": "taylor",
            },
            dict.fromkeys(("data", "coreset", "reference", "projection"), nothing),
        ),
        "sample": Case(
            model.sample,
            {"data": data, "coreset": fit.coreset},
            {
                "data": nothing,
                "coreset": missing,
                "near": lambda v: v is None or TABLE(v),
                "seed": optional(SEED),
                "show_progress": optional(flag),
                "output_dir": optional(path),
                **LABELS,
                **NUTS,
                "sampler": missing,
            },
        ),
        "starts of a parameter": Case(
            lambda inits: model.sample(data, fit.coreset, inits={"mu": inits}),
            {"inits": 0.5},
            {
                "inits": either(
                    number(-1e300),
                    flag,
                    empty_list,
                    lambda v: isinstance(v, np.ndarray) and v.ndim == 3,
                )
            },
        ),
        "certify": Case(
            model.certify,
            {"data": data, "coreset": fit.coreset, "posterior": fit.posterior},
            {
                "data": nothing,
                "coreset": nothing,
                "posterior": TABLE,
                "draws": whole(100),
                "reference": missing,
            },
        ),
        "log_likelihood": Case(
            model.log_likelihood,
            {"data": data, **pair},
            {
                "data": nothing,
                "posterior": TABLE,
                "draws": optional(whole(1)),
                "weights": missing,
            },
        ),
        "loo": Case(
            model.loo,
            {"data": data, **pair},
            {
                "data": nothing,
                "posterior": TABLE,
                "draws": optional(whole(1)),
                "subsample": optional(whole(2)),
                "weights": missing,
                "seed": SEED,
                "show_progress": optional(flag),
            },
        ),
        "loo_compare": Case(
            sc.loo_compare,
            {"models": {"a": leave_one_out([(np.arange(9), np.zeros((200, 9)))], 9)}},
            {"models": nothing},
        ),
        "generate_quantities": Case(
            own.generate_quantities,
            {"data": data, **pair},
            {
                "data": nothing,
                "posterior": TABLE,
                "names": either(missing, empty),
                "draws": optional(whole(1)),
                "weights": missing,
                "seed": SEED,
            },
            {"names": "generated"},
        ),
        "posterior_predictive": Case(
            own.posterior_predictive,
            {"data": data, **pair, "replicated": {"y": "y_rep"}},
            {
                "data": nothing,
                "posterior": TABLE,
                "replicated": nothing,
                "draws": optional(whole(1)),
                "weights": missing,
                "seed": SEED,
            },
        ),
        "information": Case(
            own.information,
            {"rows": data, "fit": fit.posterior},
            {"rows": nothing, "fit": TABLE, **ROWS},
            {"fit": "posterior"},
        ),
        "design": Case(
            own.design,
            {"rows": data, "fit": fit.posterior},
            {
                "rows": nothing,
                "fit": TABLE,
                "size": whole(1),
                "target": either(
                    missing,
                    lambda v: isinstance(v, str),
                    empty_list,
                    lambda v: isinstance(v, np.ndarray) and v.dtype.kind == "U",
                ),
                "repeat": flag,
                **ROWS,
            },
            {"fit": "posterior"},
        ),
        "stan_data": Case(
            model.stan_data,
            {"data": data, "coreset": fit.coreset},
            {"data": nothing, "coreset": missing},
        ),
        "identities": Case(
            model.identities,
            {"data": data},
            {"data": nothing, "points": whole(2), "seed": SEED},
        ),
        "CoresetFit.save": Case(
            fit.save, {"path": folder / "again"}, {"path": path, "overwrite": flag}
        ),
        "CoresetFit.write_csv": Case(
            fit.write_csv,
            {"path": folder / "chains", "data": data, "overwrite": True},
            {
                "path": path,
                "data": nothing,
                "names": either(missing, empty),
                "engine": missing,
                "seed": optional(SEED),
                "overwrite": flag,
            },
            {"path": "path|write|already", "names": "generated"},
        ),
        "CoresetFit.corrected": Case(
            fit.corrected, {}, {"resample": either(flag, whole(1))}, {"resample": "resample"}
        ),
        "Coreset.save": Case(
            fit.coreset.save, {"path": folder / "c.csv"}, {"path": path}, {"path": "path|write"}
        ),
        "Coreset.load": Case(
            sc.Coreset.load,
            {"path": folder / "run" / "coreset.csv"},
            {"path": path},
        ),
        "Coreset.subset": Case(fit.coreset.subset, {"data": data}, {"data": nothing}),
        "Certificate.expectation": Case(
            fit.certificate.expectation, {"values": np.zeros(200)}, {"values": nothing}
        ),
        "Table": Case(
            sc.Table,
            {"rows": {"y": [1.0]}},
            {
                "rows": anything,
                "columns": empty_dict,
                "values": lambda v: isinstance(v, dict),
                "levels": empty_dict,
                "counts": empty_dict,
                "chunk_rows": optional(whole(1)),
                "memory": whole(0),
                "threads": optional(whole(1)),
            },
        ),
        "rows of a Table": Case(
            lambda rows: model.read(sc.Table(rows)),
            {"rows": {"y": [1.0]}},
            {"rows": CALLED},
            {"rows": f"column|chunk|data file|the folder|cannot read|{DATA['data']}"},
        ),
        "Distributed": Case(
            lambda **given: model.read(sc.Distributed(**given)),
            {"table": sc.Table(str(folder / "data.json")), "client": "tcp://127.0.0.1:1"},
            {"table": nothing, "client": nothing, "retries": whole(0)},
            {"client": "client|scheduler"},
        ),
        "certify log weights": Case(
            sc.certify,
            {"log_weights": np.zeros(200)},
            {
                "log_weights": nothing,
                "heldout_error": either(number(-1e300), lambda v: isinstance(v, float)),
                "draw_index": missing,
                "divergences": whole(0),
                "n_transitions": whole(0),
                "unseen": either(number(-1e300), lambda v: isinstance(v, float)),
                "rhat": either(number(-1e300), lambda v: isinstance(v, float)),
                "unvisited": either(number(-1e300), lambda v: isinstance(v, float)),
                "moved": nothing,
                "against": lambda v: isinstance(v, str),
                "stopped": lambda v: isinstance(v, str),
                "witness": lambda v: isinstance(v, str),
                "disagreement": lambda v: isinstance(v, str),
                "monte_carlo": nothing,
                "marginals": missing,
            },
            {"log_weights": "log weight|draws are too few"},
        ),
        "compare": Case(
            sc.compare,
            {"posteriors": posterior},
            {
                "posteriors": nothing,
                "reference": missing,
                "var_names": missing,
                "quantiles": empty_list,
                "weights": optional(empty_dict),
                "seconds": optional(empty_dict),
            },
            {"posteriors": "posterior", "var_names": "parameter|var_names"},
        ),
        "summarise": Case(sc.summarise, {"table": sc.compare(posterior)}, {"table": nothing}),
        "thin": Case(
            sc.thin,
            {"posterior": {"x": draws}, "size": 5},
            {
                "posterior": nothing,
                "size": whole(1),
                "weights": missing,
                "functions": one_of("x"),
                "kernel": missing,
                "method": nothing,
                "tol": optional(number(0, 1, strict=True)),
                "resample": either(flag, whole(1, 10**6)),
                "var_names": optional(one_of("x")),
                "seed": SEED,
            },
            {"var_names": "parameter|var_names"},
        ),
        "load_fit": Case(sc.load_fit, {"path": folder / "run"}, {"path": path}),
        "merge coresets": Case(
            sc.merge, {"coresets": [fit.coreset]}, {"coresets": nothing}, {"coresets": "merge|part"}
        ),
        "run_batch": Case(
            sc.run_batch,
            {
                "spec": {
                    "jobs": [
                        {"model": str(folder / "model.stan"), "data": str(folder / "data.json")}
                    ]
                },
                "work_dir": folder / "work",
                "dry_run": True,
            },
            {
                "spec": path,
                "work_dir": path,
                "jobs": whole(1),
                "resume": flag,
                "retry": flag,
                "dry_run": lambda v: v is True,
                "on_event": CALLBACK,
            },
            {"spec": "spec|jobs"},
        ),
        "select": Case(
            sc.select,
            {"projection": projection, "size": 10},
            {
                "projection": nothing,
                "size": whole(1, 400),
                "method": nothing,
                "seed": whole(0),
                "penalty": optional(number(0)),
            },
        ),
        "stan_model_path": Case(
            sc.stan_model_path,
            {"name": "logistic"},
            {"name": nothing},
            {"name": "ready Stan program"},
        ),
        "solve": Case(
            sc.solvers.solve,
            {"phi": phi, "target": phi.sum(axis=1), "size": 5},
            {
                "phi": nothing,
                "target": nothing,
                "size": whole(1),
                "method": nothing,
                "seed": whole(0),
                "tol": number(0),
                "path": optional(nothing),
                "reweight": flag,
                "weights_sum": optional(number(0, strict=True)),
                "groups": missing,
                "start": missing,
                "callback": CALLBACK,
            },
        ),
        "check_method": Case(
            sc.solvers.check_method,
            {"method": "giga", "options": {}},
            {"method": nothing, "options": empty_dict, "others": anything},
        ),
        "gaussian_kl": Case(
            sc.divergences.gaussian_kl,
            {"mean_p": point, "cov_p": eye, "mean_q": point, "cov_q": eye},
            dict.fromkeys(("mean_p", "cov_p", "mean_q", "cov_q"), nothing),
        ),
        "gaussian_fisher": Case(
            sc.divergences.gaussian_fisher,
            {"mean_p": point, "cov_p": eye, "mean_q": point, "cov_q": eye},
            dict.fromkeys(("mean_p", "cov_p", "mean_q", "cov_q"), nothing),
        ),
        "wasserstein": Case(
            sc.divergences.wasserstein,
            {"x": draws, "y": draws},
            {"x": nothing, "y": nothing, "x_weights": missing, "y_weights": missing},
            {"x_weights": "weights of x", "y_weights": "weights of y"},
        ),
        "mmd": Case(
            sc.divergences.mmd,
            {"x": draws, "y": draws},
            {
                "x": nothing,
                "y": nothing,
                "x_weights": missing,
                "y_weights": missing,
                "bandwidth": optional(number(0, strict=True)),
            },
            {"x_weights": "weights of x", "y_weights": "weights of y"},
        ),
        "moments": Case(
            sc.divergences.moments,
            {"draws": draws},
            {"draws": nothing, "weights": missing},
        ),
        "regression": Case(
            sc.regression,
            {"formula": "y ~ x", "frame": table, "engine": "stanli"},
            {
                "formula": nothing,
                "frame": nothing,
                "family": nothing,
                "priors": optional(empty_dict),
                "engine": nothing,
            },
            {"frame": f"frame|the table has no column|cannot be read|{DATA['data']}"},
        ),
        "Regression.write": Case(
            made.write,
            {"directory": folder / "made", "overwrite": True},
            {"directory": path, "overwrite": flag},
            {"directory": "directory|write|create|is a file"},
        ),
        "Regression.rows": Case(
            made.rows,
            {"frame": table},
            {"frame": nothing},
            {"frame": f"frame|the table has no column|cannot be read|{DATA['data']}"},
        ),
        "Regression.fit": Case(
            made.fit,
            {"size": 20},
            {
                "seed": optional(SEED),
                **LABELS,
                "size": whole(1, 400),
                "max_rounds": whole(1),
                "show_progress": optional(flag),
            },
        ),
        "resolve_engine": Case(
            sc.engines.resolve_engine,
            {"engine": "stanli"},
            {"engine": nothing, "threads": optional(whole(1))},
        ),
        "plot_weights": Case(
            sc.plots.plot_weights,
            {"coreset": fit},
            {"coreset": nothing, "projection_or_data": missing, "columns": anything, "ax": missing},
            {"projection_or_data": "covariates|column"},
        ),
        "plot_certificate": Case(
            sc.plots.plot_certificate,
            {"certificate": fit.certificate},
            {"certificate": nothing, "ax": missing},
        ),
        "plot_path": Case(
            sc.plots.plot_path,
            {"trace_or_results": fit.coreset},
            {"trace_or_results": lambda v: isinstance(v, np.ndarray | set), "ax": missing},
            {"trace_or_results": "trace|error|size|path|result"},
        ),
        "plot_fit": Case(
            sc.plots.plot_fit,
            {"fit": fit},
            {
                "fit": nothing,
                "figure": missing,
                "var_names": missing,
                "max_parameters": optional(whole(1)),
            },
            {"var_names": "parameter|var_names"},
        ),
        "plot_density": Case(
            sc.plots.plot_density,
            {"posteriors": posterior},
            {"posteriors": nothing, "var_names": missing, "ax": missing, **DRAWN},
            {"posteriors": "posterior", "var_names": "parameter|var_names"},
        ),
        "plot_forest": Case(
            sc.plots.plot_forest,
            {"posteriors": posterior},
            {
                "posteriors": nothing,
                "var_names": missing,
                "ax": missing,
                "prob": number(0, 1, strict=True),
                "scale": nothing,
                **DRAWN,
            },
            {"posteriors": "posterior", "var_names": "parameter|var_names"},
        ),
        "plot_refinement": Case(
            sc.plots.plot_refinement,
            {"records": fit.rounds},
            {"records": nothing, "ax": missing},
            {"records": "record|round"},
        ),
    }
    for method in sc.solvers.METHODS:
        options = inspect.signature(getattr(sc.solvers, method)).parameters
        own_options = {n: p.default for n, p in options.items() if p.kind is p.KEYWORD_ONLY}
        kinds = {n: of_default(d) for n, d in own_options.items()}
        kinds |= {n: optional(k) for n, k in kinds.items() if n == "compression"}
        kinds |= {n: optional(whole(1)) for n in kinds if n == "gradient_batch"}
        found[f"solve by {method}"] = Case(solve(method), {}, kinds)
    for method in sc.in_the_loop.METHODS.values():
        options = inspect.signature(method).parameters
        kinds = {n: of_default(p.default) for n, p in options.items() if n != "model"}
        kinds |= {"draws": optional(whole(1)), "callback": CALLBACK, "size": whole(1)}
        kinds |= {"seed": whole(0)} | {n: optional(nothing) for n in kinds if n == "path"}
        found[method.__name__] = Case(loop(method), {}, {**kinds, "model": nothing})
    return found


@pytest.fixture(scope="module")
def calls(world: Mapping[str, Any]) -> Mapping[str, Case]:
    return cases(world)


def of_default(default: Any) -> Legit:
    """What may stand in place of a default of its type."""
    if isinstance(default, bool):
        return flag
    if isinstance(default, int) or default is None:
        return optional(number(0)) if default is None else whole(0)
    if isinstance(default, float):
        return number(0)
    if isinstance(default, str):
        return nothing
    return optional(number(0))


NAMES = sorted(
    [
        *(
            "NUTS",
            "Selection",
            "CoresetModel",
            "CoresetModel of code",
            "fit",
            "merge",
            "keep",
            "read",
            "reference",
        ),
        *("project", "add_control_variate", "sample", "certify", "log_likelihood", "loo"),
        *("loo_compare", "plot_fit"),
        *("generate_quantities", "posterior_predictive", "stan_data", "identities"),
        *("information", "design"),
        *("CoresetFit.save", "CoresetFit.write_csv", "CoresetFit.corrected"),
        *("Coreset.save", "Coreset.load"),
        *("Coreset.subset", "Certificate.expectation", "Table", "rows of a Table", "Distributed"),
        *("certify log weights", "compare", "summarise", "load_fit", "merge coresets", "run_batch"),
        *("select", "stan_model_path", "solve", "check_method", "gaussian_kl", "gaussian_fisher"),
        *("wasserstein", "mmd", "moments", "resolve_engine", "plot_weights", "plot_certificate"),
        *("plot_path", "plot_density", "plot_forest", "plot_refinement"),
        *("Policy", "regression", "Regression.rows", "Regression.write", "Regression.fit", "thin"),
        *(f"solve by {method}" for method in sc.solvers.METHODS),
        *("sparse_vi", "quasi_newton", "coreset_mcmc", "starts of a parameter"),
    ]
)


def reached(*_: Any, **__: Any) -> Any:
    raise Reached


@pytest.fixture
def nothing_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("compile", "full_data", "expand", "pool"):
        monkeypatch.setattr(session.Session, name, reached)
    for name in ("run_nuts", "take_spaced_draws", "check_adopted"):
        monkeypatch.setattr(f"stancoreset.model.model.{name}", reached)
    monkeypatch.setattr("stancoreset.analysis.pointwise.take_spaced_draws", reached)
    scores = importlib.import_module("stancoreset.analysis.information")
    monkeypatch.setattr(scores, "unconstrain_all", reached)
    monkeypatch.setattr("stancoreset.program.certify.take_spaced_draws", reached)
    monkeypatch.setattr("stancoreset.analysis.pointwise.generated_quantities", reached)
    monkeypatch.setattr("stancoreset.model.model.adopt", adopted_or_refused(reached))


def adopted_or_refused(reached: Callable[..., Any]) -> Callable[..., Any]:
    """Weaving takes half a second: only what is not the program itself is looked at."""
    from stancoreset.program.adopt import adopt

    def looked_at(program: Any, obs: Any = None) -> Any:
        if program.code == NORMAL_CODE and obs is None:
            return reached()
        return adopt(program, obs=obs)

    return looked_at


@pytest.mark.parametrize("name", some(NAMES, 3))
def test_values_of_wrong_types(name, calls, nothing_computed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert sorted(calls) == NAMES
    case, wrong = calls[name], []
    for argument, legit in case.kinds.items():
        for label, value in catalogue_of(tmp_path).items():
            if legit in (CALLBACK, CALLED) and callable(value):
                continue  # it is the caller's, and so are its errors
            right = legit is anything or (label != "odd" and legit(value))
            fault = fault_of(case, argument, value, right)
            if fault:
                wrong.append(f"{argument}={label}: {fault}")
    plt.close("all")
    assert not wrong, f"{len(wrong)} of {name}:\n" + "\n".join(wrong)


def option(v: Any) -> bool:
    return v is None or isinstance(v, bool | int | str | Path) or empty_list(v)


@pytest.mark.cmdstan
def test_options_of_the_compiler(world, nothing_computed, tmp_path, monkeypatch, cmdstan):
    monkeypatch.chdir(tmp_path)
    given = {"stan_file": world["folder"] / "model.stan", "engine": "cmdstan"}

    def with_options(**values: Any) -> None:
        ((name, value),) = values.items()
        where, key = (name, "x") if name in kinds else ("stanc_options", name)
        sc.CoresetModel(**given, **{where: {key: value}})

    kinds: dict[str, Legit] = {"cpp_options": option, "stanc_options": option}
    folder = either(empty_list, lambda v: path(v) and os.path.isdir(v))
    wrong = [
        f"{name}={label}: {fault}"
        for name, kind in {**kinds, "include-paths": folder}.items()
        for label, value in catalogue_of(tmp_path).items()
        if (
            fault := fault_of(
                Case(with_options, {}, {}), name, value, label != "odd" and kind(value)
            )
        )
    ]
    assert not wrong, "\n".join(wrong)


def catalogue_of(folder: Path) -> dict[str, Any]:
    import tempfile

    return catalogue(Path(tempfile.mkdtemp(dir=folder)))


def fault_of(case: Case, argument: str, value: Any, legit: bool) -> str:
    words = f"{argument}|{(DATA | dict(case.words)).get(argument, argument)}"
    try:
        case.call(**{**case.given, argument: value})
    except Reached:
        return "" if legit else "accepted"
    except StancoresetError as error:
        if "\n" in str(error).strip() and not isinstance(error, CompileError):
            return f"of several lines: {error}"
        if len(str(error)) > 1_000:
            return f"of {len(str(error))} letters: {str(error)[:100]}"
        return "" if legit or re.search(words, str(error)) else f"not named: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:150]}"
    return "" if legit else "accepted"


def test_keys_of_batches_with_values_of_wrong_types(world, tmp_path):
    from stancoreset.batch.job import fit_settings
    from stancoreset.batch.spec import _OWN, read_jobs

    folder, wrong = world["folder"], []
    given = {"model": str(folder / "model.stan"), "data": str(folder / "data.json")}
    for key in (*_OWN, *fit_settings()):
        for label, value in catalogue_of(tmp_path).items():
            if label == "odd":
                continue  # a dict that cannot be compared is no batch
            for table in ("jobs", "defaults", "grid"):
                spec = {"jobs": [dict(given)], "defaults": {}, "grid": {}}
                (spec[table][0] if table == "jobs" else spec[table])[key] = value  # type: ignore
                try:
                    read_jobs(spec)
                except StancoresetError as error:
                    if not re.search(f"{key}|is not known|{FILES}", str(error)) or "\n" in str(
                        error
                    ):
                        wrong.append(f"{table} {key}={label}: not named: {error}")
                except Exception as error:
                    wrong.append(f"{table} {key}={label}: {type(error).__name__}: {error}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "spec",
    [
        3,
        None,
        {},
        {"jobs": 3},
        {"jobs": [3]},
        {"jobs": {}},
        {1: 2},
        {"jobs": [{}], "defaults": 3},
        {"jobs": [{1: 2}]},
        {"jobs": [{"size": {"a": 1}}]},
        [],
        b"x",
    ],
)
def test_batches_of_the_wrong_form(spec, tmp_path):
    with pytest.raises(StancoresetError, match=r"jobs|spec"):
        sc.run_batch(spec, tmp_path / "work")


TEXTS = ("", "x", "-1", "0", "1.5", "nan", "inf", "1e400", "9" * 400, "a\0b", "x" * 300, "é\udc80")


@cache
def parser_of_commands() -> Any:
    from stancoreset.cli.commands import make_parser

    return make_parser()


def options_of(command: str) -> list[str]:
    (commands,) = (a.choices for a in parser_of_commands()._actions if a.choices is not None)
    actions = commands[command]._actions  # type: ignore[index]
    return [a.option_strings[-1] for a in actions if a.option_strings and a.nargs != 0]


COMMANDS = ("fit", "weave", "compare", "plot", "merge", "batch", "demo", "thin")


@pytest.mark.parametrize("command", COMMANDS)
def test_options_of_the_command_line(
    command, world, nothing_computed, tmp_path, monkeypatch, capsys
):
    """One line and exit code 2, or the work begins."""
    from stancoreset.cli.commands import main

    monkeypatch.chdir(tmp_path)
    for name in ("write_comparison", "save_picture"):
        monkeypatch.setattr(f"stancoreset.cli.pictures.{name}", lambda *_: pd.DataFrame())
    monkeypatch.setattr("stancoreset.cli.plot.save_picture", lambda *_: None)
    monkeypatch.setattr("stancoreset.posterior.comparison._statistics", reached)
    monkeypatch.setattr("stancoreset.selection.thinning.thinned.feature_map", reached)
    once = cache(sc.load_fit)  # a run is read once for all options
    for room in ("runs", "cli.posteriors", "cli.plot"):
        monkeypatch.setattr(f"stancoreset.{room}.load_fit", once)
    few = Departures(world["data"], {})
    monkeypatch.setattr("stancoreset.cli.demo.departures", lambda: few)
    parser = parser_of_commands()  # made once for all options
    monkeypatch.setattr("stancoreset.cli.commands.make_parser", lambda: parser)
    folder = world["folder"]
    run, model, data = (str(folder / name) for name in ("run", "model.stan", "data.json"))
    jobs = tmp_path / "jobs.toml"
    jobs.write_text(f"[[jobs]]\nmodel = '{model}'\ndata = '{data}'\n")
    given = {
        "fit": [model, data, "--out", "out"],
        "weave": [model],
        "compare": [run],
        "plot": [run, "weights"],
        "merge": [model, run, "--out", "out"],
        "batch": [str(jobs), "--dry-run"],
        "demo": [],
        "thin": [run, "--size", "10", "--out", "out"],
    }[command]
    places = (str(tmp_path), str(jobs), "nowhere/x", "/proc/x")
    wrong = []
    for option in options_of(command):
        for value in (*TEXTS, *places):
            try:
                code = main([command, *given, f"{option}={value}"])
            except Reached:
                continue
            except SystemExit as error:  # argparse's own
                code = error.code
            except Exception as error:
                wrong.append(f"{option}={value[:20]!r}: {type(error).__name__}: {error}")
                continue
            said = capsys.readouterr().err.strip().splitlines()
            if code == 2 and not ("error" in said[-1] and (len(said) == 1 or "usage" in said[0])):
                wrong.append(f"{option}={value[:20]!r}: {said}")
            elif code not in (0, 2):
                wrong.append(f"{option}={value[:20]!r}: exit code {code}")
    plt.close("all")
    assert not wrong, "\n".join(wrong)


def test_every_public_function_is_in_the_sweep(calls):
    """By what is exported, and by every argument in the signatures."""
    called = {getattr(case.call, "__name__", "") for case in calls.values()}
    called |= {
        *calls,
        "Certificate",
        "Design",
        "Information",
        "Loo",
        "Evidence",
        "CoresetFit",
        "Coreset",
        "StancoresetError",
        "Distributed",
        "Regression",
        "Thinned",
    }
    for room in (sc, sc.solvers, sc.plots, sc.divergences, sc.in_the_loop):
        for name in room.__all__:
            thing = getattr(room, name)
            if callable(thing) and name not in (*sc.solvers.METHODS, *LEAVES):
                assert name in called, f"{room.__name__}.{name}"
    swept: dict[Any, set[str]] = defaultdict(set)
    for case in calls.values():
        swept[case.call] |= {*case.kinds}
    for method in (*sc.solvers.METHODS, *sc.in_the_loop.METHODS):
        # They are called by a function here, which makes the checked problem as `solve` does.
        room = sc.solvers if method in sc.solvers.METHODS else sc.in_the_loop
        key = f"solve by {method}" if method in sc.solvers.METHODS else method
        swept[getattr(room, method)] = {*calls[key].kinds, "problem"}
    for call, names in swept.items():
        if call.__name__ == "<lambda>":
            continue
        for name, parameter in inspect.signature(call).parameters.items():
            # Options that go on to NUTS and to methods are swept under their own names.
            if parameter.kind is not parameter.VAR_KEYWORD:
                assert name in names, f"{call.__name__}({name}=)"
    for name in ("fit", "merge", "sample"):
        assert {*OptionsOfNUTS.names()} <= {*NUTS} <= {*calls[name].kinds}


LEAVES = (
    "InTheLoopName",
    "Scale",
    "SolverName",
    "check_count",
    "check_sizes",
    "is_finite",
    "printed_iterates",
    "single_threaded",
    "tidy",
    "stan_model_names",
    "SolverResult",
    "CoresetPosterior",
    "Tangent",
    "kl_gradient",
    "tangent",
)
