#!/bin/sh
# The multimodal interval of draws that are all 7.0 is [0, 0]; of draws that are all 7, [7, 7].
#
# Versions: arviz-stats 0.8.0 (1.3.3 likewise), arviz-base 0.8.2, scipy 1.17.1, numpy 2.4.6.
# Guess: The interval of highest density of a constant is that constant, as `hdi` gives without
#   `multimodal`.
# What happens: With method="multimodal" it is [0, 0] for every constant of type float, and
#   right for integers: the density estimate of a constant has no grid.
# Why it matters: Posterior CSVs hold constants as floats (sizes, fixed parameters, the ones of
#   a correlation's diagonal): their interval does not contain a single draw.
set -eu
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
"${PYTHON:-python3}" -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check arviz-stats==0.8.0 arviz-base==0.8.2 scipy==1.17.1 numpy==2.4.6 xarray==2026.9.0 pandas==3.1.1
venv/bin/python - <<'END'
import warnings

warnings.simplefilter("ignore")
import numpy as np
from arviz_stats.base import array_stats

for value in (1.0, 7.0, -0.1):
    draws = np.full(1_000, value)
    plain = array_stats.hdi(draws, 0.89).tolist()
    several = array_stats.hdi(draws, 0.89, method="multimodal").tolist()
    print(f"all {value}: hdi {plain}, multimodal {several}")
    assert plain == [value, value]
    assert several == [[0, 0]]
whole = array_stats.hdi(np.full(1_000, 7), 0.89, method="multimodal").tolist()
print("all 7, integers: multimodal", whole)
assert whole == [[7, 7]]
END
