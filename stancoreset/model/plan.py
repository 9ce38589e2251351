"""What a fit is asked for, and whether it can be done."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np

from stancoreset.checks import (
    check_choice,
    check_flag,
    check_labels,
    check_path,
    check_seed,
    check_text,
    check_whole,
    shown,
)
from stancoreset.engines import (
    NUTS,
    Float,
    RowModel,
    check_inits,
    fresh_seed,
    recorded_inits,
    refuse,
)
from stancoreset.errors import OptionError, SolverError
from stancoreset.model.in_the_loop import check_options
from stancoreset.model.refinement import MAX_ROUNDS
from stancoreset.model.sizes import AUTO
from stancoreset.posterior import LEAST_DRAWS
from stancoreset.posterior.arviz import variables_of
from stancoreset.reference import Reference, check_reference
from stancoreset.rows import FullData
from stancoreset.selection import Projection, extend, extend_fisher, project, project_fisher
from stancoreset.selection.in_the_loop import METHODS as IN_THE_LOOP
from stancoreset.selection.solvers import check_method
from stancoreset.spelling import near_misses

__all__ = [
    "HELDOUT_DRAWS",
    "PROJECTIONS",
    "TAYLOR",
    "Plan",
    "check_projection",
    "own_options",
    "reference_name",
]

HELDOUT_DRAWS = 200


def _extend_loglik(
    projection: Projection,
    full: FullData,
    pool: RowModel,
    _reference: Reference,
    draws: Float,
    tick: Callable[[int], object],
) -> Projection:
    return extend(projection, full, pool, draws, tick)


#: Kinds of projection: how one is made, and how draws are added to it.
PROJECTIONS: dict[str, tuple[Callable[..., Projection], Callable[..., Projection]]] = {
    "loglik": (project, _extend_loglik),
    "fisher": (project_fisher, extend_fisher),
}


#: The projection beyond second order, which needs the control variate; see `taylor`.
TAYLOR = "taylor"


def check_projection(projection: str | None) -> None:
    """Raise unless there is such a projection; None leaves the choice to the fit.

    Raises
    ------
    OptionError
    """
    if projection is not None:
        check_choice("projection", projection, (*PROJECTIONS, TAYLOR))


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a fit was asked for: the parameters of `CoresetModel.fit`.

    Attributes
    ----------
    nuts : NUTS
        How NUTS is run.
    options : mapping
        What the selection algorithm takes.
    """

    size: int | str
    method: str = "pursuit"
    reference: Any = "laplace"
    projection: str | None = None
    control_variate: bool = True
    refine: bool = False
    max_rounds: int = MAX_ROUNDS
    draws: int | None = None
    candidates: int | None = None
    seed: int = 0
    nuts: NUTS = field(default_factory=NUTS)
    inits: Any = None
    engine_output_dir: str | Path | None = None
    coords: Mapping[str, Sequence[Any]] | None = None
    dims: Mapping[str, Sequence[str]] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, options: Mapping[str, Any], *, seed: int | None, **arguments: Any) -> Plan:
        """From options by name, NUTS' and the selection algorithm's among each other.

        Parameters
        ----------
        options : mapping
        seed : int or None
            None: any.
        **arguments
            All else.

        Raises
        ------
        OptionError
            An option of NUTS that is out of range, or that makes no sense here.
        """
        own = own_options(arguments["method"])
        known = NUTS.names()
        nuts = {n: v for n, v in options.items() if n in known and (n not in own or v is None)}
        return cls(
            nuts=NUTS.of(nuts),
            options={n: v for n, v in options.items() if n not in nuts},
            seed=fresh_seed() if seed is None else seed,
            **arguments,
        )

    @property
    def labels(self) -> dict[str, Any]:
        """Names for the dimensions of parameters."""
        return {"coords": self.coords, "dims": self.dims}

    def settings(self) -> dict[str, Any]:
        """What decides the result, as plain values."""
        return {
            "size": self.size,
            "method": self.method,
            "reference": reference_name(self.reference),
            **self._own_draws(),
            "projection": self.projection,
            "draws": self.draws,
            "candidates": self.candidates,
            "control_variate": self.control_variate,
            "refine": self.refine,
            "seed": self.seed,
            **self.nuts.settings(),
            **({} if self.inits is None else {"inits": recorded_inits(self.inits)}),
            **self.options,
        }

    def _own_draws(self) -> dict[str, str]:
        """A hash of the user's draws, by which a run that goes on knows them again."""
        if isinstance(self.reference, str):
            return {}
        draws = self.reference
        arrays = {"": draws} if isinstance(draws, np.ndarray) else variables_of(draws)
        digest = hashlib.blake2b(digest_size=16)
        for name, values in sorted(arrays.items()):
            digest.update(f"{name}:{values.shape};".encode())
            digest.update(np.ascontiguousarray(values, dtype=np.float64).data)
        return {"reference_draws": digest.hexdigest()}

    def require(self, n_obs: int) -> None:
        """Refuse what cannot be done before anything is computed.

        Raises
        ------
        OptionError, SolverError
        """
        self._require_numbers()
        auto = isinstance(self.size, str) and self.size == AUTO
        if not auto and not (_is_whole(self.size) and 1 <= int(self.size) <= n_obs):
            raise OptionError(
                f"size is {shown(self.size)}, expected a whole number from 1 to {n_obs}, the rows "
                f"of the data, or {AUTO!r}"
            )
        check_text("method", self.method, "the name of a selection algorithm")
        if auto and self.method in IN_THE_LOOP:
            raise OptionError(
                f"size is {AUTO!r}, but method {self.method!r} uses no projection on which a size "
                "could be found; give a number"
            )
        check_reference(self.reference)
        check_projection(self.projection)
        if self.projection == TAYLOR and not self.control_variate:
            raise OptionError(
                f"projection is {TAYLOR!r}, which leaves the second order to the control variate, "
                "but control_variate is False; use projection='loglik'"
            )
        if self.method == "auto":
            if not self.control_variate or self.projection not in (None, TAYLOR) or self.options:
                raise OptionError(
                    "method is 'auto', which chooses by the error of the corrected density: it "
                    "needs control_variate=True, no projection= and no options of a method"
                )
            return
        self._require_options()
        if self.method in IN_THE_LOOP and self.projection is not None:
            raise OptionError(
                f"projection is {self.projection!r}, but method {self.method!r} draws from the "
                "coreset's own posterior and uses no projection; leave projection out"
            )

    def _require_options(self) -> None:
        """Refuse what the method does not know: it may be a misspelt argument of `fit`."""
        try:
            if self.method in IN_THE_LOOP:
                check_options(self.method, self.options)
            else:
                check_method(self.method, self.options, others=("auto", *IN_THE_LOOP))
        except SolverError as error:
            for name in self.options:
                refuse(name)
            arguments = [f.name for f in fields(Plan) if f.name not in ("options", "nuts")]
            arguments += NUTS.names()
            meant = {name: near_misses(name, arguments) for name in self.options}
            for name, close in meant.items():
                if close:
                    raise SolverError(
                        f"{error} (did you mean {close[0]!r} by {name!r}, an argument of fit?)"
                    ) from None
            raise

    def _require_numbers(self) -> None:
        """Refuse numbers out of range, and a word where True or False is expected."""
        check_seed(self.seed)
        check_inits(self.inits, self.nuts.chains)
        if self.nuts.chains * self.nuts.draws < LEAST_DRAWS:
            thinned = f" and thin {self.nuts.thin}" if self.nuts.thin > 1 else ""
            raise OptionError(
                f"iter_sampling is {self.nuts.iter_sampling}{thinned}, which gives "
                f"{self.nuts.chains} chains {self.nuts.chains * self.nuts.draws} draws: a "
                f"certificate needs at least {LEAST_DRAWS}"
            )
        check_whole("max_rounds", self.max_rounds, 1)
        if self.draws is not None:
            check_whole("draws", self.draws, 2)
        if self.candidates is not None:
            check_whole("candidates", self.candidates, 1)
        check_flag("control_variate", self.control_variate)
        check_labels(self.coords, self.dims)
        if self.engine_output_dir is not None:
            check_path("engine_output_dir", self.engine_output_dir)


def own_options(method: Any) -> Mapping[str, Any]:
    """Options of a method in the loop, one of which (step_size) NUTS has, too."""
    if not isinstance(method, str) or method not in IN_THE_LOOP:
        return {}
    return inspect.signature(IN_THE_LOOP[method]).parameters


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def reference_name(reference: Any) -> str:
    """The reference's name, or ``"draws"`` for a user's own."""
    return reference if isinstance(reference, str) else "draws"
