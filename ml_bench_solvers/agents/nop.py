"""The agent that does nothing: must score 0."""

from __future__ import annotations

from ml_bench_metric.tasks import Task
from ml_bench_solvers.agents.workspace import Workspace


class Nop:
    """Leaves everything as it is."""

    name = "nop"

    def solve(self, task: Task, workspace: Workspace) -> None:
        """Do nothing."""
