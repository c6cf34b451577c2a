"""Case: a hostile candidate, and what must become of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ml_bench_metric.sandbox.execution import Execution, Outcome
from ml_bench_metric.sandbox.limits import MIB, Limits
from ml_bench_metric.tasks import Language

Passes = tuple[bool, bool]
"""Whether a candidate passes under the rules `original` and `strict`."""

PASSES: Passes = (True, True)
FAILS: Passes = (False, False)
WAITS: Passes = (True, False)
"""Of one that is still running and has computed nothing."""

KINDS = (
    "infinite loop",
    "ignores SIGTERM",
    "double-forked daemon with closed descriptors",
    "fork bomb",
    "thread bomb",
    "memory bomb: anonymous",
    "memory bomb: page cache",
    "memory bomb: /dev/shm",
    "memory bomb: tmpfs",
    "disk filler in the layer",
    "disk filler in /tmp",
    "a million small files",
    "5 GB of output on stdout",
    "5 GB of output on stderr",
    "5 GB of output without newlines",
    "5 GB of output with invalid UTF-8",
    "5 GB of output with NULs",
    "5 GB of output with ANSI and carriage returns",
    "output after exit by a child",
    "reading stdin",
    "writing to its own stdin/stdout channel",
    "printing whatever our protocol looks like",
    "killing every process it can",
    "exec tricks",
    "exit by each signal",
    "exit codes 0-255",
    "symlinks to places outside",
    "hard links to places outside",
    "setuid probes",
    "capability probes",
    "mount",
    "unshare",
    "ptrace",
    "bpf",
    "keyctl",
    "/proc writes",
    "/sys writes",
    "the Docker socket",
    "cloud metadata address",
    "DNS",
    "loopback",
    "IPv6",
    "raw sockets",
    "reading the reference answer",
    "reading other candidates' files",
    "environment variables of the host",
    "changing the repository for the next candidate",
    "a 20 MB candidate",
    "a candidate with NUL",
    "a candidate with BOM",
    "a candidate with CRLF",
    "a candidate with non-BMP characters",
    "sleeping until the limit while pretending to train",
    "detecting the judge and behaving",
)
"""Every kind of hostility that issue 5 names. Each has a case at the least."""

SMALL: Mapping[str, float] = {
    "seconds": 20,
    "memory_bytes": 128 * MIB,
    "processes": 48,
    "tmp_bytes": 32 * MIB,
    "shm_bytes": 16 * MIB,
    "disk_bytes": 64 * MIB,
    "output_bytes": 4 * MIB,
    "kept_bytes": 4096,
}
"""Limits of a case that names no others. The time is for a busy machine: what ends by itself does so at once."""

HANG_SECONDS = 2.0
"""Time limit of what never ends by itself."""


@dataclass(frozen=True)
class Ending:
    """What must become of a candidate."""

    outcome: Outcome
    status: int | None
    passes: Passes


@dataclass(frozen=True)
class Case:
    """A hostile candidate."""

    name: str
    kinds: tuple[str, ...]
    """Of `KINDS`; which ones it is a case of."""
    program: str
    ending: Ending
    language: Language = "bash"
    limits: Mapping[str, float] = field(default_factory=dict)
    """That differ from `SMALL`."""
    also: Callable[[Execution], bool] = lambda execution: True
    """What else must be true of its execution."""
    reference: str = ""
    """Id of the sample's task whose static checks it must pass too; empty: they count as passed."""

    def chosen_limits(self) -> Limits:
        """Return the limits under which it runs."""
        return Limits.model_validate({**SMALL, **self.limits})


def exits(status: int) -> Ending:
    """Return the ending of a program that ends by itself."""
    return Ending("exited", status, PASSES if status == 0 else FAILS)


def killed(number: int) -> Ending:
    """Return the ending of a program that a signal ends."""
    return Ending("killed", 128 + number, FAILS)


COMPUTES = Ending("still_running", None, PASSES)
SLEEPS = Ending("still_running", None, WAITS)
OUTPUT_LIMIT = Ending("output_limit", None, FAILS)
DISK_FULL = Ending("disk_full", None, FAILS)


def out_of_memory(status: int = 128 + 9) -> Ending:
    """Return the ending of a program whose memory is up."""
    return Ending("out_of_memory", status, FAILS)
