"""JSON lines that tell whether they are whole: each carries a checksum of its other fields as its last field.

They stay JSON for every other reader.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

_SEALED = re.compile(r'(?s)(\{.*), "checksum": "([0-9a-f]{16})"\}\n?')


class SealBroken(ValueError):  # noqa: N818 - it names the situation
    """A line has no checksum, or not its own: it was damaged, or changed by hand."""


def seal(record: str) -> str:
    """Return a JSON object, not empty and on one line, with its checksum: the first 16 hex digits of its SHA-256."""
    return f'{record[:-1]}, "checksum": "{_checksum(record)}"}}'


def unseal(line: str) -> str:
    """Return the JSON object without its checksum.

    Raises:
        SealBroken: there is none, or it is not that of the rest.
    """
    found = _SEALED.fullmatch(line)
    if found is None:
        raise SealBroken("it has no checksum")
    record = found[1] + "}"
    if _checksum(record) != found[2]:
        raise SealBroken("its checksum is not that of its content")
    return record


def cut_torn_line(path: Path) -> None:
    """Remove a last line without its end, where there is one: the process was ended while it wrote.

    Raises:
        OSError: the file cannot be read or written.
    """
    if not path.exists():
        return
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        position = size
        while position > 0:
            begin = max(0, position - 65536)
            file.seek(begin)
            newline = file.read(position - begin).rfind(b"\n")
            if newline >= 0:
                file.truncate(begin + newline + 1)
                return
            position = begin
        file.truncate(0)


def _checksum(record: str) -> str:
    return hashlib.sha256(record.encode()).hexdigest()[:16]
