"""One task of split A in Harbor's form: the files of its folder, but for its environment."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Literal

from ml_bench_metric.tasks import Task

SCHEMA_VERSION = "1.4"
"""Of `task.toml`, as Harbor 0.26 writes it."""

LIMIT_SECONDS = 120
"""After this time a `run.sh` that still runs passes: what the published agent runs were judged by."""

Start = Literal["prepared", "bare"]
"""Whether the environment is installed when the agent begins, or it has the base system and the checkout only."""

_ORGANISATION = "ml-bench"
_AGENT_SECONDS = 1800.0
_VERIFIER_SECONDS = LIMIT_SECONDS + 60.0
_BUILD_SECONDS = 3600.0

_STARTS: Mapping[Start, str] = {
    "prepared": "The repository's requirements are installed.",
    "bare": "The repository's requirements are not installed; setting them up is part of the task.",
}

_TEST = """\
#!/bin/bash
# Judges what the agent left as ML-Bench judged agents: run.sh passes when it ends with status 0, or still runs
# after {seconds} seconds. Writes 1 or 0 to /logs/verifier/reward.txt.
set -u
folder={folder}
seconds={seconds}
logs=/logs/verifier

# Ends every process but process 1, the sleep that keeps the container alive, and those that this script runs in: what
# the agent or run.sh left behind must not help run.sh, or write the reward.
end_others() {{
    local keep=" 1 " pid=$$ key value rest entry
    while [ "$pid" -gt 1 ]; do
        keep="$keep$pid "
        while read -r key value rest; do
            if [ "$key" = PPid: ]; then pid=$value; fi
        done < "/proc/$pid/status"
    done
    for entry in /proc/[0-9]*; do
        pid=${{entry#/proc/}}
        case "$keep" in *" $pid "*) continue ;; esac
        case "$(readlink "$entry/exe" 2>/dev/null)" in */sleep) continue ;; esac
        kill -KILL "$pid" 2>/dev/null
    done
}}

judge() {{
    if ! cd "$folder"; then echo "there is no folder $folder"; return 1; fi
    if [ ! -f run.sh ]; then echo "there is no run.sh in $folder"; return 1; fi
    local status took began
    began=$(date +%s%3N)
    # Output is kept up to a limit and read to its end, so that a script is neither stopped by it nor fills the disk.
    timeout --kill-after=1 "$seconds" bash run.sh < /dev/null > >(
        head -c 1000000 > "$logs/run.log"
        exec cat > /dev/null
    ) 2>&1
    status=$?
    took=$(($(date +%s%3N) - began))
    if [ "$status" -ne 0 ] && [ "$took" -ge $((1000 * seconds)) ]; then
        echo "run.sh was still running after $seconds s"
        return 0
    fi
    echo "run.sh ended with status $status"
    return "$status"
}}

mkdir -p "$logs"
end_others
reward=0
judge && reward=1
sleep 0.2 # the last lines of output are on their way into the log
end_others
rm -rf "$logs/reward.txt" "$logs/reward.json"
echo "$reward" > "$logs/reward.txt"
"""

_SOLVE = """\
#!/bin/bash
# The reference answer, as run.sh in the task's folder.
set -eu
cd {folder}
"""


def slug(task: Task) -> str:
    """Return the name of a task's folder, which is also its name for Harbor: `dgl__1` for `dgl/1`."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", task.task_id.replace("/", "__"))


def task_toml(task: Task, start: Start, version: str) -> str:
    """Return `task.toml`."""
    sections: dict[str, dict[str, str | float | int | Sequence[str] | None]] = {
        "task": {
            "name": f"{_ORGANISATION}/{slug(task)}",
            "version": version,
            "description": f"ML-Bench-A, task {task.task_id}",
            "keywords": [word for word in ("ml-bench", task.domain, task.repository) if word],
        },
        "metadata": {
            "task_id": task.task_id,
            "repository": task.github,
            "commit": task.commit,
            "domain": task.domain,
            "type": task.type,
            "folder": task.working_folder,
            "start": start,
        },
        "agent": {"timeout_sec": _AGENT_SECONDS},
        "verifier": {"timeout_sec": _VERIFIER_SECONDS},
        "environment": {
            "build_timeout_sec": _BUILD_SECONDS,
            "cpus": 2,
            "memory_mb": 8192,
            "storage_mb": 20480,
            # Agents that are installed into the container need it, as do their models' servers.
            "network_mode": "public",
            "workdir": task.working_folder,
        },
    }
    lines = [f"schema_version = {_toml(SCHEMA_VERSION)}"]
    for section, fields in sections.items():
        lines += ["", f"[{section}]"]
        lines += [f"{name} = {_toml(value)}" for name, value in fields.items() if value is not None]
    return "\n".join(lines) + "\n"


def _toml(value: str | float | int | Sequence[str]) -> str:
    if isinstance(value, str):
        # A JSON string is a TOML string, but that TOML wants DEL escaped too.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Sequence):
        return f"[{', '.join(map(_toml, value))}]"
    return repr(value)


def instruction(task: Task, start: Start) -> str:
    """Return `instruction.md`: what an agent is told."""
    commit = f", commit {task.commit}" if task.commit else ""
    parts = [
        f"In `/workspace/{task.directory}` there is a checkout of the repository {task.repository} "
        f"({task.github}{commit}). {_STARTS[start]}",
        "## Task",
        task.instruction.strip(),
        "## What to leave",
        f"Write a bash script `run.sh` in the folder `{task.working_folder}` that does this. It will be run there, "
        "without input, as `bash run.sh`.",
    ]
    if task.prefix_code.strip():
        fence = _fence(task.prefix_code)
        parts += [
            "## Preparation",
            "The task comes with these steps; which of them are still needed here is for you to find out.",
            f"{fence}\n{task.prefix_code.strip()}\n{fence}",
        ]
    return "\n\n".join(parts) + "\n"


def _fence(text: str) -> str:
    return "`" * max([3, *(len(run) + 1 for run in re.findall(r"`+", text))])


def judge_script(task: Task, seconds: int = LIMIT_SECONDS) -> str:
    """Return `tests/test.sh`, the judge."""
    return _TEST.format(folder=shlex.quote(task.working_folder), seconds=seconds)


def solve_script(task: Task) -> str:
    """Return `solution/solve.sh`, which leaves the reference as `run.sh`."""
    run = [f"export {name}={shlex.quote(value)}" for name, value in task.variables.items()]
    files = {}
    if task.language == "bash":
        run.append(task.output)
    else:
        files["ml_bench_reference.py"] = task.output
        run.append("python ml_bench_reference.py")
    files["run.sh"] = "\n".join(run)
    return _SOLVE.format(folder=shlex.quote(task.working_folder)) + "".join(
        _here_document(name, text) for name, text in files.items()
    )


def _here_document(name: str, text: str) -> str:
    end = "END_OF_FILE"
    while end in text.splitlines():
        end += "_"
    return f"cat > {name} <<'{end}'\n{text}\n{end}\n"
