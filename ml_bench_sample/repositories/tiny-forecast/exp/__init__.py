"""Experiments: what `run.py` can do with a series."""
