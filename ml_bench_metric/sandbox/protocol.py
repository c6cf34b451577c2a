"""The protocol between the judge and the place where candidates run. Docker stands behind it; others can."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol

from ml_bench_metric.sandbox.execution import Execution
from ml_bench_metric.sandbox.limits import Limits
from ml_bench_metric.sandbox.overlay import Overlay
from ml_bench_metric.tasks import Form, Language


@dataclass(frozen=True)
class Job:
    """One candidate to execute: its program, where it runs and what it may use."""

    program: str
    language: Language
    image: str
    """Name or digest of the image."""
    working_folder: str
    """Absolute folder in the image."""
    limits: Limits
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables on top of the image's own; nothing of the host is ever added."""
    user: str = "1000:1000"
    """uid and gid of the candidate, by number, so that no image has to know a name."""
    tmp_folder: str = ""
    """Folder in the image whose contents are in `/tmp` when the candidate starts, if it is there: `/tmp` is made anew
    for every candidate, so that what an image has there is not seen."""
    overlay: Overlay | None = None
    """What is changed in the copy of the image before the candidate starts."""
    form: Form = "answer"
    """`run.sh`: the program is the file of this name in the working folder, and the command lines of the processes that
    it starts are recorded where they can be seen."""


@dataclass(frozen=True)
class Capacity:
    """What the place has to give to all candidates together."""

    cpus: tuple[int, ...]
    """Numbers of its CPUs."""
    memory_bytes: int
    description: str
    """Its kind and version, for the record of a run."""
    gpus: tuple[str, ...] = ()
    """Ids of its GPUs, in its own words; empty where it has none to give."""
    place: str = ""
    """What tells its CPUs from those of other machines; empty for this machine."""
    load: float | None = None
    """Number of processes that ran or waited for a CPU there, mean of the last minute; None where it is not known."""


@dataclass(frozen=True)
class Slot:
    """What is a candidate's own while it runs."""

    cpus: tuple[int, ...] = ()
    """Numbers of its CPUs; empty: the time of `Limits.cpus` CPUs, on any of them."""
    gpus: tuple[str, ...] = ()
    """Ids of its GPUs, from `Capacity.gpus`; empty: `Limits.gpus` of any."""


ANY_SLOT = Slot()
"""No CPU or GPU in particular."""


def do_nothing() -> None:
    """Do nothing."""


class Prepared(Protocol):
    """A sandbox made for one job, in which the candidate has not started yet."""

    def run(self, freed: Callable[[], None] = do_nothing) -> Execution:
        """Run the candidate to its end or a limit, and return what happened.

        Never raises for what a candidate or the engine does: a fault of the sandbox is an `environment_error`. The
        sandbox is removed in the background afterwards.

        Args:
            freed: called, at most once, where nothing of the candidate is left and what it owned is free, while it is
                still being found out what happened.
        """

    def discard(self) -> None:
        """Remove the sandbox without running the candidate."""


class Sandbox(Protocol):
    """A place that executes candidates, each in a fresh copy of its image. Methods may be called from any thread."""

    @property
    def kind(self) -> str:
        """What executes, in one word: what is known of executions in one kind says nothing of those in another."""

    def image_digest(self, image: str) -> str:
        """Return the digest `sha256:…` of an image.

        Raises:
            SandboxError: the engine does not answer, or has no such image; the message says what to do.
        """

    def capacity(self) -> Capacity:
        """Return what there is to give.

        Raises:
            SandboxError: the engine does not answer.
        """

    def prepare(self, job: Job, slot: Slot = ANY_SLOT) -> Prepared:
        """Make the sandbox of a job ahead of its run.

        Args:
            job: what will run.
            slot: which CPUs and GPUs the candidate owns.

        Raises:
            SandboxError: the sandbox cannot be made, or the overlay not be applied.
        """

    def close(self) -> None:
        """Remove every sandbox that is left, and wait until that is done."""

    def __enter__(self) -> Sandbox:
        """Return self."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""


class SandboxError(RuntimeError):
    """The sandbox failed, or cannot be had; never the candidate's fault. The message says what to do."""
