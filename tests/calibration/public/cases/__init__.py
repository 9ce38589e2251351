"""The cases, one file for each kind of program or a few alike; importing this registers all."""

from . import counts, detection, doses, item_response, mixtures, ordinal, survival, zeros

__all__ = [
    "counts",
    "detection",
    "doses",
    "item_response",
    "mixtures",
    "ordinal",
    "survival",
    "zeros",
]
