"""Small random data for a Stan program, from its declarations and a header line.

A test program may begin with ``// data: {"N": 12, "y": "1..K"}``: sizes, values, or a Python
expression over what is declared before (with ``rng`` and ``np``) as a string.
"""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np

from stancoreset.stan.syntax import nodes, printer
from stancoreset.stan.syntax.parser import parse

_HEADER = re.compile(r"^// data: (\{.*\})$", re.MULTILINE)
_OBS = re.compile(r"^// obs: (\w+(?:, \w+)?)$", re.MULTILINE)


def obs_of(code: str) -> str | None:
    match = _OBS.search(code)
    return match[1] if match else None


def make_data(code: str, seed: int = 3) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    header = _HEADER.search(code)
    given = json.loads(header[1]) if header else {}
    data: dict[str, Any] = {}

    def number(e: nodes.Expr | None, default: float) -> Any:
        if e is None:
            return default
        text = printer.expression(e).replace("^", "**")
        text = re.sub(r"(\w+)\[(\d+)\]", r"\1[\2 - 1]", text)
        text = re.sub(r"^(.+) \? (.+) : (.+)$", r"(\2) if (\1) else (\3)", text)
        return eval(text, {"np": np}, data)

    for d in parse(code).data:
        if d.name in given:
            value = given[d.name]
            if isinstance(value, str):
                value = eval(value, {"np": np, "rng": rng}, data)
            elif isinstance(value, list):
                value = np.array(value)
            data[d.name] = value
            continue
        shape = tuple(int(number(s, 0)) for s in d.size.dims)
        low, high = d.constraint.lower, d.constraint.upper
        if d.type.base == "int":
            a = number(low, 0)
            b = number(high, np.asarray(a) + 3)
            value = rng.integers(a, np.asarray(b) + 1, shape)
        else:
            value = rng.normal(size=shape)
            if low is not None and high is not None:
                a, b = number(low, 0), number(high, 1)
                value = a + (b - a) * rng.uniform(0.05, 0.95, shape)
            elif low is not None:
                value = number(low, 0) + rng.exponential(1.0, shape) + 0.05
            elif high is not None:
                value = number(high, 0) - rng.exponential(1.0, shape) - 0.05
            if d.constraint.kind == "simplex":
                value = rng.dirichlet(np.ones(shape[-1]), shape[:-1])
        data[d.name] = value if shape else np.asarray(value).item()
    return data
