"""Agents that cheat, break or harm, and what must become of each. They go on from `tests.hostile`'s candidates."""
