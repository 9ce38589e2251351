#!/bin/sh
# formulae names more columns of `f / x` than it makes.
#
# Versions: formulae 0.9.0, pandas 3.1.1, numpy 2.4.6, scipy 1.17.1.
# Guess: `f / x` is `f + f:x`, and its columns and names are the same.
# What happens: The matrices are equal, with two columns for the main effect of three levels,
#   but the term f of `f / x` has three names: both terms share one object, and the interaction,
#   coded in full, overwrites the names of the main effect. The table of the design matrix
#   cannot be made.
# Why it matters: Coefficients are matched to names by position. stancoreset copies each term
#   before formulae codes it.
set -eu
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
"${PYTHON:-python3}" -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check formulae==0.9.0 pandas==3.1.1 numpy==2.4.6 scipy==1.17.1
venv/bin/python - <<'END'
import formulae
import numpy as np
import pandas as pd

rng = np.random.default_rng(0)
data = pd.DataFrame({"y": rng.normal(size=60), "x": rng.normal(size=60), "f": rng.choice(list("abc"), 60)})
plain = formulae.design_matrices("y ~ f + f:x", data).common
nested = formulae.design_matrices("y ~ f / x", data).common
print("equal matrices:", np.array_equal(plain.design_matrix, nested.design_matrix))
print("f + f:x names", plain.terms["f"].labels, "for", plain["f"].shape[1], "columns")
print("f / x   names", nested.terms["f"].labels, "for", nested["f"].shape[1], "columns")
assert np.array_equal(plain.design_matrix, nested.design_matrix)
assert plain.terms["f"].labels == ["f[b]", "f[c]"]
assert nested.terms["f"].labels == ["f[a]", "f[b]", "f[c]"]
assert nested["f"].shape[1] == 2
plain.as_dataframe()
try:
    nested.as_dataframe()
except ValueError as error:
    print("as_dataframe:", error)
else:
    raise AssertionError("the table can be made")
END
