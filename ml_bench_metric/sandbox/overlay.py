"""Overlay: files that a candidate brings along, beside its program: what an agent has left, or a folder."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_READ_BYTES = 1 << 20


@dataclass(frozen=True)
class Overlay:
    """What is changed in a fresh sandbox before its candidate starts. Equal digests mean equal changes.

    It is no part of what the candidate writes: `Limits.disk_bytes` counts from there on. Whoever makes one limits its
    size. In `/tmp`, which is made anew for every candidate, nothing of it is seen.
    """

    archive: Path
    """Tar file of files, folders and symbolic links, named from the root without the leading slash. All of them become
    the candidate's own, whoever the archive says they belong to."""
    deleted: tuple[str, ...]
    """Absolute paths that are removed first, sorted."""
    digest: str
    """SHA-256 (hex) over both."""

    @classmethod
    def of(cls, archive: Path, deleted: Iterable[str] = ()) -> Overlay:
        """Return the overlay of an archive, and of the paths that are removed first.

        Raises:
            OSError: the archive cannot be read.
        """
        removed = tuple(sorted(deleted))
        digest = hashlib.sha256()
        for path in removed:
            digest.update(path.encode("utf-8", "surrogateescape") + b"\0")
        digest.update(b"\0")
        with archive.open("rb") as file:
            while data := file.read(_READ_BYTES):
                digest.update(data)
        return cls(archive, removed, digest.hexdigest())
