"""What workers share: the candidates that are left, and a slot that one of them uses at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from ml_bench_metric.sandbox.protocol import Slot

T = TypeVar("T")


class Place:
    """A slot, which one candidate at a time uses."""

    def __init__(self, slot: Slot) -> None:
        """Nobody uses it yet."""
        self.slot = slot
        self._taken = threading.Lock()

    @contextmanager
    def used(self) -> Iterator[Callable[[], None]]:
        """Give what frees the slot, which is waited for, before the block ends; it is free behind it anyway."""
        self._taken.acquire()
        freeing = threading.Lock()

        def free() -> None:
            # Once: behind that, it is somebody else's.
            if freeing.acquire(blocking=False):
                self._taken.release()

        try:
            yield free
        finally:
            free()


class Feed(Generic[T]):
    """Hands things out to workers, one at a time."""

    def __init__(self, todo: Iterable[T]) -> None:
        """Begin with the first."""
        self._todo = iter(todo)
        self._lock = threading.Lock()
        self._open = True

    def next(self) -> T | None:
        """Return the next one; None where nothing is left, or it is closed."""
        with self._lock:
            return next(self._todo, None) if self._open else None

    def close(self) -> None:
        """Hand nothing out any more."""
        with self._lock:
            self._open = False
