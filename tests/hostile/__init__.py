"""Candidates that cheat, break or harm, and what must become of each. `conftest` says how to run them elsewhere."""
