#!/bin/sh
# A column of booleans times a number is two slopes for patsy and one for formulae.
#
# Versions: formulae 0.9.0, patsy 1.0.3, pandas 3.1.1, numpy 2.4.6, scipy 1.17.1.
# Guess: A boolean is a factor of two levels in both, as in R: `b:x` has a slope for each, and
#   `0 + b` a mean for each.
# What happens: For formulae a boolean is the number 0 or 1: `b:x` has no slope where b is
#   false, and `0 + b` no mean. patsy's models have two columns each. `b * x` is the same model
#   in both, so the difference shows only without main effects. A text column of the same values
#   is a factor in both.
# Why it matters: A formula brought from R, statsmodels or patsy is another model in Bambi and
#   in stancoreset, which codes predictors by formulae: write C(b) or str(b). The residuals
#   differ, not only the names.
set -eu
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
"${PYTHON:-python3}" -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check formulae==0.9.0 patsy==1.0.3 pandas==3.1.1 numpy==2.4.6 scipy==1.17.1
venv/bin/python - <<'END'
import formulae
import numpy as np
import pandas as pd
import patsy

rng = np.random.default_rng(0)
x, b = rng.normal(size=80), rng.random(80) < 0.5
data = pd.DataFrame({"y": np.where(b, 1 + x, 2 - x), "x": x, "b": b, "text": b.astype(str)})


def left(matrix):
    matrix = np.asarray(matrix, dtype=float)
    fitted = matrix @ np.linalg.lstsq(matrix, data["y"], rcond=None)[0]
    return matrix.shape[1], float(np.sum((data["y"] - fitted) ** 2))


found = {}
for right in ("b:x", "0 + b", "b * x", "C(b):x", "text:x"):
    ours = left(formulae.design_matrices(f"y ~ {right}", data).common.design_matrix)
    theirs = left(patsy.dmatrix(right, data))
    found[right] = ours[0], theirs[0]
    print(f"{right:7} formulae {ours[0]} columns, {ours[1]:6.2f} left; "
          f"patsy {theirs[0]} columns, {theirs[1]:6.2f} left")
    if right in ("b:x", "0 + b"):
        assert ours[1] > 1.2 * theirs[1]
    else:
        np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-9, atol=1e-9)
assert found == {"b:x": (2, 3), "0 + b": (1, 2), "b * x": (4, 4), "C(b):x": (3, 3), "text:x": (3, 3)}
END
