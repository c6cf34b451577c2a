"""What was sent when, and how it ended: a JSON line per attempt, for people, without secrets."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import IO

LOG_FILE = "requests.jsonl"


def now() -> str:
    """Return the time: UTC, ISO 8601, with milliseconds."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


class RequestLog:
    """Writes the log."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    @classmethod
    def open(cls, folder: Path) -> RequestLog:
        """Return the log of a folder, to be gone on with.

        Raises:
            OSError: it cannot be written.
        """
        return cls((folder / LOG_FILE).open("a", encoding="utf-8"))

    def write(
        self, *, task: str, answers: tuple[int, ...], attempt: int, outcome: str, seconds: float, detail: str = ""
    ) -> None:
        """Note an attempt.

        Args:
            task: what it was for.
            answers: the answers that it asked for.
            attempt: counted from 1.
            outcome: `200`, another HTTP status, `timeout`, `disconnected`, `broken`, …
            seconds: wall time.
            detail: the server's name for it, or its words on what failed.
        """
        line = {
            "time": now(),
            "task_id": task,
            "answers": answers,
            "attempt": attempt,
            "outcome": outcome,
            "seconds": round(seconds, 3),
            "detail": detail[:300],
        }
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()

    def close(self) -> None:
        """End it."""
        self._file.close()
