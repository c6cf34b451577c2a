"""Unpacking the archives of strangers: nothing lands outside the folder, and nothing grows without end."""

from __future__ import annotations

import bz2
import contextlib
import errno
import gzip
import lzma
import os
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Literal, cast

from ml_bench_metric.printable import printable

GROWTH = 100
"""How many times larger than the archive its content may be. Deflate can come to 1032, with nothing but zeros."""
SMALLEST_LIMIT = 256 << 20
"""But this many bytes are allowed in any case."""
ENTRIES = 3_000_000
"""How many members and folders there may be; ImageNet has 1.4 million."""

_CHUNK = 1 << 18
_LONGEST_READ = 1 << 20
"""No honest header is longer, and `tarfile` takes each into memory whole."""
_GZIP = b"\x1f\x8b"
_LONGEST_LINK = 4096
_LONGEST_NAME = 200
_IGNORED = "__MACOSX"
"""A folder that the archiver of macOS adds, with nothing in it that other systems use."""

_OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
_DAMAGES = (
    *(tarfile.TarError, zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError),
    # Python's readers let these through where an archive is made to harm, or of a kind that they do not know.
    *(ValueError, OverflowError, RecursionError, NotImplementedError, RuntimeError, KeyError, MemoryError),
)


class UnpackError(Exception):
    """An archive cannot be unpacked. The message says why."""


def unpack(archive: Path, kind: Literal["zip", "tar"], folder: Path) -> None:
    """Unpack an archive into an empty folder. A tar may be compressed by gzip or bzip2.

    Of the members' modes only the right to run a file is kept. Links stay links if they lead to somewhere within.

    Raises:
        OSError: the disk is full or broken.
        UnpackError: the archive is damaged, empty, no such archive, or encrypted; or a member would lie outside the
            folder, is a device, or a link that leads out; or there is more in it than `GROWTH` and `ENTRIES` allow.
    """
    content = _Content(folder, _limit(archive))
    with _explained(kind):
        if kind == "zip":
            _unzip(archive, content)
        else:
            _untar(archive, content)
        content.finish()


def gunzip(archive: Path, file: Path) -> None:
    """Decompress a gzip file into a new file.

    Raises:
        OSError: the disk is full or broken.
        UnpackError: it is damaged, empty or no gzip file, or more comes out than `GROWTH` allows.
    """
    left = _limit(archive)
    with _explained("gzip"), gzip.open(archive) as source, file.open("xb") as target:
        while chunk := source.read(_CHUNK):
            left -= len(chunk)
            if left < 0:
                raise UnpackError(_too_much(_limit(archive)))
            target.write(chunk)
        if not target.tell():
            raise UnpackError("nothing is in it")


def is_a(kind: Literal["none", "zip", "tar", "gz"], file: Path) -> bool:
    """Return whether a file seems to be of a kind, without unpacking it; any file is `none`."""
    if kind == "none":
        return True
    if kind == "zip":
        return zipfile.is_zipfile(file)
    with file.open("rb") as opened:
        compressed = opened.read(len(_GZIP)) == _GZIP
    return compressed if kind == "gz" else tarfile.is_tarfile(file)


class _Content:
    """The folder that an archive is unpacked into."""

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder = folder
        self._limit = self._left = limit
        self._entries = 0
        self._links: dict[Path, str] = {}
        """Path -> target. They are made last, so that nothing is ever written through one."""

    def add_folder(self, name: str) -> None:
        self._make(self._place(name))

    def add_file(self, name: str, size: int, source: IO[bytes], *, program: bool) -> None:
        self._require_room(size)
        path = self._new(name)
        with path.open("xb") as file:
            while chunk := source.read(_CHUNK):
                self._left -= len(chunk)
                self._require_room(0)
                file.write(chunk)
        if program:
            path.chmod(path.stat().st_mode | 0o111)

    def add_copy(self, name: str, of: str) -> None:
        """Add what a tar calls a hard link: another name of a member before it."""
        source = self._folder.joinpath(*_parts(of))
        if source in self._links or not source.is_file():
            raise UnpackError(f"member {_quoted(name)} is a link to {_quoted(of)}, which is no file before it")
        if source == self._folder.joinpath(*_parts(name)):
            return
        with source.open("rb") as file:
            mode = source.stat().st_mode
            self.add_file(name, source.stat().st_size, file, program=bool(mode & 0o100))

    def add_link(self, name: str, target: str) -> None:
        self._links[self._new(name)] = target

    def finish(self) -> None:
        """Make the links."""
        if not self._entries:
            raise UnpackError("the archive is empty")
        for path, target in self._links.items():
            path.symlink_to(target)
        # Whoever takes out the one folder of an archive must not take out links that lead back.
        root = Path(os.path.realpath(inner_folder(self._folder) or self._folder))
        for path, target in self._links.items():
            found = Path(os.path.realpath(path))
            if target.startswith("/") or not (found == root or root in found.parents):
                name = path.relative_to(self._folder).as_posix()
                raise UnpackError(f"member {_quoted(name)} is a link to {_quoted(target)}, which leads out")

    def _new(self, name: str) -> Path:
        path = self._place(name)
        self._make(path.parent)
        self._links.pop(path, None)
        path.unlink(missing_ok=True)  # a later member of the same name counts
        return path

    def _place(self, name: str) -> Path:
        self._count()
        return self._folder.joinpath(*_parts(name))

    def _make(self, folder: Path) -> None:
        if not folder.is_dir():
            self._count()
            self._make(folder.parent)
            folder.mkdir()

    def _count(self) -> None:
        self._entries += 1
        if self._entries > ENTRIES:
            raise UnpackError(f"it has more than {ENTRIES} members")

    def _require_room(self, size: int) -> None:
        if size > self._left or self._left < 0:
            raise UnpackError(_too_much(self._limit))


def inner_folder(folder: Path) -> Path | None:
    """Return the only thing in a folder, if that is a folder."""
    entries = list(folder.iterdir())
    only = entries[0] if len(entries) == 1 else None
    return only if only is not None and only.is_dir() and not only.is_symlink() else None


def _unzip(archive: Path, content: _Content) -> None:
    with zipfile.ZipFile(archive) as source:
        for member in source.infolist():
            if member.filename.partition("/")[0] == _IGNORED:
                continue
            mode = member.external_attr >> 16 if member.create_system == 3 else 0  # 3: made by a Unix
            kind = stat.S_IFMT(mode)
            if member.flag_bits & 1:
                raise UnpackError(f"member {_quoted(member.filename)} is encrypted")
            if member.is_dir():
                content.add_folder(member.filename)
            elif kind == stat.S_IFLNK:
                with source.open(member) as file:
                    target = file.read(_LONGEST_LINK)
                content.add_link(member.filename, os.fsdecode(target))
            elif kind not in (0, stat.S_IFREG):
                raise UnpackError(f"member {_quoted(member.filename)} is a device or the like")
            else:
                with source.open(member) as file:
                    content.add_file(member.filename, member.file_size, file, program=bool(mode & 0o100))


def _untar(archive: Path, content: _Content) -> None:
    with _opened(archive) as file, tarfile.open(fileobj=cast(IO[bytes], _Stream(file)), mode="r:") as source:
        for member in source:
            if member.isdir():
                content.add_folder(member.name)
            elif member.issym():
                content.add_link(member.name, member.linkname)
            elif member.islnk():
                content.add_copy(member.name, member.linkname)
            elif member.isfile():
                with cast(IO[bytes], source.extractfile(member)) as data:
                    content.add_file(member.name, member.size, data, program=bool(member.mode & 0o100))
            else:
                raise UnpackError(f"member {_quoted(member.name)} is a device or the like")


class _Stream:
    """What `tarfile` reads, without the means to make it read gigabytes into memory at once."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def read(self, size: int) -> bytes:
        if size > _LONGEST_READ:
            raise UnpackError("it has a header of more than a megabyte, as no honest one does")
        return self._file.read(size)

    def seek(self, offset: int) -> int:
        return self._file.seek(offset)

    def tell(self) -> int:
        return self._file.tell()


def _opened(archive: Path) -> IO[bytes]:
    with archive.open("rb") as file:
        magic = file.read(3)
    if magic.startswith(_GZIP):
        return cast(IO[bytes], gzip.open(archive))
    if magic == b"BZh":
        return cast(IO[bytes], bz2.open(archive))
    return archive.open("rb")


def _parts(name: str) -> tuple[str, ...]:
    """Return the parts of a member's path.

    Raises:
        UnpackError: it may lead out of the folder.
    """
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\0" in name:
        raise UnpackError(f"member {_quoted(name)} would lie outside the folder")
    return path.parts


def _limit(archive: Path) -> int:
    return max(SMALLEST_LIMIT, GROWTH * archive.stat().st_size)


def _too_much(limit: int) -> str:
    return f"more than {limit} bytes come out of it, which is too much for its size"


def _quoted(name: str) -> str:
    text = printable(name)
    return repr(text if len(text) <= _LONGEST_NAME else text[:_LONGEST_NAME] + "…")


@contextlib.contextmanager
def _explained(kind: str) -> Iterator[None]:
    """Turn what Python's readers raise into `UnpackError`."""
    try:
        yield
    except UnpackError:
        raise
    except OSError as error:
        if error.errno is None:  # how the readers of gzip and bzip2 say that their input is damaged
            raise UnpackError(f"it is no {kind} file, or damaged ({_words(error)})") from error
        if error.errno in _OF_THE_DISK:
            raise
        raise UnpackError(f"{error.strerror}: {printable(str(error.filename or ''))[-_LONGEST_NAME:]}") from error
    except _DAMAGES as error:
        raise UnpackError(f"it is no {kind} file, or damaged ({_words(error)})") from error


def _words(error: BaseException) -> str:
    return printable(" ".join(str(error).split()))[:_LONGEST_NAME] or type(error).__name__
