"""The options of a fit: one list of them, and the check that they can be used."""

from __future__ import annotations

import hashlib
import inspect
import sys
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import Field, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np

from stancoreset.checks import (
    check_is,
    check_labels,
    check_number,
    check_path,
    check_ranges,
    check_seed,
    check_text,
    check_whole,
    group,
    is_whole,
    near_misses,
    option,
    options_of,
    shown,
)
from stancoreset.engines import NUTS, check_inits, fresh_seed, recorded_inits, refuse
from stancoreset.errors import OptionError, SolverError
from stancoreset.fit.in_the_loop import check_options, needs_mode
from stancoreset.fit.refinement import MAX_ROUNDS
from stancoreset.fit.sizes import AUTO
from stancoreset.policy import Policy, policy_of
from stancoreset.posterior import LEAST_DRAWS
from stancoreset.posterior.arviz import variables_of
from stancoreset.reference import METHODS as REFERENCES
from stancoreset.reference import check_reference
from stancoreset.rows import Blocks
from stancoreset.selection import MAX_CANDIDATES, default_candidates
from stancoreset.selection.in_the_loop import METHODS as IN_THE_LOOP
from stancoreset.selection.in_the_loop import InTheLoopName
from stancoreset.selection.solvers import METHODS, SolverName, check_method
from stancoreset.stan import Labels

#: Default number of rows of a merged coreset.
MERGE_SIZE = 200


#: Projections of candidate rows that need no control variate.
PROJECTIONS = ("loglik", "fisher")
#: The projection beyond second order, which needs the control variate; see `taylor`.
TAYLOR = "taylor"
#: The projection beyond second order without draws, for generalised linear models; see `hermite`.
HERMITE = "hermite"
#: References that are Gaussians with a known density.
GAUSSIANS = ("laplace", "gaussian_vi", "double_loop")
#: References that only generalised linear models have: these are then recognised with few rows,
#: too.
NEEDS_GLM = ("double_loop",)
# Options that a fit by a Gaussian's draws does not use, and the options of NUTS and of the
# selection that it does.
_NOT_OF_A_GAUSSIAN = ("size", "inits", "engine_output_dir")
_OF_A_GAUSSIAN = ("chains", "iter_sampling", "thin", "draws", "show_console", "parallel_chains")
#: Projections that leave the second order to the control variate.
BEYOND = (TAYLOR, HERMITE)
#: Names of all projections, for type checkers.
ProjectionName: TypeAlias = Literal["loglik", "fisher", "taylor", "hermite"]
#: No selection: draws of the reference's Gaussian, weighted on the full data.
GAUSSIAN = "gaussian"
#: Names of methods: selection on a projection, the best of several, selection in the loop, and no
#: selection.
Method: TypeAlias = Literal[SolverName, "auto", InTheLoopName, "gaussian"]
#: Methods that draw rows at random, for which candidates must be equally likely.
BY_CHANCE = ("uniform", "importance")
#: Methods that select rows group by group if parameters have groups.
BY_GROUP = ("auto", "pursuit")
#: Number of rows of a coreset, or a search for it.
Size: TypeAlias = int | Literal["auto"]
#: Candidates that stand for all rows whatever the reference.
KERNEL = "kernel"
#: Candidate rows: their number, or the way to choose them.
Candidates: TypeAlias = int | Literal["kernel"]


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Options of the selection: what rows match, and which rows are candidates.

    Attributes
    ----------
    projection : {"taylor", "hermite", "loglik", "fisher"}, optional
        Part of the log likelihood that the rows match. ``"hermite"``: terms beyond second order, by
        exact expectations under a Gaussian (the default for generalised linear models with a
        control variate; see `stancoreset.selection.hermite`). ``"taylor"``: terms beyond second
        order, at draws of the reference (the default for other programs with a control variate; see
        `stancoreset.selection.taylor`). ``"loglik"``: its values (the default without a control
        variate). ``"fisher"``: its gradient (the weighted Fisher information norm; see
        `stancoreset.selection.fisher`).
    control_variate : bool
        Whether a quadratic around the posterior's centre supplies the terms up to second order, so
        that a hundred rows are as accurate as thousands without it. See
        `stancoreset.selection.control_variate`.
    draws : int, optional
        Number of reference draws S for selection. Default: five times the size, at least 250. With
        ``size="auto"``: 100 at first; 250 if rows must be selected, or about 1,000 if the quadratic
        alone is inaccurate. Draws of a Laplace fit are doubled, up to 2,000, until the held-out
        error stops decreasing. For methods with the model in the loop: number of draws of each
        coreset posterior.
    candidates : int or "kernel", optional
        Number of random candidate rows M; default: min(N, max(20,000, 50·size)); for ``"hermite"``
        min(N, max(2,000, 2·size)), and min(N, 1,000) if the size is searched for. ``"kernel"``:
        max(1,000, 2·size) rows whose moments and kernel means are those of all rows; use it if the
        reference is poor, or if there is none; see `stancoreset.selection.thinning`. For rows on
        disk they are chosen from a random sample in memory.

    Raises
    ------
    OptionError
        If an option is invalid; the message names it, its value and the expected one.

    Examples
    --------
    >>> Selection(draws=500).control_variate
    True
    >>> Selection(draws=1)
    Traceback (most recent call last):
    stancoreset.errors.OptionError: draws is 1, expected a whole number of at least 2
    """

    projection: ProjectionName | None = option(
        None,
        "what the rows match. hermite: terms beyond second order, without draws (the default for "
        "generalised linear models with a control variate); taylor: these terms at draws (the "
        "default for other programs with one); loglik: the log likelihood (the default without a "
        "control variate); fisher: its gradient",
        choices=(*PROJECTIONS, *BEYOND),
    )
    control_variate: bool = option(
        True,
        "complete the rows to second order by a quadratic",
        without="use no quadratic, so that the rows must match the log likelihood by themselves",
    )
    draws: int | None = option(None, "number of reference draws; default: automatic", least=2)
    candidates: Candidates | None = option(
        None,
        "number of random candidate rows; default: max(20000, 50 K), fewer for hermite; kernel: "
        "1,000 or more rows whose moments and kernel mean are those of all rows, for a poor "
        "reference",
        least=1,
    )

    def __post_init__(self) -> None:
        check_ranges(self)
        if not (self.candidates is None or self.by_kernel):
            try:
                check_whole("candidates", self.candidates, 1)
            except OptionError as error:
                raise OptionError(f"{error}, or {KERNEL!r}") from None
        if self.projection in BEYOND and not self.control_variate:
            raise OptionError(
                f"projection is {self.projection!r}, which matches only terms beyond second order "
                "and so needs the control variate, but control_variate is False; use "
                "projection='loglik', or control_variate=True"
            )

    @property
    def by_kernel(self) -> bool:
        """Whether the candidates are ``"kernel"`` rows, which represent all rows."""
        return isinstance(self.candidates, str) and self.candidates == KERNEL

    @property
    def number(self) -> int | None:
        """The number of candidates, if it was given."""
        return None if isinstance(self.candidates, str) else self.candidates


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Options of a fit.

    The arguments of `CoresetModel.fit` and `CoresetModel.merge`, the options of the command line
    and the keys of a batch's file are made from these fields and those of `Selection` and `NUTS`.
    `options` are those of the selection algorithm.
    """

    size: Size = option(
        AUTO,
        "largest number of rows in the coreset; auto: the smallest number whose held-out error is "
        "small enough",
        least=1,
    )
    method: Method = option(
        "pursuit",
        f"selection algorithm, by draws of the reference: auto, {', '.join(METHODS)}; or by draws "
        f"of the coreset's own posterior: {', '.join(IN_THE_LOOP)}; or {GAUSSIAN}: no rows and "
        "no NUTS, but draws of the reference's Gaussian, weighted on the full data",
    )
    reference: Any = option(
        "laplace",
        "first approximation of the posterior, where the log likelihood is matched. laplace: a "
        "Gaussian at the mode; gaussian_vi: the Gaussian with the highest evidence lower bound; "
        "double_loop: that of a simpler bound, for Laplace and Student-t priors of known scale; "
        "pathfinder: Gaussians along paths to the mode; advi: mean-field variational inference "
        "(CmdStan only); pilot: NUTS on a weighted subsample",
        choices=tuple(REFERENCES),
    )
    selection: Selection = group(Selection)
    max_rounds: int = option(
        MAX_ROUNDS,
        "largest number of rounds; the fit ends as soon as the result is certified",
        least=1,
    )
    max_seconds: float | None = option(
        None,
        "begin no further round that would end later than so many seconds after the fit's begin; "
        "the first round has no limit",
    )
    seed: int = option(0, "random seed; random: one is drawn, and the report contains it", least=0)
    nuts: NUTS = group(NUTS)
    inits: Any = option(
        None,
        "starting points: a JSON file of values by parameter, or one per chain, or a number, the "
        "radius of random values; default: where the reference has mass",
    )
    coords: Mapping[str, Sequence[Any]] | None = option(None, "labels of dimensions, as in ArviZ")
    dims: Mapping[str, Sequence[str]] | None = option(None, "dimensions of parameters by name")
    engine_output_dir: str | Path | None = option(
        None,
        "folder for the chains' CSV files, as CmdStan writes them; those of longer chains are in "
        "DIR/longer_1, …, and those of further rounds in DIR/round_1, …",
    )
    policy: Policy = option(
        None,
        "JSON file with other values of the numbers that are tuned in a fit, by name; "
        "stancoreset.Policy.table() lists them",
    )
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "policy", policy_of(self.policy))

    @classmethod
    def of(cls, asked: Mapping[str, Any]) -> Plan:
        """Make a plan from options by name: its own, those of its groups, and the method's.

        ``sampler`` may hold NUTS' options together, and ``selection`` the selection's; a ``seed``
        of None is drawn. An OptionError is raised for an option that is given twice, is out of
        range, or has no use here.
        """
        left = dict(asked)
        for name in left:
            refuse_former(name)
        method = left.get("method", cls.method)
        loop = isinstance(left.get("sampler"), str) and is_in_the_loop(method)
        sampler = None if loop else left.pop("sampler", None)
        nuts = _together(NUTS, "sampler", sampler, left, apart=own_options(method))
        selection = _together(Selection, "selection", left.pop("selection", None), left)
        if left.get("seed", cls.seed) is None:
            left["seed"] = fresh_seed()
        # What is left of NUTS' options is the method's, which has one of the same name.
        names = [name for name in options_of(cls) if name not in options_of(NUTS)]
        own = {name: left.pop(name) for name in names if name in left}
        return cls(nuts=nuts, selection=selection, options=left, **own)

    @classmethod
    def of_merge(cls, asked: Mapping[str, Any]) -> Plan:
        """Make the plan of a merge, which has no options for matching rows anew."""
        plan = cls.of(asked)
        if plan.is_gaussian:
            raise OptionError(
                f"method is {GAUSSIAN!r}, which selects no rows, but merge selects from the rows "
                "of the parts' coresets; leave method out"
            )
        apart = set(fit_options()) - set(merge_options())
        given = {"reference": asked.get("reference"), **vars(plan.selection)}
        for name in sorted(apart):
            if given[name] is not None:
                raise OptionError(
                    f"{name} is {shown(given[name])}, but merge selects from the rows of the "
                    f"parts' coresets, with the settings of their fits; leave {name} out"
                )
        return plan

    @property
    def is_gaussian(self) -> bool:
        """Whether the posterior's draws are those of the reference's Gaussian."""
        return isinstance(self.method, str) and self.method == GAUSSIAN

    @property
    def selects_without_mode(self) -> bool:
        """Whether rows are selected with neither a reference nor the mode of any posterior."""
        return is_in_the_loop(self.method) and not needs_mode(self.method, self.options)

    @property
    def selects_by_group(self) -> bool:
        """Whether rows are selected group by group where parameters have groups.

        A method with options, or another one, was asked for, and is what selects.
        """
        return self.method in BY_GROUP and not self.options

    @property
    def searches(self) -> bool:
        """Whether neither a method nor a number of rows is asked for."""
        return self.selects_by_group and isinstance(self.size, str)

    def count_candidates(self, n_obs: int, gap: float = np.inf, *, few: bool = False) -> int:
        """Number of candidate rows; `few` are enough for the little that a good quadratic leaves.

        `gap` is what it leaves, in nats.
        """
        auto, little, asked = isinstance(self.size, str), self.policy.few_candidates, self.selection
        if asked.by_kernel:
            return min(n_obs, little if auto else max(little, 2 * int(self.size)))
        if asked.candidates is None and (few or gap <= self.policy.near):
            return min(n_obs, little if auto else max(MAX_CANDIDATES, 2 * int(self.size)))
        return asked.number or default_candidates(n_obs, self.size)

    def warn_of_groups(self, blocks: Blocks | None) -> None:
        """Warn if parameters have groups, and the method selects rows for all of them together."""
        if blocks is None or self.selects_by_group:
            return
        with_options = f" with {', '.join(self.options)}" if self.options else ""
        levels = len(np.unique(blocks.group[blocks.group >= 0]))
        warnings.warn(
            f"the parameters have {levels:,} groups, but method {self.method!r}{with_options} "
            "selects rows for all of them together; leave method out, or give "
            f"{' or '.join(map(repr, BY_GROUP))} without options, to select rows group by group",
            stacklevel=2,
        )

    @property
    def refines(self) -> bool:
        """Whether further rounds may follow the first."""
        return self.max_rounds > 1

    @property
    def labels(self) -> Labels:
        """Names for the dimensions of parameters."""
        return Labels.given(self.coords, self.dims)

    def settings(self) -> dict[str, Any]:
        """The options that determine the result, as plain values."""
        return {
            "size": self.size,
            "method": self.method,
            "reference": reference_name(self.reference),
            **self._own_draws(),
            **vars(self.selection),
            "max_rounds": self.max_rounds,
            "seed": self.seed,
            **self.nuts.settings(),
            **({} if self.inits is None else {"inits": recorded_inits(self.inits)}),
            **({"policy": self.policy.changes} if self.policy.changes else {}),
            **self.options,
        }

    def _own_draws(self) -> dict[str, str]:
        """A hash of the user's draws, by which a resumed run recognises them."""
        if isinstance(self.reference, str):
            return {}
        draws = self.reference
        arrays = {"": draws} if isinstance(draws, np.ndarray) else variables_of(draws)
        digest = hashlib.blake2b(digest_size=16)
        for name, values in sorted(arrays.items()):
            digest.update(f"{name}:{values.shape};".encode())
            digest.update(np.ascontiguousarray(values, dtype=np.float64).data)
        return {"reference_draws": digest.hexdigest()}

    def require(self, n_obs: int | None) -> None:
        """Raise an error if the fit is impossible, before anything is computed.

        The number of rows is None before they are read, which may take long.
        """
        self._require_numbers()
        auto = isinstance(self.size, str) and self.size == AUTO
        if not auto and not (is_whole(self.size) and 1 <= int(self.size) <= (n_obs or sys.maxsize)):
            raise OptionError(
                f"size is {shown(self.size)}, expected a whole number from 1 "
                + ("on" if n_obs is None else f"to {n_obs}, the rows of the data")
                + f", or {AUTO!r}"
            )
        check_text("method", self.method, "the name of a selection algorithm")
        if auto and self.method in IN_THE_LOOP:
            raise OptionError(
                f"size is {AUTO!r}, but method {self.method!r} cannot search for a size; give a "
                "number of rows, such as size=200"
            )
        check_reference(self.reference)
        if self.is_gaussian:
            self._require_gaussian()
            return
        projection, control = self.selection.projection, self.selection.control_variate
        if self.selection.by_kernel and self.method in BY_CHANCE:
            raise OptionError(
                f"candidates is {KERNEL!r}, but method {self.method!r} draws rows at random, each "
                "from all rows; leave candidates out, or use another method"
            )
        if self.method == "auto":
            if not control or projection not in (None, *BEYOND) or self.options:
                raise OptionError(
                    "method is 'auto', which compares several methods with a control variate: it "
                    "needs control_variate=True, projection 'taylor', 'hermite' or none, and no "
                    "options of a method; change these, or name a method"
                )
            return
        self._require_options()
        if self.method in IN_THE_LOOP and projection is not None:
            raise OptionError(
                f"projection is {projection!r}, but method {self.method!r} draws from the "
                "coreset's own posterior and uses no projection; leave projection out"
            )

    def _require_gaussian(self) -> None:
        """Raise for options that draws of a Gaussian have no use for."""
        if not isinstance(self.reference, str) or self.reference not in GAUSSIANS:
            raise OptionError(
                f"reference is {shown(reference_name(self.reference))}, but method {GAUSSIAN!r} "
                f"draws from a Gaussian: expected {' or '.join(map(repr, GAUSSIANS))}"
            )
        unused = {name: (self.options[name], None) for name in self.options}
        for mine, usual in ((self, Plan()), (self.selection, Selection()), (self.nuts, NUTS())):
            names = _NOT_OF_A_GAUSSIAN if mine is self else {*vars(mine)} - {*_OF_A_GAUSSIAN}
            unused |= {name: (getattr(mine, name), getattr(usual, name)) for name in sorted(names)}
        for name, (value, default) in unused.items():
            if value is not default and not (np.isscalar(value) and value == default):
                raise OptionError(
                    f"{name} is {shown(value)}, but method {GAUSSIAN!r} selects no rows and runs "
                    f"no NUTS; leave {name} out"
                )

    def _require_options(self) -> None:
        """Raise for an option unknown to the method, which may be a misspelt argument of `fit`."""
        try:
            if self.method in IN_THE_LOOP:
                check_options(self.method, self.options)
            else:
                check_method(self.method, self.options, others=("auto", *IN_THE_LOOP, GAUSSIAN))
        except SolverError as error:
            for name in self.options:
                refuse(name)
            meant = {name: near_misses(name, fit_options()) for name in self.options}
            for name, close in meant.items():
                if close:
                    raise SolverError(
                        f"fit has no option {name!r}, did you mean {close[0]!r}? ({error})"
                    ) from None
            raise

    def _require_numbers(self) -> None:
        """Raise for options that are out of range or of the wrong type."""
        check_seed(self.seed)
        check_inits(self.inits, self.nuts.chains)
        if self.nuts.chains * self.nuts.draws < LEAST_DRAWS:
            thinned = f" and thin {self.nuts.thin}" if self.nuts.thin > 1 else ""
            if self.nuts.keep_every > 1:
                thinned += f" and keep_every {self.nuts.keep_every}"
            raise OptionError(
                f"iter_sampling is {self.nuts.iter_sampling}{thinned}, which gives "
                f"{self.nuts.chains} chains {self.nuts.chains * self.nuts.draws} draws: a "
                f"certificate needs at least {LEAST_DRAWS}"
            )
        check_ranges(self)
        if self.max_seconds is not None:
            check_number("max_seconds", self.max_seconds, 0)
        check_labels(self.coords, self.dims)
        if self.engine_output_dir is not None:
            check_path("engine_output_dir", self.engine_output_dir)


def fit_options() -> dict[str, Field[Any]]:
    """All options of a fit by name, with default, range and help text."""
    return options_of(Plan)


def merge_options() -> dict[str, Field[Any]]:
    """All options of a merge by name."""
    apart = ("reference", "projection", "draws", "candidates")
    return {name: about for name, about in fit_options().items() if name not in apart}


def refuse_former(name: str) -> None:
    """Raise if this is the former name of an option."""
    if name == "refine":
        raise OptionError(
            "refine is no longer an option: give max_rounds=1 for one pass (was refine=False), or "
            "leave it out for further rounds (was refine='auto')"
        )


def is_in_the_loop(method: object) -> bool:
    """Whether a method draws from the coreset's own posterior instead of using a projection."""
    return isinstance(method, str) and method in IN_THE_LOOP


def own_options(method: object) -> Collection[str]:
    """Options of a method in the loop, one of which (step_size) is an option of NUTS too."""
    if not is_in_the_loop(method):
        return ()
    return inspect.signature(IN_THE_LOOP[str(method)]).parameters


def nuts_of(options: Mapping[str, Any]) -> NUTS:
    """Make NUTS' options from options by name; ``sampler`` may hold them together."""
    left = dict(options)
    nuts = _together(NUTS, "sampler", left.pop("sampler", None), left)
    NUTS.of(left)  # says what is wrong with those that it does not know
    return nuts


T = TypeVar("T")


def _together(
    kind: type[T], name: str, whole: Any, left: dict[str, Any], apart: Collection[str] = ()
) -> T:
    """Make a group of options from those in `left`, which are removed, or take it as `whole`.

    Options `apart` belong to the method if they have a value.
    """
    names = [n for n in options_of(kind) if n in left and (n not in apart or left[n] is None)]
    values = {n: left.pop(n) for n in names}
    if whole is None:
        return kind(**values)
    check_is(name, whole, kind, f"{kind.__name__}(…)")
    if values:
        raise OptionError(
            f"{names[0]} is given twice, by itself and in {name}={kind.__name__}(…); give it once"
        )
    return whole  # type: ignore[no-any-return]


def reference_name(reference: Any) -> str:
    """The reference's name, or ``"draws"`` for a user's own."""
    return reference if isinstance(reference, str) else "draws"
