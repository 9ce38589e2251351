"""The numerical identities of a woven program, computed with the embedded engine.

With lp the log density (up to a constant) and w the weights:

1. lp_w(1) - lp_original is constant, and the gradients agree;
2. lp_w(0) + sum(log_lik) = lp_w(1);
3. lp_w(w) = lp_w(0) + sum(w * log_lik) for random w with zeros, gradients included: the
   derivative in the weights is log_lik, also by finite differences;
4. the program on sliced data with weights w equals the full program with the other weights zero;
5. log_lik on sliced data equals the slice of log_lik;
6. whole weights r_n are repetitions: the *original* program on data in which row n stands r_n
   times has the density of the woven one with weights r, up to a constant (where nothing is
   computed once from the full data, which repeating rows would change).
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import stanli

from stancoreset.stan.syntax import printer
from stancoreset.stan.syntax.source import StanProgram
from stancoreset.stan.weave import with_sizes_as_data
from stancoreset.stan.weave.weaving import Woven, weave

Data = dict[str, Any]


# A program is bound to seven data sets.
translated = functools.lru_cache(maxsize=8)(stanli.stan_to_mir)


def model(code: str, data: Mapping[str, Any]) -> Any:
    plain = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in data.items()}
    return stanli.bridgestan_model(mir=translated(code), data=json.dumps(plain))


def generated(m: Any, theta: np.ndarray, seed: int = 1) -> dict[str, np.ndarray]:
    """All variables by name, containers as arrays in Stan's (column-major) order."""
    names = m.param_names(include_tp=True, include_gq=True)
    values = m.param_constrain(theta, include_tp=True, include_gq=True, rng=m.new_rng(seed))
    parts: dict[str, list[tuple[tuple[int, ...], float]]] = {}
    for name, value in zip(names, values, strict=True):
        base, *index = name.split(".")
        parts.setdefault(base, []).append((tuple(int(i) - 1 for i in index), value))
    out = {}
    for base, entries in parts.items():
        shape = tuple(max(e[0][k] for e in entries) + 1 for k in range(len(entries[0][0])))
        array = np.empty(shape)
        for index, value in entries:
            array[index] = value
        out[base] = array
    return out


def frozen_data(code: str, woven: Woven, data: Data) -> Data:
    if not woven.frozen:
        return {}
    original = model(StanProgram.from_code(code).density_code + "\n" + woven.frozen_code, data)
    values = generated(original, points(original, 1, np.random.default_rng(0))[0])
    kinds = {d.name: d.type for d in woven.tree.data}
    out: Data = {}
    for name, output in woven.frozen.items():
        value = values.get(output, np.zeros(0))
        if kinds[name].base == "int":
            value = np.rint(value).astype(int)
        out[name] = value.item() if value.ndim == 0 else value
    return out


def cut(woven: Woven, data: Data, index: np.ndarray, weights: np.ndarray) -> Data:
    small = dict(data)
    for name, axis in woven.rows.items():
        value = np.asarray(data[name])
        small[name] = np.take(value, index, axis=axis) if value.size else value
    small[woven.obs] = len(index)
    small[woven.weights] = weights
    return small


def repetitions(woven: Woven, data: Data, counts: np.ndarray) -> Data:
    """Data of the original program in which row n stands counts[n] times."""
    rows = np.repeat(np.arange(len(counts)), counts)
    many = cut(woven, data, rows, np.zeros(0))
    many.update(dict.fromkeys(woven.shared, len(rows)))
    del many[woven.weights]
    return many


def points(m: Any, count: int, rng: np.random.Generator, scale: float = 0.6) -> list[np.ndarray]:
    found: list[np.ndarray] = []
    for k in range(60 * count):
        theta = rng.normal(scale=scale * 0.97**k, size=m.param_unc_num())
        try:
            lp, gradient = m.log_density_gradient(theta)
        except RuntimeError:
            continue
        if np.isfinite(lp) and np.isfinite(gradient).all():
            found.append(theta)
        if len(found) == count:
            return found
    raise AssertionError("no feasible point: the original program rejects everywhere")


def worst(a: Any, b: Any) -> float:
    """Largest error relative to the size of what is compared."""
    a, b = np.asarray(a, float), np.asarray(b, float)
    if a.size == 0:
        return 0.0
    return float(np.max(np.abs(a - b)) / (1.0 + np.max(np.abs(a)) + np.max(np.abs(b))))


def identities(
    code: str, data: Data, *, obs: str | None = None, count: int = 2, seed: int = 0,
    woven: Woven | None = None,
) -> dict[str, float]:  # fmt: skip
    """Worst relative error of each identity."""
    woven = weave(code, obs) if woven is None else woven
    rng = np.random.default_rng(seed)
    if woven.written:
        program = with_sizes_as_data(StanProgram.from_code(code).tree, woven.written)
        code, first = printer.program(program), next(iter(woven.rows.items()))
        data = {**data, woven.obs: np.shape(data[first[0]])[first[1]]}
    if woven.table is not None:
        code, data = printer.program(woven.table.program), woven.table.joined(data)
    for name, sizes in woven.counted.items():
        data = {**data, name: int(np.prod([data[size] for size in sizes]))}
    full = {**data, **frozen_data(code, woven, data)}
    size = int(data[woven.obs])
    every = np.arange(size)
    original = model(code, data)
    thetas = points(original, count, rng)

    random = np.where(rng.random(size) < 0.4, 0.0, rng.exponential(2.0, size))
    random[0], random[1], random[-1] = 0.8, 0.0, 1.7  # the first row may be special
    kept = np.flatnonzero(random)
    kept = kept[rng.permutation(len(kept))]
    ones = model(woven.code, cut(woven, full, every, np.ones(size)))
    zeros = model(woven.code, cut(woven, full, every, np.zeros(size)))
    mixed = model(woven.code, cut(woven, full, every, random))
    small = model(woven.code, cut(woven, full, kept, random[kept]))
    row = int(rng.integers(size))
    # lp is linear in the weights: a difference has no truncation error, however large the step
    nudged = model(woven.code, cut(woven, full, every, random + (every == row)))
    counts = np.resize([0, 2, 1], size)
    whole = model(woven.code, cut(woven, full, every, counts.astype(float)))
    repeated = None if woven.frozen else model(code, repetitions(woven, data, counts))
    offsets: list[float] = []
    shifts: list[float] = []
    # Differences of log densities are rounded as the largest of them, at any of the points.
    largest = 1.0
    errors = dict.fromkeys(
        (
            "original", "gradient", "additive", "weights", "derivative", "slice", "log_lik",
            "repeated",
        ),
        0.0,
    )  # fmt: skip

    def note(key: str, error: float) -> None:
        errors[key] = max(errors[key], error if np.isfinite(error) else np.inf)

    for theta in thetas:
        lp0, g0 = original.log_density_gradient(theta)
        lp1, g1 = ones.log_density_gradient(theta)
        lpz = zeros.log_density(theta)
        lpw, gw = mixed.log_density_gradient(theta)
        lps, gs = small.log_density_gradient(theta)
        ll = generated(ones, theta)[woven.log_lik]
        ll_small = generated(small, theta)[woven.log_lik]
        offsets.append(lp1 - lp0)
        largest = max(largest, *np.abs([lp0, lp1, lpz, lpw]))
        note("original", abs(offsets[-1] - offsets[0]) / largest)
        note("gradient", worst(g1, g0))
        note("additive", worst(lpz + ll.sum(), lp1))
        note("weights", worst(lpz + random @ ll, lpw))
        note("slice", max(worst(lps, lpw), worst(gs, gw)))
        note("log_lik", worst(ll_small, ll[kept]))
        if repeated is not None:
            lpr, gr = repeated.log_density_gradient(theta)
            lpc, gc = whole.log_density_gradient(theta)
            shifts.append(lpc - lpr)
            largest = max(largest, *np.abs([lpr, lpc]))
            note("repeated", abs(shifts[-1] - shifts[0]) / largest)
            note("repeated", worst(gc, gr))
        change = nudged.log_density(theta) - lpw
        note("derivative", abs(change - ll[row]) / max(1.0, abs(lpw), abs(lpw + change)))
    return errors


def outputs(woven: Woven) -> list[str]:
    """What generated quantities define, from the text."""
    block = woven.code.split("generated quantities {")[1]
    return re.findall(r"^  vector\[\w+\] (\w+)", block, re.MULTILINE)
