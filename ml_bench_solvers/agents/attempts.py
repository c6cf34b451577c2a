"""The attempts of a run of agents on disk: a folder for each, with all that explains its outcome.

`tasks/<repository>/<id>/<attempt>/` has `trajectory.jsonl`, and when the attempt has ended `run.sh` and `changes.tar`,
where the agent has left them, and then `agent.json`: an attempt without that did not come to its end.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

from pydantic import Field

from ml_bench_metric.results import JsonRecord, Text
from ml_bench_metric.store import RunError
from ml_bench_metric.whole_files import write_whole
from ml_bench_solvers.agents import trajectory
from ml_bench_solvers.agents.budget import Limit, Used
from ml_bench_solvers.agents.changes import Changes
from ml_bench_solvers.agents.workspace import SCRIPT, Network, Start

TASKS = "tasks"
AGENT_FILE = "agent.json"
ARCHIVE = "changes.tar"

Why = Literal["done", "changes_too_large", "environment_error"] | Limit
"""Why an attempt has ended: the agent came to its end; it has left more than it may; the sandbox failed, twice; or
what was used up."""


class Attempt(JsonRecord):
    """What became of one attempt of an agent at a task: `agent.json`."""

    task_id: str
    attempt: int = Field(ge=0)
    agent: str
    start: Start
    network: Network
    allowed: tuple[Text, ...] = ()
    """The hosts that network `allowlist` reaches."""
    image: str = ""
    """Digest of the image; empty where there was none."""
    why: Why
    reason: Text = ""
    """Why it has ended, in words; empty where the agent came to its end."""
    used: Used = Used()
    seconds: float = Field(default=0.0, ge=0)
    """Wall time of the agent, from when its sandbox was ready."""
    script: bool = False
    """Whether it has left a `run.sh` that can be judged."""
    changes: Changes = Changes()


class AttemptFolder:
    """The folder of one attempt."""

    def __init__(self, run: Path, task_id: str, attempt: int) -> None:
        """Name it; nothing is made yet.

        Args:
            run: folder of the run.
            task_id: of the task.
            attempt: from 0.

        Raises:
            RunError: the task's id is no path of two parts.
        """
        parts = task_id.split("/")
        if len(parts) != 2 or any(part in ("", ".", "..") or "\0" in part for part in parts):
            raise RunError(f"task {task_id!r} cannot have a folder; ids are `<repository>/<id>`")
        self.path = run / TASKS / parts[0] / parts[1] / str(attempt)

    @property
    def archive(self) -> Path:
        """Where the archive of the changes is, or would be."""
        return self.path / ARCHIVE

    def ended(self) -> Attempt | None:
        """Return what became of the attempt; None where it has not come to its end.

        Raises:
            RunError: its file is damaged.
        """
        path = self.path / AGENT_FILE
        try:
            return Attempt.from_json(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise RunError(f"{path} cannot be read ({reason}); remove it to have the agent work again") from error

    def script(self) -> str | None:
        """Return the text of `run.sh`; None where there is none.

        Raises:
            RunError: it cannot be read.
        """
        try:
            with (self.path / SCRIPT).open(encoding="utf-8", newline="") as file:
                return file.read()
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise RunError(f"{self.path / SCRIPT} cannot be read: {error}") from error

    def begin(self) -> None:
        """Make the folder anew; what an earlier attempt in its place has left is kept beside it.

        Raises:
            RunError: it cannot be made.
        """
        try:
            if self.path.exists():
                number = 1
                while (aside := self.path.with_name(f"{self.path.name}.earlier-{number}")).exists():
                    number += 1
                self.path.rename(aside)
            self.path.mkdir(parents=True)
        except OSError as error:
            raise RunError(f"{self.path} cannot be made: {error.strerror or error}; give another --out") from error

    def end(self, attempt: Attempt, script: str | None) -> None:
        """Store what became of the attempt; `agent.json` comes last, so that all is there where that is.

        Raises:
            RunError: it cannot be written.
        """
        try:
            if script is not None:
                write_whole(self.path / SCRIPT, script)
            write_whole(self.path / AGENT_FILE, attempt.to_json(indent=2) + "\n")
        except OSError as error:
            raise RunError(f"{self.path} cannot be written: {error.strerror or error}; give another --out") from error

    def clear_archive(self) -> None:
        """Remove a part of an archive."""
        with suppress(FileNotFoundError):
            self.archive.unlink()


def used_by_all(run: Path) -> Used:
    """Return what all attempts of a run have used, those that did not come to their end and earlier ones among them.

    Raises:
        RunError: a trajectory is damaged.
    """
    total = Used()
    for path in _trajectories(run):
        total += trajectory.used_in(path)
    return total


def _trajectories(run: Path) -> Iterator[Path]:
    yield from sorted((run / TASKS).glob(f"*/*/*/{trajectory.FILE}"))
