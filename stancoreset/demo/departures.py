"""The demo's model: flights that left New York City late, with four crossed effects.

Beside the program and its data stands the summary of one run of NUTS on all 327,346 rows, so that
a coreset's posterior, and a Laplace fit, can be held against the truth in seconds. The command
``stancoreset demo --full`` repeats that run and writes the summary again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stancoreset.demo.nycflights import arrived
from stancoreset.files import write_text
from stancoreset.posterior import arviz

if TYPE_CHECKING:
    import pandas as pd

    from stancoreset.reference import Reference

#: The Stan program.
DEPARTURES_PROGRAM = Path(__file__).with_name("departures.stan")
#: Parameters that the pictures show.
DEPARTURES_SHOWN = ("alpha", "sd_carrier", "sd_dest", "sd_origin", "sd_hour", "c_origin")
# The summary of NUTS on all rows.
_STORED = Path(__file__).with_name("departures_nuts.json")
#: Options of NUTS on all rows, whose metric comes from a coreset's draws.
FULL_NUTS: dict[str, Any] = {
    "chains": 4,
    "iter_warmup": 100,
    "iter_sampling": 500,
    "adapt_delta": 0.9,
}
_GROUPS = ("carrier", "dest", "hour")
# Airports, and orthonormal contrasts of their effects: JFK against Newark, LaGuardia against both.
_AIRPORTS = np.array(["EWR", "JFK", "LGA"])
_CONTRASTS = np.array([[-1, -1], [1, -1], [0, 2]]) / np.sqrt([2, 6])
_ORIGIN = ("JFK", "LGA")
_PREDICTORS = ("saturday", "cos_date", "sin_date")
# Draws of each parameter shown that a stored run keeps.
_KEPT = 500
_DIGITS = 6


@dataclass(frozen=True)
class Departures:
    """Data of the program, and names of its levels.

    Attributes
    ----------
    data : dict
        ``late`` (N,) says which flights left more than 15 minutes late; ``X`` (N, 3) holds the
        columns saturday (0 or 1), cos and sin of the date's angle in the year; ``origin``
        (N, 2) holds contrasts of the airports, JFK against Newark and LaGuardia against both;
        ``carrier``, ``dest`` and ``hour`` (N,) are levels, counted from 1.
    labels : dict
        ``coords`` and ``dims`` of the parameters, as ArviZ takes them.
    """

    data: dict[str, Any] = field(repr=False)
    labels: dict[str, Any] = field(repr=False)


def departures(rows: int | None = None, seed: int = 0) -> Departures:
    """Load the data of ``departures.stan``.

    See `stancoreset.demo.flights_data` for the parameters; levels are those of all flights.
    """
    import pandas as pd

    table = arrived(rows, seed, _GROUPS)
    levels = {name: table[name].cat for name in _GROUPS}
    date = pd.to_datetime(table[["year", "month", "day"]])
    angle = 2 * np.pi * date.dt.day_of_year / 365
    columns = (date.dt.day_of_week == 5, np.cos(angle), np.sin(angle))
    data: dict[str, Any] = {
        "N": len(table),
        "K": len(columns),
        **{f"n_{name}": len(level.categories) for name, level in levels.items()},
        "X": np.column_stack([np.asarray(column, np.float64) for column in columns]),
        "origin": _CONTRASTS[pd.Categorical(table["origin"], _AIRPORTS).codes],
        **{name: level.codes.to_numpy(np.int64) + 1 for name, level in levels.items()},
        "late": (table["dep_delay"] > 15).to_numpy(np.int64),
    }
    coords: dict[str, Any] = {name: level.categories.tolist() for name, level in levels.items()}
    coords |= {"predictor": _PREDICTORS, "origin": _ORIGIN}
    dims = {f"r_{name}": [name] for name in _GROUPS}
    dims |= {"beta": ["predictor"], "c_origin": ["origin"]}
    return Departures(data, {"coords": coords, "dims": dims})


def laplace_posterior(reference: Reference, labels: Mapping[str, Any]) -> arviz.Container:
    """Draws of a Laplace fit of ``departures.stan`` as an ArviZ container of one chain.

    The fit is a Gaussian in Stan's unconstrained coordinates, where scales are logarithms.
    """
    variables: dict[str, NDArray[np.float64]] = {}
    bases = [name.partition("[")[0].partition(".")[0] for name in reference.param_names]
    for base in dict.fromkeys(bases):
        draws = reference.draws[:, [other == base for other in bases]]
        scalar = base == "alpha" or base.startswith("sd_")
        values = np.exp(draws) if base.startswith("sd_") else draws
        variables[base] = values[None, :, 0] if scalar else values[None]
    return arviz.posterior_container(variables, **labels)


@dataclass(frozen=True)
class FullRun:
    """The summary of NUTS on all rows.

    Attributes
    ----------
    about : dict
        How it was made: ``command``, ``date``, ``versions``, options of NUTS, seconds of processor
        time and by the clock, ``divergences``.
    summary : DataFrame
        ArviZ's table of all parameters.
    draws : dict of str to ndarray, shape (1, S, *shape)
        Thinned draws of `DEPARTURES_SHOWN`.
    """

    about: dict[str, Any]
    summary: pd.DataFrame = field(repr=False)
    draws: dict[str, NDArray[np.float64]] = field(repr=False)

    @classmethod
    def of(cls, posterior: Any, about: Mapping[str, Any]) -> FullRun:
        """Summarise draws of all parameters."""
        shown = arviz.variables_of(posterior)
        flat = {name: shown[name].reshape(-1, *shown[name].shape[2:]) for name in DEPARTURES_SHOWN}
        spaced = np.linspace(0, len(flat["alpha"]) - 1, _KEPT).round().astype(int)
        draws = {name: value[spaced][None] for name, value in flat.items()}
        return cls(dict(about), arviz.summary(posterior), draws)

    @classmethod
    def stored(cls) -> FullRun:
        """The run that comes with the package."""
        return cls.load(_STORED)

    @classmethod
    def load(cls, path: str | Path) -> FullRun:
        """Read what `save` has written."""
        import pandas as pd

        read = json.loads(Path(path).read_text(encoding="utf-8"))
        summary = pd.DataFrame.from_dict(read["summary"], orient="index", columns=read["columns"])
        draws = {name: np.asarray(value)[None] for name, value in read["draws"].items()}
        return cls(read["about"], summary, draws)

    def save(self, path: str | Path) -> None:
        """Write the summary as JSON, with six digits, a parameter on each line."""
        parts = {
            "about": self.about,
            "columns": list(self.summary.columns),
            "summary": {name: _rounded(row) for name, row in self.summary.iterrows()},
            "draws": {name: _rounded(value[0]) for name, value in self.draws.items()},
        }
        write_text(path, _by_lines(parts))

    @cached_property
    def title(self) -> str:
        """What the run is called in tables and pictures."""
        return f"NUTS on all {self.about['rows']:,} rows"

    @property
    def cost(self) -> str:
        """What the run took, in a sentence."""
        about = self.about
        return (
            f"The stored run took {about['processor_seconds'] / 60:.0f} minutes of processor time "
            f"({about['gradients']:,} gradients)."
        )

    def posterior(self, labels: Mapping[str, Any]) -> arviz.Container:
        """The thinned draws with the names of the levels, for tables and pictures."""
        return arviz.posterior_container(self.draws, **labels)

    def differences(self, posterior: Any) -> pd.DataFrame:
        """What the means and standard deviations of another posterior differ by from this run's.

        Returns
        -------
        DataFrame
            By parameter: ``delta_mean``, the difference of the means in standard deviations of this
            run; ``mcse``, the Monte-Carlo standard error of that difference; and ``sd_ratio``.
        """
        import pandas as pd

        other = arviz.summary(posterior).loc[self.summary.index]
        own = self.summary
        return pd.DataFrame(
            {
                "delta_mean": (other["mean"] - own["mean"]) / own["sd"],
                "mcse": np.hypot(other["mcse_mean"], own["mcse_mean"]) / own["sd"],
                "sd_ratio": other["sd"] / own["sd"],
            }
        )


def _rounded(values: Any) -> Any:
    """Nested lists of numbers with few digits."""
    if np.ndim(values) == 0:
        return float(f"{float(values):.{_DIGITS}g}")
    return [_rounded(value) for value in np.asarray(values)]


def _by_lines(parts: Mapping[str, Any]) -> str:
    """JSON with one line for each entry of its objects."""
    blocks = []
    for name, value in parts.items():
        if isinstance(value, Mapping):
            lines = ",\n".join(f"    {json.dumps(k)}: {json.dumps(v)}" for k, v in value.items())
            blocks.append(f"  {json.dumps(name)}: {{\n{lines}\n  }}")
        else:
            blocks.append(f"  {json.dumps(name)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(blocks) + "\n}\n"
