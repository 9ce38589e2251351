"""CoresetModel: what a user does with a Stan program, step by step or all at once."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stancoreset.certificate import Certificate, certify, moved_by
from stancoreset.coreset import Coreset
from stancoreset.engines import resolve_engine
from stancoreset.engines.base import Engine, StanData
from stancoreset.errors import CertificateError, OptionError
from stancoreset.fit import CoresetFit
from stancoreset.merging import keep_rows, merge_parts
from stancoreset.pipeline import Pipeline, divergences
from stancoreset.plan import (
    CERTIFIED_DRAWS,
    HELDOUT_DRAWS,
    PROJECTIONS,
    TAYLOR,
    Plan,
    check_projection,
)
from stancoreset.pointwise import with_log_likelihood
from stancoreset.projection import Projection
from stancoreset.reference.base import Reference
from stancoreset.refinement import MAX_ROUNDS
from stancoreset.rounds import Rounds
from stancoreset.run_folder import RunFolder
from stancoreset.selection import ControlledSelection, corrected_error
from stancoreset.session import Session
from stancoreset.sources import Source, StoredRows
from stancoreset.stages import Stages
from stancoreset.stan.adopt import adopt
from stancoreset.stan.identities import (
    SOLVER_TOLERANCE,
    TOLERANCE,
    Identity,
    check_identities,
    identity_table,
    require_identities,
)
from stancoreset.stan.program import StanProgram, WeightedProgram
from stancoreset.taylor import TaylorProjection, project_taylor

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CoresetModel"]


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
    threads : int, optional
        Chunks of the full data that are evaluated at the same time; default: the available
        cores.
    glm : bool
        Evaluate likelihoods that are a GLM (logistic, Poisson with log link, normal) on the full
        data by matrix products, once their values have equalled Stan's; False: always by Stan.

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
        threads: int | None = None,
        glm: bool = True,
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
        self._session = Session(self.program, self.engine, threads, glm)

    merge = merge_parts
    keep = keep_rows

    def __repr__(self) -> str:
        return f"CoresetModel({self.program.program.name!r}, engine={self.engine.name!r})"

    # The steps ---------------------------------------------------------------------------

    def fit(
        self,
        data: Any,
        *,
        size: int | str = "auto",
        method: str = "pursuit",
        reference: Any = "laplace",
        projection: str | None = None,
        control_variate: bool = True,
        refine: bool | str = "auto",
        max_rounds: int = MAX_ROUNDS,
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
            The full data: a dict of arrays, a path to Stan JSON, ``.npz`` or ``.parquet``, or
            a `stancoreset.Table` of rows that stay on disk. ``weights`` need not be there; if
            they are (counts of equal rows, survey weights), they belong to the full posterior.
        size : int or "auto"
            At most this many rows in the coreset, k; ``"auto"``: the fewest whose held-out
            error is small enough, see `stancoreset.sizes`.
        method : str
            Selection algorithm, one of ``stancoreset.solvers.METHODS``, which work on a
            projection; ``"auto"``, the best of several with a control variate; or of
            ``stancoreset.in_the_loop.METHODS``, ``"quasi_newton"`` and
            ``"sparse_vi"``, which draw from the coreset's own posterior as it grows: the
            reference then only starts the chains.
        reference : {"laplace", "pathfinder", "advi", "pilot"}, or posterior draws
            Where the log likelihood is matched: a Gaussian at the mode; Gaussians on the way
            to it; mean-field variational inference (CmdStan only); NUTS on a weighted
            subsample, moved to the full data; or draws that you have (ArviZ container,
            cmdstanpy fit, dict of arrays, or array (S, P) of unconstrained draws).
        projection : {"taylor", "loglik", "fisher"}, optional
            What the rows match there: the log likelihood beyond second order (the default
            with a control variate; see `stancoreset.taylor`), its values (the default
            without), or its gradient (the weighted Fisher information norm; see
            `stancoreset.fisher`).
        control_variate : bool
            Add to the rows what they lack up to second order, as a quadratic around the
            posterior's centre: a hundred rows then do what thousands could not, in many
            dimensions above all. See `stancoreset.control_variate`.
        refine : {"auto", False}
            What to do when the result is not certified: ``"auto"`` tries, round by round,
            the coreset posterior's own draws as the reference, more rows and draws, a pilot
            run and Pathfinder; False leaves it at one pass. `CoresetFit.rounds` tells what
            was tried. See `stancoreset.refinement`.
        max_rounds : int
            Rounds at most, the first pass included.
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
        plan = Plan(
            size=size,
            method=method,
            reference=reference,
            projection=projection,
            control_variate=control_variate,
            refine=_refines(refine),
            max_rounds=max_rounds,
            draws=draws,
            candidates=candidates,
            seed=seed,
            sampler={
                "chains": chains,
                "iter_warmup": iter_warmup,
                "iter_sampling": iter_sampling,
                "adapt_delta": adapt_delta,
                "max_treedepth": max_treedepth,
            },
            parallel_chains=parallel_chains,
            engine_output_dir=engine_output_dir,
            labels={"coords": coords, "dims": dims},
            options=options,
        )
        with stages("read data"):
            checked = self.read(data)
            plan.require(self.program.n_obs(checked))
            provenance = self._session.provenance(checked, plan.settings())
        folder = RunFolder.open(output_dir, provenance, resume=resume, overwrite=overwrite)
        with stages("compile"):
            self._session.compile()
        if not folder.finished("reference"):
            with stages("check program"):
                self._identities(require_identities, checked, seed=seed)
        pipeline = Pipeline(self._session, checked, plan, stages, folder, provenance)
        return Rounds(pipeline).run()

    def reference(
        self, data: Any, method: Any = "laplace", *, draws: int = 500, seed: int = 0
    ) -> Reference:
        """Draws from the reference distribution.

        Parameters
        ----------
        data : mapping or path
            The full data.
        method : {"laplace", "pathfinder", "advi", "pilot"}, or posterior draws
            See `fit`.
        draws : int
            How many, S.
        seed : int

        Returns
        -------
        Reference
        """
        full = self._session.full_data(self.read(data))
        return self._session.reference(full, method, draws, seed)

    def project(
        self,
        data: Any,
        reference: Reference,
        *,
        projection: str = "loglik",
        candidates: int = 20_000,
        heldout: int = HELDOUT_DRAWS,
        seed: int = 0,
    ) -> Projection | TaylorProjection:
        """Target, candidate matrix and held-out pair on a reference.

        Parameters
        ----------
        data : mapping or path
            The full data.
        reference : Reference
        projection : {"loglik", "fisher", "taylor"}
            See `fit`; complete what is selected on ``"taylor"`` by `add_control_variate`.
        candidates : int
            Rows M that selection may choose from; all rows if there are fewer.
        heldout : int
            Draws that measure the held-out error.
        seed : int
            Which rows are candidates.

        Returns
        -------
        Projection or TaylorProjection
        """
        check_projection(projection)
        checked = self.read(data)
        full = self._session.full_data(checked)
        rows, pool = self._session.pool(checked, candidates, seed)
        with pool:
            if projection == TAYLOR:
                expansion = self._session.expand(full, reference)
                return project_taylor(full, pool, rows, reference, expansion, heldout=heldout)
            return PROJECTIONS[projection][0](full, pool, rows, reference, heldout=heldout)

    def add_control_variate(self, data: Any, coreset: Coreset, reference: Reference) -> Coreset:
        """The coreset with the quadratic that completes it to second order.

        `sample` and `certify` then use both.

        Parameters
        ----------
        data : mapping or path
            The full data.
        coreset : Coreset
        reference : Reference
            Its centre is where the log likelihood is expanded.

        Returns
        -------
        Coreset
            With `control`; its held-out error is measured anew.

        Raises
        ------
        ControlError
            The centre lies outside the support, or a derivative is not finite there.
        """
        checked = self.read(data)
        full = self._session.full_data(checked)
        expansion = self._session.expand(full, reference)
        selection = ControlledSelection(self._session, checked, full, expansion)
        completed = selection.complete(coreset)
        selection.verify(completed, reference.draws[:3])
        unseen = reference.more(HELDOUT_DRAWS, stream=0)
        error = corrected_error(self._session, checked, full, completed, unseen)
        return replace(completed, heldout_error=error)

    @property
    def stan_code(self) -> str:
        """The Stan program that NUTS runs on a coreset, control variate and all.

        With `stan_data` it runs in any Stan.
        """
        return self._session.controlled.code

    def stan_data(self, data: Any, coreset: Coreset | None = None) -> dict[str, Any]:
        """Data for `stan_code`: a coreset with its control variate, or all rows.

        Parameters
        ----------
        data : mapping or path
            The full data.
        coreset : Coreset, optional
        """
        rows = self._session.rows(self.read(data), coreset)
        return {**self._session.controlled.nothing(), **rows}

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
        provenance = self._session.provenance(checked, {"seed": seed, **options})
        labels = {"coords": coords, "dims": dims}
        return self._session.container(result, coreset, provenance, labels)

    def certify(
        self,
        data: Any,
        coreset: Coreset,
        posterior: Any,
        *,
        draws: int = CERTIFIED_DRAWS,
        reference: Reference | None = None,
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
        reference : Reference, optional
            Its draws tell whether the coreset's have missed a part of the full posterior.

        Returns
        -------
        Certificate
        """
        if data is None:
            raise CertificateError(
                "a certificate compares the coreset posterior with the full one: it needs the "
                "full data, and data is None"
            )
        checked = self.read(data)
        log_weights, index, theta = self._session.log_weights(checked, coreset, posterior, draws)
        unseen = float("nan")
        if reference is not None:
            unseen = self._session.unseen(checked, coreset, reference, log_weights)
        return certify(
            log_weights,
            coreset.heldout_error,
            index,
            unseen=unseen,
            moved=moved_by(log_weights, theta),
            **divergences(posterior),
        )

    def log_likelihood(self, data: Any, posterior: Any, *, draws: int | None = None) -> Any:
        """Every row's log likelihood at coreset draws, beside them: for LOO on the full data.

        Parameters
        ----------
        data : mapping or path
            The full data.
        posterior : CoresetFit or ArviZ container
            Of a fit whose verdict is ``"corrected"``, the resampled draws are taken.
        draws : int, optional
            How many draws at most, evenly spaced in each chain; default: as many as take 1 GB
            (8 · rows bytes each), at least 100.

        Returns
        -------
        arviz.InferenceData or xarray.DataTree
            What `posterior` holds at these draws, and the groups ``log_likelihood`` (chain,
            draw, row) and ``observed_data``; ``arviz.loo`` takes it as it is. Weights that
            came with the data do not count: the log likelihood is that of one row each.

        Raises
        ------
        CertificateError
            If the fit was rejected.

        Examples
        --------
        >>> pointwise = model.log_likelihood(data, fit)                  # doctest: +SKIP
        >>> arviz.loo(pointwise)                                         # doctest: +SKIP
        """
        return with_log_likelihood(
            self._session, self._adopted.original, self.read(data), posterior, draws
        )

    def generate_quantities(
        self,
        data: Any,
        posterior: Any,
        names: Sequence[str] | None = None,
        *,
        draws: int | None = None,
        seed: int = 0,
    ) -> dict[str, np.ndarray]:
        """The program's own generated quantities on the full data, at coreset draws.

        They are left out of fitting, where they would see the coreset's rows only.

        Parameters
        ----------
        data : mapping or path
            The full data.
        posterior : ArviZ container, cmdstanpy fit, dict of arrays, or CoresetFit
        names : sequence of str, optional
            Which ones; default: all that the program defines.
        draws : int, optional
            How many draws, evenly spaced; default: all. A quantity with one value a row
            takes 8 · rows · draws bytes.
        seed : int
            For quantities that use random numbers.

        Returns
        -------
        dict of str to ndarray, shape (1, draws, *shape)
            One chain, as ``arviz.from_dict`` takes it.

        Raises
        ------
        OptionError
            If the program has no generated quantities, or not those.
        """
        original = self._adopted.original
        defined = [d.name for d in original.generated_quantities]
        wanted = tuple(defined if names is None else names)
        unknown = [name for name in wanted if name not in defined]
        if unknown or not wanted:
            raise OptionError(
                f"the program has no generated quantity {unknown[0] if unknown else 'at all'}; "
                f"it defines {', '.join(defined) or 'none'}"
            )
        checked = self.read(data)
        theta, _ = self._session.unconstrained(checked, posterior, draws)
        compiled = self.engine.compile(original.code, name=original.name)
        given = {d.name: checked[d.name] for d in original.data}
        with compiled.bind(given, seed=seed) as bound:
            values = bound.generated(theta, wanted, seed)
        return {name: value[None] for name, value in values.items()}

    def read(self, data: Any) -> Mapping[str, Any]:
        """Read and check the full data; weights need not be there.

        Raises
        ------
        DataError
            If something is missing, not finite, or of the wrong type or shape.
        """
        if not isinstance(data, Source):
            return self._adopted.complete(self.program.check(data), self.engine)
        opened = data.open_for(self.program)
        if isinstance(opened, StoredRows):
            return opened
        return opened.with_data(self._adopted.complete(self.program.check(opened), self.engine))

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
        if isinstance(checked, StoredRows):  # a random sample of the rows serves as well
            checked = checked.sample
        if woven is not None and woven.uses_solver:
            warnings.warn(
                f"'{self.program.program.name}' solves equations numerically: its identities are "
                f"checked to {SOLVER_TOLERANCE:.0e} instead of {TOLERANCE:.0e}",
                stacklevel=3,
            )
        return check(
            self.program,
            self.engine,
            checked,
            original=None if woven is None else self._adopted.original,
            freeze=lambda rows: self._adopted.complete(rows, self.engine),
            points=points,
            seed=seed,
            tolerance=TOLERANCE if woven is None or not woven.uses_solver else SOLVER_TOLERANCE,
        )


def _refines(refine: bool | str) -> bool:
    if refine in ("auto", False):
        return refine == "auto"
    raise OptionError(f"refine is {refine!r}, expected 'auto' or False")
