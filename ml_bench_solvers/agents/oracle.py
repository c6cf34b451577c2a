"""The agent that knows the references: must score what they score."""

from __future__ import annotations

from ml_bench_metric.tasks import Task
from ml_bench_solvers.agents.workspace import SCRIPT, Workspace

PROGRAM = "ml_bench_reference.py"
"""Where a reference in Python stands, beside the script that runs it: in the task's folder, as the judge has it."""


class Oracle:
    """Writes a task's reference as its `run.sh`."""

    name = "oracle"

    def solve(self, task: Task, workspace: Workspace) -> None:
        """See `Agent.solve`."""
        script = task.output
        if task.language == "python":
            workspace.write_file(PROGRAM, task.output.encode("utf-8", "replace"))
            script = f"python {PROGRAM}\n"
        workspace.write_file(SCRIPT, script.encode("utf-8", "replace"))
