"""Pass@k of candidates given as Python values: what stands behind the `evaluate` module."""

from __future__ import annotations

import hashlib
import json
import logging
import operator
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import ValidationError

import ml_bench_dataset
from ml_bench_metric import judge
from ml_bench_metric.checks import Rule
from ml_bench_metric.claims import claimed
from ml_bench_metric.doctor import Finding, require_healthy
from ml_bench_metric.evaluation import Settings
from ml_bench_metric.execution_cache import ExecutionCache
from ml_bench_metric.overlay_folder import FolderCandidate, FolderError, read_folder
from ml_bench_metric.pass_at_k import Estimator, checked_ks
from ml_bench_metric.predictions import Prediction, Predictions, folder_of
from ml_bench_metric.results import RULES, Result
from ml_bench_metric.sandbox import docker_engine
from ml_bench_metric.sandbox.docker_sandbox import DockerSandbox
from ml_bench_metric.summary import Group, Summary
from ml_bench_metric.tasks import Form, Task, TaskSet, form_of, load_tasks, usable_task
from ml_bench_metric.validation import ValidationStore, expected_seconds, with_executed_ceiling
from ml_bench_metric.verdicts import verdict
from ml_bench_metric.workers import allot

_log = logging.getLogger(__name__)

Reference = str | Mapping[str, object]
"""A `task_id`, or a row of the data set."""


_FOLDER, _TEXT = "\0folder:", "\0text:"
"""What a stored candidate begins with that is a folder; and a text that begins with NUL, which would look like one."""


def checked_row(prediction: object, reference: object, row: int) -> tuple[list[str], str]:
    """Return one row of input in its stored form: a list of texts, and a `task_id` or the JSON of a row.

    A candidate that is a folder is a text too, which no candidate that is a text can be mistaken for.

    Raises:
        ValueError: the row is none; the message names it and what is wrong.
    """
    if isinstance(prediction, (str, bytes, Mapping)) or not isinstance(prediction, Iterable):
        raise ValueError(
            f"predictions[{row}] is {_shown(prediction)}; give a list of candidates, each a string: [[first, …], …]"
        )
    texts = [_stored(candidate, f"predictions[{row}][{position}]") for position, candidate in enumerate(prediction)]
    if isinstance(reference, Mapping):
        try:
            return texts, json.dumps(dict(reference), default=operator.index)
        except (TypeError, ValueError) as error:
            raise ValueError(f"references[{row}] is no row of the data set: {error}") from error
    if isinstance(reference, str):
        return texts, str(reference)
    raise ValueError(f"references[{row}] is {_shown(reference)}; give a task_id, or a row of the data set as a dict")


def _stored(candidate: object, where: str) -> str:
    if isinstance(candidate, str):
        # Arrow, which stores the rows, has only text that UTF-8 can hold: lone surrogates become question marks.
        text = candidate.encode("utf-8", "replace").decode("utf-8")
        return _TEXT + text if text.startswith("\0") else text
    folder = folder_of(candidate)
    if folder is None:
        raise ValueError(f"{where} is {_shown(candidate)}; a candidate is a string")
    try:
        return (_FOLDER + folder).encode("utf-8").decode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(f"{where} is {_shown(candidate)}, whose path is no UTF-8; rename the folder") from error


def _candidate(stored: str, where: str, task: Task, form: Form) -> FolderCandidate:
    """Return a stored candidate.

    Raises:
        ValueError: it is a folder that is no candidate.
    """
    if stored.startswith(_TEXT):
        return FolderCandidate(stored.removeprefix(_TEXT), None)
    if not stored.startswith(_FOLDER):
        return FolderCandidate(stored, None)
    if form != "run.sh":
        raise ValueError(f"{where} is a folder; folders are candidates of split A only: give split='A', or a string")
    try:
        return read_folder(Path(stored.removeprefix(_FOLDER)), task.working_folder)
    except FolderError as error:
        raise ValueError(f"{where}: {error}") from error


def _prediction(task: Task, texts: Sequence[str], row: int, form: Form) -> Prediction:
    where = f"predictions[{row}]"
    found = [_candidate(text, f"{where}[{position}]", task, form) for position, text in enumerate(texts)]
    overlays = tuple(candidate.overlay for candidate in found)
    return Prediction(
        task_id=task.task_id,
        candidates=tuple(candidate.text for candidate in found),
        where=where,
        overlays=overlays if any(overlays) else (),
    )


def _shown(value: object) -> str:
    text = repr(value)
    return f"{text[:60]}{'…' if len(text) > 60 else ''} ({type(value).__name__})"


def compute(
    predictions: Sequence[Sequence[str]],
    references: Sequence[str],
    *,
    k: int | Sequence[int] = (1, 2, 5),
    rule: Rule = "original",
    estimator: Estimator = "unbiased",
    extract: Literal["auto", "none"] = "auto",
    num_workers: int | None = None,
    timeout: float | None = None,
    image: str | None = None,
    tasks: str | None = None,
    split: str = "L",
    skip_checks: bool = False,
) -> dict[str, Any]:
    """Execute candidates and return Pass@k, as the `evaluate` module documents it.

    Args:
        predictions: a list of candidates per task, as `checked_row` returns them. Of split A a candidate is a `run.sh`.
        references: per task a `task_id`, or the JSON of a row; as `checked_row` returns them.
        k: values of k, or one.
        rule: `original` or `strict`.
        estimator: `unbiased`, or `ordered` as in the paper.
        extract: whether programs are taken out of the candidates' texts (`auto`), or are the texts (`none`).
        num_workers: candidates at a time; None for as many as fit.
        timeout: time limit in seconds; None for the original judge's, and for 120 s of a `run.sh`.
        image: runs everything; None for the images that `ml-bench images build` made.
        tasks: where `task_id`s are looked up, see `load_tasks`.
        split: in which split; it decides what a candidate is, also where references are rows.
        skip_checks: whether the machine is not tried out before; then nothing is taken from the cache or stored there.

    Raises:
        ValueError: an argument, a row or a stored validation cannot be used; nothing was executed.
        SandboxError: no engine answers, no image is there for any task, or the machine is broken.
    """
    ks = checked_ks(k)
    if rule not in RULES:
        raise ValueError(f"rule is {rule!r}; give one of {', '.join(RULES)}")
    if estimator not in get_args(Estimator):
        raise ValueError(f"estimator is {estimator!r}; give one of {', '.join(get_args(Estimator))}")
    if len(predictions) != len(references):
        raise ValueError(
            f"there are {len(predictions)} predictions and {len(references)} references; give one for each"
        )
    if not references:
        raise ValueError("there is no row: nothing can be scored")
    settings = _settings(extract, timeout)
    chosen = _tasks_of(references, tasks, split)
    form = form_of(split)
    found = Predictions(
        items={
            task.task_id: _prediction(task, texts, row, form)
            for row, (task, texts) in enumerate(zip(chosen.tasks, predictions, strict=True))
            if texts
        },
        problems=[],
        form=form,
    )
    judgement = judge.Judgement(found, chosen, settings, cache=None if skip_checks else ExecutionCache())
    with DockerSandbox() as sandbox:
        docker_engine.sweep(sandbox.client)
        images = judge.find_images(sandbox, [task for task in chosen.tasks if task.task_id in found.items], image)
        images.require_one()
        validations = ValidationStore().of_images(images.digests.values())
        judgement.seconds = expected_seconds(chosen, images.digests, settings, validations)
        machine = sandbox.capacity()
        with claimed(machine, settings.limits, num_workers, waiting=_log.warning) as own:
            workers = allot(num_workers, settings.limits, own, machine=machine)
            todo = judgement.todo()
            if not skip_checks:
                _require_fit(judgement.try_out(todo, sandbox, images, workers))
            for _ in judgement.execute(todo, sandbox, images, workers):
                pass
    summary = judgement.summary(ks=ks, rule=rule, estimator=estimator)
    summary = with_executed_ceiling(summary, chosen, images.digests, settings, validations)
    summary = summary.model_copy(update={"checks_skipped": skip_checks})
    return _as_dict(summary, judgement.results())


def _require_fit(findings: Sequence[Finding]) -> None:
    for finding in findings:
        if finding.state == "warning":
            _log.warning("%s: %s; %s", finding.name, finding.detail, finding.remedy)
    require_healthy(findings, "skip_checks=True")


def _settings(extract: Literal["auto", "none"], timeout: float | None) -> Settings:
    try:
        return Settings(extract=extract, seconds=timeout)
    except ValidationError as error:
        fault = error.errors()[0]
        name = "timeout" if fault["loc"] == ("seconds",) else "extract"
        raise ValueError(f"{name} is {_shown(fault['input'])}: {fault['msg']}") from None


def _tasks_of(references: Sequence[str], source: str | None, split: str) -> TaskSet:
    known: TaskSet | None = None
    found: list[Task] = []
    rows: dict[str, int] = {}
    for row, reference in enumerate(references):
        if reference.lstrip().startswith("{"):
            try:
                task = usable_task(ml_bench_dataset.complete_row(json.loads(reference)), f"references[{row}]")
            except (ValueError, RecursionError) as error:
                raise ValueError(f"references[{row}] is no row of the data set: {error}") from error
        else:
            known = known or load_tasks(source, split)
            if reference not in known.by_id:
                raise ValueError(
                    f"references[{row}] is {reference!r}, which is no task of split {split!r} of {known.origin}; "
                    "give tasks= and split=, or the row itself"
                )
            task = known.by_id[reference]
        if task.task_id in rows:
            raise ValueError(
                f"references[{row}] is task {task.task_id!r}, as is references[{rows[task.task_id]}]; "
                "give all candidates of a task in one row"
            )
        rows[task.task_id] = row
        found.append(task)
    digest = hashlib.sha256(json.dumps([task.model_dump() for task in found]).encode()).hexdigest()
    origin = known.origin if known else "rows"
    return TaskSet(tasks=tuple(found), split=split, origin=origin, digest=digest)


def _as_dict(summary: Summary, results: Iterable[Result]) -> dict[str, Any]:
    details: dict[str, list[dict[str, Any]]] = {}
    for result in sorted(results, key=lambda result: (result.task_id, result.candidate)):
        found = verdict(result, summary.rule)
        execution = result.execution
        details.setdefault(result.task_id, []).append(
            {
                "candidate": result.candidate,
                "passed": found.passed,
                "reason": found.reason,
                "outcome": execution.outcome if execution else "no_program",
                "status": execution.status if execution else None,
                "seconds": execution.times.run if execution else None,
            }
        )
    return {
        **_numbers(summary, summary.overall),
        "rule": summary.rule,
        "estimator": summary.estimator,
        "ceiling": summary.ceiling[summary.rule].share if summary.ceiling else None,
        "executed_ceiling": (
            summary.executed_ceiling[summary.rule].model_dump() if summary.executed_ceiling is not None else None
        ),
        "checks_skipped": summary.checks_skipped,
        "missing": list(summary.missing),
        "repositories": {name: _numbers(summary, group) for name, group in summary.repositories.items()},
        "types": {name: _numbers(summary, group) for name, group in summary.types.items()},
        "details": details,
    }


def _numbers(summary: Summary, group: Group) -> dict[str, Any]:
    scores = summary.leading(group)
    return {
        **{f"pass@{score.k}": score.value for score in scores if score.value is not None},
        "intervals": {f"pass@{score.k}": list(score.interval) for score in scores if score.interval is not None},
        "bounds": {
            f"pass@{score.k}": [score.lower, score.upper]
            for score in scores
            if score.lower is not None and score.upper is not None
        },
        "tasks": group.tasks,
        "candidates": group.candidates,
        "passed": group.scores[summary.rule].passed,
        "missing_predictions": group.missing,
        "environment_errors": group.environment_errors,
        "assets": dict(group.assets),
    }
