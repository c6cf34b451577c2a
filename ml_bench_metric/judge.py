"""From predictions to the numbers of a run: the judge's parts in their order, for the command line and `evaluate`."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal

from ml_bench_metric import agent_scripts
from ml_bench_metric.checks import Checks, Rule, check
from ml_bench_metric.doctor import Finding, Patient, quick
from ml_bench_metric.environments import ready_made
from ml_bench_metric.environments.engine_calls import told
from ml_bench_metric.environments.images import AssetsWanted, TaskImage, list_images, serving_images
from ml_bench_metric.environments.recipe import Device
from ml_bench_metric.environments.registry import EnvironmentUnknown, recipe_for
from ml_bench_metric.evaluation import Candidate, Evaluation, Settings, Stop, candidates
from ml_bench_metric.execution_cache import ExecutionCache
from ml_bench_metric.extraction import extract
from ml_bench_metric.pass_at_k import Estimator
from ml_bench_metric.predictions import Prediction, Predictions
from ml_bench_metric.results import RULES, Result, candidate_sha256
from ml_bench_metric.sandbox.docker_sandbox import DockerSandbox
from ml_bench_metric.sandbox.protocol import Capacity, Sandbox, SandboxError
from ml_bench_metric.store import RunFolder
from ml_bench_metric.summary import Summary, summarise
from ml_bench_metric.tasks import Form, Task, TaskSet, form_of
from ml_bench_metric.workers import Workers

CANDIDATE_DIGITS = 16
"""How many hex digits of a candidate's SHA-256 `run.json` tells."""


def harness_version() -> str:
    """Return the version of this package, `unknown` where it runs without being installed."""
    try:
        return version("ml-bench")
    except PackageNotFoundError:
        return "unknown"


@dataclass(frozen=True)
class Images:
    """Which image serves each task, and why some have none."""

    by_task: Mapping[str, TaskImage]
    """`task_id` -> its image."""
    missing: Mapping[str, str]
    """`task_id` -> what to do to have its image."""

    def of(self, task: Task) -> TaskImage:
        """Return a task's image.

        Raises:
            SandboxError: it has none.
        """
        if task.task_id in self.by_task:
            return self.by_task[task.task_id]
        raise SandboxError(self.missing.get(task.task_id, f"no image was looked up for {task.repository}"))

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why tasks have no image, each reason once."""
        return tuple(dict.fromkeys(self.missing.values()))

    def require_one(self) -> None:
        """Look whether anything can be executed at all.

        Raises:
            SandboxError: no task has an image, though there are tasks.
        """
        if self.missing and not self.by_task:
            raise SandboxError("nothing can be executed: " + "; ".join(self.reasons))

    @property
    def digests(self) -> dict[str, str]:
        """`task_id` -> digest of its image."""
        return {task_id: image.digest for task_id, image in self.by_task.items()}


def find_images(
    sandbox: DockerSandbox,
    tasks: Iterable[Task],
    image: str | None = None,
    *,
    assets: AssetsWanted = "auto",
    device: Device = "cpu",
    bare: bool = False,
) -> Images:
    """Return the images of some tasks: those that `ml-bench images build` made, or one given image for all.

    Args:
        sandbox: whose engine has them.
        tasks: the tasks.
        image: name or digest of an image for all of them: one that this project made, or one of the upstream layout.
        assets: which assets the images are to have; see `serving_images`.
        device: what they are made for.
        bare: whether they are to be bare ones, in which agents set everything up.

    Raises:
        SandboxError: the engine does not answer, or has not the given image.
    """
    if image is not None:
        return Images(*ready_made.find(sandbox.client, image, sandbox.image_digest(image), tasks))
    built = list_images(sandbox.client)
    by_task, missing = {}, {}
    for task in tasks:
        serving = serving_images(built, task.repository, task.task_id, assets=assets, device=device, bare=bare)
        if serving:
            by_task[task.task_id] = TaskImage(digest=serving[0].digest, assets=serving[0].assets)
            continue
        try:
            recipe = recipe_for(task.repository, task.task_id)
        except EnvironmentUnknown as error:
            missing[task.task_id] = str(error)
            continue
        options = ("" if assets == "auto" or bare else f" --assets {assets.replace('_', '-')}") + (
            " --bare" if bare else " --device gpu" if device == "gpu" else ""
        )
        missing[task.task_id] = (
            f"no image for {task.repository}: run `ml-bench images build {recipe.name}{options}`, or give --image"
        )
    return Images(by_task, missing)


def references(tasks: TaskSet) -> Predictions:
    """Return the references of all tasks as predictions of one candidate each; of split A, each as a `run.sh`."""
    form = form_of(tasks.split)
    return Predictions(
        items={
            task.task_id: Prediction(task_id=task.task_id, candidates=(_reference(task, form),), where="reference")
            for task in tasks.tasks
        },
        problems=[],
        form=form,
    )


def _reference(task: Task, form: Form) -> str:
    return agent_scripts.reference_script(task) if form == "run.sh" else task.output


def identity(settings: Settings, tasks: TaskSet, images: Images, form: Form = "answer") -> dict[str, Any]:
    """Return what results must have in common to belong to one run, as JSON values.

    A repository whose image is missing is left out: that image may be built, and the run be gone on with. The
    selection is in it: of one folder, numbers over some repositories must not replace those over others.

    Args:
        settings: of the run.
        tasks: that count.
        images: of the tasks.
        form: what the candidates are. Only `run.sh` is told.
    """
    return {
        "harness": harness_version(),
        **({} if form == "answer" else {"form": form}),
        "settings": settings.model_dump(mode="json"),
        "tasks": tasks.digest,
        "selection": list(tasks.selection),
        "excluded": [one.model_dump(mode="json") for one in tasks.excluded],
        **_image_identity(tasks, images),
    }


def _image_identity(tasks: TaskSet, images: Images) -> dict[str, str]:
    """Return `image of <repository>` -> its digest and kind of assets, several where tasks have different ones."""
    found: dict[str, dict[str, None]] = {}
    for task in tasks.tasks:
        if task.task_id in images.by_task:
            image = images.by_task[task.task_id]
            said = image.digest if image.assets in ("not_needed", "unknown") else f"{image.digest} ({image.assets})"
            found.setdefault(f"image of {task.repository}", {})[said] = None
    return {name: ", ".join(sorted(digests)) for name, digests in sorted(found.items())}


def about(
    command: Sequence[str], capacity: Capacity, workers: Workers, tasks: TaskSet, predictions: Predictions, repeats: int
) -> dict[str, Any]:
    """Return what `run.json` tells besides the identity: where, when and how the run was made, and what was judged."""
    return {
        "command": list(command),
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "engine": capacity.description,
        "cpus": len(capacity.cpus),
        "gpus": len(capacity.gpus),
        "memory_bytes": capacity.memory_bytes,
        "load_before": capacity.load,
        "workers": len(workers.slots),
        "cpus_are_shared": not all(slot.cpus for slot in workers.slots),
        "source": tasks.source,
        "revision": tasks.revision,
        "origin": tasks.origin,
        "split": tasks.split,
        "selection": list(tasks.selection),
        "excluded": [one.model_dump(mode="json") for one in tasks.excluded],
        "repeats": repeats,
        "candidates": {
            task_id: [
                candidate_sha256(text, prediction.overlay(index))[:CANDIDATE_DIGITS]
                for index, text in enumerate(prediction.candidates)
            ]
            for task_id, prediction in predictions.items.items()
        },
    }


def reference_checks(
    tasks: TaskSet, extract_mode: Literal["auto", "none"], form: Form = "answer"
) -> dict[str, dict[Rule, Checks]]:
    """Return the static checks of every reference, made as those of the candidates are: the ceiling of a score."""
    found: dict[str, dict[Rule, Checks]] = {}
    for task in tasks.tasks:
        if form == "run.sh":
            script = agent_scripts.reference_script(task)
            found[task.task_id] = {rule: agent_scripts.check_all(script, task, rule, {}) for rule in RULES}
            continue
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
    repeats: int = 1
    """How often each candidate is executed. Scores come from the first time; the others tell whether it is flaky."""
    cache: ExecutionCache | None = None
    """Executions that are known; None executes everything."""
    digests: Mapping[str, str] = field(default_factory=dict)
    """`task_id` -> digest of the only image whose stored results count; of a task that is not there all do."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """`task_id` -> how long a candidate is likely to run, where that is known; others may take their whole limit."""
    _kept: list[Result] = field(default_factory=list)

    def todo(self, *, retry_errors: bool = False) -> list[Candidate]:
        """Return the candidates without a result, in the order of the tasks.

        Args:
            retry_errors: whether an environment error counts as no result.
        """
        known = {
            (result.task_id, result.candidate, result.repeat)
            for result in self.results()
            if not (retry_errors and result.execution and result.execution.outcome == "environment_error")
        }
        return [
            c
            for c in candidates(self.predictions, self.tasks, self.repeats)
            if (c.task.task_id, c.index, c.repeat) not in known
        ]

    def results(self) -> Iterator[Result]:
        """Yield the results that belong to the candidates of this evaluation, one for each that has one."""
        expected = {(c.task.task_id, c.index): c.sha256 for c in candidates(self.predictions, self.tasks)}
        for result in self.folder.results() if self.folder else self._kept:
            if result.repeat >= self.repeats or result.form != self.predictions.form:
                continue
            if expected.get((result.task_id, result.candidate)) != result.candidate_sha256:
                continue
            # Without an image nothing ran: an environment error, or an answer without a program.
            image = result.execution.image if result.execution else ""
            if image in ("", self.digests.get(result.task_id, image)):
                yield result

    def _expected_seconds(self, candidate: Candidate) -> float:
        task = candidate.task
        return self.seconds.get(task.task_id, self.settings.limits_for(task, candidate.form).seconds)

    def _in_order(self, todo: Sequence[Candidate]) -> list[Candidate]:
        return sorted(todo, key=lambda candidate: -self._expected_seconds(candidate))

    def try_out(
        self, todo: Sequence[Candidate], sandbox: Sandbox, images: Images, workers: Workers
    ) -> tuple[Finding, ...]:
        """Return what the quick part of the doctor finds where the first of some candidates will run.

        It takes about a second. Nothing is tried and found where none of them will be executed.

        Raises:
            SandboxError: the engine does not answer.
        """
        evaluation = Evaluation(sandbox, self.settings, images.of, workers, cache=self.cache)
        job = evaluation.first_job(self._in_order(todo))
        if job is None:
            return ()
        info: dict[str, Any] = {}
        if isinstance(sandbox, DockerSandbox):
            with told("asking about the engine"):
                info = dict(sandbox.client.info())
        return tuple(quick(Patient(sandbox, job.image, (), info, job, workers.slots[0])))

    def execute(
        self,
        todo: Sequence[Candidate],
        sandbox: Sandbox,
        images: Images,
        workers: Workers,
        stop: Stop | None = None,
        report: Callable[[str], None] = lambda line: None,
    ) -> Iterator[Result]:
        """Execute candidates and yield their results as they become known; each is stored before it is yielded.

        Those of tasks that take long come first, so that no worker has a long one left when the others are done.

        Raises:
            SandboxError: the engine does not answer any more; what was yielded is stored.
        """
        evaluation = Evaluation(sandbox, self.settings, images.of, workers, stop=stop, cache=self.cache, report=report)
        for result in evaluation.run(self._in_order(todo)):
            if self.folder is not None:
                self.folder.append(result)
            else:
                self._kept.append(result)
            yield result

    def summary(self, *, ks: Sequence[int], rule: Rule, estimator: Estimator) -> Summary:
        """Return the numbers of all results so far."""
        return summarise(
            self.results(),
            self.tasks,
            {task_id: len(prediction.candidates) for task_id, prediction in self.predictions.items.items()},
            ks=ks,
            rule=rule,
            estimator=estimator,
            reference_checks=reference_checks(self.tasks, self.settings.extract, self.predictions.form),
        )
