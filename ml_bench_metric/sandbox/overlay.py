"""Overlay: files that a candidate brings along, beside its program: what an agent has left, or a folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Overlay:
    """What is changed in a fresh sandbox before its candidate starts. Equal digests mean equal changes."""

    archive: Path
    """Tar file of files, folders and symbolic links, named from the root without the leading slash. All of them become
    the candidate's own, whoever the archive says they belong to."""
    deleted: tuple[str, ...]
    """Absolute paths that are removed first, sorted."""
    digest: str
    """SHA-256 (hex) over both."""
