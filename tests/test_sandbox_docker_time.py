"""The engine's times are read to the nanosecond that it gives, whatever the number of digits."""

from __future__ import annotations

import pytest

from ml_bench_metric.sandbox.docker_time import engine_seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:10Z", 10.0),
        ("1970-01-01T00:00:10.5Z", 10.5),
        ("1970-01-02T00:00:00.123456789Z", 86400.123456789),
    ],
)
def test_times_of_any_precision_are_read(text: str, seconds: float) -> None:
    assert engine_seconds(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "now", "2026-01-31"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        engine_seconds(text)
