"""Where the sentences of a file are: what retrieval counts by."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ml_bench_solvers.text_files import is_readme

Span = tuple[int, int]
"""Where a part of a text begins and ends, in characters."""

_PROSE = (".md", ".markdown", ".mdown", ".rst", ".txt", ".adoc", ".org", ".rdoc", ".tex", ".html", ".htm")
_LINE = re.compile(r"[^\n]+")
_WORD = re.compile(r"[^\W_]")
_FENCE = re.compile(r"\s*(```|~~~)")
_ITEM = re.compile(r"\s*([-*+•]|\d+[.)])\s")
_ALONE = re.compile(r"( {4}|\t|\s*(#|\||>>>|\$ |\.\. |:\w|[=~^-]{3,}\s*$))")
"""Lines that neither go on nor are gone on with: code, headings, rows of tables, directives, rules."""
_END = re.compile(
    r"(?:(?<!\be\.g)(?<!\bi\.e)[.!?][\"'\u201d\u2019)\]`*_]*\s+(?=[^\sa-z])|[\u3002\uff01\uff1f]\s*)", re.ASCII
)
"""The end of a sentence: what follows does not go on in small letters, so `e.g.` and `vs.` mostly do not count.
The last three signs are the full stop, exclamation and question mark of Chinese and Japanese."""


def sentences(path: str, text: str) -> Iterator[Span]:
    """Yield the spans of a file's sentences, in order.

    In prose (READMEs, `.md`, `.rst`, `.txt` and the like) lines of a paragraph or list item belong together, and a
    sentence ends with it or at its full stop; each line of code, a heading or a table's row is one. In other files each
    line is one. What has no letter and no digit is none.

    Args:
        path: of the file; its name decides whether it is prose.
        text: of the file.
    """
    if not (is_readme(path) or path.lower().endswith(_PROSE)):
        yield from (match.span() for match in _LINE.finditer(text) if _WORD.search(match[0]))
        return
    for start, end, is_prose in _blocks(text):
        last = start
        for found in _END.finditer(text, start, end) if is_prose else ():
            if _WORD.search(text, last, found.end()):
                yield last, last + len(text[last : found.end()].rstrip())
                last = found.end()
        if _WORD.search(text, last, end):
            yield last, end


def _blocks(text: str) -> Iterator[tuple[int, int, bool]]:
    """Yield the spans over whose ends no sentence goes, and whether they can have several."""
    start = end = -1
    in_code = False
    for match in _LINE.finditer(text):
        line = match[0]
        fence = _FENCE.match(line) is not None
        follows = start >= 0 and match.start() == end + 1
        alone = in_code or fence or (_ALONE.match(line) is not None and not (follows and line.startswith(" ")))
        if start >= 0 and (alone or not follows or not line.strip() or _ITEM.match(line)):
            yield start, end, True
            start = -1
        if fence:
            in_code = not in_code
        elif alone:
            yield *match.span(), False
        elif line.strip():
            start, end = (match.start() if start < 0 else start), match.end()
    if start >= 0:
        yield start, end, True
