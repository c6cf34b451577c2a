"""Locked requirements: every package with its version and the hashes of its files, as pip takes them.

A lock is made of the `requirements.in` beside it; environments/README.md says how.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_PIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9._,-]+\])?==[A-Za-z0-9.+!_-]+")
_HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


class RequirementsError(ValueError):
    """A requirement is not pinned, or has no hash; the message names the line."""


def check_lock(text: str) -> None:
    """Look whether every requirement is pinned as `name==version` and has a SHA-256.

    Raises:
        RequirementsError: one is not; the message names the line and the way out.
    """
    for number, line in _logical_lines(text):
        requirement, marker, hashes = _parts(line)
        if not _PIN.fullmatch(requirement):
            raise RequirementsError(f"line {number}: {requirement!r} is not pinned; write name==version")
        if not hashes or not all(_HASH.fullmatch(word) for word in hashes):
            raise RequirementsError(
                f"line {number}: {requirement} {marker}has no --hash=sha256:…; lock the file with "
                "`uv pip compile --generate-hashes`"
            )


def normalised(text: str) -> tuple[str, ...]:
    """Return the requirements without comments and layout: what decides what is installed."""
    return tuple(" ".join(line.split()) for _, line in _logical_lines(text))


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the number of the first line, and the whole, of what backslashes join."""
    number, parts = 0, list[str]()
    for index, line in enumerate(text.splitlines(), 1):
        stripped = re.sub(r"(^|\s)#.*", "", line).strip()
        if not parts:
            number = index
        parts.append(stripped.removesuffix("\\").strip())
        if not stripped.endswith("\\"):
            if whole := " ".join(part for part in parts if part):
                yield number, whole
            parts = []
    if whole := " ".join(part for part in parts if part):
        yield number, whole


def _parts(line: str) -> tuple[str, str, list[str]]:
    """Return the requirement, its marker and its hashes."""
    words = line.split()
    hashes = [word for word in words if word.startswith("--")]
    requirement, _, marker = " ".join(word for word in words if not word.startswith("--")).partition(";")
    return requirement.strip(), f"({marker.strip()}) " if marker else "", hashes
