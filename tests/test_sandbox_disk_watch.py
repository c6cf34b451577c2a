"""The disk limit is noticed, and a slow or failing measurement holds nothing up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from ml_bench_metric.sandbox import disk_watch
from ml_bench_metric.sandbox.disk_watch import DiskWatch


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_watch, "MEASURE_SECONDS", 0.01)


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def _watch(*sizes: int | None, limit: int = 100) -> tuple[DiskWatch, list[int | None]]:
    """A watch that measures these sizes in turn, the last one for ever, and what it has measured."""
    left, seen = list(sizes), []

    def measure() -> int | None:
        seen.append(left.pop(0) if len(left) > 1 else left[0])
        return seen[-1]

    return DiskWatch(measure, limit), seen


def test_more_than_the_limit_is_full_and_the_limit_itself_is_not() -> None:
    watch, seen = _watch(0, 100, 101)
    watch.start()
    _until(watch.is_full)
    assert seen == [0, 100, 101]


def test_hiding_twice_is_full_and_once_is_not() -> None:
    watch, seen = _watch(-1, 5, -1, None, -1)
    watch.start()
    _until(watch.is_full)
    assert seen == [-1, 5, -1, None, -1]


def test_a_measurement_that_hangs_is_waited_for_by_nobody() -> None:
    begun, release = threading.Event(), threading.Event()

    def measure() -> int:
        begun.set()
        release.wait(20)
        return 0

    watch = DiskWatch(measure, 1)
    watch.start()
    assert begun.wait(20)
    began = time.monotonic()
    assert not watch.is_full()
    watch.stop()
    assert time.monotonic() - began < 1
    release.set()


def test_a_failure_is_told_to_who_asks() -> None:
    def measure() -> int:
        raise OSError("the engine is gone")

    watch = DiskWatch(measure, 1)
    watch.start()

    def fails() -> bool:
        try:
            return watch.is_full()
        except OSError:
            return True

    _until(fails)
    with pytest.raises(OSError, match="the engine is gone"):
        watch.is_full()


def test_nothing_is_measured_after_the_end() -> None:
    watch, seen = _watch(0)
    watch.start()
    _until(lambda: len(seen) > 1)
    watch.stop()
    time.sleep(0.1)
    count = len(seen)
    time.sleep(0.2)
    assert len(seen) == count


def test_the_longer_a_measurement_takes_the_longer_is_the_pause() -> None:
    times: list[float] = []

    def measure() -> int:
        times.append(time.monotonic())
        time.sleep(0.1)
        return 0

    watch = DiskWatch(measure, 1)
    watch.start()
    _until(lambda: len(times) > 2)
    watch.stop()
    assert times[2] - times[1] >= 0.5
