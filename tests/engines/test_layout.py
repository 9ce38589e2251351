"""Columns of draws and the elements that their names say they are."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from stancoreset.engines.layout import Layout

SHAPES = {"mu": (), "b": (1,), "x": (11,), "A": (2, 3), "T": (3, 1, 12), "tuple:1": (2,)}


def names_of(shapes, separate):
    """Stan's names, columns first, in the notation of `separate`."""
    for name, shape in shapes.items():
        for index in itertools.product(*(range(1, n + 1) for n in reversed(shape))):
            yield separate(name, [str(i) for i in reversed(index)])


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize(
    "separate",
    [
        lambda name, index: ".".join([name, *index]),
        lambda name, index: f"{name}[{','.join(index)}]" if index else name,
    ],
)
def test_every_element_has_its_column(separate, shuffled):
    names = list(names_of(SHAPES, separate))
    if shuffled:
        names = np.random.default_rng(0).permutation(names).tolist()
    layout = Layout.from_names(names)
    assert layout.shapes == SHAPES
    for name, shape in SHAPES.items():
        for index in np.ndindex(shape):
            told = separate(name, [str(i + 1) for i in index])
            assert names[layout.columns[name][index]] == told


def test_variables_split_are_joined_again():
    layout = Layout.from_names(list(names_of(SHAPES, lambda name, index: ".".join([name, *index]))))
    rows = np.random.default_rng(1).normal(size=(4, len(layout.names)))
    np.testing.assert_array_equal(layout.join(layout.split(rows)), rows)


def test_no_variable_has_no_column():
    assert Layout.from_names([]) == Layout((), {}, {})


def test_variables_whose_columns_follow_each_other_are_not_copied():
    names = ["mu", "z.1.1", "z.1.2", "z.1.3", "B.1.1", "B.2.1", "B.1.2", "B.2.2"]
    rows = np.arange(2 * 3 * 8.0).reshape(2, 3, 8)
    found = Layout.from_names(names).split(rows)
    assert {name: value.shape for name, value in found.items()} == {
        "mu": (2, 3),
        "z": (2, 3, 1, 3),
        "B": (2, 3, 2, 2),
    }
    np.testing.assert_array_equal(found["mu"], rows[..., 0])
    np.testing.assert_array_equal(found["z"][..., 0, :], rows[..., 1:4])
    np.testing.assert_array_equal(found["B"], rows[..., [[4, 6], [5, 7]]])
    assert np.shares_memory(found["z"], rows)
    assert not np.shares_memory(found["B"], rows)


@pytest.mark.parametrize(("count", "kept"), [(3, True), (7, False)])
def test_no_view_keeps_rows_of_which_most_are_copied(count, kept):
    """A scalar beside a matrix, whose columns Stan writes, would hold the draws of both."""
    names = [
        "mu",
        *(f"z.{i}" for i in range(1, 8)),
        *(f"B.{i}.{j}" for j in (1, 2) for i in (1, 2)),
    ]
    names += [f"A.{i}.{j}" for j in (1, 2, 3) for i in range(1, count + 1)] if count > 3 else []
    rows = np.arange(2.0 * 3 * len(names)).reshape(2, 3, -1)
    found = Layout.from_names(names).split(rows)
    for name in ("mu", "z"):
        assert np.shares_memory(found[name], rows) == kept
    np.testing.assert_array_equal(found["mu"], rows[..., 0])
    np.testing.assert_array_equal(found["z"], rows[..., 1:8])
