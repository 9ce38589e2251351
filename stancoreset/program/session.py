"""A weighted program together with an engine: everything that a fit asks of Stan."""

from __future__ import annotations

import platform
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from stancoreset.checks import check_path
from stancoreset.engines import (
    NUTS,
    BoundModel,
    Compiled,
    CompiledWithControl,
    Engine,
    Float,
    RowModel,
    SampleResult,
    StanData,
    chain_bars,
    compile_controlled,
    controlled_for,
    embedded,
    initial_points,
    metric_near,
    parameter_names,
)
from stancoreset.engines.cmdstan import CmdStanEngine
from stancoreset.errors import ControlError, DataError, EngineError, OptionError
from stancoreset.files import content_key
from stancoreset.limits import BLOCK
from stancoreset.parallel import side_by_side
from stancoreset.posterior import arviz
from stancoreset.processes import free_memory, give_back_memory
from stancoreset.program.adopt import Adopted
from stancoreset.program.effects import Effects
from stancoreset.program.identities import SOLVER_TOLERANCE
from stancoreset.program.passes import Passes, choose_passes
from stancoreset.program.quantities import as_quantities
from stancoreset.program.second_engine import compare_engines, find_second
from stancoreset.progress import Stages
from stancoreset.reference import Reference
from stancoreset.rows import (
    MAX_ROWS_PER_CHUNK,
    SHOWN,
    TOLERANCE,
    ArrayChunks,
    CountedRows,
    FullData,
    FullDensity,
    ShownWitness,
    StoredWitness,
    Witness,
    WitnessedDensity,
    bind_rows,
    repeats,
    row_log_lik,
    shown_rows,
)
from stancoreset.rows.glm import GLM_ENOUGH, FoundGlm, find_glm, is_worth_finding, rows_of
from stancoreset.rows.tables import LoadedRows, Source, StoredRows, content_hash
from stancoreset.selection import (
    ControlVariate,
    Coreset,
    Expansion,
    control_variate,
    expand,
    kernel_rows,
    no_expectation,
)
from stancoreset.stan import (
    NOT_ONE_TO_ONE,
    Controlled,
    Labels,
    NamedData,
    labels_of,
    may_be_infinite,
    names_of,
    parameter_count,
    require_fitting,
    too_large,
)
from stancoreset.stan.data import DataSource, data_hash
from stancoreset.version import __version__

#: Types that may hold a program's data: mappings, files, or rows that can be opened.
Data: TypeAlias = "DataSource | Source"

_SHOWN_DRAWS = 4_000
_CORESET_DIM = "coreset_dim"
# Points at which a coordinate of ψ is tried.
_TRIED = 8
# Number of points at which a GLM is compared with the author's program on all rows.
_GLM_POINTS = 3
# Rows on which two engines are compared: CmdStan reads their text in a second.
_COMPARED_ROWS = 20_000


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
        self._witness: tuple[StanData, Witness | ShownWitness | StoredWitness] | None = None

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
    def told(self) -> str:
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
            name = self._seen_names(checked)[bad[0]]
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

    def _seen_names(self, checked: StanData) -> tuple[str, ...]:
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
        return {**self.no_rows(checked), **self.controlled.values(self._seen_names(checked))}

    def require_room_for_draws(self, checked: StanData, nuts: NUTS) -> None:
        """Refuse draws that cannot be held, before anything is bound to so many parameters.

        They are held once as the program's values and once without constraints; what the program
        computes from its parameters comes on top: only what cannot work is refused.
        """
        count, draws = (
            parameter_count(self.program, self.no_rows(checked)),
            nuts.chains * nuts.draws,
        )
        needed, free = 2.0 * np.dtype(np.float64).itemsize * draws * count, free_memory()
        if needed > free:
            raise OptionError(
                f"{draws:,} draws of {count:,} parameters fill at least {needed / 1e9:,.1f} GB, "
                f"and {free / 1e9:,.1f} GB of memory are free: raise thin, or lower chains or "
                "iter_sampling, or the number of groups"
            )

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
        names = np.array(self._seen_names(checked))[never]
        return frozenset(re.split(r"[.\[]", str(name))[0] for name in names)

    @cached_property
    def effects(self) -> Effects:
        """The program's effects, which chains may move in other coordinates."""
        return Effects(self.controlled, self.engine, self.density, self.program.program.name)

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
            self._glm = (checked, self._confirmed(found, checked))
        return self._glm[1]

    def _confirmed(self, found: FoundGlm, checked: StanData) -> FoundGlm:
        """Compare a GLM found on some rows with the author's program on all rows."""
        if found.kernel is None or not self.engine.capabilities.in_process:
            return found  # processes would read all rows again; the certificate compares them
        witness, kernel = self.witness(checked), found.kernel
        rng = np.random.default_rng(29)
        points = rng.uniform(-0.3, 0.3, size=(_GLM_POINTS, witness.prior.n_params))

        def ours(data: StanData) -> Float:
            arrays, count = rows_of(self.program, data), self.program.n_obs(data)
            rows = ArrayChunks(arrays, count, MAX_ROWS_PER_CHUNK, kernel, self.threads)
            return rows.sums("log_density", points)[0] + witness.prior.log_density(points)

        if isinstance(witness, StoredWitness):
            compared = witness.compare(kernel, points, rows=0)
        else:
            compared = witness.compare(points, ours)
        if compared.error > TOLERANCE:
            return FoundGlm(None, "on some rows its likelihood is not the GLM of the others")
        return found

    def witness(self, checked: StanData) -> Witness | ShownWitness | StoredWitness:
        """The author's program on all rows; cached until the data change."""
        if self._witness is None or self._witness[0] is not checked:
            self._close_witness()
            self._witness = (checked, self._new_witness(checked))
        return self._witness[1]

    def _new_witness(self, checked: StanData) -> Witness | ShownWitness | StoredWitness:
        original, adopted = self.original(), self.adopted
        woven = adopted.woven
        prior = self.density().bind(self.no_rows(checked))
        if isinstance(checked, StoredRows):
            return StoredWitness(original, adopted.original, self.program, checked, prior)
        shown = self._shown(checked, prior.n_params)
        if shown:
            prior.close()

        def of(data: StanData, prior: BoundModel) -> Witness:
            return Witness(
                original,
                adopted.original,
                self.program,
                data,
                prior,
                whole=woven is not None and (woven.numbered or bool(woven.frozen)),
                threads=self.threads,
                blocks=1 if self.engine.capabilities.in_process else self.threads,
            )

        if not shown:
            return of(checked, prior)
        blocks = [of(data, self.density().bind(self.no_rows(data))) for data in shown]
        return ShownWitness(blocks, self.program.n_obs(checked))

    def _shown(self, checked: StanData, n_params: int) -> list[StanData]:
        """Rows for the author's program, in blocks, if there are very many and it must see all.

        It computes statistics of those that it sees, and so do we of the same rows.
        """
        woven, program = self.adopted.woven, self.program
        if woven is None or woven.numbered or not woven.frozen or program.n_obs(checked) <= SHOWN:
            return []
        chunk = rows_of(program, checked)
        weights = chunk.pop(program.weights)
        rows = shown_rows(chunk, SHOWN)
        for count in (-(-len(rows) // MAX_ROWS_PER_CHUNK), 1):
            blocks = [rows[start::count] for start in range(count)]
            shown = [self._complete(checked, block, weights[block]) for block in blocks]
            # A statistic may count categories or levels.
            if all(len(self._param_names(data)) == n_params for data in shown):
                return shown
        return []

    def _complete(self, checked: StanData, rows: np.ndarray, weights: Float) -> StanData:
        """Some rows as data of their own, with statistics of these rows."""
        return self.adopted.complete(self.program.subset(checked, rows, weights), self.engine)

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
        if not isinstance(other, CmdStanEngine):
            return ""
        ours, theirs = self.original(), self._original_by(other)
        if theirs is None:
            return ""
        data, program = in_memory(checked), self.program
        count = program.n_obs(data)
        if count > _COMPARED_ROWS:
            rows = np.linspace(0, count - 1, _COMPARED_ROWS).astype(np.int64)
            data = program.subset(data, rows, np.asarray(data[program.weights])[rows])
        names = {declared.name for declared in self.adopted.original.data}
        own = {name: value for name, value in data.items() if name in names}
        engines = {self.engine.version: ours, other.version: theirs}
        share = min(1.0, _COMPARED_ROWS / count)
        self.full_data(checked).passes.add(densities=len(draws), share=share)
        return compare_engines(engines, own, draws, tolerance=tolerance)

    def _original_by(self, other: CmdStanEngine) -> Compiled | None:
        """The author's program by CmdStan; None if it would have to be compiled, unless asked."""
        density = self.adopted.density
        controlled = controlled_for(self.program, other, behind=self.behind)
        weighted = self.adopted.woven is None  # by its author: one executable serves as both
        code = controlled.code if weighted else density.code
        name = self.program.program.name if weighted else density.name
        if self.second == "auto" and not other.has_compiled(code, name=name):
            return None
        compiled = other.compile(code, name=name, log_lik=self.program.log_lik)
        return CompiledWithControl(compiled, controlled) if weighted else compiled

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
        n_obs = self.program.n_obs(checked)
        if candidates < 1:
            raise OptionError(f"candidates is {candidates}, expected at least 1")
        count = min(candidates, n_obs)
        if by_kernel:
            rows = self._standing(checked, count, seed)
            rows = rows if extra is None else np.union1d(rows, extra)
            return rows, self.bind_rows(checked, rows)
        rng = np.random.default_rng([seed, 7])
        # For rows on disk: the random sample in memory, if it is large enough.
        sampled = checked.sample_rows if isinstance(checked, StoredRows) else ()
        among = n_obs if len(sampled) < count else sampled
        rows = np.sort(rng.choice(among, size=count, replace=False)).astype(np.int64)
        if different:
            found = repeats(self.program, self.program.subset(checked, rows))
            rows = rows if found is None else rows[found.first]
        if extra is not None:
            rows = np.union1d(rows, extra)
        return rows, self.bind_rows(checked, rows)

    def _standing(self, checked: StanData, count: int, seed: int) -> np.ndarray:
        """Numbers of rows that stand for all, or for the sample of those on disk."""
        if isinstance(checked, StoredRows):
            return np.sort(checked.sample_rows[self._standing(checked.sample, count, seed)])
        values = rows_of(self.program, checked)
        weights = values.pop(self.program.weights)
        return kernel_rows(values, count, weights=weights / weights.sum(), seed=seed)

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
        if control is None or control.param_names == (names := self._seen_names(checked)):
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

    def kept(self, checked: StanData, coreset: Coreset) -> StanData:
        """The coreset's rows, so that it may be merged without the full data."""
        rows, names = self.rows(checked, coreset), names_of(checked)
        return NamedData(rows, names) if names else rows

    def sample(
        self,
        checked: StanData,
        coreset: Coreset | None,
        *,
        nuts: NUTS,
        seed: int,
        inits: Any = None,
        output_dir: str | Path | None = None,
        show_progress: bool = False,
        near: Float | None = None,
    ) -> SampleResult:
        """Run NUTS on the coreset, or on all rows; draws `near` the posterior give its metric."""
        folder = None if output_dir is None else str(check_path("output_dir", output_dir))
        own = self.bind(checked, coreset)
        give_back_memory(8.0 * nuts.chains * nuts.draws * own.n_params)
        with self.effects.coordinates(own, self.rows(checked, coreset), near) as moving:
            there = None if near is None else moving.of(near)
            inv_metric = None if there is None else metric_near(moving.bound, there, mixed=True)
            nuts = nuts.completed(inv_metric)
            with chain_bars(nuts, show_progress and not nuts.show_console) as on_iteration:
                return moving.sample(
                    seed=seed,
                    inits=self.initial_points(own, inits, nuts.chains, seed),
                    output_dir=folder,
                    on_iteration=on_iteration,
                    inv_metric=inv_metric,
                    **vars(nuts),
                )

    def require_one_to_one(self) -> None:
        """Raise if a parameter's unconstrained coordinates are lost, so that q has no density."""
        for declared in self.program.program.parameters:
            if declared.constraint.kind in NOT_ONE_TO_ONE:
                raise OptionError(
                    f"method is 'gaussian', but '{declared.name}' is a {declared.type.base} whose "
                    "unconstrained coordinates have a length that it does not show, so that its "
                    "draws cannot be weighted; leave method out"
                )

    def _transformed(self, checked: StanData, draws: Float) -> dict[str, Float]:
        """Transformed parameters without an element per row, at draws that no sampler made."""
        program = self.program.program
        declared = [d.name for d in program.transformed_parameters]
        names = tuple(name for name in declared if name not in self.program.row_parameters)
        code = as_quantities(program) if names else ""
        if not code:
            return {}
        compiled = self.evaluating.compile(code, name=program.name)
        with compiled.bind(self.no_rows(checked)) as bound:
            return bound.generated(draws, names)

    def gaussian_draws(
        self, checked: StanData, reference: Reference, nuts: NUTS, seed: int
    ) -> SampleResult:
        """Independent draws of a Gaussian reference, in as many chains as NUTS would run."""
        started = time.perf_counter()
        rng = np.random.default_rng([seed, 37])
        draws = reference.gaussian.draw(nuts.chains * nuts.draws, rng)
        shaped = draws.reshape(nuts.chains, nuts.draws, -1)
        return self.independent(checked, shaped, seed, started)

    def independent(
        self, checked: StanData, unconstrained: Float, seed: int, started: float
    ) -> SampleResult:
        """Draws that no sampler made, (chains, draws, P), as the result of one."""
        shape = unconstrained.shape[:2]
        draws = unconstrained.reshape(shape[0] * shape[1], -1)
        full = self.full_data(checked)
        values = {**full.prior.constrain(draws), **self._transformed(checked, draws)}
        return SampleResult(
            variables={name: v.reshape(*shape, *v.shape[1:]) for name, v in values.items()},
            stats={},
            unconstrained=unconstrained,
            seconds=time.perf_counter() - started,
            settings={"chains": shape[0], "iter_sampling": shape[1], "seed": seed},
        )

    def initial_points(self, bound: BoundModel, inits: Any, chains: int, seed: int) -> Float | None:
        """Starting points of the chains, see `stancoreset.engines.inits`."""
        program = self.program.program
        others = {d.name for d in (*program.transformed_parameters, *program.generated_quantities)}
        return initial_points(bound, inits, chains, seed, others)

    def unconstrained(
        self, checked: StanData, posterior: Any, count: int | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """`count` evenly spaced draws in unconstrained coordinates, and their indices."""
        prior = self.full_data(checked).prior
        flat = self._flat(prior, posterior)
        total = len(next(iter(flat.values())))
        spaced = np.linspace(0, total - 1, min(count or total, total))
        index = np.unique(spaced.round().astype(np.int64))
        return prior.unconstrain({name: value[index] for name, value in flat.items()}), index

    def points(self, checked: StanData, posterior: Any) -> Float:
        """All draws in unconstrained coordinates, (S, P); no row is bound to the engine."""
        with self.density().bind(self.no_rows(checked)) as prior:
            return prior.unconstrain(self._flat(prior, posterior))

    def parameters(self, bound: BoundModel, posterior: Any) -> dict[str, Float]:
        """The parameters' draws by name, chain by chain; empty parameters have none."""
        known = parameter_names(bound)
        names = [d.name for d in self.program.program.parameters if d.name in known]
        return arviz.finite_variables_of(posterior, names)

    def _flat(self, bound: BoundModel, posterior: Any) -> dict[str, Float]:
        """The parameters' draws of all chains by name, each (S, *shape)."""
        variables = self.parameters(bound, posterior)
        return {name: v.reshape(-1, *v.shape[2:]) for name, v in variables.items()}

    def canonical(self, checked: StanData, draws: Float) -> Float:
        """Unconstrained draws as `unconstrained` returns them: unit vectors have length one."""
        if not any(d.constraint.kind in NOT_ONE_TO_ONE for d in self.program.program.parameters):
            return draws
        prior = self.full_data(checked).prior
        return prior.unconstrain(prior.constrain(draws))

    def coreset_log_likelihood(self, checked: StanData, coreset: Coreset, draws: Float) -> Float:
        """Σ_n w_n L_n(θ) and the control variate, up to a constant: (S, P) → (S,)."""
        with self.bind(checked, coreset) as bound:
            return bound.log_density(draws) - self.full_data(checked).log_prior(draws)

    def labels(self, checked: StanData, given: Labels) -> Labels:
        """Names for the dimensions of draws: those given, if they fit, and those of the data."""
        require_fitting(self.adopted.original, checked, given)
        return given.over(labels_of(self.adopted.original, checked))

    def draws_container(self, draws: Float, full: FullData, labels: Labels) -> arviz.Container:
        """Convert unconstrained draws to an ArviZ container of one chain."""
        values = full.prior.constrain(draws)
        rows = {name: value[None] for name, value in values.items()}
        return arviz.posterior_container(rows, coords=labels.coords, dims=labels.dims)

    def container(
        self,
        result: SampleResult,
        coreset: Coreset | None,
        provenance: Mapping[str, Any],
        labels: Labels,
    ) -> arviz.Container:
        """Convert NUTS' result to an ArviZ container, without variables by row."""
        dropped = self.program.row_parameters
        kept = {k: v for k, v in result.variables.items() if k not in dropped}
        warmup = {k: v for k, v in result.warmup_variables.items() if k not in dropped}
        constant: dict[str, Any] = {}
        if coreset is not None:
            constant = {"coreset_row": coreset.indices, "coreset_weight": coreset.weights}
        # Rows and weights share a dimension.
        shared = {name: [_CORESET_DIM] for name in constant}
        return arviz.from_result(
            replace(result, variables=kept, warmup_variables=warmup),
            constant_data=constant or None,
            attrs={**provenance, **result.settings},  # as NUTS ran, whatever was asked for
            coords=labels.coords,
            dims={**labels.dims, **shared},
        )

    def reference_container(
        self, reference: Reference, full: FullData, labels: Labels
    ) -> arviz.Container:
        """The reference on the parameters' own scale, with enough draws for comparison."""
        draws = reference.draws
        if reference.spare is None:
            rng = np.random.default_rng([reference.seed, 13])
            draws = reference.gaussian.draw(_SHOWN_DRAWS, rng)
        else:  # a picture of the few on which rows are selected would be noise
            more = min(_SHOWN_DRAWS, BLOCK // draws.shape[1]) - len(draws)
            draws = np.concatenate([draws, reference.spare[: max(0, more)]])
        return self.draws_container(draws, full, labels)

    def provenance(self, checked: StanData, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The provenance of a result: program, data, versions, settings."""
        return {
            "program": self.program.program.name,
            "program_hash": content_key(self.program.code),
            "rows_see": self.told,
            "data_hash": content_hash(checked),
            **(checked.describe() if isinstance(checked, StoredRows | LoadedRows) else {}),
            "n_obs": self.program.n_obs(checked),
            **self._units(checked),
            **({} if self.adopted.asked is None else {"obs_asked": self.adopted.asked}),
            "engine": self.engine.version,
            "stancoreset": __version__,
            "python": platform.python_version(),
            **settings,
        }

    def _units(self, checked: StanData) -> dict[str, str]:
        """Names of the observations for a report: cells, segments or several counts."""
        program = self.program
        named = program.counted or program.table is not None or program.segments
        return {"observations": program.observations(checked)} if named else {}

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


def in_memory(checked: StanData) -> StanData:
    """The data, or a random sample of rows that stay on disk."""
    return checked.sample if isinstance(checked, StoredRows) else checked


def _other_parameters(control: ControlVariate, names: Sequence[str]) -> ControlError:
    return ControlError(
        f"the coreset's control variate belongs to {len(control.param_names)} other "
        f"parameters ({_listed(control.param_names)}); program and data have "
        f"{len(names)} ({_listed(names)}): select the coreset again "
        "with this program and these data"
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (", …" if len(names) > 4 else "")
