"""Woven programs of further shapes on CmdStan; a file of its own, for compiling takes long."""

from pathlib import Path

import pytest
from test_adopt import identities_hold_in_cmdstan
from weave_data import make_data, obs_of

#: A regression density taken apart, censoring by index, ordered categories in a loop, two
#: outcomes with frozen centring.
SHAPES = (
    "glm_negbin", "brms_censored_indices", "ordered_probit_loop", "brms_multivariate_rescor",
)  # fmt: skip


@pytest.mark.cmdstan
@pytest.mark.parametrize("name", SHAPES)
def test_identities_hold_in_cmdstan_too(name, cmdstan):
    code = (Path(__file__).parent / "weave_programs" / f"{name}.stan").read_text()
    identities_hold_in_cmdstan(name, code, make_data(code), obs_of(code))
