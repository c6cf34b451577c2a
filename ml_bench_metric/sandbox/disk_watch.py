"""Measuring what a candidate has written, beside it: however long a measurement takes, no other limit waits for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

MEASURE_SECONDS = 1.0
"""How often what a candidate has written is measured at the most."""

_SHARE = 4
"""How many times as long as a measurement the pause behind it is at the least. A measurement walks through all files:
a candidate with a million of them would keep the machine busy otherwise, and slow down others."""


class DiskWatch:
    """A thread that measures again and again until it is stopped or the limit is passed."""

    def __init__(self, measure: Callable[[], int | None], limit: int) -> None:
        """Do nothing yet.

        Args:
            measure: returns the bytes written so far; negative where somebody hides them, None where nothing is known.
            limit: in bytes.
        """
        self._measure, self._limit = measure, limit
        self._stopped = threading.Event()
        self._full = False
        self._failure: Exception | None = None

    def start(self) -> None:
        """Begin to measure."""
        threading.Thread(target=self._watch, name="ml-bench-disk", daemon=True).start()

    def stop(self) -> None:
        """Measure no more. A measurement that is under way is not waited for."""
        self._stopped.set()

    def is_full(self) -> bool:
        """Whether the limit was passed by the last measurement.

        Raises:
            Exception: what the last measurement raised.
        """
        if self._failure is not None:
            raise self._failure
        return self._full

    def _watch(self) -> None:
        hidden, pause = 0, MEASURE_SECONDS
        while not self._full and self._failure is None and not self._stopped.wait(pause):
            began = time.monotonic()
            try:
                size = self._measure()
            except Exception as error:
                self._failure = error
                return
            if size is not None:
                # Once may be a passing fault, twice is somebody hiding what is there.
                hidden = hidden + 1 if size < 0 else 0
                self._full = hidden > 1 or size > self._limit
            pause = max(MEASURE_SECONDS, _SHARE * (time.monotonic() - began))
