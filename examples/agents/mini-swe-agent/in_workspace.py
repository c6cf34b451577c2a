"""An environment for mini-swe-agent: its commands run in the workspace of ml-bench, and nowhere else."""

from __future__ import annotations

import os
import platform
import subprocess
from typing import Any

from minisweagent.exceptions import Submitted
from pydantic import BaseModel

_END = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
"""The first line of output with which a command ends the agent's work."""


class Config(BaseModel):
    """What may be set under `environment:` of a configuration."""

    timeout: int = 120
    """Seconds that a command may take."""


class Workspace:
    """Runs commands in the container that ml-bench has made, through ml-bench, which counts and records them."""

    def __init__(self, **settings: Any) -> None:
        """Take the settings of the configuration."""
        self.config = Config(**settings)

    def execute(self, action: dict[str, Any], cwd: str = "", *, timeout: int | None = None) -> dict[str, Any]:
        """Run a command, and return its output and status in the form that the agent wants.

        Raises:
            Submitted: the command says that the work is done.
        """
        seconds = timeout or self.config.timeout
        command = [os.environ["ML_BENCH_EXEC"], action.get("command", ""), str(seconds)]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
        )
        output = done.stdout.decode("utf-8", "replace")
        first, _, rest = output.lstrip().partition("\n")
        if first.strip() == _END and done.returncode == 0:
            facts = {"exit_status": "Submitted", "submission": rest}
            raise Submitted({"role": "exit", "content": rest, "extra": facts})
        return {"output": output, "returncode": done.returncode, "exception_info": ""}

    def get_template_vars(self, **more: Any) -> dict[str, Any]:
        """Return what the templates of the configuration may use."""
        return {**self.config.model_dump(), **platform.uname()._asdict(), **more}

    def serialize(self) -> dict[str, Any]:
        """Return what the agent's own trajectory says of this."""
        return {"info": {"config": {"environment": self.config.model_dump()}}}
