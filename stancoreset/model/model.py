"""CoresetModel: what a user does with a Stan program, all at once or step by step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Never, Unpack, overload

from numpy.typing import NDArray

from stancoreset.analysis import (
    Design,
    Information,
    design,
    generated_quantities,
    information,
    loo,
    quantity_names,
    with_log_likelihood,
    with_replications,
)
from stancoreset.checks import (
    check_choice,
    check_flag,
    check_labels,
    check_names,
    check_path,
    check_seed,
    check_text,
    check_whole,
)
from stancoreset.engines import (
    NUTS,
    Closing,
    Engine,
    EngineName,
    check_inits,
    fresh_seed,
    include_paths,
    recorded_inits,
    refuse_arguments,
    resolve_engine,
    with_options,
)
from stancoreset.engines.cmdstan import require_csv_folder
from stancoreset.errors import CertificateError, OptionError, ProgramError
from stancoreset.fit import (
    BEYOND,
    HELDOUT_DRAWS,
    MERGE_SIZE,
    NEEDS_GLM,
    PROJECTIONS,
    ControlledSelection,
    Method,
    Pipeline,
    Plan,
    ProjectionName,
    Rounds,
    Size,
    expanded_view,
    keep_rows,
    merge_parts,
    nuts_of,
    project_rows,
    reference_name,
)
from stancoreset.model.arguments import (
    begin_stages,
    check_coreset,
    check_draws,
    check_is_reference,
    check_near,
    scoring_options,
)
from stancoreset.model.options import FitOptions, MergeOptions, SampleOptions
from stancoreset.parallel import one_blas_thread, single_threaded
from stancoreset.posterior import LEAST_DRAWS, Certificate, Loo, card
from stancoreset.posterior.arviz import Container, Posterior
from stancoreset.program import (
    CERTIFIED_DRAWS,
    PASSES,
    SECOND,
    Certifier,
    Data,
    PassesName,
    SecondEngine,
    Session,
    WeightKind,
    adopt,
    check_adopted,
    check_identities,
    check_kind,
    describe_observation,
    describe_seen,
    identity_table,
    labels_of_draws,
    make_provenance,
    require_identities,
    require_room_for_draws,
    result_container,
    run_nuts,
    take_spaced_draws,
)
from stancoreset.progress import Stages
from stancoreset.reference import Reference, ReferenceName, check_reference, fit_reference
from stancoreset.runs import CoresetFit, RunFolder, recorded_seed
from stancoreset.selection import (
    Coreset,
    HermiteProjection,
    Projection,
    Remainder,
    TaylorProjection,
)
from stancoreset.stan import Labels, StanProgram

if TYPE_CHECKING:
    import pandas as pd


class CoresetModel(Closing):
    """A Stan program, fitted on a few weighted rows of its data.

    Parameters
    ----------
    stan_file : str or Path, optional
        An unmodified Stan program: every row's contribution to the log density gets a weight.
        A program that has weights already (see Notes) is used unchanged.
    stan_code : str, optional
        The program's text, instead of a file.
    engine : {"auto", "cmdstan", "stanli"} or Engine
        The engine that runs Stan; ``"auto"`` takes CmdStan if it is installed, else stanli.
    obs : str, optional
        Name of the data integer that counts observations; needed only if it is ambiguous. Two
        names, ``"N_y1, N_y2"``, are for outcomes that are observed on different rows, as by brms'
        ``subset()``: the rows of both are weighted. ``"cells"`` makes each cell of a table an
        observation, ``"segments"`` each segment of the data.
    threads : int, optional
        Number of chunks of the full data that are evaluated at the same time, by threads of this
        process or by processes of CmdStan; default: the number of available cores.
    glm : bool
        Whether to evaluate the likelihood of a GLM (logistic, normal, Poisson and negative
        binomial with log link; also with group effects) on the full data by matrix products, after
        a check that their values equal Stan's, and loops over rows of other programs by statements
        about all rows at once.
    passes : {"auto", "engine"}
        The engine that evaluates the full data when CmdStan samples. ``"auto"``: stanli, in this
        process, if it is installed and its densities, gradients and rows' log likelihoods equal
        CmdStan's on your data to 1e-9. ``"engine"``: CmdStan. `CoresetFit.passes` reports the
        choice.
    second_engine : {"auto", "always", "never"}
        Whether CmdStan checks an engine in this process, by evaluating your program at five draws
        of each certificate, on at most 20,000 rows. ``"auto"``: if CmdStan is installed and has
        already compiled the program. ``"always"``: also if it must be compiled first. ``"never"``:
        not at all. If the engines disagree, an `IdentityError` names the point and both values;
        ``certificate.witness`` names the engines.
    cpp_options, stanc_options : dict, optional
        As in ``cmdstanpy.CmdStanModel``. ``stanc_options={"include-paths": [...]}`` names folders
        for ``#include``, besides the program's own; all other options are for CmdStan only.

    Attributes
    ----------
    program : WeightedProgram
    engine : Engine

    Raises
    ------
    DataError
        If there is no such file.
    ProgramError
        If the program's own weights do not meet the contract, or its data cannot be cut to rows;
        a `WeaveError`, with line and reason, if its rows cannot be weighted one by one.
    CompileError
        If Stan refuses the program; the message quotes Stan.
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
        engine: EngineName | Engine = "auto",
        obs: str | None = None,
        threads: int | None = None,
        glm: bool = True,
        passes: PassesName = "auto",
        second_engine: SecondEngine = "auto",
        cpp_options: Mapping[str, Any] | None = None,
        stanc_options: Mapping[str, Any] | None = None,
        **others: Never,
    ) -> None:
        refuse_arguments(others, signature(self.fit).parameters)
        if (stan_file is None) == (stan_code is None):
            raise OptionError("give either stan_file or stan_code, and not both")
        if stan_file is None:
            check_text("stan_code", stan_code, "the text of a Stan program")
        check_flag("glm", glm)
        if obs is not None:
            check_text("obs", obs, "the name of a data variable")
        if threads is not None:
            check_whole("threads", threads, 1)
        check_choice("passes", passes, PASSES)
        check_choice("second_engine", second_engine, SECOND)
        folders = include_paths(stanc_options)
        self.engine = with_options(resolve_engine(engine, threads), cpp_options, stanc_options)
        try:
            program = (
                StanProgram.from_file(check_path("stan_file", stan_file), include_paths=folders)
                if stan_file is not None
                else StanProgram.from_code(str(stan_code), include_paths=folders)
            )
            self._adopted = adopt(program, obs=obs)
        except RecursionError:
            raise ProgramError(
                f"{stan_file or 'stan_code'} has expressions nested too deeply to be read; write "
                "them in several statements"
            ) from None
        self.program = self._adopted.weighted
        self._session = Session(self._adopted, self.engine, threads, glm, passes, second_engine)

    def __repr__(self) -> str:
        return f"CoresetModel({self.program.program.name!r}, engine={self.engine.name!r})"

    def _repr_html_(self) -> str:
        """A card for notebooks."""
        roles = Counter(entry["role"] for entry in self._adopted.weaving)
        facts = [
            ("engine", self.engine.version),
            ("observations", f"counted by {self.program.obs}: {', '.join(self.program.rows)}"),
            ("statements", ", ".join(f"{count} {role}" for role, count in roles.items())),
            ("the rows see", ", ".join(self.seen)),
        ]
        return card(f"Coreset model of {self.program.program.name}", facts)

    def fit(
        self,
        data: Data,
        *,
        size: Size = Plan.size,
        method: Method = Plan.method,
        reference: ReferenceName | Posterior | NDArray[Any] = Plan.reference,
        max_rounds: int = Plan.max_rounds,
        seed: int | None = Plan.seed,
        chains: int | None = None,
        iter_warmup: int | None = None,
        iter_sampling: int | None = None,
        inits: Any = None,
        coords: Mapping[str, Sequence[Any]] | None = None,
        dims: Mapping[str, Sequence[str]] | None = None,
        output_dir: str | Path | None = None,
        resume: bool = False,
        overwrite: bool = False,
        show_progress: bool | None = None,
        **options: Unpack[FitOptions],
    ) -> CoresetFit:
        """Fit the model: reference, quadratic, selection of rows, NUTS on the coreset, certificate.

        Parameters
        ----------
        data : mapping or path
            The full data: a dict of arrays, a path to Stan JSON, ``.csv``, ``.parquet``, …, or a
            `stancoreset.Table` of rows that stay on disk. A variable ``weights`` is optional; with
            it (counts of equal rows, survey weights) the full posterior is the weighted one.
        size : int or "auto"
            Largest number of rows in the coreset, k. ``"auto"`` takes the smallest number whose
            held-out error is small enough; see `stancoreset.fit.sizes`.
        method : str
            Selection algorithm. Most work on a projection: ``"pursuit"``, ``"giga"`` and the others
            in ``stancoreset.selection.solvers.METHODS``; with a control variate, ``"auto"`` takes
            the best of several. ``"quasi_newton"``, ``"sparse_vi"`` and ``"coreset_mcmc"`` have the
            model in the loop: they draw from the coreset's own posterior as it changes, and the
            reference only starts their chains. (If no reference can be found, ``"coreset_mcmc"``
            and methods with ``sampler="nuts"`` do without one.) ``"gaussian"`` selects no rows and
            runs no NUTS: its independent draws, as many as NUTS would make, are weighted on all
            rows by the certificate. Where effects and coefficients are Gaussian given a few scales,
            they are draws of the prior times a quadratic by the collapsed sampler, and the coreset
            is that quadratic; elsewhere they are those of a Gaussian (of ``reference="laplace"``,
            ``"gaussian_vi"`` or ``"double_loop"``), and such a fit has no `coreset`. This is the
            shortest way to a certified answer if rows add little to it, which the report of an
            ordinary fit says.
        reference : {"laplace", "gaussian_vi", "double_loop", "pathfinder", "advi", "pilot"}, draws
            First approximation of the posterior; the log likelihood is matched where it has mass.
            ``"laplace"``: a Gaussian at the mode. ``"gaussian_vi"``: the Gaussian with the highest
            evidence lower bound, which is closer to the posterior if there are few rows for each
            parameter. ``"double_loop"``: the Gaussian of a simpler bound, for generalised linear
            models whose coefficients have Laplace or Student-t priors of known scale.
            ``"pathfinder"``: Gaussians along paths to the mode. ``"advi"``: mean-field variational
            inference (CmdStan only). ``"pilot"``: NUTS on a weighted subsample, whose draws are
            moved to the centre of the full posterior. Or your own draws: an ArviZ container, a
            cmdstanpy fit, a dict of arrays, or an array (S, P) of unconstrained draws.
        max_rounds : int
            Largest number of rounds, the first one included. As long as the result is not
            certified, further rounds try the coreset posterior's own draws as the reference, more
            rows and draws, a pilot run, Pathfinder, and longer chains. Chains that are too short
            for any certificate become longer in the same round; `lengthened` of each of
            `CoresetFit.rounds` is the factor. If longer chains of thousands of parameters would
            fill the memory, only every k-th draw is kept, but no fewer draws than were asked for.
            See `stancoreset.fit.refinement`.
        max_seconds : float, optional
            No further round begins that would end more than so many seconds by the clock after the
            fit has begun, as far as the rounds before tell. The best result so far is returned with
            its verdict, whose reasons say so. The first round has no limit. A resumed run may have
            another limit.
        seed : int or None
            Random seed. With None a seed is drawn; it is in the report, and a resumed run reads it
            from `output_dir`.
        chains, iter_warmup, iter_sampling : int, optional
            As in cmdstanpy's ``sample``; default: 4, 1,000 and 1,000. If the reference lies near
            the posterior, NUTS takes its metric from the reference's draws, and warm-up has 149
            iterations.
        inits : float, dict, list of dict, path, list of path, or ndarray, optional
            Starting points of the chains, as in cmdstanpy: constrained values by parameter, some
            of which may be missing, for all chains or for each; a radius; or an array (P,) or
            (chains, P) of unconstrained points. Default: points where the reference has mass.
        coords, dims : dict, optional
            Names for the dimensions of parameters, as in ArviZ: with ``dims={"beta":
            ["predictor"]}`` and ``coords={"predictor": ["age", "income"]}`` tables and plots say
            ``beta[age]``. Levels and columns of a `stancoreset.Table` are labels without this.
        output_dir : path, optional
            Folder for the results; each stage is written when it is finished.
        resume : bool
            Whether to continue the interrupted run in `output_dir` after its last finished stage.
        overwrite : bool
            Whether to replace an earlier run in `output_dir`, once this one is finished.
        show_progress : bool, optional
            Whether to draw progress bars on standard error; default: only in a terminal.
        **options
            Of NUTS, as in cmdstanpy's ``sample``: ``adapt_delta``, ``max_treedepth``, ``thin``,
            ``save_warmup`` (in the group ``warmup_posterior``), ``metric``, ``step_size``,
            ``parallel_chains``, …; or all of them together, ``sampler=sc.NUTS(…)``. See
            `stancoreset.NUTS`.

            Of the selection: ``projection``, ``control_variate``, ``draws``, ``candidates``; or
            all of them together, ``selection=sc.Selection(…)``. See `stancoreset.Selection`.

            ``engine_output_dir``: a folder for the chains' CSV files as CmdStan writes them, with
            either engine. Its folders ``longer_1``, … are for longer chains, and ``round_1``, … for
            further rounds. The files have all draws; with ``keep_every=10`` memory and the
            posterior keep every tenth. ``stages``: a `Stages` object that times the stages.
            ``policy``: what is tuned in a fit, such as ``{"goal_efficiency": 0.99}``, a
            `stancoreset.Policy`, or a JSON file; see `stancoreset.Policy.table`.

            All other options are passed to the selection algorithm. Methods with the model in the
            loop also take ``sampler`` (``"laplace"``, ``"nuts"`` or ``"chains"``), ``subsample``,
            ``warmup`` and ``transitions``, see `stancoreset.fit.in_the_loop.select_in_the_loop`.

        Returns
        -------
        CoresetFit

        Raises
        ------
        DataError, OptionError, IdentityError, ReferenceFitError, SolverError, EngineError
            Each message names the cause and the remedy.
        """
        RunFolder.check(output_dir, resume=resume, overwrite=overwrite)
        stages = begin_stages(options.pop("stages", None), show_progress)
        plan = self._planned(
            Plan.of,
            chains=chains,
            iter_warmup=iter_warmup,
            iter_sampling=iter_sampling,
            size=size,
            method=method,
            reference=reference,
            max_rounds=max_rounds,
            seed=recorded_seed(output_dir) if seed is None and resume else seed,
            inits=inits,
            coords=coords,
            dims=dims,
            **options,
        )
        with stages("read data"):
            checked = self.read(data)
            plan.require(self.program.n_obs(checked))
            require_room_for_draws(self._session, checked, plan.nuts)
            labels_of_draws(self._session, checked, plan.labels)  # refuses wrong ones
            provenance = make_provenance(self._session, checked, plan.settings())
            if plan.is_gaussian:  # a coreset would know it
                provenance["obs"] = self.program.obs
        require_csv_folder(plan.engine_output_dir, "engine_output_dir")
        folder = RunFolder.open(output_dir, provenance, resume=resume, overwrite=overwrite)
        with stages("compile"):
            self._session.compile()
        if not folder.finished("reference"):
            with stages("check program"):
                check_adopted(
                    self._adopted, self.engine, checked, require_identities, seed=plan.seed
                )
        pipeline = Pipeline(self._session, checked, plan, stages, folder, provenance)
        with one_blas_thread():  # threads share out rows and chains
            return Rounds(pipeline).run()

    @single_threaded
    def merge(
        self,
        parts: Sequence[Any],
        *,
        size: Size = MERGE_SIZE,
        method: Method = Plan.method,
        max_rounds: int = Plan.max_rounds,
        seed: int | None = Plan.seed,
        chains: int | None = None,
        iter_warmup: int | None = None,
        iter_sampling: int | None = None,
        inits: Any = None,
        coords: Mapping[str, Sequence[Any]] | None = None,
        dims: Mapping[str, Sequence[str]] | None = None,
        output_dir: str | Path | None = None,
        resume: bool = False,
        overwrite: bool = False,
        show_progress: bool | None = None,
        **options: Unpack[MergeOptions],
    ) -> CoresetFit:
        """Join the coresets of parts of the data, and select rows from their union again.

        Parameters
        ----------
        parts : sequence
            One entry per part, in order: ``(data, coreset)`` or ``(data, fit)``, where `data` are
            the part's full data or, if they are gone, the coreset's rows alone; or a fit, which has
            kept these rows.
        size : int or "auto"
            Largest number of rows, k; ``"auto"``: the smallest number whose held-out error is small
            enough.
        max_rounds : int
            Largest number of rounds. Further rounds sample the same rows again, by longer chains or
            smaller steps.
        output_dir : path, optional
            Folder for the results and the data of the rows; each stage is written when it is
            finished.
        method, seed, chains, iter_warmup, iter_sampling, inits, coords, dims
            See `fit`.
        resume, overwrite, show_progress
            See `fit`.
        **options
            Of NUTS, ``control_variate``, ``engine_output_dir``, ``stages``, and of the selection
            algorithm, see `fit`.

        Returns
        -------
        CoresetFit
            Row numbers of its coreset count from the first row of the first part. If the full data
            of every part are given, held-out error and certificate are computed on all of them.
            Otherwise the certificate compares with the union of the parts' coresets, and the
            held-out error is an upper bound, equation (2) of `stancoreset.fit.merging.reduce`;
            ``certificate.against``, ``certificate.reasons`` and ``provenance["certified_against"]``
            say so. ``fit.data`` holds the rows, so that the fit can be merged again.

        Raises
        ------
        DataError
            If an entry's data are neither those of its fit nor the rows of its coreset; if the
            parts differ in data that are not rows or in the levels of a column; or if the program
            computes something from all rows, and the rows of a part are not given.
        OptionError
            If there are no parts, or their coresets belong to different programs.
        OutputError
            As in `fit`.

        Examples
        --------
        >>> import stancoreset as sc
        >>> model = sc.CoresetModel("model.stan")                                 # doctest: +SKIP
        >>> fits = [model.fit(day, size=100) for day in days]                     # doctest: +SKIP
        >>> week = model.merge(fits, size=100)                                    # doctest: +SKIP
        """
        RunFolder.check(output_dir, resume=resume, overwrite=overwrite)
        stages = begin_stages(options.pop("stages", None), show_progress)
        plan = self._planned(
            Plan.of_merge,
            chains=chains,
            iter_warmup=iter_warmup,
            iter_sampling=iter_sampling,
            size=size,
            method=method,
            max_rounds=max_rounds,
            seed=recorded_seed(output_dir) if seed is None and resume else seed,
            inits=inits,
            coords=coords,
            dims=dims,
            **options,
        )
        return merge_parts(
            self._session,
            parts,
            plan,
            stages,
            output_dir=output_dir,
            resume=resume,
            overwrite=overwrite,
        )

    def _planned(self, plan_of: Callable[[dict[str, Any]], Plan], /, **asked: Any) -> Plan:
        """A plan that this model's engine can carry out, checked before data are read."""
        for name in ("chains", "iter_warmup", "iter_sampling"):
            if asked[name] is None:  # it may stand in `sampler`
                del asked[name]
        plan = plan_of(asked)
        if not plan.is_gaussian:
            self._require_nuts(plan.nuts)
        plan.require(None)
        return plan

    def _require_nuts(self, nuts: NUTS) -> None:
        """Refuse options of NUTS that this model's engine does not have."""
        nuts.require_capabilities(self.engine.name, self.engine.capabilities)

    def keep(self, data: Data, fit: CoresetFit) -> CoresetFit:
        """Store the coreset's rows in a fit of an earlier version; newer fits hold them already.

        Parameters
        ----------
        data : mapping or path
            The full data of the fit.
        fit : CoresetFit

        Returns
        -------
        CoresetFit
            The fit with ``fit.data``, which ``save`` writes too.

        Raises
        ------
        DataError
            If these are not the data of the fit.
        """
        return keep_rows(self._session, data, fit)

    def read(self, data: Data) -> Mapping[str, Any]:
        """Read and check the full data; weights may be missing.

        Raises
        ------
        DataError
            If a variable is missing, not finite, or of the wrong type or shape.
        """
        return self._session.read(data)

    @single_threaded
    def reference(
        self,
        data: Data,
        method: ReferenceName | Posterior | NDArray[Any] = "laplace",
        *,
        draws: int = 500,
        seed: int = 0,
    ) -> Reference:
        """Draw from the reference distribution.

        Parameters
        ----------
        data : mapping or path
            The full data.
        method : {"laplace", "gaussian_vi", "double_loop", "pathfinder", "advi", "pilot"}, or draws
            See `fit`.
        draws : int
            Number of draws, S.
        seed : int

        Returns
        -------
        Reference
        """
        check_seed(seed)
        check_whole("draws", draws, 2)
        check_reference(method)
        if reference_name(method) in NEEDS_GLM:
            self._session.recognise_always()
        full = self._session.full_data(self.read(data))
        return fit_reference(full, method, draws, seed)

    @overload
    def project(
        self,
        data: Data,
        reference: Reference,
        *,
        projection: Literal["loglik", "fisher"] = "loglik",
        candidates: int = 20_000,
        heldout: int = HELDOUT_DRAWS,
        seed: int = 0,
    ) -> Projection: ...

    @overload
    def project(
        self,
        data: Data,
        reference: Reference,
        *,
        projection: Literal["taylor"],
        candidates: int = 20_000,
        heldout: int = HELDOUT_DRAWS,
        seed: int = 0,
    ) -> TaylorProjection: ...

    @overload
    def project(
        self,
        data: Data,
        reference: Reference,
        *,
        projection: Literal["hermite"],
        candidates: int = 20_000,
        heldout: int = HELDOUT_DRAWS,
        seed: int = 0,
    ) -> HermiteProjection: ...

    @single_threaded
    def project(
        self,
        data: Data,
        reference: Reference,
        *,
        projection: ProjectionName = "loglik",
        candidates: int = 20_000,
        heldout: int = HELDOUT_DRAWS,
        seed: int = 0,
    ) -> Projection | Remainder:
        """Evaluate the log likelihoods of candidate rows at a reference's draws, for `select`.

        Parameters
        ----------
        data : mapping or path
            The full data.
        reference : Reference
        projection : {"loglik", "fisher", "taylor", "hermite"}
            What the rows match, see `Selection`. A coreset selected by ``"taylor"`` or
            ``"hermite"`` needs `add_control_variate`.
        candidates : int
            Number of candidate rows, M; all rows if there are fewer. (`fit` is faster if most rows
            are equal, because it keeps only distinct ones.)
        heldout : int
            Number of draws that measure the held-out error.
        seed : int
            Random seed of the choice of candidates.

        Returns
        -------
        Projection, TaylorProjection or HermiteProjection

        Raises
        ------
        OptionError
            If the projection is ``"hermite"`` and the program is no generalised linear model.
        """
        check_choice("projection", projection, (*PROJECTIONS, *BEYOND))
        check_is_reference(reference)
        check_whole("candidates", candidates, 1)
        check_whole("heldout", heldout, 2)
        check_seed(seed)
        return project_rows(
            self._session, self.read(data), reference, projection, candidates, heldout, seed
        )

    def add_control_variate(
        self,
        data: Data,
        coreset: Coreset,
        reference: Reference,
        *,
        projection: Literal["taylor", "hermite"] = "taylor",
    ) -> Coreset:
        """Add a quadratic to a coreset, with which it matches all rows up to second order.

        `sample` and `certify` then use both.

        Parameters
        ----------
        data : mapping or path
            The full data.
        coreset : Coreset
        reference : Reference
            The quadratic is the expansion of the log likelihood at the reference's centre
            (``"taylor"``), or its projection under the reference's Gaussian (``"hermite"``).
        projection : {"taylor", "hermite"}
            The projection by which the coreset was selected.

        Returns
        -------
        Coreset
            The coreset with `control` and its new held-out error.

        Raises
        ------
        ControlError
            If the centre lies outside the support, or a derivative is not finite there.
        OptionError
            If the projection is ``"hermite"`` and the program is no generalised linear model.
        """
        check_coreset(coreset)
        check_is_reference(reference)
        check_choice("projection", projection, BEYOND)
        checked = self.read(data)
        view, expansion = expanded_view(self._session, checked, reference, projection)
        selection = ControlledSelection(view.session, checked, view.full, expansion)
        return selection.completed(replace(coreset, control=None), view.reference)

    def sample(
        self,
        data: Data,
        coreset: Coreset | None = None,
        *,
        near: Posterior | None = None,
        inits: Any = None,
        seed: int | None = 0,
        coords: Mapping[str, Sequence[Any]] | None = None,
        dims: Mapping[str, Sequence[str]] | None = None,
        show_progress: bool | None = None,
        output_dir: str | Path | None = None,
        **options: Unpack[SampleOptions],
    ) -> Container:
        """Run NUTS on the coreset, or on the full data if `coreset` is None.

        Parameters
        ----------
        data : mapping or path
            The full data.
        coreset : Coreset, optional
        near : fit, ArviZ container, cmdstanpy fit or dict of arrays, optional
            Draws near the posterior, from which NUTS takes its metric; warm-up is then short. With
            draws of a coreset posterior, NUTS on the full data is several times faster. The draws
            change neither the target density nor the starting points.
        inits : optional
            Starting points of the chains, see `fit`; default: Stan's random inits.
        seed : int or None
            With None a seed is drawn, and stored with the draws.
        coords, dims, show_progress
            See `fit`.
        output_dir : path, optional
            Folder for the chains' CSV files as CmdStan writes them, with either engine. The files
            have all draws; memory and the result keep every ``keep_every``-th.
        **options
            Of NUTS, as in cmdstanpy's ``sample``: ``chains``, ``iter_warmup``,
            ``iter_sampling``, ``thin``, ``adapt_delta``, …; or all of them together,
            ``sampler=sc.NUTS(…)``. See `stancoreset.NUTS`.

        Returns
        -------
        arviz.InferenceData or xarray.DataTree
            Posterior and sampler statistics; with ``save_warmup`` those of warm-up, too.

        Raises
        ------
        OptionError
            If an option of NUTS is out of range, or this engine does not have it.
        """
        nuts = nuts_of(options)
        self._require_nuts(nuts)
        seed = fresh_seed() if seed is None else seed
        check_seed(seed)
        check_inits(inits, nuts.chains)
        require_csv_folder(output_dir, "output_dir")
        check_labels(coords, dims)
        show = Stages.given(None, show_progress).show
        if coreset is not None:
            check_coreset(coreset)
        if near is not None:
            check_near(near)
        checked = self.read(data)
        close = None if near is None else take_spaced_draws(self._session, checked, near, None)[0]
        result = run_nuts(
            self._session,
            checked,
            coreset,
            nuts=nuts,
            seed=seed,
            inits=inits,
            output_dir=output_dir,
            show_progress=show,
            near=close,
        )
        given = {} if inits is None else {"inits": recorded_inits(inits)}
        given |= {} if close is None else {"near": len(close)}
        provenance = make_provenance(
            self._session, checked, {"seed": seed, **nuts.settings(), **given}
        )
        labels = labels_of_draws(self._session, checked, Labels.given(coords, dims))
        return result_container(self._session, result, coreset, provenance, labels)

    def certify(
        self,
        data: Data,
        coreset: Coreset,
        posterior: Posterior,
        *,
        draws: int = CERTIFIED_DRAWS,
        reference: Reference | None = None,
    ) -> Certificate:
        """Certify draws of the coreset posterior on the full data.

        Parameters
        ----------
        data : mapping or path
            The full data.
        coreset : Coreset
        posterior : ArviZ container, cmdstanpy fit or dict of arrays
            Draws of the coreset posterior, as from `sample`.
        draws : int
            Number of draws to evaluate, evenly spaced.
        reference : Reference, optional
            A reference whose draws show whether the coreset's draws miss a part of the full
            posterior.

        Returns
        -------
        Certificate
        """
        if data is None:
            raise CertificateError(
                "a certificate compares the coreset posterior with the full one: it needs the "
                "full data, and data is None"
            )
        check_coreset(coreset)
        if reference is not None:
            check_is_reference(reference)
        check_whole("draws", draws, LEAST_DRAWS)
        check_draws(posterior)
        checked = self.read(data)
        references = () if reference is None else (reference,)
        judge = Certifier(self._session, checked, coreset, references)
        return judge.certificate(judge.chains(posterior), draws)

    def log_likelihood(
        self,
        data: Data,
        posterior: Posterior,
        *,
        draws: int | None = None,
        weights: WeightKind | None = None,
    ) -> Container:
        """Add every row's log likelihood to coreset draws, for LOO on the full data.

        Parameters
        ----------
        data : mapping or path
            The full data.
        posterior : CoresetFit or ArviZ container
            A fit whose verdict is ``"corrected"`` contributes its resampled draws.
        draws : int, optional
            Largest number of draws, evenly spaced in each chain; default: as many as take 1 GB
            (8 · rows bytes each), at least 100.
        weights : {"frequency"}, optional
            What weights of the rows mean; needed if there are any. A row of frequency w is repeated
            w times, so that ``arviz.loo`` and ``arviz.waic`` sum over all observations. For
            sampling weights see `loo`.

        Returns
        -------
        arviz.InferenceData or xarray.DataTree
            The groups of `posterior` at these draws, with ``log_likelihood`` (chain, draw, row)
            and ``observed_data``; ``arviz.loo`` takes it unchanged.

        Raises
        ------
        CertificateError
            If the fit was rejected.
        ProgramError
            If the density of each row depends on a statistic of all outcomes, so that there is no
            pointwise likelihood.
        OptionError
            If rows have weights and nothing says what they mean.

        Examples
        --------
        >>> pointwise = model.log_likelihood(data, fit)                  # doctest: +SKIP
        >>> arviz.loo(pointwise)                                         # doctest: +SKIP
        """
        check_draws(posterior, draws)
        check_kind(weights)
        return with_log_likelihood(
            self._session, self._adopted.original, self.read(data), posterior, draws, weights
        )

    def loo(
        self,
        data: Data,
        posterior: Posterior,
        *,
        draws: int | None = None,
        subsample: int | None = None,
        weights: WeightKind | None = None,
        seed: int = 0,
        show_progress: bool | None = None,
    ) -> Loo:
        """Leave-one-out cross-validation of the full data, in bounded memory.

        The rows' log likelihoods are evaluated, smoothed by ArviZ and summed block by block, so
        that only time limits the number of rows: a million rows at a thousand draws take minutes.

        Parameters
        ----------
        data : mapping or path
            The full data.
        posterior : CoresetFit or ArviZ container
            A fit whose verdict is ``"corrected"`` contributes its resampled draws.
        draws : int, optional
            Largest number of draws, evenly spaced in each chain; default: all.
        subsample : int, optional
            Number of random rows to leave out; the others' terms are approximated by their log
            likelihood at the posterior mean, and the error is reported (`Loo.sampling_se`).
        weights : {"frequency", "sampling"}, optional
            What weights of the rows mean, needed if there are any: ``weights`` in the data, or a
            column of the program that multiplies the log density of its row. ``"frequency"``: a row
            of weight w is w equal observations, of which one is left out at a time. ``"sampling"``:
            a row is left out with its whole weight, and its term counts w times. Precisions belong
            in the program, ``normal(mu, sigma ./ sqrt(w))``. See `stancoreset.program.row_weights`.
        seed : int
            Random seed of the subsample.
        show_progress : bool, optional

        Returns
        -------
        Loo
            For `stancoreset.loo_compare`.

        Raises
        ------
        CertificateError
            If the fit was rejected.
        ProgramError
            If the density of each row depends on a statistic of all outcomes.
        OptionError
            If rows have weights and nothing says what they mean.

        References
        ----------
        See `stancoreset.posterior.leave_one_out`.

        Examples
        --------
        >>> print(model.loo(data, fit, subsample=5_000))                 # doctest: +SKIP
        """
        check_draws(posterior, draws, seed)
        check_kind(weights)
        if subsample is not None:
            check_whole("subsample", subsample, 2)
        return loo(
            self._session,
            self._adopted.original,
            self.read(data),
            posterior,
            draws=draws,
            subsample=subsample,
            weights=weights,
            seed=seed,
            stages=Stages.given(None, show_progress),
        )

    def generate_quantities(
        self,
        data: Data,
        posterior: Posterior,
        names: Sequence[str] | None = None,
        *,
        draws: int | None = None,
        weights: WeightKind | None = None,
        seed: int = 0,
    ) -> Container:
        """Evaluate the program's generated quantities on the full data, at coreset draws.

        NUTS on the coreset leaves them out, because they would be computed from the coreset's rows
        only. Quantities of few numbers are already in `fit.posterior`.

        Parameters
        ----------
        data : mapping or path
            The full data.
        posterior : ArviZ container, cmdstanpy fit, dict of arrays, or CoresetFit
            A fit whose verdict is ``"corrected"`` contributes its resampled draws.
        names : sequence of str, optional
            Names of the quantities; default: all that the program defines.
        draws : int, optional
            Largest number of draws, evenly spaced in each chain; default: as many as take 1 GB
            (8 bytes for each number; a quantity may have one for each row).
        weights : {"frequency", "sampling"}, optional
            What ``weights`` in the data mean; needed if a quantity reads rows. ``"frequency"``: a
            row of weight w is repeated w times. ``"sampling"``: it is kept once, so that statistics
            of rows ignore the weights.
        seed : int
            Random seed of quantities that use random numbers.

        Returns
        -------
        arviz.InferenceData or xarray.DataTree
            A container whose posterior holds the quantities (chain, draw, *shape), for
            ``arviz.summary`` and plots.

        Raises
        ------
        OptionError
            If the program lacks one of these generated quantities, or has none; or if a quantity
            reads weighted rows and `weights` is not given.
        CertificateError
            If the fit was rejected.

        Examples
        --------
        >>> made = model.generate_quantities(data, fit, ["y_rep"])         # doctest: +SKIP
        >>> made.posterior["y_rep"].mean(("chain", "draw"))                # doctest: +SKIP
        """
        check_draws(posterior, draws, seed)
        check_kind(weights)
        original = self._adopted.original
        wanted = quantity_names(original, names)
        checked = self.read(data)
        return generated_quantities(
            self._session,
            original,
            checked,
            posterior,
            wanted,
            draws=draws,
            weights=weights,
            seed=seed,
        )

    def posterior_predictive(
        self,
        data: Data,
        posterior: Posterior,
        replicated: Mapping[str, str],
        *,
        draws: int | None = 100,
        weights: WeightKind | None = None,
        seed: int = 0,
    ) -> Container:
        """Add replicated and observed outcomes of all rows to coreset draws.

        Parameters
        ----------
        data : mapping or path
            The full data.
        posterior : CoresetFit or ArviZ container
            As in `log_likelihood`, whose container may be passed too: with ``draws=None`` both
            groups hold the same draws, as ``arviz.plot_loo_pit`` requires.
        replicated : mapping of str to str
            Data variable → the generated quantity that replicates it: ``{"y": "y_rep"}``.
        draws : int, optional
            Largest number of draws, evenly spaced in each chain; None: as in `log_likelihood`.
        weights : {"frequency", "sampling"}, optional
            What weights of the rows mean, needed if there are any: a row of frequency w is
            replicated, and shown, w times; a sampled row once.
        seed : int
            Random seed of the replications.

        Returns
        -------
        arviz.InferenceData or xarray.DataTree
            The groups of `posterior` at these draws, with ``posterior_predictive`` (chain, draw,
            row) and ``observed_data``, under the names of the data.

        Raises
        ------
        OptionError
            If there is no such data variable with rows, or no such generated quantity.
        DataError
            If a quantity does not have the shape of the data.
        CertificateError
            If the fit was rejected.

        Examples
        --------
        >>> checks = model.posterior_predictive(data, fit, {"y": "y_rep"})   # doctest: +SKIP
        >>> arviz.plot_ppc_dist(checks)      # ArviZ 1.x; plot_ppc on 0.23     # doctest: +SKIP
        """
        check_draws(posterior, draws, seed)
        check_kind(weights)
        return with_replications(
            self._session,
            self._adopted.original,
            self.read(data),
            posterior,
            replicated,
            draws=draws,
            weights=weights,
            seed=seed,
        )

    @single_threaded
    def information(
        self,
        rows: Data,
        fit: CoresetFit | Posterior,
        *,
        replicated: Mapping[str, str] | None = None,
        draws: int | None = None,
        seed: int = 0,
    ) -> Information:
        """Score rows by the information that each is expected to add to a posterior, in nats.

        The score is the expected decrease of the posterior's entropy. Outcomes may be unknown, so
        that scores tell which rows to label, to measure or to keep.

        Parameters
        ----------
        rows : mapping, path or Table
            As for `fit`, with or without outcomes; other data that are missing are taken from the
            fit. Rows of a `stancoreset.Table` may stay on disk. A row of weight w counts as w equal
            rows, so that ``model.information(fit.data, fit)`` scores the coreset's rows with their
            weights. If observations are the cells of a wide table, each cell has a score, in
            row-major order. For a regression, `Regression.rows` makes such data from a table.
        fit : CoresetFit, ArviZ container, cmdstanpy fit or dict of arrays
            The posterior. A fit whose verdict is ``"corrected"`` contributes its resampled draws.
        replicated : mapping of str to str, optional
            Unknown outcome → the generated quantity that simulates it: ``{"y": "y_rep"}``.
            Generalised linear models do not need it, nor does an outcome of whole numbers between
            declared bounds.
        draws : int, optional
            Number of draws at which log likelihoods are differentiated if the likelihood is no
            generalised linear model; default: 32, or 100 if outcomes are simulated.
        seed : int
            Random seed of simulated outcomes.

        Returns
        -------
        Information

        Raises
        ------
        DataError
            If the rows lack predictors, or have wrong shapes; if the posterior has too few draws.
        OptionError
            If outcomes are unknown and cannot be summed over or simulated.
        CertificateError
            If the fit was rejected.

        Notes
        -----
        The information is about ψ, the quantities that enter the rows' likelihood (`seen`), and
        through these about all parameters. See `stancoreset.analysis.information` for the formulas.

        Examples
        --------
        >>> scores = model.information("unlabelled.parquet", fit)            # doctest: +SKIP
        >>> scores.best(100)                                                 # doctest: +SKIP
        """
        asked = scoring_options(fit, replicated, draws, seed)
        return information(self._session, self._adopted.original, rows, fit, asked)

    @single_threaded
    def design(
        self,
        rows: Data,
        fit: CoresetFit | Posterior,
        size: int = 20,
        *,
        target: str | Sequence[str] | None = None,
        repeat: bool = False,
        replicated: Mapping[str, str] | None = None,
        draws: int | None = None,
        seed: int = 0,
    ) -> Design:
        """Choose the rows that together are expected to add most to a posterior.

        Rows are chosen one after the other, each for the information that it adds to that of the
        rows before it. Without a target, their gain is at least 1 − 1/e = 63 % of that of the best
        possible set. Observe them, fit again, and choose the next ones from the new posterior.

        Parameters
        ----------
        rows, fit, replicated, draws, seed
            See `information`.
        size : int
            Number of rows to choose, k.
        target : str or list of str, optional
            Parameters or generated quantities of the posterior, as tables name them (``"beta"``,
            ``"beta[age]"``; elements without names count from zero, so that Stan's first one is
            ``"beta[0]"``, or ``"beta.1"`` as in CmdStan's files): the rows are then chosen to lower
            the sum of their variances, each divided by its present one (A-optimal). By default they
            lower the entropy of all quantities that enter the likelihood (D-optimal).
        repeat : bool
            Whether a row may be chosen more than once, as settings of an experiment may.

        Returns
        -------
        Design

        Raises
        ------
        DataError, OptionError, CertificateError
            As in `information`; also if the posterior lacks a target.

        Examples
        --------
        >>> chosen = model.design("unlabelled.parquet", fit, size=100)       # doctest: +SKIP
        >>> chosen.to_frame()                                                # doctest: +SKIP
        >>> model.design(rows, fit, target="beta[dose]").sd                  # doctest: +SKIP
        """
        asked = scoring_options(fit, replicated, draws, seed)
        check_whole("size", size, 1)
        check_flag("repeat", repeat)
        targets = [] if target is None else [target] if isinstance(target, str) else target
        check_names("target", targets, "parameters or generated quantities")
        return design(
            self._session, self._adopted.original, rows, fit, asked, size, list(targets), repeat
        )

    @property
    def stan_code(self) -> str:
        """The Stan program that NUTS runs on a coreset, including the control variate.

        Any Stan interface can run it with `stan_data`.
        """
        return self._session.controlled.code

    def stan_data(self, data: Data, coreset: Coreset | None = None) -> dict[str, Any]:
        """Data for `stan_code`: a coreset with its control variate, or all rows.

        Parameters
        ----------
        data : mapping or path
            The full data.
        coreset : Coreset, optional
        """
        if coreset is not None:
            check_coreset(coreset)
        rows = self._session.rows(self.read(data), coreset)
        return {**self._session.controlled.nothing(), **rows}

    def explain(self) -> pd.DataFrame:
        """List how each statement that adds to the log density is treated.

        Returns
        -------
        pandas.DataFrame
            ``line``, ``statement``, ``role`` (likelihood, prior, …) and ``why``; empty for a
            program with weights of its own.
        """
        import pandas as pd

        return pd.DataFrame(self._adopted.weaving, columns=["line", "statement", "role", "why"])

    def explain_observation(self) -> str:
        """Say what one observation is, and which data it has.

        Examples
        --------
        >>> code = '''
        ... data { int N; vector[N] y; } parameters { real b; }
        ... model { for (n in 2:N) y[n] ~ normal(b * y[n - 1], 1); }'''
        >>> said = CoresetModel(stan_code=code, engine="stanli").explain_observation()
        >>> print(said.replace(". ", ".\\n"))
        An observation is one of N, with its own y.
        What it carries along is found once from the full data: row_number, y_before.
        """
        return describe_observation(self._adopted)

    @property
    def seen(self) -> tuple[str, ...]:
        """Names of the variables in ψ, the functions of the parameters that enter the likelihood.

        For a program with group effects ``r = sd * z`` these are the effects `r`, and neither `sd`
        nor `z`; see `stancoreset.stan.likelihood`. If the model block computes the effects, as in
        ``y ~ normal(mu + sd * z[g], sigma)``, the product gets a name made of those of its factors,
        `sd_z`.
        """
        return self._session.controlled.seen

    def explain_seen(self) -> str:
        """List the functions of the parameters that enter the likelihood of the rows.

        Products of parameters that the likelihood contains, but that do not replace their factors
        in ψ, are listed with the reason.
        """
        return describe_seen(self._session)

    def identities(self, data: Data, *, points: int = 5, seed: int = 0) -> pd.DataFrame:
        """Check numerically that the program's weights act as weights.

        Parameters
        ----------
        data : mapping or path
            The full data, of which a few random rows are used.
        points : int
            Number of random parameter values.
        seed : int

        Returns
        -------
        pandas.DataFrame
            ``name``, ``statement``, largest relative ``error`` and ``passed`` of each identity.
        """
        check_whole("points", points, 2)  # what is compared is known up to a constant
        check_seed(seed)
        checked = self.read(data)
        return identity_table(
            check_adopted(self._adopted, self.engine, checked, check_identities, points, seed)
        )

    def close(self) -> None:
        """Release the engine's copy of the full data."""
        self._session.close()
