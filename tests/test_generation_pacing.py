"""Waits are as long as a server asks, and nobody waits once the run is to end."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime, timezone

import pytest

from ml_bench_solvers.generation.errors import Abandoned
from ml_bench_solvers.generation.pacing import Pacer, read_retry_after

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("3", 3.0),
        (" 0.5 ", 0.5),
        ("0", 0.0),
        ("Fri, 02 Jan 2026 03:04:35 GMT", 30.0),
        ("Fri, 02 Jan 2026 03:04:35 -0000", 30.0),
        ("Fri, 02 Jan 2026 04:04:35 +0100", 30.0),
        ("Fri, 02 Jan 2026 03:00:00 GMT", 0.0),
        ("-1", None),
        ("soon", None),
        ("", None),
        ("1e9", None),
        ("٣", None),
        ("nan", None),
        ("Fri, 99 Jan 2026 03:04:35 GMT", None),
    ],
)
def test_retry_after_is_read_as_seconds_or_as_a_date(value: str, seconds: float | None) -> None:
    assert read_retry_after({"retry-after": value}, NOW) == seconds


def test_without_the_header_nothing_is_asked() -> None:
    assert read_retry_after({}) is None


def test_waits_grow_and_are_never_shorter_than_asked() -> None:
    async def waits() -> list[float]:
        pacer = Pacer(first_wait=0.002)
        plain = [await pacer.before_attempt(number, None) for number in (1, 2, 3, 4)]
        return [*plain, await pacer.before_attempt(1, 0.05)]

    *plain, asked = asyncio.run(waits())
    for number, seconds in enumerate(plain):
        assert 0.001 * 2**number <= seconds <= 0.002 * 2**number
    assert asked >= 0.05


def test_who_waits_when_the_run_is_to_end_is_let_go() -> None:
    async def run() -> None:
        pacer = Pacer()
        waiting = asyncio.create_task(pacer.before_attempt(1, 500.0))
        await asyncio.sleep(0.01)
        pacer.end()
        with pytest.raises(Abandoned):
            await waiting
        with pytest.raises(Abandoned):
            await pacer.turn()

    begun = time.monotonic()
    asyncio.run(run())
    assert time.monotonic() - begun < 5


def test_a_hold_is_for_all_and_the_longest_counts() -> None:
    async def run() -> float:
        pacer = Pacer()
        pacer.hold(0.2)
        pacer.hold(0.01)
        begun = time.monotonic()
        await asyncio.gather(pacer.turn(), pacer.turn())
        return time.monotonic() - begun

    assert asyncio.run(run()) >= 0.19
