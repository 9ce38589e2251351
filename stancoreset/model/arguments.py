"""What `CoresetModel`'s methods are given, checked before anything is read."""

from __future__ import annotations

from collections.abc import Mapping

from stancoreset.analysis import Asked
from stancoreset.checks import check_is, check_seed, check_whole, shown, understood
from stancoreset.errors import DataError, OptionError
from stancoreset.posterior.arviz import import_all, variables_of
from stancoreset.progress import Stages
from stancoreset.reference import Reference
from stancoreset.selection import Coreset


def begin_stages(stages: object, show_progress: bool | None) -> Stages:
    """Stages whose first one, the imports, is done."""
    begun = Stages.given(stages, show_progress)
    begun.begin()
    with begun("import"):
        import_all()
    return begun


def check_near(near: object) -> None:
    """Raise unless these are draws."""
    try:
        check_draws(near)
    except DataError as error:
        raise DataError(f"near: {error}") from None


def check_draws(posterior: object, draws: int | None = None, seed: int = 0) -> None:
    """Raise unless a step can be made of so many draws of a posterior."""
    with understood("posterior", posterior, "draws of the coreset posterior, or a fit"):
        variables_of(posterior)
    if draws is not None:
        check_whole("draws", draws, 1)
    check_seed(seed)


def scoring_options(
    fit: object, replicated: Mapping[str, str] | None, draws: int | None, seed: int
) -> Asked:
    """Check and gather the options for scoring rows."""
    check_draws(fit, draws, seed)
    if replicated is not None:
        texts = isinstance(replicated, Mapping) and all(
            isinstance(name, str) for pair in replicated.items() for name in pair
        )
        if not texts or not replicated:
            raise OptionError(
                f"replicated is {shown(replicated)}, expected a dict from outcomes to the "
                'generated quantities that simulate them, such as {"y": "y_rep"}'
            )
    return Asked(replicated or {}, draws, seed)


def check_coreset(coreset: object) -> None:
    """Raise unless this is a coreset."""
    check_is("coreset", coreset, Coreset, "a Coreset, such as fit.coreset")


def check_is_reference(reference: object) -> None:
    """Raise unless this is a reference."""
    check_is("reference", reference, Reference, "a Reference, as model.reference makes it")
