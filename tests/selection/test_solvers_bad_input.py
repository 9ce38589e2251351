"""Arrays and options that cannot be used: a clear error of ours, never a NaN."""

from __future__ import annotations

import numpy as np
import pytest

from stancoreset.errors import SolverError, StancoresetError
from stancoreset.selection.solvers import METHODS, solve

PHI = np.random.default_rng(0).standard_normal((4, 20))
B = PHI.sum(axis=1)


def _with(value, where=(2, 7)):
    phi = PHI.copy()
    phi[where] = value
    return phi


@pytest.mark.parametrize(
    ("phi", "target", "size", "options", "words"),
    [
        (_with(np.nan), B, 3, {}, r"phi\[2, 7\] = nan"),
        (_with(-np.inf), B, 3, {}, r"phi\[2, 7\] = -inf"),
        (PHI, np.array([1.0, np.nan, 0.0, 0.0]), 3, {}, r"target\[1\] is nan"),
        (PHI, B[:3], 3, {}, r"target has shape \(3,\)"),
        (PHI[0], B, 3, {}, r"phi has shape \(20,\)"),
        (np.zeros((4, 0)), B, 3, {}, r"shape \(4, 0\)"),
        (np.zeros((0, 4)), np.zeros(0), 3, {}, r"shape \(0, 4\)"),
        ([["a", "b"]], [1.0], 1, {}, "real numbers"),
        (PHI + 0j, B, 3, {}, "phi is of type complex128; expected an array of real numbers"),
        (PHI, B + 1j, 3, {}, "target is of type complex128; expected an array of real numbers"),
        (PHI.astype(complex).astype(object), B, 3, {}, "real numbers"),
        (PHI, 0.0 * B, 3, {}, "target is zero"),
        (0.0 * PHI, B, 3, {}, "all 20 columns of phi are zero"),
        (PHI, 1e60 * B, 3, {}, "magnitudes that differ"),
        (PHI, B, 0, {}, "size=0"),
        (PHI, B, -4, {}, "size=-4"),
        (PHI, B, 2.5, {}, "size=2.5"),
        (PHI, B, True, {}, "size=True"),
        (PHI, B, 3, {"method": "magic"}, "method is 'magic'.*pursuit"),
        (PHI, B, 3, {"tol": -1.0}, "tol=-1"),
        (PHI, B, 3, {"tol": np.nan}, "tol=nan"),
        (PHI, B, 3, {"path": (2, 2)}, r"path=\(2, 2\)"),
        (PHI, B, 3, {"path": (1, 4)}, "none above size=3"),
        (PHI, B, 3, {"path": ()}, "path"),
        (PHI, B, 3, {"weights_sum": 0.0}, "weights_sum=0.0 cannot be met"),
        (PHI, B, 3, {"weights_sum": -2.0}, "weights_sum=-2.0 cannot be met"),
        (PHI, B, 3, {"weights_sum": np.inf}, "weights_sum=inf"),
        (PHI, B, 3, {"groups": np.arange(20) - 1}, "label -1"),
        (PHI, B, 3, {"groups": np.arange(19)}, r"groups has shape \(19,\)"),
        (PHI, B, 3, {"groups": np.linspace(0, 1, 20)}, "expected 20 integers"),
        (PHI, B, 3, {"groups": np.arange(20) // 5}, "smallest has 5 rows"),
        (PHI, B, 3, {"start": ([0, 0], [1.0, 1.0])}, "repeat"),
        (PHI, B, 3, {"start": ([20], [1.0])}, r"outside 0\.\.19"),
        (PHI, B, 3, {"start": ([0], [-1.0])}, "negative"),
        (PHI, B, 3, {"start": ([0, 1], [1.0])}, "one length"),
        (PHI, B, 3, {"method": "giga", "weights_sum": 20.0}, "add reweight=True"),
        (PHI, B, 3, {"method": "giga", "groups": np.arange(20)}, "methods that can: .*pursuit"),
        (PHI, B, 3, {"method": "uniform", "start": ([0], [1.0])}, "cannot use start="),
        (PHI, B, 3, {"method": "aiht2", "max_iter": 0}, "max_iter=0"),
        (PHI, B, 3, {"method": "iht", "gradient_batch": 0}, "gradient_batch=0"),
        (PHI, B, 3, {"method": "iht", "step": -1.0}, "step=-1"),
        (PHI, B, 3, {"method": "frank_wolfe", "sigma_factor": 0.0}, "sigma_factor=0"),
        (PHI, B, 3, {"batch": 0}, "batch=0"),
        (PHI, B, 3, {"overshoot": -0.5}, "overshoot=-0.5"),
        (PHI, B, 3, {"pool": 0}, "pool=0"),
        (
            PHI,
            B,
            3,
            {"method": "uniform", "rescale": True, "weights_sum": 20.0},
            "drop weights_sum",
        ),
    ],
)
def test_a_clear_error(phi, target, size, options, words):
    with pytest.raises(SolverError, match=words) as caught:
        solve(phi, target, size, **options)
    assert isinstance(caught.value, StancoresetError)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("method", METHODS)
def test_unknown_option_names_those_there_are(method):
    with pytest.raises(SolverError, match="'bogus' is not known to method") as caught:
        solve(PHI, B, 3, method=method, bogus=1)
    assert "weights_sum" in str(caught.value)
    if method == "pursuit":
        assert "batch, overshoot, pool, swap_limit" in str(caught.value)
