"""From what agents have left to the candidates that the judge executes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ml_bench_metric import agent_scripts
from ml_bench_metric.evaluation import Candidate, Settings
from ml_bench_metric.predictions import Prediction, Predictions
from ml_bench_metric.results import RULES, Program, Result, text_sha256
from ml_bench_metric.sandbox.execution import Execution
from ml_bench_metric.sandbox.overlay import Overlay
from ml_bench_metric.tasks import TaskSet
from ml_bench_solvers.agents.attempts import Attempt, AttemptFolder

NO_SCRIPT = ""
"""The candidate of an agent that has left no `run.sh`: it keeps its place, and fails."""
NOT_MADE = "exit 1  # the sandbox of the agent failed, so that there is no run.sh\n"
"""The candidate of an attempt that could not be made. It is never executed: its result is that of `failed_results`."""


def read_attempts(run: Path, tasks: TaskSet, attempts: int) -> list[Attempt]:
    """Return the attempts of a run that have come to their end, in the order of the tasks.

    Raises:
        RunError: a record is damaged.
    """
    found = (AttemptFolder(run, task.task_id, number).ended() for task in tasks.tasks for number in range(attempts))
    return [attempt for attempt in found if attempt is not None]


def candidates_of(run: Path, tasks: TaskSet, attempts: Sequence[Attempt]) -> Predictions:
    """Return what agents have left as predictions. Attempts count up to the first that has not come to its end.

    Args:
        run: folder of the run.
        tasks: all tasks that count.
        attempts: that have come to their end, in their order; see `read_attempts`.

    Raises:
        RunError: a `run.sh` cannot be read.
    """
    found = Predictions(form="run.sh")
    for task in tasks.tasks:
        texts: list[str] = []
        overlays: list[Overlay | None] = []
        for attempt in (one for one in attempts if one.task_id == task.task_id):
            if attempt.attempt != len(texts):
                break
            text, overlay = _candidate(run, attempt)
            texts.append(text)
            overlays.append(overlay)
        if texts:
            found.items[task.task_id] = Prediction(
                task_id=task.task_id, candidates=tuple(texts), where=str(run), overlays=tuple(overlays)
            )
    return found


def _candidate(run: Path, attempt: Attempt) -> tuple[str, Overlay | None]:
    if attempt.why == "environment_error":
        return NOT_MADE, None
    folder = AttemptFolder(run, attempt.task_id, attempt.attempt)
    script = folder.script() if attempt.script else None
    if script is None:
        return NO_SCRIPT, None
    return script, attempt.changes.overlay(folder.archive)


def failed_results(tasks: TaskSet, attempts: Sequence[Attempt], settings: Settings) -> Iterator[Result]:
    """Yield the results of the attempts that the sandbox has failed: environment errors, which are not among n.

    Args:
        tasks: all tasks that count.
        attempts: that have come to their end.
        settings: of the judge.
    """
    for attempt in attempts:
        if attempt.why != "environment_error":
            continue
        task = tasks.by_id[attempt.task_id]
        candidate = Candidate(task, attempt.attempt, NOT_MADE, form="run.sh")
        yield Result(
            task_id=task.task_id,
            repository=task.repository,
            type=task.type,
            candidate=attempt.attempt,
            candidate_sha256=candidate.sha256,
            program=Program.of(NOT_MADE),
            extraction="run.sh",
            checks={rule: agent_scripts.check_all(NOT_MADE, task, rule, {}) for rule in RULES},
            limit_seconds=settings.limits_for(task, "run.sh").seconds,
            execution=Execution(outcome="environment_error", reason=f"the agent's sandbox: {attempt.reason}"),
            form="run.sh",
        )


def is_not_made(result: Result) -> bool:
    """Whether a result is that of an attempt that could not be made."""
    return result.candidate_sha256 == text_sha256(NOT_MADE)
