#!/bin/sh
# exp_mod_normal_lcdf forgets its exponential once rate times sd is above 8.3.
#
# Versions: stanli 0.24.0; Stan math of Stan 2.35 (httpstan 4.13.0, Python 3.11) and 2.39 (4.17.0, from
#   Python 3.12 on); scipy 1.17.1, numpy 2.4.6. It needs a C++ compiler, for a minute.
# Guess: exp_mod_normal_lcdf is the integral of exp_mod_normal_lpdf, which is right there; where it is
#   not, it is not a number.
# What happens: With sd 1 and rate 2 density and distribution function agree with scipy. With rate 8
#   the latter is 0.002 off, and with rate 9 it is the normal's, without the exponential: finite,
#   plausible, and off by 0.09 at the location, where its derivative is 0 in place of -0.86. The
#   density is right at all rates. Stan 2.35, 2.39 and stanli agree to the last digit, so that no
#   comparison of engines sees it.
# Why it matters: Censored and truncated response times use it. The normal of the same location is
#   the wrong model by one mean of the exponential. Ask scipy.stats.exponnorm before you trust it.
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
cat > modified.cpp <<'END'
#include <stan/math.hpp>
#include <cstdio>
#include <cstdlib>
int main(int count, char** given) {
  for (int i = 1; i < count; ++i) {
    stan::math::var mu = 0.0;
    double rate = std::atof(given[i]);
    stan::math::var value = stan::math::exp_mod_normal_lcdf(0.0, mu, 1.0, rate);
    value.grad();
    std::printf("%.17g %.17g %.17g\n", value.val(), mu.adj(),
                stan::math::exp_mod_normal_lpdf(0.0, 0.0, 1.0, rate));
  }
}
END
"${CXX:-g++}" -std=c++17 -O0 -w -pthread -D_REENTRANT -isystem "$home/include" modified.cpp \
    -L"$home/lib" -Wl,-rpath,"$home/lib" -ltbb -o modified
cat > compare.py <<'END'
import subprocess

import numpy as np
import stanli
from scipy import integrate, stats

rates = [2.0, 8.0, 9.0, 12.0]
printed = subprocess.run(["./modified", *map(repr, rates)], capture_output=True, text=True, check=True).stdout
off = {}
for rate, line in zip(rates, printed.splitlines()):
    value, slope, density = map(float, line.split())
    there = stats.exponnorm(1 / rate)
    exact = there.logcdf(0)
    by_area = np.log(integrate.quad(there.pdf, -12, 0, epsabs=1e-13)[0])
    model = stanli.bridgestan_model(
        stan_code=f"parameters {{ real m; }} model {{ target += exp_mod_normal_lcdf(0 | m, 1, {rate}); }}")
    ours = model.log_density(np.zeros(1))
    off[rate] = value - exact
    print(f"rate {rate:4.0f}: scipy {exact:.6f}, area of the density {by_area:.6f}, Stan {value:.6f}, "
          f"stanli {ours:.6f}, normal {np.log(0.5):.6f}; derivative {slope:.6f}")
    assert abs(by_area - exact) < 1e-9 and abs(density - there.logpdf(0)) < 1e-9
    assert abs(ours - value) < 1e-12
    if rate > 8.3:
        assert abs(value - np.log(0.5)) < 1e-12 and abs(slope) < 1e-6
        assert -there.pdf(0) / there.cdf(0) < -0.7
assert abs(off[2.0]) < 1e-9 and abs(off[8.0]) < 0.01
assert 0.03 < off[12.0] < off[9.0] < 0.12
END
venv/bin/python compare.py
