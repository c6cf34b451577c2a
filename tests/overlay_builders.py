"""Overlays for tests: archives with whatever members, good and bad."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable
from pathlib import Path

from ml_bench_metric.sandbox.overlay import Overlay


def member(name: str, content: bytes | str = b"", mode: int = 0o644) -> tuple[tarfile.TarInfo, bytes]:
    """A file, which the archive says is root's."""
    data = content.encode() if isinstance(content, str) else content
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), mode
    return info, data


def folder(name: str, mode: int = 0o755) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.mode = tarfile.DIRTYPE, mode
    return info, b""


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tuple[tarfile.TarInfo, bytes]:
    """A link, or with another kind whatever that is."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info, b""


def overlay(path: Path, members: Iterable[tuple[tarfile.TarInfo, bytes]] = (), deleted: Iterable[str] = ()) -> Overlay:
    """Write an archive, and return its overlay."""
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        for info, data in members:
            archive.addfile(info, io.BytesIO(data))
    return Overlay.of(path, deleted)
