"""Of a parametrised test, no value is lost, and some are tried in every run."""

from __future__ import annotations

import pytest
from tiers import some


def test_all_values_are_there_and_one_in_a_few_is_not_slow():
    found = some("abcde", 2, first=1)
    assert [value.values for value in found] == [("a",), ("b",), ("c",), ("d",), ("e",)]
    often = [value.values[0] for value in found if not value.marks]
    assert often == ["b", "d"]
    assert {mark.name for value in found for mark in value.marks} == {"slow"}


def test_a_tuple_has_a_value_for_each_argument():
    assert [value.values for value in some([(1, "a"), (2, "b")], 2)] == [(1, "a"), (2, "b")]


@pytest.mark.parametrize(("values", "of", "first"), [("ab", 5, 2), ("", 1, 0), ("abc", 2, 2)])
def test_one_value_stays_in_every_run(values, of, first):
    with pytest.raises(ValueError, match="would be in every run"):
        some(values, of, first)
