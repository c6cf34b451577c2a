"""Candidates own CPUs, GPUs and memory: nobody gets more workers than the machine carries without asking for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ml_bench_metric.claims import claimed
from ml_bench_metric.sandbox.limits import GIB, Limits
from ml_bench_metric.sandbox.protocol import Capacity, SandboxError, Slot
from ml_bench_metric.workers import Workers, allot


def _machine(cpus: int, gib: int, gpus: int = 0) -> Capacity:
    names = tuple(f"GPU-{number}" for number in range(gpus))
    return Capacity(cpus=tuple(range(cpus)), memory_bytes=gib * GIB, description="", gpus=names)


def test_no_two_workers_share_a_cpu() -> None:
    slots = allot(None, Limits(cpus=2, memory_bytes=GIB), _machine(5, 64)).slots
    assert slots == (Slot((0, 1)), Slot((2, 3)))


def test_memory_limits_together_fit_into_the_machine() -> None:
    assert len(allot(None, Limits(memory_bytes=8 * GIB), _machine(16, 33)).slots) == 4


def test_more_workers_than_fit_are_refused_and_said_so() -> None:
    workers = allot(8, Limits(memory_bytes=GIB), _machine(2, 64))
    assert len(workers.slots) == 2
    assert "2 of the 8 workers" in workers.note
    assert "--oversubscribe" in workers.note


def test_oversubscription_is_only_for_those_who_ask() -> None:
    workers = allot(8, Limits(), _machine(2, 4), oversubscribe=True)
    assert workers.slots == (Slot(),) * 8
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


def test_no_two_workers_share_a_gpu() -> None:
    slots = allot(None, Limits(gpus=2, memory_bytes=GIB), _machine(8, 64, gpus=5)).slots
    assert slots == (Slot((0,), ("GPU-0", "GPU-1")), Slot((1,), ("GPU-2", "GPU-3")))


@pytest.mark.parametrize(
    ("machine", "scarce"),
    [
        (_machine(8, 64, gpus=2), "1 GPU of the engine's 2; the machine has GPUs for 2 at a time"),
        (_machine(3, 64, gpus=4), "1 GPU of the engine's 4; the machine has CPUs for 3 at a time"),
        (_machine(8, 16, gpus=4), "1 GPU of the engine's 4; the machine has memory for 2 at a time"),
    ],
)
def test_how_many_fit_beside_gpus_is_said_with_what_is_scarce(machine: Capacity, scarce: str) -> None:
    assert allot(None, Limits(gpus=1), machine).note == f"each candidate owns {scarce}"


def test_more_workers_than_gpus_are_refused_and_said_so() -> None:
    workers = allot(4, Limits(gpus=1, memory_bytes=GIB), _machine(8, 64, gpus=2))
    assert len(workers.slots) == 2
    assert "2 of the 4 workers asked for, since more would share GPUs; --oversubscribe allows that" in workers.note


def test_candidates_without_gpus_own_none_of_a_machine_that_has_some() -> None:
    workers = allot(None, Limits(), _machine(2, 64, gpus=4))
    assert workers.slots == (Slot((0,)), Slot((1,)))
    assert workers.note == ""


def test_oversubscribed_gpus_are_shared_evenly_and_each_candidate_has_as_many_as_it_is_to_own() -> None:
    workers = allot(3, Limits(gpus=2), _machine(2, 4, gpus=3), oversubscribe=True)
    assert [slot.gpus for slot in workers.slots] == [("GPU-0", "GPU-1"), ("GPU-2", "GPU-0"), ("GPU-1", "GPU-2")]
    assert workers.note == "3 workers share 2 CPUs and 3 GPUs, as asked"


@pytest.mark.parametrize("oversubscribe", [False, True])
@pytest.mark.parametrize(("found", "way_out"), [(0, "nvidia-container-toolkit"), (1, "give --gpus 1 or less")])
def test_gpus_that_the_engine_lacks_are_an_error_with_the_way_out(
    found: int, way_out: str, oversubscribe: bool
) -> None:
    with pytest.raises(SandboxError, match=way_out):
        allot(None, Limits(gpus=2), _machine(8, 64, gpus=found), oversubscribe=oversubscribe)


def test_memory_for_fewer_candidates_than_cpus_admits_those_and_says_so() -> None:
    workers = allot(None, Limits(memory_bytes=8 * GIB), _machine(8, 25))
    assert workers.slots == (Slot((0,)), Slot((1,)), Slot((2,)))
    assert workers.note == (
        "3 at a time, since each may use 8.0 GiB of memory, and there are CPUs for 8; --limit-memory gives each less"
    )
    assert allot(2, Limits(memory_bytes=8 * GIB), _machine(8, 25)).note == ""


def _owned(folder: Path, wanted: int | None, limits: Limits, machine: Capacity) -> Workers:
    with claimed(machine, limits, wanted, folder=folder) as own:
        return allot(wanted, limits, own, machine=machine)


def test_what_is_scarce_is_told_of_the_machine_and_not_of_what_was_claimed(tmp_path: Path) -> None:
    big = Limits(memory_bytes=8 * GIB)
    workers = _owned(tmp_path, None, big, _machine(8, 25))
    assert len(workers.slots) == 3 and "memory, and there are CPUs for 8" in workers.note
    assert (
        "3 of the 8 workers asked for, since more would share memory" in _owned(tmp_path, 8, big, _machine(8, 25)).note
    )
    assert "1 GPU of the engine's 4" in _owned(tmp_path, 1, Limits(gpus=1), _machine(8, 64, gpus=4)).note


def test_one_worker_on_a_machine_of_many_cpus_does_not_make_it_busy(tmp_path: Path) -> None:
    machine = Capacity(tuple(range(8)), 64 * GIB, "", load=0.9)
    assert _owned(tmp_path, 1, Limits(), machine).note == ""
    assert "load 5.0 on 8 CPUs" in _owned(tmp_path, 1, Limits(), replace(machine, load=5.0)).note


def test_what_other_evaluations_own_is_told_as_the_cause(tmp_path: Path) -> None:
    small, machine = Limits(memory_bytes=GIB), _machine(4, 64)
    with claimed(machine, small, 3, folder=tmp_path):
        assert _owned(tmp_path, None, small, machine).note == (
            "1 at a time, since other evaluations own the rest of what there is for 4"
        )
        assert "1 of the 3 workers asked for, since other evaluations own the rest" in (
            _owned(tmp_path, 3, small, machine).note
        )
        assert _owned(tmp_path, 1, small, machine).note == ""


@given(
    st.integers(1, 12),
    st.integers(1, 40),
    st.integers(0, 6),
    st.integers(1, 4),
    st.integers(0, 3),
    st.integers(1, 12),
    st.one_of(st.none(), st.integers(1, 20)),
)
def test_no_two_candidates_ever_share_a_cpu_a_gpu_or_memory(
    cpus: int, gib: int, gpus: int, cpus_each: int, gpus_each: int, gib_each: int, wanted: int | None
) -> None:
    assume(gpus_each <= gpus)
    limits = Limits(cpus=cpus_each, gpus=gpus_each, memory_bytes=gib_each * GIB)
    slots = allot(wanted, limits, _machine(cpus, gib, gpus)).slots
    assert 1 <= len(slots) <= (wanted or len(slots))
    for owned in ([cpu for slot in slots for cpu in slot.cpus], [gpu for slot in slots for gpu in slot.gpus]):
        assert len(owned) == len(set(owned))
    assert all(len(slot.gpus) == gpus_each for slot in slots)
    if len(slots) > 1:
        assert all(len(slot.cpus) == cpus_each for slot in slots)
        assert len(slots) * gib_each <= gib
