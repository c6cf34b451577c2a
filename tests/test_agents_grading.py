"""What agents have left becomes the candidates of a run: each in its place, and no failure of ours is one of theirs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ml_bench_metric.evaluation import Settings
from ml_bench_metric.store import RunError
from ml_bench_metric.tasks import Task
from ml_bench_metric.verdicts import verdict
from ml_bench_solvers.agents import running
from ml_bench_solvers.agents.attempts import AttemptFolder
from ml_bench_solvers.agents.grading import NOT_MADE, candidates_of, failed_results, read_attempts
from ml_bench_solvers.agents.running import Work
from ml_bench_solvers.agents.workspace import Workspace
from tests.agent_places import FakePlaces, agent_run, writes_script
from tests.result_builders import task_set

TASKS = task_set("repo/1", "repo/2", "repo/3")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run in which the second task's agent left nothing, and the third one's had no sandbox."""
    monkeypatch.setattr(running, "_RETRY_SECONDS", 0.0)
    places = FakePlaces()
    places.refuse = lambda one: one.task_id == "repo/3"

    def act(one: Task, workspace: Workspace) -> None:
        if one.task_id == "repo/1":
            writes_script(one, workspace)

    list(agent_run(tmp_path, act, places).go(Work(one) for one in TASKS.tasks))
    return tmp_path


def test_a_candidate_is_the_script_with_what_else_was_changed(run: Path) -> None:
    found = candidates_of(run, TASKS, read_attempts(run, TASKS, 1))
    assert found.form == "run.sh"
    assert {name: one.candidates for name, one in found.items.items()} == {
        "repo/1": ("echo repo/1\n",),
        "repo/2": ("",),
        "repo/3": (NOT_MADE,),
    }
    overlay = found.items["repo/1"].overlay(0)
    assert overlay is not None and overlay.archive == AttemptFolder(run, "repo/1", 0).archive
    assert found.items["repo/2"].overlay(0) is None


def test_an_attempt_that_is_not_made_yet_is_no_candidate(run: Path) -> None:
    attempts = read_attempts(run, TASKS, 1)
    found = candidates_of(run, TASKS, attempts[1:])
    assert list(found.items) == ["repo/2", "repo/3"]


def test_an_attempt_behind_one_that_is_not_made_takes_nobody_elses_place(tmp_path: Path) -> None:
    list(agent_run(tmp_path).go(Work(TASKS.tasks[0], number) for number in (0, 2)))
    found = candidates_of(tmp_path, TASKS, read_attempts(tmp_path, TASKS, 3))
    assert len(found.items["repo/1"].candidates) == 1


def test_a_sandbox_that_has_failed_is_an_environment_error_that_decides_on_nothing(run: Path) -> None:
    (result,) = failed_results(TASKS, read_attempts(run, TASKS, 1), Settings())
    assert (result.task_id, result.candidate, result.form) == ("repo/3", 0, "run.sh")
    assert verdict(result, "original").passed is None
    assert verdict(result, "strict").passed is None
    found = candidates_of(run, TASKS, read_attempts(run, TASKS, 1))
    assert found.items["repo/3"].candidates == (NOT_MADE,)


def test_a_record_that_was_damaged_is_named(run: Path) -> None:
    path = AttemptFolder(run, "repo/2", 0).path / "agent.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "why": "no reason"}))
    with pytest.raises(RunError, match=r"repo/2/0/agent\.json cannot be read"):
        read_attempts(run, TASKS, 1)


@pytest.mark.parametrize("task_id", ["../1", "a/b/c", "a", "a/..", "/x"])
def test_no_task_has_a_folder_outside_of_the_run(tmp_path: Path, task_id: str) -> None:
    with pytest.raises(RunError, match="cannot have a folder"):
        AttemptFolder(tmp_path, task_id, 0)
