"""Which commands a candidate has started: the command lines of its processes, looked at from outside while they live.

A process can write into its own command line, as it can print what it likes: what is here is a hint of what was used,
and decides on no exit status.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterable
from pathlib import Path

MAX_COMMANDS = 100
"""How many different ones are kept: the first half of those that are seen, and the last."""

MAX_BYTES = 2048
"""How much of each is kept."""

_MAX_PROCESSES = 256
"""How many processes are looked at each time."""

_PAUSE_SECONDS = 0.01
"""How long nothing is looked at behind a look, however often that is asked for."""

_KEEPER = "timeout"


class CommandLines:
    """Remembers the command lines of the processes below one that starts the candidate."""

    def __init__(
        self, pids: Callable[[], Iterable[int]], first: int | None, init: int = 0, *, proc: Path = Path("/proc")
    ) -> None:
        """Know where to look.

        Args:
            pids: returns the processes that are alive now, by their numbers on this machine.
            first: process of the sandbox that becomes `timeout`, the inner keeper of the time limit, when the
                candidate starts. None where it is not known: then nothing is ever seen.
            init: the sandbox's process above that one, 0 for none among `pids`.
            proc: where procfs is mounted.
        """
        self._pids, self._first, self._init, self._proc = pids, first, init, proc
        self._keeper: list[str] = []
        self._next = 0.0
        self._head: dict[str, None] = {}
        self._tail: dict[str, None] = {}

    def look(self) -> None:
        """Remember what runs now."""
        now = time.monotonic()
        if self._first is None or now < self._next:
            return
        self._next = now + _PAUSE_SECONDS
        if not self._keeper:
            # Until then, what runs is the sandbox's own: what it says of itself must not count as the candidate's.
            arguments = self._arguments(self._first)
            if not arguments or Path(arguments[0]).name != _KEEPER:
                return
            self._keeper = arguments
        for pid in sorted(self._pids())[:_MAX_PROCESSES]:
            arguments = [] if pid in (self._first, self._init) else self._arguments(pid)
            # Between its fork and its exec a child of the keeper looks like the keeper.
            if arguments and arguments != self._keeper:
                self._remember(shlex.join(arguments))

    @property
    def seen(self) -> tuple[str, ...]:
        """What was seen, as bash words, in the order of their first sight."""
        return (*self._head, *self._tail)

    def _remember(self, command: str) -> None:
        if command in self._head or command in self._tail:
            return
        if len(self._head) < MAX_COMMANDS // 2:
            self._head[command] = None
            return
        self._tail[command] = None
        if len(self._tail) > MAX_COMMANDS // 2:
            del self._tail[next(iter(self._tail))]

    def _arguments(self, pid: int) -> list[str]:
        try:
            with (self._proc / str(pid) / "cmdline").open("rb") as file:
                data = file.read(MAX_BYTES)
        except OSError:
            # It has ended.
            return []
        # What no UTF-8 can hold stays readable, and can be stored.
        text = data.decode("utf-8", "replace").rstrip("\0")
        return text.split("\0") if text else []


def child_of(parent: int, pids: Iterable[int], *, proc: Path = Path("/proc")) -> int | None:
    """Return the process among some that another one has started; None where there is none."""
    for pid in pids:
        try:
            stat = (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        # The name may hold blanks and brackets; the parent is the second field behind it.
        fields = stat.rpartition(")")[2].split()
        if len(fields) > 1 and fields[1] == str(parent):
            return pid
    return None
