#!/bin/sh
# `psislw` of ArviZ 1.x smooths the reciprocals of the weights that it is given.
#
# Versions: arviz-stats 0.8.0 (1.3.3 likewise) beside arviz 0.23.4, scipy 1.17.1, numpy 2.4.6.
# Guess: `psislw` takes log weights in both, so that k of the same draws agrees within rounding.
# What happens: The function of the same name in arviz-stats takes the log likelihood of leave-
#   one-out and turns its sign. Log weights of 500 draws have k 0.29 in 0.23 and 0.69 in arviz-
#   stats, the k of their reciprocals; with the sign turned back both agree. Its return says
#   nothing: the weights sum to one.
# Why it matters: Code moved from ArviZ 0.23 to 1.x judges importance weights by the wrong tail,
#   and a draw of log weight minus infinity, which is harmless, makes all of them NaN. Here the
#   wrong k is the bad one; it may as well be the good one.
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

log_weights = np.random.default_rng(0).normal(size=500)
old, old_k = arviz.psislw(log_weights.copy())
new, new_k = array_stats.psislw(log_weights.copy())
turned, turned_k = array_stats.psislw(-log_weights)
impossible, _ = array_stats.psislw(np.r_[-np.inf, log_weights])
print(f"arviz 0.23.4 of log weights       k {float(old_k):.3f}")
print(f"arviz-stats of log weights        k {float(new_k):.3f}, sum {np.exp(new).sum():.3f}")
print(f"arviz-stats of minus log weights  k {float(turned_k):.3f}")
print("arviz-stats with one weight of zero:", int(np.isnan(impossible).sum()), "of 501 are NaN")
assert abs(float(old_k) - float(turned_k)) < 0.01
assert np.corrcoef(old, turned)[0, 1] > 0.999
assert np.corrcoef(old, new)[0, 1] < -0.9
assert float(new_k) - float(old_k) > 0.3
assert np.isnan(impossible).all()
END
