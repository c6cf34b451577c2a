"""Places: the sandboxes that the hostile suite can be pointed at, by name. A new one is a function in `PLACES`."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pytest

from ml_bench_metric.sandbox.docker_engine import list_containers
from ml_bench_metric.sandbox.docker_sandbox import DockerPrepared, DockerSandbox
from ml_bench_metric.sandbox.protocol import Prepared, Sandbox
from tests.hostile.case import Ending

_GONE_SECONDS = 90.0
"""How long the removal in the background may take: a candidate may have left hundreds of thousands of files."""


class Trace(Protocol):
    """What one candidate's sandbox occupies on the host; taken before the candidate runs."""

    def left(self) -> list[str]:
        """Wait for the removal, and return what is still there."""


@dataclass(frozen=True)
class Difference:
    """What a place cannot stop."""

    why: str
    ending: Ending | None = None
    """How the case ends there; None: it must not be run there at all."""


@dataclass(frozen=True)
class Place:
    """A sandbox under test."""

    sandbox: Sandbox
    image: str
    trace: Callable[[Prepared], Trace]
    folder: str = "/workspace/tiny-gan"
    differences: Mapping[str, Difference] = field(default_factory=dict)
    """Names of cases that it cannot stop -> what happens instead."""


class DockerTrace:
    """Everything that the engine and the kernel have of one container."""

    def __init__(self, sandbox: DockerSandbox, prepared: Prepared) -> None:
        """Look at a container that waits for its candidate."""
        assert isinstance(prepared, DockerPrepared)
        self._sandbox, self._container = sandbox, prepared._container
        facts = sandbox.client.api.inspect_container(self._container)
        layer = (facts["GraphDriver"]["Data"] or {}).get("UpperDir", "")
        process = Path(f"/proc/{facts['State']['Pid']}")
        files = [Path(facts[name]).parent for name in ("HostnamePath", "ResolvConfPath") if facts[name]]
        # An engine elsewhere, or one that hides its folders, has nothing here that could be looked at.
        self._paths = [
            path for path in [*([Path(layer).parent] if layer else []), *files, *_cgroups(process)] if path.exists()
        ]

    def left(self) -> list[str]:
        """See `Trace.left`."""
        deadline = time.monotonic() + _GONE_SECONDS
        while (found := self._found()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return found

    def _found(self) -> list[str]:
        found = [f"container {self._container}" for one in self._records() if one == self._container]
        if found:
            # The rest goes last, and looking for it costs.
            return found
        found += [str(path) for path in self._paths if path.exists()]
        for process in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                # Not by its namespace: the kernel gives the number of one that is gone to the next.
                if process.name.isdigit() and self._container in (process / "cgroup").read_text(encoding="utf-8"):
                    found.append(f"process {process.name}")
        mounts = Path("/proc/self/mountinfo")
        if mounts.exists() and self._container in mounts.read_text(encoding="utf-8", errors="replace"):
            found.append("a mount")
        return found

    def _records(self) -> list[str]:
        return [str(record["Id"]) for record in list_containers(self._sandbox.client)]


def _cgroups(process: Path) -> list[Path]:
    """Return the folders of a process's cgroups, v1 and v2."""
    mount = Path("/sys/fs/cgroup")
    found: list[Path] = []
    try:
        lines = (process / "cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        folder = controllers.removeprefix("name=").split(",")[0]
        if path != "/":
            found.append(mount / folder / path.lstrip("/"))
    return found


@contextmanager
def _docker(request: pytest.FixtureRequest) -> Iterator[Place]:
    image = request.getfixturevalue("sample_image")
    with DockerSandbox() as sandbox:
        networks = _networks(sandbox)
        yield Place(sandbox, image, lambda prepared: DockerTrace(sandbox, prepared))
        assert _networks(sandbox) <= networks or not _ours(sandbox, networks), "a network was left"


def _networks(sandbox: DockerSandbox) -> set[str]:
    return {str(network["Id"]) for network in sandbox.client.api.networks()}


def _ours(sandbox: DockerSandbox, before: set[str]) -> set[str]:
    """Return new networks that bear a label of this project; those of other users of the engine do not."""
    return {
        str(network["Id"])
        for network in sandbox.client.api.networks()
        if network["Id"] not in before and any("ml-bench" in label for label in network.get("Labels") or ())
    }


@contextmanager
def _process(request: pytest.FixtureRequest) -> Iterator[Place]:
    from tests.hostile.process_place import process_place

    with process_place() as place:
        yield place


@contextmanager
def _podman(request: pytest.FixtureRequest) -> Iterator[Place]:
    from tests.hostile.podman_place import podman_place

    with podman_place(request.getfixturevalue("sample_image")) as place:
        yield place


PLACES: dict[str, Callable[[pytest.FixtureRequest], AbstractContextManager[Place]]] = {
    "docker": _docker,
    "podman": _podman,
    "process": _process,
}
"""Name for `--sandbox` -> what opens it and closes it again."""
