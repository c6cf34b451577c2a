"""From predictions to the numbers of a run: the judge's parts in their order, for the command line and `evaluate`."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal

from ml_bench_metric.checks import Checks, Rule, check
from ml_bench_metric.environments.images import find_image
from ml_bench_metric.environments.registry import EnvironmentUnknown, recipe_for
from ml_bench_metric.evaluation import Candidate, Evaluation, Settings, Stop, candidates
from ml_bench_metric.extraction import extract
from ml_bench_metric.pass_at_k import Estimator
from ml_bench_metric.predictions import Prediction, Predictions
from ml_bench_metric.results import RULES, Result, text_sha256
from ml_bench_metric.sandbox.docker_sandbox import DockerSandbox
from ml_bench_metric.sandbox.protocol import Capacity, Sandbox, SandboxError
from ml_bench_metric.store import RunFolder
from ml_bench_metric.summary import Summary, summarise
from ml_bench_metric.tasks import Task, TaskSet
from ml_bench_metric.workers import Workers


def harness_version() -> str:
    """Return the version of this package, `unknown` where it runs without being installed."""
    try:
        return version("ml-bench")
    except PackageNotFoundError:
        return "unknown"


@dataclass(frozen=True)
class Images:
    """Which image serves each repository, and why some have none."""

    digests: Mapping[str, str]
    """Repository -> digest `sha256:…`."""
    missing: Mapping[str, str]
    """Repository -> what to do to have its image."""

    def of(self, task: Task) -> str:
        """Return the digest of a task's image.

        Raises:
            SandboxError: it has none.
        """
        if task.repository in self.digests:
            return self.digests[task.repository]
        raise SandboxError(self.missing.get(task.repository, f"no image was looked up for {task.repository}"))


def find_images(sandbox: DockerSandbox, repositories: Sequence[str], image: str | None = None) -> Images:
    """Return the images of some repositories: those that `ml-bench images build` made, or one given image for all.

    Raises:
        SandboxError: the engine does not answer, or has not the given image.
    """
    if image is not None:
        return Images(dict.fromkeys(repositories, sandbox.image_digest(image)), {})
    digests, missing = {}, {}
    for repository in repositories:
        name = find_image(sandbox.client, repository)
        if name is not None:
            digests[repository] = sandbox.image_digest(name)
            continue
        try:
            recipe_for(repository)
            missing[repository] = (
                f"no image for {repository}: run `ml-bench images build {repository}`, or give --image"
            )
        except EnvironmentUnknown as error:
            missing[repository] = str(error)
    return Images(digests, missing)


def references(tasks: TaskSet) -> Predictions:
    """Return the references of all tasks as predictions of one candidate each."""
    return Predictions(
        items={
            task.task_id: Prediction(task_id=task.task_id, candidates=(task.output,), where="reference")
            for task in tasks.tasks
        },
        problems=[],
    )


def identity(settings: Settings, tasks: TaskSet, images: Images) -> dict[str, Any]:
    """Return what results must have in common to belong to one run, as JSON values.

    A repository whose image is missing is left out: that image may be built, and the run be gone on with. The
    selection is in it: of one folder, numbers over some repositories must not replace those over others.
    """
    return {
        "harness": harness_version(),
        "settings": settings.model_dump(mode="json"),
        "tasks": tasks.digest,
        "selection": list(tasks.selection),
        **{f"image of {repository}": digest for repository, digest in sorted(images.digests.items())},
    }


def about(command: Sequence[str], capacity: Capacity, workers: Workers, tasks: TaskSet) -> dict[str, Any]:
    """Return what `run.json` tells besides the identity: where, when and how the run was made."""
    return {
        "command": list(command),
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "engine": capacity.description,
        "cpus": len(capacity.cpus),
        "memory_bytes": capacity.memory_bytes,
        "load_before": capacity.load,
        "workers": len(workers.slots),
        "cpus_are_shared": not all(workers.slots),
        "origin": tasks.origin,
        "split": tasks.split,
        "selection": list(tasks.selection),
    }


def reference_checks(tasks: TaskSet, extract_mode: Literal["auto", "none"]) -> dict[str, dict[Rule, Checks]]:
    """Return the static checks of every reference, made as those of the candidates are: the ceiling of a score."""
    found: dict[str, dict[Rule, Checks]] = {}
    for task in tasks.tasks:
        program = extract(task.output, task.language, extract_mode).program
        found[task.task_id] = {rule: check(program, task, rule) for rule in RULES}
    return found


@dataclass
class Judgement:
    """One evaluation: it executes the candidates that have no result yet, and sums up those that have."""

    predictions: Predictions
    tasks: TaskSet
    settings: Settings
    folder: RunFolder | None = None
    """Where results are kept; None keeps them in memory."""
    digests: Mapping[str, str] = field(default_factory=dict)
    """Repository -> digest of the only image whose stored results count; of a repository that is not there all do."""
    _kept: list[Result] = field(default_factory=list)

    def todo(self, *, retry_errors: bool = False) -> list[Candidate]:
        """Return the candidates without a result, in the order of the tasks.

        Args:
            retry_errors: whether an environment error counts as no result.
        """
        known = {
            (result.task_id, result.candidate)
            for result in self.results()
            if not (retry_errors and result.execution and result.execution.outcome == "environment_error")
        }
        return [c for c in candidates(self.predictions, self.tasks) if (c.task.task_id, c.index) not in known]

    def results(self) -> Iterator[Result]:
        """Yield the results that belong to the candidates of this evaluation, one for each that has one."""
        expected = {(c.task.task_id, c.index): text_sha256(c.text) for c in candidates(self.predictions, self.tasks)}
        for result in self.folder.results() if self.folder else self._kept:
            if expected.get((result.task_id, result.candidate)) != result.candidate_sha256:
                continue
            # Without an image nothing ran: an environment error, or an answer without a program.
            image = result.execution.image if result.execution else ""
            if image in ("", self.digests.get(result.repository, image)):
                yield result

    def execute(
        self,
        todo: Sequence[Candidate],
        sandbox: Sandbox,
        images: Images,
        workers: Workers,
        stop: Stop | None = None,
    ) -> Iterator[Result]:
        """Execute candidates and yield their results as they become known; each is stored before it is yielded.

        Raises:
            SandboxError: the engine does not answer any more; what was yielded is stored.
        """
        evaluation = Evaluation(sandbox, self.settings, images.of, workers, stop=stop)
        for result in evaluation.run(todo):
            if self.folder is not None:
                self.folder.append(result)
            else:
                self._kept.append(result)
            yield result

    def summary(self, *, ks: Sequence[int], rule: Rule, estimator: Estimator) -> Summary:
        """Return the numbers of all results so far, and store them in the folder."""
        found = summarise(
            self.results(),
            self.tasks,
            {task_id: len(prediction.candidates) for task_id, prediction in self.predictions.items.items()},
            ks=ks,
            rule=rule,
            estimator=estimator,
            reference_checks=reference_checks(self.tasks, self.settings.extract),
        )
        if self.folder is not None:
            self.folder.write_summary(found)
        return found
