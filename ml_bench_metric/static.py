"""The static checks of a whole file of predictions, without running anything: what `ml-bench check` prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from ml_bench_metric.agent_scripts import check_all, named_scripts
from ml_bench_metric.checks import Checks, Rule, check
from ml_bench_metric.evaluation import Candidate, candidates
from ml_bench_metric.extraction import Mode
from ml_bench_metric.predictions import Predictions, ProblemKind
from ml_bench_metric.sandbox.execution import Record
from ml_bench_metric.tasks import TaskSet


class TaskCounts(Record):
    """Number of tasks with a candidate that passes both checks, in the order-based sense of the paper's Pass@k."""

    first: int = 0
    """The first candidate passes."""
    first_two: int = 0
    """One of the first two passes."""
    any: int = 0
    """One of all passes."""


class RuleCounts(Record):
    """What the checks of one rule found."""

    arguments: int
    """Number of candidates that use every argument."""
    type: int
    """Number of candidates of the task's type."""
    both: int
    """Number of candidates for which both hold."""
    tasks: TaskCounts


class ReportedProblem(Record):
    """A problem of the predictions; see `predictions.Problem`."""

    where: str
    kind: ProblemKind
    message: str


class StaticReport(Record):
    """The static checks of all candidates, under every rule."""

    candidates: int
    """Number of candidates of known tasks."""
    programs: int
    """Number of candidates in which a program was found; the others fail every check."""
    tasks: int
    """Number of known tasks with a prediction."""
    missing_tasks: tuple[str, ...]
    """Tasks of the set without a prediction; they count nowhere here, and as failures in an evaluation."""
    unknown_tasks: tuple[str, ...]
    """Tasks that the predictions name and the set does not have."""
    rules: dict[Rule, RuleCounts]
    problems: tuple[ReportedProblem, ...]


def static_report(predictions: Predictions, tasks: TaskSet, mode: Mode) -> StaticReport:
    """Return what the static checks say about predictions.

    Of a `run.sh` nothing is executed, so that what its processes would use does not count.

    Args:
        predictions: as `read_predictions` returned them for these tasks.
        tasks: the set that they were read for.
        mode: how programs are taken out of the candidates; `none` judges the texts as they are, as upstream does.

    Raises:
        ml_bench_metric.syntax.BashMissingError: there is a candidate for a bash task, and no bash on this machine.
    """
    programs: dict[str, list[tuple[Candidate, str | None]]] = {}
    for candidate in candidates(predictions, tasks):
        program = candidate.extraction(mode).program
        programs.setdefault(candidate.task.task_id, []).append((candidate, program))
    rules: dict[Rule, RuleCounts] = {}
    for rule in get_args(Rule):
        rules[rule] = _counts([[_check(*one, rule) for one in found] for found in programs.values()])
    return StaticReport(
        candidates=sum(len(found) for found in programs.values()),
        programs=sum(program is not None for found in programs.values() for _, program in found),
        tasks=len(programs),
        missing_tasks=predictions.missing(tasks),
        unknown_tasks=predictions.unknown_tasks,
        rules=rules,
        problems=tuple(
            ReportedProblem(where=problem.where, kind=problem.kind, message=problem.message)
            for problem in predictions.problems
        ),
    )


def _check(candidate: Candidate, program: str | None, rule: Rule) -> Checks:
    if candidate.form == "answer":
        return check(program, candidate.task, rule)
    scripts = named_scripts(program or "", candidate.overlay, candidate.task)
    return check_all(program, candidate.task, rule, scripts)


def _counts(checks: Sequence[Sequence[Checks]]) -> RuleCounts:
    """Return the counts over tasks x candidates."""
    every = [result for results in checks for result in results]
    return RuleCounts(
        arguments=sum(result.arguments for result in every),
        type=sum(result.type for result in every),
        both=sum(result.both for result in every),
        tasks=TaskCounts(
            first=sum(any(result.both for result in results[:1]) for results in checks),
            first_two=sum(any(result.both for result in results[:2]) for results in checks),
            any=sum(any(result.both for result in results) for results in checks),
        ),
    )
