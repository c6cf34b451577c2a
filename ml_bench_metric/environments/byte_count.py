"""How far a transfer of many bytes is: a line now and then."""

from __future__ import annotations

import time
from collections.abc import Callable

LINE_SECONDS = 5.0
"""How often a line is written."""


class ByteCount:
    """Counts the bytes of one transfer, and reports them."""

    def __init__(self, progress: Callable[[str], None], title: str, total: int) -> None:
        """Report nothing yet.

        Args:
            progress: receives a line every `LINE_SECONDS`.
            title: what the lines begin with.
            total: number of bytes that are expected.
        """
        self._progress = progress
        self._title = title
        self._total = total
        self._done = 0
        self._next = time.monotonic() + LINE_SECONDS

    def add(self, count: int) -> None:
        """Take the next bytes."""
        self._done += count
        now = time.monotonic()
        if now >= self._next:
            self._next = now + LINE_SECONDS
            self._progress(f"{self._title}: {bytes_text(self._done)} of {bytes_text(self._total)}")


def bytes_text(count: int) -> str:
    """Return a number of bytes as a person reads it: `312 kB`, `45 MB`, `2.31 GB`, in powers of 1000."""
    for unit, size, digits in (("GB", 10**9, 2), ("MB", 10**6, 0)):
        if count >= size:
            return f"{count / size:.{digits}f} {unit}"
    return f"{count / 1000:.0f} kB"
