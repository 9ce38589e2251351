"""The steps of `CoresetModel.fit` one by one, each from what the steps before it have given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from stancoreset.checks import (
    check_choice,
    check_is,
    check_labels,
    check_seed,
    check_whole,
    understood,
)
from stancoreset.engines import NUTS, Engine, check_inits, fresh_seed, recorded_inits
from stancoreset.engines.cmdstan import require_csv_folder
from stancoreset.errors import CertificateError
from stancoreset.model.adopt import Adopted
from stancoreset.model.certify import CERTIFIED_DRAWS, Judge
from stancoreset.model.controlled import ControlledSelection, corrected_error
from stancoreset.model.plan import HELDOUT_DRAWS, PROJECTIONS, TAYLOR
from stancoreset.model.pointwise import (
    generated_quantities,
    quantity_names,
    with_log_likelihood,
    with_replications,
)
from stancoreset.model.session import Session
from stancoreset.posterior import LEAST_DRAWS, Certificate
from stancoreset.posterior.arviz import variables_of
from stancoreset.progress import Stages
from stancoreset.reference import Reference, check_reference
from stancoreset.selection import Coreset, Projection, TaylorProjection, project_taylor
from stancoreset.stan import WeightedProgram

__all__ = ["Steps"]


class Steps:
    """What can be done with a model's program and engine, step by step.

    The base of `stancoreset.CoresetModel`, which makes the four attributes. `sc.select` is the
    step between `project` and `sample`: it needs no model.

    Attributes
    ----------
    program : WeightedProgram
    engine : Engine
    """

    program: WeightedProgram
    engine: Engine
    _adopted: Adopted
    _session: Session

    def read(self, data: Any) -> Mapping[str, Any]:
        """Read and check the full data; weights need not be there.

        Raises
        ------
        DataError
            If something is missing, not finite, or of the wrong type or shape.
        """
        return self._session.read(data)

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
        check_seed(seed)
        check_whole("draws", draws, 2)
        check_reference(method)
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
            Rows M that selection may choose from; all rows if there are fewer. Where most of
            them are equal, `fit` keeps the different ones only, which is faster.
        heldout : int
            Draws that measure the held-out error.
        seed : int
            Which rows are candidates.

        Returns
        -------
        Projection or TaylorProjection
        """
        check_choice("projection", projection, (*PROJECTIONS, TAYLOR))
        _check_reference(reference)
        check_whole("candidates", candidates, 1)
        check_whole("heldout", heldout, 2)
        check_seed(seed)
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
        _check_coreset(coreset)
        _check_reference(reference)
        checked = self.read(data)
        full = self._session.full_data(checked)
        expansion = self._session.expand(full, reference)
        selection = ControlledSelection(self._session, checked, full, expansion)
        completed = selection.complete(coreset)
        selection.verify(completed, reference.draws[:3])
        unseen = reference.more(HELDOUT_DRAWS, stream=0)
        error = corrected_error(self._session, checked, full, completed, unseen)
        return replace(completed, heldout_error=error)

    def sample(
        self,
        data: Any,
        coreset: Coreset | None = None,
        *,
        inits: Any = None,
        seed: int | None = 0,
        coords: Mapping[str, Sequence[Any]] | None = None,
        dims: Mapping[str, Sequence[str]] | None = None,
        show_progress: bool | None = None,
        output_dir: str | Path | None = None,
        **options: Any,
    ) -> Any:
        """NUTS on the coreset, or on the full data if `coreset` is None.

        Parameters
        ----------
        data : mapping or path
            The full data.
        coreset : Coreset, optional
        inits : optional
            Where the chains start, see `fit`; default: Stan's random inits.
        seed : int or None
            None: any, which is kept with the draws.
        coords, dims : dict, optional
            Names for the dimensions of parameters, as in ArviZ.
        show_progress : bool, optional
            Bars on standard error; default: only in a terminal.
        output_dir : path, optional
            Where CmdStan's own CSV files are kept; default: they are temporary.
        **options
            Of NUTS, as in cmdstanpy's ``sample``: ``chains``, ``iter_warmup``,
            ``iter_sampling``, ``thin``, ``adapt_delta``, …; see `stancoreset.engines.nuts.NUTS`.

        Returns
        -------
        arviz.InferenceData or xarray.DataTree
            Posterior and sampler statistics; with ``save_warmup`` those of warm-up, too.

        Raises
        ------
        OptionError
            An option of NUTS that is out of range, or that this engine does not have.
        """
        nuts = NUTS.of(options)
        nuts.require_engine(self.engine.name)
        seed = fresh_seed() if seed is None else seed
        check_seed(seed)
        check_inits(inits, nuts.chains)
        require_csv_folder(output_dir, "output_dir", self.engine.name)
        check_labels(coords, dims)
        show = Stages.given(None, show_progress).show
        if coreset is not None:
            _check_coreset(coreset)
        checked = self.read(data)
        result = self._session.sample(
            checked,
            coreset,
            nuts=nuts,
            seed=seed,
            inits=inits,
            output_dir=output_dir,
            show_progress=show,
        )
        given = {} if inits is None else {"inits": recorded_inits(inits)}
        provenance = self._session.provenance(checked, {"seed": seed, **nuts.settings(), **given})
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
        _check_coreset(coreset)
        if reference is not None:
            _check_reference(reference)
        check_whole("draws", draws, LEAST_DRAWS)
        _check_draws(posterior)
        checked = self.read(data)
        references = () if reference is None else (reference,)
        return Judge(self._session, checked, coreset, references).certificate(posterior, draws)

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
        ProgramError
            If a statistic of all rows' outcomes stands in the density of each: there is no
            pointwise likelihood then.

        Examples
        --------
        >>> pointwise = model.log_likelihood(data, fit)                  # doctest: +SKIP
        >>> arviz.loo(pointwise)                                         # doctest: +SKIP
        """
        _check_draws(posterior, draws)
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
            Of a fit whose verdict is ``"corrected"``, the resampled draws are taken.
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
        CertificateError
            If the fit was rejected.
        """
        _check_draws(posterior, draws, seed)
        original = self._adopted.original
        wanted = quantity_names(original, names)
        checked = self.read(data)
        return generated_quantities(
            self._session, original, checked, posterior, wanted, draws=draws, seed=seed
        )

    def posterior_predictive(
        self,
        data: Any,
        posterior: Any,
        replicated: Mapping[str, str],
        *,
        draws: int | None = 100,
        seed: int = 0,
    ) -> Any:
        """Replicated outcomes of all rows beside the observed ones: for predictive checks.

        Parameters
        ----------
        data : mapping or path
            The full data.
        posterior : CoresetFit or ArviZ container
            As for `log_likelihood`, whose container serves as well: with ``draws=None`` both
            groups hold the same draws, as ``arviz.plot_loo_pit`` wants it.
        replicated : mapping of str to str
            Data variable → the generated quantity that replicates it: ``{"y": "y_rep"}``.
        draws : int, optional
            How many draws at most, evenly spaced in each chain; None: as `log_likelihood`.
        seed : int
            Of the replications.

        Returns
        -------
        arviz.InferenceData or xarray.DataTree
            What `posterior` holds at these draws, and the groups ``posterior_predictive``
            (chain, draw, row) and ``observed_data``, under the data's own names.

        Raises
        ------
        OptionError
            No such data by row, or no such generated quantity.
        DataError
            A quantity that has not the shape of the data.
        CertificateError
            If the fit was rejected.

        Examples
        --------
        >>> checks = model.posterior_predictive(data, fit, {"y": "y_rep"})   # doctest: +SKIP
        >>> arviz.plot_ppc_dist(checks)      # ArviZ 1.x; plot_ppc on 0.23     # doctest: +SKIP
        """
        _check_draws(posterior, draws, seed)
        return with_replications(
            self._session,
            self._adopted.original,
            self.read(data),
            posterior,
            replicated,
            draws=draws,
            seed=seed,
        )

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
        if coreset is not None:
            _check_coreset(coreset)
        rows = self._session.rows(self.read(data), coreset)
        return {**self._session.controlled.nothing(), **rows}


def _check_draws(posterior: object, draws: int | None = None, seed: int = 0) -> None:
    """Raise unless a step can be made of so many draws of a posterior."""
    with understood("posterior", posterior, "draws of the coreset posterior, or a fit"):
        variables_of(posterior)
    if draws is not None:
        check_whole("draws", draws, 1)
    check_seed(seed)


def _check_coreset(coreset: object) -> None:
    check_is("coreset", coreset, Coreset, "a Coreset, such as fit.coreset")


def _check_reference(reference: object) -> None:
    check_is("reference", reference, Reference, "a Reference, as model.reference makes it")
