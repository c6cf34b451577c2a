"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

DRAFT_SUFFIX = ".new"
"""What is added to a file's name while it is written."""


def write_whole(path: Path, text: str) -> None:
    """Write a file so that a reader finds the old one or the new one, never a half, whatever ends this process.

    Raises:
        OSError: it cannot be written; the old one is as it was.
    """
    draft = path.with_name(path.name + DRAFT_SUFFIX)
    with draft.open("w", encoding="utf-8", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
