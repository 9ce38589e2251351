"""Smooth functions: penalised splines, random walks of coefficients, Hilbert basis functions."""

from __future__ import annotations

import numpy as np
from scipy.interpolate import BSpline

from ..case import case
from ..simulation import Float, Simulation
from .counts import Drawn, design_of_brms

KIND = "splines"


def basis_of(x: Float, number: int) -> Float:
    """Cubic B-splines on [0, 1], (rows, number)."""
    inner = np.linspace(0, 1, number - 2)
    knots = np.concatenate([np.zeros(3), inner, np.ones(3)])
    return BSpline.design_matrix(x, knots, 3).toarray()


@case(
    KIND,
    ("outlier", "small scale"),
    coefficient="b Intercept bs",
    effect="zs_1_1",
    scale="sds_1 sigma",
)
def spline_brms(s: Simulation) -> Drawn:
    n, knots = s.count(), 7
    truth = {
        "b": s.normal(size=1),
        "Intercept": s.normal(),
        "bs": s.normal(size=1),
        "zs_1_1": s.normal(size=knots),
        "sds_1": s.scale(s.half_student(5, 1, 1)),
        "sigma": s.exponential(1),
    }
    data, Xc = design_of_brms(s, n, 1)
    x = s.rng.random(n)
    # The penalised part: a basis free of lines, its columns of falling size.
    B = basis_of(x, knots + 2)
    lines = np.column_stack([np.ones(n), x])
    free = B - lines @ np.linalg.lstsq(lines, B, rcond=None)[0]
    left, _, _ = np.linalg.svd(free, full_matrices=False)
    left = np.pad(left, ((0, 0), (0, max(0, knots - left.shape[1]))))
    Zs = np.sqrt(n) * left[:, :knots] / (1 + np.arange(knots))
    Xs = (x - x.mean())[:, None]
    mean = truth["Intercept"] + Xc @ truth["b"] + Xs @ truth["bs"]
    mean += Zs @ (truth["sds_1"][0] * truth["zs_1_1"])
    y = s.outcome(mean + truth["sigma"] * s.normal(size=n), truth["sigma"])
    return truth, {**data, "Ks": 1, "Xs": Xs, "nb_1": 1, "knots_1": [knots], "Zs_1_1": Zs, "Y": y}


@case(
    KIND,
    ("small scale", "outlier"),
    effect="step",
    coefficient="trend first",
    scale="noise rough",
)
def spline_walk(s: Simulation) -> Drawn:
    n, number = s.count(), 12
    truth = {
        "trend": s.normal(),
        "first": s.normal(),
        "step": s.normal(size=number - 1),
        "rough": s.scale(s.half_normal()),
        "noise": s.gamma(4, 8),
    }
    x = s.rng.random(n)
    basis = basis_of(x, number)
    walk = truth["first"] + np.concatenate([[0], np.cumsum(truth["rough"] * truth["step"])])
    mean = truth["trend"] * x + basis @ walk
    y = s.outcome(mean + truth["noise"] * s.normal(size=n), truth["noise"])
    return truth, {"N": n, "n_basis": number, "basis": basis, "x": x, "y": y}


@case(
    KIND,
    ("separated", "small scale"),
    coefficient="c b_weekend",
    effect="beta",
    scale="alpha",
    shape="ell phi",
)
def spline_hilbert(s: Simulation) -> Drawn:
    n, number, boundary = s.count(), 12, 1.5
    truth = {
        "c": s.normal(1.5, 0.5),
        "b_weekend": s.normal(-0.3, 0.3),
        "beta": s.normal(size=number),
        "alpha": s.scale(s.half_normal(0.7)),
        "ell": 1 / s.gamma(6, 2),
        "phi": s.gamma(6, 2),
    }
    x, weekend = s.rng.uniform(-1, 1, n), s.flag(n, 0.3)
    w = np.arange(1, number + 1) * np.pi / (2 * boundary)
    phi = np.sin(np.outer(x + boundary, w)) / np.sqrt(boundary)
    density = np.sqrt(2 * np.pi) * truth["ell"] * np.exp(-0.5 * (truth["ell"] * w) ** 2)
    f = phi @ (truth["alpha"] * np.sqrt(density) * truth["beta"])
    mean = np.exp(truth["c"] + truth["b_weekend"] * weekend + f)
    return truth, {
        "N": n, "M": number, "L": boundary, "x": x, "weekend": weekend,
        "calls": s.negative_binomial(mean, truth["phi"]),
    }  # fmt: skip
