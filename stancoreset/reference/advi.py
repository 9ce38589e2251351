"""Automatic differentiation variational inference, where the engine has it."""

from __future__ import annotations

from stancoreset.errors import OptionError
from stancoreset.full_data import FullData
from stancoreset.reference.base import Progress, Reference
from stancoreset.reference.draws import from_rows
from stancoreset.reference.pathfinder import SPARE_DRAWS
from stancoreset.reference.small_copy import recentred, small_copy, small_size

__all__ = ["advi"]


def advi(full: FullData, draws: int, seed: int, progress: Progress | None = None) -> Reference:
    """Stan's mean-field ADVI on a small copy of the data, moved to the full data.

    Mean-field draws know no correlations; the full-rank variant, in raw coordinates, ends
    several times too wide where the posterior is narrow.

    Parameters
    ----------
    full : FullData
    draws : int
        Number of draws, S.
    seed : int
    progress : callable, optional
        Called with the number of draws evaluated since the last call.

    Raises
    ------
    OptionError
        If the engine has no ADVI.
    ReferenceFitError
        If the draws cannot be used.

    References
    ----------
    Kucukelbir, Tran, Ranganath, Gelman & Blei (2017), JMLR 18(14).
    """
    if not hasattr(full.prior, "variational"):
        raise OptionError(
            'reference="advi" needs CmdStan, the engine in use has no ADVI: use '
            'engine="cmdstan", or reference="pathfinder", which runs on every engine'
        )
    with small_copy(full, seed) as small:
        rows = small.variational(draws=draws + SPARE_DRAWS, seed=seed)  # type: ignore[attr-defined]
    if small_size(full) < full.n_obs:
        rows = recentred(full, rows, seed)
    return from_rows(full, rows, "advi", draws, seed, progress)
