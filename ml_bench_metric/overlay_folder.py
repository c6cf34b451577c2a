"""A folder as a candidate: its `run.sh`, and an overlay of everything else in it.

The folder's files go into the task's folder. Equal contents make equal archives, whatever their times and owners.
"""

from __future__ import annotations

import os
import stat
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ml_bench_metric.sandbox.limits import GIB, MIB
from ml_bench_metric.sandbox.overlay import Overlay
from ml_bench_metric.tasks import SCRIPT

MAX_BYTES = 1 * GIB
"""What the files of a folder may have together."""

MAX_FILES = 20_000
"""How many files, folders and links it may have."""

MAX_SCRIPT_BYTES = 32 * MIB
"""Size of its `run.sh`."""

_TIME = 946_684_800
"""Of every file in an archive, 1 January 2000: times say nothing about a candidate."""


class FolderError(ValueError):
    """A folder is no candidate; the message says what is wrong with which part of it, and what to do."""


@dataclass(frozen=True)
class FolderCandidate:
    """What was read of a folder."""

    text: str
    """Of its `run.sh`."""
    overlay: Overlay | None
    """Everything else; None where there is nothing else."""


def read_folder(folder: Path, task_folder: str) -> FolderCandidate:
    """Return the candidate that a folder is.

    The overlay's archive is kept until this process ends.

    Args:
        folder: with `run.sh` at its top. Symbolic links in it stay links, and are not followed.
        task_folder: absolute folder in the sandbox that its files go into.

    Raises:
        FolderError: it has no `run.sh`, has something else than files, folders and links, is too large, or cannot be
            read.
    """
    try:
        text = _script(folder / SCRIPT)
        members = list(_members(folder))
        if not members:
            return FolderCandidate(text, None)
        return FolderCandidate(text, _packed(members, task_folder.strip("/")))
    except OSError as error:
        raise FolderError(f"{error.filename or folder} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        if isinstance(error, FolderError):
            raise
        # No path has a NUL.
        raise FolderError(f"{str(folder)!r} is no path: {error}") from error


def _script(path: Path) -> str:
    if not path.parent.is_dir():
        raise FolderError(f"{path.parent} is no folder; give one that has {SCRIPT}")
    try:
        facts = path.lstat()
    except FileNotFoundError:
        raise FolderError(f"{path.parent} has no {SCRIPT} at its top; it is what runs") from None
    if not stat.S_ISREG(facts.st_mode):
        raise FolderError(f"{path} is {_kind(facts)}, and must be a file")
    if facts.st_size > MAX_SCRIPT_BYTES:
        raise FolderError(f"{path} has {facts.st_size:,} bytes; {MAX_SCRIPT_BYTES:,} are possible")
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise FolderError(f"{path} is not UTF-8 (byte {error.start + 1}); save it as UTF-8") from error


def _members(folder: Path) -> Iterator[tuple[Path, str, os.stat_result]]:
    """Yield all of a folder but its `run.sh`, with its name in it, folders before what they hold, in a fixed order."""
    count = size = 0
    waiting = [("", folder)]
    while waiting:
        prefix, place = waiting.pop()
        with os.scandir(place) as scan:
            # In the order of the bytes: that of characters is another one for names that are no UTF-8.
            found = sorted(scan, key=lambda entry: os.fsencode(entry.name))
        inner = []
        for entry in found:
            name, path, facts = prefix + entry.name, Path(entry.path), entry.stat(follow_symlinks=False)
            if name == SCRIPT:
                continue
            if not (stat.S_ISREG(facts.st_mode) or stat.S_ISDIR(facts.st_mode) or stat.S_ISLNK(facts.st_mode)):
                raise FolderError(f"{path} is {_kind(facts)}; only files, folders and links can be brought along")
            count += 1
            size += facts.st_size if stat.S_ISREG(facts.st_mode) else 0
            if count > MAX_FILES:
                raise FolderError(f"{folder} has more than {MAX_FILES:,} files; leave out what {SCRIPT} does not need")
            if size > MAX_BYTES:
                raise FolderError(
                    f"{folder} has more than {MAX_BYTES:,} bytes, at {path}; leave out what {SCRIPT} does not need"
                )
            if stat.S_ISDIR(facts.st_mode):
                inner.append((f"{name}/", path))
            yield path, name, facts
        waiting.extend(reversed(inner))


def _packed(members: list[tuple[Path, str, os.stat_result]], root: str) -> Overlay:
    handle, name = tempfile.mkstemp(suffix=".tar", dir=_place())
    with (
        os.fdopen(handle, "wb") as file,
        tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT, errors="surrogateescape") as archive,
    ):
        for path, inner, facts in members:
            member = tarfile.TarInfo(f"{root}/{inner}")
            member.mtime = _TIME
            member.mode = 0o755 if facts.st_mode & stat.S_IXUSR or stat.S_ISDIR(facts.st_mode) else 0o644
            if stat.S_ISDIR(facts.st_mode):
                member.type = tarfile.DIRTYPE
                archive.addfile(member)
            elif stat.S_ISLNK(facts.st_mode):
                member.type, member.linkname, member.mode = tarfile.SYMTYPE, str(path.readlink()), 0o777
                archive.addfile(member)
            else:
                member.size = facts.st_size
                # Neither a link nor a pipe that has taken its place since it was looked at.
                opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
                with os.fdopen(opened, "rb") as content:
                    archive.addfile(member, content)
    # By its digest: of equal folders one archive is kept.
    overlay = Overlay.of(Path(name))
    kept = _place() / f"{overlay.digest}.tar"
    Path(name).replace(kept)
    return Overlay(kept, overlay.deleted, overlay.digest)


@cache
def _place() -> Path:
    folder = tempfile.TemporaryDirectory(prefix="ml-bench-overlays-")
    _kept.append(folder)
    return Path(folder.name)


_kept: list[tempfile.TemporaryDirectory[str]] = []
"""Removed when this process ends."""


def _kind(facts: os.stat_result) -> str:
    for is_one, words in (
        (stat.S_ISLNK, "a symbolic link"),
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISFIFO, "a named pipe"),
        (stat.S_ISSOCK, "a socket"),
    ):
        if is_one(facts.st_mode):
            return words
    return "a device"
