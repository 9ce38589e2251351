"""Automatic differentiation variational inference, for engines that provide it."""

from __future__ import annotations

from typing import Any

import numpy as np

from stancoreset.engines import Float
from stancoreset.errors import OptionError
from stancoreset.reference.base import Progress, Reference
from stancoreset.reference.small_copy import from_small_copy
from stancoreset.rows import FullData


def advi(full: FullData, draws: int, seed: int, progress: Progress | None = None) -> Reference:
    """Run Stan's mean-field ADVI on a small copy of the data and move its draws to the full data.

    Mean-field draws have no correlations; the full-rank variant, in raw coordinates, is
    several times too wide for a narrow posterior. For the arguments see
    `stancoreset.reference.methods.fit_reference`. An `OptionError` is raised if the engine has no
    ADVI.

    References
    ----------
    Kucukelbir, Tran, Ranganath, Gelman & Blei (2017), JMLR 18(14).
    """
    if not hasattr(full.prior, "variational"):
        raise OptionError(
            'reference="advi" needs CmdStan, the engine in use has no ADVI: use '
            'engine="cmdstan", or reference="pathfinder", which runs on every engine'
        )

    def sample(small: Any, count: int) -> Float:
        return np.asarray(small.variational(draws=count, seed=seed))

    return from_small_copy(full, "advi", sample, draws, seed, progress)
