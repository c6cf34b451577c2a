"""Text of strangers, made safe to show on a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    r"""Return a text on one line, in which nothing can move the cursor, change colours or reorder what is read.

    Control characters, line breaks, direction marks, lone surrogates and other invisible characters become Python's
    escapes: `\n`, `\x1b`, `\u202e`. The rest is as it was.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
