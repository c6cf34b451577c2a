"""Results and tasks for tests of what is made of them. Defaults pass under both rules."""

from __future__ import annotations

from typing import Any, Literal

from hypothesis import settings

from ml_bench_metric.checks import Checks
from ml_bench_metric.results import Program, Result, text_sha256
from ml_bench_metric.sandbox.execution import Execution, Outcome
from ml_bench_metric.tasks import Task, TaskSet

quick = settings(max_examples=60, deadline=None)
"""For property tests. Without a deadline: a busy machine is no fault of what is tested."""

GOOD = Checks(arguments=True, type=True, missing=())
BAD = Checks(arguments=False, type=True, missing=("lr=0.001",))


def execution(outcome: Outcome = "exited", status: int | None = 0, **more: Any) -> Execution:
    return Execution(outcome=outcome, status=status if outcome == "exited" else None, **more)


PASSING = execution()
FAILING = execution(status=1)
ERROR = execution("environment_error", reason="no image for repo")


def result(
    task_id: str = "repo/1",
    candidate: int = 0,
    execution: Execution | None = PASSING,
    *,
    original: Checks = GOOD,
    strict: Checks = GOOD,
    text: str | None = "python train.py",
    **more: Any,
) -> Result:
    """A result; text None is an answer without a program."""
    fields: dict[str, Any] = {
        "task_id": task_id,
        "repository": task_id.split("/")[0],
        "type": "Bash Script",
        "candidate": candidate,
        "candidate_sha256": text_sha256(text or "I cannot do that."),
        "program": None if text is None else Program.of(text),
        "extraction": "the whole text" if text is not None else "nothing: prose only",
        "checks": {"original": original, "strict": strict},
        "limit_seconds": 10.0,
        "execution": None if text is None else execution,
    }
    return Result(**(fields | more))


def task(task_id: str, kind: Literal["Bash Script", "Python Code"] = "Bash Script") -> Task:
    repository, number = task_id.rsplit("/", 1)
    return Task(
        github_id=1,
        github=f"https://example.org/{repository}",
        repo_id=1,
        path="./",
        arguments="{}",
        instruction="Train it.",
        oracle="",
        type=kind,
        id=int(number),
        prefix_code="",
        output="python train.py",
        task_id=task_id,
        repository=repository,
        commit=None,
        domain=None,
        environment=None,
    )


def task_set(*tasks: Task | str) -> TaskSet:
    rows = tuple(task(one) if isinstance(one, str) else one for one in tasks)
    return TaskSet(tasks=rows, split="full", origin="made for a test", digest="0" * 64)
