"""NUTS draws as an engine returns them, before they become a container."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import pytest

from stancoreset.engines import Float, SampleResult
from stancoreset.errors import EngineError


@pytest.mark.parametrize("far", [-1e101, 3e200])
def test_chains_that_run_away_name_the_parameter(far: float) -> None:
    """Sums of their squares would overflow in whatever is computed of them."""
    columns = {"divergent__": np.zeros((1, 3)), "treedepth__": np.ones((1, 3))}
    columns["n_leapfrog__"] = np.ones((1, 3))
    variables = {"mu": np.ones((1, 3)), "z": np.array([[0.0, far, 1.0]])}

    def unconstrain(values: Mapping[str, Float]) -> Float:
        return np.column_stack(list(values.values()))

    with pytest.raises(
        EngineError, match=rf"run away: z reaches {re.escape(f'{abs(far):.3g}')}.* improper"
    ):
        SampleResult.of(variables, columns, 3, unconstrain, seconds=0.0)
    variables["z"][0, 1] = 1e99
    result = SampleResult.of(variables, columns, 3, unconstrain, seconds=0.0)
    assert result.unconstrained.shape == (1, 3, 2)
