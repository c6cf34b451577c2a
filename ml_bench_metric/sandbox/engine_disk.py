"""The free space of the engine's own disk, as far as it lies on this machine."""

from __future__ import annotations

import os

_FULL_BYTES = 16 << 20
_FULL_FILES = 64
"""With less room than this a disk counts as full: what did not fit may have been larger than what is left."""


class EngineDisk:
    """Looks at the disk that holds the engine's containers, and remembers whether it was full."""

    def __init__(self, folder: str) -> None:
        """Look nowhere yet.

        Args:
            folder: where the engine keeps its data; empty, or not on this machine, where that cannot be looked at.
        """
        self._folder = folder
        self.was_full = False

    def look(self) -> None:
        """Look once. To be called every now and then: who meets a full disk may have made room on it at its end."""
        if not self._folder or self.was_full:
            return
        try:
            found = os.statvfs(self._folder)
        except OSError:
            return
        # A file system that does not count its files says that it has none at all.
        self.was_full = found.f_bavail * found.f_frsize < _FULL_BYTES or bool(
            found.f_files and found.f_favail < _FULL_FILES
        )
