"""CoresetModel: the one place that knows the order of the steps.

program → engine → reference → projection → solver → coreset → NUTS → certificate
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stancoreset import __version__, arviz_compat
from stancoreset.adaptive import initial_draws, select_adaptively
from stancoreset.certificate import Certificate, certify
from stancoreset.coreset import Coreset, select
from stancoreset.coreset_posterior import select_in_the_loop
from stancoreset.engines import resolve_engine
from stancoreset.engines.base import Engine, SampleResult, StanData
from stancoreset.errors import OptionError
from stancoreset.files import content_key
from stancoreset.fisher import extend_fisher, project_fisher
from stancoreset.fit import CoresetFit
from stancoreset.full_data import FullData
from stancoreset.in_the_loop import METHODS as IN_THE_LOOP
from stancoreset.projection import Projection, default_candidates, extend, project
from stancoreset.reference.base import Reference
from stancoreset.reference.draws import from_draws
from stancoreset.reference.laplace import laplace
from stancoreset.run_folder import RunFolder
from stancoreset.session import Session
from stancoreset.stages import Stages
from stancoreset.stan.adopt import adopt
from stancoreset.stan.data import data_hash
from stancoreset.stan.identities import (
    Identity,
    check_identities,
    identity_table,
    require_identities,
)
from stancoreset.stan.program import StanProgram, WeightedProgram

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CoresetModel"]

_HELDOUT_DRAWS = 200
_CERTIFIED_DRAWS = 1_000
_SHOWN_DRAWS = 4_000
_PROJECTIONS = {"loglik": project, "fisher": project_fisher}


class CoresetModel:
    """A Stan program whose posterior is to be had from a few weighted rows.

    Parameters
    ----------
    stan_file : str or Path, optional
        A Stan program, as it is: every row's contribution to the log density gets a weight.
        A program that is weighted already (see Notes) is used unchanged.
    stan_code : str, optional
        The program's text, instead of a file.
    engine : {"auto", "cmdstan", "stanli"} or Engine
        How Stan is run; ``"auto"`` takes CmdStan if it is installed, else stanli.
    obs : str, optional
        Name of the data integer that counts observations; found by itself unless
        ambiguous.

    Attributes
    ----------
    program : WeightedProgram
    engine : Engine

    Raises
    ------
    DataError
        If there is no such file.
    ProgramError
        If the program's own weights do not meet the contract, or it cannot be cut to rows;
        a `WeaveError` if its rows cannot be weighted one by one, with line and reason.
    CompileError
        If Stan refuses the program; the message carries Stan's line and words.
    EngineNotFoundError
        If the engine is not installed.

    Notes
    -----
    A weighted program declares the number of observations and
    ``vector<lower=0>[N] weights`` in its data block, adds ``weights[n] *`` the log density
    of each row in the model block, and defines ``vector[N] log_lik`` without weights in
    generated quantities.

    Examples
    --------
    >>> import numpy as np, stancoreset as sc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> y = rng.random(5000) < 1 / (1 + np.exp(-X @ [1.0, -1.0]))
    >>> data = dict(N=5000, D=2, X=X, y=y.astype(int), alpha_scale=5.0, beta_scale=2.5)
    >>> model = sc.CoresetModel(sc.stan_model_path("logistic"), engine="stanli")
    >>> fit = model.fit(data, size=50, seed=1)
    >>> fit.certificate.verdict
    'certified'
    """

    def __init__(
        self,
        stan_file: str | Path | None = None,
        *,
        stan_code: str | None = None,
        engine: str | Engine = "auto",
        obs: str | None = None,
    ) -> None:
        if (stan_file is None) == (stan_code is None):
            raise OptionError("give either stan_file or stan_code, and not both")
        program = (
            StanProgram.from_file(stan_file)
            if stan_file is not None
            else StanProgram.from_code(str(stan_code))
        )
        self._adopted = adopt(program, obs=obs)
        self.program: WeightedProgram = self._adopted.weighted
        self.engine = resolve_engine(engine)
        self._session = Session(self.program, self.engine)

    def __repr__(self) -> str:
        return f"CoresetModel({self.program.program.name!r}, engine={self.engine.name!r})"

    # The steps ---------------------------------------------------------------------------

    def fit(
        self,
        data: Any,
        *,
        size: int = 200,
        method: str = "pursuit",
        reference: Any = "laplace",
        projection: str = "loglik",
        draws: int | None = None,
        candidates: int | None = None,
        seed: int = 0,
        chains: int = 4,
        iter_warmup: int = 1000,
        iter_sampling: int = 1000,
        adapt_delta: float = 0.8,
        max_treedepth: int = 10,
        parallel_chains: int | None = None,
        coords: Mapping[str, Sequence[Any]] | None = None,
        dims: Mapping[str, Sequence[str]] | None = None,
        show_progress: bool | None = None,
        output_dir: str | Path | None = None,
        resume: bool = False,
        overwrite: bool = False,
        engine_output_dir: str | Path | None = None,
        stages: Stages | None = None,
        **options: Any,
    ) -> CoresetFit:
        """Reference, projection, selection, NUTS on the coreset, certificate.

        Parameters
        ----------
        data : mapping or path
            The full data: a dict of arrays, or a path to Stan JSON, ``.npz`` or
            ``.parquet``. ``weights`` need not be there; if they are (counts of equal rows,
            survey weights), they belong to the full posterior.
        size : int
            At most this many rows in the coreset, k.
        method : str
            Selection algorithm, one of ``stancoreset.solvers.METHODS``, which work on a
            projection; or of ``stancoreset.in_the_loop.METHODS``, ``"quasi_newton"`` and
            ``"sparse_vi"``, which draw from the coreset's own posterior as it grows: the
            reference then only starts the chains.
        reference : "laplace", or posterior draws
            Where the log likelihood is matched: the Laplace fit, or draws that you have
            (ArviZ container, cmdstanpy fit, dict of arrays, or array (S, P) of
            unconstrained draws).
        projection : {"loglik", "fisher"}
            What is matched there: the log likelihood's values, or its gradient (the weighted
            Fisher information norm; see `stancoreset.fisher`).
        draws : int, optional
            Reference draws S that selection sees; default: doubled until the held-out
            error stops improving, up to 2,000. In the loop: draws of each coreset posterior.
        candidates : int, optional
            Rows M that selection may choose from; default min(N, max(20,000, 50·size)).
        seed : int
            Seed of everything random.
        chains, iter_warmup, iter_sampling, adapt_delta, max_treedepth, parallel_chains
            As in cmdstanpy's ``sample``.
        coords, dims : dict, optional
            Names for the dimensions of parameters, as in ArviZ: with ``dims={"beta":
            ["predictor"]}`` and ``coords={"predictor": ["age", "income"]}`` tables and plots
            say ``beta[age]``.
        show_progress : bool, optional
            Bars on standard error; default: only in a terminal.
        output_dir : path, optional
            Folder for the results; finished stages are written as they end.
        resume : bool
            Go on in `output_dir` from the stages that an interrupted run has finished.
        overwrite : bool
            Replace an earlier run of ours in `output_dir`.
        engine_output_dir : path, optional
            Where CmdStan's own CSV files are kept; default: they are temporary.
        stages : Stages, optional
            A stopwatch of your own.
        **options
            Passed to the selection algorithm; for methods in the loop also ``sampler``
            (``"laplace"`` or ``"nuts"``), ``subsample`` and ``warmup``, see
            `stancoreset.coreset_posterior.select_in_the_loop`.

        Returns
        -------
        CoresetFit

        Raises
        ------
        DataError, OptionError, IdentityError, ReferenceFitError, SolverError, EngineError
            Each names what is at fault and what to do.
        """
        stages = stages or Stages(show_progress)
        sampler = {
            "chains": chains,
            "iter_warmup": iter_warmup,
            "iter_sampling": iter_sampling,
            "adapt_delta": adapt_delta,
            "max_treedepth": max_treedepth,
        }
        labels = {"coords": coords, "dims": dims}
        settings: dict[str, Any] = {
            "size": size,
            "method": method,
            "reference": reference if isinstance(reference, str) else "draws",
            "projection": projection,
            "draws": draws,
            "candidates": candidates,
            "seed": seed,
            **sampler,
            **options,
        }
        require_projection(projection, method)
        with stages("read data"):
            checked = self.read(data)
            n_obs = self.program.n_obs(checked)
            require_size(size, n_obs)
            provenance = self._provenance(checked, settings)
        folder = RunFolder.open(output_dir, provenance, resume=resume, overwrite=overwrite)
        with stages("compile"):
            self._session.compile()
        if not folder.finished("reference"):
            with stages("check program"):
                self._identities(require_identities, checked, seed=seed)
        full = self._session.full_data(checked, stages)
        full.passes.reset()

        def make_reference() -> Reference:
            count = draws or initial_draws(size)
            with stages("reference", total=count) as tick:
                return self._reference(full, reference, count, seed, tick)

        ref = folder.once("reference", make_reference)

        def make_coreset() -> Coreset:
            pool_size = candidates or default_candidates(n_obs, size)
            if method in IN_THE_LOOP:
                with stages("select") as tick:
                    chosen = select_in_the_loop(
                        self._session,
                        checked,
                        full,
                        size,
                        method,
                        draws=draws,
                        candidates=pool_size,
                        seed=seed,
                        progress=tick,
                        **options,
                    )
                return replace(chosen, provenance=provenance)
            chosen = self._select(
                full,
                checked,
                ref,
                pool_size,
                stages,
                lambda projected: select(projected, size, method, seed=seed, **options),
                kind=projection,
                adaptive=draws is None,
                seed=seed,
            )
            return replace(chosen, provenance=provenance)

        coreset = folder.once("coreset", make_coreset)
        native: list[Any] = []

        def make_posterior() -> Any:
            with stages("sample"):
                result = self._session.sample(
                    checked,
                    coreset,
                    inits=initial_points(ref, chains, seed),
                    seed=seed,
                    parallel_chains=parallel_chains,
                    output_dir=engine_output_dir,
                    **sampler,
                )
            native.append(result.native)
            return self._container(result, coreset, provenance, labels)

        posterior = folder.once("posterior", make_posterior)

        def make_certificate() -> Certificate:
            with stages("certify", total=_CERTIFIED_DRAWS) as tick:
                return self._certify(checked, coreset, posterior, _CERTIFIED_DRAWS, tick)

        fit = CoresetFit(
            coreset=coreset,
            posterior=posterior,
            certificate=folder.once("certificate", make_certificate),
            reference=ref,
            laplace=self._reference_container(ref, full, labels),
            timings=stages.seconds,
            settings=settings,
            provenance=provenance,
            passes=full.passes.as_dict(),
            native=native[0] if native else None,
        )
        if folder.path is not None:
            fit.save(folder.path)
        return fit

    def reference(
        self, data: Any, method: Any = "laplace", *, draws: int = 500, seed: int = 0
    ) -> Reference:
        """Draws from the reference distribution.

        Parameters
        ----------
        data : mapping or path
            The full data.
        method : "laplace", or posterior draws
            See `fit`.
        draws : int
            How many, S.
        seed : int

        Returns
        -------
        Reference
        """
        return self._reference(self._session.full_data(self.read(data)), method, draws, seed, None)

    def project(
        self,
        data: Any,
        reference: Reference,
        *,
        projection: str = "loglik",
        candidates: int = 20_000,
        heldout: int = _HELDOUT_DRAWS,
        seed: int = 0,
    ) -> Projection:
        """Target, candidate matrix and held-out pair on a reference.

        Parameters
        ----------
        data : mapping or path
            The full data.
        reference : Reference
        projection : {"loglik", "fisher"}
            See `fit`.
        candidates : int
            Rows M that selection may choose from; all rows if there are fewer.
        heldout : int
            Draws that measure the held-out error.
        seed : int
            Which rows are candidates.

        Returns
        -------
        Projection
        """
        require_projection(projection)
        checked = self.read(data)
        rows, pool = self._session.pool(checked, candidates, seed)
        with pool:
            full = self._session.full_data(checked)
            return _PROJECTIONS[projection](full, pool, rows, reference, heldout=heldout)

    def sample(
        self,
        data: Any,
        coreset: Coreset | None = None,
        *,
        inits: np.ndarray | None = None,
        seed: int = 0,
        coords: Mapping[str, Sequence[Any]] | None = None,
        dims: Mapping[str, Sequence[str]] | None = None,
        **options: Any,
    ) -> Any:
        """NUTS on the coreset, or on the full data if `coreset` is None.

        Parameters
        ----------
        data : mapping or path
            The full data.
        coreset : Coreset, optional
        inits : ndarray, shape (P,) or (chains, P), optional
            Unconstrained starting points; default: Stan's random inits.
        seed : int
        coords, dims : dict, optional
            Names for the dimensions of parameters, as in ArviZ.
        **options
            ``chains``, ``iter_warmup``, ``iter_sampling``, ``adapt_delta``,
            ``max_treedepth``, ``parallel_chains``, ``output_dir`` (keeps CmdStan's files).

        Returns
        -------
        arviz.InferenceData or xarray.DataTree
            Posterior and sampler statistics.
        """
        checked = self.read(data)
        result = self._session.sample(checked, coreset, inits=inits, seed=seed, **options)
        provenance = self._provenance(checked, {"seed": seed, **options})
        return self._container(result, coreset, provenance, {"coords": coords, "dims": dims})

    def certify(
        self, data: Any, coreset: Coreset, posterior: Any, *, draws: int = _CERTIFIED_DRAWS
    ) -> Certificate:
        """Judge coreset draws on the full data.

        Parameters
        ----------
        data : mapping or path
            The full data.
        coreset : Coreset
        posterior : ArviZ container, cmdstanpy fit or dict of arrays
            Draws of the coreset posterior, as from `sample`.
        draws : int
            How many of them are looked at, evenly spaced.

        Returns
        -------
        Certificate
        """
        checked = self.read(data)
        return self._certify(checked, coreset, posterior, draws)

    def read(self, data: Any) -> dict[str, Any]:
        """Read and check the full data; weights need not be there.

        Raises
        ------
        DataError
            If something is missing, not finite, or of the wrong type or shape.
        """
        return self._adopted.complete(self.program.check(data), self.engine)

    def explain(self) -> pd.DataFrame:
        """What became of each statement that adds to the log density.

        Returns
        -------
        pandas.DataFrame
            ``line``, ``statement``, ``role`` (likelihood, prior, …) and ``why``; empty for a
            program that had its weights already.
        """
        import pandas as pd

        woven = self._adopted.woven
        rows = [] if woven is None else [vars(entry) for entry in woven.explanation]
        table = pd.DataFrame(rows, columns=["line", "text", "role", "why"])
        return table.rename(columns={"text": "statement"})

    def identities(self, data: Any, *, points: int = 5, seed: int = 0) -> pd.DataFrame:
        """Check numerically that the weights do what weights must do.

        Parameters
        ----------
        data : mapping or path
            The full data; a few random rows of them are used.
        points : int
            Random parameter values to check at.
        seed : int

        Returns
        -------
        pandas.DataFrame
            ``name``, ``statement``, worst relative ``error`` and ``passed`` of each identity.
        """
        checked = self.read(data)
        return identity_table(self._identities(check_identities, checked, points, seed))

    def close(self) -> None:
        """Release the engine's copy of the full data."""
        self._session.close()

    def __enter__(self) -> CoresetModel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _identities(
        self,
        check: Callable[..., list[Identity]],
        checked: StanData,
        points: int = 5,
        seed: int = 0,
    ) -> list[Identity]:
        """A woven program is compared with its original too."""
        woven = self._adopted.woven
        return check(
            self.program,
            self.engine,
            checked,
            original=None if woven is None else self._adopted.original,
            freeze=lambda rows: self._adopted.complete(rows, self.engine),
            points=points,
            seed=seed,
        )

    # How the steps are done --------------------------------------------------------------

    def _reference(
        self,
        full: FullData,
        method: Any,
        draws: int,
        seed: int,
        tick: Callable[[int], object] | None,
    ) -> Reference:
        if draws < 2:
            raise OptionError(f"draws is {draws}, expected at least 2 reference draws")
        if not isinstance(method, str):
            return from_draws(full, method, draws, seed, tick)
        if method == "laplace":
            return laplace(full, draws, seed, tick)
        raise OptionError(
            f"reference is {method!r}, expected 'laplace' or posterior draws "
            "(ArviZ container, cmdstanpy fit, dict of arrays, or array)"
        )

    def _select(
        self,
        full: FullData,
        checked: StanData,
        reference: Reference,
        candidates: int,
        stages: Stages,
        choose: Callable[[Projection], Coreset],
        kind: str,
        adaptive: bool,
        seed: int,
    ) -> Coreset:
        """Project and select; with `adaptive`, double the draws while it helps."""
        with stages("bind candidates"):
            rows, pool = self._session.pool(checked, candidates, seed)

        def timed(projection: Projection) -> Coreset:
            with stages("select"):
                return choose(projection)

        def enlarge(projection: Projection) -> Projection:
            more = reference.more(projection.n_draws, stream=projection.n_draws)
            with stages("project", total=len(more)) as tick:
                if kind == "fisher":
                    return extend_fisher(projection, full, pool, reference, more, tick)
                return extend(projection, full, pool, more, tick)

        with pool:
            with stages("project", total=_HELDOUT_DRAWS) as tick:
                first = _PROJECTIONS[kind](
                    full, pool, rows, reference, heldout=_HELDOUT_DRAWS, progress=tick
                )
            # A user's own draws cannot be doubled.
            if adaptive and reference.spare is None:
                chosen = select_adaptively(first, timed, enlarge)
            else:
                chosen = timed(first)
        return replace(chosen, rows=self.program.rows, obs=self.program.obs)

    def _container(
        self,
        result: SampleResult,
        coreset: Coreset | None,
        provenance: dict[str, Any],
        labels: Mapping[str, Any],
    ) -> Any:
        """An ArviZ container without the variables that have one value per row."""
        dropped = self.program.row_parameters
        kept = {k: v for k, v in result.variables.items() if k not in dropped}
        constant = (
            {"coreset_row": coreset.indices, "coreset_weight": coreset.weights}
            if coreset is not None
            else None
        )
        return arviz_compat.from_result(
            replace(result, variables=kept), constant_data=constant, attrs=provenance, **labels
        )

    def _certify(
        self,
        checked: StanData,
        coreset: Coreset,
        posterior: Any,
        count: int,
        tick: Callable[[int], object] | None = None,
    ) -> Certificate:
        log_weights, index = self._session.log_weights(checked, coreset, posterior, count, tick)
        return certify(log_weights, coreset.heldout_error, index)

    @staticmethod
    def _reference_container(
        reference: Reference, full: FullData, labels: Mapping[str, Any]
    ) -> Any:
        """The reference on the parameters' own scale, with enough draws to compare."""
        draws = reference.draws
        if reference.spare is None:
            rng = np.random.default_rng([reference.seed, 13])
            draws = reference.gaussian.draw(_SHOWN_DRAWS, rng)
        values = full.prior.constrain(draws)
        rows = {name: value[None] for name, value in values.items()}
        return arviz_compat.posterior_container(rows, **labels)

    def _provenance(self, checked: StanData, settings: dict[str, Any]) -> dict[str, Any]:
        return {
            "program": self.program.program.name,
            "program_hash": content_key(self.program.code),
            "data_hash": data_hash(checked),
            "n_obs": self.program.n_obs(checked),
            "engine": self.engine.version,
            "stancoreset": __version__,
            "python": platform.python_version(),
            **settings,
        }


def require_size(size: int, n_obs: int) -> None:
    """Raise `OptionError` unless 1 ≤ size ≤ n_obs."""
    if not 1 <= size <= n_obs:
        raise OptionError(
            f"size is {size}, expected a number from 1 to {n_obs}, the rows of the data"
        )


def require_projection(kind: str, method: str = "") -> None:
    """Raise `OptionError` unless there is such a projection, and the method uses one."""
    if method in IN_THE_LOOP and kind != "loglik":
        raise OptionError(
            f"projection is {kind!r}, but method {method!r} draws from the coreset's own posterior "
            "and uses no projection; leave projection out"
        )
    if kind not in _PROJECTIONS:
        raise OptionError(
            f"projection is {kind!r}, expected one of {', '.join(map(repr, _PROJECTIONS))}"
        )


def initial_points(reference: Reference, chains: int, seed: int) -> np.ndarray:
    """Starting points of the chains: draws of the reference, where the posterior is."""
    rng = np.random.default_rng([seed, 11])
    rows = rng.choice(len(reference.draws), size=chains, replace=len(reference.draws) < chains)
    return reference.draws[rows]
