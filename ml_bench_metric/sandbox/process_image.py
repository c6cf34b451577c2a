"""A folder that plays the part of an image: its fingerprint, and a copy of one of its repositories."""

from __future__ import annotations

import hashlib
import os
import posixpath
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from ml_bench_metric.sandbox.protocol import SandboxError
from ml_bench_metric.tasks import WORKSPACE

_IGNORED = "__pycache__"
"""Python makes such folders where files are merely imported; nobody's result depends on them."""


_READ_BYTES = 1 << 20


def fingerprint(folder: Path, *parts: str) -> str:
    """Return `sha256:…` over the files of a folder, and over what else decides on a candidate.

    Raises:
        SandboxError: a file cannot be read.
    """
    digest = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape"))
    for path, facts in _files(folder):
        digest.update(f"\0{path.relative_to(folder)}\0{stat.S_IMODE(facts.st_mode):o}\0".encode("utf-8", "replace"))
        try:
            if stat.S_ISLNK(facts.st_mode):
                digest.update(os.fsencode(path.readlink()))
            elif stat.S_ISREG(facts.st_mode):
                with path.open("rb") as file:
                    while data := file.read(_READ_BYTES):
                        digest.update(data)
        except OSError as error:
            raise SandboxError(f"{path} cannot be read: {error.strerror or error}") from error
    return f"sha256:{digest.hexdigest()}"


def stamp(folder: Path) -> str:
    """Return what changes whenever a file of a folder does. Quick: nothing is read.

    A file's times can be set by whoever may write it, except for that of the last change to it or its facts (ctime).
    """
    digest = hashlib.sha256()
    for path, facts in _files(folder):
        digest.update(f"{path.relative_to(folder)}\0{facts.st_mode} {facts.st_size} {facts.st_ctime_ns}\0".encode())
    return digest.hexdigest()


def copy_repository(image: Path, working_folder: str, into: Path) -> Path:
    """Copy the repository that has a working folder, and return that folder's place in the copy.

    Args:
        image: the folder that plays the part of an image.
        working_folder: as in `Job`, below `/workspace`.
        into: the copy is made there.

    Raises:
        SandboxError: there is no such folder, or it cannot be copied.
    """
    relative = posixpath.relpath(working_folder, WORKSPACE)
    repository = relative.partition("/")[0]
    if repository in ("..", ".") or not (image / relative).is_dir():
        raise SandboxError(f"the sandbox cannot run a candidate: {image} has nothing for {working_folder}")
    try:
        shutil.copytree(image / repository, into / repository, symlinks=True, ignore=shutil.ignore_patterns(_IGNORED))
    except (OSError, shutil.Error) as error:
        raise SandboxError(f"{image / repository} could not be copied: {error}") from error
    folder = into / relative
    if not folder.resolve().is_relative_to((into / repository).resolve()):
        raise SandboxError(f"the sandbox cannot run a candidate: {working_folder} is a link out of its repository")
    return folder


def give_to(folder: Path, uid: int) -> None:
    """Make a user the owner of a folder and of everything in it, following no link."""
    os.chown(folder, uid, uid, follow_symlinks=False)
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            os.chown(Path(parent, name), uid, uid, follow_symlinks=False)


def _files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield everything in a folder with its facts, in the order of the names."""
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != _IGNORED)
        for name in sorted((*folders, *files)):
            path = Path(parent, name)
            try:
                yield path, path.lstat()
            except OSError as error:
                raise SandboxError(f"{path} cannot be looked at: {error.strerror or error}") from error
