"""Baits: things of the host that no candidate may reach, and whether one did."""

from __future__ import annotations

import os
import secrets
import select
import shutil
import socket
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path

ENVIRONMENT = "ML_BENCH_HOSTILE_SECRET"
"""Environment variable of the harness that holds the secret."""


class Baits:
    """A secret in the harness's environment and in a file that anybody may read; sockets that anybody may reach."""

    def __init__(self) -> None:
        """Lay them out."""
        self._lock = threading.Lock()
        self.secret = secrets.token_hex(16)
        # A name of its own: several suites of one process may have theirs.
        self._variable = f"{ENVIRONMENT}_{self.secret[:8]}"
        os.environ[self._variable] = self.secret
        self.folder = Path(tempfile.mkdtemp(prefix="ml-bench-bait-"))
        self.folder.chmod(0o777)
        self.file = self.folder / "secret"
        self.file.write_text(self.secret, encoding="ascii")
        self.file.chmod(0o666)
        self.abstract = f"ml-bench-bait-{secrets.token_hex(8)}"
        self._sockets = [_listening(socket.AF_INET, ("127.0.0.1", 0))]
        self.port = int(self._sockets[0].getsockname()[1])
        self._sockets += [
            _listening(socket.AF_INET6, ("::1", self.port)),
            _listening(socket.AF_UNIX, "\0" + self.abstract),
            _listening(socket.AF_UNIX, str(self.folder / "socket")),
        ]
        (self.folder / "socket").chmod(0o777)

    def variables(self) -> Mapping[str, str]:
        """Return what candidates are told: where the baits are, not the secret."""
        return {
            "BAIT_FOLDER": str(self.folder),
            "BAIT_PORT": str(self.port),
            "BAIT_ABSTRACT": self.abstract,
            "PYTHONIOENCODING": "utf-8",
        }

    def touched(self) -> list[str]:
        """Return which ones a candidate reached, and lay them out again."""
        with self._lock:
            reached = []
            for one in select.select(self._sockets, [], [], 0)[0]:
                one.accept()[0].close()
                reached.append(f"socket {one.getsockname()!r}")
            for path in self.folder.iterdir():
                if path.name not in ("secret", "socket"):
                    reached.append(f"{path} was made")
                    path.unlink()
            if self.file.read_text(encoding="ascii") != self.secret:
                reached.append(f"{self.file} was changed")
                self.file.write_text(self.secret, encoding="ascii")
            return reached

    def remove(self) -> None:
        """Take all of them away."""
        for one in self._sockets:
            one.close()
        shutil.rmtree(self.folder)
        del os.environ[self._variable]


def _listening(family: socket.AddressFamily, address: tuple[str, int] | str) -> socket.socket:
    made = socket.socket(family)
    made.bind(address)
    made.listen()
    return made
