#!/bin/sh
# Of an array of vectors, BridgeStan's unconstrained names and numbers stand in two orders.
#
# Versions: stanli 0.24.0 through bridgestan 2.9.0, numpy 2.4.6; the C++ that stanc 2.39.0
#   writes does likewise.
# Guess: `param_unc_names` names the numbers that `log_density` takes: the second name is that
#   of the second number.
# What happens: The numbers are taken one vector after the other, and the names have the first
#   index running fastest: what `param_unc_names` calls a.2.1 is a[1][2]. `param_constrain` of 0
#   ... 5 is 0 3 1 4 2 5 for parameters without constraints. A round trip by `param_unconstrain`
#   shows nothing.
# Why it matters: Unconstrained draws, modes and Hessians labelled by these names have elements
#   of an array of vectors exchanged. stancoreset labels by the order of the numbers.
set -eu
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
"${PYTHON:-python3}" -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check stanli==0.24.0 bridgestan==2.9.0 numpy==2.4.6
venv/bin/python - <<'END'
import numpy as np
import stanli

model = stanli.bridgestan_model(stan_code="""
parameters { array[2] vector[3] a; }
model { a[1][2] ~ normal(100, 1); }
""")
names = model.param_unc_names()
constrained = model.param_constrain(np.arange(6.0))
gradient = model.log_density_gradient(np.zeros(6))[1]
print("names", names)
print("numbers 0 ... 5 become", constrained, "under names", model.param_names())
print("a[1][2] alone has a density; the gradient is", gradient, "at the name", names[1])
assert names == ["a.1.1", "a.2.1", "a.1.2", "a.2.2", "a.1.3", "a.2.3"]
assert constrained.tolist() == [0, 3, 1, 4, 2, 5]
assert gradient.tolist() == [0, 100, 0, 0, 0, 0]
assert model.param_unconstrain(constrained).tolist() == [0, 1, 2, 3, 4, 5]
END
