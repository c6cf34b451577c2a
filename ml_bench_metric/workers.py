"""How many candidates run at a time, and which CPUs each owns."""

from __future__ import annotations

from dataclasses import dataclass

from ml_bench_metric.sandbox.limits import GIB, Limits
from ml_bench_metric.sandbox.protocol import Capacity

_BUSY_SHARE = 0.5
"""From this load per CPU on, before anything of ours runs, a machine is called busy."""


@dataclass(frozen=True)
class Workers:
    """A decision: how many candidates run at a time, on which CPUs."""

    slots: tuple[tuple[int, ...], ...]
    """For each worker the numbers of the CPUs that its candidate owns; empty where CPUs are shared."""
    note: str
    """What a person should know of it, one line; empty where there is nothing to say."""


def allot(wanted: int | None, limits: Limits, capacity: Capacity, *, oversubscribe: bool = False) -> Workers:
    """Return the workers for a machine.

    A candidate's verdict must not depend on what runs beside it, so every candidate owns `limits.cpus` CPUs, and all
    memory limits together fit into the machine's memory. `oversubscribe` lifts both, for people who ask for it: each
    candidate then has the time of `limits.cpus` CPUs at the most, and less where others need it.

    Args:
        wanted: how many at a time; None for as many as fit.
        limits: of one candidate.
        capacity: what the machine has.
        oversubscribe: take `wanted` (by default one per CPU) as it is.

    Raises:
        ValueError: `wanted` is less than 1.
    """
    if wanted is not None and wanted < 1:
        raise ValueError(f"number of workers is {wanted}; give 1 or more")
    if oversubscribe:
        count = wanted or len(capacity.cpus)
        return Workers(slots=((),) * count, note=f"{count} workers share {len(capacity.cpus)} CPUs, as asked")
    by_cpus = len(capacity.cpus) // limits.cpus
    by_memory = capacity.memory_bytes // limits.memory_bytes
    fit = max(1, min(by_cpus, by_memory))
    count = min(wanted or fit, fit)
    slots = tuple(tuple(capacity.cpus[i * limits.cpus : (i + 1) * limits.cpus]) for i in range(count))
    reasons = []
    if by_cpus < 1:
        reasons.append(f"the machine has {len(capacity.cpus)} CPUs, fewer than the {limits.cpus} of the limit")
    if by_memory < 1:
        reasons.append(
            f"the machine has {capacity.memory_bytes / GIB:.1f} GiB of memory, less than the "
            f"{limits.memory_bytes / GIB:.1f} GiB of the limit"
        )
    if wanted is not None and wanted > count:
        cause = "CPUs" if by_cpus <= by_memory else "memory"
        reasons.append(
            f"{count} of the {wanted} workers asked for, since more would share {cause}; --oversubscribe allows that"
        )
    if capacity.load is not None and capacity.load >= _BUSY_SHARE * len(capacity.cpus):
        reasons.append(
            f"the machine is busy with other work (load {capacity.load:.1f} on {len(capacity.cpus)} CPUs): candidates "
            "will be slower, and more of them still running at the limit"
        )
    return Workers(slots=slots, note="; ".join(reasons))
