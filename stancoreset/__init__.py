"""Bayesian coresets for Stan."""

__version__ = "0.1.0"
