"""What the kernel says about a container: CPU time, memory and OOM kills, from cgroup files, v1 and v2.

The files are read on the engine's host, out of the candidate's reach. They vanish with the container, so a reader
keeps its last reading.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

MOUNT = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Usage:
    """What a container has used so far; None where it could not be read."""

    cpu_seconds: float | None = None
    peak_memory_bytes: int | None = None
    oom_kills: int = 0


class CgroupReader:
    """Reads the usage of one container again and again, and remembers the last values."""

    def __init__(self, pid: int, container: str, *, proc: Path = Path("/proc"), mount: Path = MOUNT) -> None:
        """Find the cgroups of a container's first process.

        Args:
            pid: of that process on the engine's host.
            container: the container's id. Where `pid` belongs to something else, as it does when the engine runs on
                another machine, nothing is ever read.
            proc: where procfs is mounted.
            mount: where the cgroup file systems are mounted.
        """
        self._files = _find(_memberships(pid, proc), container, mount)
        memory = self._files.get("peak_memory_bytes")
        self._processes = memory[0].with_name("cgroup.procs") if memory else None
        self._proc = proc
        self.last = Usage()

    @property
    def found(self) -> bool:
        """Whether there is anything to read."""
        return bool(self._files)

    def read(self) -> Usage:
        """Return the usage now, or the last known one where the container has ended."""
        values: dict[str, float | int] = {}
        for field, (path, key, scale) in self._files.items():
            number = _number(path, key)
            if number is not None:
                values[field] = number * scale if field == "cpu_seconds" else number
        self.last = replace(self.last, **values)  # type: ignore[arg-type]
        return self.last

    def pids(self) -> tuple[int, ...]:
        """Return the processes that are alive in the container now, by their numbers on the engine's host."""
        if self._processes is None:
            return ()
        try:
            return tuple(int(pid) for pid in self._processes.read_text(encoding="ascii").split())
        except (OSError, ValueError):
            return ()

    def ready_seconds(self) -> float | None:
        """Return the longest time that one of the container's threads alive now was running or ready to run.

        One thread's, not the sum: threads that wait for each other on the container's own CPUs would count many times.
        None where it cannot be read. Source: the kernel's documentation of `/proc/<pid>/schedstat`, whose first two
        fields are the time on a CPU and the time waiting for one, in nanoseconds.
        """
        if self._processes is None:
            return None
        longest = 0
        for path in (path for pid in self.pids() for path in (self._proc / str(pid) / "task").glob("*/schedstat")):
            try:
                ran, waited = path.read_text(encoding="ascii").split()[:2]
                longest = max(longest, int(ran) + int(waited))
            except (OSError, ValueError):
                # A thread that has just ended, or a kernel that does not count: what is left is a lower bound.
                continue
        return longest * 1e-9


_Source = tuple[Path, str, float]
"""A file, the key of the wanted line in it (empty: the file is one number), and the unit in seconds for CPU time."""


def _memberships(pid: int, proc: Path) -> dict[str, str]:
    """Return controller -> path; the unified hierarchy of v2 has the controller `` (empty)."""
    try:
        lines = (proc / str(pid) / "cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    found: dict[str, str] = {}
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        for controller in controllers.split(","):
            found[controller] = path.lstrip("/")
    return found


def _find(memberships: Mapping[str, str], container: str, mount: Path) -> dict[str, _Source]:
    found: dict[str, _Source] = {}
    memory, cpu, unified = (memberships.get(name, "") for name in ("memory", "cpuacct", ""))
    # A v1 hierarchy may stand beside an empty v2 one ("hybrid"), so the controllers decide, not the machine.
    if container in memory:
        folder = mount / "memory" / memory
        found["peak_memory_bytes"] = (folder / "memory.max_usage_in_bytes", "", 1)
        found["oom_kills"] = (folder / "memory.oom_control", "oom_kill", 1)
    if container in cpu:
        found["cpu_seconds"] = (mount / "cpuacct" / cpu / "cpuacct.usage", "", 1e-9)
    if container in unified:
        folder = mount / unified
        found.setdefault("peak_memory_bytes", (folder / "memory.peak", "", 1))
        found.setdefault("oom_kills", (folder / "memory.events", "oom_kill", 1))
        found.setdefault("cpu_seconds", (folder / "cpu.stat", "usage_usec", 1e-6))
    return found


def _number(path: Path, key: str) -> int | None:
    try:
        text = path.read_text(encoding="ascii")
        if not key:
            return int(text)
        for line in text.splitlines():
            name, _, value = line.partition(" ")
            if name == key:
                return int(value)
    except (OSError, ValueError):
        return None
    return None
