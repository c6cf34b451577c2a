"""A run of agents: every attempt at a task in a workspace of its own, several at a time, with nothing lost."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Protocol

from ml_bench_metric.evaluation import Stop
from ml_bench_metric.sandbox.protocol import Slot
from ml_bench_metric.tasks import Task
from ml_bench_solvers.agents import trajectory
from ml_bench_solvers.agents.attempts import Attempt, AttemptFolder, Why
from ml_bench_solvers.agents.budget import Budget, Meter, Purse, Spent
from ml_bench_solvers.agents.changes import Changes, ChangesTooLarge, read_script
from ml_bench_solvers.agents.trajectory import Trajectory
from ml_bench_solvers.agents.workspace import (
    SCRIPT,
    Agent,
    AgentError,
    BudgetSpent,
    Network,
    Start,
    Workspace,
    WorkspaceError,
)

_TRIES = 2
"""How often an attempt is made whose sandbox fails: a passing fault of the engine must not cost a task."""
_RETRY_SECONDS = 1.0
_FAILURES = 3
"""How many agents may be unable to work in a row until it is clear that it is not the tasks that are at fault."""
_LOOK_SECONDS = 0.2


class Place(Workspace, Protocol):
    """A workspace as whoever runs agents sees it."""

    def changes(self, archive: Path) -> Changes:
        """End what runs, and write an archive of what the agent has changed; see `DockerWorkspace.changes`."""

    def abort(self) -> None:
        """End everything at once, from any thread."""

    def __enter__(self) -> Place:
        """Return self."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave nothing behind."""


Open = Callable[[Task, Meter, Trajectory, Slot], Place]
"""Makes the workspace of an attempt. It raises `WorkspaceError` where that fails."""


@dataclass(frozen=True)
class Work:
    """One attempt that is to be made."""

    task: Task
    attempt: int = 0
    """From 0."""


@dataclass(frozen=True)
class Manner:
    """How agents work."""

    start: Start = "prepared"
    network: Network = "none"
    allowed: tuple[str, ...] = ()
    """The hosts that network `allowlist` reaches."""
    budget: Budget = field(default_factory=Budget)
    images: Mapping[str, str] = field(default_factory=dict)
    """`task_id` -> digest of its image, for the record."""


def work_to_do(run: Path, tasks: Iterable[Task], attempts: int, purse: Purse, *, retry_errors: bool) -> list[Work]:
    """Return the attempts that have not come to their end, in the order of the tasks.

    Args:
        run: folder of the run.
        tasks: that are worked on.
        attempts: at each of them.
        purse: of the run. What ended since an earlier purse was empty is worked on again where this one is not.
        retry_errors: whether what the sandbox has failed counts as not made.

    Raises:
        RunError: a record is damaged.
    """
    found = []
    for task in tasks:
        for number in range(attempts):
            ended = AttemptFolder(run, task.task_id, number).ended()
            again = ended is None or (
                (ended.why == "environment_error" and retry_errors) or (ended.why == "total_cost" and not purse.empty)
            )
            if again:
                found.append(Work(task, number))
    return found


class AgentRun:
    """Lets an agent work on tasks, and yields what became of each attempt, in the order in which they end."""

    def __init__(
        self,
        agent: Agent,
        run: Path,
        open_place: Open,
        manner: Manner,
        purse: Purse,
        slots: tuple[Slot, ...],
        stop: Stop | None = None,
    ) -> None:
        """Begin nothing yet.

        Args:
            agent: which works.
            run: folder of the run.
            open_place: makes workspaces.
            manner: how.
            purse: of the run.
            slots: what each agent that works at the same time owns of the machine.
            stop: lets somebody else end the run early: asked once, agents that work come to their end; asked twice
                they are ended at once, and their attempts are to be made again.
        """
        self._agent, self._run, self._open, self._manner = agent, run, open_place, manner
        self._purse, self._slots, self._stop = purse, slots, stop or Stop()
        self._lock = threading.Lock()
        self._working: set[Place] = set()
        self._abandoned = False
        self._failed_in_a_row = 0
        self.unable: list[tuple[Work, AgentError]] = []
        """The attempts at which the agent could not work at all; they are to be made again."""

    def go(self, todo: Iterable[Work]) -> Iterator[Attempt]:
        """Make attempts.

        Closing the iterator, and an error in the caller, end what runs at once, and leave no workspace.

        Raises:
            AgentError: the agent could not work several times in a row, or at all.
            RunError: a record cannot be written.
        """
        waiting = iter(todo)
        done: queue.Queue[Attempt | BaseException | None] = queue.Queue()
        with ThreadPoolExecutor(len(self._slots), thread_name_prefix="ml-bench-agent") as pool:
            for slot in self._slots:
                pool.submit(self._work, waiting, slot, done)
            working, ended = len(self._slots), 0
            try:
                while working and not self._stop.now:
                    try:
                        item = done.get(timeout=_LOOK_SECONDS)
                    except queue.Empty:
                        continue
                    if item is None:
                        working -= 1
                    elif isinstance(item, BaseException):
                        raise item
                    else:
                        ended += 1
                        yield item
            finally:
                if working:
                    self._abandon()
                while working:
                    working -= done.get() is None
        if self.unable and not ended:
            raise self.unable[-1][1]

    def _work(self, waiting: Iterator[Work], slot: Slot, done: queue.Queue[Attempt | BaseException | None]) -> None:
        try:
            while not (self._stop.finish or self._abandoned or self._purse.empty):
                with self._lock:
                    work = next(waiting, None)
                if work is None:
                    return
                attempt = self._attempt(work, slot)
                if attempt is not None:
                    done.put(attempt)
        except BaseException as error:
            done.put(error)
        finally:
            done.put(None)

    def _attempt(self, work: Work, slot: Slot) -> Attempt | None:
        """Make an attempt, and return what became of it; None where it has not come to its end."""
        folder = AttemptFolder(self._run, work.task.task_id, work.attempt)
        error: WorkspaceError | None = None
        for number in range(_TRIES):
            if number:
                time.sleep(_RETRY_SECONDS)
            folder.begin()
            try:
                attempt, script = self._try(work, slot, folder)
            except WorkspaceError as failed:
                error = failed
                if self._abandoned:
                    return None
                continue
            except AgentError as failed:
                if not self._abandoned:
                    self._unable(work, failed)
                return None
            with self._lock:
                self._failed_in_a_row = 0
            folder.end(attempt, script)
            return attempt
        attempt = self._told(work, "environment_error", str(error))
        folder.clear_archive()
        folder.end(attempt, None)
        return attempt

    def _try(self, work: Work, slot: Slot, folder: AttemptFolder) -> tuple[Attempt, str | None]:
        meter = Meter(self._manner.budget, self._purse)
        why: Why = "done"
        reason = ""
        with Trajectory(folder.path / trajectory.FILE) as steps:
            steps.add("began", {"agent": self._agent.name, "task": work.task.task_id, "attempt": work.attempt})
            try:
                with self._opened(work.task, meter, steps, slot) as place:
                    try:
                        self._agent.solve(work.task, place)
                    except BudgetSpent as spent:
                        why, reason = spent.limit if isinstance(spent, Spent) else "turns", str(spent)
                    seconds = meter.seconds
                    changes = Changes()
                    try:
                        changes = place.changes(folder.archive)
                    except ChangesTooLarge as error:
                        why, reason = "changes_too_large", str(error)
                        folder.clear_archive()
                    if self._abandoned:
                        raise WorkspaceError("the run was stopped")
                    script = read_script(folder.archive, f"{place.folder}/{SCRIPT}")
            except (WorkspaceError, AgentError) as error:
                steps.add("ended", {"why": type(error).__name__, "reason": str(error)})
                raise
            attempt = self._told(work, why, reason).model_copy(
                update={
                    "used": meter.used,
                    "seconds": round(seconds, 3),
                    "script": script is not None,
                    "changes": changes,
                }
            )
            steps.add("ended", {"why": why, "reason": reason, "script": attempt.script})
        return attempt, script

    @contextmanager
    def _opened(self, task: Task, meter: Meter, steps: Trajectory, slot: Slot) -> Iterator[Place]:
        """Give a workspace, which can be ended from another thread while this lasts."""
        with self._open(task, meter, steps, slot) as place:
            with self._lock:
                self._working.add(place)
                abandoned = self._abandoned
            if abandoned:
                place.abort()
            try:
                yield place
            finally:
                with self._lock:
                    self._working.discard(place)

    def _told(self, work: Work, why: Why, reason: str) -> Attempt:
        manner = self._manner
        return Attempt(
            task_id=work.task.task_id,
            attempt=work.attempt,
            agent=self._agent.name,
            start=manner.start,
            network=manner.network,
            allowed=manner.allowed,
            image=manner.images.get(work.task.task_id, ""),
            why=why,
            reason=reason,
        )

    def _unable(self, work: Work, error: AgentError) -> None:
        with self._lock:
            self.unable.append((work, error))
            self._failed_in_a_row += 1
            if self._failed_in_a_row >= _FAILURES:
                raise error

    def _abandon(self) -> None:
        """End what runs, at once: without its container an agent's next step fails."""
        with self._lock:
            self._abandoned = True
            working = list(self._working)
        for place in working:
            place.abort()
