"""Woven programs of further shapes on CmdStan; a file of its own, for compiling takes long."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from test_adopt import identities_hold_in_cmdstan
from weave_data import make_data, obs_of

#: A regression density taken apart, censoring by index, ordered categories in a loop, two
#: outcomes with frozen centring.
SHAPES = (
    "glm_negbin", "brms_censored_indices", "ordered_probit_loop", "brms_multivariate_rescor",
)  # fmt: skip


@pytest.fixture(scope="module")
def checks(cmdstan) -> Iterator[dict[str, Future[None]]]:
    """All shapes under way, two at a time: compilers use one core each."""

    def check(name: str) -> None:
        code = (Path(__file__).parents[1] / "stan" / "weave_programs" / f"{name}.stan").read_text()
        identities_hold_in_cmdstan(name, code, make_data(code), obs_of(code))

    with ThreadPoolExecutor(2) as pool:
        yield {name: pool.submit(check, name) for name in SHAPES}


@pytest.mark.cmdstan
@pytest.mark.parametrize("name", SHAPES)
def test_identities_hold_in_cmdstan_too(name, checks):
    checks[name].result()
