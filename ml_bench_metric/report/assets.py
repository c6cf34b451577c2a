"""Which weights and data an image has, in words."""

from __future__ import annotations

from collections.abc import Mapping

from ml_bench_metric.sandbox.execution import Assets

WORDS: Mapping[Assets, str] = {
    "unknown": "weights and data not known",
    "not_needed": "no weights or data needed",
    "none": "without the weights and data that tasks need",
    "stand_in": "stand-ins for weights and data",
    "real": "real weights and data",
}

NOT_COMPARABLE: Mapping[Assets, str] = {
    "stand_in": "made with stand-ins for weights and data",
    "none": "made without the weights and data that tasks need",
}
"""How numbers were made that must not be compared with those on the real weights and data."""
