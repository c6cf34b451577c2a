"""A folder of files as an image gets it: the same bytes whoever owns it, whenever and wherever it was checked out."""

from __future__ import annotations

import contextlib
import hashlib
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from ml_bench_metric.environments.images import content_digest
from ml_bench_metric.environments.recipe import RecipeError

OWNER = 1000
"""uid and gid of the user `candidate`."""

_MTIME = 1577836800
"""2020-01-01: files older than 1980 break tools that make zip files."""


def fingerprint(folder: Path) -> str:
    """Return the SHA-256 (hex) over a folder's names, contents, links and executable bits, Python's caches left out."""
    entries = []
    for path in _entries(folder, caches=False):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            entries.append((name, "link", path.readlink().as_posix()))
        elif path.is_dir():
            entries.append((name, "folder", ""))
        else:
            kind = "program" if path.stat().st_mode & 0o100 else "file"
            entries.append((name, kind, hashlib.sha256(path.read_bytes()).hexdigest()))
    return content_digest(entries)


@contextlib.contextmanager
def packed(folder: Path, directory: str, *, caches: bool) -> Iterator[IO[bytes]]:
    """Yield a tar archive of a folder, at its beginning. All in it belongs to `candidate`.

    Args:
        folder: what to pack.
        directory: its name in the archive.
        caches: whether folders `__pycache__` are packed. A commit may have them, and is left as it is; in a folder of
            this machine they come and go as its files are run.
    """
    with tempfile.TemporaryFile() as buffer:
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
            archive.add(folder, directory, recursive=False, filter=_normalised)
            for path in _entries(folder, caches=caches):
                archive.add(
                    path, f"{directory}/{path.relative_to(folder).as_posix()}", recursive=False, filter=_normalised
                )
        buffer.seek(0)
        yield buffer


@contextlib.contextmanager
def packed_file(file: Path, name: str) -> Iterator[IO[bytes]]:
    """Yield a tar archive of one file, at its beginning. It belongs to `candidate`."""
    with tempfile.TemporaryFile() as buffer:
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
            archive.add(file, name, filter=_normalised)
        buffer.seek(0)
        yield buffer


def _entries(folder: Path, *, caches: bool) -> Iterator[Path]:
    """Yield what is below a folder, in a fixed order."""
    for path in sorted(folder.iterdir()):
        if path.name == "__pycache__" and not caches:
            continue
        if not (path.is_symlink() or path.is_dir() or path.is_file()):
            raise RecipeError(f"{path}: is neither a file, a folder nor a link; an image cannot have it")
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from _entries(path, caches=caches)


def _normalised(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = OWNER
    member.uname = member.gname = ""
    member.mtime = _MTIME
    member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
    return member
