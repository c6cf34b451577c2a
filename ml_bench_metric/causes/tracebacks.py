"""Python's exceptions in an output, with where they were raised."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ml_bench_metric.causes.complaints import PROGRAM_FILE

Place = Literal["program", "repository", "library"]
"""Where a frame of a traceback is."""

_FRAME = re.compile(r'\s*File "([^"]{1,500})", line \d+')
_BOXED_FRAME = re.compile(r"\s*│ (\S{1,300}\.py):\d+ in ")
_BOXED_SOURCE = re.compile(r"\s*│ ❱ *\d+ ([^\n]*)")
_EXCEPTION = re.compile(
    r"\s{0,4}(?:[A-Za-z_]\w*\.){0,12}([A-Z]\w*(?:Error|Exception|Interrupt|Exit|Failure|Timeout))(?::[ \t]*(.*))?$"
)
_CHAINED = re.compile(r"\s*(?:During handling of the above exception|The above exception was the direct cause)")
_LIBRARY = re.compile(r"/(?:site|dist)-packages/|/lib(?:64)?/python\d|/usr/lib/|^<frozen|/(?:mini|ana)conda\d?/")


@dataclass(frozen=True)
class RaisedException:
    """An exception that was printed."""

    line: str
    """Its class and message, as printed."""
    kind: str
    """Its class, without the module."""
    message: str
    files: tuple[str, ...] = ()
    """The files of its frames, the last call last."""
    source: str = ""
    """The line of code in its last frame, as far as the traceback shows it."""
    chained: bool = False
    """Whether it was raised while an earlier one was handled."""

    @property
    def place(self) -> Place | None:
        """Where its last frame outside libraries is: `library` where all are in some, None where it has no frame."""
        places = [_place_of(file) for file in self.files]
        return next((place for place in reversed(places) if place != "library"), "library" if places else None)

    @property
    def raised_in(self) -> Place | None:
        """Where its last frame is; None where it has none."""
        return _place_of(self.files[-1]) if self.files else None


def _place_of(file: str) -> Place:
    if PROGRAM_FILE in file or file in ("<string>", "<stdin>"):
        return "program"
    return "library" if _LIBRARY.search(file) else "repository"


def exceptions(lines: Sequence[str]) -> Iterator[tuple[int, RaisedException]]:
    """Yield the exceptions that an output shows, also in the boxes of `rich`, each with the number of its line."""
    files: list[str] = []
    source, chained = "", False
    for number, line in enumerate(lines):
        if match := _FRAME.match(line) or _BOXED_FRAME.match(line):
            files.append(match[1])
            source = ""
        elif match := _BOXED_SOURCE.match(line):
            source = match[1].strip("│ ")
        elif _CHAINED.match(line):
            files, chained = [], True
        elif "Traceback (most recent call last)" in line:
            files, source = [], ""
        elif match := _EXCEPTION.match(line):
            yield number, RaisedException(line.strip(), match[1], match[2] or "", tuple(files), source, chained)
            files, source, chained = [], "", False
        elif files and not source and not line.lstrip().startswith("│"):
            source = line.strip()
