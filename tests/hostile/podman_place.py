"""Podman as a place of the hostile suite."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ml_bench_metric.sandbox.docker_engine import list_containers
from ml_bench_metric.sandbox.docker_sandbox import DockerPrepared, DockerSandbox
from ml_bench_metric.sandbox.protocol import Prepared
from tests.hostile.case import exits
from tests.hostile.places import Difference, Place
from tests.podman_engine import missing, podman_service, skip

_GONE_SECONDS = 90.0

DIFFERENCES: Mapping[str, Difference] = {
    "makes-namespaces": Difference("its filter of system calls lets a candidate make a user namespace", exits(9)),
    "looks-for-keys": Difference("its filter of system calls lets a candidate have a keyring of its own", exits(9)),
}
"""Of Podman 4.3 with the filter of Debian 12 (`/usr/share/containers/seccomp.json`)."""


class PodmanTrace:
    """Everything that Podman and the kernel have of one container."""

    def __init__(self, sandbox: DockerSandbox, prepared: Prepared) -> None:
        """Look at a container that waits for its candidate."""
        assert isinstance(prepared, DockerPrepared)
        self._sandbox, self._container = sandbox, prepared._container
        facts = sandbox.client.api.inspect_container(self._container)
        self._layer = Path(facts["GraphDriver"]["Data"]["UpperDir"]).parent

    def left(self) -> list[str]:
        """See `Trace.left`."""
        deadline = time.monotonic() + _GONE_SECONDS
        while (found := self._found()) and time.monotonic() < deadline:
            time.sleep(0.1)
        return found

    def _found(self) -> list[str]:
        found = [str(one["Id"]) for one in list_containers(self._sandbox.client) if one["Id"] == self._container]
        if found:
            # The rest goes last, and looking for it costs.
            return found
        found = [str(self._layer)] if self._layer.exists() else []
        found += [str(path) for path in Path("/sys/fs/cgroup").glob(f"*/libpod_parent/libpod-{self._container}")]
        for process in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if process.name.isdigit() and self._container in (process / "cgroup").read_text(encoding="utf-8"):
                    found.append(f"process {process.name}")
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
        return [*found, *(["a mount"] if self._layer.name in mounts else [])]


@contextlib.contextmanager
def podman_place(docker_image: str) -> Iterator[Place]:
    """Open the place."""
    if reason := missing():
        skip(reason)
    with podman_service(docker_image) as podman, pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", podman.host)
        with DockerSandbox() as sandbox:
            yield Place(sandbox, podman.image, lambda prepared: PodmanTrace(sandbox, prepared), differences=DIFFERENCES)
