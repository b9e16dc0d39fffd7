"""Measurements: each module has `run() -> dict` of figures."""
