"""Case: a hostile agent, and what must become of it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from ml_bench_metric.tasks import Task
from ml_bench_solvers.agents.attempts import Attempt, Why
from ml_bench_solvers.agents.workspace import SCRIPT, Workspace
from tests.hostile.case import Passes

TASK = "tiny-gan/1"

KINDS = (
    "forges run.sh: sleep",
    "forges run.sh: true",
    "forges run.sh: a copy of the reference",
    "forges run.sh: writes result files",
    "forges run.sh: what is no script",
    "kills processes",
    "fills the disk",
    "edits the interpreter",
    "edits site-packages",
    "leaves daemons",
    "plants files for the next task",
    "reads the reference",
    "reaches out of its container",
)
"""Every kind of hostility that issue 7 names, and then some."""


@dataclass(frozen=True)
class Case:
    """A hostile agent; it is an `Agent`."""

    name: str
    kinds: tuple[str, ...]
    """Of `KINDS`."""
    script: str | None
    """What it writes as `run.sh` before its commands; None: nothing."""
    passes: Passes
    """Under the rules `original` and `strict`."""
    commands: tuple[str, ...] = ()
    why: Why = "done"
    """How its work must end."""
    limit: float = 20.0
    """Seconds that the judge gives its script."""
    also: Callable[[Attempt, str], bool] = lambda attempt, output: True
    """What else must be true: of the attempt, and of all that its commands have written."""

    def solve(self, task: Task, workspace: Workspace) -> None:
        """Do what it does; each command has its chance, though an earlier one failed."""
        if self.script is not None:
            workspace.write_file(SCRIPT, self.script.encode())
        for command in self.commands:
            with suppress(OSError):
                workspace.exec(command, timeout=20.0)
