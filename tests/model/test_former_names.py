"""Names that the room of the model had before: for one release they are found, with a warning."""

from __future__ import annotations

import pytest

import stancoreset as sc
import stancoreset.model


@pytest.mark.parametrize("name", ["CoresetFit", "load_fit", "Design", "Information"])
def test_a_former_name_says_where_it_is(name):
    with pytest.warns(FutureWarning, match=f"import {name} from stancoreset\\."):
        found = getattr(stancoreset.model, name)
    assert found is getattr(sc, name)


def test_an_unknown_name_is_none():
    with pytest.raises(AttributeError, match="no attribute 'load_fits'"):
        _ = stancoreset.model.load_fits
