"""Noticing what takes longer than it can take where all is well, and saying so: nothing is waited for in silence."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class _Watched:
    what: str
    began: float
    patience: float


class Watchdog:
    """Knows what is under way and how long it may take. Methods may be called from any thread."""

    def __init__(self, report: Callable[[str], None]) -> None:
        """Know of nothing yet.

        Args:
            report: receives a line when something takes too long, and again whenever it has taken twice as long.
        """
        self._report = report
        self._under_way: dict[int, _Watched] = {}
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    @contextmanager
    def watch(self, what: str, patience: float) -> Iterator[None]:
        """Watch something while this lasts.

        Args:
            what: for the line that reports it.
            patience: seconds that it may take.
        """
        number = next(self._numbers)
        with self._lock:
            self._under_way[number] = _Watched(what, time.monotonic(), patience)
        try:
            yield
        finally:
            with self._lock:
                del self._under_way[number]

    def look(self) -> None:
        """Report what takes too long. To be called every now and then."""
        now = time.monotonic()
        with self._lock:
            late = [watched for watched in self._under_way.values() if now - watched.began > watched.patience]
            for watched in late:
                watched.patience = 2 * (now - watched.began)
        for watched in late:
            self._report(f"{watched.what} takes {now - watched.began:.0f} s so far: the engine may have stalled")
