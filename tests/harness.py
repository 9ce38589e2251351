"""A plugin of pytest that all tests share, these and those of the papers' experiments.

Its options, the order of tests, and fixtures that any test may use: a CmdStan directory, and Stan
programs compiled once. Each folder's ``conftest.py`` registers it.
"""

from __future__ import annotations

import gc
import hashlib
import json
import logging
import os
import signal
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import seeds
from cmdstan_runtime import build
from cmdstan_runtime.build import cache_root, ensure, locked

# A worker of pytest-xdist has one processor: threads of linear algebra, as many as there are
# processors, would spend more time waiting for one another than computing.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


# A shell that starts the tests in the background has them ignore interrupts, and nohup hangups, and
# so do the processes that they start and signal.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)  # ignored still, but a child starts without


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--seeds-from", type=int, default=0, metavar="N", help="move the seeds of all fits by N"
    )
    parser.addoption(
        "--share", default="0/1", metavar="K/N", help="run the K-th of N shares of the tests"
    )


def pytest_configure(config: pytest.Config) -> None:
    seeds.begin_from(config.getoption("--seeds-from"))
    # The same examples everywhere, and as long as a busy machine takes for them.
    hypothesis.settings.register_profile(
        "everywhere",
        derandomize=True,
        deadline=None,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )
    hypothesis.settings.load_profile("everywhere")


@pytest.hookimpl(trylast=True)  # of the tests that -m and -k leave
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """One share of the tests: quick ones first, while CmdStan is built, then whole fits or CmdStan.

    Each worker of pytest-xdist begins with a share of neighbours in the list, so that every share
    has its part of all three, in whole files. Every other worker goes on with CmdStan, and the rest
    with whole fits, so that no two wait for the same program to be compiled. Files that stand above
    the rooms' folders run the longest, and come first.
    """
    share, shares = map(int, config.getoption("--share").split("/"))
    shared: tuple[list[pytest.Item], list[pytest.Item]] = [], []
    for item in items:
        shared[zlib.crc32(item.nodeid.encode()) % shares == share].append(item)
    left_out, items[:] = shared
    config.hook.pytest_deselected(items=left_out)
    files: dict[tuple[int, int, Path], list[pytest.Item]] = {}
    for item in items:
        place = (_tier(item), len(item.path.parts), item.path)
        files.setdefault(place, []).append(item)
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    lists: list[list[pytest.Item]] = [[] for _ in range(workers)]
    for _, together in sorted(files.items(), key=lambda entry: entry[0]):
        min(lists, key=len).extend(together)
    for one in lists[::2]:
        one.sort(key=lambda item: (0, 2, 1)[_tier(item)])
    items[:] = [item for one in lists for item in one]
    first = os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0"
    if first and not config.option.collectonly and any(_tier(item) == 2 for item in items):
        _build_cmdstan(config)


def pytest_collection_finish() -> None:
    """What is imported by now stays: the garbage collector need not look through it again."""
    gc.collect()
    gc.freeze()


def _tier(item: pytest.Item) -> int:
    if item.get_closest_marker("cmdstan"):
        return 2
    return 1 if item.get_closest_marker("fit") or item.get_closest_marker("slow") else 0


def _build_cmdstan(config: pytest.Config) -> None:
    """Begin now; who needs it waits, and builds it if this has failed."""
    process = subprocess.Popen(
        [sys.executable, build.__file__],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )

    def end() -> None:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    config.add_cleanup(end)


@pytest.fixture(scope="session", autouse=True)
def _stanc_remembers(pytestconfig: pytest.Config) -> Iterator[None]:
    """What stanc says of a text is kept beside the compiled programs; only benchmarks ask anew."""
    if not pytestconfig.getoption("benchmark_skip"):
        yield
        return
    from stancoreset.stan.syntax import stanc

    run, kept = stanc._run_cached.__wrapped__, cache_root() / "stanc"
    caller = Path(stanc.__file__).read_text(encoding="utf-8")
    with suppress(OSError):
        kept.mkdir(parents=True, exist_ok=True)

    def remembered(
        binary: Path, options: tuple[str, ...], code: str, filename: str
    ) -> tuple[str, str]:
        if "#include" in code:  # whose files may have changed
            return run(binary, options, code, filename)
        stated = _digest(binary, binary.stat().st_mtime_ns)
        asked = repr((stated, caller, options, code, filename))
        path = kept / hashlib.sha256(asked.encode()).hexdigest()
        with suppress(OSError, zlib.error):  # a file cut short fails its checksum
            printed, warnings = json.loads(zlib.decompress(path.read_bytes()))
            return printed, warnings
        said = run(binary, options, code, filename)
        with suppress(OSError):
            path.write_bytes(zlib.compress(json.dumps(said).encode(), 1))
        return said

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stanc, "_run_cached", lru_cache(maxsize=512)(remembered))
        yield


@lru_cache
def _digest(binary: Path, _changed: int) -> str:
    return hashlib.sha256(binary.read_bytes()).hexdigest()


@pytest.fixture(scope="session")
def cmdstan() -> Iterator[Path]:
    """A CmdStan directory that cmdstanpy uses: a genuine one, or the tests' own runtime.

    Without either, a test that asks for it fails; tests of the CmdStan engine are never skipped.
    """
    import cmdstanpy

    with pytest.MonkeyPatch.context() as patch:
        home = ensure()
        patch.setenv("CMDSTAN", str(home))
        cmdstanpy.set_cmdstan_path(str(home))
        logging.getLogger("cmdstanpy").setLevel(logging.WARNING)
        yield home


@pytest.fixture(scope="session")
def compile_stan(cmdstan: Path) -> Callable[..., Any]:
    """``compile_stan(code, threads=False)``: a CmdStanModel, compiled once for each content."""
    import cmdstanpy

    def compile_(
        code: str, *, threads: bool = False, name: str = "model"
    ) -> cmdstanpy.CmdStanModel:
        key = hashlib.sha256(f"{name} {threads}\n{code}".encode()).hexdigest()[:16]
        folder = cache_root() / "models" / cmdstan.name / key
        with locked(folder / "lock"):
            source = folder / f"{name}.stan"
            if not source.exists():
                source.write_text(code)
            options = {"STAN_THREADS": True} if threads else None
            return cmdstanpy.CmdStanModel(stan_file=source, cpp_options=options)

    return compile_
