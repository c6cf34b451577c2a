"""The process sandbox as a place of the hostile suite, with what it cannot stop."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import ml_bench_sample
from ml_bench_metric.sandbox.process_host import PYTHON_VARIABLE, left_open
from ml_bench_metric.sandbox.process_prepared import ProcessPrepared
from ml_bench_metric.sandbox.process_sandbox import ALLOW_VARIABLE, ProcessSandbox
from ml_bench_metric.sandbox.protocol import Prepared
from tests.hostile.case import DISK_FULL, exits
from tests.hostile.places import Difference, Place
from tests.public_python import public_python

_GONE_SECONDS = 90.0

_NETWORK = "the network is open, the machine's own services included"
_READABLE = "every file of the machine that is open to all users can be read, and written where that is open to all"

DIFFERENCES: Mapping[str, Difference] = {
    **dict.fromkeys(
        (
            "asks-for-cloud-metadata",
            "asks-for-names",
            "looks-for-the-hosts-loopback",
            "looks-for-ipv6",
            "opens-raw-sockets",
        ),
        Difference(_NETWORK),
    ),
    **dict.fromkeys(
        (
            "reads-the-reference-answer",
            "reads-other-candidates-files",
            "links-symbolically-to-places-outside",
            "links-hard-to-places-outside",
            "deletes-everything-it-can",
        ),
        Difference(_READABLE),
    ),
    "fills-shm": Difference("/dev/shm is the machine's: a file there meets the size of the largest file", exits(1)),
    "memory-bomb-in-tmpfs": Difference("/tmp is the machine's: a file there meets the size of the largest", exits(1)),
    "fills-tmp": Difference("/tmp is the machine's, and what is in it counts as disk", DISK_FULL),
    "looks-for-capabilities": Difference("no system call is filtered, and the user is another", exits(9)),
    "a-million-files-in-tmp": Difference("candidates meet in /tmp: where another one has such files, it fails"),
    "makes-namespaces": Difference("no system call is filtered: it can make itself a user namespace", exits(9)),
    "traces-others": Difference("the machine's processes are visible; they cannot be traced", exits(1)),
    "looks-for-keys": Difference("no system call is filtered: it has a keyring, an empty one", exits(9)),
}
"""For a harness that is root, which gives each candidate a user of its own."""


class ProcessTrace:
    """Everything that the machine has of one candidate."""

    def __init__(self, prepared: Prepared) -> None:
        """Look at a process that waits to become the candidate."""
        assert isinstance(prepared, ProcessPrepared)
        assert prepared._own_uid is not None
        self._uid = prepared._own_uid
        supervisor = Path(f"/proc/{prepared._supervisor.pid}")
        self._paths = [prepared._folder, supervisor, *prepared._cgroup.folders]

    def left(self) -> list[str]:
        """See `Trace.left`."""
        deadline = time.monotonic() + _GONE_SECONDS
        while (found := self._found()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return found

    def _found(self) -> list[str]:
        found = [str(path) for path in [*self._paths, *left_open(self._uid)] if path.exists()]
        for process in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if process.name.isdigit() and process.stat().st_uid == self._uid:
                    found.append(f"process {process.name}")
        return found


@contextlib.contextmanager
def process_place() -> Iterator[Place]:
    """Open the place."""
    if os.geteuid() != 0:
        pytest.skip("as an ordinary user a hostile candidate is that user: SECURITY.md; nothing of this suite holds")
    with pytest.MonkeyPatch.context() as patch, public_python() as python:
        patch.setenv(ALLOW_VARIABLE, "1")
        patch.setenv(PYTHON_VARIABLE, python)
        with ProcessSandbox(warn=lambda line: None) as sandbox:
            yield Place(sandbox, str(ml_bench_sample.repositories()), ProcessTrace, differences=DIFFERENCES)
