"""Reading an overlay's archive: nothing that it says is believed, and what is not a plain change is refused."""

from __future__ import annotations

import copy
import posixpath
import tarfile
from collections.abc import Callable, Iterator
from typing import IO

from ml_bench_metric.sandbox.overlay import Overlay
from ml_bench_metric.sandbox.protocol import SandboxError

MAX_DELETED = 200_000
"""How many paths an overlay may remove."""

_PLAIN = (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE)
_BLOCK = tarfile.BLOCKSIZE
_READ_BYTES = 1 << 20

# A folder that its own user cannot enter would make the sandbox fail instead of the candidate.
_OWNERS_FOLDER, _OWNERS_FILE = 0o700, 0o400


class Entry:
    """A file, folder or symbolic link of an archive."""

    def __init__(self, facts: tarfile.TarInfo, open_file: Callable[[], IO[bytes] | None]) -> None:
        """Keep what is believed of a member.

        Args:
            facts: its name (from the root, in its plainest spelling), kind, size, mode and time; of the mode, the bits
                that give nobody another user's rights.
            open_file: returns a regular file's content.
        """
        self.facts = facts
        self._open_file = open_file

    @property
    def path(self) -> str:
        """Its absolute path."""
        return f"/{self.facts.name}"

    def blocks(self) -> Iterator[bytes]:
        """Yield a regular file's content.

        Raises:
            SandboxError: the archive ends before it does.
        """
        left = self.facts.size
        file = self._open_file()
        while left and file is not None:
            data = file.read(min(left, _READ_BYTES))
            if not data:
                raise SandboxError(f"the overlay's archive is damaged: {self.path} is not whole")
            left -= len(data)
            yield data


def entries(overlay: Overlay) -> Iterator[Entry]:
    """Yield the entries of an overlay's archive, in its order, each after it was looked at.

    Raises:
        SandboxError: the archive cannot be read, or has something else than files, folders and symbolic links; a name
            that is absolute, leads upwards or is there twice; or something below a link or a file of its own.
    """
    kinds: dict[str, bytes] = {}
    parents: set[str] = set()
    try:
        # Uncompressed only: what is small on disk must be small here too.
        with tarfile.open(overlay.archive, "r:", encoding="utf-8", errors="surrogateescape") as archive:
            for member in archive:
                name = _plain_name(member)
                if name == ".":
                    continue
                above = [name[:at] for at, char in enumerate(name) if char == "/"]
                for folder in above:
                    if kinds.get(folder, tarfile.DIRTYPE) != tarfile.DIRTYPE:
                        _refuse(name, f"lies below /{folder}, which is no folder in the same archive")
                if name in kinds:
                    _refuse(name, "is there twice")
                if name in parents and not member.isdir():
                    _refuse(name, "is no folder, and has something below it")
                kinds[name] = tarfile.REGTYPE if member.isreg() else member.type
                parents.update(above)
                yield Entry(_believed(member, name), _opener(archive, member))
    except (OSError, tarfile.TarError, ValueError) as error:
        raise SandboxError(f"the overlay's archive {overlay.archive} cannot be read: {error}") from error


def _opener(archive: tarfile.TarFile, member: tarfile.TarInfo) -> Callable[[], IO[bytes] | None]:
    return lambda: archive.extractfile(member) if member.isreg() else None


def check(overlay: Overlay) -> None:
    """Look whether an overlay can be applied at all.

    Raises:
        SandboxError: it cannot; see `entries`. Or a path that it removes is not absolute and plain.
    """
    if len(overlay.deleted) > MAX_DELETED:
        raise SandboxError(f"the overlay removes {len(overlay.deleted):,} paths; {MAX_DELETED:,} are possible")
    for path in overlay.deleted:
        if not path.startswith("/") or path == "/" or posixpath.normpath(path) != path or "\0" in path:
            raise SandboxError(f"the overlay removes {path!r}, which is no plain absolute path")
    for _ in entries(overlay):
        pass


def stream(overlay: Overlay, user: str) -> Iterator[bytes]:
    """Yield a tar file of an overlay's entries, all of which belong to one user.

    Args:
        overlay: that was checked.
        user: `uid:gid`, by number.

    Raises:
        SandboxError: see `entries`.
    """
    uid, _, gid = user.partition(":")
    for entry in entries(overlay):
        facts = entry.facts
        facts.uid, facts.gid = int(uid), int(gid or uid)
        yield facts.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
        yield from entry.blocks()
        yield bytes(-facts.size % _BLOCK)
    yield bytes(2 * _BLOCK)


def _plain_name(member: tarfile.TarInfo) -> str:
    name = member.name
    if name.startswith("/"):
        _refuse(name, "is named from the root with a slash")
    if ".." in name.split("/") or "\0" in name or "\0" in member.linkname:
        _refuse(name, "has a name that leads elsewhere")
    if member.type not in _PLAIN or member.issparse():
        _refuse(name, "is no file, folder or symbolic link")
    if not member.isdir() and posixpath.normpath(name) == ".":
        _refuse(name, "has no name")
    return posixpath.normpath(name)


def _refuse(name: str, reason: str) -> None:
    raise SandboxError(f"the overlay is refused: {name!r} {reason}")


def _believed(member: tarfile.TarInfo, name: str) -> tarfile.TarInfo:
    """Return a member without extended headers, names of users and set-id bits."""
    facts = copy.copy(member)
    facts.name = name
    facts.type = tarfile.REGTYPE if member.isreg() else member.type
    facts.size = member.size if member.isreg() else 0
    facts.mode = (member.mode & 0o777) | (_OWNERS_FOLDER if member.isdir() else _OWNERS_FILE)
    facts.mtime = max(0, int(member.mtime))
    facts.uname = facts.gname = ""
    facts.pax_headers = {}
    if not member.issym():
        facts.linkname = ""
    return facts
