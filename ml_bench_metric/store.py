"""What a run leaves on disk: a folder with `run.json`, `results.jsonl` (a line per candidate) and `summary.json`."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NoReturn

from ml_bench_metric.results import Result
from ml_bench_metric.sealed import cut_torn_line, seal, unseal
from ml_bench_metric.summary import Summary
from ml_bench_metric.whole_files import DRAFT_SUFFIX, write_whole

RUN_FILE = "run.json"
RESULTS_FILE = "results.jsonl"
SUMMARY_FILE = "summary.json"
_LOCK_FILE = ".lock"

_OF_A_PART = ("command", "started", "load_before", "workers", "cpus_are_shared")
"""What `run.json` tells of every part of a run: each time the run was begun or gone on with is one."""

_SHOWN_DIFFERENCES = 5

Identity = Mapping[str, Any]
"""What must be equal for results to belong to one run: harness version, settings, images, tasks. Plain JSON values."""


class RunError(ValueError):
    """A run's folder cannot be used; the message says why and what to do."""


class OtherRunError(RunError):
    """The folder holds results of another run."""


def take_folder(path: Path, lock: str, what: str) -> IO[str]:
    """Make a folder where there is none, and return the lock on it: it is free again when that file is closed.

    Args:
        path: of the folder.
        lock: name of the file in it that is locked.
        what: what uses such folders, for the message, such as `evaluation`.

    Raises:
        RunError: it cannot be made or written, or another process has it.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        file = (path / lock).open("a", encoding="utf-8")
    except OSError as error:
        raise RunError(
            f"{path} cannot be the folder of a run: {error.strerror or error}; give another --out"
        ) from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise RunError(f"{path} is in use by another {what}; wait for it, or give another --out") from error
    return file


class RunFolder:
    """The folder of one run, held by one process at a time.

    Results are appended as they are known, so that whatever ends the process, what was computed is there. Each line
    carries a checksum. Of several lines for one execution of a candidate the last counts.
    """

    def __init__(self, path: Path, identity: Identity, about: Mapping[str, Any]) -> None:
        """Open a run's folder for writing, new or to go on with.

        Args:
            path: of the folder; made where it does not exist.
            identity: of this run. A folder that holds another run's results is refused.
            about: what else is to stand in `run.json`: versions, command, times. It replaces what an earlier part of
                the run told; what may differ between parts is kept for each, oldest first, under `parts`.

        Raises:
            RunError: the folder cannot be made or written, is in use, is no run's folder or holds another run.
        """
        self.path = path
        self._facts: dict[str, Any] = {}
        # JSON has fewer types than Python: what is compared is what would be read back.
        self._identity = json.loads(json.dumps(identity))
        self._lock = take_folder(path, _LOCK_FILE, "evaluation")
        try:
            stored = self._stored_run()
            # First, and with what only earlier parts knew: results without their identity could be of anything.
            self._facts = {
                "identity": {**stored["identity"], **self._identity},
                **about,
                "parts": [*stored["parts"], {name: about[name] for name in _OF_A_PART if name in about}],
            }
            self._write_facts()
            self._results = self._open_results()
        except BaseException:
            self._lock.close()
            raise

    def tell(self, **facts: Any) -> None:
        """Add to what `run.json` tells of this part of the run what became known only now.

        Raises:
            RunError: it cannot be written.
        """
        self._facts["parts"][-1].update(facts)
        self._write_facts()

    def append(self, result: Result) -> None:
        """Store a result; it is in the file, as far as this process is concerned, when this returns.

        Raises:
            RunError: it cannot be written; nothing more can be stored then.
        """
        try:
            self._results.write(seal(result.to_json()) + "\n")
            self._results.flush()
        except OSError as error:
            # Closing writes what is left of the line, and would fail once more later.
            with suppress(OSError):
                self._results.close()
            _refuse(self.path / RESULTS_FILE, error)

    def results(self) -> Iterator[Result]:
        """Yield the stored results, the last one of each candidate."""
        return read_results(self.path)

    def write_summary(self, summary: Summary) -> None:
        """Store the summary, whole or not at all.

        Raises:
            RunError: it cannot be written.
        """
        write_summary(self.path, summary)

    def close(self) -> None:
        """Give the folder free.

        Raises:
            RunError: the last results could not be written.
        """
        try:
            if not self._results.closed:
                self._results.flush()
                with suppress(OSError):  # a device that cannot be synchronised, such as a pipe
                    os.fsync(self._results.fileno())
                self._results.close()
        except OSError as error:
            _refuse(self.path / RESULTS_FILE, error)
        finally:
            self._lock.close()

    def __enter__(self) -> RunFolder:
        """Return self."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        try:
            self.close()
        except RunError:
            if error is None:
                raise

    def _write_facts(self) -> None:
        _write(self.path / RUN_FILE, json.dumps(self._facts, indent=2))

    def _stored_run(self) -> dict[str, Any]:
        """Return what `run.json` says, which is of the same run; an empty identity and no parts where it is new."""
        if not (self.path / RUN_FILE).exists():
            ours = (_LOCK_FILE, RUN_FILE + DRAFT_SUFFIX)
            strangers = [name for name in _names_in(self.path) if name not in ours]
            if strangers:
                raise RunError(
                    f"{self.path} holds {strangers[0]!r} and no {RUN_FILE}: no run's folder; give another --out"
                )
            return {"identity": {}, "parts": []}
        stored = read_run(self.path)
        # What only one of them knows, such as an image that was missing before, does not contradict.
        common = sorted(stored["identity"].keys() & self._identity)
        differing = [
            line for name in common for line in differences(name, stored["identity"][name], self._identity[name])
        ]
        if differing:
            more = len(differing) - _SHOWN_DIFFERENCES
            raise OtherRunError(
                f"{self.path} holds results of another run ({', '.join(differing[:_SHOWN_DIFFERENCES])}"
                f"{f', and {more} more' if more > 0 else ''}); give another --out, the same settings to go on, "
                "or --restart to put those results aside"
            )
        return stored

    def _open_results(self) -> IO[str]:
        path = self.path / RESULTS_FILE
        try:
            cut_torn_line(path)
            return path.open("a", encoding="utf-8", newline="\n")
        except OSError as error:
            _refuse(path, error)


def checks_skipped(parts: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether candidates were executed on a machine that was not tried out before, in any part of a run."""
    return any(part.get("checks") == "skipped" for part in parts)


def write_summary(folder: Path, summary: Summary) -> None:
    """Store the summary of a run, whole or not at all.

    Raises:
        RunError: it cannot be written.
    """
    _write(folder / SUMMARY_FILE, summary.to_json(indent=2))


def put_aside(path: Path) -> Path:
    """Rename a run's folder to the first free `<name>.1`, `<name>.2`, … beside it, and return that path.

    Raises:
        RunError: it cannot be renamed.
    """
    # `.` and `..` are no names that a number can be added to.
    path = path.resolve()
    number = 1
    try:
        while (aside := path.parent / f"{path.name}.{number}").exists():
            number += 1
        return path.rename(aside)
    except OSError as error:
        raise RunError(
            f"{path} cannot be put aside as {aside.name}: {error.strerror or error}; give another --out"
        ) from error


def read_run(folder: Path) -> dict[str, Any]:
    """Return what `run.json` of a run says.

    Raises:
        RunError: there is none, or it is damaged.
    """
    path = folder / RUN_FILE
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {**found, "identity": dict(found["identity"]), "parts": list(found.get("parts", ()))}
    except FileNotFoundError as error:
        raise RunError(f"{folder} is no run's folder: it has no {RUN_FILE}") from error
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise RunError(f"{path} cannot be read ({error}); give another --out") from error


def read_results(folder: Path) -> Iterator[Result]:
    """Yield the results of a run in the order in which they became known; of several for one candidate, the last.

    Raises:
        RunError: a line is no result, and the message names it; or the file cannot be read.
    """
    path = folder / RESULTS_FILE
    # Twice through the file, so that only a number per candidate is kept in memory.
    last = {(result.task_id, result.candidate, result.repeat): number for number, result in _numbered_results(path)}
    for number, result in _numbered_results(path):
        if last[result.task_id, result.candidate, result.repeat] == number:
            yield result


def _numbered_results(path: Path) -> Iterator[tuple[int, Result]]:
    if not path.exists():
        return
    try:
        with path.open(encoding="ascii", errors="replace") as lines:
            for number, line in enumerate(lines, 1):
                if not line.endswith("\n"):
                    return
                yield number, _result_of(line, f"{path}:{number}")
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror or error}") from error


def _result_of(line: str, where: str) -> Result:
    try:
        return Result.from_json(unseal(line))
    except ValueError as error:
        reason = str(error).splitlines()[0]
        raise RunError(
            f"{where}: no whole result of this version ({reason}); remove the line to have that candidate run again"
        ) from error


def _names_in(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in folder.iterdir())
    except OSError as error:
        raise RunError(f"{folder} cannot be read: {error.strerror or error}; give another --out") from error


def differences(name: str, stored: Any, now: Any) -> Iterator[str]:
    """Yield `name: stored -> now` for each value that differs, however deep it lies."""
    if isinstance(stored, dict) and isinstance(now, dict):
        for key in sorted(stored.keys() | now):
            yield from differences(f"{name}.{key}", stored.get(key, "absent"), now.get(key, "absent"))
    elif stored != now:
        yield f"{name}: {stored!r} -> {now!r}"


def _refuse(path: Path, error: OSError) -> NoReturn:
    raise RunError(
        f"{path} cannot be written: {error.strerror or error}; what was stored before is kept: mend that, and the same "
        "command goes on, or give another --out"
    ) from error


def _write(path: Path, text: str) -> None:
    try:
        write_whole(path, text + "\n")
    except OSError as error:
        _refuse(path, error)
