"""Disk space that no walk through folders finds: files that were deleted and are still open."""

from __future__ import annotations

import stat
from collections.abc import Iterable
from pathlib import Path


def deleted_bytes(pids: Iterable[int], proc: Path = Path("/proc")) -> int:
    """Return how many bytes of disk the deleted files that some processes hold open take up.

    Files in memory (`/tmp`, `/dev/shm`) are not among them: those have their own limits. What may not be looked at,
    which is all of another user's processes unless this one is root, is left out.
    """
    sizes: dict[tuple[int, int], int] = {}
    for pid in pids:
        try:
            disk = (proc / str(pid) / "root").stat().st_dev
            files = list((proc / str(pid) / "fd").iterdir())
        except OSError:
            continue
        for file in files:
            try:
                found = file.stat()
            except OSError:
                continue
            if found.st_nlink == 0 and found.st_dev == disk and stat.S_ISREG(found.st_mode):
                # Blocks of stat(2) are of 512 bytes, whatever the file system's own.
                sizes[found.st_dev, found.st_ino] = found.st_blocks * 512
    return sum(sizes.values())
