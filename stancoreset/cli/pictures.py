"""The pictures and tables in a run's folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stancoreset.files import atomic_path
from stancoreset.posterior import compare, plots
from stancoreset.runs import CoresetFit, enlist

if TYPE_CHECKING:
    import pandas as pd


def write_comparison(
    posteriors: Mapping[str, Any], folder: Path, reference: str | None = None
) -> pd.DataFrame:
    """Write ``comparison.csv``, ``density.png`` and ``forest.png`` of several posteriors.

    Return the table of `stancoreset.compare`.
    """
    table = compare(posteriors, reference=reference)
    with atomic_path(folder / "comparison.csv") as temporary:
        table.to_csv(temporary)
    save_picture(plots.plot_density(posteriors), folder / "density.png")
    save_picture(plots.plot_forest(posteriors), folder / "forest.png")
    enlist(folder, ("comparison.csv", "density.png", "forest.png"))
    return table


def write_fit_pictures(fit: CoresetFit, folder: Path) -> None:
    """Write ``certificate.png`` of a fit, and ``weights.png`` if it has a coreset."""
    save_picture(plots.plot_certificate(fit.certificate), folder / "certificate.png")
    enlist(folder, ("certificate.png",))
    if fit.selected is not None:
        save_picture(plots.plot_weights(fit.selected), folder / "weights.png")
        enlist(folder, ("weights.png",))


def save_picture(axes: Any, path: Path) -> None:
    """Write the figure of `axes` atomically, and close it."""
    import matplotlib.pyplot as plt
    import numpy as np

    figure = np.ravel(axes)[0].figure
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=120)
    plt.close(figure)
