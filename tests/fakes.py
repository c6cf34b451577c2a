"""A sandbox without an engine: what the tests of the judge around it need."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType

from ml_bench_metric.doctor import QUICK
from ml_bench_metric.sandbox.execution import Execution, Output, Times
from ml_bench_metric.sandbox.protocol import ANY_SLOT, Capacity, Job, SandboxError, Slot, do_nothing

DIGEST = "sha256:" + "0" * 64


def by_program(job: Job) -> Execution:
    """What happens: a program `exit N` exits with N, `hang` is still running, anything else prints itself."""
    if job.program.startswith("exit "):
        return Execution(outcome="exited", status=int(job.program[5:].split()[0]), image=DIGEST)
    if job.program.startswith("hang"):
        return Execution(outcome="still_running", cpu_seconds=0.0, image=DIGEST)
    return Execution(outcome="exited", status=0, stdout=Output(head=job.program, bytes=len(job.program)), image=DIGEST)


def by_trial(job: Job) -> Execution:
    """What happens to the programs that try out a machine: what must."""
    if job.program.startswith("exit "):
        return by_program(job)
    return Execution(outcome="exited", status=0, cpu_seconds=0.2, peak_memory_bytes=10**6, image=DIGEST)


_TRIALS = {trial.program for trial in QUICK}


class FakeSandbox:
    """Runs nothing; counts what was prepared, run and discarded. What tries it out is counted apart."""

    kind = "fake"

    def __init__(self, behave: Callable[[Job], Execution] = by_program, seconds: float = 0.0) -> None:
        self.behave, self.seconds = behave, seconds
        self.behave_tried: Callable[[Job], Execution] = by_trial
        self.trials: list[tuple[Job, Slot]] = []
        self.prepared: list[Job] = []
        self.run: list[Job] = []
        self.open = 0
        self.most_at_a_time = 0
        self.slots: list[Slot] = []
        self.gpus: tuple[str, ...] = ()
        self.answers = True
        self.refuse: Callable[[Job], bool] = lambda job: False
        self._lock = threading.Lock()
        self._running = 0

    def image_digest(self, image: str) -> str:
        return DIGEST

    def capacity(self) -> Capacity:
        if not self.answers:
            raise SandboxError("the engine does not answer")
        return Capacity(cpus=(0, 1), memory_bytes=2**40, description="fake", gpus=self.gpus)

    def prepare(self, job: Job, slot: Slot = ANY_SLOT) -> FakePrepared:
        trial = job.program in _TRIALS and not job.tmp_folder
        with self._lock:
            if trial:
                self.trials.append((job, slot))
            else:
                self.prepared.append(job)
                self.slots.append(slot)
            if self.refuse(job):
                raise SandboxError("no container could be made")
            self.open += 1
        return FakePrepared(self, job, trial=trial)

    def close(self) -> None:
        pass

    def __enter__(self) -> FakeSandbox:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


class FakePrepared:
    """A sandbox of one job: used once, either way."""

    def __init__(self, sandbox: FakeSandbox, job: Job, *, trial: bool = False) -> None:
        self._sandbox, self._job, self._trial = sandbox, job, trial
        self._gone = threading.Event()

    def run(self, freed: Callable[[], None] = do_nothing) -> Execution:
        sandbox = self._sandbox
        if self._trial:
            self.discard()
            return sandbox.behave_tried(self._job)
        with sandbox._lock:
            sandbox.run.append(self._job)
            sandbox._running += 1
            sandbox.most_at_a_time = max(sandbox.most_at_a_time, sandbox._running)
        began = time.monotonic()
        removed = self._gone.wait(sandbox.seconds) if sandbox.seconds else False
        execution = sandbox.behave(self._job)
        with sandbox._lock:
            sandbox._running -= 1
        self.discard()
        if removed:
            return Execution(outcome="environment_error", reason="removed while it ran")
        return execution.model_copy(update={"times": Times(run=time.monotonic() - began)})

    def discard(self) -> None:
        with self._sandbox._lock:
            if not self._gone.is_set():
                self._gone.set()
                self._sandbox.open -= 1
