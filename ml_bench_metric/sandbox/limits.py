"""Limits: what a candidate may use."""

from __future__ import annotations

from pydantic import Field

from ml_bench_metric.sandbox.execution import Record

MIB = 1024 * 1024
GIB = 1024 * MIB

ORIGINAL_SECONDS = 10.0
"""Time limit of the original judge (ML-Bench's public evaluation code), for every repository but the two below."""

SCRIPT_SECONDS = 120.0
"""Time limit of a `run.sh`, whatever the repository: that of the published runs of agents."""


class Limits(Record):
    """What one candidate may use. All are enforced by the kernel or from outside the sandbox."""

    seconds: float = Field(default=ORIGINAL_SECONDS, gt=0, le=7 * 24 * 3600)
    """Wall time of the candidate, in seconds."""
    cpus: int = Field(default=1, ge=1)
    """CPUs that the candidate owns while it runs."""
    gpus: int = Field(default=0, ge=0)
    """GPUs that the candidate owns while it runs; of others it sees nothing. Their memory is not limited."""
    memory_bytes: int = Field(default=8 * GIB, ge=16 * MIB)
    """Memory, in bytes; swap is not added to it."""
    processes: int = Field(default=512, ge=8)
    """Processes and threads at one time."""
    tmp_bytes: int = Field(default=1 * GIB, ge=1 * MIB)
    """Size of `/tmp`, in bytes; what is stored there counts as memory too."""
    shm_bytes: int = Field(default=256 * MIB, ge=1 * MIB)
    """Size of `/dev/shm`, in bytes; what is stored there counts as memory too."""
    disk_bytes: int = Field(default=8 * GIB, ge=1 * MIB)
    """What the candidate may write outside `/tmp` and `/dev/shm`, in bytes: no single file can be larger, and the sum
    is measured every second, with deleted files that are still open where the harness is root on the engine's machine.
    The number of files is not limited: making them ends at the time limit, and measuring many takes longer, so that
    their sum is looked at less often."""
    output_bytes: int = Field(default=64 * MIB, ge=1024)
    """Standard output and error together, in bytes; beyond it the candidate is stopped."""
    kept_bytes: int = Field(default=16 * 1024, ge=256)
    """How much of each stream is kept, half as head and half as tail, in bytes."""


def original_seconds(github_id: int, language: str) -> float:
    """Return the original judge's time limit, in seconds, for a task of a repository.

    10 s; 4 s for vid2vid (github_id 5); 7 s for Python programs of pytorch-image-models (github_id 11). Source:
    ML-Bench's public evaluation code at its head.
    """
    if github_id == 5:
        return 4.0
    if github_id == 11 and language == "python":
        return 7.0
    return ORIGINAL_SECONDS
