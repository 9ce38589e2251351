"""A weighted program together with an engine: everything that a fit asks of Stan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TypeAlias

import numpy as np

from stancoreset.checks import listed
from stancoreset.engines import (
    BoundModel,
    Compiled,
    CompiledWithControl,
    Engine,
    Float,
    RowModel,
    StanData,
    compile_controlled,
    controlled_for,
    embedded,
)
from stancoreset.errors import ControlError, DataError, EngineError, OptionError
from stancoreset.parallel import side_by_side
from stancoreset.program.adopt import Adopted
from stancoreset.program.candidates import choose_candidates
from stancoreset.program.effects import Effects
from stancoreset.program.identities import SOLVER_TOLERANCE
from stancoreset.program.passes import Passes, choose_passes
from stancoreset.program.second_engine import compare_engines, compile_second, few_rows, find_second
from stancoreset.program.witnesses import AnyWitness, bind_witness, confirm_glm
from stancoreset.progress import Stages
from stancoreset.reference import Reference
from stancoreset.rows import (
    TOLERANCE,
    CountedRows,
    FullData,
    FullDensity,
    ShownWitness,
    Witness,
    WitnessedDensity,
    bind_rows,
    row_log_lik,
)
from stancoreset.rows.glm import GLM_ENOUGH, FoundGlm, find_glm, is_worth_finding
from stancoreset.rows.tables import Source, StoredRows, content_hash, in_memory
from stancoreset.selection import (
    ControlVariate,
    Coreset,
    Expansion,
    control_variate,
    expand,
    no_expectation,
)
from stancoreset.stan import (
    Controlled,
    NamedData,
    StanProgram,
    may_be_infinite,
    names_of,
    parameter_as_data,
    too_large,
    variable_of,
    weights_as_parameters,
)
from stancoreset.stan.data import DataSource, data_hash
from stancoreset.stan.weave import with_whole_loops

#: Types that may hold a program's data: mappings, files, or rows that can be opened.
Data: TypeAlias = "DataSource | Source"

# Points at which a coordinate of ψ is tried.
_TRIED = 8


class Session:
    """Compiled programs, and the full data while they are in use.

    `adopted` is the author's program with its weighted version; `threads` is the number of chunks
    of the full data evaluated at the same time, by default the engine's; `glm` says whether
    rows are evaluated in a faster form: those of generalised linear models by
    `stancoreset.rows.glm`, and loops of other programs by statements about all rows. `passes` says
    whether another engine may evaluate the full data, see `stancoreset.program.passes`, and
    `second` when CmdStan is asked too, see `stancoreset.program.second_engine`.
    """

    def __init__(
        self,
        adopted: Adopted,
        engine: Engine,
        threads: int | None = None,
        glm: bool = True,
        passes: str = "auto",
        second: str = "auto",
    ) -> None:
        self.adopted = adopted
        self.program = adopted.weighted
        self.engine = engine
        self.threads = threads or engine.threads
        self.glm = glm
        self.passes = passes
        self.second = second
        self.behind: frozenset[str] = frozenset()
        self._always = False
        self._infinite: tuple[str, frozenset[str]] = ("", frozenset())
        self._passes = Passes()
        self._full: tuple[str, FullData] | None = None
        self._glm: tuple[StanData, FoundGlm] | None = None
        self._witness: tuple[StanData, AnyWitness] | None = None

    @property
    def against(self) -> str:
        """Words for the data that the certificate compares with; empty for all rows."""
        return ""

    @property
    def has_gradients(self) -> bool:
        """Whether gradients of all rows can be evaluated."""
        return True

    @property
    def in_process(self) -> bool:
        """Whether rows are evaluated in this process."""
        return self.engine.capabilities.in_process or self._passes.compiled is not None

    @property
    def processes(self) -> int:
        """The number of processes that evaluate rows; 0 if this one does."""
        return 0 if self.in_process else self.threads

    @cached_property
    def controlled(self) -> Controlled:
        """The program's density with room for a control variate."""
        return controlled_for(self.program, self.engine, behind=self.behind)

    @property
    def description(self) -> str:
        """ψ in words, and the variables that are no coordinates because they are not finite."""
        names = ", ".join(sorted(self.infinite))
        return self.controlled.said + (f"; {names}: no coordinate, not finite" if names else "")

    @cached_property
    def likelihood(self) -> Session:
        """The session of the likelihood as a function of what the rows see.

        It is this one if the rows see the parameters themselves.
        """
        cut = self.controlled.likelihood
        if cut is None:
            return self
        # What evaluates this program evaluates that one too, if it has the same coordinates.
        engine, other = self.engine, embedded(self.threads)
        if self._passes.compiled is not None and other is not None:
            same = (
                controlled_for(self.program, other, behind=self.behind).code == self.controlled.code
            )
            engine = other if same else engine
        return self._like(Adopted(cut.weighted.program, cut.weighted), engine)

    def in_parameters(self) -> Session | None:
        """A session of this program whose ψ are the parameters; None if it cannot have them."""
        other = self._like(self.adopted, self.engine)
        declared = {d.name for d in self.program.program.parameters}
        while (cut := other.controlled.likelihood) is not None:
            computed = {d.name for d in cut.seen} - declared
            if not computed or computed <= other.behind:
                return None
            other._cut_at(other.behind | computed)
        return other

    def with_parameter_as_data(self, name: str) -> Session:
        """The session of the program with one parameter as data, which is compiled anew."""
        code = parameter_as_data(self.program.code, name)
        program = StanProgram.from_code(code, name=self.program.program.name)
        return self._like(Adopted(program, replace(self.program, program=program)), self.engine)

    def _like(self, adopted: Adopted, engine: Engine) -> Session:
        """A session with the same data for another program, which is cut at the same place."""
        other = Session(adopted, engine, self.threads, self.glm, self.passes, self.second)
        other.behind = self.behind
        return other

    def seen(self, checked: StanData, draws: Float) -> Float:
        """Compute ψ, the functions that the rows see, at unconstrained draws: (S, P) → (S, p).

        Raises
        ------
        ControlError
            If a coordinate is not finite.
        """
        if self.likelihood is self:
            return draws
        return self.require_finite(checked, self._values_seen(checked, draws))

    def require_finite(self, checked: StanData, psi: Float) -> Float:
        """Values of ψ (S, p); a `ControlError` names a coordinate that is not finite."""
        bad = np.flatnonzero(~np.isfinite(psi).all(axis=0))
        if len(bad):
            name = self.seen_names(checked)[bad[0]]
            raise ControlError(
                f"{name}, a quantity that enters the likelihood, is not finite in "
                f"{np.sum(~np.isfinite(psi[:, bad[0]]))} of {len(psi)} draws; use "
                "control_variate=False, or assign finite values to elements that no row reads"
            )
        return psi

    def _values_seen(self, checked: StanData, draws: Float) -> Float:
        """ψ at unconstrained draws: (S, P) → (S, p)."""
        name = self.controlled.names["values"]
        with self.density().bind(self.no_rows_with_psi(checked)) as bound:
            return bound.generated(draws, (name,))[name]

    def seen_data(self, checked: StanData) -> FullData:
        """The full data of the likelihood in what the rows see; its passes count as this one's."""
        full, seen = self.full_data(checked), self.likelihood.full_data(checked)
        if seen.kernel is not None and full.kernel is None:
            full.passes.likelihood = seen.passes.likelihood
        seen.passes = full.passes
        return seen

    def hold_once(self, checked: StanData, full: FullData, seen: FullData, offset: float) -> None:
        """Evaluate the full data through what the rows see, of which the engine has a copy."""
        if seen is not full:
            full.see_through(seen, partial(self._values_seen, checked), offset)

    def seen_names(self, checked: StanData) -> tuple[str, ...]:
        """Names of the coordinates of ψ."""
        return self.likelihood._param_names(checked)

    def _param_names(self, checked: StanData) -> tuple[str, ...]:
        """Names of the unconstrained parameters."""
        with self.density().bind(self.no_rows(checked)) as bound:
            return bound.param_names

    def no_rows(self, checked: StanData) -> StanData:
        """Data with which the program is its prior."""
        return self.program.prior_data(in_memory(checked))

    def no_rows_with_psi(self, checked: StanData) -> StanData:
        """Data with which the program is its prior, and generates ψ as well."""
        return {**self.no_rows(checked), **self.controlled.values(self.seen_names(checked))}

    def read(self, data: Data) -> StanData:
        """Read and check the full data; see `CoresetModel.read`."""
        checked = self._checked(data)
        self.choose_coordinates(checked)
        return checked

    def _checked(self, data: Data) -> StanData:
        """The full data, complete."""
        if isinstance(data, type) or not isinstance(data, Source):
            checked = self.adopted.complete(self.program.check(data), self.engine)
            self.program.require_groups(checked)
            return NamedData(checked, names) if (names := names_of(data)) else checked
        opened = data.open_for(self.program, threads=self.threads)
        if isinstance(opened, StoredRows):
            if opened.sample:
                self.program.require_known_groups(opened.sample)
            return opened
        complete = self.adopted.complete(self.program.check(opened), self.engine)
        self.program.require_groups(complete)
        return opened.with_data(complete)

    def choose_coordinates(self, checked: StanData) -> None:
        """Leave variables out of ψ that are much larger than the parameters, or not finite.

        `read` has done it for data that it has read.
        """
        none = self.no_rows(checked)
        large = too_large(self.program, none)
        key = data_hash(none)
        if self._infinite[0] != key:
            self._infinite = key, frozenset()
            self._cut_at(large)
            while found := self._not_finite(checked):
                self._infinite = key, self.infinite | found
                self._cut_at(large | self.infinite)
        self._cut_at(large | self.infinite)

    def _cut_at(self, behind: frozenset[str]) -> None:
        if behind != self.behind:
            self.close()
            self.behind = behind
            for name in ("controlled", "likelihood", "_compiled", "effects"):
                vars(self).pop(name, None)

    @property
    def infinite(self) -> frozenset[str]:
        """Variables that are no coordinates because they are not finite with these data.

        The effect of an empty group, ``log(size[j]) + …``, is one: no row reads it.
        """
        return self._infinite[1]

    def _not_finite(self, checked: StanData) -> frozenset[str]:
        """Variables of ψ that have an element which is finite nowhere."""
        likelihood = self.controlled.likelihood
        if likelihood is None or not may_be_infinite(self.program, likelihood):
            return frozenset()
        with self.density().bind(self.no_rows(checked)) as bound:
            width = bound.n_params
        points = np.random.default_rng(31).uniform(-1, 1, (_TRIED, width))
        try:
            psi = self._values_seen(checked, points)
        except EngineError:  # these points are invalid; any others will tell
            return frozenset()
        never = ~np.isfinite(psi).any(axis=0)
        names = np.array(self.seen_names(checked))[never]
        return frozenset(variable_of(str(name)) for name in names)

    @cached_property
    def effects(self) -> Effects:
        """The program's effects, which chains may move in other coordinates."""
        return Effects(self.controlled, self.engine, self.program.program.name)

    def density(self) -> Compiled:
        """The program without rows' log likelihoods, with room for a control variate."""
        return CompiledWithControl(self._evaluated, self.controlled)

    def with_log_lik(self) -> Compiled:
        """The program with rows' log likelihoods, with room for a control variate."""
        return CompiledWithControl(self._evaluated, self.controlled, log_lik=True)

    @property
    def _evaluated(self) -> Compiled:
        return self._passes.compiled or self._compiled

    @property
    def evaluating(self) -> Engine:
        """The engine that evaluates full data; it need not be the one that samples."""
        other = embedded(self.threads) if self._passes.compiled is not None else None
        return other or self.engine

    @cached_property
    def _compiled(self) -> Compiled:
        return compile_controlled(self.engine, self.program, self.controlled, self.glm)

    def with_weights_as_parameters(self) -> Compiled | None:
        """The density's program with the rows' weights as last parameters.

        None where that would cost a compilation, or transformed data read the weights.
        """
        code, engine = weights_as_parameters(self.program), self.evaluating
        if code is None or not engine.capabilities.compiles_at_once:
            return None
        whole = with_whole_loops(code, self.program.obs)
        return engine.compile(whole, name=self.program.program.name)

    def original(self) -> Compiled:
        """The author's program, without generated quantities, compiled by NUTS' engine."""
        if self._weighted_by_author:  # the same program, without the control variate
            return CompiledWithControl(self._compiled, self.controlled)
        return self._original

    @property
    def _weighted_by_author(self) -> bool:
        """Whether one executable serves as both programs, where a second one is not free."""
        return self.adopted.woven is None and not self.engine.capabilities.compiles_at_once

    @cached_property
    def _original(self) -> Compiled:
        original = self.adopted.density
        return self.engine.compile(original.code, name=original.name)

    def compile(self) -> None:
        """Compile all programs in parallel, now instead of on first use."""
        ways = [self.density] if self._weighted_by_author else [self.density, self.original]
        side_by_side(lambda way: way(), ways, len(ways))

    def full_data(self, checked: StanData, stages: Stages | None = None) -> FullData:
        """The full data, bound to the engine on first use; cached until the data change."""
        key = content_hash(checked)
        if self._full is None or self._full[0] != key:
            if self._full is not None:  # else what is known of these data is kept
                self.close()
            with (stages or Stages(False))("bind data"):
                self._passes = self._choose_passes(checked)
                full = self._bound_full(checked, self.glm_of(checked))
                full.passes.engines = self._passes.said
            self._full = (key, full)
        return self._full[1]

    def _bound_full(self, checked: StanData, glm: FoundGlm | None) -> FullData:
        return FullData(
            self.density(),
            self.program,
            checked,
            in_process=self.in_process,
            threads=self.threads,
            glm=glm,
            at_once=self._evaluated_code != self.controlled.code,
        )

    @property
    def _evaluated_code(self) -> str:
        """The text of the program that evaluates rows."""
        other = self._passes.compiled
        return self._compiled.code if other is None else other.passes.code

    def _choose_passes(self, checked: StanData) -> Passes:
        if self.passes == "engine":
            return Passes()
        data = in_memory(checked)
        return choose_passes(
            self._compiled,
            self.engine,
            self.program,
            self.controlled,
            data,
            self.threads,
            at_once=self.glm,
        )

    def recognise_always(self) -> None:
        """Recognise a generalised linear model from now on, even with few rows."""
        if not self._always:
            self.close()
        self._always = True

    def _is_worth_finding(self, n_obs: int, n_params: int) -> bool:
        return self._always or is_worth_finding(n_obs, n_params)

    def glm_of(self, checked: StanData) -> FoundGlm | None:
        """The likelihood as a matrix product, if it is one and is worth finding."""
        if not self.glm:
            return None
        n_obs, n_params = self.program.n_obs(checked), len(self._param_names(checked))
        if not self._is_worth_finding(n_obs, n_params):
            return None
        if self._glm is None or not _is_same(self._glm[0], checked):
            data = in_memory(checked)
            found = find_glm(self.program, self.density(), self.with_log_lik(), data)
            # Processes would read all rows again; the certificate compares them.
            if found.kernel is not None and self.engine.capabilities.in_process:
                found = confirm_glm(found, self.witness(checked), self.program, self.threads)
            self._glm = (checked, found)
        return self._glm[1]

    def witness(self, checked: StanData) -> AnyWitness:
        """The author's program on all rows; cached until the data change."""
        if self._witness is None or self._witness[0] is not checked:
            self._close_witness()
            witness = bind_witness(
                self.adopted, self.original(), self.density(), self.engine, self.threads, checked
            )
            self._witness = (checked, witness)
        return self._witness[1]

    def witnessed(self, checked: StanData) -> FullDensity:
        """The full log density, computed or checked by the author's program."""
        full, witness = self.full_data(checked), self.witness(checked)
        unit = None
        if isinstance(witness, ShownWitness) or (
            isinstance(witness, Witness) and witness.data is not checked
        ):
            unit = partial(self._bound_full, glm=self.glm_of(checked))
        tolerance = SOLVER_TOLERANCE if self.adopted.uses_solver else TOLERANCE
        name = self.program.program.name
        second = partial(self._compare_engines, checked, tolerance)
        return WitnessedDensity(full, witness, unit, name, tolerance, second)

    def _compare_engines(self, checked: StanData, tolerance: float, draws: Float) -> str:
        """Compare the author's program by this engine and by CmdStan, see `second_engine`."""
        other = find_second(self.engine, self.second)
        if other is None:
            return ""
        theirs = compile_second(other, self.adopted, self.behind, self.second)
        if theirs is None:
            return ""
        own, share = few_rows(self.adopted, in_memory(checked))
        self.full_data(checked).passes.add(densities=len(draws), share=share)
        engines = {self.engine.version: self.original(), other.version: theirs}
        return compare_engines(engines, own, draws, tolerance=tolerance)

    def pool(
        self,
        checked: StanData,
        candidates: int,
        seed: int,
        extra: np.ndarray | None = None,
        *,
        different: bool = False,
        by_kernel: bool = False,
    ) -> tuple[np.ndarray, RowModel]:
        """A random pool of candidate rows, with some `extra` ones, bound to the whole program.

        It is chosen so that it stands for all rows if `by_kernel` is set; see `kernel_rows`.
        With `different`, one of several equal rows is enough, because its weight can stand for all
        of them; methods that draw rows at random need every copy.
        """
        if candidates < 1:
            raise OptionError(f"candidates is {candidates}, expected at least 1")
        rows = choose_candidates(
            self.program, checked, candidates, seed, different=different, by_kernel=by_kernel
        )
        rows = rows if extra is None else np.union1d(rows, extra)
        return rows, self.bind_rows(checked, rows)

    def bind_rows(self, checked: StanData, rows: np.ndarray) -> RowModel:
        """Bind the whole program, or an equal GLM, to some rows without weights."""
        found = self.glm_of(checked)
        bound = bind_rows(
            self.with_log_lik(),
            self.program,
            checked,
            rows,
            processes=self.processes,
            threads=self.threads,
            glm=None if found is None else found.kernel,
        )
        if self._full is None:  # no fit is under way
            return bound
        return CountedRows(bound, self._full[1].passes, len(rows) / self.program.n_obs(checked))

    def row_log_lik(self, checked: StanData, draws: Float) -> Iterator[tuple[slice, Float]]:
        """Unweighted log likelihoods (S, rows) of rows in memory, chunk by chunk."""
        return row_log_lik(
            self.with_log_lik(), self.program, checked, draws, processes=self.processes
        )

    def rows(self, checked: StanData, coreset: Coreset | None) -> StanData:
        """Data of the coreset's rows, or of all rows."""
        n_obs = self.program.n_obs(checked)
        if coreset is None and isinstance(checked, StoredRows):
            raise DataError(
                f"NUTS on all {n_obs} rows needs them in memory: give a coreset, or load them "
                "with Table(memory=…)"
            )
        if coreset is None:
            return checked
        if coreset.n_obs != n_obs:
            raise DataError(
                f"the coreset was selected from {coreset.n_obs} rows, the data have {n_obs}: "
                "these are not the data it was selected from"
            )
        rows = self.program.subset(checked, coreset.indices, coreset.weights)
        return rows if coreset.control is None else {**rows, **self.control_data(coreset.control)}

    def bind(self, checked: StanData, coreset: Coreset | None) -> BoundModel:
        """Bind the coreset's rows with its control variate, or all rows, to the engine.

        A `ControlError` is raised if the control variate belongs to other parameters.
        """
        bound = self.density().bind(self.rows(checked, coreset))
        control = None if coreset is None else coreset.control
        if control is None or control.param_names == (names := self.seen_names(checked)):
            return bound
        bound.close()
        raise _other_parameters(control, names)

    def control_data(self, control: ControlVariate) -> StanData:
        """A control variate as data of the program."""
        columns, start = self.controlled.coordinates(control.param_names)
        if len(columns) != len(control.gradient):  # Stan's message would name sizes only
            raise _other_parameters(
                control, [declared.name for declared in self.program.program.parameters]
            )
        return self.controlled.data(
            start,
            control.centre[columns],
            control.gradient,
            control.axes,
            control.curvature,
            control.width,
            control.offset,
            control.diagonal,
            *(() if control.arrow is None else vars(control.arrow).values()),
        )

    def expand(
        self,
        full: FullData,
        reference: Reference,
        pairs: int = 0,
        *,
        exact: bool = False,
        bent: bool = False,
    ) -> Expansion:
        """The full log likelihood as a quadratic around the reference's centre."""
        columns = self.controlled.coordinates(full.param_names)[0]
        return expand(full, reference, columns, pairs, exact=exact, bent=bent)

    def no_series(self, full: FullData) -> str:
        """The reason why the rows have no Hermite series; empty if they have one."""
        if full.glm is None and not self.glm:
            return "the model was made with glm=False"
        if full.glm is None and not self._is_worth_finding(full.n_obs, full.n_params):
            return (
                f"the data have {full.n_obs:,} rows, and generalised linear models are recognised "
                f"{GLM_ENOUGH}"
            )
        return no_expectation(full, self.controlled.coordinates(full.param_names)[0])

    def with_control(
        self, checked: StanData, coreset: Coreset, full: FullData, expansion: Expansion
    ) -> Coreset:
        """Add the quadratic that completes a coreset to second order."""
        bare, rows = replace(coreset, control=None), None
        if expansion.expected is not None:
            rows = replace(full.glm_pool(coreset.indices), weights=coreset.weights)
        with self.bind(checked, bare) as bound:
            control = control_variate(
                bound, full.prior, expansion, rows=rows, left_out=self.controlled.left_out
            )
        return replace(coreset, control=control)

    def coreset_rows(self, checked: StanData, coreset: Coreset) -> StanData:
        """The coreset's rows, so that it may be merged without the full data."""
        rows, names = self.rows(checked, coreset), names_of(checked)
        return NamedData(rows, names) if names else rows

    def coreset_log_likelihood(self, checked: StanData, coreset: Coreset, draws: Float) -> Float:
        """Σ_n w_n L_n(θ) and the control variate, up to a constant: (S, P) → (S,)."""
        with self.bind(checked, coreset) as bound:
            return bound.log_density(draws) - self.full_data(checked).log_prior(draws)

    def close(self) -> None:
        """Release the engine's copies of the full data."""
        if self._full is not None:
            self._full[1].close()
            self._full = None
        self._glm = None
        self._passes = Passes()
        self._close_witness()
        likelihood = vars(self).get("likelihood", self)  # only if it was ever asked for
        if likelihood is not self:
            likelihood.close()

    def release_rows(self) -> None:
        """Release the rows that the engine holds; what needs them binds them again."""
        self._close_witness()
        if self._full is not None:
            self._full[1].release()
        likelihood = vars(self).get("likelihood", self)  # only if it was ever asked for
        if likelihood is not self:
            likelihood.release_rows()

    def _close_witness(self) -> None:
        if self._witness is not None:
            self._witness[1].close()
        self._witness = None


def _is_same(one: StanData, other: StanData) -> bool:
    """Whether data are the same, if perhaps read twice."""
    return one is other or content_hash(one) == content_hash(other)


def _other_parameters(control: ControlVariate, names: Sequence[str]) -> ControlError:
    return ControlError(
        f"the coreset's control variate belongs to {len(control.param_names)} other "
        f"parameters ({listed(control.param_names, 4)}); program and data have "
        f"{len(names)} ({listed(names, 4)}): select the coreset again "
        "with this program and these data"
    )
