"""LiveJudge: candidates judged one at a time as they come, for harnesses that have a loop of their own."""

from __future__ import annotations

import atexit
import logging
import threading
from typing import Literal

from ml_bench_metric import judge
from ml_bench_metric.claims import claimed
from ml_bench_metric.evaluation import Candidate, Evaluation, Settings, Stop
from ml_bench_metric.execution_cache import ExecutionCache
from ml_bench_metric.results import Result
from ml_bench_metric.sandbox import docker_engine
from ml_bench_metric.sandbox.docker_sandbox import DockerSandbox
from ml_bench_metric.sandbox.protocol import SandboxError
from ml_bench_metric.tasks import TaskSet
from ml_bench_metric.workers import allot

_log = logging.getLogger(__name__)


class LiveJudge:
    """Executes one candidate per call, each with CPUs and memory of its own. Methods may be called from any thread.

    Nothing is opened before the first candidate comes. The connection to the engine then stays until the process ends,
    but CPUs are owned only while a candidate runs: whatever else is evaluated on the machine gets them in between.
    """

    def __init__(
        self,
        tasks: TaskSet,
        *,
        extract: Literal["auto", "none"] = "auto",
        timeout: float | None = None,
        workers: int | None = None,
        image: str | None = None,
    ) -> None:
        """Say how candidates run.

        Args:
            tasks: those that candidates may be for.
            extract: whether programs are taken out of the candidates' texts, or are the texts.
            timeout: time limit in seconds; None for the original judge's.
            workers: candidates at a time, at the most; None for as many as fit.
            image: runs everything; None for the images that `ml-bench images build` made.

        Raises:
            ValueError: a value cannot be used.
        """
        self._tasks = tasks
        self._settings = Settings(extract=extract, seconds=timeout)
        self._workers = workers
        self._image = image
        self._cache = ExecutionCache()
        self._lock = threading.Lock()
        self._open: tuple[DockerSandbox, judge.Images] | None = None

    def workers(self) -> int:
        """Return how many candidates can run at a time.

        Raises:
            SandboxError: no engine answers, or no task has an image.
        """
        sandbox, _ = self._opened()
        return len(allot(self._workers, self._settings.limits, sandbox.capacity()).slots)

    def execute(self, task_id: str, text: str, index: int = 0, stop: Stop | None = None) -> Result:
        """Execute a candidate and return what became of it; `verdicts.verdict` says what that means.

        It waits while others own the machine. A sandbox that failed is an execution with `environment_error`.

        Args:
            task_id: of its task.
            text: the answer.
            index: its position among the answers to the task, from 0.
            stop: lets another thread end it early.

        Raises:
            SandboxError: no engine answers, no task has an image, or it was ended early.
        """
        sandbox, images = self._opened()
        candidate = Candidate(self._tasks.by_id[task_id], index, text)
        with claimed(sandbox.capacity(), self._settings.limits, 1, waiting=_log.warning) as own:
            workers = allot(1, self._settings.limits, own)
            evaluation = Evaluation(sandbox, self._settings, images.of, workers, stop=stop, cache=self._cache)
            for result in evaluation.run([candidate]):
                return result
        raise SandboxError(f"answer {index} of task {task_id} was not executed: it was ended early")

    def _opened(self) -> tuple[DockerSandbox, judge.Images]:
        with self._lock:
            if self._open is None:
                sandbox = DockerSandbox()
                try:
                    docker_engine.sweep(sandbox.client)
                    images = judge.find_images(sandbox, self._tasks.tasks, self._image)
                    images.require_one()
                except BaseException:
                    sandbox.close()
                    raise
                self._open = sandbox, images
                atexit.register(sandbox.close)
            return self._open
