#!/bin/sh
# A loop of the model counts with the last value of a local variable of transformed data.
#
# Versions: stanli 0.24.0 through bridgestan 2.9.0, numpy 2.4.6.
# Guess: A variable that is declared in a block of transformed data is forgotten at the block's
#   end, so that a loop of the model may have a number of the same name.
# What happens: After `{ int k = 2; }` in transformed data, `for (k in 1:2) target += s[k] * a`
#   adds s[2] twice. The log density is finite, its gradient is that of the wrong density, and
#   nothing is said. Loops of transformed parameters and of generated quantities do likewise;
#   local variables that are declared in loops or branches count where slices are assigned to.
# Why it matters: Counters such as k, n and pos are the usual names in both places. Any comparison
#   of two programs that share their transformed data agrees on the wrong number. stancoreset
#   gives such local variables other names.
set -eu
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
"${PYTHON:-python3}" -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check stanli==0.24.0 bridgestan==2.9.0 numpy==2.4.6
venv/bin/python - <<'END'
import numpy as np
import stanli

PROGRAM = """
data { array[2] int s; }
transformed data { { int NAME = 2; } }
parameters { real a; }
model { for (k in 1:2) target += s[k] * a; }
"""
slopes = {}
for name in ("other", "k"):
    model = stanli.bridgestan_model(stan_code=PROGRAM.replace("NAME", name), data='{"s": [1, 3]}')
    slopes[name] = model.log_density_gradient(np.zeros(1))[1][0]
    print(f"slope 1 + 3 of a program with a local variable {name}: {slopes[name]}")
assert slopes == {"other": 4, "k": 6}
END
