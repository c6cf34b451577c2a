"""The protocol between an agent and the place where it works, and between whoever runs agents and an agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol

from ml_bench_metric.sandbox.execution import Record
from ml_bench_metric.tasks import Task

Start = Literal["prepared", "bare"]
"""What an agent finds: an environment in which the repository runs, or a base system and the repository's files."""

Network = Literal["none", "allowlist", "full"]
"""What an agent reaches: nothing; the hosts of a list; all that the machine reaches."""

SCRIPT = "run.sh"
"""What an agent leaves in the task's folder."""


class Ran(Record):
    """What became of a command in a workspace."""

    status: int | None
    """Exit status, 0 to 255; None where it was ended at its time limit."""
    output: str
    """What it wrote to both streams, in the order of events; its beginning and its end where `truncated`."""
    truncated: bool = False
    seconds: float = 0.0


class Workspace(Protocol):
    """A sandbox in which an agent may work for long. Its methods are one thread's."""

    @property
    def folder(self) -> str:
        """The task's folder, absolute: commands run there, and `run.sh` belongs there."""

    def exec(self, command: str, *, timeout: float = 120.0) -> Ran:
        """Run a bash command in the task's folder.

        Args:
            command: what to run; each has a shell of its own.
            timeout: in seconds; then it is killed, with what it has started.

        Raises:
            WorkspaceError: the sandbox failed; never for what the command does.
            BudgetSpent: the agent's time or turns are used up.
        """

    def read_file(self, path: str) -> bytes:
        """Return a file's content, 1 MiB at the most.

        Args:
            path: absolute, or relative to the task's folder.

        Raises:
            FileNotFoundError: there is no such file.
            WorkspaceError: the sandbox failed.
            BudgetSpent: the agent's time or turns are used up.
        """

    def write_file(self, path: str, content: bytes) -> None:
        """Write a file, with the folders that it lies in.

        Raises:
            OSError: the agent's user may not write there.
            WorkspaceError: the sandbox failed.
            BudgetSpent: the agent's time or turns are used up.
        """

    def record(self, kind: str, facts: Mapping[str, Any]) -> None:
        """Add a step to the trajectory, such as a message of a model. What a workspace does is recorded by itself."""

    def spend(self, *, turns: int = 0, prompt_tokens: int = 0, completion_tokens: int = 0, cost: float = 0.0) -> None:
        """Count what was used.

        Raises:
            BudgetSpent: with this, the task's or the run's budget is used up.
        """


class Agent(Protocol):
    """What works on tasks. One agent may be asked from several threads, a task each."""

    @property
    def name(self) -> str:
        """Its kind, with what decides on its work: `oracle`, `react:MODEL`, `command:aider`."""

    def solve(self, task: Task, workspace: Workspace) -> None:
        """Work on a task until it is done or given up.

        Raises:
            BudgetSpent, WorkspaceError: what the workspace has raised.
            AgentError: it cannot work at all: a server that refuses everything, a program that is missing.
        """


class WorkspaceError(RuntimeError):
    """The sandbox failed; never the agent's fault. The message says what to do."""


class BudgetSpent(Exception):  # noqa: N818 - it names the situation
    """An agent's time, turns, tokens or money are used up. What it has left until then is judged."""


class AgentError(RuntimeError):
    """An agent cannot work. The message says why, and what to do."""
