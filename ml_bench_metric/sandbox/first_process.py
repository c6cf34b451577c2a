"""The end of a container's first process, seen by the kernel's word: some 25 ms before the engine tells it.

When the first process of a container is gone, all others are, and the CPUs that they owned are free for somebody else.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
from collections.abc import Callable
from typing import Protocol

from ml_bench_metric.sandbox.protocol import do_nothing


class _File(Protocol):
    def fileno(self) -> int: ...


class FirstProcess:
    """Waits for the end of a process of this machine beside other things."""

    def __init__(self, pid: int) -> None:
        """Take hold of a process. Where that fails, its end is never seen."""
        self._freed = do_nothing
        self._handle = -1
        # It has ended just now, the kernel is older than 5.3, or it may not be asked about.
        with contextlib.suppress(OSError, AttributeError):
            self._handle = os.pidfd_open(pid)

    def tell(self, freed: Callable[[], None]) -> None:
        """Have a function called when the end is seen."""
        self._freed = freed

    def wait_beside(self, file: _File, seconds: float) -> bool:
        """Wait until a file can be read, or the process is seen to end; return whether the file can be read."""
        poll = select.poll()
        poll.register(file.fileno(), select.POLLIN)
        if self._handle >= 0:
            poll.register(self._handle, select.POLLIN)
        ready = [number for number, _ in poll.poll(math.ceil(seconds * 1000))]
        if self._handle in ready:
            ready.remove(self._handle)
            self.close()
            self._freed()
        return bool(ready)

    def close(self) -> None:
        """Let the process go."""
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)
