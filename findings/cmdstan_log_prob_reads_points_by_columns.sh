#!/bin/sh
# CmdStan's log_prob takes two points of five numbers apart along the wrong axis.
#
# Versions: CmdStan 2.37.0, as the executable inside the wheel of prophet 1.5.0.
# Guess: `params_r` as a list of two points is two points.
# What happens: The ten numbers are read one column after the other and dealt out in fives: the
#   first point becomes numbers 1, 6, 2, 7, 3. Each answer is a finite density and gradient of a
#   point that nobody asked for; there is no error. One point alone is right.
# Why it matters: Log densities of posterior draws are differences of which a certificate is
#   made. Ask for each point with its own call, or lay the numbers out for this reader (stan-
#   dev/cmdstan issue 1336).
set -eu
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
"${PYTHON:-python3}" -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check prophet==1.5.0 numpy==2.4.6
venv/bin/python - <<'END'
import json
import subprocess
from importlib.metadata import files

import numpy as np

program = next(f for f in files("prophet") if f.name == "prophet_model.bin").locate()
rng = np.random.default_rng(0)
rows = 20
data = {"T": rows, "K": 1, "t": np.linspace(0, 1, rows).tolist(), "cap": [1.0] * rows,
        "y": rng.normal(size=rows).tolist(), "S": 1, "t_change": [0.5],
        "X": rng.normal(size=(rows, 1)).tolist(), "sigmas": [1.0], "tau": 0.1,
        "trend_indicator": 0, "s_a": [1.0], "s_m": [0.0]}
with open("data.json", "w") as file:
    json.dump(data, file)


def log_prob(points):
    with open("points.json", "w") as file:
        json.dump({"params_r": np.asarray(points).tolist()}, file)
    subprocess.run([program, "log_prob", "unconstrained_params=points.json", "data", "file=data.json",
                    "output", "file=out.csv", "sig_figs=18"], check=True, stdout=subprocess.DEVNULL)
    with open("out.csv") as file:
        lines = [line for line in file if not line.startswith("#")]
    return np.array([float(line.split(",")[0]) for line in lines[1:]])


points = np.arange(10.0).reshape(2, 5) / 10
together = log_prob(points)
alone = np.array([log_prob(point)[0] for point in points])
dealt = points.T.reshape(2, 5)
print("together   ", together)
print("one by one ", alone)
print("it read    ", dealt.tolist())
assert np.isfinite(together).all()
assert abs(together - alone).min() > 1
assert np.array_equal(together, [log_prob(point)[0] for point in dealt])
END
