"""The result of a fit: coreset, posterior, certificate, and their provenance."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from numpy.typing import NDArray

from stancoreset.checks import (
    check_flag,
    check_names,
    check_number,
    check_path,
    check_seed,
    check_whole,
    shown,
)
from stancoreset.engines import Engine, EngineName, Float, resolve_engine
from stancoreset.errors import NoCoresetError, OutputError
from stancoreset.files import reading, write_text
from stancoreset.posterior import Certificate, Evidence, arviz, corrected_posterior, percent, plots
from stancoreset.program import Data
from stancoreset.progress import Stages
from stancoreset.reference import Reference
from stancoreset.runs import report
from stancoreset.runs.folder import (
    COMPANION,
    PROGRAM,
    RunFolder,
    enlist,
    load_part,
    load_stage,
    require_finished,
    results_in,
)
from stancoreset.runs.report import Shown
from stancoreset.runs.round import Round
from stancoreset.runs.stan_csv import write_chains
from stancoreset.runs.ways import Way, way_of
from stancoreset.selection import Coreset
from stancoreset.stan.data import json_text, read_data

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class CoresetFit:
    """The result of `CoresetModel.fit` and `CoresetModel.merge`.

    Attributes
    ----------
    selected : Coreset or None
        Rows and weights, which `coreset` returns; None for ``method="gaussian"``.
    posterior : arviz.InferenceData or xarray.DataTree
        NUTS draws on the coreset, with sampler statistics; for ``method="gaussian"`` draws of the
        reference's Gaussian. The group also has the program's generated quantities of few numbers,
        evaluated on the full data, if the data are in memory.
    certificate : Certificate
        The verdict, computed on the full data.
    reference : Reference
        Reference draws used for selection.
    laplace : arviz.InferenceData or xarray.DataTree
        The reference's draws on the parameters' own scale, for comparison: those of a Laplace fit
        unless ``reference.method`` says otherwise. ``reference.label`` names them in legends.
    timings : dict of str to float
        Seconds of each stage, which add up to the time of the fit. ``import`` is the time to import
        libraries, and ``other`` the time outside all stages.
    settings : dict
        The options of the fit.
    provenance : dict
        Versions, seeds, hashes of program and data.
    passes : dict
        Numbers of evaluations of the full data: ``densities`` and ``gradients``. ``cost`` is the
        cost of all evaluations, in units of one gradient of all rows: a log density counts as one
        gradient, subsamples and candidates count in proportion. ``nuts_gradients`` is the number of
        gradients of the coreset's density that NUTS evaluated after warm-up. If rows stay on disk,
        ``reads`` is the number of times they were read. ``likelihood`` names the evaluator of the
        likelihood, if it is not Stan alone; ``engines`` names the engine that evaluated the full
        data in place of CmdStan, with the largest difference between the two. ``distinct_rows`` is
        the number of distinct rows, if at most half of the rows are distinct; equal rows are then
        evaluated once.
    data : dict or None
        The coreset's rows as data of the weighted program, so that the fit may be merged without
        the full data; saved as ``coreset_data.json``. None for a fit of an earlier version.
    native : object
        The engine's own fit (``cmdstanpy.CmdStanMCMC``, ``stanli.Fit``), if it was made
        in this session.
    rounds : tuple of Round
        One record per round; more than one only if the first round was not certified.
    weaving : sequence of dict
        How each statement of the program is weighted, as `CoresetModel.explain` lists it.
    program : str
        The Stan program as the user gave it, with included files inserted; saved as ``model.stan``.
    evidence : Evidence or None
        The evidence of the model, for ``method="gaussian"`` and for the references
        ``"gaussian_vi"`` and ``"double_loop"``: an importance-sampling estimate of log p(y) by
        draws of the reference's Gaussian with its Monte-Carlo error, and a lower bound. It is
        meaningful only for proper priors. None for other fits, or if an additive constant of the
        program's log density is unknown.
    """

    selected: Coreset | None
    posterior: arviz.Container = field(repr=False)
    certificate: Certificate
    reference: Reference = field(repr=False)
    laplace: arviz.Container = field(repr=False)
    timings: Mapping[str, float] = field(repr=False)
    settings: Mapping[str, Any] = field(repr=False)
    provenance: Mapping[str, Any] = field(repr=False)
    passes: Mapping[str, Any] = field(default_factory=dict, repr=False)
    data: Mapping[str, Any] | None = field(default=None, repr=False, compare=False)
    native: Any = field(default=None, repr=False, compare=False)
    rounds: tuple[Round, ...] = ()
    weaving: Sequence[Mapping[str, Any]] = field(default=(), repr=False)
    program: str = field(default="", repr=False)
    evidence: Evidence | None = None

    @property
    def coreset(self) -> Coreset:
        """Rows and weights.

        Raises
        ------
        NoCoresetError
            If the fit has none, because its draws are those of a Gaussian or of the posterior.
        """
        if self.selected is None:
            why = 'method="gaussian" selects no rows; fit without this method to get one'
            if self.reference.is_integrated:
                why = f"all rows have {self.reference.of_units}; give size= to get weighted rows"
            raise NoCoresetError(f"this fit has no coreset, because {why}")
        return self.selected

    @property
    def made_of(self) -> str:
        """The posterior's source in words, such as ``"25 weighted rows of 30,000"``."""
        if self.selected is not None:
            return self.selected.made_of
        named = self.provenance.get("observations")  # cells, segments, …
        rows = named or f"{self.provenance['n_obs']:,} rows"
        if self.reference.is_integrated:
            return f"{rows}, with {self.reference.of_units}"
        return f"draws of a {self.reference.label} of {rows}"

    @property
    def way(self) -> Way:
        """The way that the best round went, such as ``collapsed sampler → quadratic only → …``."""
        return way_of(self.reference, self.selected, self.certificate)

    def __repr__(self) -> str:
        certificate = self.certificate
        against = f", compared with {certificate.against}" if certificate.against else ""
        judged = " by marginals" if certificate.by_marginals else ""
        return (
            f"CoresetFit({certificate.verdict}{judged}: {self.made_of}, "
            f"importance efficiency {percent(certificate.efficiency)}, "
            f"Pareto k̂ {certificate.khat:.2f}{against}, {self.seconds:.1f} s)"
        )

    def _repr_html_(self) -> str:
        """A card for notebooks."""
        return report.card_of(self)

    @property
    def posteriors(self) -> dict[str, Any]:
        """The fit and its reference's draws by name, for comparisons and plots."""
        own = "weighted Gaussian" if self.selected is None else "coreset"
        if self.reference.is_integrated:
            return {"posterior": self}
        return {own: self, self.reference.name: self.laplace}

    def plot(self, **options: Any) -> NDArray[Any]:
        """Plot certificate, weights, and marginal densities beside the reference's.

        See `stancoreset.plots.plot_fit`, which takes the options; ``stancoreset.plots`` has one
        function for each other picture.
        """
        return plots.plot_fit(self, **options)

    @property
    def seconds(self) -> float:
        """Wall-clock seconds of the fit, first imports, saving and its report included."""
        return float(sum(self.timings.values()))

    @property
    def weights(self) -> Float | None:
        """Importance weights of `certified_draws` if the verdict is ``"corrected"``, else None."""
        return self.certificate.weights if self.certificate.verdict == "corrected" else None

    def certified_draws(self) -> dict[str, Float]:
        """The draws that the certificate evaluated, (n_draws, *shape) by name.

        With ``fit.certificate.expectation(f(draws))`` they give expectations under the
        full posterior, corrected by the smoothed weights.
        """
        variables = arviz.variables_of(self.posterior)
        index = self.certificate.draw_index
        return {
            name: value.reshape(-1, *value.shape[2:])[index] for name, value in variables.items()
        }

    def corrected(self, resample: bool | int = True) -> arviz.Container:
        """The posterior, with importance weights applied if the verdict is ``"corrected"``.

        Parameters
        ----------
        resample : bool or int
            True: draw as many as the certificate evaluated, in proportion to their weights (one
            chain); a number: that many. False: the draws with their weights as
            ``importance_weight`` in ``sample_stats``.

        Returns
        -------
        arviz.InferenceData or xarray.DataTree
            `posterior` itself if the verdict is ``"certified"``.

        Raises
        ------
        CertificateError
            If the verdict is ``"rejected"``.
        """
        if not isinstance(resample, bool):
            check_whole("resample", resample, 1)
        return corrected_posterior(self.posterior, self.certificate, resample)

    def summary(
        self, var_names: Sequence[str] | None = None, *, prob: float = 0.9, **options: Any
    ) -> pd.DataFrame:
        """ArviZ's summary table, of the `corrected` posterior if that is the verdict.

        Parameters
        ----------
        var_names : sequence of str, optional
            All parameters by default.
        prob : float
            Mass of the central interval; 0.9 gives the columns ``q5`` and ``q95``.
        **options
            Of the installed ``arviz.summary``: ``kind``, ``round_to``, ``filter_vars``, …; with
            ``hdi_prob`` (ArviZ 0.23), ``ci_kind`` (1.x) and other options of the interval or the
            statistics, their columns are ArviZ's own. By default nothing is rounded, and the
            columns are the same with every version.

        Raises
        ------
        OptionError
            If ArviZ does not have an option, or refuses its value.
        """
        wanted = self.certificate.verdict == "corrected"
        posterior = self.corrected() if wanted else self.posterior
        return arviz.summary(posterior, var_names, prob=prob, **options)

    def write_csv(
        self,
        path: str | Path,
        data: Data | None = None,
        names: Sequence[str] | None = None,
        *,
        engine: EngineName | Engine | None = None,
        seed: int | None = None,
        overwrite: bool = False,
    ) -> list[Path]:
        """Write the draws as CmdStan does, one CSV file for each chain, for R and other tools.

        ``cmdstanpy.from_csv``, ``arviz.from_cmdstan``, ``rstan::read_stan_csv`` and
        ``cmdstanr::as_cmdstan_fit`` read them. Columns are sampler statistics, parameters,
        transformed parameters (without those that have an element per row) and the program's
        generated quantities, evaluated on the full data.

        Parameters
        ----------
        path : path
            The folder for ``chain_1.csv``, ``chain_2.csv``, …
        data : mapping or path, optional
            The full data; needed for generated quantities that `posterior` lacks.
        names : sequence of str, optional
            The generated quantities to write; default: all. One with an element per row takes
            about 20 · rows · draws bytes.
        engine : {"auto", "cmdstan", "stanli"} or Engine, optional
            The engine that evaluates generated quantities; default: the one that fitted.
        seed : int, optional
            Random seed of quantities that use random numbers; default: the fit's.
        overwrite : bool
            Whether to replace chains that the folder already holds.

        Returns
        -------
        list of Path
            The files: one for each chain. If the verdict is ``"corrected"``, a single one with the
            resampled draws of `corrected`.

        Raises
        ------
        CertificateError
            If the fit was rejected.
        DataError
            If the data are missing or those of another fit, or their rows are on disk.
        OutputError
            If the folder holds chains, or has too little space.

        Notes
        -----
        ``lp__`` and the other sampler statistics belong to the weighted program that NUTS ran; they
        are zero if the draws were transformed by moment matching. Engines report one time for all
        chains, which is divided between warm-up and sampling in proportion to the numbers of
        iterations.

        Examples
        --------
        >>> import cmdstanpy                                                   # doctest: +SKIP
        >>> cmdstanpy.from_csv(fit.write_csv("chains", data))                  # doctest: +SKIP
        """
        path = check_path("path", path)
        check_flag("overwrite", overwrite)
        seed = int(self.settings.get("seed", 0)) if seed is None else seed
        check_seed(seed)
        if names is not None:
            check_names("names", names, "generated quantities")
        container = self.corrected()
        if not self.program:
            raise OutputError(
                "the fit does not contain its Stan program, because an earlier version of "
                "stancoreset wrote its folder; fit again, or use model.generate_quantities(data, "
                "fit)"
            )
        used = str(self.provenance.get("engine", "auto")).split()[0].lower()
        counted = self.provenance["obs"] if self.selected is None else self.selected.obs
        return write_chains(
            container,
            self.program,
            self.provenance,
            path,
            data,
            names,
            resolve_engine(cast("EngineName", used) if engine is None else engine),
            obs=self.provenance.get("obs_asked") or counted,
            n_obs=int(self.provenance["n_obs"]),
            seed=seed,
            overwrite=overwrite,
        )

    def report(self) -> dict[str, Any]:
        """The report as plain values, as in ``report.json``.

        Numbers that are unknown or not finite are None.
        """
        parts = {
            "way": str(self.way),
            "certificate": self.certificate.describe(),
            "rounds": [asdict(record) for record in self.rounds],
            "coreset": {} if self.selected is None else self.selected.describe(),
            "evidence": {} if self.evidence is None else asdict(self.evidence),
            "reference": {
                "method": self.reference.method,
                "draws": len(self.reference.draws),
                "unsettled": self.reference.unsettled,
                "by_chains": self.reference.by_chains,
            },
            "seconds": self.seconds,
            "timings": dict(self.timings),
            "passes": dict(self.passes),
            "settings": dict(self.settings),
            "provenance": dict(self.provenance),
            "weaving": [dict(entry) for entry in self.weaving],
        }
        return {name: _plain(part) for name, part in parts.items()}

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the fit to a folder, from which `load_fit` reads it.

        The files are ``coreset.csv`` (row, weight, information, the row's data), ``posterior.nc``
        and ``laplace.nc`` (ArviZ), ``certificate.csv``, ``reference.npz``, ``model.stan``,
        ``report.json``, ``report.md`` and ``report.html``. The last two list all files of the
        folder.

        Parameters
        ----------
        path : path
            An empty or new folder, or the one to which `fit` has written its stages.
        overwrite : bool
            Whether to replace an earlier fit, once this one is written.

        Raises
        ------
        OutputError
            If the folder was not made by stancoreset, or holds another fit.
        """
        path = check_path("path", path)
        check_flag("overwrite", overwrite)
        folder = RunFolder.open(path, self.provenance, resume=not overwrite, overwrite=overwrite)
        keep_fit(self, folder, Stages(show_progress=False))
        return path

    @cached_property
    def _shown(self) -> Shown:
        """The parts of a report that take time (picture and summary), made once."""
        return Shown.of(self)

    def markdown(self) -> str:
        """The report in prose and tables, as in ``report.md``."""
        return report.markdown(self, self._shown)

    def html(self) -> str:
        """The report as one HTML page with its pictures, as in ``report.html``."""
        return report.page(self, self._shown)


def keep_fit(fit: CoresetFit, folder: RunFolder, stages: Stages) -> None:
    """Write a fit to its folder; saving and drawing are stages, which the report lists, too."""
    here = folder.path
    assert here is not None
    with stages("save"):
        folder.keep_all(fit)
        arviz.save(fit.laplace, here / "laplace.nc")
        if fit.data is not None:
            write_text(here / COMPANION, json_text(fit.data) + "\n")
        if fit.program:
            write_text(here / PROGRAM, fit.program)
        enlist(here, ("laplace.nc", COMPANION, PROGRAM))
    with stages("report"):
        _ = fit._shown
    stages.rest()
    write_reports(fit, here)
    folder.publish()


def write_reports(fit: CoresetFit, here: Path) -> None:
    """Write a fit's report in its three forms, the one last that makes its run complete."""
    write_text(here / "report.md", fit.markdown())
    write_text(here / "report.html", fit.html())
    enlist(here, ("report.md", "report.html"))
    write_text(here / "report.json", json.dumps(fit.report(), indent=2, default=str) + "\n")
    enlist(here, ("report.json",))


def _plain(value: Any) -> Any:
    """Replace numbers that are not finite by None, because JSON cannot hold them."""
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def load_fit(path: str | Path) -> CoresetFit:
    """Read a fit written by `CoresetFit.save`, ``fit(output_dir=…)`` or the command line.

    Parameters
    ----------
    path : path
        The folder.

    Returns
    -------
    CoresetFit

    Raises
    ------
    OutputError
        If the folder does not exist or was not made by stancoreset, if its run is not finished, or
        if a file is damaged, missing or changed.
    """
    folder = check_path("path", path)
    require_finished(folder)
    with reading(folder):
        here = results_in(folder)
        kept, known = (here / COMPANION).exists(), (here / PROGRAM).exists()
    told = load_part(here, "report.json", _read_report)
    fit = CoresetFit(
        selected=load_stage(here, "coreset") if told["coreset"] else None,
        posterior=load_stage(here, "posterior"),
        certificate=load_stage(here, "certificate"),
        reference=load_stage(here, "reference"),
        laplace=load_part(here, "laplace.nc", arviz.load),
        **{name: told[name] for name in ("timings", "settings", "provenance", "passes")},
        rounds=tuple(Round.of_report(record) for record in told.get("rounds", ())),
        data=load_part(here, COMPANION, read_data) if kept else None,
        weaving=tuple(told.get("weaving", ())),
        program=load_part(here, PROGRAM, lambda file: file.read_text("utf-8")) if known else "",
        evidence=Evidence(**told["evidence"]) if told.get("evidence") else None,
    )
    _require_consistent(fit, told, here)
    return fit


def _read_report(file: Path) -> dict[str, Any]:
    """Read a report and check the parts that a fit needs."""
    report = json.loads(file.read_text(encoding="utf-8"))
    parts = ("certificate", "coreset", "timings", "settings", "provenance", "passes")
    for name in parts:
        if not isinstance(report[name], dict):
            raise TypeError(f"{name} is {shown(report[name])}")
    for stage, seconds in report["timings"].items():
        check_number(f"timings.{stage}", seconds)
    counts = [("coreset", "size"), ("coreset", "n_obs")] if report["coreset"] else []
    for part, name in (*counts, ("certificate", "n_draws")):
        check_whole(f"{part}.{name}", report[part][name], 1)
    evidence = report.get("evidence") or {}
    if set(evidence) - {member.name for member in fields(Evidence)}:
        raise TypeError(f"evidence has {shown(evidence)}")
    for name, value in evidence.items():
        check_number(f"evidence.{name}", value)
    for record in report.get("rounds", ()):
        Round.of_report(record)
    for entry in report.get("weaving", ()):
        if not isinstance(entry, dict) or not {"line", "statement", "role", "why"} <= set(entry):
            raise TypeError(f"weaving has {shown(entry)}")
    return report


def _require_consistent(fit: CoresetFit, report: Mapping[str, Any], here: Path) -> None:
    """Raise unless files that are valid one by one belong together."""
    draws = next(iter(arviz.variables_of(fit.posterior).values())).shape
    total, certificate, about = draws[0] * draws[1], fit.certificate, report["coreset"]
    index = certificate.draw_index
    of_rows: list[tuple[str, str, int, int]] = []
    if fit.selected is not None:
        of_rows = [
            ("coreset.csv", "rows", fit.selected.size, about["size"]),
            ("coreset.json", "n_obs", fit.selected.n_obs, about["n_obs"]),
        ]
    for file, what, seen, expected in (
        *of_rows,
        ("certificate.csv", "draws", certificate.n_draws, report["certificate"]["n_draws"]),
    ):
        if seen != expected:
            raise OutputError(
                f"{here / file} has {seen} {what}, but report.json says {expected}: one of them "
                "is damaged, or belongs to another run"
            )
    if not 0 <= index.min() <= index.max() < total:
        raise OutputError(
            f"{here / 'certificate.csv'} names draw {index.max()}, but posterior.nc has {total} "
            "draws: one of them is damaged, or belongs to another run"
        )
