"""The models of the study: unmodified Stan programs, and data drawn for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pairs import simulated
from pairs.cases import HERE as WRITTEN_BY_BRMS

__all__ = ["MODELS", "Model"]

PROGRAMS = Path(__file__).parent / "programs"
Data = dict[str, Any]
Generator = np.random.Generator


@dataclass(frozen=True)
class Model:
    """A program with a data set.

    Attributes
    ----------
    name : str
    program : str
        A file of `folder`.
    generate : callable
        Generator → data.
    seed : int
        Of the data.
    adapt_delta : float
        Of every run, full data and coreset.
    folder : path
    """

    name: str
    program: str
    generate: Callable[[Generator], Data]
    seed: int = 1
    adapt_delta: float = 0.8
    folder: Path = PROGRAMS

    @property
    def file(self) -> Path:
        return self.folder / f"{self.program}.stan"

    @property
    def code(self) -> str:
        return self.file.read_text()

    def data(self) -> Data:
        """Rounded, so that the last bits of another machine's arithmetic do not show."""
        drawn = self.generate(np.random.default_rng(self.seed))
        return {k: np.round(v, 6) if np.ndim(v) else v for k, v in drawn.items()}


def _inverse_logit(eta: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-eta))


def _design(rng: Generator, n: int, d: int) -> np.ndarray:
    """Correlated columns, as in most data."""
    return rng.normal(size=(n, d)) + 0.5 * rng.normal(size=(n, 1))


def _gaussian(rng: Generator) -> Data:
    X = _design(rng, 1_000, 4)
    y = 1 + X @ [0.5, -0.5, 0.2, 0.0] + 0.7 * rng.normal(size=1_000)
    return {"N": 1_000, "D": 4, "X": X, "y": y}


def _binary(rng: Generator, X: np.ndarray, eta: np.ndarray) -> Data:
    y = (rng.random(len(X)) < _inverse_logit(eta)).astype(int)
    return {"N": len(X), "D": X.shape[1], "X": X, "y": y}


def _logistic(rng: Generator) -> Data:
    X = _design(rng, 2_000, 5)
    return _binary(rng, X, -0.5 + X @ [0.8, -0.8, 0.4, 0.2, 0.0])


def _near_separable(rng: Generator) -> Data:
    """A handful of rows on the wrong side: long tails away from zero."""
    X = rng.normal(size=(500, 2))
    return _binary(rng, X, 14 * X @ [1.0, 0.6] + 3)


def _rare_events(rng: Generator) -> Data:
    """One row in a thousand is a one."""
    X = rng.normal(size=(20_000, 2))
    return _binary(rng, X, -7.4 + X @ [0.8, 0.4])


def _poisson(rng: Generator) -> Data:
    X = _design(rng, 1_500, 4)
    return {"N": 1_500, "D": 4, "X": X, "y": rng.poisson(np.exp(0.3 + X @ [0.3, -0.2, 0.1, 0]))}


def _overdispersed(rng: Generator, mean: np.ndarray, phi: float) -> np.ndarray:
    return rng.poisson(mean * rng.gamma(phi, 1 / phi, size=len(mean)))


def _negative_binomial(rng: Generator) -> Data:
    X = _design(rng, 1_500, 4)
    mean = np.exp(1 + X @ [0.3, -0.2, 0.1, 0])
    return {"N": 1_500, "D": 4, "X": X, "y": _overdispersed(rng, mean, 1.5)}


def _misspecified(rng: Generator) -> Data:
    """Poisson regression of counts that are far from Poisson, with a bent mean."""
    X = _design(rng, 1_500, 3)
    mean = np.exp(0.5 + X @ [0.4, -0.3, 0.1] + 0.3 * X[:, 0] ** 2 / 2)
    return {"N": 1_500, "D": 3, "X": X, "y": _overdispersed(rng, mean, 0.4)}


def _robust(rng: Generator) -> Data:
    X = _design(rng, 1_000, 3)
    y = 1 + X @ [0.5, -0.5, 0.2] + 0.6 * rng.standard_t(4, size=1_000)
    return {"N": 1_000, "D": 3, "X": X, "y": y}


def _heavy_tailed(rng: Generator) -> Data:
    """Cauchy errors, and predictors whose variance is infinite."""
    X = rng.standard_t(1.8, size=(1_000, 3))
    y = 1 + X @ [0.5, -0.5, 0.2] + rng.standard_cauchy(size=1_000)
    return {"N": 1_000, "D": 3, "X": X, "y": y}


def _groups(rng: Generator, n: int, groups: int, tau: float, even: float) -> Data:
    g = rng.choice(groups, size=n, p=rng.dirichlet(np.full(groups, even)))
    x = rng.normal(size=n)
    eta = -0.5 + tau * rng.normal(size=groups)[g] + 0.6 * x
    y = (rng.random(n) < _inverse_logit(eta)).astype(int)
    return {"N": n, "J": groups, "g": g + 1, "x": x, "y": y}


def _hierarchical_centred(rng: Generator) -> Data:
    return _groups(rng, 2_000, 20, 0.8, 5.0)


def _hierarchical_noncentred(rng: Generator) -> Data:
    """Little to tell the groups apart: tau may be zero."""
    return _groups(rng, 600, 10, 0.25, 1.0)


def _pairs(rng: Generator) -> Data:
    """Seven hundred groups of two rows each, or one: hardly more than their scale is known."""
    g = np.concatenate([np.arange(700), np.arange(350)])
    x = rng.normal(size=len(g))
    eta = -0.5 + rng.normal(size=700)[g] + 0.6 * x
    y = (rng.random(len(g)) < _inverse_logit(eta)).astype(int)
    return {"N": len(g), "J": 700, "g": g + 1, "x": x, "y": y}


def _mixture(rng: Generator) -> Data:
    second = rng.random(1_000) < 0.35
    return {"N": 1_000, "y": np.where(second, 1.6, -0.8) + rng.normal(size=1_000) * 0.8}


def _zero_inflated(rng: Generator) -> Data:
    x = rng.normal(size=1_500)
    counts = rng.poisson(np.exp(0.5 + 0.4 * x))
    return {"N": 1_500, "x": x, "y": np.where(rng.random(1_500) < 0.3, 0, counts)}


def _simulated(draw: Callable[..., Data], **sizes: int) -> Callable[[Generator], Data]:
    return lambda rng: draw(seed=rng, **sizes)


def _as_brms_writes(
    name: str, program: str, draw: Callable[..., Data], adapt_delta: float = 0.95, **sizes: int
) -> Model:
    """Non-centred group effects, and hundreds of rows in place of the benchmark's thousands."""
    generate = _simulated(draw, **sizes)
    return Model(f"brms_{name}", program, generate, adapt_delta=adapt_delta, folder=WRITTEN_BY_BRMS)


def _crossed(n: int, number: int, seed: Any) -> Data:
    """Six hundred groups, and 120 that they are crossed with."""
    return simulated.crossed_logistic(n=n, seed=seed, number=number, others=120)


def _of_many_groups(name: str, program: str, draw: Callable[..., Data], folder: Path) -> Model:
    """Six hundred groups of ten rows on average."""
    return Model(f"many_{name}", program, _simulated(draw, n=6_000, number=600), folder=folder)


MODELS: dict[str, Model] = {
    model.name: model
    for model in (
        Model("gaussian", "gaussian", _gaussian),
        Model("logistic", "logistic", _logistic),
        Model("near_separable", "logistic", _near_separable),
        Model("rare_events", "logistic", _rare_events),
        Model("poisson", "poisson", _poisson),
        Model("negative_binomial", "negative_binomial", _negative_binomial),
        Model("misspecified", "poisson", _misspecified),
        Model("robust", "robust", _robust),
        Model("heavy_tailed", "heavy_tailed", _heavy_tailed),
        Model("hierarchical_centred", "hierarchical_centred", _hierarchical_centred),
        Model(
            "hierarchical_noncentred",
            "hierarchical_noncentred",
            _hierarchical_noncentred,
            adapt_delta=0.95,
        ),
        Model("mixture", "mixture", _mixture),
        Model("zero_inflated", "zero_inflated", _zero_inflated),
        _as_brms_writes("crossed", "stops_crossed", simulated.crossed_logistic, n=2_000),
        _as_brms_writes("ordinal", "chem97_ordinal", simulated.ordinal_groups, n=1_200),
        _as_brms_writes("slopes", "star_slopes", simulated.gaussian_slopes, n=1_000, number=25),
        _as_brms_writes("counts", "murders_states", simulated.negative_binomial, n=1_000),
        _as_brms_writes("spline", "nlswork_student", simulated.student_spline, 0.99, n=1_200),
        _of_many_groups("centred", "hierarchical_centred", simulated.centred_logistic, PROGRAMS),
        _of_many_groups("counts", "murders_states", simulated.negative_binomial, WRITTEN_BY_BRMS),
        _of_many_groups("slopes", "star_slopes", simulated.gaussian_slopes, WRITTEN_BY_BRMS),
        _of_many_groups("ordinal", "chem97_ordinal", simulated.ordinal_groups, WRITTEN_BY_BRMS),
        _of_many_groups("crossed", "stops_crossed", _crossed, WRITTEN_BY_BRMS),
        Model("many_pairs", "hierarchical_noncentred", _pairs, adapt_delta=0.9),
    )
}
