"""The engine's clock."""

from __future__ import annotations

from datetime import datetime, timezone


def engine_seconds(text: str) -> float:
    """Return a time of the Docker engine, `2026-01-31T12:00:00.123456789Z`, as seconds since 1970.

    Raises:
        ValueError: it is none.
    """
    whole, _, fraction = text.removesuffix("Z").partition(".")
    seconds = datetime.strptime(whole, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=timezone.utc).timestamp()
    return seconds + (float(f"0.{fraction}") if fraction else 0.0)
