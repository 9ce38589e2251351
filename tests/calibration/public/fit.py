"""One default fit, judged by the parameters that its data were simulated from."""

from __future__ import annotations

import faulthandler
import json
import resource
import signal
import sys
import time
import traceback
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

import stancoreset as sc
from calibration.sbc import DRAWS, handed_out
from stancoreset.errors import StancoresetError

from .case import Case
from .simulation import SPOILING

__all__ = ["Record", "fit_within", "judged"]

#: Bytes of memory that a fit may address: a laptop has as many, and others work beside it.
MEMORY = 8 * 2**30
#: Elements of a parameter that are ranked: neighbours in one fit tell little more.
ELEMENTS = 4
_FURTHEST = 3


@dataclass(frozen=True)
class Record:
    """One fit.

    Attributes
    ----------
    program, kind, dataset, key
        What was fitted; the key is `Case.key`.
    awkward : str
        The way in which the data are awkward, or empty.
    ranked : bool
        Whether ranks should be uniform: parameters and data are draws of the program.
    rows, limit : int
        Rows of the data, and processor seconds that the fit had.
    verdict : str
        That of the certificate; ``refused`` after an error of the library, ``crashed`` after
        another, ``unfinished`` at the limit.
    faults : list of str
        Kinds of the certificate's faults.
    reasons : list of str
        In words: of the certificate, of the error, or where the fit was when it was ended.
    made_of : str
        Rows and quadratic of the coreset.
    seconds, processor_seconds, megabytes : float
        Time by the clock and of the processor, and peak resident memory.
    ranks : dict
        Of up to `ELEMENTS` elements of each parameter: draws, of 99, below the truth.
    furthest : dict
        The elements, of all, whose truth is furthest from the mean, in standard deviations.
    """

    program: str
    kind: str
    dataset: int
    key: str
    awkward: str
    ranked: bool
    limit: int
    rows: int = 0
    verdict: str = ""
    faults: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    made_of: str = ""
    seconds: float = 0.0
    processor_seconds: float = 0.0
    megabytes: float = 0.0
    ranks: dict[str, int] = field(default_factory=dict)
    furthest: dict[str, float] = field(default_factory=dict)


def fit_within(case: Case, number: int, limit: int) -> Record:
    """Fit by all defaults; the system ends this process at the limit, its stack on stderr."""
    given = case.dataset(number)
    about = {
        "program": case.name,
        "kind": case.kind,
        "dataset": number,
        "key": case.key,
        "awkward": given.awkward,
        "ranked": given.awkward not in SPOILING,
        "limit": limit,
        "rows": max(np.shape(v)[0] for v in given.data.values() if np.ndim(v)),
    }
    faulthandler.register(signal.SIGXCPU, chain=True)
    before, began = _used(), time.perf_counter()
    for kind, most in ((resource.RLIMIT_CPU, int(before) + limit), (resource.RLIMIT_AS, MEMORY)):
        resource.setrlimit(kind, (most, resource.getrlimit(kind)[1]))
    found: dict[str, Any]
    try:
        with sc.CoresetModel(case.file, obs=case.obs) as model:
            fit = model.fit(given.data, seed=number, show_progress=False)
            found = judged(given.truth, fit)
    except StancoresetError as error:
        found = {"verdict": "refused", "reasons": [f"{type(error).__name__}: {error}"]}
    except Exception:
        found = {"verdict": "crashed", "reasons": [traceback.format_exc(limit=-6)]}
    found |= {
        "seconds": round(time.perf_counter() - began, 2),
        "processor_seconds": round(_used() - before, 2),
        "megabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 0),
    }
    return Record(**about, **found)


def judged(truth: Mapping[str, Any], fit: sc.CoresetFit) -> dict[str, Any]:
    """Verdict, and where the truth lies among the draws that a user is handed."""
    draws = handed_out(fit)
    ranks, distances = {}, {}
    for name, value in truth.items():
        true = np.ravel(value).astype(float)
        flat = np.asarray(draws[name]).reshape(-1, true.size)
        moving = np.flatnonzero(np.ptp(flat, axis=0))  # an entry of a Cholesky factor may be 1
        z = (true - flat.mean(axis=0))[moving] / flat.std(axis=0)[moving]
        distances |= {f"{name}[{j}]": float(d) for j, d in zip(moving, z, strict=True)}
        taken = flat[np.linspace(0, len(flat) - 1, DRAWS).round().astype(int)]
        chosen = moving[np.unique(np.linspace(0, len(moving) - 1, ELEMENTS).round().astype(int))]
        ranks |= {f"{name}[{j}]": int(np.sum(taken[:, j] < true[j])) for j in chosen}
    furthest = sorted(distances, key=lambda label: -abs(distances[label]))[:_FURTHEST]
    certificate = fit.certificate
    return {
        "verdict": certificate.verdict,
        "faults": [type(fault).__name__ for fault in certificate.faults],
        "reasons": list(certificate.reasons),
        "made_of": str(fit.made_of),
        "ranks": ranks,
        "furthest": {label: round(distances[label], 2) for label in furthest},
    }


def _used() -> float:
    own, others = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


def tell(record: Record) -> None:
    """Write the record to stdout, for the process that waits for it."""
    sys.stdout.write(json.dumps(asdict(record)) + "\n")
    sys.stdout.flush()
