"""The table of all jobs' verdicts, errors and times, as CSV and Markdown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stancoreset.batch.folder import WorkFolder
from stancoreset.batch.job import ENDED, Job, default_settings
from stancoreset.errors import StancoresetError
from stancoreset.files import atomic_path, write_text
from stancoreset.runs import load_part, markdown_table

if TYPE_CHECKING:
    import pandas as pd

_IN_MARKDOWN = (
    "state", "verdict", "rows", "khat", "efficiency",
    "heldout_error", "seconds", "speedup", "max_delta_mean",
)  # fmt: skip
_COUNTS = (
    "size", "seed", "draws", "candidates", "chains", "iter_warmup",
    "iter_sampling", "max_treedepth", "n_obs", "rows", "n_draws",
)  # fmt: skip


def planned(jobs: list[Job], folder: WorkFolder, retry: bool) -> pd.DataFrame:
    """The planned work for each job: the table of ``--dry-run``."""
    import pandas as pd

    does = {"done": "nothing: done", "new": "run", "begun": "continue"}
    rows = []
    for job in jobs:
        state, given = folder.state(job), {**default_settings(), **job.settings}
        fit = job.kind == "fit"
        rows.append(
            {
                "job": job.name,
                "model": Path(job.model).name,
                "size": given["size"] if fit else "all",
                "method": given["method"] if fit else "NUTS",
                "seed": given["seed"],
                "engine": job.engine,
                "does": does.get(state, "retry" if retry else f"nothing: {state} (--retry)"),
            }
        )
    return pd.DataFrame(rows).set_index("job")


def summarise_jobs(jobs: list[Job], folder: WorkFolder) -> pd.DataFrame:
    """Tabulate the state and, if available, the result of every job.

    Returns
    -------
    pandas.DataFrame
        Index ``job``; ``model``, ``data``, ``engine``, ``state`` (done, failed, out of time, out of
        memory, begun, new),
        ``attempts``, the settings, ``n_obs``, ``rows``, ``verdict``, ``khat``, ``efficiency``
        (importance efficiency, from 0 to 1), ``n_draws``, ``heldout_error``, ``mcse_mean``,
        ``mcse_sd``, ``relative_error``, ``seconds``, ``full_seconds``, ``speedup``,
        ``max_delta_mean``, ``max_log_sd_ratio`` (against NUTS on the full data),
        ``seconds: <stage>`` for each stage, ``error``.
    """
    import pandas as pd

    by_name = {job.name: job for job in jobs}
    rows = []
    for job in jobs:
        state = folder.state(job)
        past = folder.history(job)
        given = [(key, value) for key, value in job.settings.items() if value is not None]
        row: dict[str, Any] = {
            "job": job.name,
            "kind": job.kind,
            "model": job.model,
            "data": job.data if isinstance(job.data, str) else json.dumps(job.data)[:200],
            "engine": job.engine,
            "state": state,
            "attempts": past.attempts,
            **{k: v if isinstance(v, str | int | float) else str(v) for k, v in given},
            **dict.fromkeys(("verdict", "speedup", "max_delta_mean", "max_log_sd_ratio")),
            "seconds": sum(past.seconds.values()) if past.seconds else None,
        }
        error = past.error if state in ENDED else None
        if state == "done":
            try:
                row |= _result(folder.job_folder(job), job)
                if job.full is not None and folder.state(by_name[job.full]) == "done":
                    row |= _against(
                        folder.job_folder(job), folder.job_folder(by_name[job.full]), row["seconds"]
                    )
            except StancoresetError as damaged:
                row["state"], error = "failed", str(damaged)
        row |= {f"seconds: {name}": value for name, value in past.seconds.items()}
        row["error"] = error
        rows.append(row)
    table = pd.DataFrame(rows).set_index("job")
    last = [c for c in table.columns if c.startswith("seconds: ")] + ["error"]
    return table[[c for c in table.columns if c not in last] + last]


def _read_report(file: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return report


def _result(folder: Path, job: Job) -> dict[str, Any]:
    report = load_part(folder, "report.json", _read_report)
    if job.kind == "full":
        return {"seconds": report["seconds"], "n_obs": report["n_obs"]}
    certificate, coreset, settings = report["certificate"], report["coreset"], report["settings"]
    ess = certificate["ess"]
    return {
        **{key: settings[key] for key in ("size", "method", "seed") if key in settings},
        "n_obs": report["provenance"]["n_obs"],
        "rows": coreset.get("size", 0),
        **{key: certificate[key] for key in ("verdict", "khat")},
        "efficiency": None if ess is None else ess / certificate["n_draws"],
        **{key: certificate[key] for key in ("n_draws", "heldout_error")},
        "mcse_mean": certificate.get("mcse_mean"),
        "mcse_sd": certificate.get("mcse_sd"),
        "relative_error": coreset.get("relative_error"),
    }


def _against(fit: Path, full: Path, seconds: float) -> dict[str, Any]:
    """Compare times and means with NUTS on the full data."""
    from stancoreset.posterior import arviz, compare, summarise
    from stancoreset.runs import load_fit

    took = load_part(full, "report.json", _read_report)["seconds"]
    row: dict[str, Any] = {"full_seconds": took, "speedup": took / seconds}
    try:
        table = compare({"full": arviz.load(full / "full.nc"), "coreset": load_fit(fit)})
    except StancoresetError:  # no shared parameters to compare; times are still valid
        return row
    worst = summarise(table).loc["coreset"]
    return row | {
        key: float(worst.to_dict()[key]) for key in ("max_delta_mean", "max_log_sd_ratio")
    }


def write_summary(table: pd.DataFrame, folder: Path) -> None:
    """Write ``summary.csv`` with all columns, ``summary.md`` with the main ones."""
    whole = [c for c in _COUNTS if c in table.columns and table[c].dtype.kind == "f"]
    counted = table.astype(dict.fromkeys(whole, "Int64"))  # also where some are missing
    with atomic_path(folder / "summary.csv") as temporary:
        counted.to_csv(temporary)
    write_text(folder / "summary.md", _markdown(table))


def told_errors(table: pd.DataFrame) -> dict[str, str]:
    """The errors of jobs by name; each begins with its limit if the job has passed one."""
    found = table[table["error"].notna()]
    return {
        str(name): error if state == "failed" else f"{state}: {error}"
        for name, state, error in zip(found.index, found["state"], found["error"], strict=True)
    }


def _markdown(table: pd.DataFrame) -> str:
    columns = [c for c in _IN_MARKDOWN if c in table.columns and table[c].notna().any()]
    counts = table["state"].value_counts()
    lines = ["# Batch", "", ", ".join(f"{n} {state}" for state, n in counts.items()), ""]
    lines += markdown_table(("job", *columns), table[columns].itertuples())
    stages = [c for c in table.columns if c.startswith("seconds: ")]
    if stages:
        names = [c.removeprefix("seconds: ") for c in stages]
        lines += ["", "Seconds of each stage:", ""]
        lines += markdown_table(("job", *names), table[stages].itertuples())
    failed = table[table["error"].notna()]
    if len(failed):
        lines += ["", "Failed:", ""]
        lines += [f"- {name}: {text}" for name, text in told_errors(failed).items()]
    return "\n".join(lines) + "\n"
