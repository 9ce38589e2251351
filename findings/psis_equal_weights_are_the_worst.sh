#!/bin/sh
# Equal weights, the best there are, have the worst k, or none.
#
# Versions: arviz-stats 0.8.0 (1.3.3 likewise) beside arviz 0.23.4, scipy 1.17.1, numpy 2.4.6.
# Guess: Log weights that are all equal have no tail: k is small or minus infinity, and the
#   weights stay equal.
# What happens: ArviZ 0.23 returns equal weights with k = +inf, which by every rule rejects
#   them. arviz-stats raises ValueError. Noise of one part in a billion makes k negative in
#   both.
# Why it matters: A coreset with all rows, or one that is exact, has equal weights. The verdict
#   must not ask for k there; stancoreset's does not.
set -eu
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
"${PYTHON:-python3}" -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check arviz-stats==0.8.0 arviz-base==0.8.2 arviz==0.23.4 scipy==1.17.1 numpy==2.4.6 xarray==2026.9.0 pandas==3.1.1 'matplotlib==3.10.8'
venv/bin/python - <<'END'
import warnings

warnings.simplefilter("ignore")
import arviz
import numpy as np
from arviz_stats.base import array_stats

equal = np.zeros(2_000)
nearly = 1e-9 * np.random.default_rng(0).normal(size=2_000)
smoothed, k = arviz.psislw(equal.copy())
print("arviz 0.23.4, equal:", "k", float(k), "weights apart by", float(np.ptp(smoothed)))
assert float(k) == np.inf
assert np.ptp(smoothed) < 1e-12
for smooth in (arviz.psislw, array_stats.psislw):
    k = float(smooth(nearly.copy())[1])
    print(smooth.__module__, "nearly equal: k", round(k, 3))
    assert k < 0
try:
    array_stats.psislw(equal.copy())
except ValueError as error:
    print("arviz-stats 0.8.0, equal:", error)
else:
    raise AssertionError("no error")
END
