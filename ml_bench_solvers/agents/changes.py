"""What an agent has changed, taken out of its container by the engine, and made into an overlay.

The container is not trusted: nothing in it is executed for this, and it is to stand still meanwhile. What is taken are
files, folders and symbolic links below some roots. Hard links become files, set-id bits go, and what is neither file,
folder nor link (devices, pipes, sockets) is left out and listed, as is everything that was changed elsewhere.
"""

from __future__ import annotations

import contextlib
import io
import json
import posixpath
import re
import stat
import tarfile
import tempfile
from base64 import b64decode
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from pydantic import Field

from ml_bench_metric.results import Text
from ml_bench_metric.sandbox.docker_engine import one_line
from ml_bench_metric.sandbox.docker_time import engine_seconds
from ml_bench_metric.sandbox.execution import Record
from ml_bench_metric.sandbox.overlay import Overlay
from ml_bench_solvers.agents.workspace import WorkspaceError

if TYPE_CHECKING:
    from docker import DockerClient

OWNER = 1000
"""uid and gid of what an overlay brings."""

_SEPARATELY = 64
"""Up to so many changed files and folders are asked for one by one; beyond, the roots are read whole, and filtered."""
_LISTED = 200
"""How many paths that were left out are named."""
_DIFF_BYTES = 64 << 20
"""How long the engine's list of changes may be. Lists of that length name some half a million files."""
_SECONDS = 300.0
"""How long the engine may be silent."""
_ENGINES_OWN = re.compile(
    r"/\.dockerenv|/(usr/)?s?bin/docker-init|/etc/(hosts|hostname|resolv\.conf|mtab)|/(dev|proc|sys|run)/.*"
)
"""What the engine itself makes in every container."""
_INTERPRETER = re.compile(r"/opt/env/(pyvenv\.cfg|bin/python[0-9.]*)")
"""What runs Python in a bare image. An agent may install what it wants, and may not choose what executes it."""
_AROUND_INTERPRETER = ("/opt/env", "/opt/env/bin")
_GO_FOLDER, _GO_LINK = 1 << 31, 1 << 27
_GO_SPECIAL = 1 << 26 | 1 << 25 | 1 << 24 | 1 << 21 | 1 << 19
"""Bits of a file mode as the engine tells it: folder, symbolic link; device, pipe, socket, character device, other."""


class ChangeLimits(Record):
    """How much an agent may leave. More is its own fault: nothing of it is judged then."""

    bytes: int = Field(default=512 << 20, ge=1)
    """Of all files together."""
    files: int = Field(default=20_000, ge=1)
    """Files, folders and links, changed or deleted."""


BARE_LIMITS = ChangeLimits(bytes=4 << 30, files=100_000)
"""By default, where an agent leaves an environment of its own. Packages of some deep learning have gigabytes."""


class ChangesTooLarge(Exception):  # noqa: N818 - it names the situation
    """An agent has left more than it may. The message says what there is too much of."""


class Changes(Record):
    """What was taken out of a container, as a record of a run tells it."""

    files: int = Field(default=0, ge=0)
    """Entries of the archive: files, folders and links."""
    bytes: int = Field(default=0, ge=0)
    """Of all files together."""
    deleted: tuple[Text, ...] = ()
    """Absolute paths that are gone, sorted."""
    digest: str = ""
    """Of the overlay; empty where nothing was changed."""
    dropped: tuple[Text, ...] = ()
    """What was changed and left out, each as `<path>: <why>`; the first 200."""
    dropped_count: int = Field(default=0, ge=0)
    """How many there were in all."""

    def overlay(self, archive: Path) -> Overlay | None:
        """Return the overlay whose archive is a file; None where there is none."""
        return Overlay(archive=archive, deleted=self.deleted, digest=self.digest) if self.digest else None


@dataclass
class _Entry:
    """One file, folder or link that is to be in the archive."""

    kind: bytes
    mode: int
    mtime: int
    link: str = ""
    offset: int = 0
    size: int = 0


class _Missing(Exception):  # noqa: N818 - it names the situation
    """The engine finds nothing at a path."""


def take_changes(
    client: DockerClient, container: str, roots: Sequence[str], archive: Path, limits: ChangeLimits
) -> Changes:
    """Write an archive of what was changed below some folders of a container, and return what it holds.

    Equal states of the container give equal archives. No archive is left where nothing was changed.

    Args:
        client: of the engine.
        container: which does not run any more.
        roots: absolute paths of folders, none below another.
        archive: file to be written.
        limits: of what may be taken.

    Raises:
        ChangesTooLarge: there is more.
        WorkspaceError: the engine failed.
        OSError: the archive cannot be written.
    """
    try:
        with tempfile.TemporaryFile(dir=archive.parent) as store:
            taking = _Taking(client, container, tuple(roots), limits, store)
            taking.take()
            return taking.write(archive)
    except tarfile.TarError as error:
        raise WorkspaceError(f"the engine sent an archive that cannot be read: {error}") from error


class _Taking:
    """Takes changes out of one container."""

    def __init__(
        self, client: DockerClient, container: str, roots: tuple[str, ...], limits: ChangeLimits, store: IO[bytes]
    ) -> None:
        self._api: Any = client.api
        self._container = container
        self._roots = roots
        self._limits = limits
        self._store = store
        self._entries: dict[str, _Entry] = {}
        self._deleted: set[str] = set()
        self._dropped: dict[str, str] = {}
        self._bytes = 0

    def take(self) -> None:
        changed = self._diff()
        inside = {path: kind for path, kind in changed.items() if self._root_of(path) is not None}
        self._drop_outside(changed, inside)
        for root in self._roots:
            self._take_root(root, {path: kind for path, kind in inside.items() if _is_in(path, root)})
        self._drop_what_lies_below_no_folder()
        self._keep_interpreter()

    def write(self, archive: Path) -> Changes:
        """Write the archive, in the order of the names."""
        deleted = tuple(sorted(map(_text, self._deleted)))
        digest = ""
        if self._entries or deleted:
            with archive.open("wb") as file, tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
                for path, entry in sorted(self._entries.items()):
                    tar.addfile(_member(path, entry), _Part(self._store, entry.offset, entry.size))
            digest = Overlay.of(archive, deleted).digest
        dropped = sorted(self._dropped.items())
        return Changes(
            files=len(self._entries),
            bytes=self._bytes,
            deleted=deleted,
            digest=digest,
            dropped=tuple(_text(f"{path}: {why}") for path, why in dropped[:_LISTED]),
            dropped_count=len(dropped),
        )

    def _diff(self) -> dict[str, int]:
        """Return path -> 0 changed, 1 added, 2 deleted, of everything in the container."""
        found = bytearray()
        try:
            answer = self._get("changes", {})
        except WorkspaceError as error:
            if self._is_slow(error):
                raise ChangesTooLarge(
                    f"the engine needs more than {_SECONDS:.0f} s to list what was changed"
                ) from error
            raise
        try:
            with _engine("listing the changes"):
                for chunk in answer.iter_content(1 << 20):
                    found += chunk
                    if len(found) > _DIFF_BYTES:
                        raise ChangesTooLarge(f"the list of changed files is longer than {_DIFF_BYTES >> 20} MiB")
        finally:
            answer.close()
        return {str(one["Path"]): int(one["Kind"]) for one in json.loads(found or b"null") or ()}

    def _is_slow(self, error: WorkspaceError) -> bool:
        """Whether an engine that answers has taken too long over one thing: it must be large."""
        from docker.errors import DockerException
        from requests.exceptions import ReadTimeout, RequestException

        if not isinstance(error.__cause__, ReadTimeout):
            return False
        try:
            return bool(self._api.ping())
        except (DockerException, RequestException):
            return False

    def _get(self, what: str, params: Mapping[str, str], *, head: bool = False) -> Any:
        """Ask the engine about the container, and return its answer, to be closed.

        Raises:
            _Missing: there is nothing there.
            ChangesTooLarge: folders lie so deep that the engine cannot look at them.
            WorkspaceError: it failed.
        """
        url = self._api._url("/containers/{0}/" + what, self._container)
        with _engine("reading the agent's files"):
            ask = self._api.head if head else self._api.get
            answer = ask(url, params=params, timeout=_SECONDS, **({} if head else {"stream": True}))
        if answer.status_code == 404 and what == "archive":
            answer.close()
            raise _Missing
        if answer.status_code >= 400:
            said = answer.text if not head else answer.reason
            answer.close()
            if "name too long" in said:
                raise ChangesTooLarge("there are folders too deep for a path")
            raise WorkspaceError(f"the engine does not give the agent's files: {said.strip()}")
        return answer

    def _stat(self, path: str) -> tuple[int, int] | None:
        """Return the engine's mode of what lies at a path, itself where it is a link, and its time; None for none."""
        try:
            answer = self._get("archive", {"path": path}, head=True)
        except _Missing:
            return None
        with contextlib.closing(answer):
            facts = json.loads(b64decode(answer.headers["X-Docker-Container-Path-Stat"]))
            return int(facts["mode"]), max(0, int(engine_seconds(facts["mtime"])))

    def _root_of(self, path: str) -> str | None:
        return next((root for root in self._roots if _is_in(path, root)), None)

    def _drop_outside(self, changed: Mapping[str, int], inside: Mapping[str, int]) -> None:
        above = {parent for path in changed for parent in _parents(path)}
        for path, kind in changed.items():
            # A folder in which something was changed is listed too, and says nothing by itself.
            if path in inside or _ENGINES_OWN.fullmatch(path):
                continue
            if not (kind == 0 and path in above):
                self._dropped[path] = "deleted outside" if kind == 2 else "outside"

    def _take_root(self, root: str, changed: Mapping[str, int]) -> None:
        if not changed:
            return
        facts = self._stat(root)
        if facts is None or not facts[0] & _GO_FOLDER:
            # The folder itself was moved or replaced. A link in its place could lead anywhere.
            self._dropped[root] = "no folder any more"
            self._deleted.add(root)
            return
        self._require(len(changed))
        # A folder with changed entries may be new, in the place of a file; others have another time or mode, no more.
        folders = {parent for path in changed for parent in _parents(path)}
        # Below what is new, or was put in place of something that was deleted, everything is new.
        whole = {path for path, kind in changed.items() if kind in (1, 2)}
        wanted = [
            path
            for path, kind in sorted(changed.items())
            if not (kind == 0 and path in folders) and not any(parent in whole for parent in _parents(path))
        ]
        seen: set[str] = set()
        if len(wanted) <= _SEPARATELY:
            for path in sorted(folders & changed.keys()):
                if path != root and path not in whole and not any(parent in whole for parent in _parents(path)):
                    self._take_folder(path, seen)
            for path in wanted:
                self._take_path(path, changed, whole, seen)
        else:
            self._read(root, changed, whole, seen, folders)
        for path, kind in changed.items():
            if kind == 2:
                self._deleted.add(path)
            elif path not in seen and path not in folders and path not in self._dropped:
                self._dropped.setdefault(path, "neither file, folder nor link")
        # What is below something deleted is deleted with it.
        self._deleted = {
            path for path in self._deleted if not any(parent in self._deleted for parent in _parents(path))
        }
        self._require(len(self._entries) + len(self._deleted))

    def _take_folder(self, path: str, seen: set[str]) -> None:
        """Take a folder in which something was changed, by itself: it may have been put in place of a file."""
        facts = self._stat(path)
        if facts is not None and facts[0] & _GO_FOLDER:
            seen.add(path)
            self._entries[path] = _Entry(tarfile.DIRTYPE, facts[0] & 0o777 | 0o700, facts[1])

    def _take_path(self, path: str, changed: Mapping[str, int], whole: set[str], seen: set[str]) -> None:
        facts = self._stat(path)
        if facts is None:
            return
        mode, _ = facts
        if mode & _GO_SPECIAL and not mode & _GO_LINK:
            return
        if mode & _GO_FOLDER and path not in whole:
            seen.add(path)
            return
        self._read(path, changed, whole, seen)

    def _read(
        self, path: str, changed: Mapping[str, int], whole: set[str], seen: set[str], folders: Collection[str] = ()
    ) -> None:
        """Take from a path, and from what lies below it, what was changed."""
        try:
            answer = self._get("archive", {"path": path})
        except _Missing:
            return
        above = posixpath.dirname(path)
        with (
            # What is not read to its end is not waited for.
            contextlib.closing(answer),
            _engine("reading the agent's files"),
            tarfile.open(fileobj=_Stream(answer), mode="r|", errors="surrogateescape") as archive,
        ):
            for member in archive:
                found = posixpath.join(above, member.name.rstrip("/"))
                if posixpath.normpath(found) != found or not _is_in(found, path):
                    raise WorkspaceError(f"the engine sent {member.name!r} when asked for {path!r}")
                new = any(parent in whole for parent in (found, *_parents(found)))
                if not new and changed.get(found) is None:
                    continue
                seen.add(found)
                if found == self._root_of(found) or (member.isdir() and not new and found not in folders):
                    continue
                self._take_member(found, member, archive)

    def _take_member(self, path: str, member: tarfile.TarInfo, archive: tarfile.TarFile) -> None:
        mode, mtime = stat.S_IMODE(member.mode) & 0o777, max(0, int(member.mtime))
        if member.isdir():
            entry = _Entry(tarfile.DIRTYPE, mode | 0o700, mtime)
        elif member.issym():
            entry = _Entry(tarfile.SYMTYPE, 0o777, mtime, link=member.linkname)
        elif member.islnk():
            original = self._entries.get(posixpath.join(self._link_base(path, member), member.linkname))
            if original is None or original.kind != tarfile.REGTYPE:
                self._dropped[path] = "a hard link to something that was not taken"
                return
            entry = _Entry(tarfile.REGTYPE, original.mode, original.mtime, offset=original.offset, size=original.size)
            self._count(entry.size)
        elif member.isreg():
            self._count(member.size)
            entry = _Entry(tarfile.REGTYPE, mode, mtime, offset=self._store.seek(0, io.SEEK_END), size=member.size)
            content = archive.extractfile(member)
            assert content is not None
            while chunk := content.read(1 << 20):
                self._store.write(chunk)
        else:
            self._dropped[path] = "neither file, folder nor link"
            return
        self._entries[path] = entry
        self._require(len(self._entries))

    @staticmethod
    def _link_base(path: str, member: tarfile.TarInfo) -> str:
        """Return the folder from which the names of an archive count, given one of its members and its path."""
        return path[: len(path) - len(member.name.rstrip("/"))].rstrip("/") or "/"

    def _count(self, size: int) -> None:
        self._bytes += size
        if self._bytes > self._limits.bytes:
            raise ChangesTooLarge(f"the changed files have more than {self._limits.bytes} bytes")

    def _require(self, number: int) -> None:
        if number > self._limits.files:
            raise ChangesTooLarge(f"more than {self._limits.files} files, folders and links were changed")

    def _drop_what_lies_below_no_folder(self) -> None:
        """Leave out what lies below a link: whoever unpacks the archive would follow it, wherever it leads."""
        for path in list(self._entries):
            for parent in _parents(path):
                entry = self._entries.get(parent)
                if entry is not None and entry.kind != tarfile.DIRTYPE:
                    del self._entries[path]
                    self._dropped[path] = "below a link"
                    break

    def _keep_interpreter(self) -> None:
        """Leave out what would put something else in the place of the environment's interpreter, or take it away."""
        why = "the interpreter stays as it was"
        for path, entry in list(self._entries.items()):
            replaced = path in _AROUND_INTERPRETER and entry.kind != tarfile.DIRTYPE
            if replaced or any(_INTERPRETER.fullmatch(part) for part in (path, *_parents(path))):
                del self._entries[path]
                self._dropped[path] = why
        for path in list(self._deleted):
            if path in _AROUND_INTERPRETER or _INTERPRETER.fullmatch(path):
                self._deleted.discard(path)
                self._dropped[path] = why


def read_script(archive: Path, path: str, limit: int = 1 << 20) -> str | None:
    """Return the text of a file of an overlay's archive; None where it has none at that path, or a larger one.

    Args:
        archive: of the overlay.
        path: absolute.
        limit: in bytes.
    """
    if not archive.exists():
        return None
    with tarfile.open(archive) as tar:
        try:
            member = tar.getmember(path.lstrip("/"))
        except KeyError:
            return None
        if not member.isreg() or member.size > limit:
            return None
        content = tar.extractfile(member)
        assert content is not None
        return content.read().decode("utf-8", "replace")


def _member(path: str, entry: _Entry) -> tarfile.TarInfo:
    member = tarfile.TarInfo(path.lstrip("/"))
    member.type, member.mode, member.mtime, member.linkname = entry.kind, entry.mode, entry.mtime, entry.link
    member.uid = member.gid = OWNER
    member.size = entry.size
    return member


def _parents(path: str) -> Iterator[str]:
    """Yield the folders that a path lies in, the root left out."""
    while (path := posixpath.dirname(path)) not in ("", "/"):
        yield path


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + "/")


def _text(path: str) -> str:
    """Return a path as a record can have it: a byte that is no UTF-8 as U+FFFD."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


@contextlib.contextmanager
def _engine(doing: str) -> Iterator[None]:
    """Turn what the HTTP client raises into the sandbox's error."""
    from docker.errors import DockerException
    from requests.exceptions import RequestException
    from urllib3.exceptions import HTTPError

    try:
        yield
    except (DockerException, RequestException, HTTPError) as error:
        raise WorkspaceError(f"the engine failed while {doing}: {one_line(error)}") from error


class _Stream(io.RawIOBase):
    """The body of an answer as a file that is read once."""

    def __init__(self, answer: Any) -> None:
        self._chunks = answer.iter_content(1 << 18)
        self._left = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        parts, length = [], 0
        while size < 0 or length < size:
            if not self._left:
                self._left = next(self._chunks, b"")
                if not self._left:
                    break
            part = self._left if size < 0 else self._left[: size - length]
            self._left = self._left[len(part) :]
            parts.append(part)
            length += len(part)
        return b"".join(parts)


class _Part(io.RawIOBase):
    """A part of a file as a file of its own."""

    def __init__(self, file: IO[bytes], offset: int, size: int) -> None:
        self._file = file
        self._position, self._end = offset, offset + size

    def read(self, size: int = -1) -> bytes:
        left = self._end - self._position
        self._file.seek(self._position)
        data = self._file.read(left if size < 0 else min(size, left))
        self._position += len(data)
        return data
