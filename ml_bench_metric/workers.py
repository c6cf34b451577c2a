"""How many candidates run at a time, and which CPUs and GPUs each owns."""

from __future__ import annotations

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


def allot(wanted: int | None, limits: Limits, capacity: Capacity, *, oversubscribe: bool = False) -> Workers:
    """Return the workers for a machine.

    A candidate's verdict must not depend on what runs beside it, so every candidate owns `limits.cpus` CPUs and
    `limits.gpus` GPUs, and all memory limits together fit into the machine's memory. `oversubscribe` lifts all of that,
    for people who ask for it: each candidate then has the time of `limits.cpus` CPUs at the most, and less where others
    need it, and GPUs that others use too where there are not enough.

    Args:
        wanted: how many at a time; None for as many as fit.
        limits: of one candidate.
        capacity: what the machine has.
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
    fitting = {
        "CPUs": len(capacity.cpus) // limits.cpus,
        "memory": capacity.memory_bytes // limits.memory_bytes,
        **({"GPUs": len(capacity.gpus) // limits.gpus} if limits.gpus else {}),
    }
    scarce = min(fitting, key=lambda name: fitting[name])
    fit = max(1, fitting[scarce])
    count = min(wanted or fit, fit)
    slots = tuple(
        Slot(
            cpus=capacity.cpus[number * limits.cpus : (number + 1) * limits.cpus],
            gpus=capacity.gpus[number * limits.gpus : (number + 1) * limits.gpus],
        )
        for number in range(count)
    )
    reasons = []
    if fitting["CPUs"] < 1:
        reasons.append(f"the machine has {len(capacity.cpus)} CPUs, fewer than the {limits.cpus} of the limit")
    if fitting["memory"] < 1:
        reasons.append(
            f"the machine has {capacity.memory_bytes / GIB:.1f} GiB of memory, less than the "
            f"{limits.memory_bytes / GIB:.1f} GiB of the limit"
        )
    if wanted is not None and wanted > count:
        reasons.append(
            f"{count} of the {wanted} workers asked for, since more would share {scarce}; --oversubscribe allows that"
        )
    if limits.gpus and fitting[scarce] >= 1:
        reasons.append(
            f"each candidate owns {counted(limits.gpus)} of the engine's {len(capacity.gpus)}; the machine has "
            f"{scarce} for {fit} at a time"
        )
    if capacity.load is not None and capacity.load >= _BUSY_SHARE * len(capacity.cpus):
        reasons.append(
            f"the machine is busy with other work (load {capacity.load:.1f} on {len(capacity.cpus)} CPUs): candidates "
            "will be slower, and more of them still running at the limit"
        )
    return Workers(slots=slots, note="; ".join(reasons))


def _in_turn(gpus: tuple[str, ...], number: int, each: int) -> tuple[str, ...]:
    """Return a worker's GPUs where workers take theirs from the list again and again."""
    return tuple(gpus[(number * each + position) % len(gpus)] for position in range(each))
