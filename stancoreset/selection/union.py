"""The union of coresets: combined rows, weights, quadratics and errors of several parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from stancoreset.checks import coreset_of, understood
from stancoreset.engines import Float
from stancoreset.errors import OptionError
from stancoreset.selection.control_variates import ControlVariate, sum_of_controls
from stancoreset.selection.coreset import Coreset


class _Fit(Protocol):
    """A fit, which has a coreset."""

    @property
    def coreset(self) -> Coreset: ...


def merge(coresets: Sequence[Coreset | _Fit]) -> Coreset:
    """Join the coresets of several parts into one for the parts' concatenated data.

    Parameters
    ----------
    coresets : sequence of Coreset or CoresetFit
        One per part, in the order of the parts, selected with the same Stan program.

    Returns
    -------
    Coreset
        ``indices`` count from the first row of the first part; weights are kept; control
        variates are added. Its errors are the bound (1) of `stancoreset.fit.merging.reduce` in
        units of the smallest ‖L_i‖: Σ_i ε_i if all ‖L_i‖ are equal, which they approach with more
        data (each L_i tends to half a χ² variable with D degrees of freedom: ‖L_i‖ → √(D/2)). To
        reduce the union to fewer rows, and to certify it, use `CoresetModel.merge`.

    Raises
    ------
    OptionError
        If there are no coresets, or they belong to different programs.

    Examples
    --------
    >>> a = Coreset(np.array([1, 4]), np.array([2.0, 3.0]), 5, "pursuit", 0.01, 0.02)
    >>> b = Coreset(np.array([0]), np.array([4.0]), 4, "pursuit", 0.01, 0.03)
    >>> both = merge([a, b])
    >>> both.indices.tolist(), both.n_obs, round(both.heldout_error, 3)
    ([1, 4, 5], 9, 0.05)
    """
    if isinstance(coresets, Coreset):
        raise OptionError(
            "coresets is a single Coreset, expected a list: sc.merge([first, second])"
        )
    with understood("coresets", coresets, "a list of Coreset to merge"):
        given: list[Any] = list(coresets)
        found: list[Coreset] = [coreset_of(part) for part in given]
    _require_alike(found)
    return _joined(found)


def _joined(coresets: Sequence[Coreset]) -> Coreset:
    starts = np.cumsum([0, *(c.n_obs for c in coresets)])
    parts = zip(coresets, starts, strict=False)
    norms = _norms(coresets)
    unit = float(norms.min())
    return replace(
        coresets[0],
        indices=np.concatenate([c.indices + start for c, start in parts]),
        weights=np.concatenate([c.weights for c in coresets]),
        n_obs=int(starts[-1]),
        method="merge" if len(coresets) > 1 else coresets[0].method,
        relative_error=float(norms @ [c.relative_error for c in coresets]) / unit,
        heldout_error=float(norms @ [c.heldout_error for c in coresets]) / unit,
        norm=unit if all(c.norm is not None for c in coresets) else None,
        trace=coresets[0].trace if len(coresets) == 1 else (),
        provenance=_provenance(coresets),
        columns=_columns(coresets),
        # Each part's is about its own posterior.
        information=coresets[0].information if len(coresets) == 1 else None,
        control=joined_controls([(c.control, c.n_obs) for c in coresets]),
    )


def _columns(coresets: Sequence[Coreset]) -> dict[str, NDArray[Any]]:
    """The rows' data that all coresets carry."""
    return {
        name: np.concatenate([c.columns[name] for c in coresets])
        for name in coresets[0].columns
        if all(name in c.columns for c in coresets)
    }


def _require_alike(coresets: Sequence[Coreset]) -> None:
    if not coresets:
        raise OptionError("there is nothing to merge: give at least one coreset")
    for number, coreset in enumerate(coresets, 1):
        if not isinstance(coreset, Coreset):
            raise OptionError(f"part {number} is a {type(coreset).__name__}, expected a Coreset")
        first = coresets[0]
        for what, one, two in (
            ("observations", first.obs, coreset.obs),
            ("rows", dict(first.rows), dict(coreset.rows)),
            ("program", *(c.provenance.get("program_hash") for c in (first, coreset))),
        ):
            if one != two and one is not None and two is not None:
                names = [c.provenance.get("program", "unknown") for c in (first, coreset)]
                raise OptionError(
                    f"parts 1 and {number} come from different programs ({names[0]!r} and "
                    f"{names[1]!r}): {what} differ ({one} and {two}); fit all parts with one"
                )


def _provenance(coresets: Sequence[Coreset]) -> dict[str, Any]:
    """The provenance that all parts have in common, with their number and rows."""
    first = dict(coresets[0].provenance)
    if len(coresets) == 1:
        return first
    same = {
        key: value
        for key, value in first.items()
        if all(c.provenance.get(key) == value for c in coresets)
    }
    return {**same, "parts": len(coresets), "n_obs": sum(c.n_obs for c in coresets)}


def _norms(coresets: Sequence[Coreset]) -> Float:
    """‖L_i‖ of each part; an unknown one takes that of the others, or one."""
    known = [c.norm for c in coresets if c.norm is not None]
    usual = float(np.median(known)) if known else 1.0
    return np.array([usual if c.norm is None else c.norm for c in coresets])


def joined_controls(
    controls: Sequence[tuple[ControlVariate | None, float]],
) -> ControlVariate | None:
    """Σ q_i around the weighted mean of the centres, exact up to a constant."""
    present = [(control, weight) for control, weight in controls if control is not None]
    if not present:
        return None
    first = present[0][0]
    for control, _ in present[1:]:
        if control.param_names != first.param_names:
            raise OptionError(
                f"the control variates of the parts belong to different parameters: "
                f"{len(first.param_names)} coordinates and {len(control.param_names)}; fit all "
                "parts with one program and the same groups"
            )
    if len(present) == 1:
        return first
    weights = np.array([weight for _, weight in present], dtype=np.float64)
    centres = np.array([control.centre for control, _ in present])
    centre = weights @ centres / weights.sum()
    return sum_of_controls([control for control, _ in present], centre)
