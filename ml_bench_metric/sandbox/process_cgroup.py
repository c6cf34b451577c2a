"""A cgroup for one candidate of the process sandbox, v1 or v2, where this process may make one."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

from ml_bench_metric.sandbox.cgroups import MOUNT
from ml_bench_metric.sandbox.limits import Limits
from ml_bench_metric.sandbox.protocol import Slot

_V1 = ("memory", "pids", "cpuset", "cpuacct", "cpu")
_PERIOD_MICROSECONDS = 100_000
OF_SANDBOX = 1
"""Processes in it that are not the candidate's: `timeout`."""

_REMOVE_SECONDS = 2.0
"""How long the kernel may take to notice that a cgroup is empty."""


@dataclass(frozen=True)
class Cgroup:
    """The folders of one cgroup: one for all controllers under v2, one for each under v1."""

    folders: tuple[Path, ...]
    limits_memory: bool
    """Whether memory is limited by it, and OOM kills are counted."""

    @property
    def entrances(self) -> list[str]:
        """Files into which a process writes 0 to be in it."""
        return [str(folder / "cgroup.procs") for folder in self.folders]

    def remove(self) -> None:
        """Remove it. Its processes must have ended."""
        end = time.monotonic() + _REMOVE_SECONDS
        for folder in self.folders:
            while folder.exists():
                try:
                    folder.rmdir()
                except OSError:
                    if time.monotonic() > end:
                        break
                    time.sleep(0.01)


def find_cgroup(name: str, mount: Path = MOUNT) -> Cgroup:
    """Return the cgroup of a name; one without folders where there is none."""
    folders = [folder for folder in (mount / name, *(mount / one / name for one in _V1)) if folder.is_dir()]
    return Cgroup(tuple(folders), limits_memory=False)


def make_cgroup(name: str, limits: Limits, slot: Slot, mount: Path = MOUNT) -> Cgroup:
    """Return a new cgroup that has a candidate's limits; one without folders where none may be made.

    Args:
        name: of the folders.
        limits: of the candidate.
        slot: whose CPUs it has.
        mount: where the cgroup file systems are mounted.
    """
    if (mount / "cgroup.controllers").exists():
        for controller in ("memory", "pids", "cpu", "cpuset"):
            # One at a time: a kernel that lacks one refuses them all.
            _write(mount / "cgroup.subtree_control", f"+{controller}")
        folders = [mount / name]
    else:
        folders = [mount / controller / name for controller in _V1 if (mount / controller).is_dir()]
    made: list[Path] = []
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.mkdir()
            made.append(folder)
    limited = [_set(folder, limits, slot) for folder in made]
    return Cgroup(tuple(made), any(limited))


def _set(folder: Path, limits: Limits, slot: Slot) -> bool:
    """Write the limits of the controllers that a folder has; return whether memory is among them."""
    memory = str(limits.memory_bytes)
    quota = limits.cpus * _PERIOD_MICROSECONDS
    by_memory = _write(folder / "memory.max", memory) or _write(folder / "memory.limit_in_bytes", memory)
    # Swap: none under v2; memory and swap together under v1.
    _write(folder / "memory.swap.max", "0")
    _write(folder / "memory.memsw.limit_in_bytes", memory)
    _write(folder / "pids.max", str(limits.processes + OF_SANDBOX))
    if (folder / "cpuset.cpus").exists():
        # Under v1 both must be written before a process can be in it.
        _write(folder / "cpuset.mems", _read(folder.parent / "cpuset.mems"))
        _write(folder / "cpuset.cpus", ",".join(map(str, slot.cpus)) or _read(folder.parent / "cpuset.cpus"))
    if not slot.cpus:
        _write(folder / "cpu.max", f"{quota} {_PERIOD_MICROSECONDS}")
        _write(folder / "cpu.cfs_quota_us", str(quota))
    return by_memory


def _write(path: Path, text: str) -> bool:
    """Write one value; return whether there is such a file and it took it."""
    try:
        number = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        os.write(number, text.encode())
    except OSError:
        return False
    finally:
        os.close(number)
    return True


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""
