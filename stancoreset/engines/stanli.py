"""The embedded engine: Stan programs interpreted in this process by stanli.

It needs no C++ toolchain and no compilation: a program is ready in milliseconds. stanli provides
BridgeStan's C interface for densities, gradients and generated quantities, and its calls
release the GIL, so draws are distributed over threads.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from stancoreset.engines.base import (
    Capabilities,
    Closing,
    Density,
    Float,
    SampleResult,
    StanData,
    Unconstrain,
    as_points,
)
from stancoreset.engines.chain_csv import Chain
from stancoreset.engines.climbing import mode_of
from stancoreset.engines.layout import Layout
from stancoreset.engines.nuts import NUTS
from stancoreset.engines.stanli_notes import (
    hear_notes,
    interpreted_statement,
    log_notes,
    notes_of,
    without_notes,
)
from stancoreset.engines.stanli_pieces import Piece, Pieces, chain_files, gathered
from stancoreset.engines.stanli_programs import for_stanli
from stancoreset.engines.stanli_threads import in_loading_thread, load
from stancoreset.errors import (
    CompileError,
    DataError,
    EngineError,
    EngineNotFoundError,
    StancoresetError,
)
from stancoreset.parallel import available_cores, map_rows
from stancoreset.processes import give_back_memory
from stancoreset.stan import StanProgram
from stancoreset.stan.data import json_text
from stancoreset.stan.transforms import Transforms


@dataclass(frozen=True)
class StanliEngine:
    """Stan in this process, through the packages ``stanli`` and ``bridgestan``.

    Parameters
    ----------
    threads : int, optional
        Threads that evaluate draws at the same time; default: the available cores.

    Raises
    ------
    EngineNotFoundError
        If stanli or bridgestan is not installed.
    """

    threads: int = field(default_factory=available_cores)
    name: str = "stanli"
    capabilities = Capabilities(
        in_process=True, compiles_at_once=True, samples=True, samples_without_warmup=True
    )

    def __post_init__(self) -> None:
        for package in ("stanli", "bridgestan"):
            if importlib.util.find_spec(package) is None:
                raise EngineNotFoundError(
                    f"engine 'stanli' needs the package {package}, which is not installed; "
                    'install it with: pip install "stancoreset[embedded]"'
                )
        load()

    @property
    def version(self) -> str:
        """Engine name and version, for reports."""
        return _version()

    @property
    def stan_version(self) -> tuple[int, int]:
        """Version of Stan whose constraining transforms stanli uses."""
        return Chain.stan_version  # simplices are as in 2.37

    def compile(
        self, code: str, *, name: str = "model", log_lik: str = "log_lik"
    ) -> StanliCompiled:
        """Translate Stan code to stanli's own format; raise `CompileError`."""
        return StanliCompiled(code, name, *_translate(code), self.threads, log_lik)


# Bytes that stanli takes while it reads a byte of text; it frees most of them.
_READING = 60
# What to do about chains that end with such a message.
_ADVICE = {
    "improper": "; give every parameter a proper prior",
    "no finite log density": "; numbers overflow where chains start: bring the data to units of "
    "about 1, or give inits at which the density is finite",
}
# Number of draws from which they are unconstrained at once: a call of stanli takes 60 µs for each,
# to read a program for its formulas a few milliseconds.
_MANY = 100


# What stanli says where it lacks something, as of 0.24.0: an array of tuples is "mir: malformed …",
# and gaussian_dlm_obs takes more arguments than it holds.
_UNABLE = re.compile(
    "unsupported|^mir: |must be int data|an op holds|needs a nonempty"
    "|too deep|exceeds (budget|capacity)"
)
# What stanli calls parts of the language that it lacks.
_LACKING = {
    "JacobianPE": "`jacobian +=`",
    "STuple": "tuples",
    "TupleProjection": "tuples",
    "StochasticRow": "row_stochastic_matrix",
    "StochasticColumn": "column_stochastic_matrix",
}


def _version() -> str:
    import stanli

    return f"stanli {stanli.__version__}"


@functools.lru_cache(maxsize=64)
def _translate(code: str) -> tuple[str, frozenset[str]]:
    """A program in stanli's own format, and the data that it does not read."""
    import stanli

    text, unread = for_stanli(code)
    try:
        return str(stanli.stan_to_mir(text)), unread
    except RuntimeError as error:
        said = str(error)
    try:  # what is wrong with a program, stanli says of the text as it is
        stanli.stan_to_mir(code)
    except RuntimeError as error:
        said = str(error)
    raise CompileError(f"the Stan program does not compile:\n{said}")


@dataclass(frozen=True)
class StanliCompiled:
    """A translated program."""

    code: str
    name: str
    mir: str = field(repr=False)
    unread: frozenset[str]
    threads: int
    log_lik: str = "log_lik"

    def json(self, data: StanData) -> str:
        """The text of the data that the program reads."""
        return json_text({name: data[name] for name in data if name not in self.unread})

    def bind(self, data: StanData, *, seed: int = 0, threads: int | None = None) -> StanliBound:
        """Bind the program to data; raise `DataError` with Stan's own message."""
        return StanliBound(self, data, seed, threads or self.threads)

    def bind_density(self, data: StanData) -> Density:
        """Bind only the log density; see `StanliDensity`, which is for the loading thread."""
        return StanliDensity(self, data) if in_loading_thread() else self.bind(data, threads=1)


def _in_order(names: list[str], code: str) -> tuple[str, ...]:
    """Names of coordinates in their order: Stan counts arrays' columns first, but keeps rows."""
    split = [name.split(".") for name in names]
    if max(map(len, split), default=0) < 3:
        return tuple(names)
    ranks, first = _array_ranks(code), {name: k for k, (name, *_) in reversed([*enumerate(split)])}

    def place(parts: list[str]) -> tuple[int, list[int]]:
        name, *index = parts
        rank = ranks.get(name, 0)
        if not rank or not all(map(str.isdigit, index)):  # of complex numbers they are not
            return first[name], []
        return first[name], [int(one) for one in (*index[:rank], *reversed(index[rank:]))]

    return tuple(".".join(parts) for parts in sorted(split, key=place))


@functools.lru_cache(maxsize=16)
def _array_ranks(code: str) -> dict[str, int]:
    """Numbers of array dimensions of a program's parameters."""
    return {d.name: len(d.size.array) for d in StanProgram.from_code(code).parameters}


def _refused(name: str, error: Exception) -> StancoresetError:
    """An error about the data, or about what stanli itself cannot do."""
    said = str(error)
    if _UNABLE.search(said):
        known = [ours for word, ours in _LACKING.items() if word in said]
        if "too deep" in said:
            said = (
                "functions call themselves, or one another, too many times for it "
                f"({said.removeprefix('stanli compile: ')}): a loop has no such limit"
            )
        elif known:
            said = f"{_version()} has no {known[0]}"
        return EngineError(
            f"stanli cannot run '{name}': {said}; use CmdStan for this program (engine=\"cmdstan\")"
        )
    said = re.sub(r"stanli (MIR check|compile|prepare_data): ", "", said)
    return DataError(
        f"Stan refuses the data of the program '{name}': {said}; compare the data with its "
        "blocks data and transformed data"
    )


class StanliDensity:
    """A log density that reads its data four times as fast as `StanliBound`.

    It uses stanli's own model, which always computes the gradient: an evaluation costs more. Only
    the thread that loaded stanli may evaluate it.
    """

    def __init__(self, compiled: StanliCompiled, data: StanData) -> None:
        import stanli

        text = compiled.json(data)
        self._took = _READING * len(text)
        try:
            with without_notes():
                self._model: Any = stanli.Model(mir=compiled.mir, data=text)
        except (RuntimeError, ValueError) as error:
            raise _refused(compiled.name, error) from None

    def log_density(self, draws: Float) -> Float:
        """See `BoundModel.log_density`."""

        def one(row: Float) -> float:
            try:
                return float(self._model.log_prob_grad(row)[0])
            except RuntimeError:  # Stan rejects this point: outside the support
                return -np.inf

        return np.array([one(row) for row in draws], dtype=np.float64)

    def close(self) -> None:
        """Release Stan's copy of the data."""
        if self._model is not None:
            self._model = None
            give_back_memory(self._took)


class StanliBound(Closing):
    """A translated program with its data; see `stancoreset.engines.base.BoundModel`."""

    def __init__(self, compiled: StanliCompiled, data: StanData, seed: int, threads: int) -> None:
        self._compiled = compiled
        self._threads = threads
        self._data = data
        self._seed = seed
        self._model, notes = self._construct(compiled)
        log_notes(compiled.name, notes, lambda: interpreted_statement(compiled.code, self._noted))
        self.n_params = int(self._model.param_unc_num())
        self.param_names = _in_order(self._names(self._model.param_unc_names()), compiled.code)
        self._layout = Layout.from_names(self._names(self._model.param_names()))

    @staticmethod
    def _names(names: list[str]) -> list[str]:
        # An empty list arrives as one empty name.
        return [] if names == [""] else names

    def _noted(self, code: str) -> bool:
        """Whether stanli has something to say of another program with these data."""
        mir, unread = _translate(code)
        other = replace(self._compiled, code=code, mir=mir, unread=unread)
        return bool(self._construct(other)[1])

    def _construct(self, compiled: StanliCompiled) -> tuple[Any, list[str]]:
        """stanli's model, and its notes."""
        import bridgestan
        import stanli

        # As stanli.bridgestan_model, without its two passes of Python's json over
        # the data: the program travels under the reserved key "__stanli".
        # A name that the locale could not read is not UTF-8, which its reader of JSON needs.
        name = compiled.name.encode(errors="replace").decode()
        head = json.dumps({"build_id": stanli.build_id(), "mir": compiled.mir, "name": name})
        rest = compiled.json(self._data).lstrip()[1:].lstrip()
        payload = f'{{"__stanli":{head}' + (rest if rest.startswith("}") else "," + rest)
        hear_notes()
        try:
            with notes_of() as notes:
                model = bridgestan.StanModel(
                    stanli._runtime_lib_path(),
                    payload,
                    seed=self._seed,
                    warn=False,
                    capture_stan_prints=False,
                )
        except RuntimeError as error:
            raise _refused(compiled.name, error) from None
        model.data = ""  # the text, which it keeps to print itself
        self._took = _READING * len(payload)
        del payload
        give_back_memory(self._took)
        return model, notes

    def _map(self, function: Callable[[Float], Any], draws: Float) -> list[Any]:
        rows = as_points(draws, self.n_params, self._compiled.name)
        return map_rows(function, rows, self._threads)

    def log_density(self, draws: Float) -> Float:
        """See `BoundModel.log_density`."""

        def one(row: Float) -> float:
            try:
                return float(self._model.log_density(row))
            except RuntimeError:  # Stan rejects this point: outside the support
                return -np.inf

        return np.array(self._map(one, draws), dtype=np.float64)

    def log_density_gradient(self, draws: Float) -> tuple[Float, Float]:
        """See `BoundModel.log_density_gradient`."""

        def one(row: Float) -> tuple[float, Float]:
            try:
                value, gradient = self._model.log_density_gradient(row)
            except RuntimeError:
                return -np.inf, np.full(self.n_params, np.nan)
            return float(value), np.array(gradient)

        pairs = self._map(one, draws)
        return np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs])

    @functools.cached_property
    def _generated_columns(self) -> tuple[Layout, int]:
        names = self._names(self._model.param_names(include_tp=True, include_gq=True))
        skip = len(self._names(self._model.param_names(include_tp=True)))
        return Layout.from_names(names[skip:]), skip

    def generated(
        self, draws: Float, names: tuple[str, ...] | None, seed: int = 0
    ) -> dict[str, Float]:
        """See `BoundModel.generated`."""
        layout, skip = self._generated_columns
        names = layout.chosen(names, self._compiled.name)
        if not names:
            return {}
        keep = np.concatenate([layout.columns[name].ravel() for name in names]) + skip
        rows = as_points(draws, self.n_params, self._compiled.name)
        out = np.empty((len(rows), len(keep)))
        # Not in threads, where bridgestan now and then fails to set up its call.
        streams = [self._model.new_rng(seed + index) for index in range(len(rows))]

        def one(index: int) -> None:
            try:
                values = self._model.param_constrain(
                    rows[index], include_tp=True, include_gq=True, rng=streams[index]
                )
            except RuntimeError as error:
                raise EngineError(
                    f"Stan cannot evaluate generated quantities at draw {index}: {error}"
                ) from None
            out[index] = values[keep]

        map_rows(one, np.arange(len(rows)), self._threads)
        result, start = {}, 0
        for name in names:
            stop = start + layout.columns[name].size
            result[name] = out[:, start:stop].reshape(len(rows), *layout.shapes[name])
            start = stop
        return result

    def log_lik(self, draws: Float) -> Float:
        """See `BoundModel.log_lik`."""
        name = self._compiled.log_lik
        return self.generated(draws, (name,))[name]

    def constrain(self, draws: Float) -> dict[str, Float]:
        """See `BoundModel.constrain`."""
        return self._layout.split(np.array(self._map(self._model.param_constrain, draws)))

    def unconstrain(self, values: Mapping[str, Float]) -> Float:
        """See `BoundModel.unconstrain`."""
        rows = self._layout.join(values)
        if len(rows) >= _MANY:
            # A type without closed formulas is refused; stanli's own message says more.
            with suppress(StancoresetError):
                program = StanProgram.from_code(self._compiled.code)
                found = Transforms.from_program(program, self._data).unconstrain(values)
                # The last draw says whether they are stanli's coordinates.
                if np.allclose(found[-1], self._unconstrained(rows[-1:])[0]):
                    return found
        return self._unconstrained(rows)

    def _unconstrained(self, rows: Float) -> Float:
        try:
            found = map_rows(self._model.param_unconstrain, rows, 1)
        except RuntimeError as error:
            raise DataError(f"a draw lies outside the parameters' support: {error}") from None
        return np.array(found, dtype=np.float64).reshape(-1, self.n_params)

    def mode(self, *, init: Float | None = None, seed: int = 0, max_iter: int = 2000) -> Float:
        """See `BoundModel.mode`.

        It does not use stanli's own optimizer, which only the thread that loaded stanli may ask
        (seen with 0.24.0).
        """
        return mode_of(self, name=self._compiled.name, init=init, seed=seed, max_iter=max_iter)

    def sample(
        self,
        *,
        seed: int = 0,
        inits: Float | None = None,
        output_dir: str | None = None,
        on_iteration: Callable[[int, int], object] | None = None,
        inv_metric: Float | None = None,
        unconstrain: Unconstrain | None = None,
        **options: Any,
    ) -> SampleResult:
        """See `BoundModel.sample`."""
        import stanli

        nuts = NUTS.of(options).completed(inv_metric)
        nuts.require_capabilities("stanli", StanliEngine.capabilities)
        started, settings = time.perf_counter(), {**nuts.settings(), "seed": seed}
        names = self._names(self._model.param_names(include_tp=True, include_gq=True))
        stored = nuts.apart if output_dir is None else int(nuts.thin)
        # stanli's constructor takes its own copy of the data; it is made only for fitting.
        text = self._compiled.json(self._data)
        with without_notes():
            model = stanli.Model(mir=self._compiled.mir, data=text, seed=self._seed)
        del text
        pieces = Pieces(model, nuts, self._compiled.code, len(names), stored)
        about = Chain(
            model=self._compiled.name,
            engine=_version(),
            seed=seed,
            draws=-(-int(nuts.iter_sampling) // int(nuts.thin)),
            thin=int(nuts.thin),
            warmup=nuts.warmup,
            delta=nuts.delta,
            max_depth=int(nuts.max_treedepth),
        )

        def result(piece: Piece) -> SampleResult:
            write(piece)
            draws, stats, kept = piece.every(nuts.apart)
            give_back_memory(draws.nbytes)
            return SampleResult.of(
                Layout.from_names(self._names(piece.fit.names)).split(draws),
                stats,
                kept,
                unconstrain or self.unconstrain,
                seconds=0.0,
                settings=settings,
                native=piece.fit,
                inv_metric=piece.inv_metric,
            )

        try:
            with chain_files(output_dir, about) as write:
                run = pieces.run(
                    seed=seed,
                    inits=inits,
                    inv_metric=inv_metric,
                    on_iteration=on_iteration,
                    threads=self._threads,
                    unconstrain=self.unconstrain,
                )
                found = gathered(map(result, run), nuts.draws)
        except RuntimeError as error:
            advice = next((todo for what, todo in _ADVICE.items() if what in str(error)), "")
            raise EngineError(f"sampling '{self._compiled.name}' failed: {error}{advice}") from None
        return replace(found, seconds=time.perf_counter() - started)

    def close(self) -> None:
        """Release Stan's copy of the data."""
        if self._model is not None:
            self._model = None
            self._data = {}
            give_back_memory(self._took)
