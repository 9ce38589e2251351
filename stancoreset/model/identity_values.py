"""What the identities of a weighted program compare: densities on small slices of the data.

Rows and weights are drawn at random, points where the density is finite; see
`stancoreset.model.identities` for what must hold, `identity_errors` for how far it does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines import (
    BoundModel,
    Compiled,
    CompiledWithControl,
    Density,
    Engine,
    Float,
    controlled_for,
)
from stancoreset.errors import IdentityError
from stancoreset.stan import WeightedProgram

__all__ = ["BoundTwice", "Setting", "Values", "evaluate", "random_points"]

_ROWS = 25  # a slice; with repeated rows at most twice as many
_TRIES = 8  # candidate points for each point wanted: some may have no density
_RADII = (2.0, 1.0, 0.5, 0.1)  # Stan starts its chains in (−2, 2); smaller ones are safer


@dataclass(frozen=True)
class Setting:
    """Slices of the data and weights for them."""

    rows_a: dict[str, Any]  # k rows of weight one
    rows_b: dict[str, Any]  # other rows, of another number
    part: NDArray[np.intp]  # some of A's rows, in another order
    part_a: dict[str, Any]
    random: Float  # weights with zeros
    bumped: Float  # the same with one weight larger by one
    which: int
    counts: NDArray[np.int64]  # whole weights 0, 1, 2
    repeated: dict[str, Any]  # A's rows repeated that often
    weighted: WeightedProgram

    @classmethod
    def choose(
        cls, weighted: WeightedProgram, data: Mapping[str, Any], rng: np.random.Generator
    ) -> Setting:
        n_obs = weighted.n_obs(data)
        k = min(n_obs, _ROWS)
        order = rng.permutation(n_obs) if n_obs < 10_000 else rng.choice(n_obs, 2 * _ROWS, False)
        a = np.sort(order[:k])
        rest = order[k:] if n_obs > k else order
        b = rng.choice(rest, size=k // 2 + 2, replace=len(rest) < k // 2 + 2)
        part = rng.permutation(k)[: k // 2 + 1]
        random = rng.gamma(1.0, 2.0, k) * (rng.random(k) < 0.7)
        which = int(rng.integers(k))
        counts = rng.integers(0, 3, k)
        counts[which] = 2
        return cls(
            rows_a=weighted.subset(data, a),
            rows_b=weighted.subset(data, b),
            part=part,
            part_a=weighted.subset(data, a[part]),
            random=random,
            bumped=random + (np.arange(k) == which),
            which=which,
            counts=counts,
            repeated=weighted.subset(data, np.repeat(a, counts)),
            weighted=weighted,
        )

    def a(self, weights: Any) -> dict[str, Any]:
        return self.weighted.with_weights(self.rows_a, weights)


class BoundTwice:
    """The weighted program with and without its rows' log likelihoods, as fits use it.

    It is bound to small data on demand, and closed at the end.
    """

    def __init__(self, weighted: WeightedProgram, engine: Engine) -> None:
        controlled, name = controlled_for(weighted, engine), weighted.program.name
        compiled = engine.compile(controlled.code, name=name, log_lik=weighted.log_lik)
        self._density = CompiledWithControl(compiled, controlled)
        self._complete = CompiledWithControl(compiled, controlled, log_lik=True)
        self._open: list[BoundModel] = []

    def bind(self, compiled: Compiled, data: Mapping[str, Any]) -> BoundModel:
        model = compiled.bind(data)
        self._open.append(model)
        return model

    def density(self, data: Mapping[str, Any]) -> BoundModel:
        return self.bind(self._density, data)

    def briefly(self, data: Mapping[str, Any]) -> Density:
        """The density on data that need not stay; close it."""
        return self._density.bind_density(data)

    def complete(self, data: Mapping[str, Any]) -> BoundModel:
        return self.bind(self._complete, data)

    def __enter__(self) -> BoundTwice:
        return self

    def __exit__(self, *_: object) -> None:
        for model in self._open:
            model.close()


def random_points(model: BoundModel, number: int, rng: np.random.Generator) -> Float:
    """Random unconstrained parameters at which the density is finite."""
    tries = number * _TRIES
    radius = np.resize(_RADII, tries)[:, None]
    thetas = rng.uniform(-1.0, 1.0, size=(tries, model.n_params)) * radius
    finite = thetas[np.isfinite(model.log_density(thetas))]
    if len(finite) < 2:
        raise IdentityError(
            f"the log density is finite at {len(finite)} of {tries} random points, so the "
            "program's weights cannot be checked; check the data, and declare the parameters' "
            "bounds, so that every value within them has a density"
        )
    return finite[:number]


@dataclass(frozen=True)
class Values:
    """Log densities (S,) and per-row log likelihoods (S, rows) at the same points."""

    zero_a: Float
    zero_b: Float
    one: Float
    random: Float
    bumped: Float
    counted: Float
    repeated: Float
    log_lik: Float
    log_lik_weighted: Float
    log_lik_part: Float


def evaluate(setting: Setting, bound: BoundTwice, thetas: Float) -> Values:
    k = len(setting.random)
    zero_b = setting.weighted.with_weights(
        setting.rows_b, np.zeros(setting.weighted.n_obs(setting.rows_b))
    )

    def lp(data: Mapping[str, Any]) -> Float:
        return np.asarray(bound.density(data).log_density(thetas))

    def rows(data: Mapping[str, Any]) -> Float:
        return np.asarray(bound.complete(data).log_lik(thetas))

    return Values(
        zero_a=lp(setting.a(np.zeros(k))),
        zero_b=lp(zero_b),
        one=lp(setting.rows_a),
        random=lp(setting.a(setting.random)),
        bumped=lp(setting.a(setting.bumped)),
        counted=lp(setting.a(setting.counts)),
        repeated=lp(setting.repeated),
        log_lik=rows(setting.rows_a),
        log_lik_weighted=rows(setting.a(setting.random)),
        log_lik_part=rows(setting.part_a),
    )
