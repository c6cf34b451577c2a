"""What the sandbox has not, or not enough of: memory, disk, a GPU, a network; in the words of those who miss it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ml_bench_metric.causes.kinds import FailureCause


def any_of(*patterns: str) -> re.Pattern[str]:
    """Return a pattern that finds each of some, in either case."""
    return re.compile("|".join(patterns), re.IGNORECASE)


_WORDS: Mapping[FailureCause, re.Pattern[str]] = {
    "out_of_memory": any_of(
        r"cuda(?: error:)? out of memory",
        r"\bOutOfMemoryError\b",
        r"\bMemoryError\b",
        r"cannot allocate memory",
        r"can't allocate memory",
        r"unable to allocate .{1,60} for an array",
    ),
    "disk_limit": any_of(r"no space left on device", r"disk quota exceeded"),
    "needs_gpu": any_of(
        r"torch not compiled with cuda",
        r"'torch\._C' has no attribute '_cuda",
        r"found no nvidia driver",
        r"no cuda gpus are available",
        r"no cuda-capable device",
        r"cuda driver version is insufficient",
        r"deserialize object on (?:a )?cuda device",
        r"cuda is not available",
        r"device api cuda is not enabled",
        r"not (?:compiled|built) with (?:cuda|gpu)",
        r"invalid (?:cuda )?device (?:id|ordinal)",
        r"nvidia-smi: (?:command )?not found",
        r"cuda_home environment variable is not set",
        r"libcuda(?:rt)?\.so",
        r"requires? (?:a |at least one )?(?:gpu|cuda)\b",
        r"could not find a gpu",
    ),
    "needs_network": any_of(
        r"temporary failure in name resolution",
        r"name or service not known",
        r"could not resolve host",
        r"unable to resolve host",
        r"\bNameResolutionError\b",
        r"network is unreachable",
        r"failed to establish a new connection",
        r"couldn't connect to '?https?:",
        r"\bLocalEntryNotFoundError\b",
        r"\bOfflineModeIsEnabled\b",
        r"max retries exceeded with url",
        r"could not find a version that satisfies the requirement",
    ),
}


def lacking(line: str) -> FailureCause | None:
    """Return what a line of an output says to be lacking, None where it says no such thing."""
    return next((cause for cause, pattern in _WORDS.items() if pattern.search(line)), None)
