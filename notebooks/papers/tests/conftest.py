"""The tests of the papers' experiments."""

from __future__ import annotations

import harness
import pytest


def pytest_addoption(pluginmanager: pytest.PytestPluginManager) -> None:
    """Register what all tests share, which the other folder's tests may have done."""
    if not pluginmanager.is_registered(harness):
        pluginmanager.register(harness, "harness")
