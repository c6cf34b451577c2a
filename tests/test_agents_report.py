"""The numbers of a run of agents: of its own attempts and verdicts alone, and published ones never among them."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from ml_bench_metric.results import Result
from ml_bench_metric.summary import summarise
from ml_bench_solvers.agents.attempts import Attempt, Why
from ml_bench_solvers.agents.budget import Used
from ml_bench_solvers.agents.report import PUBLISHED, AgentReport, agent_report, render
from tests.result_builders import FAILING, PASSING, result, task_set


def attempt(task_id: str, *, cost: float = 0.5, turns: int = 4, why: Why = "done", script: bool = True) -> Attempt:
    return Attempt(
        task_id=task_id,
        attempt=0,
        agent="x",
        start="prepared",
        network="none",
        why=why,
        used=Used(turns=turns, cost=cost),
        seconds=10.0,
        script=script,
    )


def report(attempts: list[Attempt], results: list[Result], *names: str, agent: str = "x") -> AgentReport:
    summary = summarise(results, task_set(*names), {one.task_id: 1 for one in results}, ks=(1,))
    return agent_report(summary, attempts, agent=agent, start="prepared", network="none", spent=3.0)


def shown(one: AgentReport) -> str:
    console = Console(file=io.StringIO(), width=120)
    render(one, console)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text


def test_success_counts_every_task_and_means_count_every_attempt() -> None:
    one = report(
        [
            attempt("a/1", cost=1.0, turns=2),
            attempt("a/2", cost=0.0, turns=4, why="turns"),
            attempt("b/1", script=False),
        ],
        [result("a/1", execution=PASSING), result("a/2", execution=FAILING), result("b/1", execution=FAILING)],
        *("a/1", "a/2", "b/1", "b/2"),
    )
    assert one.overall.success["original"].value == 0.25
    assert one.repositories["a"].success["original"].value == 0.5
    assert (one.overall.tasks, one.overall.attempts, one.overall.scripts) == (4, 3, 2)
    assert one.overall.why == {"done": 2, "turns": 1}
    assert one.overall.cost == 0.5
    assert one.overall.turns == pytest.approx(10 / 3)
    assert one.repositories["a"].cost == 0.5
    assert AgentReport.from_json(one.to_json()) == one


def test_a_run_without_attempts_has_no_means() -> None:
    one = report([], [], "a/1")
    assert (one.overall.cost, one.overall.turns, one.overall.success["original"].value) == (None, None, 0.0)
    assert "all" in shown(one)


def test_published_rows_stand_beside_the_whole_split_only_and_are_called_so() -> None:
    names = [f"a/{number}" for number in range(68)]
    whole = shown(report([attempt(names[0])], [result(names[0])], *names))
    assert "Published (others' runs" in whole
    assert whole.index("all") < whole.index("Published") < whole.index(PUBLISHED[0].agent)
    assert "Published" not in shown(report([attempt("a/1")], [result("a/1")], "a/1"))


def test_no_number_is_cut_in_a_narrow_terminal() -> None:
    one = report([attempt("Long-Name-Of-A-Repository/1", cost=12.3456)], [], "Long-Name-Of-A-Repository/1")
    console = Console(file=io.StringIO(), width=50)
    render(one, console)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    assert text.count("12.3456") == 3
    assert "Long-Name-O…" in text


def test_the_hosts_that_agents_could_reach_stand_in_the_title() -> None:
    hosts = ("*.example.org", "pypi.org")
    one = report([], [], "a/1").model_copy(update={"network": "allowlist", "allowed": hosts})
    assert "network allowlist (*.example.org, pypi.org); success" in shown(one)
    assert "network none; success" in shown(report([], [], "a/1"))


def test_an_interval_stands_beside_the_rate() -> None:
    names = [f"a/{number}" for number in range(10)]
    results = [result(name, execution=PASSING if number < 5 else FAILING) for number, name in enumerate(names)]
    text = shown(report([attempt(name) for name in names], results, *names))
    assert "Success under rule original: 50.0 %, 95% interval 20.0 to 80.0" in text


def test_what_a_program_has_spent_by_itself_is_not_called_nothing() -> None:
    one = report([attempt("a/1", cost=0.0)], [result("a/1", execution=PASSING)], "a/1", agent="command:aider")
    assert (one.counted, one.overall.cost, one.overall.turns) == (False, None, 4.0)
    text = shown(one)
    assert "Used: 4 turns; tokens and cost are not known" in text and "0.0000" not in text
