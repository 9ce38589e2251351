"""Random edits of valid programs and data: each ends in a fit that is right or in one clear error.

    python tests/stan/random_edits.py --count 500 --out FOLDER       # goes on where it ended
    python tests/stan/random_edits.py --out FOLDER --only 17         # one edit again, files kept
    python tests/stan/random_edits.py --out FOLDER --again FOREIGN   # those that ended so

An edit is a function of the seed and its number. Each runs in a process of its own, forked from
this one, with a limit of processor time; a line of ``edits.jsonl`` holds what came of it:

- ok: a fit with a verdict; where it is not rejected, stanli's own NUTS on the edited program and
  data, without this library, has the same posterior;
- error: a `StancoresetError`, or exit code 2 with one message on the command line;
- FOREIGN: another exception, a traceback, a signal, a warning that is not ours;
- SLOW: more processor time than the limit;
- WRONG: a certified fit whose posterior is another one than stanli's.
"""

from __future__ import annotations

import argparse
import copy
import json
import logging
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pairs import simulated
from weave_data import make_data

import stancoreset as sc
from stancoreset.errors import StancoresetError
from stancoreset.posterior.arviz import import_all

_TESTS = Path(__file__).resolve().parents[1]
Data = dict[str, Any]
#: Processor seconds of one edit.
LIMIT = 60
#: Of NUTS, for the library's fit and for the one that it is compared with.
_DRAWS = {"chains": 2, "iter_sampling": 500}
#: Largest difference of two means and of two log standard deviations, in standard errors.
_APART = 6.0
#: Largest share of stanli's own transitions that may diverge or be cut off.
_ASTRAY = 0.02


# --- what is edited --------------------------------------------------------------------------


def _woven_of(name: str, data: Callable[[], Data]) -> tuple[Path, Callable[[], Data]]:
    return _TESTS / "stan" / "weave_programs" / f"{name}.stan", data


def _woven(name: str, header: str) -> tuple[Path, Callable[[], Data]]:
    """A program of the weaver's tests with data of its declarations, of other sizes."""

    def data() -> Data:
        code = re.sub(r"^// data: .*$", "", path.read_text(), flags=re.MULTILINE)
        return make_data(f"// data: {header}\n{code}")

    path, _ = _woven_of(name, data)
    return path, data


def _pair(name: str, data: Callable[[], Data]) -> tuple[Path, Callable[[], Data]]:
    return _TESTS / "pairs" / f"{name}.stan", data


def _calibrated(name: str) -> tuple[Path, Callable[[], Data]]:
    """A program of the calibration study, its data from the declarations."""
    path = _TESTS / "calibration" / "programs" / f"{name}.stan"
    return path, lambda: make_data('// data: {"N": 800, "J": 10, "D": 3}\n' + path.read_text())


def _two_components() -> Data:
    rng = np.random.default_rng(0)
    return {"N": 800, "y": np.where(rng.random(800) < 0.4, -2.0, 1.5) + rng.normal(size=800)}


def _ratings() -> Data:
    """Three kinds of items, as four raters see them, who are right in 70 % of cases."""
    rng = np.random.default_rng(0)
    kind, right = rng.integers(1, 4, (300, 1)), rng.random((300, 4)) < 0.7
    prior = 1 + 4 * np.eye(3)
    return {
        "K": 3,
        "J": 4,
        "I": 300,
        "y": np.where(right, kind, rng.integers(1, 4, (300, 4))),
        "alpha": np.full(3, 3.0),
        "beta": prior,
    }


CASES = {
    "logistic": (
        Path(sc.stan_model_path("logistic")),
        partial(simulated.logistic, 2_000, 3, 0.5),
    ),
    "crossed": _pair("stops_crossed", partial(simulated.crossed_logistic, 1_000, 0, 8, 5)),
    "ordinal": _pair("chem97_ordinal", partial(simulated.ordinal_groups, 1_000, 0, 8)),
    "slopes": _pair("star_slopes", partial(simulated.gaussian_slopes, 1_000, 0, 12)),
    "counts": _pair("murders_states", partial(simulated.negative_binomial, 1_000, 0, 10)),
    "inflated": _pair("rwm_hospital", partial(simulated.zero_inflated, 1_000)),
    "beta": _pair("budget_beta", partial(simulated.beta_precision, 600)),
    "medians": _pair("hand_median", partial(simulated.medians, 1_500, 4, 3)),
    "rasch": _pair("hand_rasch", partial(simulated.rasch, 60, 10)),
    "schools": _pair("hand_schools", partial(simulated.schools, 1_000, 2, 30, 6)),
    "grouped": _pair("grouped_logistic", partial(simulated.hierarchical, 1_500, 8)),
    "robust": _calibrated("robust"),
    "mixture": (_calibrated("mixture")[0], _two_components),
    "noncentred": _calibrated("hierarchical_noncentred"),
    "trials": _woven(
        "binomial_trials",
        '{"N": 500, "n_trials": "rng.integers(3, 9, N)", "y": "rng.integers(0, 4, N)"}',
    ),
    "glm": _woven("glm_negbin", '{"N": 800, "K": 2}'),
    "censored": _woven(
        "brms_censored_indices",
        '{"N": 600, "cens": "np.resize([0, 1, -1, 0], N)", "K": 3, "Kc": 2, "prior_only": 0, '
        '"X": "np.column_stack([np.ones(N), rng.normal(size=(N, 2))])"}',
    ),
    "raters": _woven_of("dawid_skene", _ratings),
    "gamma": _woven("gamma_regression", '{"N": 600, "K": 2}'),
    "reduced": _woven("reduce_sum", '{"N": 800}'),
    "sites": _woven("occupancy_multi", '{"R": 400, "T": 3, "y": "rng.integers(0, 2, (R, T))"}'),
    "rejecting": _woven("rejected_by_row", '{"N": 600, "z": "np.zeros(N)"}'),
    "segments": _woven("segments", '{"N": 390, "J": 4, "s": [90, 0, 180, 120]}'),
    "centred": _woven_of(
        "varying_slopes_multi_normal", partial(simulated.centred_slopes, 800, 0, 12)
    ),
    "hurdle": _woven("hurdle_poisson", '{"N": 600, "K": 2}'),
    "missing": _woven("missing_data_parameters", '{"N_obs": 500, "N_mis": 3}'),
}


# --- edits of a program ----------------------------------------------------------------------

_TOKEN = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"[^\"]*\"|[A-Za-z_]\w*|\d+\.?\d*|\.\*|\./|[^\s\w]", re.DOTALL
)
_WORDS = frozenset(
    re.findall(
        r"\w+",
        """data parameters model functions transformed generated quantities int real vector matrix
        row_vector array simplex ordered corr_matrix cholesky_factor_corr lower upper for if else in
        while target return void""",
    )
)
_TYPES = ("int", "real", "vector", "row_vector", "matrix")


def _tokens(code: str) -> list[re.Match[str]]:
    return [m for m in _TOKEN.finditer(code) if not m[0].startswith(("//", "/*"))]


def _replaced(code: str, token: re.Match[str], text: str) -> str:
    return code[: token.start()] + text + code[token.end() :]


def _one(rng: np.random.Generator, items: list[Any]) -> Any:
    return items[int(rng.integers(len(items)))]


def delete_token(code: str, rng: np.random.Generator) -> str:
    return _replaced(code, _one(rng, _tokens(code)), "")


def repeat_token(code: str, rng: np.random.Generator) -> str:
    token = _one(rng, _tokens(code))
    return _replaced(code, token, f"{token[0]} {token[0]}")


def delete_statement(code: str, rng: np.random.Generator) -> str:
    ends = [m.end() for m in re.finditer(r"[;{}]", code)]
    statements = [(a, b) for a, b in pairwise(ends) if code[b - 1] == ";"]
    start, end = _one(rng, statements)
    return code[:start] + code[end:]


def swap_names(code: str, rng: np.random.Generator) -> str:
    """Two names change places at one place each."""
    names = [t for t in _tokens(code) if re.match(r"[A-Za-z_]", t[0]) and t[0] not in _WORDS]
    first, second = _one(rng, names), _one(rng, names)
    if first.start() > second.start():
        first, second = second, first
    return _replaced(_replaced(code, second, first[0]), first, second[0])


def swap_names_everywhere(code: str, rng: np.random.Generator) -> str:
    names = sorted({t[0] for t in _tokens(code) if re.match(r"[A-Za-z_]", t[0])} - {*_WORDS})
    a, b = _one(rng, names), _one(rng, names)
    return re.sub(rf"\b(?:{a}|{b})\b", lambda m: b if m[0] == a else a, code)


def change_type(code: str, rng: np.random.Generator) -> str:
    token = _one(rng, [t for t in _tokens(code) if t[0] in _TYPES])
    return _replaced(code, token, _one(rng, [t for t in _TYPES if t != token[0]]))


def change_number(code: str, rng: np.random.Generator) -> str:
    numbers = [t for t in _tokens(code) if t[0][0].isdigit()]
    if not numbers:
        return delete_token(code, rng)
    return _replaced(code, _one(rng, numbers), _one(rng, ["0", "-1", "1e300", "7", "0.5", "2"]))


def change_operator(code: str, rng: np.random.Generator) -> str:
    signs = [t for t in _tokens(code) if t[0] in ("+", "-", "*", "/", ".*", "<", ">")]
    if not signs:
        return delete_token(code, rng)
    return _replaced(code, _one(rng, signs), _one(rng, ["+", "-", "*", "/", ".*", "<", ">"]))


def delete_constraint(code: str, rng: np.random.Generator) -> str:
    found = [*re.finditer(r"<\s*(?:lower|upper)[^>]*>", code)]
    return _replaced(code, _one(rng, found), "") if found else delete_token(code, rng)


def cut_text(code: str, rng: np.random.Generator) -> str:
    return code[: int(rng.integers(len(code)))]


PROGRAM_EDITS = (
    delete_token,
    repeat_token,
    delete_statement,
    delete_statement,
    swap_names,
    swap_names,
    swap_names_everywhere,
    change_type,
    change_number,
    change_number,
    change_operator,
    delete_constraint,
    delete_constraint,
    cut_text,
)


# --- edits of data ---------------------------------------------------------------------------


def _some(data: Data, rng: np.random.Generator, *, array: bool) -> str:
    names = [n for n in data if (np.ndim(data[n]) > 0 and np.size(data[n]) > 0) == array]
    return _one(rng, names or [*data])


def _with(data: Data, name: str, value: Any) -> Data:
    return {**data, name: value}


def delete_element(data: Data, rng: np.random.Generator) -> Data:
    """A row of one variable."""
    name = _some(data, rng, array=True)
    values = np.asarray(data[name])
    return _with(data, name, np.delete(values, int(rng.integers(len(values))), axis=0).tolist())


def delete_row(data: Data, rng: np.random.Generator) -> Data:
    """A row of all variables that have as many; the count stays."""
    n = len(np.asarray(data[_some(data, rng, array=True)]))
    at = int(rng.integers(n))
    rows = {k: np.asarray(v) for k, v in data.items() if np.ndim(v) and len(v) == n}
    return {**data, **{k: np.delete(v, at, axis=0).tolist() for k, v in rows.items()}}


def delete_last_column(data: Data, rng: np.random.Generator) -> Data:
    tables = [n for n in data if np.ndim(data[n]) == 2]
    if not tables:
        return delete_variable(data, rng)
    name = _one(rng, tables)
    return _with(data, name, np.asarray(data[name])[:, :-1].tolist())


def delete_variable(data: Data, rng: np.random.Generator) -> Data:
    gone = _one(rng, [*data])
    return {n: v for n, v in data.items() if n != gone}


def swap_variables(data: Data, rng: np.random.Generator) -> Data:
    a, b = _one(rng, [*data]), _one(rng, [*data])
    return {**data, a: data[b], b: data[a]}


#: What may stand in place of a number.
_ODD = (
    *(None, "a", "1", "", [1], [], {}, True),
    *(float("nan"), float("inf"), 0.5, -1, 0, 3, 1e300, 10**10, 10**25, -1e-300),
)


def change_one_number(data: Data, rng: np.random.Generator) -> Data:
    """One element becomes something else."""
    name = _some(data, rng, array=True)
    value = _one(rng, [*_ODD])
    values = copy.deepcopy(np.asarray(data[name]).tolist())
    inner = values
    while isinstance(inner[0], list) and inner[0] and rng.random() < 0.9:
        inner = inner[int(rng.integers(len(inner)))]
    inner[int(rng.integers(len(inner)))] = value
    return _with(data, name, values)


def change_scalar(data: Data, rng: np.random.Generator) -> Data:
    name = _some(data, rng, array=False)
    old = data[name]
    number = old if isinstance(old, int | float) else 1
    choices = [None, float("nan"), "a", [number], [], number + 1, number - 1, number + 0.5, -number]
    return _with(
        data, name, _one(rng, [*choices, 0, 10**9, True, str(number), float(number), 1e300])
    )


def to_reals(data: Data, rng: np.random.Generator) -> Data:
    name = _some(data, rng, array=True)
    values = np.asarray(data[name], dtype=float)
    return _with(data, name, (values + _one(rng, [0.0, 0.5, 1e-9])).tolist())


def to_text(data: Data, rng: np.random.Generator) -> Data:
    name = _some(data, rng, array=True)
    return _with(data, name, np.asarray(data[name]).astype(str).tolist())


def to_constant(data: Data, rng: np.random.Generator) -> Data:
    """All elements are equal: a predictor without variance, an outcome of one value."""
    name = _some(data, rng, array=True)
    values = np.asarray(data[name])
    return _with(data, name, np.full_like(values, values.flat[0]).tolist())


def scale(data: Data, rng: np.random.Generator) -> Data:
    """One variable in other units."""
    name = _some(data, rng, array=True)
    factor = _one(rng, [-1, 0, 1000, 10**6, 1e-8, 1e150])
    return _with(data, name, (np.asarray(data[name]) * factor).tolist())


def extra_dimension(data: Data, rng: np.random.Generator) -> Data:
    name = _one(rng, [*data])
    values = np.asarray(data[name])
    return _with(data, name, np.expand_dims(values, int(rng.integers(values.ndim + 1))).tolist())


def transpose(data: Data, rng: np.random.Generator) -> Data:
    tables = [n for n in data if np.ndim(data[n]) == 2]
    if not tables:
        return extra_dimension(data, rng)
    name = _one(rng, tables)
    return _with(data, name, np.asarray(data[name]).T.tolist())


def ragged(data: Data, rng: np.random.Generator) -> Data:
    tables = [n for n in data if np.ndim(data[n]) == 2]
    if not tables:
        return change_one_number(data, rng)
    name = _one(rng, tables)
    values = np.asarray(data[name]).tolist()
    del values[int(rng.integers(len(values)))][-1:]
    return _with(data, name, values)


def few_rows(data: Data, rng: np.random.Generator) -> Data:
    """The first rows alone, with a count that says so."""
    n = max((len(v) for v in data.values() if np.ndim(v)), default=0)
    k = int(_one(rng, [0, 1, 2, 5, 30]))
    counts = {k_: k for k_, v in data.items() if isinstance(v, int) and v == n}
    rows = {m: np.asarray(v)[:k].tolist() for m, v in data.items() if np.ndim(v) and len(v) == n}
    return {**data, **counts, **rows}


DATA_EDITS = (
    delete_element,
    delete_row,
    delete_last_column,
    delete_variable,
    swap_variables,
    change_one_number,
    change_one_number,
    change_one_number,
    change_scalar,
    change_scalar,
    to_reals,
    to_text,
    to_constant,
    scale,
    scale,
    extra_dimension,
    transpose,
    ragged,
    few_rows,
)


# --- edits of files --------------------------------------------------------------------------


def cut_file(text: bytes, rng: np.random.Generator) -> bytes:
    return text[: int(rng.integers(len(text)))]


def change_byte(text: bytes, rng: np.random.Generator) -> bytes:
    at = int(rng.integers(len(text)))
    return text[:at] + _one(rng, [b"\x00", b"\xff", b",", b"]", b'"', b"e", b"-"]) + text[at + 1 :]


def delete_byte(text: bytes, rng: np.random.Generator) -> bytes:
    at = int(rng.integers(len(text)))
    return text[:at] + text[at + 1 :]


def delete_line(text: bytes, rng: np.random.Generator) -> bytes:
    lines = text.splitlines(keepends=True)
    del lines[int(rng.integers(min(len(lines), 3)))]
    return b"".join(lines)


def change_cell(text: bytes, rng: np.random.Generator) -> bytes:
    """A cell of a CSV file, or what stands between two commas of JSON."""
    lines = text.split(b"\n")
    at = int(rng.integers(min(len(lines), 20)))
    cells = lines[at].split(b",")
    cells[int(rng.integers(len(cells)))] = _one(
        rng, [b"", b"NA", b"x", b"1,2", b"nan", b'"', b"0.5"]
    )
    lines[at] = b",".join(cells)
    return b"\n".join(lines)


FILE_EDITS = (cut_file, change_byte, delete_byte, delete_line, change_cell, change_cell)


# --- one edit --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Edit:
    """An edited program with its data.

    Attributes
    ----------
    case, kind, way : str
        What was edited, how, and whether it goes through Python or the command line.
    code : str
    data : dict
        As it was edited; for edits of files as it was before.
    files : list of pair of str and bytes
        The data as files, if they are given as such.
    """

    case: str
    kind: str
    way: str
    code: str
    data: Data
    files: list[tuple[str, bytes]]


def _plain(value: Any) -> Any:
    """A value of data as JSON has it."""
    return np.asarray(value).tolist() if isinstance(value, np.ndarray | np.generic) else value


def _json(data: Data) -> bytes:
    return json.dumps(data).encode()


def _table(data: Data) -> list[tuple[str, bytes]]:
    """A CSV file of what has most rows, and JSON of the rest."""
    n = max(len(v) for v in data.values() if np.ndim(v))
    columns: dict[str, Any] = {}
    for name, value in data.items():
        values = np.asarray(value)
        if values.ndim == 1 and len(values) == n:
            columns[name] = values
        elif values.ndim == 2 and len(values) == n:
            columns.update({f"{name}.{j + 1}": values[:, j] for j in range(values.shape[1])})
    rest = {k: v for k, v in data.items() if k not in {c.split(".")[0] for c in columns}}
    return [
        ("data.csv", pd.DataFrame(columns).to_csv(index=False).encode()),
        ("rest.json", _json(rest)),
    ]


def edited(number: int, seed: int) -> Edit:
    """The edit of a number."""
    rng = np.random.default_rng([seed, number])
    case = _one(rng, [*CASES])
    program, make = CASES[case]
    code, data = program.read_text(), {k: _plain(v) for k, v in make().items()}
    way = "command" if rng.random() < 0.3 else "python"
    what = rng.random()
    if what < 0.45:
        change = _one(rng, [*PROGRAM_EDITS])
        code, files = change(code, rng), [("data.json", _json(data))]
    elif what < 0.8:
        change = _one(rng, [*DATA_EDITS])
        data = change(data, rng)
        files = [("data.json", _json(data))]
    else:
        change = _one(rng, [*FILE_EDITS])
        files = _table(data) if rng.random() < 0.6 else [("data.json", _json(data))]
        files[0] = files[0][0], change(files[0][1], rng)
    if way == "python" and what < 0.8 and rng.random() < 0.7:
        files = []
    return Edit(case, change.__name__, way, code, data, files)


# --- what comes of it ------------------------------------------------------------------------


def _fit_by_python(edit: Edit, folder: Path) -> dict[str, Any]:
    data: Any = [folder / name for name, _ in edit.files] or edit.data
    if len(edit.files) == 1:
        data = data[0]
    with sc.CoresetModel(folder / "model.stan", engine="stanli") as model:
        fit = model.fit(data, seed=1, show_progress=False, **_DRAWS)
    fit.save(folder / "run")
    return {"verdict": fit.certificate.verdict, "reasons": list(fit.certificate.reasons)}


def _fit_by_command(edit: Edit, folder: Path) -> int:
    from stancoreset.cli import main

    data = [str(folder / name) for name, _ in edit.files]
    options = ["--engine", "stanli", "--seed", "1", "--chains", "2", "--iter-sampling", "500"]
    more = ["--no-plots", "--out", str(folder / "run")]
    return main(["fit", str(folder / "model.stan"), *data, *options, *more])


def _in_child(work: Callable[[], dict[str, Any]], folder: Path, name: str) -> dict[str, Any]:
    """What work gives in a forked process, what it printed, and how it ended."""
    out, err, answer = (folder / f"{name}.{what}" for what in ("stdout", "stderr", "json"))
    started = time.perf_counter()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.setsid()
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            for path, number in ((out, 1), (err, 2)):
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
            used = int(time.process_time()) + 1
            resource.setrlimit(resource.RLIMIT_CPU, (used + LIMIT, used + LIMIT + 5))
            signal.alarm(8 * LIMIT)  # one that waits uses no processor
            found = work()
            answer.write_text(json.dumps(found, default=str))
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    _, status, usage = os.wait4(pid, 0)
    found = json.loads(answer.read_text()) if answer.exists() else {}
    return {
        **found,
        "exit": os.waitstatus_to_exitcode(status),
        "processor": round(usage.ru_utime + usage.ru_stime, 1),
        "seconds": round(time.perf_counter() - started, 1),
        "stdout": out.read_text(errors="replace")[-4_000:],
        "stderr": err.read_text(errors="replace")[-6_000:],
    }


def _run(edit: Edit, folder: Path) -> dict[str, Any]:
    """In the child: the fit, or its error, and warnings that are not ours."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        for ignored in (DeprecationWarning, PendingDeprecationWarning, ImportWarning):
            warnings.simplefilter("ignore", ignored)
        warnings.simplefilter("ignore", ResourceWarning)
        try:
            if edit.way == "command":
                found: dict[str, Any] = {"code": _fit_by_command(edit, folder)}
            else:
                found = _fit_by_python(edit, folder)
        except StancoresetError as error:
            found = {"error": type(error).__name__, "said": str(error)}
    foreign = [w for w in heard if w.category is not UserWarning]
    found["warnings"] = [
        f"{w.category.__name__}: {w.message} ({w.filename}:{w.lineno})" for w in foreign
    ]
    return found


def _truth(edit: Edit, folder: Path) -> dict[str, Any]:
    """In the child: stanli's own NUTS on the edited program and data, without this library."""
    import stanli

    data = _json(_for_stan(edit)).decode()
    try:
        model = stanli.Model(stan_code=edit.code, data=data, seed=1)
    except (RuntimeError, ValueError) as error:
        return {"refused": str(error)}
    try:
        full = model.sample(chains=4, warmup=500, samples=500, seed=2, refresh=0)
    except (RuntimeError, ValueError) as error:
        return {"unsampled": str(error)}
    return {"apart": _apart(folder / "run", full)}


def _holds_flags(value: Any) -> bool:
    """Whether nested lists hold True or False, which numpy counts as numbers and Stan refuses."""
    if isinstance(value, list):
        return any(map(_holds_flags, value))
    return isinstance(value, bool)


def _for_stan(edit: Edit) -> Data:
    """The data as Stan takes them, with what a fit finds; whole numbers are integers."""

    def whole(value: Any) -> Any:
        array = np.asarray(value, dtype=float if _holds_flags(value) else None)
        if array.dtype.kind not in "bif":
            return value
        real = array.dtype.kind == "f" and not (array.size and np.all(array == np.round(array)))
        return array.tolist() if real or np.any(np.abs(array) > 1e9) else array.astype(int).tolist()

    with sc.CoresetModel(stan_code=edit.code, engine="stanli") as model:
        complete = model.read(edit.data)
        found = {d.name: complete[d.name] for d in model.program.program.data if d.name in complete}
    if "weights" in edit.code:
        found["weights"] = np.ones(len(next(v for v in found.values() if np.ndim(v))))
    added = {name: _plain(value) for name, value in found.items() if name not in edit.data}
    return {name: whole(value) for name, value in {**edit.data, **added}.items()}


def _apart(run: Path, full: Any) -> dict[str, Any]:
    """The element whose mean or standard deviation differs most, in standard errors."""
    import arviz as az

    if (
        full.divergences.sum() + full.max_treedepth_hits.sum()
        > _ASTRAY * full.n_chains * full.n_draws
    ):
        return {"z": 0.0, "what": "no witness: divergences, or trajectories that do not end"}
    fit = sc.load_fit(run)
    posterior = fit.posterior.posterior
    weights, draws = fit.weights, fit.certified_draws()
    worst: tuple[float, str] = (0.0, "")
    for name in posterior.data_vars:
        ours = posterior[name].to_numpy()
        flat = ours.reshape(*ours.shape[:2], -1)
        for k, index in enumerate(np.ndindex(ours.shape[2:])):
            key = name + ("[" + ",".join(str(i + 1) for i in index) + "]" if index else "")
            if key not in full:
                continue
            theirs = full.draws(key)
            a, b = flat[:, :, k], theirs
            if a.std() < 1e-12 and b.std() < 1e-12:
                continue
            if weights is not None:
                w, x = np.asarray(weights), draws[name].reshape(len(weights), -1)[:, k]
                mean = float(np.sum(w * x) / w.sum())
                n_a = float(w.sum() ** 2 / np.sum(w**2))
                sd = float(np.sqrt(np.sum(w * (x - mean) ** 2) / w.sum()))
            else:
                mean, sd, n_a = float(a.mean()), float(a.std()), float(az.ess(a))
            n_b, rhat = float(az.ess(b)), float(az.rhat(b))
            if not rhat < 1.05:  # theirs is no witness
                continue
            error = b.std() * np.sqrt(1 / n_a + 1 / n_b)
            z = max(
                abs(mean - b.mean()) / error, abs(np.log(sd / b.std())) / np.sqrt(1 / n_a + 1 / n_b)
            )
            if not z <= worst[0]:
                worst = (
                    float(z),
                    f"{key}: {mean:.4g} ± {sd:.3g}, NUTS {b.mean():.4g} ± {b.std():.3g}",
                )
    return {"z": worst[0], "what": worst[1]}


def outcome(found: dict[str, Any], edit: Edit) -> str:
    """The class of what came of an edit."""
    if found["exit"] in (-signal.SIGXCPU, -signal.SIGALRM, -signal.SIGKILL):
        return "SLOW"
    if found["exit"] != 0 or found.get("warnings") or "Traceback" in found["stderr"]:
        return "FOREIGN"
    if edit.way == "command":
        code, said = found["code"], found["stderr"].strip()
        if code == 2:
            return "error" if said.startswith("stancoreset: error: ") else "FOREIGN"
        return "ok" if code in (0, 3) and not said else "FOREIGN"
    if found["stderr"].strip():
        return "FOREIGN"
    return "error" if "error" in found else "ok"


def tried(edit: Edit, folder: Path, *, compare: bool = True) -> dict[str, Any]:
    """What comes of an edit in a folder of its own."""
    (folder / "model.stan").write_text(edit.code)
    for name, text in edit.files or [("data.json", _json(edit.data))]:
        (folder / name).write_bytes(text)
    found = _in_child(partial(_run, edit, folder), folder, "fit")
    found["outcome"] = outcome(found, edit)
    found["said"] = found.get("said") or found["stderr"].strip()
    if (
        found["outcome"] == "ok"
        and compare
        and found.get("verdict") != "rejected"
        and found.get("code", 0) == 0
    ) and (not edit.files or edit.kind not in {f.__name__ for f in FILE_EDITS}):
        truth = _in_child(partial(_truth, edit, folder), folder, "truth")
        found["truth"] = {
            k: truth[k] for k in ("refused", "unsampled", "apart", "exit") if k in truth
        }
        far = truth.get("apart", {}).get("z", 0.0)
        if "refused" in truth or not far <= _APART:
            found["outcome"] = "WRONG"
    return found


def campaign(
    numbers: Iterator[int], seed: int, folder: Path, *, keep: bool = False
) -> Iterator[dict[str, Any]]:
    """The results of these edits, one after the other."""
    import_all()  # once, before the forks
    logging.getLogger("stancoreset").addHandler(logging.NullHandler())  # its notes are no noise
    import pandas.io.json  # noqa: F401
    import stanli  # noqa: F401

    for number in numbers:
        edit = edited(number, seed)
        place = Path(tempfile.mkdtemp(prefix=f"edit_{number}_", dir=folder))
        found = tried(edit, place)
        if not keep:
            shutil.rmtree(place)
        about = {k: v for k, v in asdict(edit).items() if k in ("case", "kind", "way")}
        yield {"number": number, **about, **found}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", type=int, nargs="+")
    parser.add_argument("--again", nargs="+")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    file = args.out / "edits.jsonl"
    past = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    last = {found["number"]: found for found in past}
    if args.only:
        numbers = args.only
    elif args.again:
        numbers = [k for k, found in last.items() if found["outcome"] in args.again]
    else:
        numbers = [k for k in range(args.count) if k not in last]
    with file.open("a") as out:
        for found in campaign(iter(numbers), args.seed, args.out, keep=bool(args.only)):
            last[found["number"]] = found
            out.write(json.dumps(found) + "\n")
            out.flush()
            said = found.get("verdict") or found["said"] or found.get("code")
            line = f"{found['number']:4} {found['case']:<11}{found['kind']:<22}{found['way']:<8}"
            print(
                f"{line}{found['outcome']:<8}{found['processor']:6.1f} s  {str(said)[:150]!r}",
                flush=True,
            )
    print(Counter(found["outcome"] for found in last.values()))


if __name__ == "__main__":
    main()
