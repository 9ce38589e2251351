"""Fixtures that any test may use: a CmdStan directory, and Stan programs compiled once."""

from __future__ import annotations

import hashlib
import logging
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import seeds
from cmdstan_runtime.build import cache_root, ensure, locked

# A shell that starts the tests in the background has them ignore interrupts, and so do the
# processes that they start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--seeds-from", type=int, default=0, metavar="N", help="move the seeds of all fits by N"
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
