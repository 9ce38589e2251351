"""Digits and sizes that numerical code keeps to are derived from the machine's."""

import numpy as np
import pytest

from stancoreset.limits import BLOCK, CACHED, KEPT, NOISE, ROUNDING, cuts


def test_tolerances_lie_between_a_double_s_rounding_and_what_a_reader_sees() -> None:
    eps = np.finfo(np.float64).eps
    assert (ROUNDING, NOISE) == (1e-12, 1e-9)
    assert eps < ROUNDING < NOISE < np.sqrt(eps)
    assert CACHED < BLOCK < KEPT


@pytest.mark.parametrize(
    ("count", "width", "numbers", "least"),
    [(0, 3, 10, 1), (1, 1000, 10, 1), (7, 3, 10, 1), (7, 3, 10, 5), (100, 0, 8, 1)],
)
def test_cuts_cover_every_item_once(count: int, width: int, numbers: int, least: int) -> None:
    found = list(cuts(count, width, numbers, least))
    assert [i for cut in found for i in range(cut.start, cut.stop)] == list(range(count))
    sizes = [cut.stop - cut.start for cut in found]
    assert all(size <= max(least, numbers // max(width, 1), 1) for size in sizes)
