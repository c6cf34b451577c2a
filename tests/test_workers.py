"""Candidates own their CPUs and memory: nobody gets more workers than the machine carries without asking for it."""

from __future__ import annotations

import pytest

from ml_bench_metric.sandbox.limits import GIB, Limits
from ml_bench_metric.sandbox.protocol import Capacity
from ml_bench_metric.workers import allot


def _machine(cpus: int, gib: int) -> Capacity:
    return Capacity(cpus=tuple(range(cpus)), memory_bytes=gib * GIB, description="")


def test_no_two_workers_share_a_cpu() -> None:
    slots = allot(None, Limits(cpus=2, memory_bytes=GIB), _machine(5, 64)).slots
    assert slots == ((0, 1), (2, 3))


def test_memory_limits_together_fit_into_the_machine() -> None:
    assert len(allot(None, Limits(memory_bytes=8 * GIB), _machine(16, 33)).slots) == 4


def test_more_workers_than_fit_are_refused_and_said_so() -> None:
    workers = allot(8, Limits(memory_bytes=GIB), _machine(2, 64))
    assert len(workers.slots) == 2
    assert "2 of the 8 workers" in workers.note
    assert "--oversubscribe" in workers.note


def test_oversubscription_is_only_for_those_who_ask() -> None:
    workers = allot(8, Limits(), _machine(2, 4), oversubscribe=True)
    assert workers.slots == ((),) * 8
    assert "share 2 CPUs" in workers.note


def test_a_machine_smaller_than_one_candidates_limit_still_runs_one_and_says_so() -> None:
    workers = allot(None, Limits(cpus=4, memory_bytes=8 * GIB), _machine(2, 4))
    assert len(workers.slots) == 1
    assert "fewer than the 4" in workers.note
    assert "less than the 8.0 GiB" in workers.note


@pytest.mark.parametrize("wanted", [0, -1])
def test_no_workers_is_an_error(wanted: int) -> None:
    with pytest.raises(ValueError, match="give 1 or more"):
        allot(wanted, Limits(), _machine(2, 4))


def test_a_machine_that_is_busy_with_other_work_is_said_to_be() -> None:
    quiet, busy = (Capacity((0, 1), 64 * GIB, "", load=load) for load in (0.4, 3.0))
    assert allot(None, Limits(), quiet).note == ""
    assert "busy with other work (load 3.0 on 2 CPUs)" in allot(None, Limits(), busy).note
