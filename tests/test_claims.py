"""Two evaluations on one machine never own the same CPU, GPU or memory, and what one leaves is the next one's."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from ml_bench_metric import claims
from ml_bench_metric.claims import claimed
from ml_bench_metric.sandbox.limits import GIB, Limits
from ml_bench_metric.sandbox.protocol import Capacity

SMALL = Limits(memory_bytes=GIB)


def machine(cpus: int = 4, memory: int = 64, gpus: tuple[str, ...] = ()) -> Capacity:
    return Capacity(cpus=tuple(range(cpus)), memory_bytes=memory * GIB, description="made for a test", gpus=gpus)


def test_what_one_owns_the_next_does_not_get(tmp_path: Path) -> None:
    with (
        claimed(machine(), SMALL, 1, folder=tmp_path) as first,
        claimed(machine(), SMALL, None, folder=tmp_path) as rest,
    ):
        assert len(first.cpus) == 1
        assert set(first.cpus) | set(rest.cpus) == {0, 1, 2, 3}
        assert not set(first.cpus) & set(rest.cpus)
    with claimed(machine(), SMALL, None, folder=tmp_path) as again:
        assert again.cpus == (0, 1, 2, 3)


def test_the_memory_that_is_promised_to_others_is_not_promised_again(tmp_path: Path) -> None:
    big = Limits(memory_bytes=8 * GIB)
    with (
        claimed(machine(4, 20), big, 1, folder=tmp_path),
        claimed(machine(4, 20), big, None, folder=tmp_path) as second,
    ):
        assert second.memory_bytes == 12 * GIB
        assert len(second.cpus) == 1


def test_free_cpus_are_of_no_use_to_the_next_one_where_memory_is_owned(tmp_path: Path) -> None:
    big = Limits(memory_bytes=8 * GIB)
    with claimed(machine(8, 25), big, None, folder=tmp_path) as first:
        assert len(first.cpus) == 3
        assert claims._claim(tmp_path, machine(8, 25), big, None) is None
        with claimed(machine(8, 25), SMALL, None, folder=tmp_path) as second:
            assert len(second.cpus) == 1 and second.memory_bytes == GIB


def test_a_gpu_that_is_owned_is_waited_for_though_cpus_are_free(tmp_path: Path) -> None:
    limits, one = Limits(memory_bytes=GIB, gpus=1), machine(gpus=("a",))
    with claimed(one, limits, None, folder=tmp_path) as first:
        assert (first.gpus, len(first.cpus)) == (("a",), 1)
        assert claims._claim(tmp_path, one, limits, None) is None
        with claimed(one, SMALL, None, folder=tmp_path) as second:
            assert (second.gpus, len(second.cpus)) == ((), 3)


def test_gpus_are_owned_too(tmp_path: Path) -> None:
    limits = Limits(memory_bytes=GIB, gpus=1)
    with (
        claimed(machine(gpus=("a", "b")), limits, 1, folder=tmp_path) as first,
        claimed(machine(gpus=("a", "b")), limits, 1, folder=tmp_path) as second,
    ):
        assert {*first.gpus, *second.gpus} == {"a", "b"}


def test_who_finds_nothing_waits_says_so_once_and_goes_on_when_it_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "LOOK_SECONDS", 0.01)
    told: list[str] = []
    got: list[tuple[int, ...]] = []

    def second() -> None:
        with claimed(machine(), SMALL, None, waiting=told.append, folder=tmp_path) as own:
            got.append(own.cpus)

    with claimed(machine(), SMALL, None, folder=tmp_path):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join(0.3)
        assert thread.is_alive() and got == []
    thread.join(10)
    assert got == [(0, 1, 2, 3)]
    assert len(told) == 1 and "--oversubscribe" in told[0]


def test_a_machine_that_is_too_small_for_anybody_is_not_waited_for(tmp_path: Path) -> None:
    with claimed(machine(2, 4), Limits(cpus=3, memory_bytes=8 * GIB), None, folder=tmp_path) as own:
        assert own.cpus == (0, 1)


def _hold(folder: str, ready: object) -> None:
    with claimed(machine(), SMALL, None, folder=Path(folder)):
        ready.set()  # type: ignore[attr-defined]
        signal.pause()


def test_a_killed_process_gives_back_what_it_owned(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    process = context.Process(target=_hold, args=(str(tmp_path), ready))
    process.start()
    assert ready.wait(60)
    assert claims._claim(tmp_path, machine(), SMALL, None) is None
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    with claimed(machine(), SMALL, None, folder=tmp_path) as own:
        assert own.cpus == (0, 1, 2, 3)


def test_any_number_of_evaluations_share_a_machine_without_overlap(tmp_path: Path) -> None:
    with ExitStack() as stack:
        owned = [
            cpu for _ in range(4) for cpu in stack.enter_context(claimed(machine(), SMALL, 1, folder=tmp_path)).cpus
        ]
        assert sorted(owned) == [0, 1, 2, 3]


def test_without_a_place_for_locks_the_whole_machine_is_given(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with claimed(machine(), SMALL, None, folder=tmp_path / "file" / "locks") as own:
        assert own.cpus == (0, 1, 2, 3)
