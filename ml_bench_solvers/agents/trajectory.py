"""What happened while an agent worked: a line of JSON for each step, in the order of events, only ever appended to.

Every line carries a checksum, see `sealed`. Long texts are kept as their beginning and end, and the whole is bounded:
whatever an agent does, the file of a task does not outgrow `MAX_BYTES` by more than its last lines.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from ml_bench_metric.sealed import cut_torn_line, seal, unseal
from ml_bench_metric.store import RunError
from ml_bench_solvers.agents.budget import Used

FILE = "trajectory.jsonl"

MAX_BYTES = 64 << 20
"""How large a trajectory may become. What comes then is counted and left out, but for what was used and the end."""
TEXT_CHARACTERS = 64 * 1024
"""How much of each text is kept, half as its beginning and half as its end."""
_DEPTH = 12
"""How deep facts may be nested; what lies deeper is left out."""

USED = "used"
"""The kind of a step that says what was used: turns, tokens, money."""
NETWORK = "network"
"""The kind of a step that says what was asked of the network, and whether it was allowed."""
_ALWAYS = (USED, "ended")


class Trajectory:
    """The steps of one attempt at a task. Its methods may be called from any thread."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        """Open the file, new or to go on with.

        Args:
            path: of the file.
            clock: returns seconds since 1970.

        Raises:
            RunError: it cannot be written.
        """
        self._path = path
        self._clock = clock
        self._lock = threading.Lock()
        self._left_out = 0
        try:
            cut_torn_line(path)
            self._file = path.open("a", encoding="ascii", newline="\n")
            self._bytes = self._file.tell()
        except OSError as error:
            raise _unwritable(path, error) from error

    def add(self, kind: str, facts: Mapping[str, Any]) -> None:
        """Store a step; it is in the file, as far as this process is concerned, when this returns.

        Args:
            kind: of the step, such as `command`.
            facts: what else there is to tell, as JSON values; what is none is kept as text.

        Raises:
            RunError: it cannot be written.
        """
        with self._lock:
            if self._bytes > MAX_BYTES and kind not in _ALWAYS:
                self._left_out += 1
                return
            told = {"left_out": self._left_out} if self._left_out and kind != USED else {}
            # Our own fields last: nothing that an agent tells may stand in for them.
            record = {**bounded(dict(facts)), **told, "kind": kind, "at": round(self._clock(), 3)}
            line = seal(json.dumps(record, ensure_ascii=True, allow_nan=False)) + "\n"
            try:
                self._file.write(line)
                self._file.flush()
            except OSError as error:
                with suppress(OSError):
                    self._file.close()
                raise _unwritable(self._path, error) from error
            self._bytes += len(line)

    def close(self) -> None:
        """Close the file."""
        with self._lock, suppress(OSError):
            self._file.close()

    def __enter__(self) -> Trajectory:
        """Return self."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()


def read_steps(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the steps of a trajectory, without their checksums; nothing where there is no file.

    A last line without its end is left out.

    Raises:
        RunError: a line is damaged, and the message names it; or the file cannot be read.
    """
    try:
        with path.open(encoding="ascii", errors="replace") as lines:
            for number, line in enumerate(lines, 1):
                if not line.endswith("\n"):
                    return
                try:
                    step = json.loads(unseal(line))
                except ValueError as error:
                    raise RunError(f"{path}:{number}: no whole step ({error}); it was damaged, or changed") from error
                yield step
    except FileNotFoundError:
        return
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror or error}") from error


def used_in(path: Path) -> Used:
    """Return what a trajectory says was used.

    Raises:
        RunError: it is damaged, or cannot be read.
    """
    total = Used()
    for step in read_steps(path):
        if step["kind"] == USED:
            total += Used.model_validate({name: step[name] for name in Used.model_fields if name in step})
    return total


def bounded(value: Any, depth: int = 0) -> Any:
    """Return a value as JSON can have it, its texts cut to `TEXT_CHARACTERS`."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        # A larger one cannot even be written in decimal beyond some thousand digits.
        return value if abs(value) < 1 << 64 else _cut(hex(value))
    if isinstance(value, float):
        return value if abs(value) < float("inf") else repr(value)
    if isinstance(value, Mapping | list | tuple) and depth == _DEPTH:
        return "…"
    if isinstance(value, Mapping):
        return {_cut(str(name)): bounded(one, depth + 1) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [bounded(one, depth + 1) for one in value]
    return _cut(value if isinstance(value, str) else repr(value))


def _cut(text: str) -> str:
    if len(text) <= TEXT_CHARACTERS:
        return text
    half = TEXT_CHARACTERS // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"


def _unwritable(path: Path, error: OSError) -> RunError:
    return RunError(
        f"{path} cannot be written: {error.strerror or error}; mend that, and the same command goes on, or give "
        "another --out"
    )
