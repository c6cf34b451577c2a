"""Workspaces without an engine, and agents that do as they are told: what the tests of running agents need."""

from __future__ import annotations

import tarfile
import threading
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import Any

from ml_bench_metric.sandbox.overlay import Overlay
from ml_bench_metric.sandbox.protocol import ANY_SLOT, Slot
from ml_bench_metric.tasks import Task
from ml_bench_solvers.agents.budget import Budget, Meter, Purse, Used
from ml_bench_solvers.agents.changes import Changes
from ml_bench_solvers.agents.running import AgentRun, Manner
from ml_bench_solvers.agents.trajectory import USED, Trajectory
from ml_bench_solvers.agents.workspace import Ran, Workspace, WorkspaceError


class FakePlace:
    """A workspace whose files are a dict. What is not absolute lies in the task's folder."""

    def __init__(self, places: FakePlaces, task: Task, meter: Meter, steps: Trajectory, slot: Slot) -> None:
        self._places, self._meter, self._steps = places, meter, steps
        self.folder = task.working_folder
        self.files: dict[str, bytes] = {}
        self.slot = slot
        self.aborted = threading.Event()

    def exec(self, command: str, *, timeout: float = 120.0) -> Ran:
        self._check()
        ran = Ran(status=int(command.removeprefix("exit ")) if command.startswith("exit ") else 0, output=command)
        self.record("command", {"command": command, **ran.model_dump()})
        if command == "wait":
            self.aborted.wait(10)
        self._check()
        return ran

    def read_file(self, path: str) -> bytes:
        self._check()
        if self._path(path) not in self.files:
            raise FileNotFoundError(path)
        return self.files[self._path(path)]

    def write_file(self, path: str, content: bytes) -> None:
        self._check()
        self.files[self._path(path)] = content

    def record(self, kind: str, facts: Mapping[str, Any]) -> None:
        self._steps.add(kind, facts)

    def spend(self, *, turns: int = 0, prompt_tokens: int = 0, completion_tokens: int = 0, cost: float = 0.0) -> None:
        used = Used(turns=turns, prompt_tokens=prompt_tokens, completion_tokens=completion_tokens, cost=cost)
        self._steps.add(USED, used.model_dump())
        self._meter.spend(used)

    def changes(self, archive: Path) -> Changes:
        self._places.on_changes()
        if not self.files:
            return Changes()
        with tarfile.open(archive, "w") as tar:
            for path, content in sorted(self.files.items()):
                member = tarfile.TarInfo(path.lstrip("/"))
                member.size = len(content)
                tar.addfile(member, BytesIO(content))
        return Changes(files=len(self.files), digest=Overlay.of(archive).digest)

    def abort(self) -> None:
        self.aborted.set()

    def __enter__(self) -> FakePlace:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._places.open -= 1

    def _path(self, path: str) -> str:
        return path if path.startswith("/") else f"{self.folder}/{path}"

    def _check(self) -> None:
        if self.aborted.is_set():
            raise WorkspaceError("the run was stopped")
        self._meter.check()


class FakePlaces:
    """Opens workspaces, and counts them."""

    def __init__(self) -> None:
        self.open = 0
        self.opened: list[str] = []
        self.slots: list[Slot] = []
        self.refuse: Callable[[Task], bool] = lambda task: False
        self.on_changes: Callable[[], None] = lambda: None

    def __call__(self, task: Task, meter: Meter, steps: Trajectory, slot: Slot) -> FakePlace:
        self.opened.append(task.task_id)
        self.slots.append(slot)
        if self.refuse(task):
            raise WorkspaceError("no container could be made")
        self.open += 1
        return FakePlace(self, task, meter, steps, slot)


class Acting:
    """An agent that does what a function does."""

    name = "acting"

    def __init__(self, act: Callable[[Task, Workspace], None]) -> None:
        self._act = act

    def solve(self, task: Task, workspace: Workspace) -> None:
        self._act(task, workspace)


def writes_script(task: Task, workspace: Workspace) -> None:
    """Leave a `run.sh` that says which task it is for."""
    workspace.write_file("run.sh", f"echo {task.task_id}\n".encode())


def agent_run(
    path: Path,
    act: Callable[[Task, Workspace], None] = writes_script,
    places: FakePlaces | None = None,
    *,
    budget: Budget | None = None,
    purse: Purse | None = None,
    slots: int = 1,
    **more: Any,
) -> AgentRun:
    """Return a run of an agent that does what a function does."""
    manner = Manner(budget=budget or Budget())
    return AgentRun(
        Acting(act), path, places or FakePlaces(), manner, purse or Purse(None), (ANY_SLOT,) * slots, **more
    )
