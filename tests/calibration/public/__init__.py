"""Simulation-based calibration of default fits, on programs in the form that people publish."""
