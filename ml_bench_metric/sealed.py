"""JSON lines that tell whether they are whole: each carries a checksum of its other fields as its last field.

They stay JSON for every other reader.
"""

from __future__ import annotations

import hashlib
import re

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


def _checksum(record: str) -> str:
    return hashlib.sha256(record.encode()).hexdigest()[:16]
