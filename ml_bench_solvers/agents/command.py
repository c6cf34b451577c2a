"""The agent that is any program: on this machine, or in the container.

The contract. A program is one line of bash. It is started once for each attempt, without standard input, and is done
when it ends, whatever its exit status. It finds in its environment:

- `ML_BENCH_TASK_ID`, `ML_BENCH_REPOSITORY`, `ML_BENCH_TYPE`;
- `ML_BENCH_INSTRUCTION`: what the user asks for;
- `ML_BENCH_FOLDER`: the task's folder in the container, where `run.sh` is to be left;
- `ML_BENCH_PROMPT`: all of this in words, for programs that take a message;
- `ML_BENCH_SECONDS`: the wall time that it has.

On this machine (the default) it has the environment of this process and a folder of its own, which is empty and goes
with it, and besides:

- `ML_BENCH_EXEC`: a program; `"$ML_BENCH_EXEC" 'ls -l'` runs bash in the container, in the task's folder, prints what
  that prints and ends as that ends (124 at the time limit, which is 120 s or a second argument). Each is a turn;
- `ML_BENCH_GET`, `ML_BENCH_PUT`: programs; `"$ML_BENCH_GET" PATH` prints a file of the container, and
  `"$ML_BENCH_PUT" PATH` writes one from its standard input;
- `ML_BENCH_CONTAINER`: the container's id, for what speaks to the engine itself. What is done in that way is judged,
  but is in no trajectory, and has no limit but the container's.

It runs with the rights of whoever has started it: what it does on this machine is between it and them. In the container
(`inside`) it runs as every command of an agent does, and must be there, or be brought by the image.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ml_bench_metric.tasks import Task
from ml_bench_solvers.agents import bridge
from ml_bench_solvers.agents.workspace import SCRIPT, AgentError, Workspace

_LOOK_SECONDS = 0.1
_REQUEST_BYTES = 8 << 20
_REQUEST_SECONDS = 30.0
"""How long a program may take to say what it wants."""
_KEPT_BYTES = 64 * 1024
"""How much of the program's own output is kept."""
_WHOLE_SECONDS = 7 * 24 * 3600.0
_NOT_FOUND = (126, 127)
"""Exit statuses of a shell that finds no such program, or may not run it."""

COMMAND = "command:"
"""What the names of such agents begin with."""


class Command:
    """Runs a program for each attempt."""

    def __init__(self, command: str, *, label: str = "", inside: bool = False, seconds: float = 1800.0) -> None:
        """Say what to run.

        Args:
            command: one line of bash.
            label: what the agent is called; by default the first word of the command.
            inside: whether it runs in the container.
            seconds: wall time, for the program to know.

        Raises:
            AgentError: there is no command.
        """
        if not command.strip():
            raise AgentError("the command is empty; give one, for example --command 'my-agent --yes'")
        self._command = command
        self._inside = inside
        self._seconds = seconds
        self.name = f"{COMMAND}{label or Path(command.split()[0]).name}"

    def solve(self, task: Task, workspace: Workspace) -> None:
        """See `Agent.solve`."""
        facts = told(task, workspace.folder, self._seconds)
        if self._inside:
            exports = " ".join(f"{name}={shlex.quote(value)}" for name, value in facts.items())
            workspace.exec(f"export {exports}\n{self._command}", timeout=_WHOLE_SECONDS)
            return
        with tempfile.TemporaryDirectory(prefix="ml-bench-agent-") as folder:
            self._on_host(Path(folder), facts, workspace)

    def _on_host(self, folder: Path, facts: Mapping[str, str], workspace: Workspace) -> None:
        work, tools, path = folder / "work", folder / "tools", folder / "socket"
        work.mkdir()
        tools.mkdir()
        environ = {**os.environ, **facts, bridge.SOCKET: str(path), **_tools(tools)}
        container = getattr(workspace, "container", "")
        if container:
            environ["ML_BENCH_CONTAINER"] = container
        with (
            socket.socket(socket.AF_UNIX) as listener,
            (folder / "output").open("w+b") as output,
        ):
            listener.bind(str(path))
            listener.listen()
            listener.settimeout(_LOOK_SECONDS)
            began = time.monotonic()
            process = subprocess.Popen(
                ["bash", "-c", self._command],
                cwd=work,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                while process.poll() is None:
                    # Looks whether it may go on.
                    workspace.spend()
                    with contextlib.suppress(TimeoutError):
                        connection, _ = listener.accept()
                        with connection:
                            _answer(connection, workspace)
            finally:
                _end(process)
                said = _ends_of(output.fileno())
                workspace.record(
                    "program",
                    {
                        "command": self._command,
                        "status": process.returncode,
                        "output": said,
                        "seconds": round(time.monotonic() - began, 3),
                    },
                )
            if process.returncode in _NOT_FOUND:
                last = said.strip().splitlines()[-1:] or [""]
                raise AgentError(f"the command cannot be run: {last[0]}; give one that this machine has")


def told(task: Task, folder: str, seconds: float) -> dict[str, str]:
    """Return the environment variables that tell a program its task.

    Args:
        task: that is worked on.
        folder: of the task, in the container.
        seconds: wall time that the program has.
    """
    return {
        "ML_BENCH_TASK_ID": task.task_id,
        "ML_BENCH_REPOSITORY": task.repository,
        "ML_BENCH_TYPE": task.type,
        "ML_BENCH_INSTRUCTION": task.instruction,
        "ML_BENCH_FOLDER": folder,
        "ML_BENCH_SECONDS": f"{seconds:g}",
        "ML_BENCH_PROMPT": (
            f"The repository {task.repository} is checked out in a Linux container; the task's folder there is "
            f"{folder}. The user asks: {task.instruction}\n"
            f"Leave a bash script {folder}/{SCRIPT} that does this when it is run with `bash {SCRIPT}` in that folder. "
            "It will be run in a fresh copy of the container."
        ),
    }


def _tools(folder: Path) -> dict[str, str]:
    """Write the programs that reach the workspace, and return the variables that name them."""
    found = {}
    for name in ("exec", "get", "put"):
        tool = folder / name
        words = shlex.join([sys.executable, str(Path(bridge.__file__)), name])
        tool.write_text(f'#!/bin/sh\nexec {words} "$@"\n', encoding="utf-8")
        tool.chmod(0o700)
        found[f"ML_BENCH_{name.upper()}"] = str(tool)
    return found


def _answer(connection: socket.socket, workspace: Workspace) -> None:
    """Do what a program asks for."""
    connection.settimeout(_REQUEST_SECONDS)
    try:
        with connection.makefile("rb") as lines:
            asked = json.loads(lines.readline(_REQUEST_BYTES))
        answer = _done(asked, workspace)
    except (OSError, ValueError, KeyError, TypeError) as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    # Who asked may be gone.
    with contextlib.suppress(OSError):
        connection.sendall(json.dumps(answer).encode() + b"\n")


def _done(asked: Mapping[str, Any], workspace: Workspace) -> dict[str, Any]:
    if asked["do"] == "exec":
        workspace.spend(turns=1)
        ran = workspace.exec(str(asked["command"]), timeout=float(asked["seconds"]))
        return {"status": ran.status, "content": _encoded(ran.output.encode("utf-8", "replace"))}
    if asked["do"] == "get":
        return {"content": _encoded(workspace.read_file(str(asked["path"])))}
    if asked["do"] == "put":
        workspace.write_file(str(asked["path"]), base64.b64decode(asked["content"]))
        return {}
    raise ValueError(f"nothing is known of {asked['do']!r}")


def _encoded(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a program, and what it has started and not taken out of its session's first group."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(OSError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(2.0)
    process.wait()


def _ends_of(file: int) -> str:
    """Return the beginning and the end of a file as text."""
    size = os.fstat(file).st_size
    if size <= _KEPT_BYTES:
        return os.pread(file, size, 0).decode("utf-8", "replace")
    half = _KEPT_BYTES // 2
    head, tail = os.pread(file, half, 0), os.pread(file, half, size - half)
    return f"{head.decode('utf-8', 'replace')}\n… output left out …\n{tail.decode('utf-8', 'replace')}"
