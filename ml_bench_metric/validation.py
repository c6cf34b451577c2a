"""Validation: whether the references pass in an image, found out by executing them there several times.

A validation is a run like any other, whose candidates are made here: the empty one, one that does nothing, and the
reference as often as wanted. What it found is kept by image digest, outside of any run's folder: that is what later
evaluations in the same image know as their ceiling.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from filelock import FileLock
from pydantic import Field

from ml_bench_metric.checks import Rule
from ml_bench_metric.environments.images import TaskImage
from ml_bench_metric.evaluation import Settings
from ml_bench_metric.predictions import Prediction, Predictions
from ml_bench_metric.results import RULES, JsonRecord, Result, Sha256
from ml_bench_metric.sandbox.execution import Assets, Record
from ml_bench_metric.store import RunError
from ml_bench_metric.summary import ExecutedCeiling, Summary
from ml_bench_metric.tasks import Language, Task, TaskSet, form_of
from ml_bench_metric.verdicts import verdict

STORE_VARIABLE = "ML_BENCH_VALIDATIONS"
"""Environment variable that names another folder for the stored validations."""

NO_OPS: Mapping[Language, str] = {"bash": ":", "python": "if True:\n    pass"}
"""Programs that do nothing. In Python a mere `pass` would be no program to the extraction."""


class ValidationsError(RunError):
    """A stored validation cannot be read or written; the message says what to do."""


class TaskValidation(Record):
    """What was found of one task in one image. Executions that the sandbox failed are not in it."""

    content: Sha256
    """Of the task, see `content_of`: of another text under the same `task_id` it says nothing."""
    outcomes: tuple[str, ...] = Field(min_length=1)
    """How each execution of the reference ended: its outcome and, where it exited, its status, such as `exited 0`."""
    passed: dict[Rule, int]
    """How many of them pass, under every rule."""
    seconds: float
    """Their wall time, median."""
    cpu_seconds: float | None
    """Their CPU time, median of where it is known."""
    peak_memory_bytes: int | None
    """Highest memory of any of them."""
    empty_passes: tuple[Rule, ...]
    """The rules under which the empty candidate passes, which it must not."""
    no_op_passes: tuple[Rule, ...]
    """The rules under which a program that does nothing passes: there the task asks for nothing that is checked."""

    def passes(self, rule: Rule) -> bool:
        """Return whether the reference passes whenever it is executed."""
        return self.passed[rule] == len(self.outcomes)

    def is_flaky(self, rule: Rule) -> bool:
        """Return whether the reference passes sometimes."""
        return 0 < self.passed[rule] < len(self.outcomes)


class Made(Record):
    """How a validation was made."""

    settings: Settings
    split: str
    tasks_digest: str
    """See `TaskSet.digest`."""
    harness: str
    """Version of this package."""
    engine: str
    """Kind and version."""
    load: float | None
    """Number of processes that ran or waited for a CPU before it began, the most of those before any part of it; None
    where it is not known."""
    cpus_are_shared: bool
    """Whether candidates shared CPUs in any part: then what is still running at the limit depends on the others."""
    checks_skipped: bool = False
    """Whether any of it was executed on a machine that was not tried out before."""
    date: str
    """When it began, ISO 8601 with its offset from UTC."""


class Part(Record):
    """What one command found in one image."""

    made: Made
    tasks: dict[str, TaskValidation]
    """`task_id` -> what was found."""


class ImageValidation(JsonRecord):
    """All that is known of an image."""

    image: str
    """Its digest `sha256:…`."""
    assets: Assets
    parts: tuple[Part, ...]
    """Oldest first. For the same settings a task is in one of them only: where it was validated last."""

    def with_part(self, part: Part) -> ImageValidation:
        """Return the record with what was found once more, or anew."""
        kept = []
        for old in self.parts:
            if old.made.settings == part.made.settings:
                left = {task_id: found for task_id, found in old.tasks.items() if task_id not in part.tasks}
                old = old.model_copy(update={"tasks": left})
            if old.tasks:
                kept.append(old)
        return self.model_copy(update={"parts": (*kept, part)})

    def of(self, task: Task, settings: Settings) -> TaskValidation | None:
        """Return what was found of a task as it is now, with these settings; None if nothing was."""
        for part in self.parts:
            found = part.tasks.get(task.task_id) if part.made.settings == settings else None
            if found is not None and found.content == content_of(task):
                return found
        return None


class ValidationStore:
    """The folder of the stored validations, a file `<digest in hex>.json` for each image."""

    def __init__(self, folder: Path | None = None) -> None:
        """Know where it is; nothing is made before something is stored.

        Args:
            folder: None for the user's own: `$ML_BENCH_VALIDATIONS`, else `ml-bench/validations` in `$XDG_DATA_HOME`,
                which is `~/.local/share` where it is not set.
        """
        self.folder = folder or _users_folder()

    def path(self, image: str) -> Path:
        """Return the file of an image, given by its digest `sha256:…`."""
        return self.folder / f"{image.rpartition(':')[2]}.json"

    def read(self, image: str) -> ImageValidation | None:
        """Return what is known of an image, given by its digest; None if nothing is.

        Raises:
            ValidationsError: the file cannot be read.
        """
        path = self.path(image)
        try:
            return ImageValidation.from_json(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise ValidationsError(
                f"{path} is no validation of this version ({reason}); remove it, and run `ml-bench validate` again"
            ) from error

    def of_images(self, images: Iterable[str]) -> dict[str, ImageValidation]:
        """Return what is known of some images, given by their digests; those of which nothing is are left out.

        Raises:
            ValidationsError: a file cannot be read.
        """
        found = {image: self.read(image) for image in dict.fromkeys(images)}
        return {image: validation for image, validation in found.items() if validation is not None}

    def add(self, findings: Findings, images: Mapping[str, TaskImage], made: Made) -> None:
        """Store what was found, beside what is known of other tasks.

        Args:
            findings: of tasks in any number of images.
            images: `task_id` -> its image.
            made: how it was found.

        Raises:
            ValidationsError: it cannot be written, or what is there cannot be read.
        """
        in_image: dict[str, dict[str, TaskValidation]] = {}
        for task_id, found in findings.tasks.items():
            in_image.setdefault(images[task_id].digest, {})[task_id] = found
        for digest, tasks in in_image.items():
            assets = images[next(iter(tasks))].assets
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                with FileLock(self.folder / ".lock"):
                    known = self.read(digest) or ImageValidation(image=digest, assets=assets, parts=())
                    draft = self.path(digest).with_suffix(".new")
                    draft.write_text(known.with_part(Part(made=made, tasks=tasks)).to_json(indent=2) + "\n")
                    draft.replace(self.path(digest))
            except OSError as error:
                raise ValidationsError(
                    f"{self.path(digest)} cannot be written: {error.strerror or error}; mend that, or set "
                    f"{STORE_VARIABLE} to another folder"
                ) from error


def _users_folder() -> Path:
    if folder := os.environ.get(STORE_VARIABLE):
        return Path(folder)
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "ml-bench" / "validations"


def content_of(task: Task) -> str:
    """Return the SHA-256 (hex) of all that a task says."""
    return hashlib.sha256(json.dumps(task.model_dump(), sort_keys=True).encode()).hexdigest()


# ---------------------------------------------------------------- from candidates to what was found


def candidates_of(tasks: Iterable[Task], repeat: int) -> Predictions:
    """Return what a validation executes of each task: the empty candidate, one that does nothing, and the reference.

    Args:
        tasks: the tasks.
        repeat: how often the reference is executed. A run can be gone on with under another number.
    """
    return Predictions(
        items={
            task.task_id: Prediction(
                task_id=task.task_id,
                # The references last: more of them leave the places of the others.
                candidates=("", NO_OPS[task.language], *([task.output] * repeat)),
                where="validation",
            )
            for task in tasks
        },
        problems=[],
    )


@dataclass
class Findings:
    """What the results of a validation say so far."""

    tasks: dict[str, TaskValidation] = field(default_factory=dict)
    """`task_id` -> what was found."""
    failed: dict[str, str] = field(default_factory=dict)
    """`task_id` -> why nothing could be found out: what failed in the sandbox."""
    pending: tuple[str, ...] = ()
    """`task_id` of every task that has candidates without a result."""


@dataclass(frozen=True)
class _Ended:
    """What is kept of one result."""

    outcome: str
    passed: dict[Rule, bool | None]
    seconds: float
    cpu_seconds: float | None
    peak_memory_bytes: int | None
    error: str | None


def findings(results: Iterable[Result], candidates: Predictions, tasks: TaskSet) -> Findings:
    """Return what results say about the tasks.

    Args:
        results: at most one for each candidate, in any order.
        candidates: as `candidates_of` made them, of all tasks or some.
        tasks: the tasks.
    """
    ended: dict[str, dict[int, _Ended]] = {task_id: {} for task_id in candidates.items}
    for result in results:
        ended[result.task_id][result.candidate] = _ended(result)
    found, failed, pending = {}, {}, []
    for task_id, of_task in ended.items():
        if len(of_task) < len(candidates.items[task_id].candidates):
            pending.append(task_id)
            continue
        # In the order in which `candidates_of` has them.
        empty, no_op, *references = (of_task[index] for index in sorted(of_task))
        executed = [one for one in references if one.error is None]
        undecided = [one for one in (empty, no_op) if None in one.passed.values()]
        if undecided or not executed:
            failed[task_id] = next(one.error for one in (*undecided, *references) if one.error is not None)
            continue
        cpu = [one.cpu_seconds for one in executed if one.cpu_seconds is not None]
        found[task_id] = TaskValidation(
            content=content_of(tasks.by_id[task_id]),
            outcomes=tuple(one.outcome for one in executed),
            passed={rule: sum(one.passed[rule] is True for one in executed) for rule in RULES},
            seconds=median(one.seconds for one in executed),
            cpu_seconds=median(cpu) if cpu else None,
            peak_memory_bytes=max((one.peak_memory_bytes or 0 for one in executed), default=0) or None,
            empty_passes=tuple(rule for rule in RULES if empty.passed[rule]),
            no_op_passes=tuple(rule for rule in RULES if no_op.passed[rule]),
        )
    return Findings(found, failed, tuple(pending))


def _ended(result: Result) -> _Ended:
    execution = result.execution
    passed = {rule: verdict(result, rule).passed for rule in RULES}
    if execution is None:
        return _Ended("no_program", passed, 0.0, None, None, None)
    status = "" if execution.outcome != "exited" or execution.status is None else f" {execution.status}"
    return _Ended(
        outcome=execution.outcome + status,
        passed=passed,
        seconds=execution.times.run,
        cpu_seconds=execution.cpu_seconds,
        peak_memory_bytes=execution.peak_memory_bytes,
        error=execution.reason or "no reason was recorded" if execution.outcome == "environment_error" else None,
    )


# ---------------------------------------------------------------- what evaluations know of it


def with_executed_ceiling(
    summary: Summary,
    tasks: TaskSet,
    digests: Mapping[str, str],
    settings: Settings,
    validations: Mapping[str, ImageValidation],
) -> Summary:
    """Return a summary that knows how far the references come in the images of its run.

    A validation counts where image, settings and the task's content are those of the run.

    Args:
        summary: of a run.
        tasks: its tasks.
        digests: `task_id` -> digest of its image, where it has one.
        settings: of the run.
        validations: digest of an image -> what is known of it.
    """
    found = list(_found(tasks, digests, settings, validations).values())
    if not found:
        return summary.model_copy(update={"executed_ceiling": None})
    ceiling = {rule: _ceiling(found, rule, len(tasks.tasks)) for rule in RULES}
    return summary.model_copy(update={"executed_ceiling": ceiling})


def expected_seconds(
    tasks: TaskSet, digests: Mapping[str, str], settings: Settings, validations: Mapping[str, ImageValidation]
) -> dict[str, float]:
    """Return `task_id` -> how long its reference ran in the images of a run, median, where that is known.

    Args:
        tasks: of the run.
        digests: `task_id` -> digest of its image, where it has one.
        settings: of the run.
        validations: digest of an image -> what is known of it.
    """
    found = _found(tasks, digests, settings, validations)
    return {task_id: validation.seconds for task_id, validation in found.items()}


def _found(
    tasks: TaskSet, digests: Mapping[str, str], settings: Settings, validations: Mapping[str, ImageValidation]
) -> dict[str, TaskValidation]:
    """Return `task_id` -> what was found of it in its image, with these settings and its text of now."""
    found: dict[str, TaskValidation] = {}
    if form_of(tasks.split) != "answer":
        # References are validated as answers, under other limits.
        return found
    for task in tasks.tasks:
        of_image = validations.get(digests.get(task.task_id, ""))
        validation = of_image.of(task, settings) if of_image else None
        if validation is not None:
            found[task.task_id] = validation
    return found


def _ceiling(found: list[TaskValidation], rule: Rule, tasks: int) -> ExecutedCeiling:
    passed = sum(one.passes(rule) for one in found)
    return ExecutedCeiling(
        passed=passed,
        flaky=sum(one.is_flaky(rule) for one in found),
        tasks=len(found),
        not_validated=tasks - len(found),
        share=passed / len(found),
    )
