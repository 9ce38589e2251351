#!/bin/sh
# The derivative of a negative binomial by log phi is 440 where its density is flat: it should be 0.
#
# Versions: stanli 0.24.0; Stan math of Stan 2.35 (httpstan 4.13.0, Python 3.11) and 2.39 (4.17.0, from
#   Python 3.12 on); numpy 2.4.6. It needs a C++ compiler, for a minute.
# Guess: neg_binomial_2_log becomes Poisson as phi grows. Its value is computed with care for that (no
#   difference of log gammas), so its derivative by log phi falls to zero like 1 / phi.
# What happens: The value of 1,000 counts is flat to 8 digits from phi = 1e9 on. The derivative by
#   log phi is phi times a difference of digammas of phi, whose rounding phi multiplies: it should be
#   below 1e-5 and is 0.006 at e^22, 1.8 at e^28, 440 at e^33 and -2,000 at e^38, in stanli as in
#   Stan math.
# Why it matters: Counts without overdispersion leave phi to its prior, and the one that brms gives it,
#   inv_gamma(0.4, 0.3), then has one percent of its mass beyond e^18 and a tenth of that beyond e^24:
#   NUTS and climbs to a mode meet this force. A density written by log gammas loses its values as
#   well; stancoreset writes it by a beta function.
set -eu
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
"${PYTHON:-python3}" -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check stanli==0.24.0 bridgestan==2.9.0 numpy==2.4.6
venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
    "httpstan==4.13.0; python_version < '3.12'" "httpstan==4.17.0; python_version >= '3.12'"
home=$(venv/bin/python -c 'import importlib.util as u; print(u.find_spec("httpstan").submodule_search_locations[0])')
cat > gradient.cpp <<'END'
#include <stan/math.hpp>
#include <cstdio>
#include <cstdlib>
#include <vector>
int main(int count, char** given) {
  std::vector<int> y;
  for (int i = 0; i < 1000; ++i) y.push_back(i % 5);
  for (int i = 1; i < count; ++i) {
    stan::math::var log_phi = std::atof(given[i]);
    stan::math::var value = stan::math::neg_binomial_2_log_lpmf(y, 0.7, stan::math::exp(log_phi));
    value.grad();
    std::printf("%.17g %.17g\n", value.val(), log_phi.adj());
    stan::math::recover_memory();
  }
}
END
"${CXX:-g++}" -std=c++17 -O0 -w -pthread -D_REENTRANT -isystem "$home/include" gradient.cpp \
    -L"$home/lib" -Wl,-rpath,"$home/lib" -ltbb -o gradient
cat > compare.py <<'END'
import subprocess

import numpy as np
import stanli

code = """data { array[1000] int y; } parameters { real log_phi; }
model { target += neg_binomial_2_log_lpmf(y | 0.7, exp(log_phi)); }"""
y, mean = np.arange(1000) % 5, np.exp(0.7)
places = np.array([5.0, 10, 18, 22, 28, 33, 38])
printed = subprocess.run(["./gradient", *map(str, places)], capture_output=True, text=True, check=True).stdout
genuine = np.array([line.split() for line in printed.splitlines()], dtype=float)
model = stanli.bridgestan_model(stan_code=code, data={"y": y.tolist()})
value, slope = model.log_density_gradient, {}
poisson = float(np.sum(y * 0.7 - mean - np.array([0, 0, np.log(2), np.log(6), np.log(24)])[y]))
for place, (theirs, force) in zip(places, genuine):
    phi = np.exp(place)
    ours, (gradient,) = value(np.array([place]))
    # A count's derivative is O(1 / phi): all 1,000 are below this.
    most = 1000 * (4 + mean) ** 2 / phi
    slope[place] = force, gradient
    print(f"log phi {place:2.0f}: value less Poisson's {theirs - poisson:+.1e} (Stan), {ours - poisson:+.1e} "
          f"(stanli); derivative {force:+.2g} (Stan), {gradient:+.2g} (stanli), truly below {most:.1g}")
    if place <= 10:
        assert max(abs(force), abs(gradient)) < most + 1e-6
    if place >= 22:
        assert max(abs(theirs - poisson), abs(ours - poisson)) < 1e-4
for place, least in ((22.0, 1e-3), (28.0, 0.3), (33.0, 30.0), (38.0, 300.0)):
    assert min(map(abs, slope[place])) > least
END
venv/bin/python compare.py
