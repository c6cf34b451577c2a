"""Judging a stored run anew: its executions are facts; checks, verdicts and scores are made of them again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ml_bench_metric.agent_scripts import check_all
from ml_bench_metric.checks import Checks, Rule, check
from ml_bench_metric.evaluation import Settings
from ml_bench_metric.judge import reference_checks
from ml_bench_metric.pass_at_k import Estimator
from ml_bench_metric.results import RULES, Result
from ml_bench_metric.store import RUN_FILE, RunError, checks_skipped, read_results, read_run
from ml_bench_metric.summary import Summary, summarise
from ml_bench_metric.tasks import Form, Task, TaskSet


@dataclass(frozen=True)
class Told:
    """What a run's folder tells of the tasks that it counted."""

    source: str | None
    """Where they were read, as it was given."""
    split: str
    revision: str | None
    selection: tuple[str, ...]
    excluded: tuple[tuple[str, tuple[str, ...]], ...]
    """Why, and which tasks were left out."""
    digest: str
    candidates: dict[str, tuple[str, ...]]
    """`task_id` -> the first hex digits of the SHA-256 of each of its candidates; tasks without any are left out."""
    repeats: int
    """How often each was executed."""
    settings: Settings
    checks_skipped: bool
    """Whether any of it was executed on a machine that was not tried out before."""
    form: Form = "answer"
    """What its candidates are; of earlier versions, also those of split A are answers."""


@dataclass(frozen=True)
class Rejudged:
    """A run's numbers, made anew."""

    summary: Summary
    changed: int
    """Candidates whose static checks are others than when the run was made."""
    kept: int
    """Candidates whose checks could not be made anew, because their program is not stored whole."""


def told_by(run: Path) -> Told:
    """Return what a run's folder tells.

    Raises:
        RunError: it is no run's folder, or was made by a version that did not tell enough.
    """
    facts = read_run(run)
    try:
        identity: dict[str, Any] = facts["identity"]
        return Told(
            source=facts["source"],
            split=facts["split"],
            revision=facts["revision"],
            selection=tuple(identity["selection"]),
            excluded=tuple((one["why"], tuple(one["tasks"])) for one in identity["excluded"]),
            digest=identity["tasks"],
            candidates={str(task_id): tuple(digests) for task_id, digests in facts["candidates"].items()},
            repeats=int(facts["repeats"]),
            settings=Settings.model_validate(identity["settings"]),
            checks_skipped=checks_skipped(facts["parts"]),
            form="run.sh" if identity.get("form") == "run.sh" else "answer",
        )
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(
            f"{run / RUN_FILE} does not tell all that judging anew needs ({error}); an older version made it: "
            "run the same command again, which executes nothing twice"
        ) from error


def tasks_of(told: Told, split: TaskSet) -> TaskSet:
    """Return the tasks that a run counted.

    Args:
        told: by the run's folder.
        split: all tasks of its split.

    Raises:
        RunError: they are other tasks than those of the run.
    """
    tasks = split.only(told.selection) if told.selection else split
    for why, task_ids in told.excluded:
        tasks = tasks.without(task_ids, why)
    if tasks.digest != told.digest:
        raise RunError(
            f"the tasks of {split.origin} are not those of the run (digest {tasks.digest[:12]}, then "
            f"{told.digest[:12]}); give the ones of then with --tasks"
        )
    return tasks


def rejudge(run: Path, told: Told, tasks: TaskSet, *, ks: Sequence[int], rule: Rule, estimator: Estimator) -> Rejudged:
    """Return the numbers of a run, from its stored executions and today's checks.

    Args:
        run: folder of the run.
        told: by it.
        tasks: that it counted.
        ks: values of k.
        rule: which leads; both are computed.
        estimator: which leads; both are computed.

    Raises:
        RunError: a line of its results is damaged.
    """
    counts: Counter[str] = Counter()
    summary = summarise(
        _checked_anew(_counted(read_results(run), told, tasks), tasks, counts),
        tasks,
        {task_id: len(digests) for task_id, digests in told.candidates.items()},
        ks=ks,
        rule=rule,
        estimator=estimator,
        reference_checks=reference_checks(tasks, told.settings.extract, told.form),
    )
    summary = summary.model_copy(update={"checks_skipped": told.checks_skipped})
    return Rejudged(summary, changed=counts["changed"], kept=counts["kept"])


def _counted(results: Iterable[Result], told: Told, tasks: TaskSet) -> Iterator[Result]:
    """Yield the results that are of the run's own candidates: its folder may have those of earlier answers too."""
    for result in results:
        digests = told.candidates.get(result.task_id, ())
        if result.task_id not in tasks.by_id or result.candidate >= len(digests) or result.repeat >= told.repeats:
            continue
        if result.form != told.form:
            continue
        if result.candidate_sha256.startswith(digests[result.candidate]):
            yield result


def _checked_anew(results: Iterable[Result], tasks: TaskSet, counts: Counter[str]) -> Iterator[Result]:
    for result in results:
        task, program = tasks.by_id[result.task_id], result.program
        if program is None or program.truncated or any(script.truncated for script in result.scripts.values()):
            counts["kept"] += program is not None
            yield result
            continue
        checks = {rule: _check(program.text, result, task, rule) for rule in RULES}
        counts["changed"] += checks != result.checks
        yield result.model_copy(update={"checks": checks})


def _check(program: str, result: Result, task: Task, rule: Rule) -> Checks:
    if result.form == "answer":
        return check(program, task, rule)
    scripts = {path: script.text for path, script in result.scripts.items()}
    return check_all(program, task, rule, scripts, result.execution.commands if result.execution else ())
