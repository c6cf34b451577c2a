"""Where a file falls apart into chunks: parts of bounded length that belong together, such as a function."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable, Iterator

from ml_bench_solvers.sentences import Span

LONGEST = 2_000
"""Characters of a chunk, but for a line that alone is longer."""

_PARAGRAPH = re.compile(r"\S[^\n]*(?:\n[^\n]*\S[^\n]*)*")
_LINE = re.compile(r"[^\n]*\n?")
_WORD = re.compile(r"[^\W_]")


def chunks(path: str, text: str) -> Iterator[Span]:
    """Yield the spans of a file's chunks, in order; each has a letter or a digit.

    Python falls apart by its syntax: functions and classes stay whole where they fit into a chunk, and fall apart into
    what is in them where they do not; comments and decorators stay with what follows. Other files, and what is no
    Python of today, fall apart by paragraphs. Small neighbours are one chunk. Empty lines around a chunk are in none.

    Args:
        path: of the file; `.py` is Python.
        text: of the file, with line ends `\\n`.
    """
    parts = _of_python(text) if path.lower().endswith((".py", ".pyi")) else None
    if parts is None:
        parts = [match.span() for match in _PARAGRAPH.finditer(text)]
    for start, end in _merged(piece for part in parts for piece in _short(text, part)):
        if _WORD.search(text, start, end):
            piece = text[start:end]
            yield end - len(piece.lstrip("\n")), start + len(piece.rstrip())


def _of_python(text: str) -> list[Span] | None:
    """Return the spans of a program's statements, larger ones taken apart; None where it has none, or is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the program, such as an unknown escape
            body = ast.parse(text).body
        lines = [0, *(match.end() for match in _LINE.finditer(text))]
        return list(_statements(body, 0, len(text), lines)) or None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _statements(body: list[ast.stmt], start: int, end: int, lines: list[int]) -> Iterator[Span]:
    """Yield the spans of statements that fill a span: each from the end of the one before it, comments included."""
    for place, statement in enumerate(body):
        last = place == len(body) - 1
        stop = end if last else min(lines[statement.end_lineno or 0], end)
        inner = getattr(statement, "body", None)
        if stop - start > LONGEST and isinstance(inner, list) and inner:
            head = lines[_first_line(inner[0]) - 1]
            if start < head < stop:
                yield start, head
                start = head
            yield from _statements(inner, start, stop, lines)
        elif stop > start:
            yield start, stop
        start = max(start, stop)


def _first_line(statement: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(decorator.lineno for decorator in decorators)])


def _short(text: str, span: Span) -> Iterator[Span]:
    """Yield a span, or its lines where it is too long for a chunk."""
    start, end = span
    if end - start <= LONGEST:
        yield span
        return
    for match in _LINE.finditer(text, start, end):
        if match.end() > match.start():
            yield match.span()


def _merged(spans: Iterable[Span]) -> Iterator[Span]:
    """Yield spans of which neighbours that fit into one chunk have become one."""
    start = end = -1
    for begin, stop in spans:
        if start >= 0 and stop - start > LONGEST:
            yield start, end
            start = -1
        start, end = (begin if start < 0 else start), stop
    if start >= 0:
        yield start, end
