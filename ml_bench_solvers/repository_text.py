"""The text of a repository as a model is shown it: text files one behind the other, each under a line with its path."""

from __future__ import annotations

import bisect
import hashlib
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from ml_bench_solvers.text_files import TextFile


@dataclass(frozen=True)
class Section:
    """A file's part of the text: offsets in characters."""

    path: str
    header: int
    """Where its line with the path begins."""
    start: int
    """Where the file's own text begins."""
    end: int


@dataclass(frozen=True)
class RepositoryText:
    """Text files of a repository, in the order in which they are shown."""

    files: tuple[TextFile, ...]

    @cached_property
    def text(self) -> str:
        """All of it; empty where the repository has no text."""
        return "".join(f"{_header(file)}{file.text}\n\n" for file in self.files)

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of the text."""
        return hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()

    def sections(self) -> Iterator[Section]:
        """Yield the files' parts of the text, in order."""
        offset = 0
        for file in self.files:
            start = offset + len(_header(file))
            end = start + len(file.text)
            yield Section(file.path, offset, start, end)
            offset = end + 2

    def path_at(self, offset: int) -> str:
        """Return the path of the file to whose part a place of the text belongs; empty for an empty repository."""
        place = bisect.bisect_right(self._headers, offset) - 1
        return self.files[place].path if place >= 0 else ""

    @cached_property
    def _headers(self) -> list[int]:
        return [section.header for section in self.sections()]

    def packed(self) -> bytes:
        """Return what `unpacked` makes the same value of."""
        return zlib.compress(json.dumps([(file.path, file.text) for file in self.files]).encode(), 1)


def unpacked(data: bytes) -> RepositoryText:
    """Return the value that `RepositoryText.packed` was called on."""
    return RepositoryText(tuple(TextFile(path, text) for path, text in json.loads(zlib.decompress(data))))


def _header(file: TextFile) -> str:
    return f"===== {file.path} =====\n"
