#!/bin/sh
# scipy's negative binomial has a mass of 1.24 at one count, where Stan's front in stanli has 0.14.
#
# Versions: scipy 1.17.1, stanli 0.24.0, bridgestan 2.9.0, numpy 2.4.6.
# Guess: For a large size the negative binomial is Poisson, in both; a difference of log gammas
#   costs some digits.
# What happens: scipy subtracts log gammas of n: at n = 1e9 the sixth digit is wrong, at 1e12
#   the fourth, and at 1e15 the log mass is +0.21, the mass of one count 1.24. stanli, which
#   evaluates Stan's neg_binomial_2, is Poisson to 1e-9.
# Why it matters: A check of pointwise log likelihoods by scipy.stats blames the program.
#   Dispersions that run away are met in climbs to a mode, where NumPy code replaces Stan's.
set -eu
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
"${PYTHON:-python3}" -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check scipy==1.17.1 stanli==0.24.0 bridgestan==2.9.0 numpy==2.4.6
venv/bin/python - <<'END'
import numpy as np
import stanli
from scipy import stats

code = """data { real phi; } parameters { real x; }
model { target += neg_binomial_2_lpmf(3 | 5, phi) + 0 * x; }"""
poisson = stats.poisson.logpmf(3, 5)
apart = {}
for n in (1e3, 1e9, 1e12, 1e15):
    by_scipy = float(stats.nbinom.logpmf(3, n, n / (n + 5)))
    model = stanli.bridgestan_model(stan_code=code, data={"phi": n})
    by_stan = model.log_density(np.zeros(1))
    apart[n] = by_scipy - by_stan
    print(f"n {n:.0e}: scipy {by_scipy:+.9f}, stanli {by_stan:+.9f}, Poisson {poisson:+.9f}")
assert abs(by_stan - poisson) < 1e-9
assert by_scipy > 0
assert abs(apart[1e3]) < 1e-11
assert 1e-7 < abs(apart[1e9]) < 1e-4 < abs(apart[1e12]) < 1e-2
END
