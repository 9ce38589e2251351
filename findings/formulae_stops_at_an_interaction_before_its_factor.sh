#!/bin/sh
# The order of a sum decides whether formulae can code it.
#
# Versions: formulae 0.9.0, pandas 3.1.1, numpy 2.4.6, scipy 1.17.1, patsy 1.0.3.
# Guess: `f:g + f` and `f + f:g` are the same model, as for patsy and R; with a number, `f:x +
#   f` works, so factors work too.
# What happens: `f:g + f` and `g:f + g` end in IndexError. `g:f + f`, where the factor is the
#   last of the interaction, works, and so do `f + f:g` and `f:x + f`.
# Why it matters: Programs that write formulas order terms as they like. stancoreset has
#   formulae code main effects first and keeps the columns as they are written.
set -eu
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
"${PYTHON:-python3}" -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check formulae==0.9.0 pandas==3.1.1 numpy==2.4.6 scipy==1.17.1 patsy==1.0.3
venv/bin/python - <<'END'
import formulae
import numpy as np
import pandas as pd
import patsy

rng = np.random.default_rng(0)
data = pd.DataFrame({"y": rng.normal(size=90), "x": rng.normal(size=90),
                     "f": rng.choice(list("abc"), 90), "g": rng.choice(list("uvw"), 90)})
found = {}
for right in ("f + f:g", "f:g + f", "g:f + f", "g:f + g", "f:x + f"):
    patsy_has = patsy.dmatrix(right, data).shape[1]
    try:
        found[right] = formulae.design_matrices(f"y ~ {right}", data).common.design_matrix.shape[1]
    except IndexError as error:
        found[right] = f"IndexError: {error}"
    print(f"{right:8} patsy {patsy_has} columns, formulae {found[right]}")
    assert found[right] in (patsy_has, "IndexError: list index out of range")
stopped = [right for right, value in found.items() if isinstance(value, str)]
assert stopped == ["f:g + f", "g:f + g"]
END
