"""The end of a process is seen when it comes, beside output, and told once."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator

import pytest

from ml_bench_metric.sandbox.first_process import FirstProcess

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    here, there = socket.socketpair()
    with here, there:
        yield here, there


def test_output_is_told_from_the_end(pair: Pair) -> None:
    here, there = pair
    told: list[float] = []
    with subprocess.Popen(["sleep", "0.3"]) as process:
        first = FirstProcess(process.pid)
        first.tell(lambda: told.append(time.monotonic()))
        assert not first.wait_beside(here, 0.01)
        there.send(b"x")
        assert first.wait_beside(here, 5) and not told
        here.recv(1)
        began = time.monotonic()
        assert not first.wait_beside(here, 5)
        assert len(told) == 1 and time.monotonic() - began < 2
        # It is not told again, and a wait is a wait once more.
        assert not first.wait_beside(here, 0.01)
        assert len(told) == 1


def test_both_at_once_are_both_told(pair: Pair) -> None:
    here, there = pair
    told: list[None] = []
    with subprocess.Popen(["true"]) as process:
        first = FirstProcess(process.pid)
        first.tell(lambda: told.append(None))
        there.send(b"x")
        time.sleep(0.2)
        assert first.wait_beside(here, 5)
        assert len(told) == 1


def test_a_process_that_is_gone_is_never_seen_to_end(pair: Pair) -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    first = FirstProcess(process.pid)
    first.tell(lambda: pytest.fail("whose end was that?"))
    assert not first.wait_beside(pair[0], 0.01)
    first.close()


def test_no_file_stays_open(pair: Pair) -> None:
    def count() -> int:
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a Path would keep one open

    before = count()
    with subprocess.Popen(["sleep", "0.05"]) as process:
        for _ in range(3):
            FirstProcess(process.pid).close()
        first = FirstProcess(process.pid)
        process.wait()
        first.wait_beside(pair[0], 1)
    assert count() == before
