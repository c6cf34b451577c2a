"""How many candidates run at a time, and which CPUs and GPUs each owns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ml_bench_metric.sandbox.gpus import counted, shortage
from ml_bench_metric.sandbox.limits import GIB, Limits
from ml_bench_metric.sandbox.protocol import Capacity, SandboxError, Slot

_BUSY_SHARE = 0.5
"""From this load per CPU on, before anything of ours runs, a machine is called busy."""


@dataclass(frozen=True)
class Workers:
    """A decision: how many candidates run at a time, on which CPUs and GPUs."""

    slots: tuple[Slot, ...]
    """For each worker what its candidate owns; without CPUs where they are shared."""
    note: str
    """What a person should know of it, one line; empty where there is nothing to say."""


def allot(
    wanted: int | None,
    limits: Limits,
    capacity: Capacity,
    *,
    machine: Capacity | None = None,
    oversubscribe: bool = False,
) -> Workers:
    """Return the workers for a machine.

    A candidate's verdict must not depend on what runs beside it, so every candidate owns `limits.cpus` CPUs and
    `limits.gpus` GPUs, and all memory limits together fit into the machine's memory. `oversubscribe` lifts all of that,
    for people who ask for it: each candidate then has the time of `limits.cpus` CPUs at the most, and less where others
    need it, and GPUs that others use too where there are not enough.

    Args:
        wanted: how many at a time; None for as many as fit.
        limits: of one candidate.
        capacity: what there is for these workers.
        machine: all that the machine has, where other evaluations may own a part of it; None: `capacity` is all.
        oversubscribe: take `wanted` (by default one per CPU) as it is.

    Raises:
        ValueError: `wanted` is less than 1.
        SandboxError: there are fewer GPUs than one candidate is to own; the message says what to do.
    """
    if wanted is not None and wanted < 1:
        raise ValueError(f"number of workers is {wanted}; give 1 or more")
    if limits.gpus > len(capacity.gpus):
        raise SandboxError(shortage(limits.gpus, len(capacity.gpus)))
    if oversubscribe:
        count = wanted or len(capacity.cpus)
        shared = f"{len(capacity.cpus)} CPUs" + (f" and {counted(len(capacity.gpus))}" if limits.gpus else "")
        slots = tuple(Slot(gpus=_in_turn(capacity.gpus, number, limits.gpus)) for number in range(count))
        return Workers(slots, note=f"{count} workers share {shared}, as asked")
    fit = max(1, min(_fitting(limits, capacity).values()))
    count = min(wanted or fit, fit)
    slots = tuple(
        Slot(
            cpus=capacity.cpus[number * limits.cpus : (number + 1) * limits.cpus],
            gpus=capacity.gpus[number * limits.gpus : (number + 1) * limits.gpus],
        )
        for number in range(count)
    )
    return Workers(slots, note="; ".join(_reasons(wanted, count, limits, machine or capacity)))


def _fitting(limits: Limits, capacity: Capacity) -> dict[str, int]:
    """Return for how many candidates at a time there is enough of each thing."""
    return {
        "CPUs": len(capacity.cpus) // limits.cpus,
        "memory": capacity.memory_bytes // limits.memory_bytes,
        **({"GPUs": len(capacity.gpus) // limits.gpus} if limits.gpus else {}),
    }


def _reasons(wanted: int | None, count: int, limits: Limits, machine: Capacity) -> Iterator[str]:
    """Yield why there are `count` workers, as far as that may surprise, and what else is to be known of the machine."""
    fitting = _fitting(limits, machine)
    scarce = min(fitting, key=lambda name: fitting[name])
    room = max(1, fitting[scarce])
    each = f"{limits.memory_bytes / GIB:.1f} GiB"
    if fitting["CPUs"] < 1:
        yield f"the machine has {len(machine.cpus)} CPUs, fewer than the {limits.cpus} of the limit"
    if fitting["memory"] < 1:
        yield f"the machine has {machine.memory_bytes / GIB:.1f} GiB of memory, less than the {each} of the limit"
    if wanted is not None and wanted > count:
        cause = "other evaluations own the rest" if count < room else f"more would share {scarce}"
        yield f"{count} of the {wanted} workers asked for, since {cause}; --oversubscribe allows that"
    elif count < min(wanted or room, room):
        yield f"{count} at a time, since other evaluations own the rest of what there is for {room}"
    elif wanted is None and scarce == "memory" and fitting["memory"] >= 1 and not limits.gpus:
        yield (
            f"{count} at a time, since each may use {each} of memory, and there are CPUs for {fitting['CPUs']}; "
            "--limit-memory gives each less"
        )
    if limits.gpus and fitting[scarce] >= 1:
        yield (
            f"each candidate owns {counted(limits.gpus)} of the engine's {len(machine.gpus)}; the machine has "
            f"{scarce} for {room} at a time"
        )
    if machine.load is not None and machine.load >= _BUSY_SHARE * len(machine.cpus):
        yield (
            f"the machine is busy with other work (load {machine.load:.1f} on {len(machine.cpus)} CPUs): candidates "
            "will be slower, and more of them still running at the limit"
        )


def _in_turn(gpus: tuple[str, ...], number: int, each: int) -> tuple[str, ...]:
    """Return a worker's GPUs where workers take theirs from the list again and again."""
    return tuple(gpus[(number * each + position) % len(gpus)] for position in range(each))
