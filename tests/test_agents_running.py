"""A run of agents: nothing that an agent did is lost or done twice, and however it is ended no workspace is left."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from ml_bench_metric.evaluation import Stop
from ml_bench_metric.tasks import Task
from ml_bench_solvers.agents import running
from ml_bench_solvers.agents.attempts import AttemptFolder, used_by_all
from ml_bench_solvers.agents.budget import Budget, Purse, Used
from ml_bench_solvers.agents.changes import ChangesTooLarge
from ml_bench_solvers.agents.running import Work, work_to_do
from ml_bench_solvers.agents.trajectory import read_steps
from ml_bench_solvers.agents.workspace import AgentError, Workspace, WorkspaceError
from tests.agent_places import FakePlaces, agent_run, writes_script
from tests.result_builders import task

TASKS = [task(f"repo/{number}") for number in range(1, 6)]


@pytest.fixture(autouse=True)
def _retries_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "_RETRY_SECONDS", 0.0)


def todo(path: Path, purse: Purse | None = None, *, attempts: int = 1, retry_errors: bool = False) -> list[Work]:
    return work_to_do(path, TASKS, attempts, purse or Purse(None), retry_errors=retry_errors)


def names(work: list[Work]) -> list[str]:
    return [one.task.task_id for one in work]


def test_an_attempt_leaves_all_that_explains_its_outcome(tmp_path: Path) -> None:
    def act(one: Task, workspace: Workspace) -> None:
        workspace.spend(turns=1, prompt_tokens=10, cost=0.5)
        workspace.record("message", {"text": "hello"})
        workspace.exec("ls")
        writes_script(one, workspace)

    (attempt,) = agent_run(tmp_path, act).go([Work(TASKS[0])])
    folder = AttemptFolder(tmp_path, "repo/1", 0)
    assert folder.ended() == attempt
    assert (attempt.why, attempt.script, attempt.used) == ("done", True, Used(turns=1, prompt_tokens=10, cost=0.5))
    assert folder.script() == "echo repo/1\n"
    assert attempt.changes.overlay(folder.archive) is not None
    steps = list(read_steps(folder.path / "trajectory.jsonl"))
    assert [step["kind"] for step in steps] == ["began", "used", "message", "command", "ended"]


def test_what_has_come_to_its_end_is_not_worked_on_again(tmp_path: Path) -> None:
    places = FakePlaces()
    list(agent_run(tmp_path, places=places).go(todo(tmp_path)[:2]))
    assert names(todo(tmp_path)) == ["repo/3", "repo/4", "repo/5"]
    assert [work.attempt for work in todo(tmp_path, attempts=2)] == [1, 1, 0, 1, 0, 1, 0, 1]
    list(agent_run(tmp_path, places=places).go(todo(tmp_path)))
    assert sorted(places.opened) == [one.task_id for one in TASKS]
    assert todo(tmp_path) == []


def test_an_agent_that_leaves_nothing_has_no_script_and_has_come_to_its_end(tmp_path: Path) -> None:
    (attempt,) = agent_run(tmp_path, lambda one, workspace: None).go([Work(TASKS[0])])
    assert (attempt.why, attempt.script) == ("done", False)
    assert names(todo(tmp_path))[0] == "repo/2"


def test_a_sandbox_that_fails_once_costs_no_task(tmp_path: Path) -> None:
    places = FakePlaces()
    places.refuse = lambda one: len(places.opened) == 1
    (attempt,) = agent_run(tmp_path, places=places).go([Work(TASKS[0])])
    assert attempt.why == "done"
    assert places.opened == ["repo/1", "repo/1"]


def test_a_sandbox_that_fails_again_is_an_environment_error_until_it_is_to_be_tried_again(tmp_path: Path) -> None:
    places = FakePlaces()
    places.refuse = lambda one: one.task_id == "repo/2"
    ended = list(agent_run(tmp_path, places=places).go(todo(tmp_path)))
    assert {one.task_id: one.why for one in ended if one.why != "done"} == {"repo/2": "environment_error"}
    assert todo(tmp_path) == []
    assert names(todo(tmp_path, retry_errors=True)) == ["repo/2"]
    places.refuse = lambda one: False
    (again,) = agent_run(tmp_path, places=places).go(todo(tmp_path, retry_errors=True))
    assert (again.why, AttemptFolder(tmp_path, "repo/2", 0).script()) == ("done", "echo repo/2\n")


def test_a_sandbox_that_fails_while_the_agent_works_counts_what_was_paid(tmp_path: Path) -> None:
    def act(one: Task, workspace: Workspace) -> None:
        workspace.spend(cost=1.0)
        raise WorkspaceError("gone")

    (attempt,) = agent_run(tmp_path, act).go([Work(TASKS[0])])
    assert (attempt.why, attempt.reason) == ("environment_error", "gone")
    assert used_by_all(tmp_path).cost == 2.0


def test_too_many_changes_are_the_agents_own_failure(tmp_path: Path) -> None:
    def refuse() -> None:
        raise ChangesTooLarge("more than 5 files")

    places = FakePlaces()
    places.on_changes = refuse
    (attempt,) = agent_run(tmp_path, places=places).go([Work(TASKS[0])])
    assert (attempt.why, attempt.reason, attempt.script) == ("changes_too_large", "more than 5 files", False)
    assert todo(tmp_path, retry_errors=True)[0].task.task_id == "repo/2"


@pytest.mark.parametrize(
    ("budget", "why"),
    [(Budget(max_turns=3), "turns"), (Budget(max_cost=0.25, max_turns=None), "cost")],
)
def test_what_an_agent_has_left_when_its_budget_was_used_up_is_judged(tmp_path: Path, budget: Budget, why: str) -> None:
    def act(one: Task, workspace: Workspace) -> None:
        writes_script(one, workspace)
        for _ in range(100):
            workspace.spend(turns=1, cost=0.1)

    (attempt,) = agent_run(tmp_path, act, budget=budget).go([Work(TASKS[0])])
    assert (attempt.why, attempt.script) == (why, True)
    assert attempt.used.turns <= 4


def test_no_attempt_begins_when_the_run_has_spent_its_money_and_more_money_goes_on(tmp_path: Path) -> None:
    def act(one: Task, workspace: Workspace) -> None:
        workspace.spend(cost=0.4)
        writes_script(one, workspace)

    ended = list(agent_run(tmp_path, act, purse=Purse(1.0)).go(todo(tmp_path)))
    assert [one.why for one in ended] == ["done", "done", "total_cost"]
    spent = used_by_all(tmp_path).cost
    assert spent == pytest.approx(1.2)
    assert names(todo(tmp_path, Purse(1.0, spent))) == ["repo/4", "repo/5"]
    # What was cut short by the run's purse is made again where there is more in it.
    assert names(todo(tmp_path, Purse(9.0, spent))) == ["repo/3", "repo/4", "repo/5"]


def test_several_agents_work_at_a_time_and_no_attempt_is_made_twice(tmp_path: Path) -> None:
    together = threading.Barrier(2, timeout=10)

    def act(one: Task, workspace: Workspace) -> None:
        if one.task_id in ("repo/1", "repo/2"):
            together.wait()
        writes_script(one, workspace)

    places = FakePlaces()
    ended = list(agent_run(tmp_path, act, places, slots=2).go(todo(tmp_path)))
    assert sorted(one.task_id for one in ended) == sorted(places.opened) == [one.task_id for one in TASKS]
    assert places.open == 0


def test_asked_once_to_stop_it_lets_agents_come_to_their_end(tmp_path: Path) -> None:
    stop = Stop()

    def act(one: Task, workspace: Workspace) -> None:
        stop.ask()
        writes_script(one, workspace)

    ended = list(agent_run(tmp_path, act, stop=stop).go(todo(tmp_path)))
    assert [one.task_id for one in ended] == ["repo/1"]
    assert len(todo(tmp_path)) == 4


def test_asked_twice_to_stop_it_ends_agents_at_once_and_makes_their_attempts_again(tmp_path: Path) -> None:
    stop = Stop()
    places = FakePlaces()

    def act(one: Task, workspace: Workspace) -> None:
        stop.ask()
        stop.ask()
        workspace.exec("wait")

    began = time.monotonic()
    assert list(agent_run(tmp_path, act, places, stop=stop).go(todo(tmp_path))) == []
    assert time.monotonic() - began < 5
    assert (places.open, len(todo(tmp_path))) == (0, 5)
    (attempt, *_) = agent_run(tmp_path).go(todo(tmp_path)[:1])
    assert attempt.why == "done"
    assert (tmp_path / "tasks/repo/1/0.earlier-1/trajectory.jsonl").exists()


def test_a_caller_that_goes_away_leaves_no_workspace(tmp_path: Path) -> None:
    places = FakePlaces()

    def act(one: Task, workspace: Workspace) -> None:
        if one.task_id != "repo/1":
            workspace.exec("wait")

    attempts = agent_run(tmp_path, act, places, slots=2).go(todo(tmp_path))
    next(attempts)
    attempts.close()  # type: ignore[attr-defined]
    assert places.open == 0


def test_an_agent_that_cannot_work_ends_the_run_and_leaves_its_attempts_to_be_made(tmp_path: Path) -> None:
    def act(one: Task, workspace: Workspace) -> None:
        raise AgentError("no server answers")

    places = FakePlaces()
    with pytest.raises(AgentError, match="no server answers"):
        list(agent_run(tmp_path, act, places).go(todo(tmp_path)))
    assert len(places.opened) == 3
    assert (places.open, len(todo(tmp_path))) == (0, 5)


def test_an_agent_that_cannot_work_now_and_then_goes_on(tmp_path: Path) -> None:
    def act(one: Task, workspace: Workspace) -> None:
        if one.id % 2:
            raise AgentError("busy")

    run = agent_run(tmp_path, act)
    assert [one.task_id for one in run.go(todo(tmp_path))] == ["repo/2", "repo/4"]
    assert names([work for work, _ in run.unable]) == ["repo/1", "repo/3", "repo/5"]
    assert names(todo(tmp_path)) == ["repo/1", "repo/3", "repo/5"]


def test_a_fault_of_ours_ends_the_run_and_is_not_hidden(tmp_path: Path) -> None:
    places = FakePlaces()

    def act(one: Task, workspace: Workspace) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(agent_run(tmp_path, act, places).go(todo(tmp_path)))
    assert places.open == 0
