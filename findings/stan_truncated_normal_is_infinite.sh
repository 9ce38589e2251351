#!/bin/sh
# A normal truncated to y > 0 has an infinite density in Stan; written for -y < 0, a finite one.
#
# Versions: Stan math of Stan 2.35 (httpstan 4.13.0, Python 3.11) and 2.39 (4.17.0, from Python 3.12
#   on); stanli 0.24.0, scipy 1.17.1, numpy 2.4.6. It needs a C++ compiler, for a minute.
# Guess: A distribution function on the log scale holds far out, as normal_lcdf does to thousands of
#   sds; by symmetry normal_lccdf(y | mu, s) is normal_lcdf(-y | -mu, s).
# What happens: normal_lccdf loses digits from 7 sds on and is minus infinity from 8.3 on, so that
#   `y ~ normal(mu, 1) T[0, ]`, which is normal_lpdf less normal_lccdf(0 | mu, 1), is 0.08 off at
#   mu = -8.2 and plus infinity from mu = -8.3 on. `T[ , 0]` of the mirror image is right at every mu.
#   stanli is right in both forms. lognormal_lccdf holds to 38 sds in all.
# Why it matters: A right-censored row that lies 8.3 sds out, in a start or in a poor fit, has no
#   density, and a truncated one all of it; the same program is well in stanli. Write the lower tail of
#   -y: stancoreset's formulas do.
set -eu
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
"${PYTHON:-python3}" -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check \
    stanli==0.24.0 bridgestan==2.9.0 scipy==1.17.1 numpy==2.4.6
venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
    "httpstan==4.13.0; python_version < '3.12'" "httpstan==4.17.0; python_version >= '3.12'"
home=$(venv/bin/python -c 'import importlib.util as u; print(u.find_spec("httpstan").submodule_search_locations[0])')
cat > truncated.cpp <<'END'
#include <stan/math.hpp>
#include <cstdio>
#include <cstdlib>
int main(int count, char** given) {
  for (int i = 1; i < count; ++i) {
    double mu = std::atof(given[i]), y = 0.1;
    std::printf("%.17g %.17g\n",
                stan::math::normal_lpdf(y, mu, 1) - stan::math::normal_lccdf(0.0, mu, 1),
                stan::math::normal_lpdf(-y, -mu, 1) - stan::math::normal_lcdf(0.0, -mu, 1));
  }
}
END
"${CXX:-g++}" -std=c++17 -O0 -w -pthread -D_REENTRANT -isystem "$home/include" truncated.cpp \
    -L"$home/lib" -Wl,-rpath,"$home/lib" -ltbb -o truncated
cat > compare.py <<'END'
import subprocess

import numpy as np
import stanli
from scipy import stats

means = [-1.0, -5.0, -7.0, -8.2, -8.3, -9.0, -37.0, -1000.0]
printed = subprocess.run(["./truncated", *map(repr, means)], capture_output=True, text=True, check=True).stdout
found = {}
for mu, line in zip(means, printed.splitlines()):
    exact = stats.norm.logpdf(0.1, mu) - stats.norm.logsf(0, mu)
    both = [stanli.bridgestan_model(stan_code=f"parameters {{ real m; }} model {{ {told}; }}")
            .log_density(np.array([mu]))
            for told in ("target += normal_lpdf(0.1 | m, 1) - normal_lccdf(0 | m, 1)",
                         "target += normal_lpdf(-0.1 | -m, 1) - normal_lcdf(0 | -m, 1)")]
    by_stan, mirrored = map(float, line.split())
    found[mu] = by_stan - exact
    print(f"mu {mu:7.1f}: exact {exact:11.6f}, Stan {by_stan:11.6f}, mirrored {mirrored:11.6f}, stanli "
          + " and ".join(f"{value:.6f}" for value in both))
    for value in (mirrored, *both):
        assert abs(value - exact) < 1e-9 * max(1, abs(exact), mu * mu)
assert abs(found[-5.0]) < 1e-9
assert 1e-7 < abs(found[-7.0]) < 1e-4
assert 0.05 < found[-8.2] < 0.1
assert found[-8.3] == found[-9.0] == found[-1000.0] == np.inf
END
venv/bin/python compare.py
