"""`regression`: a formula and a table become a Stan program, its data and its labels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stancoreset.checks import check_choice, check_flag, check_labels, check_path
from stancoreset.engines import Engine, EngineName, resolve_engine
from stancoreset.errors import DataError, OptionError, OutputError
from stancoreset.files import atomic_path, make_folder, write_text
from stancoreset.fit import Plan
from stancoreset.formulas.brms import refuse_family
from stancoreset.formulas.design import Design, Groups, Outcome, design_of, like_design
from stancoreset.formulas.families import FAMILIES, Family, FamilyName
from stancoreset.formulas.priors import FLAT, default_priors, with_given
from stancoreset.formulas.programs import program_of
from stancoreset.formulas.syntax import Formula, parse
from stancoreset.formulas.tables import TableSource, columns_of, complete_rows, read_table
from stancoreset.model import CoresetModel
from stancoreset.posterior import card
from stancoreset.runs import CoresetFit
from stancoreset.stan.data import to_json


@dataclass(frozen=True, eq=False)
class Regression:
    """A regression as a Stan program with its data; `regression` makes one.

    Attributes
    ----------
    formula : str
    family : str
    program : str
        The Stan program, for all rows.
    data : mapping of str to int or ndarray
        What the program declares.
    priors : mapping of str to str
        The prior of each parameter, in Stan's syntax, or ``"flat"``.
    coords, dims : mapping
        Names of the parameters' dimensions, as ArviZ takes them: ``b[distance]``,
        ``r_carrier[AA, Intercept]``.
    left_out : int
        Number of rows of the table that have a missing value.
    engine : str or Engine

    See Also
    --------
    regression
    """

    formula: str
    family: FamilyName
    program: str = field(repr=False)
    data: Mapping[str, Any] = field(repr=False)
    priors: Mapping[str, str]
    coords: Mapping[str, list[Any]] = field(repr=False)
    dims: Mapping[str, list[str]] = field(repr=False)
    left_out: int = 0
    engine: EngineName | Engine = field(default="auto", repr=False)
    _parsed: tuple[Formula, Design] | None = field(default=None, repr=False)

    @cached_property
    def model(self) -> CoresetModel:
        """The program as a `CoresetModel`, whose methods take `data`."""
        return CoresetModel(stan_code=self.program, engine=self.engine)

    def fit(
        self,
        *,
        seed: int | None = Plan.seed,
        coords: Mapping[str, Sequence[Any]] | None = None,
        dims: Mapping[str, Sequence[str]] | None = None,
        **options: Any,
    ) -> CoresetFit:
        """Fit all rows by a coreset; parameters are labelled by predictors and levels.

        Parameters
        ----------
        seed : int or None
        coords, dims : dict, optional
            Names of dimensions that replace those of the regression.
        **options
            Of `CoresetModel.fit`: ``size``, ``reference``, ``output_dir``, …

        Returns
        -------
        CoresetFit
        """
        check_labels(coords, dims)
        if "weights" in options:
            raise OptionError(
                "weights are no option of fit: write them in the formula, 'y | weights(w) ~ x', "
                "with a column w of the table"
            )
        return self.model.fit(
            self.data,
            seed=seed,
            coords={**self.coords, **(coords or {})},
            dims={**self.dims, **(dims or {})},
            **options,
        )

    def rows(self, frame: TableSource) -> dict[str, Any]:
        """Make data of the program from further rows, for `information` and `design`.

        Levels and transformations are coded as for the fitted rows. The rows may lack the outcome.

        Parameters
        ----------
        frame : pandas.DataFrame, table of Arrow, dict of columns, or path
            With the columns that the formula names.

        Returns
        -------
        dict
            For `CoresetModel.information` and `CoresetModel.design`.

        Raises
        ------
        DataError
            If a column is missing, a row lacks a value, or a level is new.

        Examples
        --------
        >>> import numpy as np, pandas as pd, stancoreset as sc
        >>> rng = np.random.default_rng(0)
        >>> table = pd.DataFrame({"x": rng.normal(size=90), "f": list("ABC") * 30, "y": 1.0})
        >>> made = sc.regression("y ~ scale(x) + f", table)
        >>> made.rows({"x": [0.5], "f": ["B"]})["Xc"].shape
        (1, 3)
        """
        assert self._parsed is not None  # `regression` made it
        formula, design = self._parsed
        kind, outcome = FAMILIES[self.family], formula.outcome.var_names
        others = [*design.terms, *(term for group in design.groups for term in group.terms)]
        needed = set().union(*(term.var_names for term in others))
        needed |= set().union(*(bar.factor.var_names for bar in formula.bars))
        beside = {argument.text: set(argument.variables) for argument in formula.arguments}
        trials = [beside[a.arguments[0]] for a in formula.additions if a.name == "trials"]
        needed |= set().union(*trials)
        optional = outcome.union(*beside.values()) - needed
        if design.outcome.beside.trials is not None and not trials:  # of prop(y, n)
            optional -= outcome
        table = columns_of(frame, formula.variables, optional, formula.spared)
        found = like_design(formula, design, table)
        known_outcome = len(found.outcome.values) and not kind.ordinal  # whose numbers are ranks
        y = kind.read(found.outcome) if known_outcome else None
        data = _data(found, _named(found.groups), kind, y)
        known = {name: self.data[name] for name in ("C", "means_X") if name in self.data}
        if "means_X" in known:
            data["Xc"] = found.matrix - known["means_X"]
        return {**data, **known}

    def write(self, directory: str | Path, *, overwrite: bool = False) -> list[Path]:
        """Write ``model.stan`` and ``data.json`` to a folder; return their paths.

        Raises
        ------
        OutputError
            If one of them exists and is not to be replaced, or the folder cannot be written to.
        """
        check_flag("overwrite", overwrite)
        folder = make_folder("directory", check_path("directory", directory))
        files = [folder / "model.stan", folder / "data.json"]
        for file in files:
            if file.exists() and not overwrite:
                raise OutputError(f"{file} exists; name another folder, or give overwrite=True")
        write_text(files[0], self.program)
        with atomic_path(files[1]) as draft:
            to_json(dict(self.data), draft)
        return files

    def __repr__(self) -> str:
        return f"Regression({self.formula!r}, family={self.family!r}, rows={self.data['N']:,})"

    def _repr_html_(self) -> str:
        """A card for notebooks, with the program folded."""
        left_out = f", {self.left_out:,} left out" if self.left_out else ""
        priors = "; ".join(f"{name} ~ {text}" for name, text in self.priors.items())
        facts = [
            ("family", self.family),
            ("rows", f"{self.data['N']:,}{left_out}"),
            ("coefficients", ", ".join(map(str, self.coords.get("coefficient", ())))),
            ("priors", priors),
        ]
        program = f"<pre>{escape(self.program)}</pre>"
        return (
            card(self.formula, facts)
            + f"<details><summary>The Stan program</summary>{program}</details>"
        )


def regression(
    formula: str,
    frame: TableSource,
    *,
    family: FamilyName = "gaussian",
    priors: Mapping[str, str] | None = None,
    engine: EngineName | Engine = "auto",
) -> Regression:
    """Make a regression of a formula and a table.

    Parameters
    ----------
    formula : str
        As in Bambi and brms: ``"late ~ distance + (1 | carrier)"``. It may have interactions
        ``x:f`` and ``x * f``, ``bs(x, df=4)``, ``poly(x, 2)``, ``scale(x)``, ``log(x)``, any
        function of numpy, ``{x**2}``, ``C(f)``, ``T(f, "reference")``, ``offset(log(n))``, and ``0
        + x`` for no intercept. Effects of a group are correlated, ``(x | g)``, or not, ``(x ||
        g)``; crossed, ``(1 | g) + (1 | h)``; nested, ``(1 | g/h)``; or of combinations, ``(1 |
        g:h)``. Categories are compared with their first level. A column of booleans is the number 0
        or 1, unlike in R: ``C(b)`` makes it a category. The outcome may have additions, ``y |
        weights(w) + trials(n) + cens(c)``; see `stancoreset.formulas.additions`. Terms of brms that
        are not supported are refused, with advice on what to write instead. See
        https://bambinos.github.io/formulae.
    frame : pandas.DataFrame, table of Arrow, dict of columns, or path
        A path is ``.csv``, ``.feather``, ``.parquet``, ``.arrow``, ``.json`` or ``.npz``, or a
        folder of Parquet files. Only the columns that the formula names are read; they must fit in
        memory (for more, see `stancoreset.Table`). Rows with a missing value are left out, and a
        warning counts them.
    family : str
        ``"gaussian"``, ``"student"``, ``"lognormal"`` (identity link); ``"bernoulli"`` (0 and 1, or
        two levels, of which the second is 1, or ``late["yes"]``), ``"binomial"`` and
        ``"beta_binomial"`` (``successes | trials(n)`` or ``prop(successes, n)``), ``"beta"``,
        ``"cumulative"`` for ordered levels (logit link); ``"poisson"``, ``"negbinomial"``, both
        with ``"zero_inflated_"`` or ``"hurdle_"`` before them, ``"gamma"``, ``"weibull"``,
        ``"exponential"`` (log link). Continuous outcomes but ``"beta"`` may be censored.
    priors : mapping of str to str, optional
        Priors by parameter, in Stan's syntax: ``{"b": "normal(0, 1)", "b[distance]": "normal(0,
        0.1)", "sd": "exponential(1)"}``. ``sd`` and ``L`` set the priors of all groups. The
        defaults are those of brms; see `stancoreset.formulas.priors`.
    engine : {"auto", "cmdstan", "stanli"} or Engine

    Returns
    -------
    Regression
        With the Stan program as text, and ``fit``.

    Raises
    ------
    OptionError
        If the formula cannot be read, or a prior is for a parameter that the program does not have.
    DataError
        If a column is missing, the outcome does not suit the family, a group has only one level, or
        coefficients with flat priors are not identified.

    Examples
    --------
    >>> import numpy as np, pandas as pd, stancoreset as sc
    >>> rng = np.random.default_rng(0)
    >>> flights = pd.DataFrame({"distance": rng.normal(size=90), "carrier": list("ABC") * 30})
    >>> flights["late"] = rng.random(90) < 0.3
    >>> made = sc.regression("late ~ distance + (1 | carrier)", flights, family="bernoulli")
    >>> made
    Regression('late ~ distance + (1 | carrier)', family='bernoulli', rows=90)
    >>> made.priors["sd_carrier"]
    'student_t(3, 0, 2.5)'
    >>> fit = made.fit(seed=1)                                           # doctest: +SKIP
    """
    refuse_family(family)
    check_choice("family", family, FAMILIES)
    if not (isinstance(engine, str) and engine == "auto"):  # which is looked for when it is needed
        resolve_engine(engine)
    parsed = parse(formula)
    _require_censorable(parsed, family)
    table, left_out = complete_rows(read_table(frame, parsed.variables), parsed.spared)
    design = design_of(parsed, table)
    kind = FAMILIES[family]
    y = kind.read(design.outcome)
    _require_ordered_limits(design.outcome)
    if not (design.labels or design.intercept or design.groups or kind.parameters):
        raise OptionError(f"formula {formula!r} has no parameter; leave out 0, or add a predictor")
    groups = _named(design.groups)
    correlated = {g: group.correlated for g, group in groups.items()}
    defaults = default_priors(kind, design, y, correlated)
    chosen = with_given(defaults, priors, design.labels)
    _require_apart(design, chosen)
    about = (formula, f"{kind.title} regression, {kind.link} link; priors of brms unless given")
    coords, dims = _labels(design, groups, kind)
    return Regression(
        formula=formula,
        family=family,
        program=program_of(about, kind, design, groups, chosen),
        data=MappingProxyType(_data(design, groups, kind, y)),
        priors=MappingProxyType(chosen),
        coords=MappingProxyType(coords),
        dims=MappingProxyType(dims),
        left_out=left_out,
        engine=engine,
        _parsed=(parsed, design),
    )


# Names -----------------------------------------------------------------------------------


def _named(groups: Iterable[Groups]) -> dict[str, Groups]:
    """Groups by their names in the program; a factor's second bar is named by its effect too."""
    found: dict[str, Groups] = {}
    for group in groups:
        name = _identifier(group.factor)
        if name in found:
            name = _identifier(f"{group.factor}_{group.effects[0]}")
        while name in found:
            name += "b"
        found[name] = group
    return found


def _identifier(text: str) -> str:
    """A text as the end of a Stan name: ``a:b`` is ``a_b``; ``g_1`` is ``g1``, for r_g_1 is r_g's.

    >>> _identifier("I(year - 1)"), _identifier("g_1")
    ('I_year1', 'g1')
    """
    words = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")
    return re.sub(r"_(?=[0-9]+$)", "", words) or "group"


def _labels(
    design: Design, groups: Mapping[str, Groups], family: Family
) -> tuple[dict[str, list[Any]], dict[str, list[str]]]:
    """Coordinates and dimensions, as ArviZ takes them."""
    coords: dict[str, list[Any]] = {}
    dims: dict[str, list[str]] = {}
    if design.labels:
        coords["coefficient"] = list(design.labels)
        dims["b"] = ["coefficient"]
    if family.ordinal:
        levels = design.outcome.levels or np.unique(design.outcome.values).tolist()
        coords["threshold"] = [f"{low}|{high}" for low, high in pairwise(levels)]
        dims |= {name: ["threshold"] for name in ("Intercept", "b_Intercept")}
    taken = {"b", "Intercept", "b_Intercept", "chain", "draw", *coords, *family.parameters}
    for g, group in groups.items():
        level = f"{g}_level" if g in taken else g
        effect, other = f"{g}_effect", f"{g}_effect_other"
        coords |= {level: group.levels, effect: list(group.effects)}
        dims |= {f"sd_{g}": [effect], f"z_{g}": [effect, level], f"r_{g}": [level, effect]}
        if group.correlated:
            coords[other] = list(group.effects)
            dims |= {name: [effect, other] for name in (f"L_{g}", f"cor_{g}")}
    return coords, dims


# Data ------------------------------------------------------------------------------------


def _data(
    design: Design, groups: Mapping[str, Groups], family: Family, y: NDArray[Any] | None
) -> dict[str, Any]:
    data: dict[str, Any] = {"N": design.rows} if y is None else {"N": design.rows, "Y": y}
    if family.ordinal and y is not None:
        data["C"] = int(y.max())
    beside = design.outcome.beside
    if beside.trials is not None:
        data["trials"] = np.asarray(beside.trials, dtype=np.int64)
    named = {"cens": beside.censored, "rcens": beside.upper, "weights": beside.weights}
    data |= {name: values for name, values in named.items() if values is not None}
    if design.labels:
        data["K"] = len(design.labels)
        if design.intercept or family.ordinal:
            means = design.matrix.mean(axis=0)
            data |= {"Xc": design.matrix - means, "means_X": means}
        else:
            data["X"] = design.matrix
    if design.offset is not None:
        data["offsets"] = design.offset
    for g, group in groups.items():
        data |= {f"N_{g}": len(group.levels), f"M_{g}": len(group.effects), f"J_{g}": group.index}
        values = enumerate(group.values, 1)
        data |= {f"Z_{g}_{m}": column for m, column in values if column is not None}
    return data


def _require_censorable(formula: Formula, family: FamilyName) -> None:
    censored = any(addition.name == "cens" for addition in formula.additions)
    if censored and not FAMILIES[family].censorable:
        others = ", ".join(name for name, kind in FAMILIES.items() if kind.censorable)
        raise OptionError(
            f"family {family!r} has outcomes that cannot be censored; cens() goes with {others}"
        )


def _require_ordered_limits(outcome: Outcome) -> None:
    beside = outcome.beside
    if beside.censored is None or beside.upper is None:
        return
    wrong = (beside.censored == 2) & (beside.upper <= outcome.values)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"the upper limit of the outcome {outcome.name!r} is {beside.upper[row]:g} "
            f"where the lower is {outcome.values[row]:g}; expected a larger one"
        )


def _require_apart(design: Design, priors: Mapping[str, str]) -> None:
    """Raise if predictors with flat priors are collinear: the posterior would be improper.

    A combination that is zero is an eigenvector of their correlations, with eigenvalue zero.
    """
    own = [priors.get(f"b[{label}]", priors.get("b")) == FLAT for label in design.labels]
    flat = np.flatnonzero(own)
    if not flat.size:
        return
    columns = design.matrix[:, flat]
    if design.intercept:
        columns = columns - columns.mean(axis=0)
    size = np.sqrt(np.mean(columns**2, axis=0))
    nothing = size <= 1e-12 * (1 + np.abs(design.matrix[:, flat]).max(axis=0))
    names = [design.labels[k] for k in flat]
    if nothing.any():
        raise DataError(
            f"the predictor {names[int(np.argmax(nothing))]!r} has the same value in every row, "
            "so that its coefficient is not determined; leave it out of the formula, or give it a "
            "prior, priors={'b': 'normal(0, 1)'}"
        )
    columns = columns / size
    values, vectors = np.linalg.eigh(columns.T @ columns / design.rows)
    if values[0] < 1e-12 * len(flat):
        weight = np.abs(vectors[:, 0])
        among = [name for name, w in zip(names, weight, strict=True) if w > 1e-4 * weight.max()]
        raise DataError(
            f"the predictors {', '.join(map(repr, among[:10]))} are linear combinations of each "
            "other, so that their coefficients are not determined; leave one out of the formula, "
            "or give them a prior, priors={'b': 'normal(0, 1)'}"
        )
