"""CPUs, GPUs and memory of a machine, owned by one evaluation at a time: others on the same machine take what is left.

A candidate's verdict must not depend on what runs beside it, and that holds between two evaluations too. Ownership is a
lock on a file per CPU and GPU, which the kernel gives back however a process ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

from ml_bench_metric.sandbox.limits import Limits
from ml_bench_metric.sandbox.protocol import Capacity

LOOK_SECONDS = 1.0
"""How often an evaluation that waits looks whether others have given something back."""

_OPEN_TO_ALL = 0o666
_FOLDER_MODE = 0o1777


@contextlib.contextmanager
def claimed(
    capacity: Capacity,
    limits: Limits,
    wanted: int | None,
    *,
    waiting: Callable[[str], None] = lambda reason: None,
    folder: Path | None = None,
) -> Iterator[Capacity]:
    """Give what this evaluation owns of a machine while this lasts.

    Args:
        capacity: of the machine.
        limits: of one candidate.
        wanted: how many candidates at a time; None for as many as fit.
        waiting: receives a line, once, if other evaluations own too much for a single candidate: then this waits.
        folder: of the locks; by default one for all users of this machine.
    """
    locks = folder or Path(tempfile.gettempdir()) / f"ml-bench-owned-{_short(capacity.place)}"
    told = False
    while True:
        claim = _claim(locks, capacity, limits, wanted)
        if claim is not None:
            break
        if not told:
            waiting(
                "other evaluations on this machine own its CPUs, GPUs or memory; waiting until one of them ends "
                "(--oversubscribe shares them)"
            )
            told = True
        time.sleep(LOOK_SECONDS)
    try:
        yield claim.capacity
    finally:
        for file in claim.files:
            file.close()


@dataclass
class _Claim:
    capacity: Capacity
    files: list[IO[str]] = field(default_factory=list)


def _claim(folder: Path, capacity: Capacity, limits: Limits, wanted: int | None) -> _Claim | None:
    """Return what is free, no more than is wanted; None where it is too little for one candidate.

    A machine that never has enough for one candidate gives all that it has: whoever allots the workers says so.
    """
    with contextlib.ExitStack() as stack:
        try:
            guard = stack.enter_context(_opened(folder, "guard"))
        except OSError:
            # No place for locks: then nobody else has any either.
            return _Claim(capacity)
        fcntl.flock(guard, fcntl.LOCK_EX)
        cpus, others_of_cpus, promised = _free(folder, [f"cpu-{number}" for number in capacity.cpus])
        gpus, others_of_gpus, _ = _free(folder, [f"gpu-{_short(name)}" for name in capacity.gpus])
        memory = max(0, capacity.memory_bytes - promised)
        fit = min(
            len(cpus) // limits.cpus,
            memory // limits.memory_bytes,
            len(gpus) // limits.gpus if limits.gpus else len(cpus),
        )
        if fit < 1 and (others_of_cpus or others_of_gpus):
            for file in (*cpus.values(), *gpus.values()):
                file.close()
            return None
        count = min(wanted or fit, fit) if fit else None
        own_cpus = list(cpus) if count is None else list(cpus)[: count * limits.cpus]
        own_gpus = list(gpus) if count is None else list(gpus)[: count * limits.gpus]
        share = (count or 1) * limits.memory_bytes // max(1, len(own_cpus))
        for name, file in (*cpus.items(), *gpus.items()):
            if name in own_cpus or name in own_gpus:
                file.truncate(0)
                file.write(str(share if name in own_cpus else 0))
                file.flush()
            else:
                file.close()
        found = replace(
            capacity,
            cpus=tuple(number for number in capacity.cpus if f"cpu-{number}" in own_cpus),
            gpus=tuple(name for name in capacity.gpus if f"gpu-{_short(name)}" in own_gpus),
            memory_bytes=memory,
        )
        return _Claim(found, [file for file in (*cpus.values(), *gpus.values()) if not file.closed])


def _free(folder: Path, names: list[str]) -> tuple[dict[str, IO[str]], int, int]:
    """Lock what is free; return it, how much others own, and how many bytes of memory they have promised."""
    free: dict[str, IO[str]] = {}
    others = promised = 0
    for name in names:
        file = _opened(folder, name)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            others += 1
            with contextlib.suppress(ValueError):
                file.seek(0)
                promised += int(file.read() or 0)
            file.close()
        else:
            free[name] = file
    return free, others, promised


def _opened(folder: Path, name: str) -> IO[str]:
    if not folder.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(OSError):
            folder.chmod(_FOLDER_MODE)
    path = folder / name
    # Not to be followed: the folder is open to every user of the machine.
    number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, _OPEN_TO_ALL)
    with contextlib.suppress(OSError):
        os.fchmod(number, _OPEN_TO_ALL)
    return os.fdopen(number, "r+", encoding="ascii")


def _short(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:12]
