"""Executions that are known: the same program under the same conditions is never executed twice.

The key of an execution is the digest of all that decides on it: program, language, image, working folder, variables,
user, limits, overlay, kind of sandbox, and the version of what executes. A changed image or limit never meets a stale
one.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from ml_bench_metric.cache_folder import cache_folder
from ml_bench_metric.results import text_sha256
from ml_bench_metric.sandbox.execution import Execution
from ml_bench_metric.sandbox.protocol import Job
from ml_bench_metric.sealed import SealBroken, seal, unseal

EXECUTOR_VERSION = 1
"""Part of every key; to be raised when the same job has to end in another execution."""

FOLDER_VARIABLE = "ML_BENCH_CACHE"
"""Environment variable that names another folder for the cache."""

_DAY_SECONDS = 24 * 3600


def execution_key(job: Job, sandbox: str, *, repeat: int = 0) -> str:
    """Return the SHA-256 (hex) of all that decides on an execution.

    Args:
        job: what is executed.
        sandbox: kind of the place where, such as `docker`.
        repeat: which of several executions of the same job it is, from 0.
    """
    parts = (
        *(EXECUTOR_VERSION, sandbox, repeat, text_sha256(job.program), job.language, job.image, job.working_folder),
        *(sorted(job.variables.items()), job.user, job.tmp_folder, job.limits.model_dump(mode="json")),
        # Only where there is one: the keys of answers stay what they were.
        *((job.form,) if job.form != "answer" else ()),
        *((job.overlay.digest,) if job.overlay is not None else ()),
    )
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class CacheSize:
    """How much is stored."""

    executions: int
    bytes: int


class ExecutionCache:
    """A folder of executions, a file each. Any number of processes may use it at a time.

    What cannot be read is not there, and what cannot be stored is not: a cache may be slow or full, but never wrong.
    """

    def __init__(self, folder: Path | None = None) -> None:
        """Know where it is; nothing is made before something is stored.

        Args:
            folder: None for the user's own: `$ML_BENCH_CACHE`, else `ml-bench/executions` in `$XDG_CACHE_HOME`, which
                is `~/.cache` where it is not set.
        """
        self.folder = folder or _users_folder()

    def get(self, key: str) -> Execution | None:
        """Return a stored execution; None if there is none that is whole."""
        try:
            return Execution.model_validate(json.loads(unseal(self._path(key).read_text(encoding="ascii"))))
        except (OSError, UnicodeDecodeError, SealBroken, ValidationError, ValueError):
            return None

    def put(self, key: str, execution: Execution) -> None:
        """Store an execution; do nothing for one that says nothing of the program, or where it cannot be written."""
        if execution.outcome == "environment_error":
            return
        path = self._path(key)
        draft = path.with_name(f"{path.name}.{os.getpid()}-{time.monotonic_ns()}.new")
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                draft.write_text(seal(json.dumps(execution.model_dump())) + "\n", encoding="ascii")
                draft.replace(path)
            finally:
                draft.unlink(missing_ok=True)

    def size(self) -> CacheSize:
        """Return how much is stored."""
        sizes = [path.stat().st_size for path in self._files()]
        return CacheSize(len(sizes), sum(sizes))

    def clear(self, older_than_days: float = 0.0) -> CacheSize:
        """Remove what was stored before so many days, all of it for 0; return what was removed.

        Raises:
            OSError: a file cannot be removed.
        """
        before = time.time() - older_than_days * _DAY_SECONDS
        count = size = 0
        for path in list(self._files()):
            facts = path.stat()
            if facts.st_mtime <= before:
                path.unlink()
                count, size = count + 1, size + facts.st_size
        if not older_than_days:
            shutil.rmtree(self.folder, ignore_errors=True)
        return CacheSize(count, size)

    def _files(self) -> Iterator[Path]:
        yield from self.folder.glob("??/*.json")

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.json"


def _users_folder() -> Path:
    if folder := os.environ.get(FOLDER_VARIABLE):
        return Path(folder)
    return cache_folder() / "executions"
