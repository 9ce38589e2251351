"""Data as brms hands them to Stan: designs with an intercept, groups, splines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["codes", "correlated", "groups", "population", "spline", "standardised"]

Data = dict[str, Any]


def standardised(values: ArrayLike) -> NDArray[np.float64]:
    """The values, less their mean, in standard deviations."""
    x = np.asarray(values, dtype=np.float64)
    return (x - x.mean(axis=0)) / x.std(axis=0)


def codes(names: ArrayLike) -> NDArray[np.int64]:
    """Names as 1, 2, … in sorted order."""
    return np.unique(np.asarray(names), return_inverse=True)[1].astype(np.int64) + 1


def population(
    outcome: ArrayLike,
    columns: Mapping[str, ArrayLike],
    *,
    intercept: bool = True,
    suffix: str = "",
) -> Data:
    """``N``, ``Y`` and the population-level design ``X``, ``K``, ``Kc``.

    Parameters
    ----------
    outcome : array (N,)
    columns : mapping of str to array (N,)
        The predictors, by names that only a reader needs.
    intercept : bool
        Whether the first column is one; ordinal programs have thresholds instead.
    suffix : str
        Of the names, ``"_phi"`` for example; then ``N``, ``Y`` and ``prior_only`` are left out.
    """
    y = np.asarray(outcome)
    x = [np.asarray(column, dtype=np.float64) for column in columns.values()]
    design = np.column_stack([np.ones(len(y)), *x] if intercept else x)
    data = {
        f"X{suffix}": design,
        f"K{suffix}": design.shape[1],
        f"Kc{suffix}": len(columns),
    }
    return data if suffix else {"N": len(y), "Y": y, "prior_only": 0, **data}


def groups(number: int, names: ArrayLike) -> Data:
    """Group effects ``(1 | g)`` with this ID: ``J_1``, ``N_1``, ``M_1``, ``Z_1_1``."""
    index = codes(names)
    return {
        f"N_{number}": int(index.max()),
        f"M_{number}": 1,
        f"J_{number}": index,
        f"Z_{number}_1": np.ones(len(index)),
    }


def correlated(number: int, names: ArrayLike, slope: ArrayLike) -> Data:
    """Group effects ``(1 + x | g)`` with this ID, with their correlation."""
    both = {f"M_{number}": 2, f"NC_{number}": 1, f"Z_{number}_2": np.asarray(slope, dtype=float)}
    return {**groups(number, names), **both}


def spline(values: ArrayLike, knots: int = 8) -> Data:
    """A smooth term ``s(x)`` of the first ID: a thin-plate spline of low rank.

    The linear part has no penalty (``Xs``). The basis of the rest is |x − κ|³ Ω^(−½), with knots
    κ at quantiles and Ω = |κ − κ'|³, which makes the penalty a standard normal prior, as mgcv's
    reparametrisation does for brms; it is scaled to a standard deviation of about one.
    """
    x = standardised(values)
    places = np.quantile(np.unique(x), np.linspace(0, 1, knots + 2)[1:-1])
    u, s, vt = np.linalg.svd(np.abs(places[:, None] - places) ** 3)
    basis = np.abs(x[:, None] - places) ** 3 @ (vt.T / np.sqrt(s)) @ u.T
    linear = np.column_stack([np.ones(len(x)), x])
    basis -= linear @ np.linalg.lstsq(linear, basis, rcond=None)[0]
    return {
        "Ks": 1,
        "Xs": x[:, None],
        "nb_1": 1,
        "knots_1": [knots],
        "Zs_1_1": basis / basis.std(),
    }
