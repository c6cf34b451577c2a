"""Data that can be made again, kept in the user's cache: a file each, found by a digest of all that decides on it.

Any number of processes may use it at a time: a file appears whole under its name or not at all, and one that was
damaged on the disk is not there.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from contextlib import suppress
from pathlib import Path

from ml_bench_metric.cache_folder import cache_folder

_DIGEST_BYTES = 32
_DAY_SECONDS = 86_400.0

TEXTS = "repository-texts"
INDICES = "retrieval-indices"
KINDS = (TEXTS, INDICES)
"""The folders that making prompts fills."""


class DigestCache:
    """A folder of such data. It may be slow or full, but never wrong."""

    def __init__(self, kind: str, folder: Path | None = None) -> None:
        """Know where it is; nothing is made before something is stored.

        Args:
            kind: name of the folder, such as `repository-texts`.
            folder: in which it lies; None for the user's own cache.
        """
        self.folder = (folder or cache_folder()) / kind

    def get(self, *parts: object) -> bytes | None:
        """Return what was stored under JSON-like values that decide on it; None if there is nothing that is whole."""
        try:
            stored = self._path(parts).read_bytes()
        except OSError:
            return None
        data = stored[_DIGEST_BYTES:]
        return data if hashlib.sha256(data).digest() == stored[:_DIGEST_BYTES] else None

    def put(self, data: bytes, *parts: object) -> None:
        """Store data under such values; do nothing where it cannot be written."""
        path = self._path(parts)
        draft = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}.new")
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                draft.write_bytes(hashlib.sha256(data).digest() + data)
                draft.replace(path)
            finally:
                draft.unlink(missing_ok=True)

    def size(self) -> tuple[int, int]:
        """Return how many files are stored, and how many bytes."""
        sizes = [path.stat().st_size for path in self._files()]
        return len(sizes), sum(sizes)

    def clear(self, older_than_days: float = 0.0) -> tuple[int, int]:
        """Remove what was stored before so many days, all of it for 0; return number and bytes of what was removed.

        Raises:
            OSError: a file cannot be removed.
        """
        before = time.time() - older_than_days * _DAY_SECONDS
        old = [(path, facts.st_size) for path in self._files() if (facts := path.stat()).st_mtime <= before]
        for path, _ in old:
            path.unlink()
        return len(old), sum(size for _, size in old)

    def _files(self) -> list[Path]:
        return [path for path in self.folder.glob("*") if path.is_file()]

    def _path(self, parts: tuple[object, ...]) -> Path:
        return self.folder / hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
