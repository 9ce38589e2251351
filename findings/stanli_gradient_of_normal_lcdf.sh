#!/bin/sh
# stanli's normal_lcdf is exact to 16 digits, and its gradient to 4.
#
# Versions: stanli 0.24.0, bridgestan 2.9.0, scipy 1.17.1, numpy 2.4.6.
# Guess: A value right to the last digit has a gradient about as good.
# What happens: The value agrees with log_ndtr within rounding at every z; the derivative
#   phi(z)/Phi(z) is off by up to 3.6e-5 of itself (at z = -2.9), and by less elsewhere, without
#   a pattern in z. Stan's own derivative has these errors too, and larger ones beyond
#   z = -30 (stan_gradient_of_normal_lcdf_far_out).
# Why it matters: Tobit and censored rows use it. NUTS accepts by values and is not biased, but
#   Laplace fits, quadratics and anything that differences gradients inherit the error, and a
#   comparison of gradients between engines must allow it.
set -eu
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
"${PYTHON:-python3}" -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check stanli==0.24.0 bridgestan==2.9.0 scipy==1.17.1 numpy==2.4.6
venv/bin/python - <<'END'
import numpy as np
import stanli
from scipy.special import log_ndtr

model = stanli.bridgestan_model(
    stan_code="parameters { real z; } model { target += normal_lcdf(z | 0, 1); }")
worst = 0.0
for z in (-30.0, -20.0, -5.0, -2.9, -1.0, 0.0, 1.0, 2.0, 5.0):
    value, gradient = model.log_density_gradient(np.array([z]))
    exact = np.exp(-z * z / 2 - 0.5 * np.log(2 * np.pi) - log_ndtr(z))
    off = abs(gradient[0] / exact - 1)
    worst = max(worst, off)
    print(f"z {z:6.1f}: value off by {abs(value - log_ndtr(z)):.0e}, gradient by {off:.1e} of itself")
    assert abs(value - log_ndtr(z)) <= 1e-14 * max(1, abs(value))
assert 3e-5 < worst < 4e-5
END
