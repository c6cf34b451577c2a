"""One evaluation: every candidate extracted, checked and executed, in parallel, with nothing lost on the way."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Literal

from pydantic import Field

from ml_bench_metric import agent_scripts
from ml_bench_metric.checks import Checks, Rule, check
from ml_bench_metric.environments.images import TaskImage
from ml_bench_metric.execution_cache import ExecutionCache, execution_key
from ml_bench_metric.extraction import Extraction, Mode, extract
from ml_bench_metric.handing_out import Feed, Place
from ml_bench_metric.predictions import Predictions
from ml_bench_metric.results import RULES, Program, Result, candidate_sha256
from ml_bench_metric.sandbox.execution import Assets, Execution, Record, Times
from ml_bench_metric.sandbox.limits import SCRIPT_SECONDS, Limits, original_seconds
from ml_bench_metric.sandbox.overlay import Overlay
from ml_bench_metric.sandbox.protocol import Job, Prepared, Sandbox, SandboxError, Slot
from ml_bench_metric.tasks import WORKSPACE, Form, Task, TaskSet
from ml_bench_metric.watchdog import Watchdog
from ml_bench_metric.workers import Workers

TMP_ASSETS = "/opt/assets/tmp"
"""The image's folder that has a folder `<task_id>` for each task that finds something in its `/tmp`."""

_ATTEMPTS = 2
"""How often a candidate is tried whose sandbox fails: a passing fault of the engine must not cost a verdict."""

_RETRY_SECONDS = 1.0

_PREPARE_PATIENCE = 20.0
_RUN_PATIENCE = 10.0
"""Seconds beyond which an engine is said to have stalled: over a container, and over a candidate beyond its limit."""

_LOOK_SECONDS = 0.2
"""How often a reader that waits for results looks whether the run is to stop."""


class Settings(Record):
    """What decides on a candidate's execution, apart from its text, its task and its image."""

    extract: Literal["auto", "none"] = "auto"
    """Whether the program is taken out of the candidate's text, or the text is the program; that of a `run.sh` is."""
    seconds: float | None = Field(default=None, gt=0, le=7 * 24 * 3600, allow_inf_nan=False)
    """Time limit in seconds; None for the original judge's, which depends on the task, and 120 s for a `run.sh`."""
    limits: Limits = Limits()
    """The other limits; its `seconds` do not count."""

    def limits_for(self, task: Task, form: Form = "answer") -> Limits:
        """Return all limits of a candidate of a task."""
        seconds = self.seconds
        if seconds is None:
            seconds = SCRIPT_SECONDS if form == "run.sh" else original_seconds(task.github_id, task.language)
        return self.limits.model_copy(update={"seconds": seconds})


@dataclass(frozen=True)
class Candidate:
    """One answer to a task."""

    task: Task
    index: int
    """Its position in the prediction, from 0."""
    text: str
    repeat: int = 0
    """Which of its executions this is, from 0."""
    form: Form = "answer"
    overlay: Overlay | None = None
    """What it brings along."""

    @property
    def sha256(self) -> str:
        """What tells it from other candidates of its task."""
        return candidate_sha256(self.text, self.overlay)

    def extraction(self, mode: Mode) -> Extraction:
        """Return its program; a `run.sh` is its own, unless it is blank."""
        if self.form == "answer":
            return extract(self.text, self.task.language, mode)
        if not self.text.strip():
            return Extraction(None, "none: empty run.sh")
        return Extraction(self.text, "run.sh")


def candidates(predictions: Predictions, tasks: TaskSet, repeats: int = 1) -> Iterator[Candidate]:
    """Yield the candidates of all predictions in the order of the tasks, each as often as it is to be executed."""
    for task in tasks.tasks:
        prediction = predictions.items.get(task.task_id)
        for index, text in enumerate(prediction.candidates if prediction else ()):
            overlay = prediction.overlay(index) if prediction else None
            for repeat in range(repeats):
                yield Candidate(task, index, text, repeat, predictions.form, overlay)


def job_of(
    program: str,
    task: Task,
    image: TaskImage,
    settings: Settings,
    form: Form = "answer",
    overlay: Overlay | None = None,
) -> Job:
    """Return what is executed of a candidate whose program is known."""
    return Job(
        program=program,
        language="bash" if form == "run.sh" else task.language,
        image=image.digest,
        working_folder=image.root + task.working_folder.removeprefix(WORKSPACE),
        limits=settings.limits_for(task, form),
        variables={**image.variables, **task.variables},
        user=image.user,
        tmp_folder=f"{TMP_ASSETS}/{task.task_id}",
        overlay=overlay,
        form=form,
    )


class Stop:
    """How a run is asked to end early. Safe to use from a signal handler."""

    def __init__(self) -> None:
        """Nothing is asked."""
        self._finish = threading.Event()
        self._now = threading.Event()

    def ask(self) -> Literal["finish", "now"]:
        """Ask once to let what runs come to its end, asked again to end at once; return which of them this was."""
        if self._finish.is_set():
            self._now.set()
            return "now"
        self._finish.set()
        return "finish"

    @property
    def finish(self) -> bool:
        """Whether nothing new is to begin."""
        return self._finish.is_set()

    @property
    def now(self) -> bool:
        """Whether not even what runs is waited for."""
        return self._now.is_set()


class Evaluation:
    """Executes candidates on some workers and yields a result for each, in the order in which they end.

    Verdicts do not depend on that order: each candidate has its own copy of the image, its own CPUs and its own GPUs.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        settings: Settings,
        image_of: Callable[[Task], TaskImage],
        workers: Workers,
        *,
        stop: Stop | None = None,
        cache: ExecutionCache | None = None,
        report: Callable[[str], None] = lambda line: None,
    ) -> None:
        """Say where and how candidates run.

        Args:
            sandbox: where.
            settings: how.
            image_of: a task's image. It raises `SandboxError` where there is none: the candidates of
                that task get an `environment_error`, the others are not concerned.
            workers: how many at a time.
            stop: lets somebody else end the run early.
            cache: executions that are known; what is in it is not executed again, and of identical candidates one is.
                None executes everything. It is not used on CPUs that candidates share: how such an execution ends
                depends on the others.
            report: receives a line when the engine takes longer over something than it can where all is well.
        """
        self._watchdog = Watchdog(report)
        self._cache = cache if all(slot.cpus for slot in workers.slots) else None
        self._in_flight = _InFlight()
        self._sandbox = sandbox
        self._settings = settings
        self._image_of = image_of
        self._workers = workers
        self._stop = stop or Stop()
        self._running: set[Prepared] = set()
        self._lock = threading.Lock()
        self._abandoned = False

    def run(self, todo: Iterable[Candidate]) -> Iterator[Result]:
        """Yield a result for each candidate as soon as it is known.

        Closing the iterator, an error in the caller or in a worker, and `Stop` asked twice end what runs at once and
        leave no container; `Stop` asked once lets what runs come to its end.

        Raises:
            SandboxError: the engine does not answer any more. Results yielded before stay valid.
        """
        began = time.monotonic()
        # Bounded, so that results wait for a slow reader here instead of gathering in memory.
        done: _Done = queue.Queue(maxsize=4 * len(self._workers.slots))
        feed = Feed(todo)
        # For each slot: who hands it out, who makes the next sandbox, who runs, and who looks into the last one's end.
        with ThreadPoolExecutor(4 * len(self._workers.slots), thread_name_prefix="ml-bench-worker") as pool:
            for slot in self._workers.slots:
                pool.submit(self._work, slot, feed, pool, done, began)
            working = len(self._workers.slots)
            try:
                while working and not self._stop.now:
                    self._watchdog.look()
                    try:
                        item = done.get(timeout=_LOOK_SECONDS)
                    except queue.Empty:
                        continue
                    if item is None:
                        working -= 1
                    elif isinstance(item, BaseException):
                        raise item
                    else:
                        yield item
            finally:
                feed.close()
                if working:
                    self._abandon()
                while working:
                    working -= done.get() is None

    def first_job(self, todo: Iterable[Candidate]) -> Job | None:
        """Return what is executed first of some candidates; None where nothing is.

        Nothing is executed of an answer without a program, of a task without an image, and of what is known.
        """
        for candidate in todo:
            program = candidate.extraction(self._settings.extract).program
            if program is None:
                continue
            try:
                job = self._job(program, candidate, self._image_of(candidate.task))
            except SandboxError:
                continue
            key = execution_key(job, self._sandbox.kind, repeat=candidate.repeat)
            if self._cache is None or self._cache.get(key) is None:
                return job
        return None

    def _job(self, program: str, candidate: Candidate, image: TaskImage) -> Job:
        return job_of(program, candidate.task, image, self._settings, candidate.form, candidate.overlay)

    def _work(self, slot: Slot, feed: Feed[Candidate], pool: ThreadPoolExecutor, done: _Done, began: float) -> None:
        """Run candidates one after the other.

        While one runs, the next one's sandbox is made, and it is found out what became of the last one.
        """
        place = Place(slot)
        upcoming: Future[_Planned] | None = None
        last: Future[None] | None = None
        running: Future[None] | None = None

        def plan_next() -> Future[_Planned] | None:
            candidate = None if self._stop.finish else feed.next()
            return pool.submit(self._plan, candidate, slot, time.monotonic() - began) if candidate else None

        try:
            upcoming = plan_next()
            while upcoming is not None and not self._stop.finish:
                planned = upcoming.result()
                upcoming = plan_next()
                last, running = running, pool.submit(self._hand_over, planned, place, done)
                planned.over.wait()
                if last is not None:
                    last.result()
        except BaseException as error:
            done.put(error)
        finally:
            if upcoming is not None:
                _discard(upcoming)
            wait(one for one in (last, running) if one is not None)
            done.put(None)

    def _hand_over(self, planned: _Planned, place: Place, done: _Done) -> None:
        """Run a candidate, and hand its results to the reader."""
        try:
            for result in self._results(planned, place):
                done.put(result)
        except BaseException as error:
            done.put(error)
        finally:
            planned.over.set()

    def _plan(self, candidate: Candidate, slot: Slot, queued: float) -> _Planned:
        """Do all that can be done before a candidate runs: extraction, checks, its sandbox."""
        extraction = candidate.extraction(self._settings.extract)
        planned = _Planned(candidate=candidate, extraction=extraction, queued=queued)
        if candidate.form == "answer":
            planned.checks = {rule: check(extraction.program, candidate.task, rule) for rule in RULES}
        elif extraction.program is not None:
            planned.scripts = agent_scripts.named_scripts(extraction.program, candidate.overlay, candidate.task)
        self._prepare(planned, slot)
        return planned

    def _prepare(self, planned: _Planned, slot: Slot) -> None:
        task, program = planned.candidate.task, planned.extraction.program
        if program is None:
            return
        planned.prepared, planned.error = None, ""
        try:
            image = planned.image = self._image_of(task)
        except SandboxError as error:
            planned.error, planned.error_stays = str(error), True
            return
        job = self._job(program, planned.candidate, image)
        if self._cache is not None and not planned.key:
            planned.key = execution_key(job, self._sandbox.kind, repeat=planned.candidate.repeat)
            # In this order: who looked first, and found nothing, could come when the execution has just ended.
            if self._in_flight.waits(planned):
                return
            planned.known = self._cache.get(planned.key)
            if planned.known is not None:
                return
        try:
            with self._watchdog.watch(f"making a container for {task.task_id}", _PREPARE_PATIENCE):
                planned.prepared = self._sandbox.prepare(job, slot)
        except SandboxError as error:
            planned.error = str(error)

    def _results(self, planned: _Planned, place: Place) -> Iterator[Result]:
        """Yield the result of a candidate, and those of the candidates that have waited for it.

        Nothing for one that waits itself: whoever executes the same job yields its result.
        """
        if planned.waits:
            return
        result = self._result(planned, place)
        known = self._learn(planned, result)
        # After it was learned: who comes now finds it in the cache.
        waiting = self._in_flight.end(planned)
        yield result
        for other in waiting:
            other.known = known
            if known is None:
                # What failed there was the sandbox: that says nothing of the others.
                self._prepare(other, place.slot)
            result = self._result(other, place)
            known = known or self._learn(other, result)
            yield result

    def _learn(self, planned: _Planned, result: Result) -> Execution | None:
        """Return what a result tells of all candidates like it, for the cache too; None if it tells nothing."""
        execution = result.execution
        if execution is None or execution.outcome == "environment_error":
            return None
        if self._cache is not None and planned.known is None:
            self._cache.put(planned.key, execution)
        return execution

    def _result(self, planned: _Planned, place: Place) -> Result:
        execution = None
        for attempt in range(_ATTEMPTS):
            if attempt:
                time.sleep(_RETRY_SECONDS)
                self._prepare(planned, place.slot)
            execution = self._execute(planned, place)
            if execution is None or execution.outcome != "environment_error" or self._abandoned or planned.error_stays:
                break
            # Raises where the engine is gone: then the run ends, instead of failing everything that is left.
            self._sandbox.capacity()
        candidate, program = planned.candidate, planned.extraction.program
        checks = planned.checks
        if candidate.form == "run.sh":
            # Only now: what it has started counts.
            commands = execution.commands if execution else ()
            checks = {
                rule: agent_scripts.check_all(program, candidate.task, rule, planned.scripts, commands)
                for rule in RULES
            }
        return Result(
            task_id=candidate.task.task_id,
            repository=candidate.task.repository,
            type=candidate.task.type,
            candidate=candidate.index,
            repeat=candidate.repeat,
            reused=planned.known is not None,
            candidate_sha256=candidate.sha256,
            program=Program.of(program) if program is not None else None,
            extraction=planned.extraction.source,
            checks=checks,
            limit_seconds=self._settings.limits_for(candidate.task, candidate.form).seconds,
            execution=execution,
            form=candidate.form,
            scripts=agent_scripts.kept(planned.scripts),
        )

    def _execute(self, planned: _Planned, place: Place) -> Execution | None:
        if planned.extraction.program is None:
            return None
        if planned.known is not None:
            return planned.known.model_copy(update={"assets": planned.assets})
        if planned.prepared is None:
            return Execution(outcome="environment_error", reason=planned.error, times=Times(queue=planned.queued))
        with place.used() as free:
            execution = self._run(planned, planned.prepared, free)
        times = execution.times.model_copy(update={"queue": planned.queued})
        return execution.model_copy(update={"times": times, "assets": planned.assets})

    def _run(self, planned: _Planned, prepared: Prepared, free: Callable[[], None]) -> Execution:
        def freed() -> None:
            free()
            planned.over.set()

        with self._lock:
            if self._abandoned:
                prepared.discard()
                return Execution(outcome="environment_error", reason="the run was stopped")
            self._running.add(prepared)
        try:
            task = planned.candidate.task
            patience = self._settings.limits_for(task, planned.candidate.form).seconds + _RUN_PATIENCE
            with self._watchdog.watch(f"executing a candidate of {task.task_id}", patience):
                return prepared.run(freed)
        finally:
            with self._lock:
                self._running.discard(prepared)

    def _abandon(self) -> None:
        """End what runs, at once: without its container a candidate's run returns."""
        with self._lock:
            self._abandoned = True
            for prepared in self._running:
                prepared.discard()


@dataclass
class _Planned:
    """A candidate on its way: what is known before it runs."""

    candidate: Candidate
    extraction: Extraction
    queued: float
    checks: dict[Rule, Checks] = field(default_factory=dict)
    """Of an answer. Those of a `run.sh` are made when its execution is known."""
    scripts: dict[str, str] = field(default_factory=dict)
    """Of a `run.sh`: see `named_scripts`."""
    image: TaskImage | None = None
    prepared: Prepared | None = None
    error: str = ""
    error_stays: bool = False
    """Whether another try would fail in the same way: the image that is missing now is missing a second later."""
    key: str = ""
    """Of its execution; empty where nothing is reused."""
    known: Execution | None = None
    """The execution of an identical candidate."""
    over: threading.Event = field(default_factory=threading.Event)
    """Set when its slot can be another one's."""
    waits: bool = False
    """Whether an identical candidate was being executed when it was planned: who executes that yields its result."""

    @property
    def assets(self) -> Assets:
        """The weights and data that its image has."""
        return self.image.assets if self.image else "unknown"


class _InFlight:
    """The executions that are under way, and the candidates that wait for them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[str, list[_Planned]] = {}

    def waits(self, planned: _Planned) -> bool:
        """Return whether the same job is under way; if not, it is under way from now on."""
        with self._lock:
            planned.waits = planned.key in self._waiting
            self._waiting.setdefault(planned.key, []).extend([planned] if planned.waits else [])
            return planned.waits

    def end(self, planned: _Planned) -> list[_Planned]:
        """Take an execution off, and return the candidates that have waited for it."""
        with self._lock:
            return self._waiting.pop(planned.key, [])


_Done = queue.Queue[Result | BaseException | None]
"""What workers hand to the reader: results, an error that ends the run, and None from each worker that has ended."""


def _discard(upcoming: Future[_Planned]) -> None:
    if upcoming.cancel():
        return
    try:
        planned = upcoming.result()
    except Exception:
        # Whatever failed there has made no sandbox that is left.
        return
    if planned.prepared is not None:
        planned.prepared.discard()
