"""Execution: what happened when a candidate ran. Facts only; `verdicts` says what they mean under a rule."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

Outcome = Literal[
    "exited",
    "still_running",
    "out_of_memory",
    "killed",
    "output_limit",
    "disk_full",
    "environment_error",
]
"""How an execution ended.

`exited`: by itself, with `status` 0 to 255. `still_running`: at the time limit. `out_of_memory`: the kernel killed a
process of it at the memory limit, and it did not end with status 0. `killed`: by a signal that was not ours; the engine
reports 128 + signal, so a program that *returns* such a status cannot be told apart. `output_limit`, `disk_full`: it
was stopped for writing more than it may. `environment_error`: the sandbox failed; never the candidate's fault.
"""


Assets = Literal["unknown", "not_needed", "none", "stand_in", "real"]
"""Which weights and data an image has: not known (an image that this project did not make); none, and its tasks need
none; none, though its tasks need some; small generated ones under the real names, whose numbers mean nothing; real."""


class Record(BaseModel):
    """A record that crosses a boundary (disk, process): immutable, and strict about its fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Output(Record):
    """One stream of a program: its beginning and its end, never all of an unbounded text."""

    head: str = ""
    tail: str = ""
    """What follows `head`, or the last part of the stream where `truncated`."""
    bytes: int = 0
    """Number of bytes that the program wrote to the stream."""
    truncated: bool = False
    """True where bytes between `head` and `tail` were dropped."""


class Times(Record):
    """Wall times of an execution's phases, in seconds."""

    queue: float = 0.0
    """From submission until a worker and its CPUs were free."""
    start: float = 0.0
    """Making the sandbox, until the candidate could start."""
    run: float = 0.0
    """The candidate itself; the time limit counts this alone."""
    teardown: float = 0.0
    """Reading the facts and handing the sandbox over for removal."""


class Execution(Record):
    """What happened when a candidate ran in a sandbox."""

    outcome: Outcome
    status: int | None = None
    """Exit status, 0 to 255, read from the engine; None where the program did not end by itself."""
    times: Times = Times()
    cpu_seconds: float | None = None
    """CPU time of all its processes, user and system; None where it could not be read."""
    ready_seconds: float | None = None
    """For a candidate that is still running: the longest time that one of its threads alive at the limit was running or
    ready to run. Where it is much more than `cpu_seconds`, the machine was busy with other work. None where it is not
    known."""
    peak_memory_bytes: int | None = None
    """Highest memory charged to the sandbox, page cache included; None where it could not be read."""
    oom_kills: int = Field(default=0, ge=0)
    """Number of processes that the kernel killed at the memory limit, as far as known."""
    stdout: Output = Output()
    stderr: Output = Output()
    image: str = ""
    """Digest of the image, `sha256:…`."""
    assets: Assets = "unknown"
    """Which weights and data the image has."""
    gpus: int = Field(default=0, ge=0)
    """Number of GPUs that the candidate was given."""
    reason: str = ""
    """For an `environment_error`: what failed, and what to do."""
    commands: tuple[str, ...] = ()
    """Command lines of processes of a `run.sh`, as bash words: the first and the last that were seen, each once.
    Looked at from outside a few times a second, so that what lives for less than that may be missing."""

    @model_serializer(mode="wrap")
    def _without_what_answers_have_not(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        written: dict[str, Any] = handler(self)
        return written if self.commands else {name: part for name, part in written.items() if name != "commands"}
