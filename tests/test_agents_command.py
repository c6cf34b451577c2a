"""Any program can be an agent: what it is told, what it can ask for, and that it ends with its attempt."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from ml_bench_metric.sandbox.protocol import ANY_SLOT
from ml_bench_metric.tasks import Task
from ml_bench_solvers.agents.attempts import Attempt, AttemptFolder
from ml_bench_solvers.agents.budget import Budget, Purse
from ml_bench_solvers.agents.command import Command
from ml_bench_solvers.agents.running import AgentRun, Manner, Work
from ml_bench_solvers.agents.trajectory import read_steps
from ml_bench_solvers.agents.workspace import AgentError
from tests.agent_places import FakePlaces
from tests.task_builders import task

TASK = task()


def attempt(path: Path, command: str, budget: Budget | None = None, *, inside: bool = False) -> Attempt:
    manner = Manner(budget=budget or Budget(max_turns=None))
    run = AgentRun(Command(command, inside=inside), path, FakePlaces(), manner, Purse(None), (ANY_SLOT,))
    (ended,) = run.go([Work(TASK)])
    return ended


def steps(path: Path, kind: str) -> list[dict[str, object]]:
    file = AttemptFolder(path, TASK.task_id, 0).path / "trajectory.jsonl"
    return [step for step in read_steps(file) if step["kind"] == kind]


def script(path: Path) -> str | None:
    return AttemptFolder(path, TASK.task_id, 0).script()


def test_a_program_finds_its_task_in_its_environment(tmp_path: Path) -> None:
    names = "TASK_ID REPOSITORY TYPE INSTRUCTION FOLDER SECONDS PROMPT"
    command = f'for name in {names}; do name=ML_BENCH_$name; echo "${{!name}}"; done | "$ML_BENCH_PUT" run.sh'
    ended = attempt(tmp_path, command)
    said = script(tmp_path) or ""
    assert ended.script
    assert said.splitlines()[:6] == [
        *("Some-Repo/1", "Some-Repo", "Bash Script", TASK.instruction, TASK.working_folder, "1800"),
    ]
    assert f"{TASK.working_folder}/run.sh" in said
    assert TASK.output not in said and TASK.oracle not in said


def test_a_program_reaches_its_workspace_and_all_of_it_is_recorded(tmp_path: Path) -> None:
    command = """
    printf 'a b\\377' | "$ML_BENCH_PUT" "some file"
    "$ML_BENCH_GET" "some file" | od -An -tx1 | "$ML_BENCH_PUT" run.sh
    "$ML_BENCH_EXEC" 'exit 5'; echo "status $?"
    "$ML_BENCH_GET" nothing; echo "status $?"
    exit 3
    """
    ended = attempt(tmp_path, command)
    assert (script(tmp_path) or "").split() == ["61", "20", "62", "ff"]
    (program,) = steps(tmp_path, "program")
    assert program["status"] == 3
    assert str(program["output"]).splitlines() == ["exit 5status 5", "FileNotFoundError: nothing", "status 1"]
    assert [step["command"] for step in steps(tmp_path, "command")] == ["exit 5"]
    assert (ended.why, ended.used.turns) == ("done", 1)


def test_a_program_has_a_folder_of_its_own_that_goes_with_it(tmp_path: Path) -> None:
    attempt(tmp_path, 'ls -A; pwd; echo > left; ls -A "$PWD"')
    (program,) = steps(tmp_path, "program")
    folder, left = str(program["output"]).split()
    assert left == "left"
    assert not Path(folder).exists()


def test_a_program_ends_with_its_budget_and_with_what_it_has_started(tmp_path: Path) -> None:
    began = time.monotonic()
    mark = f"sleep 3{os.getpid() % 1000}.5"
    ended = attempt(tmp_path, f"{mark} & {mark}; echo never", Budget(max_turns=None, max_seconds=0.5))
    assert ended.why == "seconds"
    assert time.monotonic() - began < 8
    lines = [path.read_bytes().replace(b"\0", b" ") for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not any(mark.encode() in line for line in lines)


def test_each_command_of_a_program_is_a_turn(tmp_path: Path) -> None:
    ended = attempt(tmp_path, 'while "$ML_BENCH_EXEC" true; do :; done', Budget(max_turns=3))
    assert ended.why == "turns"
    assert len(steps(tmp_path, "command")) == 3


@pytest.mark.parametrize("command", ["no-such-program-anywhere", "/etc/passwd"])
def test_a_program_that_is_missing_is_no_failure_of_any_task(tmp_path: Path, command: str) -> None:
    with pytest.raises(AgentError, match="the command cannot be run"):
        attempt(tmp_path, command)
    assert AttemptFolder(tmp_path, TASK.task_id, 0).ended() is None


def test_inside_it_is_a_command_of_the_workspace_that_is_told_its_task(tmp_path: Path) -> None:
    attempt(tmp_path, "my-agent --yes", inside=True)
    (step,) = steps(tmp_path, "command")
    command = str(step["command"])
    assert command.endswith("\nmy-agent --yes")
    assert "ML_BENCH_TASK_ID=Some-Repo/1" in command


def test_what_is_no_request_is_refused_and_the_program_goes_on(tmp_path: Path) -> None:
    command = """
    "$ML_BENCH_EXEC"; echo "status $?"
    python3 - <<'EOF'
import os, socket
for request in (b"{}\\n", b"nonsense\\n", b'{"do": "rm"}\\n', b'{"do": "put", "path": "x", "content": 5}\\n', b""):
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(os.environ["ML_BENCH_SOCKET"])
        one.sendall(request)
        one.shutdown(socket.SHUT_WR)
        assert b'"error"' in one.makefile("rb").read(), request
EOF
    echo "status $?"
    """
    assert attempt(tmp_path, command).why == "done"
    (program,) = steps(tmp_path, "program")
    assert str(program["output"]).splitlines()[-2:] == ["status 2", "status 0"]


def test_its_name_is_its_label_or_its_first_word() -> None:
    assert Command("/usr/bin/aider --yes").name == "command:aider"
    assert Command("x", label="mine").name == "command:mine"
    with pytest.raises(AgentError, match="empty"):
        Command("  ")


def test_a_task_is_not_told_what_would_give_it_away(tmp_path: Path) -> None:
    secret: Task = task(output="python secret.py", oracle="secret passage")
    run = AgentRun(Command('env | "$ML_BENCH_PUT" run.sh'), tmp_path, FakePlaces(), Manner(), Purse(None), (ANY_SLOT,))
    list(run.go([Work(secret)]))
    assert "secret" not in (script(tmp_path) or "secret")
